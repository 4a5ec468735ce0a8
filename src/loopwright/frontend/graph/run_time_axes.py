"""Operators controlled by data: their axes and sizes are inputs known only at run time.

Such an operator is the one with fixed axes on a view, whose extents functions of the runtime compute
(`runtime.vm.steering`) and symbols represent. Values known while importing never come here.
"""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import PrimExpr
from ...relax import op
from ...relax.expr import Expr, PrimValue, ShapeExpr
from .context import Context
from .values import Value, literal


def known_numbers(value: Value) -> list[int] | None:
    """The elements of an integer tensor, if all are numbers."""
    elements = value.elements
    if elements is None or any(isinstance(e, PrimExpr) for e in elements.flat):
        return None
    return [int(e) for e in elements.flat]


def length(value: Value) -> int | None:
    """The number of elements of a vector or scalar, if it is known."""
    count = literal(value.shape[0]) if value.ndim else 1
    return count if isinstance(count, int) else None


def sizes(cx: Context, name: str, count: int, x: Value, *args: Value | Expr) -> list[Any]:
    """Symbols for the integers that `relax.run.NAME` computes from the shape of x and further arguments."""
    shape = ShapeExpr(list(x.shape))
    inputs = [a.expr if isinstance(a, Value) else a for a in args]
    return cx.read(f"relax.run.{name}", count, shape, *inputs, nonnegative=True)


def view(cx: Context, x: Value, dims: list[Any]) -> Value:
    """x in another shape with the same number of elements."""
    if any(literal(d) == 0 for d in dims):  # to the operator a 0 is the input's extent
        return cx.value(op.zeros(ShapeExpr(dims), str(x.dtype)))
    return cx.value(op.reshape(x.expr, ShapeExpr(dims)))


def opened(cx: Context, x: Value, axes: Value, noop: bool) -> tuple[Value, list[int]]:
    """(x with two axes for each of its own, the one to reduce and the other) for a reduction over `axes`;
    the others form the result's shape with keepdims."""
    dims = sizes(cx, "opened_sizes", 2 * x.ndim, x, axes, PrimValue(noop))
    return view(cx, x, dims), list(range(1, 2 * x.ndim, 2))


def closed(cx: Context, reduced: Value | Expr, x: Value, axes: Value, noop: bool) -> Value:
    """A reduction of x as its result without the axes. Raises ValueError where their number, thus
    the result's rank, is not known."""
    count = cx.count(axes, "axes")
    rank = x.ndim if noop and not count else x.ndim - count if count else 0
    return view(cx, cx.value(reduced), sizes(cx, "kept_sizes", rank, x, axes, PrimValue(noop)))


def around(cx: Context, x: Value, axis: Value) -> Value:
    """x of rank 3, the axis in the middle."""
    return view(cx, x, sizes(cx, "sizes_around", 3, x, axis))
