"""Tensor expressions of the operators of neural networks: `topi.nn.softmax(x)`."""

from __future__ import annotations

from typing import Any

from .. import te
from ..base.late import public_names as _public_names
from ..ops import OPERATORS
from ..ops.linear import matmul as _matmul
from ..ops.manipulate import transpose as _transpose
from .conv import conv as conv
from .conv import conv1d as conv1d
from .conv import conv1d_ncw as conv1d_ncw
from .conv import conv1d_nwc as conv1d_nwc
from .conv import conv1d_transpose_ncw as conv1d_transpose_ncw
from .conv import conv2d as conv2d
from .conv import conv2d_hwcn as conv2d_hwcn
from .conv import conv2d_nchw as conv2d_nchw
from .conv import conv2d_NCHWc as conv2d_NCHWc
from .conv import conv2d_nhwc as conv2d_nhwc
from .conv import conv2d_transpose_nchw as conv2d_transpose_nchw
from .conv import conv3d_ncdhw as conv3d_ncdhw
from .conv import conv3d_ndhwc as conv3d_ndhwc
from .conv import conv3d_transpose_ncdhw as conv3d_transpose_ncdhw
from .conv import depthwise_conv2d_backward_input_nhwc as depthwise_conv2d_backward_input_nhwc
from .conv import depthwise_conv2d_backward_weight_nhwc as depthwise_conv2d_backward_weight_nhwc
from .conv import depthwise_conv2d_nchw as depthwise_conv2d_nchw
from .conv import depthwise_conv2d_NCHWc as depthwise_conv2d_NCHWc
from .conv import depthwise_conv2d_nhwc as depthwise_conv2d_nhwc
from .conv import dilate as dilate
from .conv import group_conv1d_ncw as group_conv1d_ncw
from .conv import group_conv1d_nwc as group_conv1d_nwc
from .conv import group_conv1d_transpose_ncw as group_conv1d_transpose_ncw
from .conv import group_conv2d_nchw as group_conv2d_nchw
from .conv import group_conv2d_nhwc as group_conv2d_nhwc
from .conv import group_conv2d_transpose_nchw as group_conv2d_transpose_nchw
from .conv import group_conv3d_transpose_ncdhw as group_conv3d_transpose_ncdhw
from .conv import unpack_NCHWc_to_nchw as unpack_NCHWc_to_nchw
from .fast import fast_softmax as fast_softmax
from .padding import get_pad_tuple as get_pad_tuple
from .padding import get_pad_tuple1d as get_pad_tuple1d
from .padding import get_pad_tuple3d as get_pad_tuple3d
from .padding import get_pad_tuple_generic as get_pad_tuple_generic
from .padding import infer_pad as infer_pad
from .padding import infer_pad3d as infer_pad3d
from .padding import infer_stride as infer_stride
from .pooling import adaptive_pool as adaptive_pool
from .pooling import adaptive_pool1d as adaptive_pool1d
from .pooling import adaptive_pool3d as adaptive_pool3d
from .pooling import global_pool as global_pool
from .pooling import pool1d as pool1d
from .pooling import pool2d as pool2d
from .pooling import pool3d as pool3d
from .pooling import pool_grad as pool_grad
from .utils import get_const_int

_PREFIX = "relax.nn."
for _operator in OPERATORS.values():
    if _operator.name.startswith(_PREFIX):
        globals().setdefault(_operator.te_name, _operator)
        globals().setdefault(_operator.name.removeprefix(_PREFIX), _operator)


def dense(
    data: te.Tensor, weight: te.Tensor, bias: te.Tensor | None = None, out_dtype: Any = None
) -> te.Tensor:
    """data @ weight transposed, plus `bias`."""
    product = _matmul(data, _transpose(weight), out_dtype)
    return product if bias is None else OPERATORS["relax.add"](product, bias)


def matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    bias: te.Tensor | None = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> te.Tensor:
    """The product of matrices, each optionally transposed, plus `bias`."""
    a, b = (
        _transpose(t) if turned else t
        for t, turned in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    product = _matmul(a, b, out_dtype)
    return product if bias is None else OPERATORS["relax.add"](product, bias)


def batch_matmul(
    tensor_a: te.Tensor,
    tensor_b: te.Tensor,
    oshape: Any = None,
    out_dtype: Any = None,
    transpose_a: bool = False,
    transpose_b: bool = True,
) -> te.Tensor:
    """Products of matrices, one per batch element. `oshape` is ignored: it is inferred."""
    a, b = (
        _transpose(t, [0, 2, 1]) if turned else t
        for t, turned in ((tensor_a, transpose_a), (tensor_b, transpose_b))
    )
    return _matmul(a, b, out_dtype)


def flatten(data: te.Tensor) -> te.Tensor:
    """A matrix: the first dimension, and all others fused."""
    size = te.const(1, "int32")
    for extent in data.shape[1:]:
        size = size * extent
    return OPERATORS["relax.reshape"](data, [data.shape[0], size])


def batch_norm(
    data: te.Tensor,
    gamma: te.Tensor,
    beta: te.Tensor,
    moving_mean: te.Tensor,
    moving_var: te.Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[te.Tensor]:
    """[normalized, moving mean, moving variance] of each channel of `axis` (None: 1); see the graph's
    operator. Not in training unless asked for."""
    given = {"epsilon": epsilon, "center": center, "scale": scale, "momentum": momentum}
    options = {name: value for name, value in given.items() if value is not None}
    which = 1 if axis is None else axis
    norm = OPERATORS["relax.nn.batch_norm"]
    tensors = (data, gamma, beta, moving_mean, moving_var)
    return norm(*tensors, which, training=bool(training), **options)


def scale_shift_nchw(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Each channel times its scale plus its shift."""
    return te.compute(
        Input.shape, lambda b, c, i, j: Input[b, c, i, j] * Scale[c] + Shift[c], name="ScaleShift"
    )


def scale_shift_nhwc(Input: te.Tensor, Scale: te.Tensor, Shift: te.Tensor) -> te.Tensor:
    """Each channel times its scale plus its shift."""
    return te.compute(
        Input.shape, lambda b, i, j, c: Input[b, i, j, c] * Scale[c] + Shift[c], name="ScaleShift"
    )


def pad(
    data: te.Tensor, pad_before: Any, pad_after: Any = None, pad_value: float = 0.0
) -> te.Tensor:
    """Padding with `pad_value`: the numbers of elements before and after each dimension."""
    after = pad_before if pad_after is None else pad_after
    widths = [get_const_int(w) for pair in zip(pad_before, after, strict=True) for w in pair]
    return OPERATORS["relax.nn.pad"](data, widths, "constant", pad_value)


__dir__ = _public_names(__name__)
