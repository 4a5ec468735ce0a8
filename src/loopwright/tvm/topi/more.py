"""Operators that have no graph operator, as tensor expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as _fold
from operator import add
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...te.tensor import Tensor
from .padding import Ints, listed
from .utils import prod, simplify


def _each(name: str, x: Tensor, value: Callable[..., Any]) -> Tensor:
    return te.compute(x.shape, lambda *i: value(x(*i)), name=name, tag="elemwise")


def identity(x: Tensor) -> Tensor:
    """A copy."""
    return _each("identity", x, lambda v: v)


def log2(x: Tensor) -> Tensor:
    """Logarithm to base 2."""
    return _each("log2", x, tir.log2)


def log10(x: Tensor) -> Tensor:
    """Logarithm to base 10."""
    return _each("log10", x, tir.log10)


def reinterpret(x: Tensor, dtype: str) -> Tensor:
    """The same bits as elements of another type of the same size."""
    return _each("reinterpret", x, lambda v: tir.reinterpret(dtype, v))


def ceil_log2(x: Tensor) -> Tensor:
    """The least whole number not below the logarithm to base 2, of the same type."""

    def element(v: PrimExpr) -> Any:
        if not isinstance(v, tir.PrimExpr) or not str(v.dtype).startswith("int"):
            return tir.ceil(tir.log2(v))
        bits = tir.const(int(str(v.dtype)[3:]), v.dtype)
        return tir.Select(v > 1, bits - tir.clz(v - 1).astype(v.dtype), tir.const(0, v.dtype))

    return _each("ceil_log2", x, element)


def _shifted_product(v: PrimExpr, factor: PrimExpr, left: PrimExpr, right: bool | PrimExpr) -> Any:
    """v << left times factor / 2**31, rounded, >> right (rounded half up), of int32."""
    wide = lambda e: tir.Cast("int64", e)  # noqa: E731
    product = (wide(v) << wide(left)) * wide(factor)
    total = wide(right) + 31
    half = tir.const(1, "int64") << (total - 1)
    return tir.Cast("int32", (product + half) >> total)


def fixed_point_multiply(x: Tensor, multiplier: int, shift: int) -> Tensor:
    """x * multiplier * 2 ** (shift - 31), rounded; multiplier: a fraction of 31 bits, x of int32."""
    left, right = (tir.const(n, "int32") for n in (max(shift, 0), max(-shift, 0)))
    factor = tir.const(multiplier, "int32")
    return _each("fixed_point_multiply", x, lambda v: _shifted_product(v, factor, left, right))


def fixed_point_multiply_per_axis(
    x: Tensor, y: Tensor, lshift: Tensor, rshift: Tensor, is_lshift_required: bool,
    is_rshift_required: bool, axes: Sequence[int],
) -> Tensor:  # fmt: skip
    """`fixed_point_multiply` by the multipliers y and the shifts of the index along `axes`."""

    def element(*i: PrimExpr) -> Any:
        at = [i[a] for a in axes]
        zero = tir.const(0, "int32")
        left = lshift(*at) if is_lshift_required else zero
        right = rshift(*at) if is_rshift_required else zero
        return _shifted_product(x(*i), y(*at), left, right)

    return te.compute(x.shape, element, name="fixed_point_multiply", tag="broadcast")


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape. Raises ValueError if their shapes differ."""
    if not xs:
        raise ValueError(explain("elemwise_sum adds tensors", got="none"))
    for x in xs[1:]:
        gaps = [simplify(a - b) for a, b in zip(x.shape, xs[0].shape, strict=False)]
        static_gaps = [gap.value for gap in gaps if isinstance(gap, tir.IntImm)]
        if x.ndim != xs[0].ndim or static_gaps.count(0) < len(static_gaps):
            what = "elemwise_sum adds tensors of one shape"
            raise ValueError(explain(what, got=f"{xs[0].shape} and {x.shape}"))
    total = lambda *i: _fold(add, (x(*i) for x in xs))  # noqa: E731
    return te.compute(xs[0].shape, total, name="elemwise_sum")


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        what = f"{name}: no such axis"
        raise ValueError(explain(what, got=axis, instead=f"{-ndim} to {ndim - 1}"))
    return axis % ndim


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """Insert `num_newaxis` dimensions of extent 1 at `axis` of the result."""
    position = _axis("expand_dims", axis, a.ndim + 1)
    return OPERATORS["relax.expand_dims"](a, [position + n for n in range(num_newaxis)])


def tensordot(a: Tensor, b: Tensor, axes: int | Sequence[int | Sequence[int]]) -> Tensor:
    """Products summed over the last `axes` dimensions of a and the first of b, or over the pairs
    of dimensions in (axes of a, axes of b)."""
    if isinstance(axes, int):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    axes_a, axes_b = (
        [_axis("tensordot", x, t.ndim) for x in ([of] if isinstance(of, int) else of)]
        for of, t in zip(axes, (a, b), strict=True)
    )
    if len(axes_a) != len(axes_b):
        what = "tensordot sums over pairs of dimensions"
        raise ValueError(explain(what, got=f"{len(axes_a)} and {len(axes_b)}"))
    left = list(ascii_lowercase[: a.ndim])
    right = list(ascii_uppercase[: b.ndim])
    for x, y in zip(axes_a, axes_b, strict=True):
        right[y] = left[x]
    result = [c for c in (*left, *right) if (c in left) != (c in right)]
    return OPERATORS["relax.einsum"]([a, b], f"{''.join(left)},{''.join(right)}->{''.join(result)}")


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new axis."""
    if not tensors:
        raise ValueError(explain("stack joins tensors", got="none"))
    return OPERATORS["relax.stack"](tensors, axis)


def meshgrid(a_tuple: Sequence[Tensor], indexing: str) -> list[Tensor]:
    """Grids of the values of vectors; with "xy" the first two dimensions are swapped."""
    if indexing not in ("ij", "xy"):
        raise ValueError(explain('meshgrid: indexing is "ij" or "xy"', got=indexing))
    return OPERATORS["relax.meshgrid"](a_tuple, indexing)


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The extents, as a vector."""

    def extent(i: PrimExpr) -> Any:
        value = te.const(0, dtype)
        for n, e in enumerate(array.shape):
            value = tir.Select(i.equal(n), e.astype(dtype), value)
        return value

    return te.compute((array.ndim,), extent, name="shape")


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements."""
    return te.compute((), lambda: prod(array.shape).astype(dtype), name="ndarray_size")


def sequence_mask(
    data: Tensor, valid_length: Tensor, mask_value: PrimExpr | float = 0, axis: int = 0
) -> Tensor:
    """`mask_value` from position `valid_length[batch]` of `axis` on; axis and batch are the first
    two dimensions."""
    if axis not in (0, 1):
        raise ValueError(explain("sequence_mask: axis is 0 or 1", got=axis))
    if data.ndim < 2:
        what = "sequence_mask takes data with an axis and a batch"
        raise ValueError(explain(what, got=f"{data.ndim} dimensions"))
    rest = te.const(mask_value, data.dtype)
    return te.compute(
        data.shape,
        lambda *i: tir.if_then_else(i[axis] >= valid_length(i[1 - axis]), rest, data(*i)),
        name="sequence_mask",
    )


def reverse_sequence(
    a: Tensor, seq_lengths: Tensor, seq_axis: int = 1, batch_axis: int = 0
) -> Tensor:
    """The first `seq_lengths[batch]` elements along `seq_axis` in reverse order.

    Negative axes count from the end. Raises ValueError for an invalid axis, or if both are equal.
    """
    seq_axis = _axis("reverse_sequence", seq_axis, a.ndim)
    batch_axis = _axis("reverse_sequence", batch_axis, a.ndim)
    if seq_axis == batch_axis:
        what = "reverse_sequence: seq_axis and batch_axis are different"
        raise ValueError(explain(what, got=seq_axis))

    def element(*i: PrimExpr) -> Any:
        length = seq_lengths(i[batch_axis]).astype(i[seq_axis].dtype)
        back = tir.Select(i[seq_axis] < length, length - 1 - i[seq_axis], i[seq_axis])
        return a(*(back if n == seq_axis else v for n, v in enumerate(i)))

    return te.compute(a.shape, element, name="reverse_sequence")


def _truth(name: str, data: Tensor, axis: Ints | None, keepdims: bool) -> Tensor:
    """The least or greatest truth along axes, as numbers."""
    cast, axes = OPERATORS["relax.astype"], listed(axis) if axis is not None else None
    reduced = OPERATORS[f"relax.{name}"](cast(data, "int8"), axes, keepdims)
    return cast(reduced, "bool")


def all(data: Tensor, axis: Ints | None = None, keepdims: bool = False) -> Tensor:
    """Whether all elements of a boolean tensor along `axis` are true."""
    return _truth("min", data, axis, keepdims)


def any(data: Tensor, axis: Ints | None = None, keepdims: bool = False) -> Tensor:
    """Whether some element of a boolean tensor along `axis` is true."""
    return _truth("max", data, axis, keepdims)


def unravel_index(indices: Tensor, shape: Sequence[Any]) -> Tensor:
    """The positions, one row for each dimension of `shape`, of flat indices."""

    def element(*i: PrimExpr) -> Any:
        value, position = indices(*i[1:]), te.const(0, indices.dtype)
        for n, extent in reversed(list(enumerate(shape))):
            position = tir.Select(i[0].equal(n), value % extent if n else value, position)
            value = value // extent
        return position

    return te.compute((len(shape), *indices.shape), element, name="unravel_index")
