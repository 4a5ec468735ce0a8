"""TVM's translation: operators that its v0.21 keeps whole, or writes with other operators of Relax.

`from_exported_program` and `from_fx` use these rows before those of the other modules; `compile` and
`torch.compile` do not. A row has a condition where it does not compute the same as torch for all nodes; an
operator with a node for which it does not hold is decomposed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx

from ....base.registry import Registry
from ....ir.prim_expr import IntImm
from ....ir.prim_op import const
from ....relax import op
from ....relax.expr import Expr, PrimValue, ShapeExpr, Tuple
from ...graph.registry import Converter
from ..context import Arg, Number, Size, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from . import indices as indexing
from . import reductions, shapes
from .table import full_name

Condition = Callable[[fx.Node], bool]


class Row(NamedTuple):
    """A converter, and the condition on nodes of the exported graph under which it holds."""

    convert: Converter
    only: Condition | None = None


# name of an overload -> its row in TVM's translation
WHOLE: Registry[str, Row] = Registry("converter of TVM's translation", compiles=True)


def whole(*overloads: str, only: Condition | None = None) -> Callable[[Converter], Converter]:
    """Register a row."""

    def register(convert: Converter) -> Converter:
        for name in map(full_name, overloads):
            WHOLE.register(name, Row(convert, only), origin=__name__)
        return convert

    return register


def undecomposed(graph: fx.Graph) -> list[str]:
    """The overloads that stay whole in a graph: the rows of all their nodes hold."""
    refused = set()
    for node in graph.nodes:
        row = WHOLE.get(str(node.target))
        if row is not None and row.only is not None and not row.only(node):
            refused.add(str(node.target))
    return [name for name in WHOLE if name not in refused]


def _given(node: fx.Node, name: str, position: int, default: Any = None) -> Any:
    """An argument of an fx node."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


# ---------------------------------------------------------------- products and windows


@whole("linear")
def linear(cx: Context, node: Node, x: Term, weight: Term, bias: Term | None = None) -> Expr:
    return op.linear(x.expr, weight.expr, None if bias is None else bias.expr, node.dtype)


@whole("mm", "bmm", "matmul")
def matmul(cx: Context, node: Node, a: Term, b: Term) -> Expr:
    return op.matmul(a.expr, b.expr, node.dtype)


@whole("addmm")
def addmm(
    cx: Context, node: Node, base: Term, a: Term, b: Term, *, beta: Number = 1, alpha: Number = 1
) -> Term:
    out = cx.value(matmul(cx, node, a, b))
    out = out if alpha == 1 else out * alpha
    return out if beta == 0 else (base if beta == 1 else base * beta) + out


_CONVOLUTIONS = {
    "conv1d": op.nn.conv1d, "conv2d": op.nn.conv2d, "conv3d": op.nn.conv3d,
    "conv_transpose1d": op.nn.conv1d_transpose, "conv_transpose2d": op.nn.conv2d_transpose,
}  # fmt: skip


def _is_batch(node: fx.Node) -> bool:
    """Whether the data of a convolution has a batch axis."""
    data, weight = node.args[:2]
    return data.meta["val"].ndim == weight.meta["val"].ndim


@whole("conv1d", "conv2d", "conv3d", only=_is_batch)
def convolution(
    cx: Context, node: Node, x: Term, weight: Term, bias: Term | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1, **more: Any,
) -> Term:  # fmt: skip
    build = _CONVOLUTIONS[node.op_type.split(".")[1]]
    more |= {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = cx.value(build(x.expr, weight.expr, **more, out_dtype=node.dtype))
    return out if bias is None else out + bias.reshape(ShapeExpr([1, -1, *[1] * (out.ndim - 2)]))


@whole("conv_transpose1d", "conv_transpose2d.input", only=_is_batch)
def transposed(
    cx: Context, node: Node, x: Term, weight: Term, bias: Term | None = None, stride: Any = 1,
    padding: Any = 0, output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Term:  # fmt: skip
    args = x, weight, bias, stride, padding, dilation, groups
    return convolution(cx, node, *args, output_padding=output_padding)


@whole("pad", only=lambda node: all(isinstance(w, int) and w >= 0 for w in node.args[1]))
def pad(
    cx: Context, node: Node, x: Term, widths: list[int], mode: str = "constant", value: Any = None
) -> Expr:
    sides = [w for side in shapes._widths(x.ndim, widths) for w in side if isinstance(w, int)]
    return op.nn.pad(x.expr, sides, mode, float(value or 0))


def _is_attention(node: fx.Node) -> bool:
    mask = _given(node, "attn_mask", 3)
    fits = all(a.meta["val"].ndim == 4 for a in node.args[:3])
    rate = _given(node, "dropout_p", 4, 0.0)
    grouped = node.kwargs.get("enable_gqa", False)
    return (
        fits and not rate and not grouped and (mask is None or mask.meta["val"].is_floating_point())
    )


@whole("scaled_dot_product_attention", only=_is_attention)
def attention(
    cx: Context, node: Node, q: Term, k: Term, v: Term, attn_mask: Term | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, *, scale: float | None = None, **_: object,
) -> Term:  # fmt: skip
    parts = [x.permute_dims([0, 2, 1, 3]).expr for x in (q, k, v)]
    mask = None if attn_mask is None else attn_mask.expr
    causal = "TopLeft" if is_causal else None
    out = cx.value(op.nn.attention(*parts, mask, scale=scale, causal_mask=causal))
    return out.permute_dims([0, 2, 1, 3])


def _is_resized(node: fx.Node) -> bool:
    """Whether only the extents decide: scales, if they are given, are their ratios. The nearest neighbours are
    torch's where these are whole numbers, or those of one are."""
    before, after = (n.meta["val"].shape[2:] for n in (node.args[0], node))
    pairs = list(zip(before, after, strict=True))
    if not all(isinstance(d, int) for pair in pairs for d in pair):
        return False
    scales = None if node.args[1] is not None else node.args[-1]
    if scales is not None and any(b * s != a for (b, a), s in zip(pairs, scales, strict=True)):
        return False
    whole = all(a % b == 0 for b, a in pairs) or all(b % a == 0 for b, a in pairs)
    return whole or "nearest" not in str(node.target)


@whole(
    "upsample_bilinear2d.vec", "upsample_nearest2d.vec", "upsample_bicubic2d.vec", only=_is_resized
)
def resize(cx: Context, node: Node, x: Term, size: object, *more: object) -> Expr:
    method = node.op_type.split("upsample_")[1].split("2d")[0]
    names = {"bilinear": "linear", "nearest": "nearest_neighbor", "bicubic": "cubic"}
    nearest, after = method == "nearest", cx.dims(node.value)[2:]
    mode = "asymmetric" if nearest and after[0] < int(x.shape[2]) else "half_pixel"
    mode = "align_corners" if not nearest and more[0] else mode
    return op.image.resize2d(
        x.expr, ShapeExpr(after), None, "NCHW", names[method], coordinate_transformation_mode=mode
    )


# ---------------------------------------------------------------- norms and losses


def _vector(cx: Context, value: Term | None, dims: Sequence[int], number: int, dtype: str) -> Expr:
    """A factor or term of a norm; one that is left out is a constant."""
    if value is not None:
        return value.expr
    return cx.literal(torch.full(tuple(dims), number).numpy().astype(dtype)).expr


@whole("layer_norm")
def layer_norm(
    cx: Context, node: Node, x: Term, shape: list[int], weight: Term | None = None,
    bias: Term | None = None, eps: float = 1e-5, *_: object,
) -> Expr:  # fmt: skip
    dtype = str(x.dtype)
    affine = [_vector(cx, v, shape, k, dtype) for v, k in ((weight, 1), (bias, 0))]
    return op.nn.layer_norm(x.expr, *affine, [*range(-len(shape), 0)], eps)


@whole("instance_norm", only=lambda node: node.args[3] is None and bool(node.args[5]))
def instance_norm(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, mean: None, var: None,
    training: bool, momentum: float, eps: float, *_: object,
) -> Expr:  # fmt: skip
    dims, dtype = node.value.shape[1:2], str(x.dtype)
    affine = [_vector(cx, v, dims, k, dtype) for v, k in ((weight, 1), (bias, 0))]
    return op.nn.instance_norm(x.expr, *affine, 1, [*range(2, x.ndim)], eps)


def _is_nll(node: fx.Node) -> bool:
    preds, target = (a.meta["val"] for a in node.args[:2])
    return preds.ndim == 2 and not target.is_floating_point() and not _given(node, "", 5, 0.0)


@whole("cross_entropy_loss", only=_is_nll)
def cross_entropy(
    cx: Context, node: Node, preds: Term, target: Term, weight: Term | None = None, reduction: int = 1,
    ignore_index: int = -100, *_: object,
) -> Expr:  # fmt: skip
    weights = None if weight is None else weight.expr
    logs = cx.emit(op.nn.log_softmax(preds.expr))
    how = ("none", "mean", "sum")[reduction]
    return op.nn.nll_loss(logs, target.expr, weights, how, ignore_index)


@whole("linalg_vector_norm")
def vector_norm(
    cx: Context, node: Node, x: Term, order: Number = 2, dim: Any = None, keepdim: bool = False,
    **_: object,
) -> Term:  # fmt: skip
    size, axes = cx.tensor(x, node.dtype).abs(), None if not dim else list(dim)
    if order in (float("inf"), float("-inf")):
        return size.max(axes, keepdim) if order > 0 else size.min(axes, keepdim)
    if order == 0:
        return size.not_equal(0.0).astype(node.dtype).sum(axes, keepdim)
    return size.power(float(order)).sum(axes, keepdim).power(1 / order)


# ---------------------------------------------------------------- elements


@whole("rsub.Tensor", "rsub.Scalar")
def rsub(cx: Context, node: Node, a: Arg, b: Arg, alpha: Number = 1) -> Term:
    x = cx.tensor(a, node.dtype)
    return cx.tensor(b, node.dtype) - (x if alpha == 1 else x * alpha)


@whole("hardtanh")
def hardtanh(cx: Context, node: Node, x: Term, low: Number = -1, high: Number = 1) -> Expr:
    bounds = (PrimValue(const(float(v), "float64")) for v in (low, high))
    return op.clip(cx.tensor(x, node.dtype).expr, *bounds)


def _has_channels(node: fx.Node) -> bool:
    data, slopes = (a.meta["val"] for a in node.args[:2])
    return data.ndim > 1 and slopes.ndim == 1


@whole("copy")
def copy(cx: Context, node: Node, x: Term, source: Term, *_: object) -> Term:
    out = cx.tensor(source, node.dtype)
    same = x.ndim == out.ndim and all(map(cx.equal, x.shape, out.shape))
    return out if same else out.broadcast_to(cx.shape(node.value))


@whole("topk")
def topk(
    cx: Context, node: Node, x: Term, k: int, dim: int = -1, largest: bool = True, *_: object
) -> list[Term]:
    if not x.ndim:
        return reductions.topk(cx, node, x, k, dim, largest)
    return _fields(cx, node, op.topk(x.expr, k, dim, "both", largest, "int64"))


@whole("masked_fill.Scalar")
def masked_fill(cx: Context, node: Node, x: Term, mask: Term, value: Number) -> Expr:
    filler = cx.tensor(value, "int32" if isinstance(value, int) else "float32")
    filled = cx.emit(op.full_like(x.expr, filler.expr))
    return op.where(*cx.broadcast(mask, cx.value(filled), x))


@whole("outer")
def outer(cx: Context, node: Node, a: Term, b: Term) -> Expr:
    return op.outer(cx.tensor(a, node.dtype).expr, cx.tensor(b, node.dtype).expr)


# ---------------------------------------------------------------- reductions


@whole("mean.dim")
def mean(
    cx: Context, node: Node, x: Term, dim: Any = None, keepdim: bool = False, **_: object
) -> Expr:
    return op.mean(cx.tensor(x, node.dtype).expr, dim or None, keepdim)


@whole("argmax", "argmin")
def arg(cx: Context, node: Node, x: Term, dim: int | None = None, keepdim: bool = False) -> Any:
    if not x.ndim:
        return reductions.arg(cx, node, x, dim, keepdim)
    build = op.argmax if "argmax" in node.op_type else op.argmin
    return build(x.expr, dim, keepdim)


@whole("cumsum", "cumprod")
def cumulative(cx: Context, node: Node, x: Term, dim: int, *, dtype: str | None = None) -> Any:
    if not x.ndim:
        return cx.tensor(x, node.dtype)
    kind = None if dtype is None and x.dtype == node.dtype else node.dtype
    return (op.cumsum if "sum" in node.op_type else op.cumprod)(x.expr, dim, kind)


# ---------------------------------------------------------------- shapes


@whole("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(cx: Context, node: Node, x: Term, dim: Any = None) -> Any:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = [a for a in axes if x.ndim and isinstance(x.shape[a], IntImm) and x.shape[a].value == 1]
    if dim is None and len(ones) == x.ndim - node.value.ndim:
        return op.squeeze(x.expr)
    return op.squeeze(x.expr, ones) if ones else x


@whole("stack")
def stack(cx: Context, node: Node, tensors: list[Term], dim: int = 0) -> Expr:
    return op.stack([cx.tensor(v, node.dtype).expr for v in tensors], dim)


@whole("meshgrid", "meshgrid.indexing")
def meshgrid(cx: Context, node: Node, tensors: list[Term], *, indexing: str = "ij") -> Any:
    return _fields(cx, node, op.meshgrid([t.expr for t in tensors], indexing))


def _fields(cx: Context, node: Node, both: Expr) -> list[Term]:
    whole = cx.emit(both)
    return [cx.value(whole[k]) for k in range(len(node.value))]


@whole("split.Tensor", "split_with_sizes", "chunk")
def split(cx: Context, node: Node, x: Term, sizes: object, dim: int = 0) -> list[Term]:
    dims = [cx.dims(fake)[dim] for fake in node.value]
    numbers = [d for d in dims if isinstance(d, int)]
    if len(numbers) < len(dims):
        return shapes.split(cx, node, x, sizes, dim)
    ends = [*itertools.accumulate(numbers)][:-1]
    return _fields(cx, node, op.split(x.expr, len(dims) if len(set(dims)) == 1 else ends, dim))


@whole("unbind.int")
def unbind(cx: Context, node: Node, x: Term, dim: int = 0) -> list[Term]:
    parts = cx.emit(op.split(x.expr, len(node.value), dim))
    rows = [cx.value(parts[k]).squeeze([dim]) for k in range(len(node.value))]
    return _fields(cx, node, Tuple([r.expr for r in rows]))


@whole("select.int")
def select(cx: Context, node: Node, x: Term, dim: int, index: Size) -> Any:
    if not isinstance(index, int) or index < 0:
        return shapes.select(cx, node, x, dim, index)
    return op.take(x.expr, cx.tensor(index, "int64").expr, dim)


@whole("slice.Tensor")
def slice_tensor(
    cx: Context, node: Node, x: Term, dim: int = 0, start: Size | None = None,
    end: Size | None = None, step: Size = 1,
) -> Any:  # fmt: skip
    if not all(isinstance(d, IntImm) for d in x.shape):
        return shapes.slice_tensor(cx, node, x, dim, start, end, step)
    stop = x.shape[dim] if end is None else end
    return op.strided_slice(x.expr, [dim], [start or 0], [stop], [step])


@whole("roll")
def roll(cx: Context, node: Node, x: Term, shifts: list[Size], dims: Sequence[int] = ()) -> Any:
    if not dims:
        return cx.value(roll(cx, node, cx.flat(x), shifts, [0])).reshape(cx.shape(node.value))
    for shift, axis in zip(shifts, dims, strict=True):
        extent = x.shape[axis]
        if not isinstance(shift, int) or not isinstance(extent, IntImm) or not extent.value:
            return shapes.roll(cx, node, x, shifts, dims)
        at = extent.value - shift % extent.value
        parts = [x.strided_slice([axis], [b], [e], [1]) for b, e in ((0, at), (at, extent.value))]
        x = cx.concat(parts[::-1], axis) if 0 < at < extent.value else x
    return x


# ---------------------------------------------------------------- indices


@whole("embedding")
def embedding(cx: Context, node: Node, weight: Term, indices: Term, *_: object) -> Term:
    at = cx.tensor(indices, "int32")
    if at.ndim == 1:
        return weight.take(at.expr, 0)
    return weight.take(at.reshape(ShapeExpr([-1])).expr, 0).reshape(cx.shape(node.value))


@whole("gather")
def gather(cx: Context, node: Node, x: Term, dim: int, indices: Term, **_: object) -> Any:
    same = [a for a in range(x.ndim) if a != dim % x.ndim] if x.ndim else [0]
    if not x.ndim or not all(cx.equal(x.shape[a], indices.shape[a]) for a in same):
        return indexing.gather(cx, node, x, dim, indices)
    return op.gather_elements(x.expr, indices.expr, dim)


@whole("take")
def take(cx: Context, node: Node, x: Term, indices: Term) -> Any:
    if x.ndim != 1:
        return indexing.take(cx, node, x, indices)
    return op.take(x.expr, op.astype(indices.expr, "int32"))


def _line(cx: Context, x: Term) -> Term:
    return x if x.ndim == 1 else cx.flat(x)


def _is_masked(node: fx.Node) -> bool:
    """Whether each element has its own flag, and there is one in the source."""
    data, mask, source = (a.meta["val"] for a in node.args[:3])
    return data.shape == mask.shape and mask.dtype is torch.bool and source.numel() != 0


@whole("masked_scatter", only=_is_masked)
def masked_scatter(cx: Context, node: Node, x: Term, mask: Term, source: Term) -> Term:
    """The position before the first true element is -1, the source's last: no result takes it."""
    position = _line(cx, mask).cumsum(0, "int32", False) - 1
    moved = _line(cx, source).take(position.expr, 0)
    return cx.where(mask, moved if mask.ndim == 1 else moved.reshape(ShapeExpr(x.shape)), x)


def _is_membership(node: fx.Node) -> bool:
    return not _given(node, "assume_unique", 2, False) and not _given(node, "invert", 3, False)


@whole("isin.Tensor_Tensor", only=_is_membership)
def isin(cx: Context, node: Node, x: Term, among: Term, **_: object) -> Term:
    """A sum of bool is whether any is true."""
    same = x.expand_dims(-1).equal(cx.flat(among))
    return cx.value(op.greater(same.sum(-1).expr, cx.scalar(0, str(x.dtype))))


@whole("index_put")
def index_put(
    cx: Context, node: Node, x: Term, indices: list[Term | None], values: Term,
    accumulate: bool = False,
) -> Any:  # fmt: skip
    if any(i is None or i.dtype.is_bool for i in indices) or len(indices) != x.ndim:
        return indexing.index_put(cx, node, x, indices, values, accumulate)
    at = [i.expr for i in indices if i is not None]
    return op.index_put(x.expr, at, cx.tensor(values, str(x.dtype)).expr, accumulate)


@whole("_local_scalar_dense")
def item(cx: Context, node: Node, x: Term) -> Any:
    return (
        op.take(x.expr, cx.tensor(0, "int64").expr, 0) if x.ndim == 1 else x.reshape(ShapeExpr([]))
    )


# ---------------------------------------------------------------- new tensors


@whole("new_ones", "new_zeros", "ones")
def filled(cx: Context, node: Node, *_: object, **__: object) -> Expr:
    value = cx.tensor("ones" in node.op_type, node.dtype)
    return op.full(cx.shape(node.value), value.expr, node.dtype)


@whole("empty_like", "zeros_like", "ones_like")
def like(cx: Context, node: Node, x: Term, *_: object, **__: object) -> Expr:
    build = op.ones_like if "ones" in node.op_type else op.zeros_like
    return build(x.expr, None if x.dtype == node.dtype else node.dtype)


@whole("linspace")
def linspace(cx: Context, node: Node, start: float, end: float, steps: int, **_: object) -> Expr:
    """Steps to half a step beyond the end, so that rounding does not leave it out."""
    if steps == 1:
        return op.arange(start, start + 1, 1, node.dtype)
    step = (end - start) / (steps - 1)
    return op.arange(start, end + step / 2, step, node.dtype)


@whole("hamming_window", "hamming_window.periodic", "hamming_window.periodic_alpha",
       "hamming_window.periodic_alpha_beta")  # fmt: skip
def hamming_window(
    cx: Context, node: Node, size: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46,
    **_: object,
) -> Expr:  # fmt: skip
    return op.hamming_window(size, int(periodic), alpha, beta, node.dtype)


# The others are a formula.
for _name, _only, _convert in (
    ("pixel_shuffle", lambda n: n.args[0].meta["val"].ndim == 4,
     lambda cx, node, x, factor: op.nn.pixel_shuffle(x.expr, factor)),
    ("unsqueeze", None, lambda cx, node, x, dim: op.expand_dims(x.expr, dim)),
    ("tile", lambda n: all(isinstance(r, int) for r in n.args[1]),
     lambda cx, node, x, repeats: op.tile(x.expr, repeats)),
    ("prelu", _has_channels, lambda cx, node, x, slopes: op.nn.prelu(x.expr, slopes.expr, 1)),
    ("pow.Tensor_Scalar", None, lambda cx, node, x, y: cx.tensor(x, node.dtype).power(y)),
    ("one_hot", lambda n: len(n.args) > 1 and n.args[1] != -1,
     lambda cx, node, x, count: op.one_hot(x.expr, PrimValue(1), PrimValue(0), count, -1)),
):  # fmt: skip
    whole(_name, only=_only)(_convert)
