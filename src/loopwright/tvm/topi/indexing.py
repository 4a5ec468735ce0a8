"""topi's functions that pick or replace elements by position, where the graph has none of their form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import te, tir
from ...base.errors import explain
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...te.tensor import Tensor
from .padding import Ints
from .utils import equal_const_int, get_const_int, simplify


def expand_like(a: Tensor, shape_like: Tensor, axis: Ints) -> Tensor:
    """The tensor repeated along the axes `axis` of another tensor's shape, which it lacks."""
    axes = [axis] if isinstance(axis, int) else list(axis)
    new = {n % shape_like.ndim for n in axes}
    if a.ndim == 1 and len(new) == shape_like.ndim:  # a number, held in one dimension
        return te.compute(shape_like.shape, lambda *i: a(0), name="expand_like", tag="broadcast")
    if len(new) + a.ndim != shape_like.ndim:
        what = f"expand_like: {a.ndim} axes and {len(new)} new ones are not the {shape_like.ndim}"
        raise ValueError(explain(what, got=f"axis={axis}"))

    def element(*i: PrimExpr) -> Any:
        old = [v for n, v in enumerate(i) if n not in new]
        at = [0 if equal_const_int(d, 1) else v for v, d in zip(old, a.shape, strict=True)]
        return a(*at)

    return te.compute(shape_like.shape, element, name="expand_like", tag="broadcast")


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """data[indices]: tensors of positions along the first axes, broadcast to one shape."""
    return OPERATORS["relax.index_tensor"](data, list(indices))


def sliding_window(
    data: Tensor, axis: int, window_shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """Windows that slide over the axes from `axis` on, as further axes at the end."""
    first = axis % data.ndim
    if not len(window_shape) == len(strides) == data.ndim - first:
        what = f"sliding_window takes a window and a stride for each of {data.ndim - first} axes"
        raise ValueError(explain(what, got=f"{list(window_shape)} and {list(strides)}"))
    window = list(window_shape)
    rows = zip(data.shape[first:], window, strides, strict=True)
    counts = [simplify((d - w + s) // s) for d, w, s in rows]

    def element(*i: PrimExpr) -> Any:
        steps, inside = i[first : data.ndim], i[data.ndim :]
        at = [v * s + w for v, s, w in zip(steps, strides, inside, strict=True)]
        return data(*i[:first], *at)

    shape = [*data.shape[:first], *counts, *window]
    return te.compute(shape, element, name="sliding_window", tag="injective")


def strided_set(
    a: Tensor, v: Tensor, begin: Tensor, end: Tensor, strides: Tensor | None = None
) -> Tensor:
    """A tensor with `v` in a[begin:end:strides], vectors that are known at run time."""
    if begin.ndim != 1 or end.ndim != 1 or (strides is not None and strides.ndim != 1):
        raise ValueError(explain("strided_set takes vectors", got=str(begin.shape)))

    def vector(t: Tensor | None, n: int, missing: PrimExpr) -> Any:
        is_set = t is not None and n < get_const_int(t.shape[0])
        return t(n).astype("int64") if is_set and t is not None else missing

    def element(*i: PrimExpr) -> Any:
        at, inside = [], []
        for n, (position, size) in enumerate(zip(i, a.shape, strict=True)):
            extent, here = size.astype("int64"), position.astype("int64")
            step = vector(strides, n, te.const(1, "int64"))
            back = step < 0
            low = vector(begin, n, tir.Select(back, extent - 1, te.const(0, "int64")))
            high = vector(end, n, tir.Select(back, -extent - 1, extent))
            low, high = (tir.Select(b < 0, b + extent, b) for b in (low, high))
            low = tir.max(tir.min(low, extent - tir.Select(back, 1, 0)), tir.Select(back, -1, 0))
            distance = tir.Select(back, low - here, here - low)
            inside += [distance >= 0, tir.Select(back, here > high, here < high)]
            inside.append((distance % tir.abs(step)).equal(0))
            at.append(distance // tir.abs(step))
        return tir.if_then_else(tir.all(*inside), v(*at), a(*i))

    return te.compute(a.shape, element, name="strided_set", tag="injective")


def matrix_set_diag(
    data: Tensor, diagonal: Tensor, k: Ints = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Matrices (the last two axes) with other values on diagonal `k`, or on those from k[0] to k[1],
    which are rows of `diagonal` from the highest on. `align`: at which side those above and those
    below the main one are in their rows if they are short."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    above, below = (side == "RIGHT" for side in align.split("_"))
    rows, columns = data.shape[-2:]
    longest = diagonal.shape[-1]

    def element(*i: PrimExpr) -> Any:
        row, column = i[-2:]
        d = column - row
        length = tir.min(rows + tir.min(d, 0), columns - tir.max(d, 0))
        right = tir.any(tir.all(d >= 0, above), tir.all(d <= 0, below))
        first = tir.Select(right, longest - length, 0)
        index = first + tir.min(row, column)
        at = (*i[:-2], index) if low == high else (*i[:-2], high - d, index)
        return tir.if_then_else(tir.all(d >= low, d <= high), diagonal(*at), data(*i))

    return te.compute(data.shape, element, name="matrix_set_diag", tag="injective")
