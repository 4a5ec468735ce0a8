"""Normalization of groups of channels."""

from __future__ import annotations

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, floordiv, multiply
from ..relax.struct_info import TensorStructInfo
from .common import accumulator, compute, normalize_axes, normalize_axis, product, widened
from .core import FUSABLE, case, op
from .extents import simplify
from .layout_rules import along
from .nn import check_params, like_data, moments, moments_over, scaled
from .params import Axes, Tensor


@op("relax.nn.group_norm", kind=FUSABLE, mixed="follow")
def group_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, channel_axis: int, axes: Axes,
    epsilon: float = 1e-5, center: bool = True, scale: bool = True,
):  # fmt: skip
    """(x - mean) / sqrt(var + epsilon) * gamma + beta, mean and variance over `axes` and over the
    channels of each of `num_groups` groups; gamma and beta have one element per channel."""
    rank = len(data.shape)
    channel, which = normalize_axis(channel_axis, rank), normalize_axes(axes, rank)
    each = simplify(floordiv(data.shape[channel], num_groups))
    outer, wide = [a for a in range(rank) if a not in which], accumulator(data.dtype)
    dims = [const(num_groups, "int64") if a == channel else data.shape[a] for a in outer]

    def over(cell, name):
        spans = {a: te.reduce_axis((const(0, "int64"), data.shape[a]), name=f"k{a}") for a in which}
        inner = te.reduce_axis((const(0, "int64"), each), name="kc")

        def total(*i):
            at = {**dict(zip(outer, i, strict=True)), **spans}
            at[channel] = at[channel] * each + inner
            full = [at[a] for a in range(rank)]
            return te.sum(cell(full, i), axis=[inner, *spans.values()])

        return compute(dims, total, name, tag="comm_reduce")

    value = lambda i: cast(wide, data(*i))  # noqa: E731
    count = multiply(each, product(data.shape[a] for a in which))
    mean, spread = moments(over, value, count, f"{data.op.name}_red_temp")

    def cell(*i):
        at = [floordiv(i[a], each) if a == channel else i[a] for a in outer]
        normal = (value(i) - mean(*at)) * tir.rsqrt(spread(*at) + const(epsilon, wide))
        c = i[channel]
        normal = scaled(normal, gamma(c) if scale else None, beta(c) if center else None)
        return cast(data.dtype, normal)

    return compute(data.shape, cell, "T_group_norm")


@group_norm.infer
def _(data: TensorStructInfo, gamma, beta, num_groups, channel_axis, axes, **_):
    if num_groups < 1:
        raise ValueError(explain("there must be a group of channels", got=f"{num_groups} groups"))
    proved = check_params(data, [channel_axis], gamma=gamma, beta=beta)
    if data.ndim != -1:
        normalize_axes(axes, data.ndim)
    shape = data.get_shape()
    if shape is not None:
        channel = normalize_axis(channel_axis, len(shape))
        if channel in normalize_axes(axes, len(shape)):
            what = "the channel axis is already normalized in groups"
            raise ValueError(explain(what, got=f"axes {list(axes)}", instead="leave it out"))
        extent = shape[channel]
        if isinstance(extent, IntImm) and extent.value % num_groups:
            what = "the groups must be of one size"
            raise ValueError(explain(what, got=f"{extent.value} channels in {num_groups} groups"))
    return like_data(data, proved)


@group_norm.numpy
def _(data, gamma, beta, num_groups, channel_axis, axes, epsilon=1e-5, center=True, scale=True):
    channel = channel_axis % data.ndim
    each = data.shape[channel] // num_groups
    cut = [*data.shape[:channel], num_groups, each, *data.shape[channel + 1 :]]
    x = widened(data).reshape(cut)
    over = tuple(a % data.ndim + (a % data.ndim > channel) for a in axes) + (channel + 1,)
    out = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + epsilon)
    out = out.reshape(data.shape)
    own = [-1 if a == channel else 1 for a in range(data.ndim)]
    if scale:
        out = out * gamma.reshape(own)
    return (out + beta.reshape(own) if center else out).astype(data.dtype)


group_norm.layout(along("channel_axis", "axes"))
group_norm.samples(
    case((2, 6, 4, 5), (6,), (6,), num_groups=3, channel_axis=1, axes=[2, 3]),
    case(("n", 5, 4), (4,), (4,), num_groups=2, channel_axis=-1, axes=[1]),
    case((2, 4, 3), (4,), (4,), num_groups=4, channel_axis=1, axes=[2], center=False),
    case((0, 4, 3), (4,), (4,), num_groups=2, channel_axis=1, axes=[2]),
)


@op("relax.nn.instance_norm", kind=FUSABLE, mixed="follow")
def instance_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, channel_axis: int, axes: Axes, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
):  # fmt: skip
    """(x - mean) / sqrt(var + epsilon) * gamma + beta, mean and variance over `axes` of each image;
    gamma and beta have one element per channel."""
    rank = len(data.shape)
    channel, which = normalize_axis(channel_axis, rank), normalize_axes(axes, rank)
    mean, spread = moments_over(data, which, f"{data.op.name}_red_temp")

    def cell(*i):
        at, c = [v for a, v in enumerate(i) if a not in which], i[channel]
        factor = tir.rsqrt(spread(*at) + const(epsilon, spread.dtype))
        normal = (cast(mean.dtype, data(*i)) - mean(*at)) * factor
        normal = scaled(normal, gamma(c) if scale else None, beta(c) if center else None)
        return cast(data.dtype, normal)

    return compute(data.shape, cell, "T_instance_norm")


@instance_norm.infer
def _(data: TensorStructInfo, gamma, beta, channel_axis, axes, **_):
    if data.ndim != -1:
        normalize_axes(axes, data.ndim)
    return like_data(data, check_params(data, [channel_axis], gamma=gamma, beta=beta))


@instance_norm.numpy
def _(data, gamma, beta, channel_axis, axes, epsilon=1e-5, center=True, scale=True):
    x, over = data.astype(np.float64), tuple(a % data.ndim for a in axes)
    out = (x - x.mean(over, keepdims=True)) / np.sqrt(x.var(over, keepdims=True) + epsilon)
    own = [-1 if a == channel_axis % data.ndim else 1 for a in range(data.ndim)]
    if scale:
        out = out * gamma.reshape(own)
    return (out + beta.reshape(own) if center else out).astype(data.dtype)


instance_norm.layout(along("channel_axis", "axes"))
instance_norm.samples(
    case((2, 3, 4, 5), (3,), (3,), channel_axis=1, axes=[2, 3]),
    case(("n", 5, 4), (4,), (4,), channel_axis=-1, axes=[1], scale=False),
)
