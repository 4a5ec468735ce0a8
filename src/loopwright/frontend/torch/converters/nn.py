"""Layers: products, windows, norms with running statistics, attention, images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.operators.windows import MAX_POOL, MEAN_POOL, Window, least, pooled
from ..context import Arg, Number, Size, Term
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from .reductions import _affine
from .table import aten

Numbers = int | Sequence[int] | None


@aten("mm", "bmm", "matmul", "mv", "dot")
def matmul(cx: Context, node: Node, a: Term, b: Term) -> Term:
    if a.dtype.is_integer and a.dtype.bits < 32:
        return cx.ops.matmul(cx.tensor(a, "int64"), cx.tensor(b, "int64")).astype(node.dtype)
    return cx.ops.matmul(a, b)


@aten("linear")
def linear(cx: Context, node: Node, x: Term, weight: Term, bias: Term | None = None) -> Term:
    out = cx.ops.matmul(x, weight if weight.ndim == 1 else weight.permute_dims([1, 0]))
    return out if bias is None else out + bias


@aten("addmm", "baddbmm", "addmv", "addbmm")
def addmm(
    cx: Context, node: Node, base: Term, a: Term, b: Term, *, beta: Number = 1, alpha: Number = 1
) -> Term:
    out = matmul(cx, node, a, b)
    if node.op_type.startswith("aten.addbmm"):
        out = out.sum([0], False)
    out = out if alpha == 1 else out * alpha
    return out if beta == 0 else out + (base if beta == 1 else base * beta)


@aten("addcmul", "addcdiv")
def addc(cx: Context, node: Node, base: Term, a: Arg, b: Arg, *, value: Number = 1) -> Term:
    first = cx.tensor(a, node.dtype)
    out = first * b if "addcmul" in node.op_type else first / b
    return cx.tensor(base, node.dtype) + (out if value == 1 else out * value)


@aten("einsum")
def einsum(cx: Context, node: Node, equation: str, tensors: list[Term], **_: object) -> Expr:
    return op.einsum([t.expr for t in tensors], equation.replace(" ", ""))


@aten("_trilinear")
def trilinear(
    cx: Context, node: Node, a: Term, b: Term, c: Term, expand1: list[int], expand2: list[int],
    expand3: list[int], sumdim: list[int], unroll: int = 1,
) -> Term:  # fmt: skip
    """The sum over axes of a product of three tensors with new axes."""
    x, y, z = (
        v.expand_dims(list(e)) if e else v for v, e in ((a, expand1), (b, expand2), (c, expand3))
    )
    return (x * y * z).sum(list(sumdim), False) if sumdim else x * y * z


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


@aten("_cdist_forward")
def cdist(cx: Context, node: Node, a: Term, b: Term, p: float, *_: object) -> Term:
    return _norm(a.expand_dims([a.ndim - 1]) - b.expand_dims([b.ndim - 2]), p, a.ndim)


@aten("_pdist_forward")
def pdist(cx: Context, node: Node, x: Term, p: float = 2.0) -> Term:
    """The distances of all pairs of rows, i < j."""
    pairs = np.triu_indices(int(x.shape[0]), 1)
    a, b = (cx.ops.take(x, cx.literal(k.astype("int64")), axis=0) for k in pairs)
    return _norm(a - b, p, 1)


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


@aten("_cdist_backward")
def cdist_backward(
    cx: Context, node: Node, grad: Term, a: Term, b: Term, p: float, distance: Term
) -> Term:
    apart = a.expand_dims([a.ndim - 1]) - b.expand_dims([b.ndim - 2])
    grad, distance = (v.expand_dims([v.ndim]) for v in (grad, distance))
    return (grad * _slope(cx, apart, distance, p)).sum([apart.ndim - 2], False)


@aten("_pdist_backward")
def pdist_backward(cx: Context, node: Node, grad: Term, x: Term, p: float, distance: Term) -> Term:
    pairs = [cx.literal(k.astype("int64")) for k in np.triu_indices(int(x.shape[0]), 1)]
    a, b = (cx.ops.take(x, k, axis=0) for k in pairs)
    grad, distance = (v.expand_dims([1]) for v in (grad, distance))
    each, out = grad * _slope(cx, a - b, distance, p), cx.filled(x.shape, 0, node.dtype)
    for k, part in zip(pairs, (each, -each), strict=True):
        out = out.index_put([k.expr], part.expr, True)
    return out


@aten("dist")
def dist(cx: Context, node: Node, a: Term, b: Term, p: float = 2.0) -> Term:
    return _norm(cx.flat(a - b), float(p), 0)


# ---------------------------------------------------------------- windows


def _each(value: Numbers, rank: int) -> list[int]:
    """One number for each spatial axis."""
    values = [value] if isinstance(value, int) else list(value or ())
    return values * rank if len(values) == 1 else values


@aten("convolution", "_convolution")
def convolution(
    cx: Context, node: Node, x: Term, weight: Term, bias: Term | None, stride: Numbers, padding: Numbers,
    dilation: Numbers, transposed: bool, output_padding: Numbers, groups: int,
    *_: object,
) -> Term:  # fmt: skip
    rank = weight.ndim - 2
    image, single = _batched(x, rank)
    named = {
        "strides": _each(stride, rank), "padding": _each(padding, rank) * 2,
        "dilations": _each(dilation, rank), "groups": groups,
    }  # fmt: skip
    if transposed:
        extra = _each(output_padding, rank)
        out = cx.ops.conv_transpose(image, weight, bias, output_padding=extra, **named)
    else:
        out = cx.ops.conv(image, weight, bias, **named)
    return out.squeeze([0]) if single else out


def _batched(x: Term, rank: int) -> tuple[Term, bool]:
    """An image in a batch, and whether it was not in one."""
    return (x, False) if x.ndim == rank + 2 else (x.expand_dims([0]), True)


def window_of(
    rank: int, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers, ceil: bool
) -> Window:
    size = _each(kernel, rank)
    strides = size if stride in (None, [], ()) else _each(stride, rank)
    return size, strides, _each(padding, rank) * 2, _each(dilation, rank), ceil


@aten("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(
    cx: Context, node: Node, x: Term, kernel: Numbers, stride: Numbers = None, padding: Numbers = 0,
    dilation: Numbers = 1, ceil_mode: bool = False,
) -> Term:  # fmt: skip
    rank = int(node.op_type.split("max_pool")[1][0])
    image, single = _batched(x, rank)
    window = window_of(rank, kernel, stride, padding, dilation, ceil_mode)
    out = cx.tensor(pooled(cx, image, MAX_POOL[rank], window, fill=least(x)))
    return out.squeeze([0]) if single else out


@aten("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool_with_indices(
    cx: Context, node: Node, x: Term, kernel: Numbers, stride: Numbers = None, padding: Numbers = 0,
    dilation: Numbers = 1, ceil_mode: bool = False,
) -> list[Term | None]:  # fmt: skip
    """The maximum of each window, and its index in the image, flattened."""
    if not node.outputs[1]:
        return [max_pool(cx, node, x, kernel, stride, padding, dilation, ceil_mode), None]
    rank = int(node.op_type.split("max_pool")[1][0])
    size, strides, pads, dilations, ceil = window_of(
        rank, kernel, stride, padding, dilation, ceil_mode
    )
    first, counts = x.ndim - rank, cx.dims(node.value[0])[-rank:]
    stacked = _elements_of_windows(cx, x, (size, strides, pads, dilations, ceil), counts)
    which = stacked.argmax(0, False)
    at, rest = which * 0, math.prod(size)
    for k in range(rank):
        rest //= size[k]
        start = cx.line(counts[k]) * strides[k] - pads[k]
        start = start.reshape(
            ShapeExpr([counts[k] if j == first + k else 1 for j in range(x.ndim)])
        )
        at = at * x.shape[first + k] + ((which // rest) % size[k] * dilations[k] + start)
    return [stacked.max([0], False), at]


def _elements_of_windows(cx: Context, x: Term, window: Window, counts: list[Size]) -> Term:
    """The elements at each offset of a window, for all windows, along a first axis."""
    size, strides, pads, dilations, ceil = window
    rank, first = len(size), x.ndim - len(size)
    ends = [cx.simplify((n - 1) * s + 1) for n, s in zip(counts, strides, strict=True)]
    # The last window of `ceil` may reach beyond the padding.
    sides = [[p, p + (s - 1 if ceil else 0)] for p, s in zip(pads[:rank], strides, strict=True)]
    flat = [w for side in sides for w in side]
    if any(flat):
        x = cx.value(op.nn.pad(x.expr, [0] * 2 * first + flat, "constant", least(x)))
    axes, parts = [*range(first, x.ndim)], []
    for offset in itertools.product(*map(range, size)):
        begin = [o * d for o, d in zip(offset, dilations, strict=True)]
        stop = [b + e for b, e in zip(begin, ends, strict=True)]
        parts.append(x.strided_slice(axes, begin, stop, strides, True))
    return cx.stack(parts, 0)


@aten("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    cx: Context, node: Node, x: Term, kernel: Numbers, stride: Numbers = None, padding: Numbers = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None,
) -> Term:  # fmt: skip
    rank = int(node.op_type.split("avg_pool")[1][0])
    image, single = _batched(x, rank)
    window = window_of(rank, kernel, stride, padding, 1, ceil_mode)
    if divisor_override:  # with zeros around, the sum is the mean times the size of the window
        plain = (window[0], window[1], [0] * 2 * rank, window[3], False)
        whole, count = _grown(cx, image, window), math.prod(window[0])
        data = whole if x.dtype.is_float else cx.tensor(whole, "float64")
        out = cx.tensor(pooled(cx, data, MEAN_POOL[rank], plain, True))
        if x.dtype.is_float:
            out = out * (count / divisor_override)
        else:
            out = (out * float(count)).round().astype(node.dtype) / divisor_override
    else:
        out = cx.tensor(pooled(cx, image, MEAN_POOL[rank], window, count_include_pad))
    return out.squeeze([0]) if single else out


def _grown(cx: Context, x: Term, window: Window) -> Term:
    """An image with its padding, and zeros behind for windows that are not whole."""
    kernel, strides, pads, _, ceil = window
    rank, widths = len(kernel), []
    for k in range(rank):
        rest = int(x.shape[x.ndim - rank + k]) + 2 * pads[k] - kernel[k] if ceil else 0
        widths += [pads[k], pads[k] + -rest % strides[k]]
    return cx.value(op.nn.pad(x.expr, [0] * 2 * (x.ndim - rank) + widths)) if any(widths) else x


@aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(cx: Context, node: Node, x: Term, size: list[Size]) -> Term:
    rank = int(node.op_type.split("avg_pool")[1][0])
    image, single = _batched(x, rank)
    out = cx.value(getattr(op.nn, f"adaptive_avg_pool{rank}d")(image.expr, size))
    return out.squeeze([0]) if single else out


@aten("convolution_backward")
def convolution_backward(
    cx: Context, node: Node, grad: Term, x: Term, weight: Term, bias_sizes: object, stride: Numbers,
    padding: Numbers, dilation: Numbers, transposed: bool, output_padding: object, groups: int, mask: list[bool],
) -> list[Term | None]:  # fmt: skip
    """The gradient of the data is the convolution that is transposed (or is not, for a transposed one); that of
    the weight is a convolution of the data by the gradient, whose batch is the axis of the sum."""
    rank, spatial = weight.ndim - 2, [*range(2, weight.ndim)]
    strides, pads, dilations = (_each(v, rank) for v in (stride, padding, dilation))
    named = {"strides": strides, "padding": pads * 2, "dilations": dilations, "groups": groups}
    results: list[Term | None] = [None, None, None]

    def cut(out: Term, like: Term) -> Term:
        """Without the windows that begin in what strides, dilations or output_padding leave over."""
        ends = [like.shape[a] for a in spatial]
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
            split = v.reshape(ShapeExpr([v.shape[0], groups, per, *v.shape[2:]]))
            moved = split.permute_dims([*order, *range(3, 3 + rank)])
            return moved.reshape(ShapeExpr([*dims, *v.shape[2:]]))

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
    cx: Context, node: Node, x: Term, size: Sequence[Size], kernel: Sequence[Size], dilation: list[int],
    padding: list[int], stride: list[int],
) -> Term:  # fmt: skip
    columns, single = _batched(x, 1)
    pads = [*padding, *padding]
    out = op.image.col2im(columns.expr, ShapeExpr(size), ShapeExpr(kernel), stride, pads, dilation)
    return cx.value(out).squeeze([0]) if single else cx.value(out)


# ---------------------------------------------------------------- norms with running statistics


def _inference(
    cx: Context, x: Term, weight: Term | None, bias: Term | None, mean: Term, var: Term, eps: float
) -> Term:
    dtype = str(x.dtype)
    args = [
        *_affine(cx, weight, bias, [x.shape[1]], dtype),
        *(cx.tensor(v, dtype).expr for v in (mean, var)),
    ]
    return cx.value(
        cx.emit(op.nn.batch_norm(x.expr, *args, axis=1, epsilon=eps, training=False))[0]
    )


def _training(
    cx: Context, x: Term, weight: Term | None, bias: Term | None, running: list[Term], momentum: float,
    eps: float,
) -> list[Term]:  # fmt: skip
    """The normalized data, the mean and the reciprocal deviation of this batch, and new running statistics."""
    dtype, axes = str(x.dtype), [a for a in range(x.ndim) if a != 1]
    wide = cx.tensor(x, "float32" if x.dtype.bits < 32 else dtype)
    mean, var = wide.mean(axes, True), wide.variance(axes, True)
    rstd = (var + eps).rsqrt()
    shape = ShapeExpr([1, x.shape[1], *[1] * (x.ndim - 2)])
    scale, shift = (
        cx.value(v).reshape(shape).astype(str(wide.dtype))
        for v in _affine(cx, weight, bias, [x.shape[1]], dtype)
    )
    out = ((wide - mean) * rstd * scale + shift).astype(dtype)
    count = cx.tensor(cx.product([x.shape[a] for a in axes]), str(wide.dtype))
    line = ShapeExpr([x.shape[1]])
    fresh = (mean.reshape(line), (var * (count / (count - 1))).reshape(line))
    updated = [
        old * (1.0 - momentum) + cx.tensor(new, str(old.dtype)) * momentum
        for old, new in zip(running, fresh, strict=False)
    ]
    return [out, mean.reshape(line), rstd.reshape(line), *updated]


def _nothing(cx: Context, x: Term, dtype: str = "") -> Term:
    return cx.filled([0], 0, dtype or str(x.dtype))


@aten("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
def batch_norm(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, mean: Term, var: Term,
    momentum: float, eps: float,
) -> list[Term]:  # fmt: skip
    out = _inference(cx, x, weight, bias, mean, var, eps)
    return [out, _nothing(cx, mean), _nothing(cx, mean), _nothing(cx, x, "uint8")]


@aten("_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_batch_norm")
def batch_norm_legit(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, mean: Term, var: Term,
    training: bool, momentum: float, eps: float,
) -> list[Term]:  # fmt: skip
    if not training:
        out = _inference(cx, x, weight, bias, mean, var, eps)
        return [out, _nothing(cx, mean), _nothing(cx, mean), mean, var]
    running = [mean, var] if "functional" in node.op_type else []
    return _training(cx, x, weight, bias, running, momentum, eps)


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_of_batch(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, training: bool, momentum: float,
    eps: float,
) -> list[Term]:  # fmt: skip
    return _training(cx, x, weight, bias, [], momentum, eps)


@aten("_batch_norm_with_update_functional")
def batch_norm_with_update(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, mean: Term, var: Term,
    momentum: float, eps: float,
) -> list[Term]:  # fmt: skip
    *results, new_mean, new_var = _training(cx, x, weight, bias, [mean, var], momentum, eps)
    return [*results, _nothing(cx, x, "uint8"), new_mean, new_var]


# ---------------------------------------------------------------- attention


@aten("scaled_dot_product_attention")
def attention(
    cx: Context, node: Node, query: Term, key: Term, value: Term, mask: Term | None = None, dropout: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Term:  # fmt: skip
    """softmax(query @ key' * scale + mask) @ value, without dropout."""
    if enable_gqa:
        key, value = (_repeated(cx, v, query) for v in (key, value))
    scores = _scores(cx, node.dtype, query, key, mask, dropout, is_causal, scale)
    out = cx.ops.matmul(cx.value(op.nn.softmax(scores.expr, scores.ndim - 1)), value)
    if mask is None or is_causal or not mask.dtype.is_bool or not mask.ndim:
        return out
    seen = mask.astype("uint8").max([mask.ndim - 1], True)  # a query that sees no key gets 0
    return cx.where(seen.astype("bool"), out, 0.0)


@aten("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    cx: Context, node: Node, query: Term, key: Term, value: Term, dropout: float = 0.0, is_causal: bool = False,
    *, attn_mask: Term | None = None, scale: float | None = None,
) -> list[Term]:  # fmt: skip
    """The attention, and the logarithms of the softmax's sums, where they are used."""
    dtype = dtype_of(node.value[0].dtype)
    scores = _scores(cx, dtype, query, key, attn_mask, dropout, is_causal, scale)
    axis = scores.ndim - 1
    out = cx.ops.matmul(cx.value(op.nn.softmax(scores.expr, axis)), value)
    if not node.outputs[1]:
        return [out]
    most = scores.max([axis], True)
    total = ((scores - most).exp().sum([axis], True).log() + most).squeeze([axis])
    return [out, total]


@aten("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    cx: Context, node: Node, grad: Term, query: Term, key: Term, value: Term, out: Term, sums: Term,
    dropout: float, is_causal: bool, *, attn_mask: Term | None = None, scale: float | None = None,
) -> list[Term]:  # fmt: skip
    """The gradients of query, key and value. The softmax is computed once more, as float32 where they are narrower."""
    dtype = "float32" if grad.dtype.bits < 32 else str(grad.dtype)
    grad, query, key, value, out = (cx.tensor(v, dtype) for v in (grad, query, key, value, out))
    if attn_mask is not None and not attn_mask.dtype.is_bool:
        attn_mask = cx.tensor(attn_mask, dtype)
    scores = _scores(cx, dtype, query, key, attn_mask, dropout, is_causal, scale)
    weights = cx.value(op.nn.softmax(scores.expr, scores.ndim - 1))
    along = cx.ops.matmul(grad, _turned(value)) - (grad * out).sum([grad.ndim - 1], True)
    of_scores = weights * along * _scale(cx, dtype, query, scale)
    sides = (of_scores, key), (_turned(of_scores), query), (_turned(weights), grad)
    return [cx.ops.matmul(a, b) for a, b in sides]


def _turned(x: Term) -> Term:
    """A batch of matrices, transposed."""
    return x.permute_dims([*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


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
    scores = cx.ops.matmul(query, _turned(key)) * _scale(cx, dtype, query, scale)
    if is_causal:
        mask = cx.filled([query.shape[-2], key.shape[-2]], True, "bool").tril(0)
    if mask is not None:
        excluded = cx.tensor(-math.inf, dtype)
        scores = scores + (cx.where(mask, 0.0, excluded) if mask.dtype.is_bool else mask)
    return scores


def _literal(size: Size, what: str) -> int:
    if not isinstance(size, IntImm):
        raise ValueError(explain(f"{what} must be known", got=str(size)))
    return size.value


def _repeated(cx: Context, x: Term, like: Term) -> Term:
    """The heads of keys or values, repeated so that each query head has one."""
    times = _literal(like.shape[-3], "the number of heads") // _literal(
        x.shape[-3], "the number of heads"
    )
    return x if times == 1 else x.repeat(times, x.ndim - 3)
