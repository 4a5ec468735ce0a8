"""What moves elements, sums along axes, or makes shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ...graph.context import Context
from ...graph.values import Value, literal
from ..reader import Operator
from .base import operator
from .elementwise import onnx_type
from .image import zero_of

_LAST = np.iinfo(np.int64).max
_REDUCE = {
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
}


def long(cx: Context, value: Value) -> Value:
    """Integers as int64."""
    return value if value.dtype == "int64" else cx.onnx.Cast(value, to=7)


def _axis(cx: Context, value: Value, what: str = "axis") -> int:
    (axis,) = cx.numbers(value, what)
    return axis


# ---------------------------------------------------------------- shapes


@operator("RESHAPE", moves=True)
def reshape(cx: Context, node: Operator, x: Value, shape: Value | None = None) -> Any:
    target = np.array(node.numbers("NewShape"), np.int64) if shape is None else long(cx, shape)
    return cx.onnx.Reshape(x, target, allowzero=1)


@operator("SQUEEZE", moves=True)
def squeeze(cx: Context, node: Operator, x: Value) -> Any:
    axes = node.numbers("SqueezeDims")
    return cx.onnx.Squeeze(x, np.array(axes, np.int64)) if axes else cx.onnx.Squeeze(x)


@operator("EXPAND_DIMS", moves=True)
def expand_dims(cx: Context, node: Operator, x: Value, axis: Value) -> Any:
    return cx.onnx.Unsqueeze(x, long(cx, axis))


@operator("SHAPE")
def shape_of(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Cast(cx.onnx.Shape(x), to=onnx_type(node.gives[0].dtype))


@operator("RANK")
def rank_of(cx: Context, node: Operator, x: Value) -> Any:
    return cx.scalar(x.ndim, "int32")


@operator("DENSIFY", moves=True)
def densify(cx: Context, node: Operator, x: Value) -> Any:
    return x  # sparse constants are made dense as they are read


@operator("FILL")
def fill(cx: Context, node: Operator, dims: Value, value: Value) -> Any:
    return cx.onnx.Expand(value, long(cx, dims))


@operator("BROADCAST_TO", moves=True)
def broadcast_to(cx: Context, node: Operator, x: Value, dims: Value) -> Any:
    return cx.onnx.Expand(x, long(cx, dims))


@operator("RANGE")
def arange(cx: Context, node: Operator, start: Value, limit: Value, delta: Value) -> Any:
    return cx.onnx.Range(start, limit, delta)


# ---------------------------------------------------------------- joining and cutting


@operator("CONCATENATION", moves=True)
def concatenation(cx: Context, node: Operator, *values: Value) -> Any:
    return cx.onnx.Concat(*values, axis=node.option("Axis"))


@operator("PACK", moves=True)
def pack(cx: Context, node: Operator, *values: Value) -> Any:
    axis = node.option("Axis")
    parts = [cx.onnx.Unsqueeze(v, np.array([axis])) for v in values]
    return cx.onnx.Concat(*parts, axis=axis)


@operator("UNPACK", moves=True)
def unpack(cx: Context, node: Operator, x: Value) -> Any:
    axis, count = node.option("Axis"), len(node.outputs)
    return [cx.onnx.Squeeze(p, np.array([axis])) for p in _parts(cx, x, axis, count)]


def _parts(cx: Context, x: Value, axis: int, count: int, sizes: Value | None = None) -> list[Any]:
    if count == 1:
        return [x]
    more = {"num_outputs": count} if sizes is None else {}
    return cx.onnx.Split(x, sizes, axis=axis, outputs=count, **more)


@operator("SPLIT", moves=True)
def split(cx: Context, node: Operator, axis: Value, x: Value) -> Any:
    return _parts(cx, x, _axis(cx, axis), len(node.outputs))


@operator("SPLIT_V", moves=True)
def split_sizes(cx: Context, node: Operator, x: Value, sizes: Value, axis: Value) -> Any:
    which, given = _axis(cx, axis), cx.numbers(sizes, "size_splits")
    if given.count(-1) == 1:
        rest = cx.simplify(literal(x.shape[which]) - sum(g for g in given if g >= 0))
        given = [rest if g == -1 else g for g in given]
    return _parts(cx, x, which, len(given), cx.known(given, "int64"))


@operator("SLICE", moves=True)
def cut(cx: Context, node: Operator, x: Value, begin: Value, size: Value) -> Any:
    first, sizes = cx.integers(begin, "begin"), cx.integers(size, "size")
    ends = [_LAST if isinstance(s, int) and s == -1 else b + s for b, s in zip(first, sizes)]
    return _sliced(cx, x, first, ends, [1] * len(first))


def _sliced(cx: Context, x: Value, first: list[Any], ends: list[Any], steps: list[Any]) -> Value:
    ends = [cx.simplify(e) for e in ends]
    known = [cx.known(v, "int64") for v in (first, ends, list(range(len(first))), steps)]
    return cx.onnx.Slice(x, *known)


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
    new, gone, axis = [], [], 0  # axes of the result before `gone` are dropped
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
            gone.append(axis - 1)
            e, s = (_LAST if isinstance(b, int) and b == -1 else b + 1), 1
        elif s == 0:
            raise ValueError(explain("a stride must not be 0", got=steps))
        else:
            b = (0 if s > 0 else _LAST) if bit("BeginMask", k) else b
            e = (_LAST if s > 0 else -_LAST) if bit("EndMask", k) else e
        for part, v in zip(plain, (b, e, s), strict=True):
            part.append(v)
    out = _sliced(cx, x, *plain)
    out = cx.onnx.Unsqueeze(out, np.array(new)) if new else out
    return cx.onnx.Squeeze(out, np.array(gone)) if gone else out


@operator("PAD", "PADV2", moves=True)
def pad(cx: Context, node: Operator, x: Value, paddings: Value, value: Value | None = None) -> Any:
    widths = cx.onnx.Reshape(cx.onnx.Transpose(long(cx, paddings), perm=[1, 0]), np.array([-1]))
    given = zero_of(node, x) if value is None else value
    return cx.onnx.Pad(x, widths, given)


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
        places = np.pad(np.arange(extent), (before, after), mode)
        x = cx.onnx.Gather(x, places, axis=axis)
    return x


@operator("TRANSPOSE", moves=True)
def transpose(cx: Context, node: Operator, x: Value, order: Value) -> Any:
    return cx.onnx.Transpose(x, perm=cx.numbers(order, "perm"))


@operator("TILE", moves=True)
def tile(cx: Context, node: Operator, x: Value, repeats: Value) -> Any:
    return cx.onnx.Tile(x, long(cx, repeats))


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
        return cx.onnx.ReverseSequence(x, counts, batch_axis=batch, time_axis=time)
    order = [batch, time, *(a for a in range(x.ndim) if a not in (batch, time))]
    first = cx.onnx.Transpose(x, perm=order)
    out = cx.onnx.ReverseSequence(first, counts, batch_axis=0, time_axis=1)
    return cx.onnx.Transpose(out, perm=[order.index(a) for a in range(x.ndim)])


# ---------------------------------------------------------------- indices


@operator("GATHER", moves=True)
def gather(cx: Context, node: Operator, x: Value, indices: Value) -> Any:
    axis, batch = node.option("Axis", 0) % max(x.ndim, 1), node.option("BatchDims", 0)
    if batch < 0:
        batch += indices.ndim
    if not batch:
        return cx.onnx.Gather(x, indices, axis=axis)
    moved = [*range(batch), axis, *(a for a in range(batch, x.ndim) if a != axis)]
    picked = cx.onnx.GatherND(
        x if axis == batch else cx.onnx.Transpose(x, perm=moved),
        long(cx, cx.onnx.Unsqueeze(indices, np.array([-1]))),
        batch_dims=batch,
    )
    if axis == batch:
        return picked
    own = list(range(batch, indices.ndim))  # the axes of the indices, which stand at `axis`
    rest = list(range(indices.ndim, picked.ndim))
    return cx.onnx.Transpose(
        picked, perm=[*range(batch), *rest[: axis - batch], *own, *rest[axis - batch :]]
    )


@operator("GATHER_ND", moves=True)
def gather_nd(cx: Context, node: Operator, x: Value, indices: Value) -> Any:
    return cx.onnx.GatherND(x, long(cx, indices))


@operator("SCATTER_ND", moves=True)
def scatter_nd(cx: Context, node: Operator, indices: Value, updates: Value, dims: Value) -> Any:
    zeros = cx.onnx.Expand(cx.value(cx.scalar(0, str(updates.dtype))), long(cx, dims))
    return cx.onnx.ScatterND(zeros, long(cx, indices), updates, reduction="add")


@operator("EMBEDDING_LOOKUP")
def embedding_lookup(cx: Context, node: Operator, indices: Value, table: Value) -> Any:
    return cx.onnx.Gather(table, indices, axis=0)


@operator("ONE_HOT")
def one_hot(cx: Context, node: Operator, i: Value, depth: Value, on: Value, off: Value) -> Any:
    both = cx.onnx.Concat(*(cx.onnx.Reshape(v, np.array([1])) for v in (off, on)), axis=0)
    return cx.onnx.OneHot(i, depth, both, axis=node.option("Axis", -1))


@operator("WHERE")
def where(cx: Context, node: Operator, condition: Value) -> Any:
    return cx.onnx.Transpose(cx.onnx.NonZero(condition), perm=[1, 0])


@operator("DYNAMIC_UPDATE_SLICE", moves=True)
def dynamic_update_slice(cx: Context, node: Operator, x: Value, part: Value, at: Value) -> Any:
    """x with `part` at a place that is moved so that it lies inside."""
    o, dims = cx.onnx, [literal(d) for d in part.shape]
    if not all(isinstance(d, int) for d in dims):
        raise ValueError(explain("the extents of the update must be known", got=str(part.info)))
    room = o.Sub(o.Shape(x), np.array(dims, np.int64))
    first = o.Max(o.Min(long(cx, at), room), 0)
    grid: Any = np.indices(dims)
    places = np.stack(grid, -1).astype(np.int64)
    return o.ScatterND(x, o.Add(first, places), part)


# ---------------------------------------------------------------- along axes


def _reduction(name: str, theirs: str) -> None:
    @operator(name, moves=name in ("REDUCE_MAX", "REDUCE_MIN"))
    def convert(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
        keep = int(node.option("KeepDims", False))
        which = cx.onnx.Reshape(long(cx, axes), np.array([-1]))
        return getattr(cx.onnx, theirs)(x, which, keepdims=keep, noop_with_empty_axes=1)


for _name, _theirs in _REDUCE.items():
    _reduction(_name, _theirs)


@operator("REDUCE_ANY", "REDUCE_ALL")
def reduce_bool(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
    theirs = cx.onnx.ReduceMax if node.op_type == "REDUCE_ANY" else cx.onnx.ReduceMin
    return theirs(x, long(cx, axes), keepdims=int(node.option("KeepDims", False)))


@operator("ARG_MAX", "ARG_MIN", moves=True)
def arg_extreme(cx: Context, node: Operator, x: Value, axis: Value) -> Any:
    theirs = cx.onnx.ArgMax if node.op_type == "ARG_MAX" else cx.onnx.ArgMin
    found = theirs(x, axis=_axis(cx, axis), keepdims=0)
    return cx.onnx.Cast(found, to=onnx_type(node.gives[0].dtype))


@operator("SOFTMAX")
def softmax(cx: Context, node: Operator, x: Value) -> Any:
    beta = node.option("Beta", 1.0)
    return cx.onnx.Softmax(x if beta == 1 else cx.onnx.Mul(x, float(beta)), axis=-1)


@operator("LOG_SOFTMAX")
def log_softmax(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.LogSoftmax(x, axis=-1)


@operator("CUMSUM")
def cumsum(cx: Context, node: Operator, x: Value, axis: Value) -> Any:
    ways = {name.lower(): int(node.option(name)) for name in ("Exclusive", "Reverse")}
    return cx.onnx.CumSum(x, axis, **ways)


@operator("TOPK_V2", moves=True)
def top_k(cx: Context, node: Operator, x: Value, k: Value) -> Any:
    count = cx.onnx.Reshape(long(cx, k), np.array([1]))
    values, places = cx.onnx.TopK(x, count, axis=-1, outputs=2)
    return [values, cx.onnx.Cast(places, to=onnx_type(node.gives[1].dtype))]
