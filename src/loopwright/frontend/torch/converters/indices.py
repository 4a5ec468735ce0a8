"""Operators that read and write at indices that are tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import fx

from ....base.errors import explain
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.operators.shapes import axis_of
from ..context import Arg, Number, Size, Term
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
        self.exprs = [v.expr for v in self.indices]

    def front(self, ndim: int) -> list[int]:
        """The order that brings the axes of the indices from their place to the front."""
        first, rank = self.first, self.rank
        return [*range(first, first + rank), *range(first), *range(first + rank, ndim)]


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(cx: Context, node: Node, x: Term, indices: Indices) -> Term:
    at = _Indexed(x, _numbers(cx, indices))
    if not at.indices:
        return x
    out = at.x.index_tensor(at.exprs)
    return out.permute_dims([*np.argsort(at.front(out.ndim)).tolist()]) if at.between else out


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    cx: Context, node: Node, x: Term, indices: Indices, values: Term, accumulate: bool = False,
    *_: object,
) -> Term:  # fmt: skip
    at = _Indexed(x, _numbers(cx, indices))
    values = cx.tensor(values, str(x.dtype))
    if not at.indices:
        spread = values.broadcast_to(ShapeExpr(x.shape))
        return x + spread if accumulate else spread
    if at.between:
        whole = at.rank + x.ndim - len(at.indices)
        wide = values.reshape(ShapeExpr([*[1] * (whole - values.ndim), *values.shape]))
        values = wide.permute_dims(at.front(whole))
    out = at.x.index_put(at.exprs, values.expr, accumulate)
    return out.permute_dims([at.order.index(k) for k in range(x.ndim)])


def _extents(cx: Context, x: Term, like: Term, without: int | None = None) -> Term:
    """A tensor as far as another one extends, except along one axis."""
    axes = [k for k in range(x.ndim) if k != without and not cx.equal(x.shape[k], like.shape[k])]
    ends = [like.shape[k] for k in axes]
    return x.strided_slice(axes, [0] * len(axes), ends, None, True) if axes else x


def _ranked(x: Term) -> Term:
    return x if x.ndim else x.reshape(ShapeExpr([1]))


@aten("gather")
def gather(cx: Context, node: Node, x: Term, dim: int, indices: Term, **_: object) -> Term:
    if 0 in node.value.shape:
        return cx.filled(indices.shape, 0, node.dtype)
    if not indices.ndim or not x.ndim:
        out = _ranked(x).take(_ranked(indices).expr, 0)
        return out.reshape(ShapeExpr(indices.shape))
    axis = axis_of(dim, x.ndim)
    return _extents(cx, x, indices, axis).gather_elements(indices.expr, axis)


@aten("index_select")
def index_select(cx: Context, node: Node, x: Term, dim: int, indices: Term) -> Term:
    return cx.ops.take(x, _ranked(indices), axis=axis_of(dim, x.ndim)) if x.ndim else x


_REDUCTIONS = {
    None: "update", "add": "add", "sum": "add", "multiply": "mul", "prod": "mul", "amax": "max",
    "amin": "min", "mean": "mean",
}  # fmt: skip


@aten(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_reduce.two"
)
def scatter(
    cx: Context, node: Node, x: Term, dim: int, indices: Term, source: Arg, reduce: str | None = None,
    *, include_self: bool = True,
) -> Term:  # fmt: skip
    dtype, how = str(x.dtype), _REDUCTIONS[reduce]
    if cx.equal(cx.product(indices.shape), 0):  # of any rank
        return x
    data, indices = _ranked(x), _ranked(indices)
    axis, shape = axis_of(dim, data.ndim), ShapeExpr(indices.shape)
    updates = cx.tensor(source, dtype)
    updates = (
        _extents(cx, updates, indices) if updates.ndim == data.ndim else updates.broadcast_to(shape)
    )
    if not include_self:
        plain = cx.filled(indices.shape, _neutral(data, how), dtype)
        data = data.scatter_elements(indices.expr, plain.expr, axis, "update")
    out = data.scatter_elements(indices.expr, updates.expr, axis, "add" if how == "mean" else how)
    if how == "mean":
        counts = cx.filled(data.shape, int(include_self), dtype)
        ones = cx.filled(indices.shape, 1, dtype)
        counts = counts.scatter_elements(indices.expr, ones.expr, axis, "add").maximum(1)
        out = out / counts if x.dtype.is_float else out // counts
    return out if x.ndim else out.reshape(ShapeExpr([]))


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


@aten("index_reduce")
def index_reduce(
    cx: Context, node: Node, x: Term, dim: int, indices: Term, source: Term, reduce: str,
    *, include_self: bool = True,
) -> Term:  # fmt: skip
    data, source = _ranked(x), _ranked(source)
    axis = axis_of(dim, data.ndim)
    line = indices.reshape(ShapeExpr([d if k == axis else 1 for k, d in enumerate(source.shape)]))
    spread = line.broadcast_to(ShapeExpr(source.shape))
    out = scatter(cx, node, data, axis, spread, source, reduce, include_self=include_self)
    return out if x.ndim else out.reshape(ShapeExpr([]))


@aten("slice_scatter")
def slice_scatter(
    cx: Context, node: Node, x: Term, source: Term, dim: int = 0, start: Size | None = None,
    end: Size | None = None, step: Size = 1,
) -> Term:  # fmt: skip
    axis = axis_of(dim, x.ndim)
    begin, stop = within(start, x.shape[axis], 0), within(end, x.shape[axis], x.shape[axis])
    return x.slice_scatter(cx.tensor(source, str(x.dtype)).expr, begin, stop, step, axis)


@aten("select_scatter")
def select_scatter(cx: Context, node: Node, x: Term, source: Term, dim: int, index: Size) -> Term:
    axis = axis_of(dim, x.ndim)
    begin = x.shape[axis] + index if isinstance(index, int) and index < 0 else index
    layer = cx.tensor(source, str(x.dtype)).expand_dims([axis])
    return x.slice_scatter(layer.expr, begin, begin + 1, 1, axis)


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(cx: Context, node: Node, x: Term, mask: Term, value: Arg) -> Term:
    return cx.where(cx.tensor(mask, "bool"), cx.tensor(value, node.dtype), cx.tensor(x, node.dtype))


@aten("masked_select")
def masked_select(cx: Context, node: Node, x: Term, mask: Term) -> Term:
    both = cx.where(cx.tensor(mask, "bool"), x, x)  # which broadcasts
    return index(cx, node, both, [cx.tensor(mask, "bool").broadcast_to(ShapeExpr(both.shape))])


@aten("bucketize.Tensor")
def bucketize(
    cx: Context, node: Node, x: Term, bounds: Term, *, out_int32: bool = False, right: bool = False
) -> Expr:
    if bounds.ndim != 1:
        raise ValueError(explain("boundaries have one axis", got=bounds.ndim))
    return op.bucketize(x.expr, bounds.expr, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    cx: Context, node: Node, bounds: Term, x: Term, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Term | None = None,
) -> Term:  # fmt: skip
    """The number of boundaries below each value, or up to it."""
    if sorter is not None:
        bounds = bounds.gather_elements(sorter.expr, bounds.ndim - 1)
    row = bounds if bounds.ndim == 1 else bounds.expand_dims([bounds.ndim - 1])
    value = x.expand_dims([x.ndim])
    below = row <= value if right or side == "right" else row < value
    return below.astype(node.dtype).sum([below.ndim - 1], False).reshape(cx.shape(node.value))


@aten("take")
def take(cx: Context, node: Node, x: Term, indices: Term) -> Term:
    return cx.ops.take(cx.flat(x), indices, axis=0)


@aten("put")
def put(
    cx: Context, node: Node, x: Term, indices: Term, source: Term, accumulate: bool = False
) -> Term:
    out = cx.flat(x).index_put([cx.flat(indices).expr], cx.flat(source).expr, accumulate)
    return out.reshape(ShapeExpr(x.shape))


@aten("diagonal", "diagonal_copy")
def diagonal(
    cx: Context, node: Node, x: Term, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Term:
    """Elements (k, k + offset) of two axes, as the last one."""
    along = cx.line(cx.dims(node.value)[-1])
    where: Indices = [None] * x.ndim
    where[axis_of(dim1, x.ndim)] = along + max(-offset, 0)
    where[axis_of(dim2, x.ndim)] = along + max(offset, 0)
    at = _Indexed(x, where)
    out = at.x.index_tensor(at.exprs)
    return out.permute_dims([*range(1, out.ndim), 0])


@aten("as_strided", "as_strided_copy")
def as_strided(
    cx: Context, node: Node, x: Term, size: Sequence[Size], stride: Sequence[Size],
    offset: Size | None = None,
) -> Term:  # fmt: skip
    """Elements of the memory of the tensor that the views before it are of."""
    source = node.source.args[0]
    start = integer(source.meta["val"].storage_offset(), cx.symbols) if offset is None else offset
    while source.op == "call_function" and _is_view(source):
        source = source.args[0]
        x = cx.value(cx.values[result_of(source)])
    fake = source.meta["val"]
    if not fake.is_contiguous():  # in another order of axes
        x = x.permute_dims([*np.argsort([-s for s in fake.stride()], kind="stable").tolist()])
    return cx.flat(x).take(_strided(cx, start, size, stride).expr, 0)


def _strided(cx: Context, start: Size, size: Sequence[Size], stride: Sequence[Size]) -> Term:
    """The positions of elements in memory."""
    at = cx.tensor(start, "int64")
    for k, (count, step) in enumerate(zip(size, stride, strict=True)):
        shape = [count if j == k else 1 for j in range(len(size))]
        at = at + (cx.line(count) * step).reshape(ShapeExpr(shape))
    return at


@aten("as_strided_scatter")
def as_strided_scatter(
    cx: Context, node: Node, x: Term, source: Term, size: Sequence[Size], stride: Sequence[Size],
    offset: Size | None = None,
) -> Term:  # fmt: skip
    fake = node.source.args[0].meta["val"]
    if not fake.is_contiguous() or fake.storage_offset():
        raise ValueError(explain("as_strided_scatter of a tensor that is a part of another"))
    at = _strided(cx, offset or 0, size, stride)
    return cx.flat(x).index_put([at.expr], source.expr, False).reshape(ShapeExpr(x.shape))


def _is_view(node: fx.Node) -> bool:
    """Whether the result of a node is a view of its first argument."""
    schema = getattr(node.target, "_schema", None)
    alias = schema and schema.returns and schema.returns[0].alias_info
    return bool(alias) or str(node.target) == "aten._unsafe_view.default"


@aten("unfold")
def unfold(cx: Context, node: Node, x: Term, dim: int, size: int, step: int) -> Term:
    """Windows of an axis, their elements as the last axis."""
    if not x.ndim:
        return cx.part(x.reshape(ShapeExpr([1])), 0, 0, size)
    axis = axis_of(dim, x.ndim)
    starts = (cx.line(cx.dims(node.value)[axis]) * step).expand_dims([1])
    out = x.take((starts + cx.line(size)).expr, axis)
    return out.permute_dims([*(k for k in range(out.ndim) if k != axis + 1), axis + 1])


@aten("masked_scatter")
def masked_scatter(cx: Context, node: Node, x: Term, mask: Term, source: Term) -> Term:
    """The k-th true element of the mask gets the k-th element of the source."""
    data, where = (v.broadcast_to(cx.shape(node.value)) for v in (x, cx.tensor(mask, "bool")))
    flags = cx.flat(where)
    rank = (flags.astype("int64").cumsum(0) - 1).maximum(0)
    values = cx.flat(source).take(rank.minimum(cx.product(source.shape) - 1).expr, 0)
    return cx.where(flags, values, cx.flat(data)).reshape(cx.shape(node.value))


@aten("masked_scatter_backward")
def masked_scatter_backward(
    cx: Context, node: Node, grad: Term, mask: Term, sizes: Sequence[Size]
) -> Term:
    """The gradients where the mask is true, one after another; those of elements that no mask took are 0."""
    flags, count = cx.flat(mask.broadcast_to(ShapeExpr(grad.shape))), cx.product(sizes)
    rank = flags.astype("int64").cumsum(0) - 1
    at = cx.where(flags, rank, count)  # one more place, which is dropped
    rows = cx.filled([cx.simplify(count + 1)], 0, node.dtype)
    rows = rows.scatter_elements(at.expr, cx.flat(grad).expr, 0, "update")
    return cx.part(rows, 0, 0, count).reshape(ShapeExpr(sizes))


@aten("nonzero_static")
def nonzero_static(cx: Context, node: Node, x: Term, *, size: int, fill_value: int = -1) -> Term:
    """The first `size` positions of elements that are not 0, filled up."""
    flags = cx.flat(cx.tensor(x, "bool"))
    rank = (flags.astype("int64").cumsum(0) - 1).minimum(size)
    at = cx.where(flags, rank, size)  # one more place, which is dropped
    begin = cx.filled([size + 1], -1, "int64")
    rest = begin.scatter_elements(at.expr, cx.line(cx.product(x.shape)).expr, 0, "update")
    rest = cx.part(rest, 0, 0, size)
    missing, columns = rest < 0, []
    for extent in reversed(x.shape):
        columns.insert(0, cx.where(missing, fill_value, rest % extent))
        rest = rest // extent
    return cx.stack(columns, 1) if columns else cx.filled([size, 0], 0, "int64")


@aten("_embedding_bag_forward_only", "_embedding_bag")
def embedding_bag(
    cx: Context, node: Node, weight: Term, indices: Term, offsets: Term, scale: bool = False, mode: int = 0,
    sparse: bool = False, factors: Term | None = None, include_last: bool = False, padding: int = -1,
) -> list[Term | None]:  # fmt: skip
    """Sums (0), means (1) or maxima (2) of rows of a table: a bag begins at each offset. The other results are
    the bag of each row, the sizes of bags, and which index each maximum is of; those that torch leaves unused are 0."""
    bags, width, count = offsets.shape[0] - int(include_last), weight.shape[1], indices.shape[0]
    line, indices = cx.line(count), cx.tensor(indices, "int64")
    rows = cx.ops.take(weight, indices, axis=0)
    rows = rows if factors is None else rows * factors.expand_dims([1])
    starts = cx.part(cx.tensor(offsets, "int64"), 0, 0, bags)
    own = (starts <= line.expand_dims([1])).astype("int64").sum([1], False) - 1
    # One more bag, which is dropped, takes padding.
    bag = own if padding < 0 else cx.where(indices.equal(padding), bags, own)
    spread = bag.expand_dims([1]).broadcast_to(ShapeExpr([count, width])).expr

    def gathered(start: Number, dtype: str, at: Expr, values: Term, how: str) -> Term:
        """Values reduced by bags."""
        dims = [cx.simplify(bags + 1), *values.shape[1:]]
        return cx.filled(dims, start, dtype).scatter_elements(at, values.expr, 0, how)

    start, how = (-np.inf, "max") if mode == 2 else (0, "add")
    out = gathered(start, node.dtype, spread, rows, how)
    sizes = cx.part(
        gathered(0, "int64", bag.expr, cx.filled([count], 1, "int64"), "add"), 0, 0, bags
    )
    each = sizes.expand_dims([1])
    unused = [cx.filled(cx.dims(f), 0, "int64") for f in node.value[1:]]
    most: Term = sizes
    if mode == 2 and node.outputs[3]:
        same = rows.equal(out.take(bag.expr, 0))
        first = gathered(
            np.iinfo("int64").max,
            "int64",
            spread,
            cx.where(same, line.expand_dims([1]), count),
            "min",
        )
        at = cx.part(first, 0, 0, bags).minimum(cx.simplify(count - 1))
        most = cx.where(each.equal(0), 0, indices.take(at.expr, 0))
    out = cx.part(out, 0, 0, bags)
    if mode == 1:
        out = out / each.maximum(1).astype(node.dtype)
    elif mode == 2:
        out = cx.where(each.equal(0), 0.0, out)
    plain = 0 in node.value[1].shape
    return [out, unused[0] if plain else own, *((sizes, most) if mode else unused[1:])]


@aten("repeat_interleave.Tensor")
def repeat_interleave(
    cx: Context, node: Node, repeats: Term, output_size: Size | None = None
) -> Term:
    """Each index as often as it is to be repeated."""
    counts = cx.tensor(repeats, "int64")
    ends, total = counts.cumsum(0), output_size
    if total is None:
        total = cx.integers(counts.sum([0], False), "repeats", dims=True)[0]
    at = op.bucketize(cx.line(total).expr, ends.expr, False, True)
    return cx.value(at).astype(node.dtype)


@aten("tril_indices", "triu_indices")
def triangle_indices(
    cx: Context, node: Node, rows: int, columns: int, offset: int = 0, **_: object
) -> Term:
    of = np.tril_indices if "tril" in node.op_type else np.triu_indices
    return cx.value(cx.literal(np.stack(of(rows, offset, columns)).astype(node.dtype)))


# The rest are formulas.
rows({
    "scatter_add":
        lambda cx, node, x, dim, indices, source: scatter(cx, node, x, dim, indices, source, "add"),
    "nonzero": lambda cx, node, x: cx.ops.nonzero(x).permute_dims([1, 0]),
    "_local_scalar_dense": lambda cx, node, x: x.reshape(ShapeExpr([])),
    "embedding": lambda cx, node, weight, indices, *_: cx.ops.take(weight, indices, axis=0),
})  # fmt: skip
