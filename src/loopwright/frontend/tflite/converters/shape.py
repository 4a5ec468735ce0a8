"""What moves elements, sums along axes, or makes shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ...graph.values import Value, literal
from ..context import TFLiteContext as Context
from ..reader import Operator
from .base import operator
from .image import zero_of

_LAST = np.iinfo(np.int64).max
_REDUCE = {
    "MEAN": "mean",
    "SUM": "sum",
    "REDUCE_MAX": "max",
    "REDUCE_MIN": "min",
    "REDUCE_PROD": "prod",
}


def long(cx: Context, value: Value) -> Value:
    """Integers as int64."""
    return value if value.dtype == "int64" else cx.ops.astype(value, dtype="int64")


def _axis(cx: Context, value: Value, what: str = "axis") -> int:
    (axis,) = cx.numbers(value, what)
    return axis


# ---------------------------------------------------------------- shapes


@operator("RESHAPE", moves=True)
def reshape(cx: Context, node: Operator, x: Value, shape: Value | None = None) -> Any:
    target = np.array(node.numbers("NewShape"), np.int64) if shape is None else long(cx, shape)
    return cx.ops.reshape(x, target)


@operator("SQUEEZE", moves=True)
def squeeze(cx: Context, node: Operator, x: Value) -> Any:
    axes = node.numbers("SqueezeDims")
    return cx.ops.squeeze(x, np.array(axes, np.int64)) if axes else cx.ops.squeeze(x)


operator("EXPAND_DIMS", moves=True)(lambda cx, node, x, axis: cx.ops.expand_dims(x, long(cx, axis)))


@operator("SHAPE")
def shape_of(cx: Context, node: Operator, x: Value) -> Any:
    return cx.ops.astype(cx.ops.shape_of(x), dtype=node.output_tensors[0].dtype)


operator("RANK")(lambda cx, node, x: cx.scalar(x.ndim, "int32"))


@operator("DENSIFY", moves=True)
def densify(cx: Context, node: Operator, x: Value) -> Any:
    return x  # sparse constants are made dense as they are read


operator("FILL")(lambda cx, node, dims, value: cx.ops.broadcast_to(value, long(cx, dims)))


@operator("BROADCAST_TO", moves=True)
def broadcast_to(cx: Context, node: Operator, x: Value, dims: Value) -> Any:
    return cx.ops.broadcast_to(x, long(cx, dims))


operator("RANGE")(lambda cx, node, start, limit, delta: cx.ops.arange(start, limit, delta))


# ---------------------------------------------------------------- joining and cutting


@operator("CONCATENATION", moves=True)
def concatenation(cx: Context, node: Operator, *values: Value) -> Any:
    return cx.ops.concat(*values, axis=node.option("Axis"))


@operator("PACK", moves=True)
def pack(cx: Context, node: Operator, *values: Value) -> Any:
    axis = node.option("Axis")
    parts = [cx.ops.expand_dims(v, np.array([axis])) for v in values]
    return cx.ops.concat(*parts, axis=axis)


@operator("UNPACK", moves=True)
def unpack(cx: Context, node: Operator, x: Value) -> Any:
    axis, count = node.option("Axis"), len(node.outputs)
    return [cx.ops.squeeze(p, np.array([axis])) for p in _parts(cx, x, axis, count)]


def _parts(cx: Context, x: Value, axis: int, count: int, sizes: Value | None = None) -> list[Any]:
    if count == 1:
        return [x]
    return cx.ops.split(x, sizes, axis=axis, count=count)


@operator("SPLIT", moves=True)
def split(cx: Context, node: Operator, axis: Value, x: Value) -> Any:
    return _parts(cx, x, _axis(cx, axis), len(node.outputs))


@operator("SPLIT_V", moves=True)
def split_sizes(cx: Context, node: Operator, x: Value, sizes: Value, axis: Value) -> Any:
    which, extents = _axis(cx, axis), cx.numbers(sizes, "size_splits")
    if extents.count(-1) == 1:
        rest = cx.simplify(literal(x.shape[which]) - sum(g for g in extents if g >= 0))
        extents = [rest if g == -1 else g for g in extents]
    return _parts(cx, x, which, len(extents), cx.from_elements(extents, "int64"))


@operator("SLICE", moves=True)
def cut(cx: Context, node: Operator, x: Value, begin: Value, size: Value) -> Any:
    first, sizes = cx.integers(begin, "begin"), cx.integers(size, "size")
    ends = [_LAST if isinstance(s, int) and s == -1 else b + s for b, s in zip(first, sizes)]
    return _sliced(cx, x, first, ends, [1] * len(first))


def _sliced(cx: Context, x: Value, first: list[Any], ends: list[Any], steps: list[Any]) -> Value:
    ends = [cx.simplify(e) for e in ends]
    args = [cx.from_elements(v, "int64") for v in (first, ends, list(range(len(first))), steps)]
    return cx.ops.strided_slice(x, *args)


@operator("STRIDED_SLICE", moves=True)
def strided_slice(
    cx: Context, node: Operator, x: Value, begin: Value, end: Value, strides: Value
) -> Any:
    first, last = cx.integers(begin, "begin"), cx.integers(end, "end")
    steps = cx.numbers(strides, "strides")
    bit = lambda name, k: bool(node.option(name, 0) >> k & 1)  # noqa: E731
    if node.option("Offset", False):
        last = [b + e for b, e in zip(first, last)]
    added = sum(bit("NewAxisMask", k) for k in range(len(first)))
    plain: tuple[list[Any], ...] = ([], [], [])
    new, dropped, axis = [], [], 0  # axes of the result before `dropped` are removed
    for k, (b, e, s) in enumerate(zip(first, last, steps, strict=True)):
        if bit("EllipsisMask", k):
            count = x.ndim - (len(first) - added - 1)
            for part, v in zip(plain, (0, _LAST, 1), strict=True):
                part += [v] * count
            axis += count
            continue
        axis += 1
        if bit("NewAxisMask", k):
            new.append(axis - 1)
            continue
        if bit("ShrinkAxisMask", k):
            dropped.append(axis - 1)
            e, s = (_LAST if isinstance(b, int) and b == -1 else b + 1), 1
        elif s == 0:
            raise ValueError(explain("a stride must not be 0", got=steps))
        else:
            b = (0 if s > 0 else _LAST) if bit("BeginMask", k) else b
            e = (_LAST if s > 0 else -_LAST) if bit("EndMask", k) else e
        for part, v in zip(plain, (b, e, s), strict=True):
            part.append(v)
    out = _sliced(cx, x, *plain)
    out = cx.ops.expand_dims(out, np.array(new)) if new else out
    return cx.ops.squeeze(out, np.array(dropped)) if dropped else out


@operator("PAD", "PADV2", moves=True)
def pad(cx: Context, node: Operator, x: Value, paddings: Value, value: Value | None = None) -> Any:
    widths = cx.ops.reshape(cx.ops.permute_dims(long(cx, paddings), axes=[1, 0]), np.array([-1]))
    fill = zero_of(node, x) if value is None else value
    return cx.ops.pad(x, widths, fill)


@operator("MIRROR_PAD", moves=True)
def mirror_pad(cx: Context, node: Operator, x: Value, paddings: Value) -> Any:
    widths = np.array(cx.numbers(paddings, "paddings"), np.int64).reshape(-1, 2)
    symmetric = node.option("Mode") == 1
    for axis, (before, after) in enumerate(widths.tolist()):
        extent = literal(x.shape[axis])
        most = extent if symmetric else extent - 1
        if min(before, after) < 0 or (isinstance(most, int) and max(before, after) > most):
            what = f"what mirrors axis {axis} must be between 0 and {most}"
            raise ValueError(explain(what, got=[before, after]))
        if not before and not after:
            continue
        if not isinstance(extent, int):
            what = "a mirrored axis must have a known extent"
            raise ValueError(explain(what, instead="give it by shape_dict"))
        mode = "symmetric" if symmetric else "reflect"
        indices = np.pad(np.arange(extent), (before, after), mode)
        x = cx.ops.take(x, indices, axis=axis)
    return x


@operator("TRANSPOSE", moves=True)
def transpose(cx: Context, node: Operator, x: Value, order: Value) -> Any:
    return cx.ops.permute_dims(x, axes=cx.numbers(order, "perm"))


operator("TILE", moves=True)(lambda cx, node, x, repeats: cx.ops.tile(x, long(cx, repeats)))


@operator("REVERSE_V2", moves=True)
def reverse(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
    out = x.expr
    for axis in cx.numbers(axes, "axis"):
        out = op.flip(cx.emit(out), axis)
    return out


@operator("REVERSE_SEQUENCE", moves=True)
def reverse_sequence(cx: Context, node: Operator, x: Value, lengths: Value) -> Any:
    batch, time, counts = node.option("BatchDim"), node.option("SeqDim"), long(cx, lengths)
    if {batch, time} == {0, 1}:
        return cx.ops.reverse_sequence(x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *(a for a in range(x.ndim) if a not in (batch, time))]
    first = cx.ops.permute_dims(x, axes=order)
    out = cx.ops.reverse_sequence(first, counts, batch_axis=0, time_axis=1)
    return cx.ops.permute_dims(out, axes=[order.index(a) for a in range(x.ndim)])


# ---------------------------------------------------------------- indices


@operator("GATHER", moves=True)
def gather(cx: Context, node: Operator, x: Value, indices: Value) -> Any:
    axis, batch = node.option("Axis", 0) % max(x.ndim, 1), node.option("BatchDims", 0)
    if batch < 0:
        batch += indices.ndim
    if not batch:
        return cx.ops.take(x, indices, axis=axis)
    moved = [*range(batch), axis, *(a for a in range(batch, x.ndim) if a != axis)]
    picked = cx.ops.gather_nd(
        x if axis == batch else cx.ops.permute_dims(x, axes=moved),
        long(cx, cx.ops.expand_dims(indices, np.array([-1]))),
        batch_dims=batch,
    )
    if axis == batch:
        return picked
    own = list(range(batch, indices.ndim))  # the axes of the indices, which are at `axis`
    rest = list(range(indices.ndim, picked.ndim))
    return cx.ops.permute_dims(
        picked, axes=[*range(batch), *rest[: axis - batch], *own, *rest[axis - batch :]]
    )


@operator("GATHER_ND", moves=True)
def gather_nd(cx: Context, node: Operator, x: Value, indices: Value) -> Any:
    return cx.ops.gather_nd(x, long(cx, indices))


@operator("SCATTER_ND", moves=True)
def scatter_nd(cx: Context, node: Operator, indices: Value, updates: Value, dims: Value) -> Any:
    zeros = cx.ops.broadcast_to(cx.value(cx.scalar(0, str(updates.dtype))), long(cx, dims))
    return cx.ops.scatter_nd(zeros, long(cx, indices), updates, reduction="add")


operator("EMBEDDING_LOOKUP")(lambda cx, node, indices, table: cx.ops.take(table, indices, axis=0))


@operator("ONE_HOT")
def one_hot(cx: Context, node: Operator, i: Value, depth: Value, on: Value, off: Value) -> Any:
    both = cx.ops.concat(*(cx.ops.reshape(v, np.array([1])) for v in (off, on)), axis=0)
    return cx.ops.one_hot(i, depth, both, axis=node.option("Axis", -1))


@operator("WHERE")
def where(cx: Context, node: Operator, condition: Value) -> Any:
    return cx.ops.permute_dims(cx.ops.nonzero(condition), axes=[1, 0])


@operator("DYNAMIC_UPDATE_SLICE", moves=True)
def dynamic_update_slice(cx: Context, node: Operator, x: Value, part: Value, at: Value) -> Any:
    """x with `part` at a position that is moved so that it is inside."""
    o, dims = cx.ops, [literal(d) for d in part.shape]
    if not all(isinstance(d, int) for d in dims):
        raise ValueError(explain("the extents of the update must be known", got=str(part.info)))
    room = o.subtract(o.shape_of(x), np.array(dims, np.int64))
    first = o.maximum(o.minimum(long(cx, at), room), 0)
    grid: Any = np.indices(dims)
    indices = np.stack(grid, -1).astype(np.int64)
    return o.scatter_nd(x, o.add(first, indices), part)


# ---------------------------------------------------------------- along axes


def _reduction(name: str, build: str) -> None:
    @operator(name, moves=name in ("REDUCE_MAX", "REDUCE_MIN"))
    def convert(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
        keep = bool(node.option("KeepDims", False))
        which = cx.ops.reshape(long(cx, axes), np.array([-1]))
        return getattr(cx.ops, build)(x, which, keepdims=keep)


for _name, _build in _REDUCE.items():
    _reduction(_name, _build)


@operator("REDUCE_ANY", "REDUCE_ALL")
def reduce_bool(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
    reduce = cx.ops.max if node.op_type == "REDUCE_ANY" else cx.ops.min
    return reduce(x, long(cx, axes), keepdims=bool(node.option("KeepDims", False)))


@operator("ARG_MAX", "ARG_MIN", moves=True)
def arg_extreme(cx: Context, node: Operator, x: Value, axis: Value) -> Any:
    extreme = cx.ops.argmax if node.op_type == "ARG_MAX" else cx.ops.argmin
    return cx.ops.astype(extreme(x, axis=_axis(cx, axis)), dtype=node.output_tensors[0].dtype)


@operator("SOFTMAX")
def softmax(cx: Context, node: Operator, x: Value) -> Any:
    beta = node.option("Beta", 1.0)
    return cx.ops.softmax(x if beta == 1 else cx.ops.multiply(x, float(beta)), axis=-1)


operator("LOG_SOFTMAX")(lambda cx, node, x: cx.ops.log_softmax(x, axis=-1))


@operator("CUMSUM")
def cumsum(cx: Context, node: Operator, x: Value, axis: Value) -> Any:
    flags = {name.lower(): bool(node.option(name)) for name in ("Exclusive", "Reverse")}
    return cx.ops.cumsum(x, axis, **flags)


@operator("TOPK_V2", moves=True)
def top_k(cx: Context, node: Operator, x: Value, k: Value) -> Any:
    count = cx.ops.reshape(long(cx, k), np.array([1]))
    values, indices = cx.ops.topk(x, count, axis=-1)
    return [values, cx.ops.astype(indices, dtype=node.output_tensors[1].dtype)]
