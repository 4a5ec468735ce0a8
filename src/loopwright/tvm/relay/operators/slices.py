"""Parts of tensors: slices, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....ops.core import INJECTIVE
from ....relax import expr as rx
from ..expr import Constant, Expr
from ..types import Any as AnyDim
from ..types import TensorType
from . import layouts
from .core import VIEWS, Input, R, as_numbers, op, view
from .tensor import as_i64, i64
from .transform import dims_of


def _bounds(attrs: dict[str, Any], dims: list[Any]) -> list[tuple[int, Any, Any, int]]:
    """(axis, begin, end, stride) of a strided slice."""
    begin, end = list(attrs["begin"]), list(attrs["end"])
    strides, axes = list(attrs["strides"] or ()), attrs["axes"]
    axes = range(max(len(begin), len(end))) if axes is None else [int(a) % len(dims) for a in axes]
    ranges = []
    for i, axis in enumerate(axes):
        low = begin[i] if i < len(begin) else None
        high = end[i] if i < len(end) else None
        size = attrs["slice_mode"] == "size"
        stride = 1 if size or i >= len(strides) or strides[i] is None else int(strides[i])
        if stride == 0:
            raise ValueError(explain("strided_slice: a stride is not 0", got=str(strides)))
        if size:
            high = None if high is None or high < 0 else (low or 0) + high
        first, last = (0, dims[axis]) if stride > 0 else (dims[axis] - 1, -dims[axis] - 1)
        ranges.append((axis, first if low is None else low, last if high is None else high, stride))
    return ranges


@op("strided_slice", attrs="StridedSliceAttrs", view=False, kind=INJECTIVE, mixed="follow",
    layout=layouts.slicing)  # fmt: skip
def strided_slice(
    data: Input, begin: Any, end: Any, strides: Any = None, slice_mode: str = "end",
    axes: Any = None,
) -> Any:  # fmt: skip
    """A part of a tensor: from `begin` to before `end` in steps of `strides`, of some axes.
    slice_mode "size": `end` says how many elements, and steps are 1."""
    attrs = {"begin": begin, "end": end, "strides": strides, "slice_mode": slice_mode, "axes": axes}
    ranges = _bounds(attrs, dims_of(data))
    return R.strided_slice(data, *map(list, zip(*ranges, strict=True))) if ranges else data


@op("dyn.strided_slice", attrs="StridedSliceAttrs", view=False, mixed="follow")
def dyn_strided_slice(
    data: Input, begin: Input, end: Input, strides: Input, slice_mode: str = "end", axes: Any = None
) -> Any:
    """`strided_slice` whose bounds are values."""
    rank = data.struct_info.ndim
    count = int(dims_of(begin)[0])
    shape = R.shape_to_tensor(R.shape_of(data))
    first = [R.strided_slice(shape, [0], [0], [count])] if count < rank else [shape]
    low, step = as_i64(begin), as_i64(strides)
    high = as_i64(end)
    if slice_mode == "size":
        step = R.ones_like(step)
        low = R.where(R.less(low, i64(0)), R.add(low, first[0]), low)
        high = R.where(R.less(high, i64(0)), first[0], R.add(low, high))
    if count < rank:
        rest = R.strided_slice(shape, [0], [count], [rank])
        low = R.concat([low, R.zeros([rank - count], "int64")], 0)
        high = R.concat([high, rest], 0)
        step = R.concat([step, R.ones([rank - count], "int64")], 0)
    return R.dynamic_strided_slice(data, low, high, step)


@dyn_strided_slice.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    (count,), dims = types[1].shape, types[0].shape
    count = min(getattr(count, "value", len(dims)), len(dims))
    return TensorType([AnyDim()] * count + list(dims[count:]), types[0].dtype)


@view("strided_slice")
def _strided_slice(
    data: Expr, begin: Expr | Sequence[int], end: Expr | Sequence[int],
    strides: Expr | Sequence[int] | None = None, axes: Sequence[int] | None = None,
    slice_mode: str = "end",
) -> Any:  # fmt: skip
    """A part of a tensor; bounds may be expressions."""
    bounds = [as_numbers(v) for v in (begin, end, [1] if strides is None else strides)]
    if any(isinstance(g, Expr) for g in bounds):
        if axes is not None:
            what = "strided_slice: with axes, the bounds must be numbers"
            raise ValueError(explain(what, got=str(axes), instead="give bounds for all axes"))
        some = next(g for g in bounds if isinstance(g, Expr))
        exprs = [g if isinstance(g, Expr) else _const(g, "int64") for g in bounds]
        if bounds[2] == [1]:
            exprs[2] = VIEWS["ones_like"](some)
        return dyn_strided_slice.builder(data, *exprs, slice_mode)
    return strided_slice.builder(data, *bounds, slice_mode, as_numbers(axes))


def _const(values: Sequence[int], dtype: str) -> Constant:
    return Constant(np.array(values, dtype))


@op("strided_set", attrs="StridedSliceAttrs", view=False)
def strided_set(data: Input, v: Input, begin: Input, end: Input, strides: Input) -> Any:
    """`data` with the part that a slice means replaced by `v`."""
    dims, part = dims_of(data), dims_of(v)
    rank = len(dims)
    count, steps = int(dims_of(begin)[0]), int(dims_of(strides)[0])
    low, step = as_i64(begin), as_i64(strides)
    extents = R.shape_to_tensor(rx.ShapeExpr(dims[:count]))
    low = R.where(R.less(low, i64(0)), R.add(low, extents), low)
    indices = []
    for axis in range(rank):
        number = R.arange(0, part[axis], 1, "int64")
        if axis < count:
            at = rx.const(np.array(axis, "int64"))
            if axis < steps:  # else 1
                number = R.multiply(number, R.take(step, at, 0))
            number = R.add(R.take(low, at, 0), number)
        spread = [1] * rank
        spread[axis] = part[axis]
        indices.append(R.broadcast_to(R.reshape(number, spread), part))
    return R.scatter_nd(data, R.stack(indices, -1), v)


@view("strided_set")
def _strided_set(data: Expr, v: Expr, begin: Any, end: Any, strides: Any = None) -> Any:
    """`data` with the part that a slice means replaced by `v`."""
    count = len(begin) if isinstance(begin, (list, tuple)) else 0
    strides = (
        strides if strides is not None and len(list_or_unknown(strides)) else [1] * (count or 1)
    )
    bounds = [g if isinstance(g, Expr) else _const(list(g), "int32") for g in (begin, end, strides)]
    return strided_set.builder(data, v, *bounds)


def list_or_unknown(value: Expr) -> Any:
    """A list; for an expression one of unknown items."""
    return [None] if isinstance(value, Expr) else value


@op("slice_like", attrs="SliceLikeAttrs", kind=INJECTIVE, layout=layouts.slicing_like)
def slice_like(data: Input, shape_like: Input, axes: Any = None) -> Any:
    """The first elements along axes, up to the extents of another tensor."""
    dims, other = dims_of(data), dims_of(shape_like)
    picked = _like_axes(axes, len(dims), len(other))
    for a in picked:
        if isinstance(dims[a], IntImm) and isinstance(other[a], IntImm) and other[a] > dims[a]:
            what = "slice_like: the other tensor is longer"
            raise ValueError(explain(what, got=f"{other[a]} of {dims[a]} in axis {a}"))
    return R.strided_slice(data, picked, [0] * len(picked), [other[a] for a in picked])


def _like_axes(axes: Any, rank: int, other: int) -> list[int]:
    if axes is None or not list(axes):
        return list(range(min(rank, other)))
    return [int(a) % rank for a in axes]


def _windowed(data: Any, axis: int, sizes: list[Any], strides: Any) -> list[Any]:
    """The extents after splitting some axes into windows: (number of windows, window) for each."""
    dims = dims_of(data)
    pairs: list[Any] = []
    for i, size in enumerate(sizes):
        pairs += [(dims[axis + i] - size) // strides[i] + 1, size]
    return [*dims[:axis], *pairs, *dims[axis + len(sizes) :]]


@op("sliding_window", attrs="SlidingWindowAttrs", kind=INJECTIVE)
def sliding_window(data: Input, axis: int, window_shape: Any, strides: Any) -> Any:
    """All windows over the axes from `axis` on: an axis for each window's position, then the
    windows."""
    sizes, out = list(window_shape), data
    rank = data.struct_info.ndim
    for i, (size, step) in enumerate(zip(sizes, strides, strict=True)):
        dims, at = _windowed(data, axis, sizes[:i], strides), axis + 2 * i
        count = (dims[at] - size) // step + 1
        starts = R.multiply(R.arange(0, count, 1, "int64"), i64(step))
        index = R.reshape(R.add(R.expand_dims(starts, 1), i64(np.arange(size))), [-1])
        out = R.reshape(R.take(out, index, at), [*dims[:at], count, size, *dims[at + 1 :]])
    windows = [axis + 2 * i + 1 for i in range(len(sizes))]
    order = [a for a in range(rank + len(sizes)) if a not in windows]
    return R.permute_dims(out, [*order, *windows])
