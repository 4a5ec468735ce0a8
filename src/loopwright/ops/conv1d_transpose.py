"""Transposed 1-D convolution, as a 2-D convolution of height 1."""

from __future__ import annotations

import numpy as np

from ..base.errors import explain
from ..ir.op import Op
from ..ir.prim_op import const
from ..relax.struct_info import TensorStructInfo
from .common import compute, void_or
from .conv import conv2d_transpose, expand_padding, expand_per_axis
from .core import case, op
from .params import DType, Ints, Tensor


def _flat(attrs):
    """The attributes of the 2-D operator, which leave the height unchanged."""
    before, after = expand_padding(attrs["padding"], 1)
    return {
        "strides": [1, *attrs["strides"]],
        "padding": [0, *before, 0, *after],
        "output_padding": [0, *attrs["output_padding"]],
        "dilation": [1, *attrs["dilation"]],
        "groups": attrs["groups"],
        "data_layout": "NCHW",
        "kernel_layout": "IOHW",
        "out_layout": "NCHW",
        "out_dtype": attrs["out_dtype"],
    }


def _with_height(x, name):
    shape = [x.shape[0], x.shape[1], const(1, "int64"), x.shape[2]]
    return compute(shape, lambda n, c, _, w: x(n, c, w), name, tag="injective")


@op("relax.nn.conv1d_transpose", mixed="always")
def conv1d_transpose(
    data: Tensor,
    weight: Tensor,
    strides: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str | None = None,
    out_dtype: DType | None = None,
):
    """The gradient of conv1d with respect to its data. Layouts NCW and IOW."""
    attrs = {
        "strides": strides,
        "padding": padding,
        "output_padding": output_padding,
        "dilation": dilation,
        "groups": groups,
        "out_dtype": out_dtype,
    }
    wide = conv2d_transpose(
        _with_height(data, "T_data"), _with_height(weight, "T_weight"), **_flat(attrs)
    )
    shape = [wide.shape[0], wide.shape[1], wide.shape[3]]
    zero = const(0, "int64")
    return compute(shape, lambda n, c, w: wide(n, c, zero, w), "T_squeeze", tag="injective")


@conv1d_transpose.build
def _(**values):
    listed = lambda v: list(v) if isinstance(v, (list, tuple)) else [v]  # noqa: E731
    before, after = expand_padding(listed(values["padding"]), 1)
    values["padding"] = [*before, *after]
    for name in ("strides", "output_padding", "dilation"):
        values[name] = expand_per_axis(listed(values[name]), 1, name)
    values["out_layout"] = values["out_layout"] or values["data_layout"]
    layouts = (values["data_layout"], values["kernel_layout"], values["out_layout"])
    if layouts != ("NCW", "IOW", "NCW"):
        what = "relax.nn.conv1d_transpose takes the layouts NCW and IOW"
        raise ValueError(explain(what, got=layouts, instead="permute_dims around it"))
    return values


@conv1d_transpose.infer
def _(data: TensorStructInfo, weight: TensorStructInfo, **attrs):
    dtype = void_or(attrs["out_dtype"], data.dtype)
    shape, kernel = data.get_shape(), weight.get_shape()
    if shape is None or kernel is None:
        return TensorStructInfo(dtype=dtype, ndim=3)
    if len(shape) != 3 or len(kernel) != 3:
        raise ValueError(explain("takes tensors of rank 3", got=f"{len(shape)} and {len(kernel)}"))
    wide = conv2d_transpose.hooks["infer"](
        TensorStructInfo([*shape[:2], 1, shape[2]], data.dtype),
        TensorStructInfo([*kernel[:2], 1, kernel[2]], weight.dtype),
        **_flat(attrs),
    )
    dims = wide.get_shape()
    return TensorStructInfo([dims[0], dims[1], dims[3]], dtype)


@conv1d_transpose.numpy
def _(data, weight, **attrs):
    wide = Op.get("relax.nn.conv2d_transpose").get_attr("FNumpy")
    out = wide(data[:, :, None], weight[:, :, None], **_flat(attrs))
    return np.ascontiguousarray(out[:, :, 0])


conv1d_transpose.samples(
    case((1, 3, 7), (3, 4, 3), strides=[2], padding=[1], output_padding=[1]),
    case((2, 4, "n"), (4, 2, 2), strides=[2], groups=2),
    case((1, 2, 5), (2, 3, 3), dilation=[2], padding=[1, 2]),
)
