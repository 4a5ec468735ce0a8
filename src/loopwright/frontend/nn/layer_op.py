"""Operators with weights on `nn.Tensor`s: convolutions, normalizations, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import relax
from ...base.errors import explain
from ...base.examples import add_examples
from ...ir.dtype import numpy_dtype
from ...relax import BlockBuilder
from ...relax import op as _op
from ...relax.expr import Expr
from .core import Tensor, get_default_dtype, wrap_nested


def _convolution(
    build: Callable[..., Any],
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    channels: int,
    name: str,
    **window: str | int,
) -> Tensor:
    """`build` on x and weight, plus the bias along the axis `channels`."""
    out = build(x._expr, weight._expr, **window)
    if bias is not None:
        shape = [-1 if axis == channels else 1 for axis in range(x.ndim)]
        out = _op.add(out, _op.reshape(bias._expr, shape))
    return wrap_nested(out, name)


def conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1, name: str = "conv1d",
) -> Tensor:  # fmt: skip
    """Convolution of x [batch, channels, width] with weight [out, channels / groups, window]."""
    window = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _convolution(_op.nn.conv1d, x, weight, bias, 1, name, **window)


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1, data_layout: str | None = "NCHW", name: str = "conv2d",
) -> Tensor:  # fmt: skip
    """Convolution in two dimensions, weight [out, channels / groups, height, width]."""
    layout = data_layout or "NCHW"
    window = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    build, channels = _op.nn.conv2d, layout.index("C")
    return _convolution(build, x, weight, bias, channels, name, data_layout=layout, **window)


def conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    dilation: int = 1, groups: int = 1, data_layout: str | None = "NCDHW", name: str = "conv3d",
) -> Tensor:  # fmt: skip
    """Convolution in three dimensions."""
    layout = data_layout or "NCDHW"
    window = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    build, channels = _op.nn.conv3d, layout.index("C")
    return _convolution(build, x, weight, bias, channels, name, data_layout=layout, **window)


def conv1d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: int = 1, padding: int = 0,
    output_padding: int = 0, dilation: int = 1, groups: int = 1, name: str = "conv1d_transpose",
) -> Tensor:  # fmt: skip
    """Transposed convolution, weight [channels, out / groups, window]."""
    window = {"strides": stride, "padding": padding, "dilation": dilation, "groups": groups}
    build, extra = _op.nn.conv1d_transpose, output_padding
    return _convolution(build, x, weight, bias, 1, name, output_padding=extra, **window)


def layer_norm(
    x: Tensor,
    normalized_shape: int | list[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, of `normalized_shape`."""
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    axes = list(range(-len(shape), 0))
    kind = numpy_dtype(x.dtype)
    gamma = relax.const(np.ones(shape, kind)) if weight is None else weight._expr
    beta = relax.const(np.zeros(shape, kind)) if bias is None else bias._expr
    return wrap_nested(_op.nn.layer_norm(x._expr, gamma, beta, axes=axes, epsilon=eps), name)


def rms_norm(
    x: Tensor, weight: Tensor, axes: int | list[int], epsilon: float = 1e-5, name: str = "rms_norm"
) -> Tensor:
    """x / sqrt(mean(x * x) + epsilon) * weight over `axes`."""
    which = [axes] if isinstance(axes, int) else axes
    return wrap_nested(_op.nn.rms_norm(x._expr, weight._expr, axes=which, epsilon=epsilon), name)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5,
    channel_axis: int = 1, axes: list[int] | None = None, name: str = "group_norm",
) -> Tensor:  # fmt: skip
    """Normalize groups of channels over `axes` (None: the axes after batch and channels)."""
    channels = x.shape[channel_axis]
    kind = numpy_dtype(x.dtype)
    gamma = relax.const(np.ones(channels, kind)) if weight is None else weight._expr
    beta = relax.const(np.zeros(channels, kind)) if bias is None else bias._expr
    if axes is None:
        axes = [a for a in range(x.ndim) if a not in (0, channel_axis % x.ndim)]
    out = _op.nn.group_norm(
        x._expr,
        gamma,
        beta,
        num_groups=num_groups,
        channel_axis=channel_axis,
        axes=axes,
        epsilon=eps,
    )
    return wrap_nested(out, name)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool | None = False,
    scale: float | None = None,
    name: str = "scaled_dot_product_attention",
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value, on [batch, length, heads, size].

    >>> class Net(nn.Module):
    ...     def forward(self, q, k):
    ...         return op.scaled_dot_product_attention(q, k, k, is_causal=True)
    >>> x = nn.spec.Tensor([1, 5, 2, 4], "float32")
    >>> Net().export_tvm({"forward": {"q": x, "k": x}})[0]["forward"].ret_struct_info
    R.Tensor((1, 5, 2, 4), dtype="float32")
    """
    mask = None if attn_mask is None else attn_mask._expr
    out = _op.nn.attention(
        query._expr,
        key._expr,
        value._expr,
        mask,
        scale=scale,
        causal_mask="TopLeft" if is_causal else None,
    )
    return wrap_nested(out, name)


def get_timestep_embedding(
    x: Tensor,
    embedding_dim: int,
    flip_sin_to_cos: bool = False,
    downscale_freq_shift: float = 1,
    scale: float = 1,
    max_period: int = 10000,
    name: str = "get_timestep_embedding",
) -> Tensor:
    """Sines and cosines of the timesteps x [n] at falling frequencies: [n, embedding_dim]
    (Ho, Jain, Abbeel: Denoising Diffusion Probabilistic Models, 2020).

    >>> x = {"x": nn.spec.Tensor([3], "float32")}
    >>> nn.Timesteps(8).export_tvm({"forward": {**x}})[0]["forward"].ret_struct_info
    R.Tensor((3, 8), dtype="float32")
    """
    half = embedding_dim // 2
    steps = _op.multiply(
        relax.const(-math.log(max_period), "float32"), _op.arange(0, half, 1, "float32")
    )
    exponent = _op.divide(steps, relax.const(half - downscale_freq_shift, "float32"))
    times = _op.expand_dims(_op.astype(x._expr, "float32"), 1)
    angles = _op.multiply(times, _op.expand_dims(_op.exp(exponent), 0))
    if scale != 1:
        angles = _op.multiply(relax.const(scale, "float32"), angles)
    angles = _shared(angles)
    parts = [_op.sin(angles), _op.cos(angles)]
    embedding = _op.concat(parts[::-1] if flip_sin_to_cos else parts, axis=-1)
    if embedding_dim % 2 == 1:
        embedding = _op.nn.pad(embedding, (0, 0, 0, 1))
    return wrap_nested(_op.astype(embedding, get_default_dtype()), name)


def _shared(expr: Expr) -> Any:
    """An expression that is used twice: bound once."""
    builder = BlockBuilder.current()
    return expr if builder is None else builder.emit(expr)


def interpolate(
    x: Tensor, size: Sequence[int] | None = None, scale_factor: Sequence[int] | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool | None = None,
    data_layout: str = "NCHW", name: str = "interpolate",
) -> Tensor:  # fmt: skip
    """An image of another size, given or by its factors (one for both axes, or one each).

    mode: nearest, bilinear or bicubic. Raises NotImplementedError for recompute_scale_factor and
    antialias.
    """
    for key, value in (
        ("recompute_scale_factor", recompute_scale_factor),
        ("antialias", antialias),
    ):
        if value is not None:
            raise NotImplementedError(explain(f"interpolate has no {key}", got=value))
    if size is None:
        extents = [x.shape[k] for k, letter in enumerate(data_layout) if letter not in "NC"]
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * 2
        size = [int(d * f) for d, f in zip(extents, factors, strict=True)]
    method = "nearest_neighbor" if mode.startswith("nearest") else mode.removeprefix("bi")
    coordinates = "align_corners" if align_corners else "half_pixel"
    options: dict[str, Any] = {
        "layout": data_layout,
        "method": method,
        "coordinate_transformation_mode": "asymmetric" if "nearest" in method else coordinates,
    }
    return wrap_nested(_op.image.resize2d(x._expr, size, **options), name)


add_examples(
    globals(),
    't = nn.Tensor.placeholder; x = t([2, 4], "float32")',
    """
    op.conv1d(t([1, 4, 8], "float32"), t([6, 4, 3], "float32"), padding=1)  # Tensor([1, 6, 8], "float32")
    op.conv1d_transpose(t([1, 4, 8], "float32"), t([4, 6, 3], "float32"))  # Tensor([1, 6, 10], "float32")
    op.conv2d(t([1, 4, 8, 8], "float32"), t([6, 4, 3, 3], "float32"), stride=2, padding=1)  # Tensor([1, 6, 4, 4], "float32")
    op.conv3d(t([1, 4, 5, 5, 5], "float32"), t([6, 4, 3, 3, 3], "float32"))  # Tensor([1, 6, 3, 3, 3], "float32")
    op.group_norm(t([1, 4, 8, 8], "float32"), 2, t([4], "float32"), t([4], "float32"))  # Tensor([1, 4, 8, 8], "float32")
    op.interpolate(t([1, 4, 8, 8], "float32"), scale_factor=[2, 2], mode="bilinear")  # Tensor([1, 4, 16, 16], "float32")
    op.layer_norm(x, 4, t([4], "float32"), t([4], "float32"))  # Tensor([2, 4], "float32")
    op.rms_norm(x, t([4], "float32"), axes=-1)  # Tensor([2, 4], "float32")
    """,
)
