"""TVM's translation: operators that its v0.21 keeps whole, or writes with other operators of Relax.

`from_exported_program` and `from_fx` use these rows before those of the other modules; `compile` and
`torch.compile` do not. A row has a condition where it does not compute the same as torch for all nodes; an
operator with a node for which it does not hold is decomposed. A converter that returns None leaves a node to
those of the other modules. Axes are as the program has them, from either end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import fx

from ....base.registry import Registry
from ....ir.prim_expr import IntImm
from ....ir.prim_op import const
from ....relax import op as builders
from ....relax.expr import Expr, PrimValue, ShapeExpr, Tuple
from ...graph.registry import Converter
from ..arguments import by_name
from ..context import Number, Size, Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .shapes import widths_of
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


def _args(node: fx.Node) -> SimpleNamespace:
    """The arguments of an fx node by their names in the schema; tensors as fake ones."""
    schema = getattr(node.target, "_schema").arguments  # noqa: B009 (of an OpOverload)
    args = by_name(schema, node.args, node.kwargs)
    fakes = {k: v.meta["val"] if isinstance(v, fx.Node) else v for k, v in args.items()}
    return SimpleNamespace(**fakes)


# ---------------------------------------------------------------- products and windows


@whole("addmm")
def addmm(cx: Context, node: Node, base: Term, a: Term, b: Term, beta: Number, alpha: Number) -> Term:  # fmt: skip
    out = _times(op.matmul(a, b, node.dtype), alpha)
    return out if beta == 0 else _times(base, beta) + out


def _times(x: Term, factor: Number) -> Term:
    return x if factor == 1 else x * factor


def _is_batch(node: fx.Node) -> bool:
    """Whether the data of a convolution has a batch axis."""
    return _args(node).input.ndim == _args(node).weight.ndim


@whole("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d.input", only=_is_batch)
def convolution(
    cx: Context, node: Node, x: Term, weight: Term, bias: Term | None, stride: Any, padding: Any, *more: Any
) -> Term:  # fmt: skip
    rank, transposed = x.ndim - 2, "transpose" in node.op_type
    names = ("output_padding", "groups", "dilation") if transposed else ("dilation", "groups")
    build = getattr(op.nn, f"conv{rank}d{'_transpose' if transposed else ''}")
    named = {"strides": stride, "padding": padding, "out_dtype": node.dtype}
    out = build(x, weight, **dict(zip(names, more, strict=True)), **named)
    return out if bias is None else out + bias.reshape([1, -1, *[1] * rank])


def _is_attention(node: fx.Node) -> bool:
    args = _args(node)
    fits = all(v.ndim == 4 for v in (args.query, args.key, args.value))
    plain = not args.dropout_p and not args.enable_gqa
    return fits and plain and (args.attn_mask is None or args.attn_mask.is_floating_point())


@whole("scaled_dot_product_attention", only=_is_attention)
def attention(
    cx: Context, node: Node, q: Term, k: Term, v: Term, mask: Term | None, dropout: float, is_causal: bool,
    *, scale: float | None,
) -> Term:  # fmt: skip
    parts = [x.permute_dims([0, 2, 1, 3]) for x in (q, k, v)]
    causal = "TopLeft" if is_causal else None
    return op.nn.attention(*parts, mask, scale=scale, causal_mask=causal).permute_dims([0, 2, 1, 3])


def _is_resized(node: fx.Node) -> bool:
    """Whether only the extents decide: scales, if they are given, are their ratios. The nearest neighbours are
    torch's where these are whole numbers, or those of one are."""
    args = _args(node)
    pairs = [*zip(args.input.shape[2:], node.meta["val"].shape[2:], strict=True)]
    if not all(isinstance(d, int) for pair in pairs for d in pair):
        return False
    scales = None if args.output_size is not None else args.scale_factors
    if scales is not None and any(b * s != a for (b, a), s in zip(pairs, scales, strict=True)):
        return False
    whole = all(a % b == 0 for b, a in pairs) or all(b % a == 0 for b, a in pairs)
    return whole or "nearest" not in str(node.target)


@whole(
    "upsample_bilinear2d.vec", "upsample_nearest2d.vec", "upsample_bicubic2d.vec", only=_is_resized
)
def resize(cx: Context, node: Node, x: Term, size: object, *more: object) -> Term:
    method = node.op_type.split("upsample_")[1].split("2d")[0]
    names = {"bilinear": "linear", "nearest": "nearest_neighbor", "bicubic": "cubic"}
    nearest, after = method == "nearest", cx.dims(node.value)[2:]
    mode = "asymmetric" if nearest and after[0] < int(x.shape[2]) else "half_pixel"
    mode = "align_corners" if not nearest and more[0] else mode
    return op.image.resize2d(
        x, ShapeExpr(after), None, "NCHW", names[method], coordinate_transformation_mode=mode
    )


# ---------------------------------------------------------------- norms and losses


def _affine(cx: Context, dims: Sequence[int], dtype: str, *values: Term | None) -> list[Any]:
    """The factor and the term of a norm; one that is left out is a constant."""
    plain = (torch.full(tuple(dims), k).numpy().astype(dtype) for k in (1, 0))
    return [cx.literal(p) if v is None else v for p, v in zip(plain, values, strict=True)]


def _is_nll(node: fx.Node) -> bool:
    args = _args(node)
    classes = args.self.ndim == 2 and not args.target.is_floating_point()
    return classes and not args.label_smoothing


@whole("linalg_vector_norm")
def vector_norm(cx: Context, node: Node, x: Term, order: Number, dim: Any, keepdim: bool) -> Term:
    size, axes = cx.tensor(x, node.dtype).abs(), None if not dim else list(dim)
    if order in (float("inf"), float("-inf")):
        return size.max(axes, keepdim) if order > 0 else size.min(axes, keepdim)
    if order == 0:
        return size.not_equal(0.0).astype(node.dtype).sum(axes, keepdim)
    return size.power(float(order)).sum(axes, keepdim).power(1 / order)


# ---------------------------------------------------------------- elements


@whole("copy")
def copy(cx: Context, node: Node, x: Term, source: Term) -> Term:
    out = cx.tensor(source, node.dtype)
    same = x.ndim == out.ndim and all(map(cx.equal, x.shape, out.shape))
    return out if same else out.broadcast_to(cx.shape(node.value))


# ---------------------------------------------------------------- shapes


@whole("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(cx: Context, node: Node, x: Term, dim: Any = None) -> Any:
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    ones = [a for a in axes if x.ndim and isinstance(x.shape[a], IntImm) and x.shape[a].value == 1]
    if dim is None and len(ones) == x.ndim - node.value.ndim:
        return op.squeeze(x)
    return op.squeeze(x, ones) if ones else x


@whole("split.Tensor", "split_with_sizes", "chunk")
def split(cx: Context, node: Node, x: Term, sizes: object, dim: int) -> Any:
    dims = [cx.dims(fake)[dim] for fake in node.value]
    numbers = [d for d in dims if isinstance(d, int)]
    if len(numbers) < len(dims):
        return None
    ends = [*itertools.accumulate(numbers)][:-1]
    return op.split(x, len(dims) if len(set(dims)) == 1 else ends, dim)


@whole("unbind.int")
def unbind(cx: Context, node: Node, x: Term, dim: int) -> Any:
    parts = cx.emit(builders.split(x.expr, len(node.value), dim))
    return _tuple(cx, [cx.value(parts[k]).squeeze([dim]) for k in range(len(node.value))])


def _tuple(cx: Context, parts: Sequence[Term]) -> list[Term]:
    """Results that are bound as a tuple first."""
    whole = cx.emit(Tuple([p.expr for p in parts]))
    return [cx.value(whole[k]) for k in range(len(parts))]


def _with_positions(cx: Context, x: Term, dim: int, at: Term) -> list[Term]:
    return _tuple(cx, [x.gather_elements(at, dim), at])


@whole("slice.Tensor")
def slice_tensor(
    cx: Context, node: Node, x: Term, dim: int, start: Size | None, end: Size | None, step: Size
) -> Any:
    if not all(isinstance(d, IntImm) for d in x.shape):
        return None
    stop = x.shape[dim] if end is None else end
    narrow = "narrow" in str(node.source.meta.get("torch_fn"))  # the function of the model
    return op.strided_slice(x, [dim], [start or 0], [stop], None if narrow else [step])


@whole("roll")
def roll(cx: Context, node: Node, x: Term, shifts: list[Size], dims: Sequence[int]) -> Any:
    if not dims:
        line = roll(cx, node, cx.flat(x), shifts, [0])
        return None if line is None else line.reshape(cx.shape(node.value))
    for shift, axis in zip(shifts, dims, strict=True):
        extent = x.shape[axis]
        if not isinstance(shift, int) or not isinstance(extent, IntImm) or not extent.value:
            return None
        at = extent.value - shift % extent.value
        parts = [x.strided_slice([axis], [b], [e], [1]) for b, e in ((0, at), (at, extent.value))]
        x = cx.concat(parts[::-1], axis) if 0 < at < extent.value else x
    return x


# ---------------------------------------------------------------- indices


@whole("embedding")
def embedding(cx: Context, node: Node, weight: Term, indices: Term) -> Term:
    at = cx.tensor(indices, "int32")
    if at.ndim == 1:
        return weight.take(at, 0)
    return weight.take(at.reshape([-1]), 0).reshape(cx.shape(node.value))


def _line(cx: Context, x: Term) -> Term:
    return x if x.ndim == 1 else cx.flat(x)


def _is_masked(node: fx.Node) -> bool:
    """Whether each element has its own flag, and there is one in the source."""
    args = _args(node)
    flags = args.self.shape == args.mask.shape and args.mask.dtype is torch.bool
    return flags and args.source.numel() != 0


@whole("masked_scatter", only=_is_masked)
def masked_scatter(cx: Context, node: Node, x: Term, mask: Term, source: Term) -> Term:
    """The position before the first true element is -1, the source's last: no result takes it."""
    position = _line(cx, mask).cumsum(0, "int32", False) - 1
    moved = _line(cx, source).take(position, 0)
    return cx.where(mask, moved if mask.ndim == 1 else moved.reshape(x.shape), x)


@whole("index_put")
def index_put(
    cx: Context, node: Node, x: Term, indices: list[Term | None], values: Term, accumulate: bool
) -> Any:
    if any(i is None or i.dtype.is_bool for i in indices) or len(indices) != x.ndim:
        return None
    return op.index_put(x, indices, cx.tensor(values, str(x.dtype)), accumulate)


# ---------------------------------------------------------------- new tensors


@whole("linspace")
def linspace(cx: Context, node: Node, start: float, end: float, steps: int) -> Expr:
    """Steps to half a step beyond the end, so that rounding does not leave it out."""
    if steps == 1:
        return op.arange(start, start + 1, 1, node.dtype)
    step = (end - start) / (steps - 1)
    return op.arange(start, end + step / 2, step, node.dtype)


def _float(value: float) -> PrimValue:
    return PrimValue(const(float(value), "float64"))


def _dtype(node: Node, x: Term) -> str | None:
    """The dtype of a result, if it is not that of the data."""
    return None if x.dtype == node.dtype else node.dtype


# The others are a formula.
for _names, _convert in {
    "rsub.Tensor rsub.Scalar": lambda cx, node, a, b, alpha:
        cx.tensor(b, node.dtype) - _times(cx.tensor(a, node.dtype), alpha),
    "div.Tensor_mode floor_divide": lambda cx, node, a, b, rounding_mode="floor":
        cx.tensor(a, node.dtype) // b if rounding_mode == "floor" else None,
    "masked_fill.Scalar": lambda cx, node, x, mask, value: op.where(*cx.broadcast_terms(
        mask, op.full_like(x, cx.tensor(value, "int32" if isinstance(value, int) else "float32")), x)),
    "select.int": lambda cx, node, x, dim, index:
        op.take(x, cx.tensor(index, "int64"), dim) if isinstance(index, int) and index >= 0 else None,
    "gather": lambda cx, node, x, dim, indices: op.gather_elements(x, indices, dim)
        if all(cx.equal(x.shape[a], indices.shape[a]) for a in range(x.ndim) if a != dim % x.ndim) else None,
    "new_ones new_zeros ones": lambda cx, node:
        op.full(cx.shape(node.value), cx.tensor("ones" in node.op_type, node.dtype), node.dtype),
    "layer_norm": lambda cx, node, x, shape, weight, bias, eps: op.nn.layer_norm(
        x, *_affine(cx, shape, node.dtype, weight, bias), [*range(-len(shape), 0)], eps),
    "linear": lambda cx, node, x, weight, bias: op.linear(x, weight, bias, node.dtype),
    "mm bmm matmul": lambda cx, node, a, b: op.matmul(a, b, node.dtype),
    "hardtanh": lambda cx, node, x, low, high: op.clip(cx.tensor(x, node.dtype), _float(low), _float(high)),
    "pow.Tensor_Scalar": lambda cx, node, x, y: cx.tensor(x, node.dtype).power(y),
    "lerp.Scalar lerp.Tensor": lambda cx, node, a, b, weight: a + cx.tensor(weight, node.dtype) * (b - a),
    "outer": lambda cx, node, a, b: op.outer(cx.tensor(a, node.dtype), cx.tensor(b, node.dtype)),
    "_to_copy": lambda cx, node, x: op.astype(x, node.dtype),
    "mean.dim": lambda cx, node, x, dim, keepdim: op.mean(cx.tensor(x, node.dtype), dim or None, keepdim),
    "argsort": lambda cx, node, x, dim, descending: op.argsort(x, dim, descending, "int32"),
    "sort": lambda cx, node, x, dim, descending:
        _with_positions(cx, x, dim, op.argsort(x, dim, descending, "int32")),
    "topk": lambda cx, node, x, k, dim, largest: op.topk(x, k, dim, "both", largest, "int64"),
    "argmax": lambda cx, node, x, dim, keepdim: op.argmax(x, dim, keepdim),
    "argmin": lambda cx, node, x, dim, keepdim: op.argmin(x, dim, keepdim),
    "cumsum": lambda cx, node, x, dim, *, dtype: op.cumsum(x, dim, dtype or _dtype(node, x)),
    "cumprod": lambda cx, node, x, dim, *, dtype: op.cumprod(x, dim, dtype or _dtype(node, x)),
    "empty_like zeros_like": lambda cx, node, x: op.zeros_like(x, _dtype(node, x)),
    "ones_like": lambda cx, node, x: op.ones_like(x, _dtype(node, x)),
    "hamming_window hamming_window.periodic hamming_window.periodic_alpha hamming_window.periodic_alpha_beta":
        lambda cx, node, size, periodic=True, alpha=0.54, beta=0.46:
            op.hamming_window(size, int(periodic), alpha, beta, node.dtype),
    "stack": lambda cx, node, tensors, dim: op.stack([cx.tensor(v, node.dtype) for v in tensors], dim),
    "meshgrid": lambda cx, node, tensors: op.meshgrid(tensors, "ij"),
    "meshgrid.indexing": lambda cx, node, tensors, *, indexing: op.meshgrid(tensors, indexing),
    "unsqueeze": lambda cx, node, x, dim: op.expand_dims(x, dim),
    "_local_scalar_dense":
        lambda cx, node, x: op.take(x, cx.tensor(0, "int64"), 0) if x.ndim == 1 else x.reshape([]),
}.items():  # fmt: skip
    whole(*_names.split())(_convert)
for _name, _only, _convert in (
    ("pad", lambda n: all(isinstance(w, int) and w >= 0 for w in _args(n).pad),
     lambda cx, node, x, widths, mode, value: op.nn.pad(
         x, [w for side in widths_of(x.ndim, widths) for w in side], mode, float(value or 0))),
    ("instance_norm", lambda n: _args(n).running_mean is None and _args(n).use_input_stats,
     lambda cx, node, x, weight, bias, mean, var, training, momentum, eps: op.nn.instance_norm(
         x, *_affine(cx, node.value.shape[1:2], node.dtype, weight, bias), 1, [*range(2, x.ndim)], eps)),
    ("cross_entropy_loss", _is_nll, lambda cx, node, preds, target, weight, how, ignored: op.nn.nll_loss(
        op.nn.log_softmax(preds), target, weight, ("none", "mean", "sum")[how], ignored)),
    ("pixel_shuffle", lambda n: _args(n).self.ndim == 4,
     lambda cx, node, x, factor: op.nn.pixel_shuffle(x, factor)),
    ("tile", lambda n: all(isinstance(r, int) for r in _args(n).dims),
     lambda cx, node, x, repeats: op.tile(x, repeats)),
    ("take", lambda n: _args(n).self.ndim == 1,
     lambda cx, node, x, indices: op.take(x, op.astype(indices, "int32"))),
    ("prelu", lambda n: _args(n).self.ndim > 1 and _args(n).weight.ndim == 1,
     lambda cx, node, x, slopes: op.nn.prelu(x, slopes, 1)),
    ("isin.Tensor_Tensor", lambda n: not _args(n).assume_unique and not _args(n).invert,  # a sum of bool is any
     lambda cx, node, x, among: op.greater(
         x.expand_dims(-1).equal(cx.flat(among)).sum(-1), cx.scalar(0, str(x.dtype)))),
    ("one_hot", lambda n: _args(n).num_classes != -1,
     lambda cx, node, x, count: op.one_hot(x, PrimValue(1), PrimValue(0), count, -1)),
):  # fmt: skip
    whole(_name, only=_only)(_convert)
