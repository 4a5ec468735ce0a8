"""Convolutions and normalizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.context import in_float32
from ...graph.operators import windows
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter

_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def per_axis(node: Node, name: str, rank: int, default: list[int] | None = None) -> list[int]:
    """An attribute with a positive number for each spatial axis; required without a default."""
    values = node.integers(name) if default is None else node.integers(name, default)
    if len(values) != rank or any(v < 1 for v in values):
        raise ValueError(explain(f"attribute {name} must hold {rank} positive numbers", got=values))
    return values


def padding_of(node: Node, name: str, count: int) -> list[int]:
    """An attribute with `count` numbers that are not negative; zeros where it is not given."""
    values = list(node.integers(name, [0] * count))
    if len(values) != count or any(v < 0 for v in values):
        what = f"attribute {name} must hold {count} numbers, none negative"
        raise ValueError(explain(what, got=values))
    return values


def window_padding(
    node: Node, x: Value, kernel: list[int], strides: list[int], dilations: list[int]
) -> list[Any]:
    """The padding of a sliding window: all before, then all after, of the spatial axes; expressions
    where auto_pad depends on a symbolic extent."""
    rank, auto = len(kernel), node.choice("auto_pad", _AUTO)
    pads = padding_of(node, "pads", 2 * rank)
    return windows.window_padding(x, kernel, strides, dilations, pads if auto == "NOTSET" else auto)


def windowed(cx: Context, node: Node, x: Value, weight: Value) -> tuple[Value, Value, list[Any]]:
    """(x, the weight, the window) of a convolution. Extents known only at run time are expressions,
    unless the other shape or attribute kernel_shape has them."""
    if x.info.ndim < 0 <= weight.info.ndim:
        x = cx.of_shape(x.expr, *[None] * weight.ndim)
    elif weight.info.ndim < 0:
        weight = cx.of_shape(weight.expr, *[None] * x.ndim)
    own = [literal(d) for d in weight.shape[2:]]
    extents = list(node.integers("kernel_shape", own))
    if len(extents) != len(own) or any(isinstance(o, int) and o != g for o, g in zip(own, extents)):
        what = "attribute kernel_shape is not that of the weight"
        raise ValueError(explain(what, got=f"{extents} for a weight of {own}"))
    more = {2 + k: g for k, (o, g) in enumerate(zip(own, extents)) if o is not g and o != g}
    return x, cx.with_dims(weight, more), extents


@converter("Conv")
def conv(cx: Context, node: Node, x: Value, weight: Value, bias: Value | None = None) -> Any:
    x, weight, kernel = windowed(cx, node, x, weight)
    rank = windows.spatial_rank(x)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    pads = window_padding(node, x, kernel, strides, dilations)
    how = {"strides": strides, "padding": pads, "dilations": dilations}
    return cx.ops.conv(x, weight, bias, **how, groups=node.integer("group", 1))


@converter("ConvTranspose")
def conv_transpose(
    cx: Context, node: Node, x: Value, weight: Value, bias: Value | None = None
) -> Any:
    x, weight, kernel = windowed(cx, node, x, weight)
    rank = windows.spatial_rank(x)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    extra = padding_of(node, "output_padding", rank)
    pads = _transposed_padding(node, x, kernel, strides, dilations, extra)
    how = {"strides": strides, "padding": pads, "dilations": dilations, "output_padding": extra}
    return cx.ops.conv_transpose(x, weight, bias, **how, groups=node.integer("group", 1))


def _transposed_padding(
    node: Node,
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
) -> list[int]:
    rank, auto = len(kernel), node.choice("auto_pad", _AUTO)
    sizes = node.integers("output_shape", None)
    pads = padding_of(node, "pads", 2 * rank)
    if sizes is not None:
        return _padding_for(
            x, windows.known_window(kernel), strides, dilations, extra, sizes[-rank:], auto
        )
    padding = pads if auto == "NOTSET" else auto
    return windows.transposed_padding(kernel, strides, dilations, padding)


def _padding_for(
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
    sizes: list[int],
    auto: str,
) -> list[int]:
    """The padding that results in the extents of attribute output_shape; a shortfall is added to
    `extra`, the padding of the output."""
    sides = []
    for k, s, d, e, w, size in zip(
        kernel, strides, dilations, extra, sizes, x.shape[2:], strict=True
    ):
        if not isinstance(size, IntImm):
            what = "output_shape needs known extents of the input"
            raise ValueError(explain(what, got=str(x.info), instead="give them by shape_dict"))
        total = s * (size.value - 1) + e + (k - 1) * d + 1 - w
        if total < 0:
            extra[len(sides)] -= total
            total = 0
        small, large = total // 2, total - total // 2
        sides.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return [b for b, _ in sides] + [a for _, a in sides]


# ---------------------------------------------------------------- normalization


@converter("BatchNormalization")
def batch_normalization(
    cx: Context, node: Node, x: Value, scale: Value, bias: Value, mean: Value, var: Value
) -> Any:
    node.skip("is_test", "consumed_inputs")
    momentum, epsilon = node.real("momentum", 0.9), node.real("epsilon", 1e-5)
    if not node.integer("spatial", 1):
        raise ValueError(explain("BatchNormalization with spatial=0 is not supported"))
    asked = any(node.outputs[1:])  # before opset 14 training returns statistics
    if node.integer("training_mode", 0) or (node.opset < 14 and asked):
        return _trained(cx, x, scale, bias, (mean, var), momentum, epsilon)
    stats = [_as(cx, v, x.dtype) for v in (scale, bias, mean, var)]
    results = cx.emit(op.nn.batch_norm(x.expr, *stats, axis=1, epsilon=epsilon, training=False))
    return [results[0]]


def _trained(
    cx: Context,
    x: Value,
    scale: Value,
    bias: Value,
    running: tuple[Value, Value],
    momentum: float,
    epsilon: float,
) -> list[Any]:
    """By the batch's own statistics: the result, the running mean and variance, and before opset 14 the
    batch's."""
    axes = [0, *range(2, x.ndim)]
    wide = _wide(cx, x)
    mean = cx.emit(op.mean(wide.expr, axes, True))
    center = cx.emit(op.subtract(wide.expr, mean))
    spread = cx.emit(op.mean(op.multiply(center, center), axes, True))
    factor = cx.emit(op.rsqrt(op.add(spread, cx.scalar(epsilon, wide.dtype))))
    shape = [1, -1, *[1] * (x.ndim - 2)]
    gain, shift = (cx.emit(windows.vector_as(cx, v, shape)) for v in (scale, bias))
    normal = _as(cx, cx.value(op.multiply(center, factor)), x.dtype)
    gain, shift = (_as(cx, cx.value(v), x.dtype) for v in (gain, shift))
    outs, own = [op.add(op.multiply(normal, gain), shift)], []
    for before, current in zip(running, (mean, spread), strict=True):
        now = cx.emit(op.reshape(current, ShapeExpr([x.shape[1]])))
        now = _as(cx, cx.value(now), before.dtype)
        previous = op.multiply(before.expr, cx.scalar(momentum, before.dtype))
        outs.append(op.add(previous, op.multiply(now, cx.scalar(1 - momentum, before.dtype))))
        own.append(now)
    return [*outs, *own]


def _as(cx: Context, v: Value, dtype: str) -> Any:
    return v.expr if v.dtype == dtype else op.astype(v.expr, dtype)


@converter("InstanceNormalization")
def instance_normalization(cx: Context, node: Node, x: Value, scale: Value, bias: Value) -> Any:
    node.skip("consumed_inputs")
    axes, epsilon = list(range(2, x.ndim)), node.real("epsilon", 1e-5)
    return op.nn.instance_norm(x.expr, scale.expr, bias.expr, 1, axes, epsilon)


def _normalized(cx: Context, x: Value, axes: list[int], epsilon: float) -> Any:
    """(x - mean) / sqrt(variance + epsilon) over `axes`."""
    normal = _moments(cx, _wide(cx, x), axes, epsilon)[2]
    return _as(cx, cx.value(normal), x.dtype)


def _wide(cx: Context, x: Value) -> Value:
    """Short floats as float32, in which ONNX normalizes them (stash_type 1)."""
    return cx.value(op.astype(x.expr, "float32")) if x.dtype.bits < 32 else x


def _moments(cx: Context, x: Value, axes: list[int], epsilon: float) -> tuple[Any, Any, Any]:
    """(mean, 1 / sqrt(variance + epsilon), (x - mean) * that) over `axes`, which stay as 1."""
    mean = cx.emit(op.mean(x.expr, axes, True))
    center = cx.emit(op.subtract(x.expr, mean))
    spread = cx.emit(op.mean(op.multiply(center, center), axes, True))
    factor = cx.emit(op.rsqrt(op.add(spread, cx.scalar(epsilon, x.dtype))))
    return mean, factor, op.multiply(center, factor)


@converter("MeanVarianceNormalization", 9)
def mean_variance_normalization(cx: Context, node: Node, x: Value) -> Any:
    return _normalized(cx, x, node.integers("axes", [0, 2, 3]), 1e-9)


def _of_rows(
    cx: Context,
    norm: Callable[..., Any],
    x: Value,
    params: list[Value],
    axes: list[int],
    **how: float,
) -> Any:
    """A norm over the last axes as one over the rows of a matrix, whose sums are of several parts and
    so more exact; over the axes themselves where the shapes of the parameters are not known."""
    dims = x.shape[axes[0] :]
    same = all(v.ndim == len(axes) and all(map(cx.equal, v.shape, dims)) for v in params)
    if len(axes) == 1 or not same:
        return norm(x.expr, *(v.expr for v in params), axes, **how)
    row = cx.product(dims)
    flat = cx.emit(op.reshape(x.expr, ShapeExpr([cx.product(x.shape[: axes[0]]), row])))
    long = [cx.emit(op.reshape(v.expr, ShapeExpr([row]))) for v in params]
    return op.reshape(cx.emit(norm(flat, *long, [-1], **how)), ShapeExpr(x.shape))


@converter("LayerNormalization", 17)
def layer_normalization(
    cx: Context, node: Node, x: Value, scale: Value, bias: Value | None = None
) -> Any:
    node.skip("stash_type")
    axis = node.integer("axis", -1)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(explain("attribute axis is out of range", got=f"{axis} for rank {x.ndim}"))
    axes = list(range(axis % x.ndim, x.ndim))
    epsilon = node.real("epsilon", 1e-5)
    params = [v for v in (scale, bias) if v is not None]
    plain = all(v.ndim == len(axes) for v in params)
    if plain and len([o for o in node.outputs if o]) == 1:
        params = [scale, scale if bias is None else bias]
        return _of_rows(
            cx, op.nn.layer_norm, x, params, axes, epsilon=epsilon, center=bias is not None
        )
    mean, factor, normal = _moments(cx, _wide(cx, x), axes, epsilon)
    normal = _as(cx, cx.value(normal), x.dtype)
    out = cx.value(op.multiply(*cx.broadcast(cx.value(normal), scale)))
    out = out if bias is None else cx.value(op.add(*cx.broadcast(out, bias)))
    return [out, *(_as(cx, cx.value(v), "float32") for v in (mean, factor))]  # stash_type 1


def with_skip(cx: Context, x: Value, skip: Value) -> Value:
    """x + skip. Raises ValueError where skip is known to be larger, as the results have x's shape."""
    total = cx.value(op.add(*cx.broadcast(x, skip)))
    pairs = zip(map(literal, x.shape), map(literal, total.shape), strict=False)
    if total.ndim != x.ndim or any(a == 1 and b != 1 and isinstance(b, int) for a, b in pairs):
        what = "the skipped tensor is larger than the input"
        raise ValueError(explain(what, got=f"{skip.info} with {x.info}", instead="one that fits"))
    return total


@converter("SkipLayerNormalization", 1, "com.microsoft")
def skip_layer_normalization(
    cx: Context, node: Node, x: Value, skip: Value, gamma: Value, beta: Value | None = None,
    bias: Value | None = None,
) -> Any:  # fmt: skip
    total = with_skip(cx, x, skip)
    if bias is not None:
        total = cx.value(op.add(*cx.broadcast(total, bias)))
    epsilon = node.real("epsilon", 1e-12)
    mean, factor, normal = _moments(cx, _wide(cx, total), [total.ndim - 1], epsilon)
    out = cx.value(_as(cx, cx.value(normal), x.dtype))
    out = cx.value(op.multiply(*cx.broadcast(out, gamma)))
    out = out if beta is None else cx.value(op.add(*cx.broadcast(out, beta)))
    return [out, mean, factor, total]


@converter("RMSNormalization", 23)
def rms_normalization(cx: Context, node: Node, x: Value, scale: Value) -> Any:
    node.skip("stash_type")
    axes = list(range(node.integer("axis", -1) % x.ndim, x.ndim))
    return _of_rows(cx, op.nn.rms_norm, x, [scale], axes, epsilon=node.real("epsilon", 1e-5))


@converter("GroupNormalization", 18)
@converter("GroupNormalization", 21)
def group_normalization(cx: Context, node: Node, x: Value, scale: Value, bias: Value) -> Any:
    node.skip("stash_type")
    groups, epsilon = node.integer("num_groups"), node.real("epsilon", 1e-5)
    c = literal(x.shape[1])
    if not isinstance(c, int) or groups < 1 or c % groups:
        raise ValueError(explain("num_groups must divide the channels", got=f"{groups} of {c}"))
    own = [scale.expr, bias.expr]
    if literal(scale.shape[0]) == groups:  # opset 18: one for each group
        own = [cx.emit(op.repeat(v, c // groups, 0)) for v in own]
    return op.nn.group_norm(x.expr, *own, groups, 1, list(range(2, x.ndim)), epsilon)


@converter("LpNormalization")
@in_float32
def lp_normalization(cx: Context, node: Node, x: Value) -> Any:
    axis, p = node.integer("axis", -1), node.integer("p", 2)
    if p not in (1, 2):
        raise ValueError(explain("attribute p must be 1 or 2", got=p))
    powers = op.abs(x.expr) if p == 1 else op.multiply(x.expr, x.expr)
    total = cx.emit(op.sum(powers, [axis], True))
    norm = total if p == 1 else cx.emit(op.sqrt(total))
    # A vector of zeros stays one.
    empty = op.equal(norm, cx.scalar(0, x.dtype))
    return op.divide(x.expr, op.where(empty, cx.scalar(1, x.dtype), norm))


@converter("LRN")
def local_response_normalization(cx: Context, node: Node, x: Value) -> Any:
    size, bias = node.integer("size"), node.real("bias", 1.0)
    return cx.ops.lrn(
        x, size=size, alpha=node.real("alpha", 1e-4), beta=node.real("beta", 0.75), bias=bias
    )
