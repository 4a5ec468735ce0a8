"""Helpers for operator code: numbers in expressions, positions in flat memory."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from ... import te, tir
from ...arith import Analyzer
from ...base.errors import explain
from ...ir.prim_expr import FloatImm, IntImm, PrimExpr
from ...ir.prim_op import const, convert
from ...ir.target import Target
from ...te.tensor import ComputeOp, Operation, Tensor


def functions_of(module: ModuleType, but: Container[str] = ()) -> dict[str, Any]:
    """The public functions that a module defines, by name. but: those to leave out."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
        if not name.startswith("_") and name not in but
    }


class InvalidShapeError(ValueError):
    """A shape that an operator cannot take."""


def simplify(expr: PrimExpr) -> Any:
    """The simplest form of an expression; numbers unchanged."""
    return Analyzer().simplify(expr) if isinstance(expr, PrimExpr) else expr


def get_const_int(expr: PrimExpr | int) -> int:
    """The value of an integer literal. Raises ValueError for other expressions."""
    value = simplify(convert(expr))
    if not isinstance(value, IntImm):
        what = "a number is needed here, not an extent that is known when the program runs"
        raise ValueError(explain(what, got=str(expr)))
    return value.value


def get_const_float(expr: PrimExpr | float) -> float:
    """The value of a literal. Raises ValueError for other expressions."""
    value = simplify(convert(expr))
    if not isinstance(value, (FloatImm, IntImm)):
        raise ValueError(explain("a number is needed here", got=str(expr)))
    return float(value.value)


def equal_const_int(expr: PrimExpr | int, value: int) -> bool:
    """Whether an expression is this number."""
    literal = simplify(convert(expr))
    return isinstance(literal, IntImm) and literal.value == value


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """The numbers of a shape; symbolic extents stay expressions."""
    dims = [simplify(convert(e)) for e in in_tuple]
    return tuple(e.value if isinstance(e, IntImm) else e for e in dims)


def prod(x: Sequence[Any]) -> PrimExpr:
    """The product of a shape."""
    size: PrimExpr = const(1, "int32")
    for e in x:
        size = size * e
    return size


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The flat index of a position."""
    flat: Any = None
    for index, extent in zip(indices, shape, strict=True):
        flat = index if flat is None else flat * extent + index
    return flat


def unravel_index(idx: int, shape: Sequence[Any]) -> list[Any]:
    """The position of a flat index."""
    position = []
    for extent in reversed(shape[1:]):
        position.append(idx % extent)
        idx = idx // extent
    return [idx, *reversed(position)]


def const_matrix(
    matrix: np.ndarray[Any, Any], name: str = "const_matrix", attrs: Any = None
) -> Tensor:
    """A small array of numbers as a tensor."""
    values = np.asarray(matrix)
    dtype = str(values.dtype)

    def element(*i: PrimExpr) -> Any:
        result: Any = const(0, dtype)
        for at in np.ndindex(*values.shape):
            here = tir.all(*(v.equal(n) for v, n in zip(i, at, strict=True)))
            result = tir.Select(here, const(values[at].item(), dtype), result)
        return result

    return te.compute(values.shape, element, name=name, attrs=attrs)


def const_vector(vector: np.ndarray[Any, Any], name: str = "const_vector") -> Tensor:
    """A few numbers as a tensor."""
    return const_matrix(vector, name)


def get_float_tuple(in_tuple: Sequence[Any]) -> tuple[float, ...]:
    """Literals as numbers."""
    return tuple(get_const_float(e) for e in in_tuple)


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The greatest power of 2 that divides n, and is not above `max_value`."""
    factor = n & -n
    while max_value is not None and factor > max(max_value, 1):
        factor //= 2
    return factor


def get_shape(src_shape: Sequence[Any], src_layout: str, dst_layout: str) -> tuple[Any, ...]:
    """A shape with the axes in another order: NHWC for NCHW."""
    source, target = (tir.layout(str(layout)) for layout in (src_layout, dst_layout))
    if sorted(source) != sorted(target):
        what = "get_shape takes layouts of the same axes"
        raise ValueError(explain(what, got=f"{source} and {target}"))
    return get_const_tuple([src_shape[source.index_of(letter)] for letter in target])


def _packed(spatial: str, blocks: Callable[[str], bool]) -> Callable[[str], bool]:
    def is_layout(layout_info: str) -> bool:
        plain = f"NC{spatial}"
        rest = layout_info[len(plain) :]
        return layout_info.startswith(plain) and "c" in rest and blocks(rest)

    return is_layout


# Whether a layout has blocks of the batch and of channels (NCHW1n4c), or of channels (NCHW16c).
ncw_pack_layout, nchw_pack_layout = (_packed(s, lambda rest: "n" in rest) for s in ("W", "HW"))
ncw_xc_layout, nchw_xc_layout = (
    _packed(s, lambda rest: rest[:-1].isnumeric()) for s in ("W", "HW")
)


def within_index(b: PrimExpr | int, e: PrimExpr | int, s: PrimExpr | int, i: PrimExpr) -> PrimExpr:
    """Whether position i is one of begin, begin + step, ... before the end; steps may be negative."""
    outside = tir.Select(s < 0, tir.any(i > b, i <= e), tir.any(i < b, i >= e))
    return tir.all(tir.Not(outside), ((i - b) % tir.abs(s)).equal(0))


def make_idx(
    b: PrimExpr, e: PrimExpr | int, s: PrimExpr, z: PrimExpr | int, i: PrimExpr
) -> PrimExpr:
    """Which of the positions of `within_index` i is, along an axis of extent z."""
    first = tir.Select(b > z, z - 1, b)
    return tir.Select(s < 0, first - i, i - first) // tir.abs(s)


def is_empty_shape(shape: Sequence[Any]) -> bool:
    """Whether an extent is 0."""
    return any(equal_const_int(extent, 0) for extent in shape)


def is_dynamic_shape(shape: Sequence[Any]) -> bool:
    """Whether an extent is known when the program runs."""
    return any(not isinstance(extent, (int, IntImm)) for extent in shape)


def ceil_div(a: PrimExpr, b: PrimExpr) -> Any:
    """a / b, rounded up."""
    return tir.indexdiv(a + (b - 1), b)


def swap(arr: Sequence[Any], axis: int) -> list[Any]:
    """A list with the last item and the one at `axis` swapped."""
    items = list(arr)
    items[axis], items[-1] = items[-1], items[axis]
    return items


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the current target has one of these keys. Raises ValueError without a target."""
    target = Target.current(allow_none=False)
    assert target is not None
    return any(name in target.keys for name in ([names] if isinstance(names, str) else names))


def traverse_inline(s: Any, final_op: ComputeOp, callback: Callable[..., Any]) -> None:
    """Call `callback` on the operations behind `final_op`, and inline those that are computed
    elementwise and are not a result."""
    seen: set[Any] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        if is_inlined(op) and op not in s.outputs:
            s[op].compute_inline()
        for tensor in op.input_tensors:
            visit(tensor.op)
        callback(op)

    def is_inlined(op: Operation) -> bool:
        return op.tag in ("elemwise", "broadcast", "injective") and op.num_outputs == 1

    visit(final_op)
