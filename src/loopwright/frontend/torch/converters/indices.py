"""Operators that read and write at indices that are tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import fx

from ....base.errors import explain
from ..context import Arg, Number, Size, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from ..model import result_of
from ..symbols import integer
from .shapes import within
from .table import aten, rows

Indices = list[Term | None]


def _numbers(cx: Context, indices: Indices) -> Indices:
    """Indices with those of masks, which are the positions where they are true."""
    plain: Indices = []
    for index in indices:
        if index is None or index.dtype not in ("bool", "uint8"):
            plain.append(index)
        else:
            positions = cx.ops.nonzero(cx.tensor(index, "bool"))
            plain += [positions.take(cx.scalar(k, "int64"), 0) for k in range(index.ndim)]
    return plain


class _Indexed:
    """A tensor with the indexed axes first. `between`: whether the axes of the indices come after `first` others
    in the result, since those that they index are adjacent."""

    def __init__(self, x: Term, indices: Indices) -> None:
        which = [k for k, index in enumerate(indices) if index is not None]
        self.order = which + [k for k in range(x.ndim) if k not in which]
        self.x = x if self.order == [*range(x.ndim)] else x.permute_dims(self.order)
        self.indices = [v for v in indices if v is not None]
        self.first, count = self.order[0] if which else 0, len(which)
        self.between = bool(self.first) and which == [*range(self.first, self.first + count)]
        self.rank = max((v.ndim for v in self.indices), default=0)

    def front(self, ndim: int) -> list[int]:
        """The order that brings the axes of the indices from their place to the front."""
        first, rank = self.first, self.rank
        return [*range(first, first + rank), *range(first), *range(first + rank, ndim)]


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(cx: Context, node: Node, x: Term, indices: Indices) -> Term:
    at = _Indexed(x, _numbers(cx, indices))
    if not at.indices:
        return x
    out = at.x.index_tensor(at.indices)
    return out.permute_dims([*np.argsort(at.front(out.ndim)).tolist()]) if at.between else out


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    cx: Context, node: Node, x: Term, indices: Indices, values: Term, accumulate: bool
) -> Term:
    at = _Indexed(x, _numbers(cx, indices))
    values = cx.tensor(values, str(x.dtype))
    if not at.indices:
        spread = values.broadcast_to(x.shape)
        return x + spread if accumulate else spread
    if at.between:
        whole = at.rank + x.ndim - len(at.indices)
        wide = values.reshape([*[1] * (whole - values.ndim), *values.shape])
        values = wide.permute_dims(at.front(whole))
    out = at.x.index_put(at.indices, values, accumulate)
    return out.permute_dims([at.order.index(k) for k in range(x.ndim)])


def _extents(cx: Context, x: Term, like: Term, without: int | None = None) -> Term:
    """A tensor as far as another one extends, except along one axis."""
    axes = [k for k in range(x.ndim) if k != without and not cx.equal(x.shape[k], like.shape[k])]
    ends = [like.shape[k] for k in axes]
    return x.strided_slice(axes, [0] * len(axes), ends, None, True) if axes else x


def _line(cx: Context, indices: Term) -> Term:
    """A single index as one of a line."""
    return indices if indices.ndim else cx.flat(indices)


@aten("gather")
def gather(cx: Context, node: Node, x: Term, dim: int, indices: Term) -> Term:
    if 0 in node.value.shape:
        return cx.filled(cx.dims(node.value), 0, node.dtype)
    at = _line(cx, indices)
    out = _extents(cx, x, at, dim).gather_elements(at, dim)
    return out if indices.ndim else out.reshape([])


_REDUCTIONS = {
    None: "update", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
    "amin": "min", "mean": "mean",
}  # fmt: skip


@aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_reduce.two",
      "scatter_add")  # fmt: skip
def scatter(
    cx: Context, node: Node, x: Term, dim: int, indices: Term, source: Arg, reduce: str | None = None,
    *, include_self: bool = True,
) -> Term:  # fmt: skip
    dtype, how = str(x.dtype), "add" if "_add" in node.op_type else _REDUCTIONS[reduce]
    if cx.equal(cx.product(indices.shape), 0):  # of any rank
        return x
    indices, updates = _line(cx, indices), cx.tensor(source, dtype)
    like = updates.ndim == x.ndim
    updates = _extents(cx, updates, indices) if like else updates.broadcast_to(indices.shape)
    data = x
    if not include_self:
        plain = cx.filled(indices.shape, _neutral(x, how), dtype)
        data = x.scatter_elements(indices, plain, dim, "update")
    out = data.scatter_elements(indices, updates, dim, "add" if how == "mean" else how)
    if how == "mean":
        counts = cx.filled(x.shape, int(include_self), dtype)
        ones = cx.filled(indices.shape, 1, dtype)
        counts = counts.scatter_elements(indices, ones, dim, "add").maximum(1)
        out = out / counts if x.dtype.is_float else out // counts
    return out


def _neutral(x: Term, how: str) -> Number:
    """The neutral element of a reduction."""
    if how in ("add", "mean", "update"):
        return 0
    if how == "mul":
        return 1
    least = how == "max"
    if x.dtype.is_float:
        return -np.inf if least else np.inf
    return int(getattr(np.iinfo(x.dtype.numpy()), "min" if least else "max"))


@aten("masked_select")
def masked_select(cx: Context, node: Node, x: Term, mask: Term) -> Term:
    both, flags = cx.broadcast_terms(x, cx.tensor(mask, "bool"))
    return index(cx, node, both, [flags])


@aten("bucketize.Tensor")
def bucketize(
    cx: Context, node: Node, x: Term, bounds: Term, *, out_int32: bool, right: bool
) -> Term:
    if bounds.ndim != 1:
        raise ValueError(explain("boundaries have one axis", got=bounds.ndim))
    return op.bucketize(x, bounds, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    cx: Context, node: Node, bounds: Term, x: Term, *, right: bool, side: str | None, sorter: Term | None
) -> Term:  # fmt: skip
    """The number of boundaries below each value, or up to it."""
    if sorter is not None:
        bounds = bounds.gather_elements(sorter, bounds.ndim - 1)
    row = bounds if bounds.ndim == 1 else bounds.expand_dims([bounds.ndim - 1])
    value = x.expand_dims([x.ndim])
    below = row <= value if right or side == "right" else row < value
    return below.astype(node.dtype).sum([below.ndim - 1], False).reshape(cx.shape(node.value))


@aten("diagonal", "diagonal_copy")
def diagonal(cx: Context, node: Node, x: Term, offset: int, dim1: int, dim2: int) -> Term:
    """Elements (k, k + offset) of two axes, as the last one."""
    along = cx.line(cx.dims(node.value)[-1])
    where: Indices = [None] * x.ndim
    where[dim1], where[dim2] = along + max(-offset, 0), along + max(offset, 0)
    at = _Indexed(x, where)
    out = at.x.index_tensor(at.indices)
    return out.permute_dims([*range(1, out.ndim), 0])


@aten("as_strided", "as_strided_copy")
def as_strided(
    cx: Context, node: Node, x: Term, size: list[Size], stride: list[Size], offset: Size | None
) -> Term:
    """Elements of the memory of the tensor that the views before it are of."""
    source = node.source.args[0]
    start = integer(source.meta["val"].storage_offset(), cx.symbols) if offset is None else offset
    while source.op == "call_function" and _is_view(source):
        source = source.args[0]
        x = cx.value(cx.values[result_of(source)])
    fake = source.meta["val"]
    if not fake.is_contiguous():  # in another order of axes
        x = x.permute_dims([*np.argsort([-s for s in fake.stride()], kind="stable").tolist()])
    return cx.flat(x).take(_strided(cx, start, size, stride), 0)


def _strided(cx: Context, start: Size, size: Sequence[Size], stride: Sequence[Size]) -> Term:
    """The positions of elements in memory."""
    at = cx.tensor(start, "int64")
    for k, (count, step) in enumerate(zip(size, stride, strict=True)):
        others = [j for j in range(len(size)) if j != k]
        at = at + (cx.line(count) * step).expand_dims(others)
    return at


@aten("as_strided_scatter")
def as_strided_scatter(
    cx: Context, node: Node, x: Term, source: Term, size: list[Size], stride: list[Size],
    offset: Size | None,
) -> Term:  # fmt: skip
    fake = node.source.args[0].meta["val"]
    if not fake.is_contiguous() or fake.storage_offset():
        raise ValueError(explain("as_strided_scatter of a tensor that is a part of another"))
    at = _strided(cx, offset or 0, size, stride)
    return cx.flat(x).index_put([at], source, False).reshape(x.shape)


def _is_view(node: fx.Node) -> bool:
    """Whether the result of a node is a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    alias = schema and schema.returns and schema.returns[0].alias_info
    return bool(alias) or str(node.target) == "aten._unsafe_view.default"


@aten("unfold")
def unfold(cx: Context, node: Node, x: Term, dim: int, size: int, step: int) -> Term:
    """Windows of an axis, their elements as the last axis."""
    count = cx.simplify((x.shape[dim] - size) // step + 1)
    starts = (cx.line(count) * step).expand_dims([1])
    out = x.take(starts + cx.line(size), dim)
    return out.permute_dims([*(k for k in range(out.ndim) if k != dim + 1), dim + 1])


@aten("masked_scatter")
def masked_scatter(cx: Context, node: Node, x: Term, mask: Term, source: Term) -> Term:
    """The k-th true element of the mask gets the k-th element of the source."""
    data, where = (v.broadcast_to(cx.shape(node.value)) for v in (x, cx.tensor(mask, "bool")))
    flags = cx.flat(where)
    rank = (flags.astype("int64").cumsum(0) - 1).maximum(0)
    values = cx.flat(source).take(rank.minimum(cx.product(source.shape) - 1), 0)
    return cx.where(flags, values, cx.flat(data)).reshape(cx.shape(node.value))


@aten("masked_scatter_backward")
def masked_scatter_backward(
    cx: Context, node: Node, grad: Term, mask: Term, sizes: Sequence[Size]
) -> Term:
    """The gradients where the mask is true, one after another; those of elements that no mask took are 0."""
    flags, count = cx.flat(mask.broadcast_to(grad.shape)), cx.product(sizes)
    rank = flags.astype("int64").cumsum(0) - 1
    return cx.collected(count, 0, cx.where(flags, rank, count), cx.flat(grad)).reshape(sizes)


@aten("nonzero_static")
def nonzero_static(cx: Context, node: Node, x: Term, *, size: int, fill_value: int) -> Term:
    """The first `size` positions of elements that are not 0, filled up."""
    flags = cx.flat(cx.tensor(x, "bool"))
    rank = (flags.astype("int64").cumsum(0) - 1).minimum(size)
    positions = cx.line(cx.product(x.shape))
    rest = cx.collected(size, -1, cx.where(flags, rank, size), positions)
    missing, columns = rest < 0, []
    for extent in reversed(x.shape):
        columns.insert(0, cx.where(missing, fill_value, rest % extent))
        rest = rest // extent
    return cx.stack(columns, 1) if columns else cx.filled([size, 0], 0, "int64")


@aten("_embedding_bag_forward_only", "_embedding_bag")
def embedding_bag(
    cx: Context, node: Node, weight: Term, indices: Term, offsets: Term, scale: bool, mode: int, sparse: bool,
    factors: Term | None, include_last: bool, padding: int = -1,
) -> list[Term | None]:  # fmt: skip
    """Sums (0), means (1) or maxima (2) of rows of a table: a bag begins at each offset. The other results are
    the bag of each row, the sizes of bags, and which index each maximum is of; those that torch leaves unused are 0."""
    bags, width, count = offsets.shape[0] - int(include_last), weight.shape[1], indices.shape[0]
    line, indices = cx.line(count), cx.tensor(indices, "int64")
    rows = cx.ops.take(weight, indices, axis=0)
    rows = rows if factors is None else rows * factors.expand_dims([1])
    starts = cx.part(cx.tensor(offsets, "int64"), 0, 0, bags)
    own = (starts <= line.expand_dims([1])).astype("int64").sum([1], False) - 1
    bag = own if padding < 0 else cx.where(indices.equal(padding), bags, own)
    spread = bag.expand_dims([1]).broadcast_to([count, width])

    start, how = (-np.inf, "max") if mode == 2 else (0, "add")
    out = cx.collected(bags, start, spread, rows, how)
    sizes = cx.collected(bags, 0, bag, cx.filled([count], 1, "int64"), "add")
    each = sizes.expand_dims([1])
    unused = [cx.filled(cx.dims(f), 0, "int64") for f in node.value[1:]]
    most: Term = sizes
    if mode == 2 and node.outputs[3]:
        same = rows.equal(out.take(bag.minimum(bags - 1), 0))
        number = cx.where(same, line.expand_dims([1]), count)
        first = cx.collected(bags, np.iinfo("int64").max, spread, number, "min")
        at = first.minimum(cx.simplify(count - 1))
        most = cx.where(each.equal(0), 0, indices.take(at, 0))
    if mode == 1:
        out = out / each.maximum(1).astype(node.dtype)
    elif mode == 2:
        out = cx.where(each.equal(0), 0.0, out)
    plain = 0 in node.value[1].shape
    return [out, unused[0] if plain else own, *((sizes, most) if mode else unused[1:])]


@aten("repeat_interleave.Tensor")
def repeat_interleave(cx: Context, node: Node, repeats: Term, *, output_size: Size | None) -> Term:
    """Each index as often as it is to be repeated."""
    counts = cx.tensor(repeats, "int64")
    ends, total = counts.cumsum(0), output_size
    if total is None:
        total = cx.integers(counts.sum([0], False), "repeats", dims=True)[0]
    return op.bucketize(cx.line(total), ends, False, True)


# The rest are formulas.
rows({
    "slice_scatter": lambda cx, node, x, source, dim, start, end, step: x.slice_scatter(
        cx.tensor(source, str(x.dtype)), within(start, x.shape[dim], 0),
        within(end, x.shape[dim], x.shape[dim]), step, dim),
    "index_reduce": lambda cx, node, x, dim, indices, source, reduce, *, include_self: scatter(
        cx, node, x, dim, indices.expand_dims([k for k in range(source.ndim) if k != dim]).broadcast_to(source.shape),
        source, reduce, include_self=include_self),
    "tril_indices triu_indices": lambda cx, node, rows, columns, offset: cx.value(cx.literal(np.stack(
        getattr(np, node.op_type.split(".")[1])(rows, offset, columns)).astype(node.dtype))),
    "index_select": lambda cx, node, x, dim, indices: cx.ops.take(x, _line(cx, indices), axis=dim),
    "put": lambda cx, node, x, indices, source, accumulate:
        cx.flat(x).index_put([cx.flat(indices)], cx.flat(source), accumulate).reshape(x.shape),
    "nonzero": lambda cx, node, x: cx.ops.nonzero(x).permute_dims([1, 0]),
    "_local_scalar_dense": lambda cx, node, x: x.reshape([]),
    "embedding": lambda cx, node, weight, indices: cx.ops.take(weight, indices, axis=0),
})  # fmt: skip
