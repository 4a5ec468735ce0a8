"""Quantized numbers: q stands for (q - zero_point) * scale."""

from __future__ import annotations

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, max_value, min_value
from ..relax.struct_info import TensorStructInfo
from .common import compute, normalize_axis
from .core import case, op
from .extents import dims_equal
from .params import Axis, DType, Tensor

_SHORT = ("int8", "uint8", "int16", "uint16", "float8_e4m3fn", "float8_e5m2")


def _of_channel(param, i, axis):
    """A scale or zero point: one for all, or one for each index of the axis."""
    if not isinstance(param, te.Tensor):
        return param
    if not param.shape:
        return param()
    one = isinstance(param.shape[0], IntImm) and param.shape[0].value == 1
    return param(const(0, "int64") if one else i[axis])


def _check(data, scale, zero_point, axis, known, made, out):
    """Raise TypeError or ValueError where dtypes or extents are not those of quantized numbers."""
    for what, dtype, allowed in (
        ("out_dtype", DataType(out), made),
        ("data", data.dtype, known),
        ("scale", scale.dtype, ("float32", "float16")),
        ("zero_point", zero_point.dtype, ("int8", "uint8", "int16", "uint16", "int32", "float16")),
    ):
        if not dtype.is_void and str(dtype) not in allowed:
            hint = f"one of {', '.join(allowed)}"
            raise TypeError(explain(f"{what} of this dtype", got=str(dtype), instead=hint))
    if data.ndim == -1:
        return
    which = normalize_axis(axis, data.ndim) if data.ndim else 0
    shape = data.get_shape()
    for name, param in (("scale", scale), ("zero_point", zero_point)):
        if param.ndim not in (-1, 0, 1):
            raise ValueError(explain(f"{name} must be a scalar or a vector", got=str(param)))
        dims = param.get_shape()
        if param.ndim != 1 or dims is None or shape is None:
            continue
        one = isinstance(dims[0], IntImm) and dims[0].value == 1
        if not one and not dims_equal(dims[0], shape[which]):
            what = f"{name} must have one number for each index of axis {axis}"
            raise ValueError(explain(what, got=f"{dims[0]} for {shape[which]}"))


@op("relax.quantize")
def quantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: Axis = -1, out_dtype: DType = "int8"
):
    """round(data / scale) + zero_point, limited to the numbers of `out_dtype`. scale and
    zero_point: scalars, or vectors with one number for each index of `axis`."""
    which = normalize_axis(axis, len(data.shape)) if data.shape else 0
    kind = DataType(out_dtype)

    def cell(*i):
        step, zero = (_of_channel(p, i, which) for p in (scale, zero_point))
        value = cast("float32", data(*i)) / cast("float32", step)
        if not kind.is_float:
            value = tir.round(value)
        value = value + cast("float32", zero)
        low, high = (cast("float32", bound(kind)) for bound in (min_value, max_value))
        return cast(kind, tir.max(tir.min(value, high), low))

    return compute(data.shape, cell, "quantized", axes="i", tag="elemwise")


@quantize.infer
def _(data, scale, zero_point, axis=-1, out_dtype="int8"):
    _check(data, scale, zero_point, axis, ("float32", "float16"), _SHORT, out_dtype)
    return TensorStructInfo(data.shape, out_dtype, ndim=data.ndim)


def _along(param, data, axis):
    shape = [1] * data.ndim
    shape[axis] = -1
    return param if param.ndim == 0 else param.reshape(shape)


@quantize.numpy
def _(data, scale, zero_point, axis=-1, out_dtype="int8"):
    step, zero = (_along(p, data, axis).astype(np.float32) for p in (scale, zero_point))
    value = data.astype(np.float32) / step
    kind = numpy_dtype(out_dtype)
    if DataType(out_dtype).is_float:
        low, high = (bound(DataType(out_dtype)).value for bound in (min_value, max_value))
        return np.clip(value + zero, low, high).astype(kind)
    bounds = np.iinfo(kind)
    return np.clip(np.rint(value) + zero, bounds.min, bounds.max).astype(kind)


@op("relax.dequantize")
def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: Axis = -1, out_dtype: DType = "float32"
):
    """(data - zero_point) * scale in `out_dtype`. scale and zero_point: scalars, or vectors with
    one number for each index of `axis`."""
    which = normalize_axis(axis, len(data.shape)) if data.shape else 0
    wide = "float32" if data.dtype.is_float or zero_point.dtype.is_float else "int32"

    def cell(*i):
        step, zero = (_of_channel(p, i, which) for p in (scale, zero_point))
        gap = cast("float32", cast(wide, data(*i)) - cast(wide, zero))
        return cast(out_dtype, gap * cast("float32", step))

    return compute(data.shape, cell, "dequantized", axes="i", tag="elemwise")


@dequantize.infer
def _(data, scale, zero_point, axis=-1, out_dtype="float32"):
    known = (*_SHORT, "int32", "float16", "float32")
    _check(data, scale, zero_point, axis, known, ("float16", "float32"), out_dtype)
    return TensorStructInfo(data.shape, out_dtype, ndim=data.ndim)


@dequantize.numpy
def _(data, scale, zero_point, axis=-1, out_dtype="float32"):
    step, zero = (_along(p, data, axis) for p in (scale, zero_point))
    wide = np.float32 if "f" in (data.dtype.kind, zero.dtype.kind) else np.int32
    gap = (data.astype(wide) - zero.astype(wide)).astype(np.float32)
    return (gap * step.astype(np.float32)).astype(numpy_dtype(out_dtype))


_SCALES, _ZEROS = np.array([0.5, 0.25, 0.1], np.float32), np.array([3, 0, -2], np.int8)
quantize.samples(
    case((2, 3, 4), _SCALES, _ZEROS, axis=1),
    case(("n", 5), np.float32(0.125), np.int8(-7), out_dtype="uint8"),
    case((2, 3), _SCALES, _ZEROS, low=-999.0, high=999.0),
)
dequantize.samples(
    case(np.array([[1, -128, 127], [0, 5, -2]], np.int8), _SCALES, _ZEROS),
    case(np.array([[7], [200]], np.uint8), np.float32(0.5), np.int8(3), out_dtype="float16"),
)
