"""Convolutions and normalizations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import add
from typing import Any

from ....base import budget
from ....base.errors import explain
from ....ir.prim_expr import IntImm
from ....relax import op
from ....relax.expr import ShapeExpr
from ...common import padded, same_padding, same_padding_transposed
from ...graph.context import Context, in_float32
from ...graph.values import Value, literal
from ..reader import Node
from ..registry import converter

_CONV = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}
_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def spatial_rank(x: Value) -> int:
    """The number of axes after batch and channel. Raises ValueError unless it is 1 to 3."""
    rank = x.ndim - 2
    if rank not in (1, 2, 3):
        what = "the input must be [N, C, ...] with 1 to 3 spatial axes"
        raise ValueError(explain(what, got=str(x.info)))
    return rank


def per_axis(node: Node, name: str, rank: int, default: list[int] | None = None) -> list[int]:
    """An attribute with a positive number for each spatial axis; required without a default."""
    values = node.integers(name) if default is None else node.integers(name, default)
    if len(values) != rank or any(v < 1 for v in values):
        what = f"attribute {name} must hold {rank} positive numbers"
        raise ValueError(explain(what, got=values))
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
    where auto_pad asks for as much as a symbolic extent needs."""
    rank, auto = len(kernel), node.text("auto_pad", "NOTSET")
    if auto not in _AUTO:
        what = f"attribute auto_pad must be one of {', '.join(_AUTO)}"
        raise ValueError(explain(what, got=auto))
    pads = padding_of(node, "pads", 2 * rank)
    if auto == "NOTSET":
        return pads
    if auto == "VALID":
        return [0] * (2 * rank)
    windows = zip(x.shape[2:], known_window(kernel), strides, dilations, strict=True)
    sides = [same_padding(*w, upper=auto == "SAME_UPPER") for w in windows]
    return [b for b, _ in sides] + [a for _, a in sides]


def framed(cx: Context, x: Value, pads: list[Any], fill: float = 0.0) -> tuple[Value, list[int]]:
    """(x, its padding), with a padding that only the run tells made part of x."""
    if all(isinstance(p, int) for p in pads):
        return x, pads
    rank = len(pads) // 2
    lead = [0] * (x.ndim - rank)
    grown = padded(x.expr, lead + pads[:rank], lead + pads[rank:], fill=fill)
    return cx.value(grown), [0] * len(pads)


def windowed(cx: Context, node: Node, x: Value, weight: Value) -> tuple[Value, Value, list[Any]]:
    """(x, the weight, the window) of a convolution. What only the run tells of their shapes is an expression,
    unless the other one or attribute kernel_shape tells it."""
    if x.info.ndim < 0 <= weight.info.ndim:
        x = cx.found(x.expr, *[None] * weight.ndim)
    elif weight.info.ndim < 0:
        weight = cx.found(weight.expr, *[None] * x.ndim)
    own = [literal(d) for d in weight.shape[2:]]
    given = list(node.integers("kernel_shape", own))
    if len(given) != len(own) or any(isinstance(o, int) and o != g for o, g in zip(own, given)):
        what = "attribute kernel_shape is not that of the weight"
        raise ValueError(explain(what, got=f"{given} for a weight of {own}"))
    more = {2 + k: g for k, (o, g) in enumerate(zip(own, given)) if o is not g and o != g}
    return x, cx.with_dims(weight, more), given


def known_window(kernel: list[Any]) -> list[int]:
    """The window, for what is computed from it. Raises ValueError where only the run tells it."""
    if not all(isinstance(k, int) for k in kernel):
        what = "auto_pad and output_shape need the weight's window"
        hint = "give attribute kernel_shape, or the weight's extents by shape_dict"
        raise ValueError(explain(what, got=", ".join(map(str, kernel)), instead=hint))
    return kernel


@converter("Conv")
def conv(cx: Context, node: Node, x: Value, weight: Value, bias: Value | None = None) -> Any:
    x, weight, kernel = windowed(cx, node, x, weight)
    rank = spatial_rank(x)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    x, pads = framed(cx, x, window_padding(node, x, kernel, strides, dilations))
    group = node.integer("group", 1)
    out = _CONV[rank](x.expr, weight.expr, strides, pads, dilations, group)
    return with_bias(cx, out, bias, rank)


def with_bias(cx: Context, out: Any, bias: Value | None, rank: int) -> Any:
    if bias is None:
        return out
    out = cx.emit(out)
    shape = [1, -1, *[1] * rank]
    return op.add(out, _reshaped(cx, bias, shape))


def _reshaped(cx: Context, value: Value, shape: list[int]) -> Any:
    """A vector in another shape; a literal constant is reshaped right here."""
    if value.is_constant:
        return cx.constant(value.expr.data.view().reshape(shape), str(value.dtype))
    return op.reshape(value.expr, shape)


@converter("ConvTranspose")
def conv_transpose(
    cx: Context, node: Node, x: Value, weight: Value, bias: Value | None = None
) -> Any:
    x, weight, kernel = windowed(cx, node, x, weight)
    rank = spatial_rank(x)
    strides = per_axis(node, "strides", rank, [1] * rank)
    dilations = per_axis(node, "dilations", rank, [1] * rank)
    extra = padding_of(node, "output_padding", rank)
    pads = _transposed_padding(node, x, kernel, strides, dilations, extra)
    group = node.integer("group", 1)
    if rank == 3:
        out = _transposed_3d(cx, x, weight, strides, pads, extra, dilations, group)
        return with_bias(cx, out, bias, rank)
    if rank == 2:
        out = op.nn.conv2d_transpose(x.expr, weight.expr, strides, pads, extra, dilations, group)
        return with_bias(cx, out, bias, rank)
    # One spatial axis is two of which the first has extent 1.
    wide = op.nn.conv2d_transpose(
        op.expand_dims(x.expr, [2]),
        op.expand_dims(weight.expr, [2]),
        [1, *strides],
        [0, pads[0], 0, pads[1]],
        [0, *extra],
        [1, *dilations],
        group,
    )
    return with_bias(cx, op.squeeze(cx.emit(wide), [2]), bias, rank)


def _transposed_3d(
    cx: Context,
    x: Value,
    weight: Value,
    strides: list[int],
    pads: list[int],
    extra: list[int],
    dilations: list[int],
    group: int,
) -> Any:
    """The convolution of the data, with zeros between its elements, by the turned weight."""
    kernel, axes = [literal(d) for d in weight.shape[2:]], [2, 3, 4]
    wide = x
    for axis, stride in zip(axes, strides, strict=True):
        if stride > 1:  # a new axis of which the element is the first, zeros the others
            split = op.expand_dims(wide.expr, [axis + 1])
            width = [0] * 2 * (axis + 1) + [0, stride - 1] + [0] * 2 * (4 - axis)
            dims = [d * stride if a == axis else d for a, d in enumerate(wide.shape)]
            dims = ShapeExpr([cx.simplify(d) for d in dims])
            spread = op.reshape(cx.emit(op.nn.pad(split, width)), dims)
            end = cx.simplify(dims[axis] - (stride - 1))
            wide = cx.value(op.strided_slice(spread, [axis], [0], [end], assume_inbound=True))
    # As many zeros around as the window reaches, less what pads cut off.
    reach = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    sides = [r - p for r, p in zip(reach, pads[:3], strict=True)]
    sides += [r - p + e for r, p, e in zip(reach, pads[3:], extra, strict=True)]
    if not all(isinstance(s, int) for s in sides):  # pad in full, cut afterwards
        wide = cx.value(padded(wide.expr, [0, 0, *reach], [0, 0, *map(add, reach, extra)]))
        sides = [-p for p in pads]
    ends = [cx.simplify(d + min(s, 0)) for d, s in zip(wide.shape[2:], sides[3:], strict=True)]
    if min(sides) < 0:
        starts = [max(-s, 0) for s in sides[:3]]
        wide = cx.value(op.strided_slice(wide.expr, axes, starts, ends, assume_inbound=True))
    inner, outer = literal(weight.shape[0]) // group, literal(weight.shape[1])
    turned = op.reshape(weight.expr, ShapeExpr([group, inner, outer, *kernel]))
    turned = op.reshape(
        cx.emit(op.permute_dims(turned, [0, 2, 1, 3, 4, 5])),
        ShapeExpr([group * outer, inner, *kernel]),
    )
    for axis in axes:
        turned = op.flip(cx.emit(turned), axis)
    padding = [max(s, 0) for s in sides]
    return op.nn.conv3d(wide.expr, cx.emit(turned), [1, 1, 1], padding, dilations, group)


def _transposed_padding(
    node: Node,
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
) -> list[int]:
    rank, auto = len(kernel), node.text("auto_pad", "NOTSET")
    if auto not in _AUTO:
        what = f"attribute auto_pad must be one of {', '.join(_AUTO)}"
        raise ValueError(explain(what, got=auto))
    wanted = node.integers("output_shape", None)
    pads = padding_of(node, "pads", 2 * rank)
    if wanted is not None:
        return _padding_for(
            x, known_window(kernel), strides, dilations, extra, wanted[-rank:], auto
        )
    if auto == "NOTSET":
        return pads
    if auto == "VALID":
        return [0] * (2 * rank)
    windows = zip(known_window(kernel), strides, dilations, strict=True)
    sides = [same_padding_transposed(*w, upper=auto == "SAME_UPPER") for w in windows]
    return [b for b, _ in sides] + [a for _, a in sides]


def _padding_for(
    x: Value,
    kernel: list[int],
    strides: list[int],
    dilations: list[int],
    extra: list[int],
    wanted: list[int],
    auto: str,
) -> list[int]:
    """The padding that gives the extents of attribute output_shape; what is missing is added to
    `extra`, the padding of the output."""
    sides = []
    for k, s, d, e, w, size in zip(
        kernel, strides, dilations, extra, wanted, x.shape[2:], strict=True
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
        raise ValueError("BatchNormalization with spatial=0 is not supported")
    asked = any(node.outputs[1:])  # before opset 14 what is trained gives statistics
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
    gain, shift = (cx.emit(_reshaped(cx, v, shape)) for v in (scale, bias))
    normal = _as(cx, cx.value(op.multiply(center, factor)), x.dtype)
    gain, shift = (_as(cx, cx.value(v), x.dtype) for v in (gain, shift))
    outs, own = [op.add(op.multiply(normal, gain), shift)], []
    for before, found in zip(running, (mean, spread), strict=True):
        now = cx.emit(op.reshape(found, ShapeExpr([x.shape[1]])))
        now = _as(cx, cx.value(now), before.dtype)
        kept = op.multiply(before.expr, cx.scalar(momentum, before.dtype))
        outs.append(op.add(kept, op.multiply(now, cx.scalar(1 - momentum, before.dtype))))
        own.append(now)
    return [*outs, *own]


def _as(cx: Context, v: Value, dtype: str) -> Any:
    return v.expr if v.dtype == dtype else op.astype(v.expr, dtype)


@converter("InstanceNormalization")
def instance_normalization(cx: Context, node: Node, x: Value, scale: Value, bias: Value) -> Any:
    node.skip("consumed_inputs")
    shape = [1, -1, *[1] * (x.ndim - 2)]
    normal = _normalized(cx, x, list(range(2, x.ndim)), node.real("epsilon", 1e-5))
    return op.add(op.multiply(normal, _reshaped(cx, scale, shape)), _reshaped(cx, bias, shape))


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
    cx: Context, norm: Callable[..., Any], x: Value, given: list[Value], axes: list[int], **how: Any
) -> Any:
    """A norm over the last axes as one over the rows of a matrix, whose sums are of several parts and
    so more exact; over the axes themselves where the shapes of the parameters are not known."""
    dims = x.shape[axes[0] :]
    same = all(v.ndim == len(axes) and all(map(cx.equal, v.shape, dims)) for v in given)
    if len(axes) == 1 or not same:
        return norm(x.expr, *(v.expr for v in given), axes, **how)
    row = cx.product(dims)
    flat = cx.emit(op.reshape(x.expr, ShapeExpr([cx.product(x.shape[: axes[0]]), row])))
    long = [cx.emit(op.reshape(v.expr, ShapeExpr([row]))) for v in given]
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
    given = [v for v in (scale, bias) if v is not None]
    plain = all(v.ndim == len(axes) for v in given)
    if plain and len([o for o in node.outputs if o]) == 1:
        given = [scale, scale if bias is None else bias]
        return _of_rows(
            cx, op.nn.layer_norm, x, given, axes, epsilon=epsilon, center=bias is not None
        )
    mean, factor, normal = _moments(cx, _wide(cx, x), axes, epsilon)
    normal = _as(cx, cx.value(normal), x.dtype)
    out = cx.value(op.multiply(*cx.broadcast(cx.value(normal), scale)))
    out = out if bias is None else cx.value(op.add(*cx.broadcast(out, bias)))
    return [out, mean, factor]


def with_skip(cx: Context, x: Value, skip: Value) -> Value:
    """x + skip. Raises ValueError where skip is known to be larger, as the results have x's shape."""
    total = cx.value(op.add(*cx.broadcast(x, skip)))
    pairs = zip(map(literal, x.shape), map(literal, total.shape), strict=False)
    if total.ndim != x.ndim or any(a == 1 and b != 1 and isinstance(b, int) for a, b in pairs):
        what = "the skipped tensor is larger than the input"
        raise ValueError(explain(what, got=f"{skip.info} beside {x.info}", instead="one that fits"))
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
    n, c, *rest = (literal(d) for d in x.shape)
    if not isinstance(c, int) or groups < 1 or c % groups:
        raise ValueError(explain("num_groups must divide the channels", got=f"{groups} of {c}"))
    grouped = cx.value(op.reshape(x.expr, ShapeExpr([n, groups, c // groups, *rest])))
    out = _normalized(cx, grouped, list(range(2, grouped.ndim)), epsilon)
    each = [scale, bias]
    if literal(scale.shape[0]) == groups and groups != c:  # opset 18: one for each group
        out = cx.emit(out)
        shape = [1, groups, *[1] * (grouped.ndim - 2)]
        out = op.add(op.multiply(out, _reshaped(cx, scale, shape)), _reshaped(cx, bias, shape))
        return op.reshape(cx.emit(out), ShapeExpr(x.shape))
    flat = cx.emit(op.reshape(cx.emit(out), ShapeExpr(x.shape)))
    shape = [1, c, *[1] * len(rest)]
    gain, shift = (_reshaped(cx, v, shape) for v in each)
    return op.add(op.multiply(flat, gain), shift)


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
@in_float32
def local_response_normalization(cx: Context, node: Node, x: Value) -> Any:
    size, bias = node.integer("size"), node.real("bias", 1.0)
    alpha, beta = node.real("alpha", 1e-4), node.real("beta", 0.75)
    if size < 1:
        raise ValueError(explain("attribute size must be positive", got=size))
    before, after = (size - 1) // 2, size // 2
    channels = literal(x.shape[1])
    if isinstance(channels, int):  # what lies further away than there are channels is padding
        before, after = (min(side, max(channels, 1) - 1) for side in (before, after))
    budget.spend(nodes=before + after)
    width = [0, 0, before, after] + [0, 0] * (x.ndim - 2)
    squares = cx.emit(op.nn.pad(op.multiply(x.expr, x.expr), width))
    ends = [x.shape[1] + k for k in range(before + after + 1)]
    parts = [
        op.strided_slice(squares, [1], [k], [end], assume_inbound=True)
        for k, end in enumerate(ends)
    ]
    scaled = op.multiply(functools.reduce(op.add, parts), cx.scalar(alpha / size, x.dtype))
    return op.divide(
        x.expr, op.power(op.add(scaled, cx.scalar(bias, x.dtype)), cx.scalar(beta, x.dtype))
    )
