"""Layers: products, windows, norms with running statistics, attention, images."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....relax.expr import ShapeExpr
from ...graph.operators.windows import MAX_POOL, Window, greatest_at, least, pooled
from ...graph.registry import Converter
from ..context import Number, Size, Term, op
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from .reductions import affine_of
from .table import aten, rows

Numbers = int | Sequence[int] | None


@aten("mm", "bmm", "matmul", "mv", "dot", "_int_mm")
def matmul(cx: Context, node: Node, a: Term, b: Term) -> Term:
    if a.dtype.is_integer and a.dtype.bits < 32:
        return cx.ops.matmul(cx.tensor(a, "int64"), cx.tensor(b, "int64")).astype(node.dtype)
    return cx.ops.matmul(a, b)


def transposed_matrices(x: Term) -> Term:
    return x.permute_dims([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


@aten("linear")
def linear(cx: Context, node: Node, x: Term, weight: Term, bias: Term | None) -> Term:
    out = cx.ops.matmul(x, weight if weight.ndim == 1 else weight.permute_dims([1, 0]))
    return out if bias is None else out + bias


@aten("addmm", "baddbmm", "addmv", "addbmm")
def addmm(
    cx: Context, node: Node, base: Term, a: Term, b: Term, *, beta: Number, alpha: Number
) -> Term:
    out = matmul(cx, node, a, b)
    if node.op_type.startswith("aten.addbmm"):
        out = out.sum([0], False)
    out = out if alpha == 1 else out * alpha
    return out if beta == 0 else out + (base if beta == 1 else base * beta)


@aten("_trilinear")
def trilinear(
    cx: Context, node: Node, a: Term, b: Term, c: Term, new_a: list[int], new_b: list[int],
    new_c: list[int], axes: list[int],
) -> Term:  # fmt: skip
    """The sum over axes of a product of three tensors with new axes."""
    pairs = ((a, new_a), (b, new_b), (c, new_c))
    x, y, z = (v.expand_dims([*new]) if new else v for v, new in pairs)
    return (x * y * z).sum([*axes], False) if axes else x * y * z


# ---------------------------------------------------------------- distances


def _norm(apart: Term, p: float, axis: int) -> Term:
    """The p-norm of differences along an axis."""
    size = apart.abs()
    if p == 0:
        return size.not_equal(0.0).astype(str(size.dtype)).sum([axis], False)
    if p in (1, math.inf):
        return size.sum([axis], False) if p == 1 else size.max([axis], False)
    if p == 2:
        return (size * size).sum([axis], False).sqrt()
    return size.power(p).sum([axis], False).power(1.0 / p)


def _slope(cx: Context, apart: Term, distance: Term, p: float) -> Term:
    """The derivative of `_norm` by the differences, 0 where the distance is."""
    sign, zero = apart.sign(), distance.equal(0.0)
    if p in (0, 1):
        return sign * p
    if p == math.inf:
        return sign * apart.abs().equal(distance).astype(str(sign.dtype))
    ratio = apart.abs() / cx.where(zero, 1.0, distance)
    power = ratio if p == 2 else cx.where(ratio.equal(0.0), 0.0, ratio.power(p - 1))
    return cx.where(zero, 0.0, sign * power)


def _rows_apart(a: Term, b: Term) -> Term:
    return a.expand_dims([a.ndim - 1]) - b.expand_dims([b.ndim - 2])


@aten("_cdist_backward")
def cdist_backward(
    cx: Context, node: Node, grad: Term, a: Term, b: Term, p: float, distance: Term
) -> Term:
    apart = _rows_apart(a, b)
    grad, distance = (v.expand_dims([v.ndim]) for v in (grad, distance))
    return (grad * _slope(cx, apart, distance, p)).sum([apart.ndim - 2], False)


def _pairs_of_rows(cx: Context, x: Term) -> list[Term]:
    """The indices of all pairs of rows, i < j."""
    return [cx.value(cx.literal(k.astype("int64"))) for k in np.triu_indices(int(x.shape[0]), 1)]


@aten("_pdist_forward")
def pdist(cx: Context, node: Node, x: Term, p: float) -> Term:
    a, b = (x.take(k, 0) for k in _pairs_of_rows(cx, x))
    return _norm(a - b, p, 1)


@aten("_pdist_backward")
def pdist_backward(cx: Context, node: Node, grad: Term, x: Term, p: float, distance: Term) -> Term:
    pairs = _pairs_of_rows(cx, x)
    a, b = (x.take(k, 0) for k in pairs)
    grad, distance = (v.expand_dims([1]) for v in (grad, distance))
    each, out = grad * _slope(cx, a - b, distance, p), cx.filled(x.shape, 0, node.dtype)
    for k, part in zip(pairs, (each, -each), strict=True):
        out = out.index_put([k], part, True)
    return out


# ---------------------------------------------------------------- windows


def each_axis(value: Numbers, rank: int) -> list[int]:
    """One number for each spatial axis."""
    values = [value] if isinstance(value, int) else list(value or ())
    return values * rank if len(values) == 1 else values


def rank_of(node: Node) -> int:
    """The rank of images without batch and channels: of a name such as "max_pool2d", or of a weight."""
    named = re.search(r"(\d)d", node.op_type)
    return int(named[1]) if named else node.source.args[1].meta["val"].ndim - 2


def batched(convert: Converter) -> Converter:
    """A converter of images, for which one without a batch is a batch of one."""

    @wraps(convert)
    def converted(cx: Context, node: Node, x: Term, *args: Any) -> Term:
        if x.ndim == rank_of(node) + 2:
            return convert(cx, node, x, *args)
        return convert(cx, node, x.expand_dims([0]), *args).squeeze([0])

    return converted


@aten("convolution", "_convolution")
@batched
def convolution(
    cx: Context, node: Node, x: Term, weight: Term, bias: Term | None, stride: Numbers, padding: Numbers,
    dilation: Numbers, transposed: bool, output_padding: Numbers, groups: int,
) -> Term:  # fmt: skip
    rank = rank_of(node)
    named = {
        "strides": each_axis(stride, rank), "padding": each_axis(padding, rank) * 2,
        "dilations": each_axis(dilation, rank), "groups": groups,
    }  # fmt: skip
    if not transposed:
        return cx.ops.conv(x, weight, bias, **named)
    extra = each_axis(output_padding, rank)
    return cx.ops.conv_transpose(x, weight, bias, output_padding=extra, **named)


def window_of(
    rank: int, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil: bool
) -> Window:
    size = each_axis(kernel, rank)
    strides = size if stride in (None, [], ()) else each_axis(stride, rank)
    return size, strides, each_axis(padding, rank) * 2, each_axis(dilation, rank), ceil


@aten("max_pool1d", "max_pool2d", "max_pool3d")
@batched
def max_pool(cx: Context, node: Node, x: Term, *window: Any) -> Term:
    rank = rank_of(node)
    out = pooled(cx, x, MAX_POOL[rank], window_of(rank, *window), fill=least(x))
    return cx.tensor(out)


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(cx: Context, node: Node, x: Term, *window: Any) -> list[Term | None]:
    """The maximum of each window, and its index in the image, flattened."""
    best, rank = max_pool(cx, node, x, *window), rank_of(node)
    if not node.outputs[1]:
        return [best, None]
    return [best, cx.tensor(greatest_at(cx, x, window_of(rank, *window), best.shape[-rank:]))]


@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
@batched
def adaptive_avg_pool(cx: Context, node: Node, x: Term, size: list[Size]) -> Term:
    return getattr(op.nn, f"adaptive_avg_pool{rank_of(node)}d")(x, size)


@aten("convolution_backward")
def convolution_backward(
    cx: Context, node: Node, grad: Term, x: Term, weight: Term, bias_sizes: object, stride: Numbers,
    padding: Numbers, dilation: Numbers, transposed: bool, output_padding: object, groups: int, mask: list[bool],
) -> list[Term | None]:  # fmt: skip
    """The gradient of the data is the convolution that is transposed (or is not, for a transposed one); that of
    the weight is a convolution of the data by the gradient, whose batch is the axis of the sum."""
    rank, spatial = weight.ndim - 2, [*range(2, weight.ndim)]
    strides, pads, dilations = (each_axis(v, rank) for v in (stride, padding, dilation))
    named = {"strides": strides, "padding": pads * 2, "dilations": dilations, "groups": groups}
    results: list[Term | None] = [None, None, None]

    def cut(out: Term, like: Term) -> Term:
        """Without the windows that begin in what strides, dilations or output_padding leave over."""
        ends = [like.shape[a] for a in spatial]
        if all(map(cx.equal, ends, out.shape[2:])):
            return out
        return out.strided_slice(spatial, [0] * rank, ends, [1] * rank, True)

    if mask[0] and transposed:
        results[0] = cut(cx.ops.conv(grad, weight, None, **named), x)
    elif mask[0]:
        extra = []
        for k, a in enumerate(spatial):
            window = dilations[k] * (int(weight.shape[a]) - 1) + 1
            extra.append(
                cx.simplify(x.shape[a] - (grad.shape[a] - 1) * strides[k] - window + 2 * pads[k])
            )
        results[0] = cx.ops.conv_transpose(grad, weight, None, output_padding=extra, **named)
    if mask[1]:
        data, by = (grad, x) if transposed else (x, grad)
        inner, outer = data.shape[1] // groups, by.shape[1] // groups

        def grouped(v: Term, order: list[int], per: Size, dims: list[Size]) -> Term:
            split = v.reshape([v.shape[0], groups, per, *v.shape[2:]])
            moved = split.permute_dims([*order, *range(3, 3 + rank)])
            return moved.reshape([*dims, *v.shape[2:]])

        left = grouped(data, [2, 1, 0], inner, [inner, x.shape[0] * groups])
        right = grouped(by, [1, 2, 0], outer, [outer * groups, x.shape[0]])
        named.update(strides=dilations, dilations=strides)
        out = cut(cx.ops.conv(left, right, None, **named), weight)
        results[1] = out.permute_dims([1, 0, *spatial])
    if mask[2]:
        results[2] = grad.sum([a for a in range(grad.ndim) if a != 1], False)
    return results


@aten("col2im")
def col2im(
    cx: Context, node: Node, x: Term, size: list[Size], kernel: list[Size], dilation: list[int],
    padding: list[int], stride: list[int],
) -> Term:  # fmt: skip
    columns = x if x.ndim == 3 else x.expand_dims([0])
    image = ShapeExpr(size), ShapeExpr(kernel), stride, [*padding, *padding], dilation
    return op.image.col2im(columns, *image).reshape(cx.shape(node.value))


@aten("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, mean: Term, var: Term,
    momentum: float, eps: float,
) -> list[Term]:  # fmt: skip
    affine = affine_of(cx, weight, bias, [x.shape[1]], str(x.dtype))
    statistics = (cx.tensor(v, str(x.dtype)) for v in (mean, var))
    out = op.nn.batch_norm(x, *affine, *statistics, axis=1, epsilon=eps, training=False)[0]
    return [out, *(cx.filled(cx.dims(f), 0, dtype_of(f.dtype)) for f in node.value[1:])]


# ---------------------------------------------------------------- attention


@aten("scaled_dot_product_attention")
def attention(
    cx: Context, node: Node, query: Term, key: Term, value: Term, mask: Term | None, dropout: float,
    is_causal: bool, *, scale: float | None, enable_gqa: bool,
) -> Term:  # fmt: skip
    """softmax(query @ key' * scale + mask) @ value, without dropout."""
    if enable_gqa:
        key, value = (_repeated(v, query) for v in (key, value))
    scores = _scores(cx, node.dtype, query, key, mask, dropout, is_causal, scale)
    out = cx.ops.matmul(op.nn.softmax(scores, scores.ndim - 1), value)
    if mask is None or is_causal or not mask.dtype.is_bool or not mask.ndim:
        return out
    seen = mask.astype("uint8").max([mask.ndim - 1], True)  # a query that sees no key gets 0
    return cx.where(seen.astype("bool"), out, 0.0)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    cx: Context, node: Node, query: Term, key: Term, value: Term, dropout: float, is_causal: bool,
    *, attn_mask: Term | None, scale: float | None,
) -> list[Term]:  # fmt: skip
    """The attention, and the logarithms of the softmax's sums, where they are used."""
    scores = _scores(cx, node.dtype, query, key, attn_mask, dropout, is_causal, scale)
    axis = scores.ndim - 1
    out = cx.ops.matmul(op.nn.softmax(scores, axis), value)
    if not node.outputs[1]:
        return [out]
    most = scores.max([axis], True)
    return [out, ((scores - most).exp().sum([axis], True).log() + most).squeeze([axis])]


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    cx: Context, node: Node, grad: Term, query: Term, key: Term, value: Term, out: Term, sums: Term,
    dropout: float, is_causal: bool, *, attn_mask: Term | None, scale: float | None,
) -> list[Term]:  # fmt: skip
    """The gradients of query, key and value. The softmax is computed once more, as float32 where they are narrower."""
    dtype = "float32" if grad.dtype.bits < 32 else str(grad.dtype)
    grad, query, key, value, out = (cx.tensor(v, dtype) for v in (grad, query, key, value, out))
    if attn_mask is not None and not attn_mask.dtype.is_bool:
        attn_mask = cx.tensor(attn_mask, dtype)
    scores = _scores(cx, dtype, query, key, attn_mask, dropout, is_causal, scale)
    weights, turn = op.nn.softmax(scores, scores.ndim - 1), transposed_matrices
    along = cx.ops.matmul(grad, turn(value)) - (grad * out).sum([grad.ndim - 1], True)
    of_scores = weights * along * _scale(cx, dtype, query, scale)
    sides = (of_scores, key), (turn(of_scores), query), (turn(weights), grad)
    return [cx.ops.matmul(a, b) for a, b in sides]


def _scale(cx: Context, dtype: str, query: Term, scale: float | None) -> Number | Term:
    """The factor of scores: one over the root of the size of a head, if it is not given."""
    size = query.shape[-1]
    if scale is None and isinstance(size, IntImm):
        return 1.0 / math.sqrt(size.value)
    return cx.tensor(size, dtype).rsqrt() if scale is None else float(scale)


def _scores(
    cx: Context, dtype: str, query: Term, key: Term, mask: Term | None, dropout: float, is_causal: bool,
    scale: float | None,
) -> Term:  # fmt: skip
    """query @ key' * scale + mask."""
    if dropout:
        raise ValueError(explain("dropout within attention draws random numbers"))
    scores = cx.ops.matmul(query, transposed_matrices(key)) * _scale(cx, dtype, query, scale)
    if is_causal:
        mask = cx.filled([query.shape[-2], key.shape[-2]], True, "bool").tril(0)
    if mask is not None:
        excluded = cx.tensor(-math.inf, dtype)
        scores = scores + (cx.where(mask, 0.0, excluded) if mask.dtype.is_bool else mask)
    return scores


def _repeated(x: Term, like: Term) -> Term:
    """The heads of keys or values, repeated so that each query head has one."""
    heads, have = like.shape[-3], x.shape[-3]
    if not isinstance(heads, IntImm) or not isinstance(have, IntImm):
        raise ValueError(explain("the number of heads must be known", got=f"{heads}, {have}"))
    times = heads.value // have.value
    return x if times == 1 else x.repeat(times, x.ndim - 3)


# The rest are formulas.
rows({
    "einsum": lambda cx, node, equation, tensors: op.einsum(tensors, equation.replace(" ", "")),
    "_cdist_forward": lambda cx, node, a, b, p: _norm(_rows_apart(a, b), p, a.ndim),
    "dist": lambda cx, node, a, b, p: _norm(cx.flat(a - b), float(p), 0),
})  # fmt: skip
