"""Operators by indices: picking, putting, sequences of numbers, order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import PrimExpr
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr
from ..context import Context
from ..run_time_axes import around, known_numbers, view
from ..values import Value, literal
from .shapes import axis_of
from .table import FUNCTIONS, function


@function
def arange(cx: Context, start: Value, limit: Value, delta: Value) -> Any:
    """Numbers from `start`, `delta` apart, before `limit`."""
    parts = (start, limit, delta)
    if all(v.elements is not None or v.constant is not None for v in parts):
        bounds = [
            cx.integers(v, "bound")[0] if v.elements is not None else cx.number(v, "bound")
            for v in parts
        ]
        if isinstance(bounds[2], (int, float)) and bounds[2] == 0:
            raise ValueError(explain("input delta may not be 0"))
        row = cx.value(op.arange(*bounds, dtype=str(start.dtype)))
        count = cx.simplify(row.shape[0])  # sizes are not negative
        return cx.with_dims(row, {0: count} if isinstance(count, PrimExpr) else {})
    exprs = [v.expr for v in parts]
    (count,) = cx.read("relax.run.range_count", 1, *exprs, nonnegative=True)
    kind = str(start.dtype)
    wide = "float32" if start.dtype.is_float and start.dtype.bits < 32 else kind
    first, _, step = (op.astype(op.reshape(v, ShapeExpr([])), wide) for v in exprs)
    numbers = op.astype(cx.emit(op.arange(0, PrimValue(count), 1, "int64")), wide)
    return op.astype(op.add(op.multiply(numbers, step), first), kind)


@function
def take(cx: Context, data: Value, indices: Value, axis: int = 0) -> Any:
    """The elements of an axis at indices; negative ones count from the end."""
    axis = axis_of(axis, data.ndim)
    extent = literal(data.shape[axis])
    if isinstance(extent, int) and indices.constant is not None:
        return op.take(data.expr, from_the_start(cx, indices, extent), axis)
    return op.take(data.expr, indices.expr, axis)


def from_the_start(cx: Context, indices: Value, extent: int, checked: bool = True) -> Any:
    """Indices of which negative ones count from the end, as non-negative ones."""
    constant = indices.constant
    if constant is not None:
        if (
            checked
            and constant.size
            and not (-extent <= constant.min() and constant.max() < extent)
        ):
            what = "an index is out of range"
            raise ValueError(explain(what, got=f"{constant.min()} to {constant.max()} of {extent}"))
        wide = constant.astype(np.int64)  # an extent may be larger than the indices' type
        kind = constant.dtype if extent <= np.iinfo(constant.dtype).max else np.int64
        return cx.constant(np.where(wide < 0, wide + extent, wide).astype(kind))
    kind = str(indices.dtype)
    below = op.astype(op.less(indices.expr, cx.scalar(0, kind)), kind)
    return op.add(indices.expr, op.multiply(below, cx.scalar(extent, kind)))


@function
def gather_nd(cx: Context, data: Value, indices: Value, batch_dims: int = 0) -> Any:
    """The parts of data at indices along its first axes after `batch_dims`."""
    return op.gather_nd(data.expr, indices.expr, batch_dims)


@function
def scatter_nd(
    cx: Context, data: Value, indices: Value, updates: Value, reduction: str = "update"
) -> Any:
    """data with parts replaced, or combined with updates ("add", "mul", "min", "max")."""
    return op.scatter_nd(data.expr, indices.expr, updates.expr, reduction)


@function
def reverse_sequence(
    cx: Context, data: Value, lengths: Value, batch_axis: int = 1, time_axis: int = 0
) -> Any:
    """Each sequence of a batch with its first `length` elements in reverse order."""
    if {batch_axis, time_axis} != {0, 1} or data.ndim < 2:
        what = "batch_axis and time_axis are 0 and 1, in either order"
        raise ValueError(explain(what, got=f"{batch_axis} and {time_axis} for rank {data.ndim}"))

    def spread(values: Any, axis: int) -> Any:
        dims = [data.shape[axis] if i == axis else 1 for i in range(data.ndim)]
        return cx.emit(op.reshape(values, ShapeExpr(dims)))

    number = spread(op.arange(0, data.shape[time_axis], 1, "int64"), time_axis)
    length = spread(op.astype(lengths.expr, "int64"), batch_axis)
    mirrored = op.subtract(op.subtract(length, number), cx.scalar(1, "int64"))
    source = cx.emit(op.where(op.less(number, length), mirrored, number))
    return op.gather_elements(data.expr, op.broadcast_to(source, ShapeExpr(data.shape)), time_axis)


@function
def one_hot(cx: Context, indices: Value, depth: Value, values: Value, axis: int = -1) -> Any:
    """values[1] at each index along a new axis of extent `depth`, values[0] elsewhere."""
    constant = depth.constant
    size = (
        cx.integers(depth, "depth", dims=True, count=1)[0]
        if constant is None
        else int(constant.item())
    )
    if not -indices.ndim - 1 <= axis <= indices.ndim:
        what = "attribute axis is out of range"
        raise ValueError(explain(what, got=f"{axis} for rank {indices.ndim + 1}"))
    if indices.dtype.is_float:
        indices = cx.value(op.astype(indices.expr, "int64"))
    if isinstance(size, int):
        where = from_the_start(cx, indices, size, checked=False)
        lit = op.one_hot(where, PrimValue(True), PrimValue(False), size, axis)
    else:
        where = op.expand_dims(op.astype(indices.expr, "int64"), [axis])
        row = [size if a == axis % (indices.ndim + 1) else 1 for a in range(indices.ndim + 1)]
        numbers = cx.emit(op.reshape(op.arange(0, PrimValue(size), 1, "int64"), ShapeExpr(row)))
        back = op.subtract(numbers, _tensor(cx, size))  # negative indices count from the end
        lit = op.logical_or(op.equal(where, numbers), op.equal(where, back))
    off, on = (op.squeeze(cx.emit(v), [0]) for v in _halves(values))
    return op.where(lit, on, off)


def _tensor(cx: Context, size: Any) -> Any:
    return cx.from_elements([size], "int64").expr


def _halves(values: Value) -> list[Any]:
    return [op.strided_slice(values.expr, [0], [k], [k + 1]) for k in (0, 1)]


@function
def nonzero(cx: Context, x: Value) -> Any:
    """The indices of elements that are not 0, [rank, count]."""
    return cx.of_shape(cx.emit(op.nonzero(x.expr)), max(x.ndim, 1), None)


@function
def topk(cx: Context, x: Value, k: Value, axis: int = -1, largest: bool = True) -> list[Any]:
    """(the greatest or least elements along an axis, in order, their indices)"""
    axis, extent = axis_of(axis, x.ndim), literal(x.shape[axis])
    count = known_numbers(k)
    if count is not None and len(count) != 1:
        raise ValueError(explain("k must be one number", got=f"{len(count)} of them"))
    if count is None:  # all are sorted, the first k selected
        dims = cx.read("relax.run.within", 1, k.expr, PrimValue(extent), nonnegative=True)
        whole = cx.emit(op.topk(x.expr, 0, axis, "both", largest, "int64"))
        parts = [cx.emit(whole[n]) for n in (0, 1)]
        return [op.strided_slice(p, [axis], [0], dims, [1], True) for p in parts]
    return first_k(cx, x, count[0], axis, largest)


def first_k(cx: Context, x: Value, k: int, axis: int, largest: bool) -> list[Any]:
    """`topk` of a known number."""
    axis, extent = axis_of(axis, x.ndim), literal(x.shape[axis])
    if k < 0 or (not isinstance(extent, PrimExpr) and k > extent):
        raise ValueError(explain("input k must be within the axis", got=f"{k} of {extent}"))
    if k == 0:  # to the operator 0 means all
        dims = ShapeExpr([*x.shape[:axis], 0, *x.shape[axis + 1 :]])
        return [op.zeros(dims, str(x.dtype)), op.zeros(dims, "int64")]
    results = cx.emit(op.topk(x.expr, k, axis, "both", largest, "int64"))
    return [results[0], results[1]]


def _running(build: Callable[..., Any]) -> None:
    def convert(
        cx: Context, x: Value, axis: Value, exclusive: bool = False, reverse: bool = False
    ) -> Any:
        if known_numbers(axis) is None:
            middle = cx.value(run(cx, around(cx, x, axis), 1, exclusive, reverse))
            return view(cx, middle, list(x.shape))
        return run(cx, x, cx.numbers(axis, "axis")[0], exclusive, reverse)

    def run(cx: Context, x: Value, which: int, exclusive: bool, reverse: bool) -> Any:
        if not -x.ndim <= which < x.ndim:
            what = "input axis is out of range"
            raise ValueError(explain(what, got=f"{which} for rank {x.ndim}"))
        if not reverse:
            return build(x.expr, which, None, exclusive)
        flipped = cx.emit(op.flip(x.expr, which))
        return op.flip(cx.emit(build(flipped, which, None, exclusive)), which)

    FUNCTIONS.register(build.__name__, convert)


_running(op.cumsum)
_running(op.cumprod)
