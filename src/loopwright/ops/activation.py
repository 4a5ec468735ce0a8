"""Activations."""

from __future__ import annotations

import math

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.prim_op import const
from ..relax import op as R
from .common import aligned_index, compute, like, normalize_axis, shape_text
from .core import case, op
from .extents import broadcast_differ, differ, text
from .family import unary
from .layout_rules import along, elementwise
from .params import Axis, Tensor

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _c(value, x):
    return const(value, x.dtype)


def _between(cx, x, low, high):
    """1 where x is between the bounds, else 0."""
    inside = R.logical_and(x > cx.number(low), x < cx.number(high))
    return R.where(inside, cx.number(1), cx.number(0))


def _gelu_slope(cx, x):
    below = cx.number(0.5) * (cx.number(1) + R.erf(x * cx.number(math.sqrt(0.5))))
    density = cx.number(1 / math.sqrt(2 * math.pi)) * R.exp(cx.number(-0.5) * x * x)
    return below + x * density


def _gelu_tanh_slope(cx, x):
    factor, cubic = math.sqrt(2 / math.pi), 0.044715
    bent = R.tanh(cx.number(factor) * (x + cx.number(cubic) * x * x * x))
    inner = cx.number(factor) * (cx.number(1) + cx.number(3 * cubic) * x * x)
    both = cx.number(1) + bent + x * (cx.number(1) - bent * bent) * inner
    return cx.number(0.5) * both


unary(
    "relax.nn.relu",
    lambda x: tir.max(x, _c(0, x)),
    lambda x: np.maximum(x, 0),
    "max(x, 0)",
    finite=True,
    # 1 at 0: a model whose parameters are zeros learns
    slope=lambda cx, x: R.where(x < cx.number(0), cx.number(0), cx.number(1)),
)
unary(
    "relax.nn.relu6",
    lambda x: tir.min(tir.max(x, _c(0, x)), _c(6, x)),
    lambda x: np.clip(x, 0, 6),
    "x limited to [0, 6].",
    finite=True,
    slope=lambda cx, x: _between(cx, x, 0, 6),
)
unary(
    "relax.nn.silu",
    lambda x: x * tir.sigmoid(x),
    lambda x: x / (1 + np.exp(-x)),
    "x * sigmoid(x)",
    float_only=True,
    finite=True,
    slope=lambda cx, x: R.sigmoid(x) * (cx.number(1) + x - cx.out),
)
unary(
    "relax.nn.gelu",
    lambda x: x * _c(0.5, x) * (_c(1, x) + tir.erf(x * _c(math.sqrt(0.5), x))),
    lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "x times the normal distribution's cumulative function: x / 2 * (1 + erf(x / sqrt(2)))",
    float_only=True,
    finite=True,
    slope=_gelu_slope,
)


def _gelu_tanh(x):
    inner = _c(math.sqrt(2 / math.pi), x) * (x + _c(0.044715, x) * x * x * x)
    return _c(0.5, x) * x * (_c(1, x) + tir.tanh(inner))


unary(
    "relax.nn.gelu_tanh",
    _gelu_tanh,
    lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu by its tanh approximation (Hendrycks and Gimpel, 2016)",
    float_only=True,
    finite=True,
    slope=_gelu_tanh_slope,
)
unary(
    "relax.nn.hardsigmoid",
    lambda x: tir.min(tir.max(x + _c(3, x), _c(0, x)), _c(6, x)) / _c(6, x),
    lambda x: np.clip(x + 3, 0, 6) / 6,
    "clip(x + 3, 0, 6) / 6",
    float_only=True,
    finite=True,
    slope=lambda cx, x: _between(cx, x, -3, 3) / cx.number(6),
)
unary(
    "relax.nn.hardswish",
    lambda x: x * (tir.min(tir.max(x + _c(3, x), _c(0, x)), _c(6, x)) / _c(6, x)),
    lambda x: x * (np.clip(x + 3, 0, 6) / 6),
    "x * (clip(x + 3, 0, 6) / 6)",
    float_only=True,
    finite=True,
    slope=lambda cx, x: R.where(
        x > cx.number(3), cx.number(1), _between(cx, x, -3, 3) * (x / cx.number(3) + cx.number(0.5))
    ),
)


_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al., 2017
unary(
    "relax.nn.selu",
    lambda x: _c(_SCALE, x) * tir.if_then_else(x > _c(0, x), x, _c(_ALPHA, x) * tir.expm1(x)),
    lambda x: _SCALE * np.where(x > 0, x, _ALPHA * np.expm1(np.where(x > 0, 0, x))),
    "x where positive, else alpha * (exp(x) - 1), both times a scale: self-normalizing.",
    float_only=True,
    finite=True,
    slope=lambda cx, x: R.where(
        x > cx.number(0), cx.number(_SCALE), cx.number(_SCALE * _ALPHA) * R.exp(x)
    ),
)


@op("relax.nn.leakyrelu", mixed="follow")
def leaky_relu(data: Tensor, alpha: float = 0.01):
    """x where positive, else alpha * x."""
    value = lambda v: tir.Select(v > _c(0, v), v, v * _c(alpha, v))  # noqa: E731
    return compute(data.shape, lambda *i: value(data(*i)), "compute", axes="i", tag="elemwise")


@leaky_relu.numpy
def _(data, alpha=0.01):
    return np.where(data > 0, data, data * np.asarray(alpha, data.dtype))


@leaky_relu.grad
def _(cx, data, alpha=0.01):
    return R.where(data > cx.number(0), cx.grad, cx.grad * cx.number(alpha))


leaky_relu.infer(lambda data, **_: like(data))
leaky_relu.layout(elementwise(finite=True))
leaky_relu.samples(case((2, 3), alpha=0.1))


def _check_channels(vector, extent, differs=differ):
    """Raise ValueError unless a vector has one number for each channel."""
    if len(vector.shape) != 1 or differs(vector.shape[0], extent):
        what = "needs a vector with one number for each channel"
        raise ValueError(
            explain(what, got=f"{shape_text(vector.shape)} for an axis of {text(extent)}")
        )


@op("relax.nn.prelu")
def prelu(data: Tensor, alpha: Tensor, axis: Axis = 1):
    """x, times the alpha of its channel, or the only one, where negative."""
    which = normalize_axis(axis, len(data.shape))
    channels = [data.shape[which]]
    _check_channels(alpha, *channels, lambda a, b: broadcast_differ([a], [b], both=False))

    def cell(*i):
        v = data(*i)
        slope = alpha(*aligned_index(alpha.shape, [i[which]], channels))
        return tir.Select(v < _c(0, v), v * slope, v)

    return compute(data.shape, cell, "compute", axes="i", tag="broadcast")


@prelu.numpy
def _(data, alpha, axis=1):
    shape = [1] * data.ndim
    shape[axis] = -1
    return np.where(data < 0, data * alpha.reshape(shape), data)


@prelu.grad
def _(cx, data, alpha, axis=1):
    rank = data.struct_info.ndim
    which, zero = normalize_axis(axis, rank), cx.number(0)
    own = [1] * rank
    own[which] = alpha.struct_info.get_shape()[0]
    below = data < zero
    others = [a for a in range(rank) if a != which]
    of_alpha = R.sum(R.where(below, cx.grad * data, zero), others)
    of_alpha = R.collapse_sum_to(of_alpha, cx.shape(alpha))
    return [R.where(below, cx.grad * R.reshape(alpha, own), cx.grad), of_alpha]


prelu.layout(along("axis"))
prelu.samples(case((2, 3, 4), (3,)), case((2, 3, 4), (1,)))


@op("relax.nn.softplus")
def softplus(data: Tensor, beta: float = 1.0, threshold: float = 20.0):
    """log(1 + exp(beta * x)) / beta; x itself if beta * x exceeds the threshold."""

    def cell(*i):
        v = data(*i)
        scaled = v * _c(beta, v)
        tail = tir.log1p(tir.exp(-tir.abs(scaled)))  # overflows nowhere, and keeps small values
        smooth = (tir.max(scaled, _c(0, v)) + tail) / _c(beta, v)
        return tir.Select(scaled > _c(threshold, v), v, smooth)

    return compute(data.shape, cell, "compute", axes="i", tag="elemwise")


@softplus.numpy
def _(data, beta=1.0, threshold=20.0):
    scaled = data.astype(np.float64) * beta
    smooth = np.logaddexp(0, scaled) / beta
    return np.where(scaled > threshold, data, smooth).astype(data.dtype)


@softplus.grad
def _(cx, data, beta=1.0, threshold=20.0):
    scaled_up = data * cx.number(beta)
    return R.where(scaled_up > cx.number(threshold), cx.grad, cx.grad * R.sigmoid(scaled_up))


@softplus.infer
def _(data, beta=1.0, threshold=20.0):
    if not (data.dtype.is_void or data.dtype.is_float):
        raise TypeError(explain("softplus needs a tensor of floats", got=str(data.dtype)))
    return like(data)


softplus.layout(elementwise())
softplus.samples(case((2, 3)), case(("n", 4), beta=2.0, threshold=1.0))


@op("relax.nn.bias_add")
def bias_add(data: Tensor, bias: Tensor, axis: Axis = -1):
    """data + bias along `axis`."""
    which = normalize_axis(axis, len(data.shape))
    _check_channels(bias, data.shape[which])
    return compute(data.shape, lambda *i: data(*i) + bias(i[which]), "T_add", tag="broadcast")


@bias_add.numpy
def _(data, bias, axis=-1):
    shape = [1] * data.ndim
    shape[axis] = -1
    return data + bias.reshape(shape)


@bias_add.grad
def _(cx, data, bias, axis=-1):
    rank = data.struct_info.ndim
    others = [a for a in range(rank) if a != normalize_axis(axis, rank)]
    return [cx.grad, R.sum(cx.grad, others)]


bias_add.layout(along("axis"))
bias_add.samples(case((2, 3, 4), (3,), axis=1))
