"""Operators on the form of tensors: shapes, parts, order, padding."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm, PrimExpr
from ....ir.prim_op import const, convert, maximum
from ....relax import op
from ....relax.expr import PrimValue, ShapeExpr, StringImm
from ....relax.struct_info import ShapeStructInfo, TensorStructInfo
from ...common import padded
from ..context import Context
from ..run_time_axes import known_numbers, length, sizes, view
from ..values import Value, literal
from .table import function

# Exporters write this, or the greatest int32 or int64, for "to the end".
_TO_THE_END = 10**9
# "To the end" for the operator, which clamps its bounds, as an attribute of 32 bits.
_LAST, _FIRST = (1 << 31) - 1, -(1 << 31)


def axis_of(axis: int, ndim: int) -> int:
    """An axis counted from the first one. Raises ValueError for one that the rank does not have."""
    if not -ndim <= axis < ndim:
        raise ValueError(explain("attribute axis is out of range", got=f"{axis} for rank {ndim}"))
    return axis % ndim


@function
def shape_of(cx: Context, data: Value, start: int = 0, end: int | None = None) -> Any:
    """The extents of data, those of its axes from `start` to `end`."""
    extents = op.shape_to_tensor(op.shape_of(data.expr))
    if start == 0 and end is None:
        return extents
    return op.strided_slice(extents, [0], [start], [_LAST if end is None else end])


@function
def size(cx: Context, data: Value) -> Any:
    """The number of elements of data."""
    return op.prod(op.shape_to_tensor(op.shape_of(data.expr)), [0])


@function
def full(cx: Context, shape: Value, fill: np.ndarray) -> Any:
    """A tensor of one number."""
    return op.full(
        ShapeExpr(cx.integers(shape, "input", dims=True)),
        cx.constant(fill.reshape(())),
        fill.dtype.name,
    )


@function
def reshape(cx: Context, data: Value, shape: Value, allow_zero: bool = True) -> Any:
    """data in another shape with the same number of elements; one extent may be -1. allow_zero: a 0 is an extent, not
    that of data's axis at this position."""
    if shape.elements is None and isinstance(count := literal(shape.shape[0]), int):
        args = (data.expr, shape.expr, PrimValue(allow_zero))
        dims = cx.read("relax.run.reshape_sizes", count, *args, nonnegative=True)
        return op.reshape(data.expr, ShapeExpr(dims))
    return reshaped(cx, data, cx.integers(shape, "shape"), allow_zero)


def reshaped(cx: Context, data: Value, target: list[Any], allow_zero: bool) -> Any:
    """`reshape`, to known extents, which may be symbolic. Raises ValueError where the number of elements would
    change."""
    dims = list(target)
    old = [literal(d) for d in data.shape]
    if not allow_zero:
        for k, d in enumerate(dims):
            if isinstance(d, int) and d == 0:
                if k >= len(old):
                    what = "the new shape copies a dimension that the input has not"
                    raise ValueError(explain(what, got=f"{_text(dims)} for rank {len(old)}"))
                dims[k] = old[k]
    inferred = [k for k, d in enumerate(dims) if isinstance(d, int) and d == -1]
    if len(inferred) > 1 or any(isinstance(d, int) and d < -1 for d in dims):
        what = "the new shape may hold one -1, the rest not negative"
        raise ValueError(explain(what, got=_text(dims)))
    if inferred:
        dims[inferred[0]] = _rest(cx, old, [d for k, d in enumerate(dims) if k != inferred[0]])
    if len(dims) == len(old) and all(cx.equal(a, b) for a, b in zip(dims, old, strict=True)):
        return data
    before, after = cx.product(old), cx.product(dims)
    if not (isinstance(before, int) and isinstance(after, int)) and not cx.equal(before, after):
        cx.builder.match_cast(ShapeExpr([after]), ShapeStructInfo([convert(before)]))
    if allow_zero and after == 0 and before != 0:  # to the operator a 0 is the input's extent
        if isinstance(before, int):
            what = "the number of elements must stay"
            raise ValueError(explain(what, got=f"{_text(old)} into {_text(dims)}"))
        return op.zeros(ShapeExpr(dims), str(data.dtype))
    return op.reshape(data.expr, ShapeExpr(dims))


def _rest(cx: Context, old: list[Any], others: list[Any]) -> Any:
    """The value of dimension -1."""
    rest = list(old)
    for d in others:  # what stays is divided out before anything is multiplied
        same = next((k for k, r in enumerate(rest) if cx.equal(r, d)), None)
        if same is None:
            break
        rest.pop(same)
    else:
        return cx.product(rest)
    whole, part = cx.product(old), cx.product(others)
    if isinstance(part, int) and isinstance(whole, int):
        if part == 0 or whole % part:
            got = f"{whole} elements into {_text(others)} and -1"
            raise ValueError(explain("the number of elements must stay", got=got))
        return whole // part
    return cx.simplify(whole // part)


def _text(dims: list[Any]) -> str:
    return f"[{', '.join(map(str, dims))}]"


@function
def squeeze(cx: Context, data: Value, axes: Value | None = None) -> Any:
    """data without some axes of extent 1, or all of them."""
    if axes is not None and known_numbers(axes) is None:
        rank = data.ndim - cx.count(axes, "axes")
        return view(cx, data, sizes(cx, "squeezed_sizes", rank, data, axes))
    return squeezed(cx, data, None if axes is None else cx.numbers(axes, "axes"))


def squeezed(cx: Context, data: Value, axes: list[int] | None) -> Any:
    """Without axes, those of extent 1 are removed: one extent known only at run time, too, or not;
    of more of them the run checks that none is 1."""
    if axes is not None or all(isinstance(d, IntImm) for d in data.shape):
        return op.squeeze(data.expr, axes)
    ones = [a for a, d in enumerate(data.shape) if literal(d) == 1]
    open_ones = [a for a, d in enumerate(data.shape) if not isinstance(d, IntImm)]
    if len(open_ones) == 1:
        (axis,) = open_ones
        extent = cx.value(op.shape_to_tensor(ShapeExpr([data.shape[axis]])))
        is_one = op.equal(extent.expr, cx.scalar(1, "int64"))
        branches = (
            lambda: [
                cx.value(op.squeeze(cx.with_dims(data, {axis: 1}).expr, sorted([*ones, axis])))
            ],
            lambda: [cx.value(op.squeeze(data.expr, ones))],
        )
        if cx.walk.fork(cx.value(op.reshape(cx.emit(is_one), ShapeExpr([]))), *branches):
            return data
    remaining = [data.shape[a] for a in range(data.ndim) if a not in ones]
    return view(cx, data, sizes(cx, "lasting_sizes", len(remaining), data, ShapeExpr(remaining)))


@function
def expand_dims(cx: Context, data: Value, axes: Value) -> Any:
    """data with axes of extent 1 that are these in the result."""
    if known_numbers(axes) is None:
        rank = data.ndim + cx.count(axes, "axes")
        return view(cx, data, sizes(cx, "unsqueezed_sizes", rank, data, axes))
    return op.expand_dims(data.expr, cx.numbers(axes, "axes"))


@function
def permute_dims(cx: Context, data: Value, axes: list[int] | None = None) -> Any:
    """data with its axes in another order, without `axes` reversed."""
    if axes and axes == list(range(len(axes))):
        return data
    return op.permute_dims(data.expr, axes)


@function
def concat(cx: Context, *inputs: Value, axis: int) -> Any:
    """Tensors one after the other along an axis."""
    if not inputs or any(v is None for v in inputs):
        raise ValueError(explain("it takes one or more inputs, none of them left out"))
    if len(inputs) == 1:
        return inputs[0]
    ranks = {v.ndim for v in inputs}
    if len(ranks) > 1:
        raise ValueError(explain("inputs of different rank", got=sorted(ranks)))
    rank = ranks.pop()
    axis = axis_of(axis, rank)
    if all(v.info.get_shape() is not None for v in inputs):
        equal: list[list[int | None]] = [[a] * len(inputs) for a in range(rank) if a != axis]
        inputs = tuple(cx.aligned(list(inputs), equal))
    return op.concat([v.expr for v in inputs], axis)


@function
def split(
    cx: Context, data: Value, lengths: Value | None = None, *, axis: int = 0, count: int
) -> list[Any]:
    """`count` parts along an axis, without `lengths` equal ones, the last of which may be shorter."""
    known_lengths = (
        None if lengths is None else cx.integers(lengths, "split", dims=True, count=count)
    )
    return parts_of(cx, data, axis, count, known_lengths)


def parts_of(
    cx: Context, data: Value, axis: int, count: int, lengths: list[Any] | None
) -> list[Any]:
    """`split`, into parts of known lengths, which may be symbolic; None: equal ones. Raises ValueError where
    they do not fill the axis."""
    axis = axis_of(axis, data.ndim)
    if count == 1:
        return [data]
    if lengths is None:
        parts = op.split(data.expr, count, axis)
    else:
        extent = literal(data.shape[axis])
        if not isinstance(extent, int) or any(isinstance(n, PrimExpr) for n in lengths):
            return _pieces(cx, data, axis, lengths)
        if len(lengths) != count or sum(lengths) != extent:
            what = f"the sizes must be {count} and fill the axis"
            raise ValueError(explain(what, got=f"{lengths} for an extent of {extent}"))
        starts = list(accumulate(lengths[:-1]))
        parts = op.split(data.expr, starts, axis)
    pieces = cx.emit(parts)
    return [cx.emit(pieces[k]) for k in range(count)]


def _pieces(cx: Context, data: Value, axis: int, lengths: list[Any]) -> list[Any]:
    """Pieces of an axis, of lengths that are symbolic."""
    ends = list(accumulate(lengths))
    whole = cx.simplify(ends[-1])
    data = data if cx.equal(data.shape[axis], whole) else cx.with_dims(data, {axis: whole})
    starts = [0, *ends[:-1]]
    pieces = zip(starts, ends, strict=True)
    return [op.strided_slice(data.expr, [axis], [s], [e], [1], True) for s, e in pieces]


@function
def strided_slice(
    cx: Context,
    data: Value,
    starts: Value,
    ends: Value,
    axes: Value | None = None,
    steps: Value | None = None,
) -> Any:
    """data[start:end:step] along axes; bounds below 0 count from the end, and are limited to the axis."""
    lengths = [length(v) for v in (starts, ends, axes, steps) if v is not None]
    count = next((n for n in lengths if n is not None), 1 if data.ndim == 1 else None)
    every = None if count is None else list(range(count))
    which = known_numbers(axes) if axes is not None else every
    by = known_numbers(steps) if steps is not None else every and [1] * len(every)
    if which is None or by is None:
        where = axes.expr if axes is not None else PrimValue(data.ndim)
        args = [data.expr, starts.expr, ends.expr, where, *([] if steps is None else [steps.expr])]
        info = TensorStructInfo(dtype=data.dtype, ndim=data.ndim)
        called = op.call_pure_packed("relax.run.slice", *args, sinfo_args=info)
        return cx.of_shape(cx.emit(called), *[None] * data.ndim)
    first, last = (
        cx.integers(v, name, count=count) for v, name in ((starts, "starts"), (ends, "ends"))
    )
    return sliced(cx, data, first, last, which, by)


def sliced(
    cx: Context, data: Value, starts: list[Any], ends: list[Any], axes: list[int], steps: list[int]
) -> Any:
    """`strided_slice`, of known axes and steps; bounds may be symbolic. Raises ValueError."""
    if not len(starts) == len(ends) == len(axes) == len(steps):
        got = f"{len(starts)}, {len(ends)}, {len(axes)} and {len(steps)}"
        raise ValueError(explain("starts, ends, axes and steps must have one length", got=got))
    if 0 in steps:
        raise ValueError(explain("a step may not be 0"))
    parts = []
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        which = axis_of(axis, data.ndim)
        extent = data.shape[which]
        last = _bound(last)
        if step == 1 and _is(first, 0) and _reaches(cx, last, extent):
            continue
        first, step = _bound(first), _bound(step)
        if step < 0 and isinstance(first, int) and first < -1:
            # A start before the axis is clamped to it in ONNX; such a slice backwards is empty in Python.
            first = cx.simplify(maximum(extent + first, 0))
        parts.append((which, first, last, step))
    if not parts:
        return data
    which, first, last, by = zip(*parts, strict=True)
    return op.strided_slice(data.expr, list(which), list(first), list(last), list(by))


def _bound(value: Any) -> Any:
    """A bound of a slice, "to the end" as the operator has it."""
    if isinstance(value, int) and abs(value) >= _TO_THE_END:
        return _LAST if value > 0 else _FIRST
    return value


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int) and value == number


def _reaches(cx: Context, last: Any, extent: Any) -> bool:
    """Whether a slice up to `last` reaches the end of the axis."""
    if _is(last, _LAST):
        return True
    size = literal(extent)
    if isinstance(last, int) and last < 0:
        return False
    return (
        cx.proven(last >= size)
        if isinstance(size, PrimExpr) or isinstance(last, PrimExpr)
        else last >= size
    )


@function
def broadcast_to(cx: Context, data: Value, shape: Value) -> Any:
    """data and a tensor of this shape broadcast, in both directions."""
    if shape.elements is None:
        return _broadcast_at_run_time(cx, data, shape)
    target = [cx.simplify(d) for d in cx.integers(shape, "shape", dims=True)]
    old = list(data.shape)
    rank = max(len(target), len(old))
    wide = [1] * (rank - len(target)) + target
    own = [IntImm("int64", 1)] * (rank - len(old)) + old
    dims: list[Any] = []
    changes: dict[int, Any] = {}
    for k, (d, have) in enumerate(zip(wide, own, strict=True)):
        size = literal(have)
        if _is(d, 1) or _is(size, 1) or cx.equal(size, d):
            dims.append(size if _is(d, 1) else d)
        elif isinstance(size, int) and isinstance(d, int):
            what = f"dimension {k} cannot be expanded"
            raise ValueError(explain(what, got=f"{size} to {d}", instead="it must be 1"))
        elif cx.equal_when_broadcast(have, const(d, "int64")):
            changes[k - (rank - len(old))] = d
            dims.append(d)
        else:
            dims.append(cx.broadcast_dim(const(d, "int64"), have))
    source = cx.with_dims(data, changes) if changes else data
    if len(dims) == len(old) and all(
        cx.equal(a, b) for a, b in zip(dims, source.shape, strict=True)
    ):
        return source
    return op.broadcast_to(source.expr, ShapeExpr(dims))


def _broadcast_at_run_time(cx: Context, data: Value, shape: Value) -> Any:
    rank = max(data.ndim, cx.count(shape, "shape"))
    dims = sizes(cx, "broadcast_sizes", rank, data, shape)
    for k, have in enumerate(data.shape, rank - data.ndim):
        if isinstance(have, IntImm) and have.value != 1:
            dims[k] = have
    return op.broadcast_to(data.expr, ShapeExpr(dims))


@function
def tile(cx: Context, data: Value, repeats: Value) -> Any:
    """data repeated along its axes."""
    counts = cx.integers(repeats, "repeats", dims=True, count=data.ndim)
    if any(isinstance(c, PrimExpr) for c in counts):
        old = [literal(d) for d in data.shape]
        apart = view(cx, data, [n for d in old for n in (1, d)])
        wide = [n for c, d in zip(counts, old, strict=True) for n in (c, d)]
        spread = cx.value(op.broadcast_to(apart.expr, ShapeExpr(wide)))
        return view(cx, spread, [c * d for c, d in zip(counts, old, strict=True)])
    if len(counts) != data.ndim:
        what = "repeats must hold a count for each axis"
        raise ValueError(explain(what, got=f"{counts} for rank {data.ndim}"))
    return op.tile(data.expr, counts)


@function
def pad(
    cx: Context,
    data: Value,
    pads: Value,
    value: Value | None = None,
    axes: Value | None = None,
    mode: str = "constant",
) -> Any:
    """data with more elements before and after it. pads: all before, then all after, of `axes` (all of
    them); a negative one cuts. mode: "constant" (value, 0), "reflect", "edge" or "wrap"."""
    which = None if axes is None else known_numbers(axes)
    if axes is not None and which is None:
        spread = (pads.expr, axes.expr, PrimValue(data.ndim))
        widths = cx.read("relax.run.pads", 2 * data.ndim, *spread, nonnegative=False)
    else:
        count = 2 * (data.ndim if which is None else len(which))
        widths = cx.integers(pads, "pads", count=count)
    if value is None or (value.constant is not None and value.dtype.code != "complex"):
        fill = cx.number(value, "constant_value", 0)
        return widened(cx, data, widths, fill, mode, which)
    grown = cx.value(widened(cx, data, widths, 0, mode, which))
    if mode != "constant":
        return grown
    inside = cx.value(op.ones_like(data.expr, "bool"))
    inside = cx.value(widened(cx, inside, widths, 0, mode, which))
    return op.where(inside.expr, grown.expr, op.reshape(value.expr, ShapeExpr([])))


_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "circular"}


def widened(
    cx: Context, data: Value, pads: list[Any], fill: Any, mode: str, axes: list[int] | None
) -> Any:
    """`pad`, by known widths, which may be symbolic. Raises ValueError."""
    which = list(range(data.ndim)) if axes is None else [axis_of(a, data.ndim) for a in axes]
    if len(pads) != 2 * len(which):
        what = "pads must hold two numbers for each axis"
        raise ValueError(explain(what, got=f"{pads} for {len(which)} axes"))
    if mode not in _MODES:
        what = "attribute mode must be constant, reflect, edge or wrap"
        raise ValueError(explain(what, got=mode))
    before = dict(zip(which, pads[: len(which)], strict=True))
    after = dict(zip(which, pads[len(which) :], strict=True))
    if any(isinstance(p, PrimExpr) for p in pads):
        first = [before.get(a, 0) for a in range(data.ndim)]
        last = [after.get(a, 0) for a in range(data.ndim)]
        if mode != "constant":
            info = TensorStructInfo(dtype=data.dtype, ndim=data.ndim)
            args = [data.expr, ShapeExpr([*first, *last]), StringImm(mode)]
            called = op.call_pure_packed("relax.run.pad", *args, sinfo_args=info)
            dims = [cx.simplify(b + d + a) for b, d, a in zip(first, data.shape, last, strict=True)]
            return cx.of_shape(cx.emit(called), *dims)
        for a in which:  # a crop is at most the extent
            last[a] = cx.simplify(
                maximum(last[a] + data.shape[a] + first[a], 0) - data.shape[a] - first[a]
            )
        return padded(data.expr, first, last, _MODES[mode], float(fill))
    width = [max(side.get(a, 0), 0) for a in range(data.ndim) for side in (before, after)]
    cut = [a for a in which if before[a] < 0 or after[a] < 0]  # a negative pad cuts
    starts = [max(-before[a], 0) for a in cut]
    ends = [after[a] if after[a] < 0 else _LAST for a in cut]

    def cropped(x: Value) -> Value:
        return cx.value(op.strided_slice(x.expr, cut, starts, ends)) if cut else x

    def grown(x: Value) -> Value:
        return cx.value(op.nn.pad(x.expr, width, _MODES[mode], float(fill))) if any(width) else x

    # A crop larger than the axis is taken from its padding.
    return cropped(grown(data)) if mode == "constant" else grown(cropped(data))


@function
def depth_to_space(cx: Context, data: Value, size: int, mode: str = "DCR") -> Any:
    """Channels as blocks of size x size pixels. mode: which axis of the channels varies slowest, that of
    the blocks ("DCR": depth, column, row) or the channels that are left ("CRD")."""
    _check_blocks(size, mode)
    n, c, h, w = (literal(d) for d in _rank4(data))
    depth = _divided(cx, c, size * size)
    inner = [size, size, depth] if mode == "DCR" else [depth, size, size]
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    blocks = op.reshape(data.expr, ShapeExpr([n, *inner, h, w]))
    moved = cx.emit(op.permute_dims(cx.emit(blocks), order))
    return op.reshape(moved, ShapeExpr([n, depth, h * size, w * size]))


@function
def space_to_depth(cx: Context, data: Value, size: int, mode: str = "DCR") -> Any:
    """The inverse of `depth_to_space`."""
    _check_blocks(size, mode)
    n, c, h, w = (literal(d) for d in _rank4(data))
    small = [_divided(cx, h, size), _divided(cx, w, size)]
    blocks = op.reshape(data.expr, ShapeExpr([n, c, small[0], size, small[1], size]))
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    moved = cx.emit(op.permute_dims(cx.emit(blocks), order))
    return op.reshape(moved, ShapeExpr([n, c * size * size, *small]))


def _check_blocks(size: int, mode: str) -> None:
    if mode not in ("DCR", "CRD"):
        raise ValueError(explain("attribute mode must be DCR or CRD", got=mode))
    if size < 1:
        raise ValueError(explain("attribute blocksize must be 1 or more", got=size))


def _divided(cx: Context, extent: Any, size: int) -> Any:
    """The number of blocks of a size in an extent. Raises ValueError where one is not whole."""
    if isinstance(extent, int) and extent % size:
        what = "an extent must be a multiple of what blocksize takes of it"
        raise ValueError(explain(what, got=f"{extent} for {size}"))
    return cx.simplify(extent // size)


def _rank4(data: Value) -> tuple[Any, ...]:
    if data.ndim != 4:
        raise ValueError(explain("the input must have rank 4", got=str(data.info)))
    return data.shape
