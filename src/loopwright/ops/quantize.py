"""Quantized numbers: q represents (q - zero_point) * scale."""

from __future__ import annotations

from functools import partial

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.literals import is_zero
from ..ir.prim_expr import IntImm
from ..ir.prim_op import cast, const, max_value, min_value
from ..relax.layout import LayoutPlan
from ..relax.struct_info import TensorStructInfo
from .common import compute, element, like, normalize_axis, reduce_over, shape_of
from .core import case, op
from .extents import differ, dims_equal, extents_of, simplify
from .layout_rules import along
from .params import Axis, DType, Tensor

_BYTES = ("int8", "uint8")
_SHORT = ("int8", "uint8", "int16", "uint16", "float8_e4m3fn", "float8_e5m2")


def _of_channel(param, i, axis):
    """A scale or zero point: one for all, or one for each index of the axis."""
    if not isinstance(param, te.Tensor):
        return param
    if not param.shape:
        return param()
    one = isinstance(param.shape[0], IntImm) and param.shape[0].value == 1
    return param(const(0, "int64") if one else i[axis])


def _check(data, scale, zero_point, axis, inputs, outputs, out):
    """Raise TypeError or ValueError where dtypes or extents are not those of quantized numbers."""
    for what, dtype, allowed in (
        ("out_dtype", DataType(out), outputs),
        ("data", data.dtype, inputs),
        ("scale", scale.dtype, ("float32", "float16")),
        ("zero_point", zero_point.dtype, ("int8", "uint8", "int16", "uint16", "int32", "float16")),
    ):
        if not dtype.is_void and str(dtype) not in allowed:
            hint = f"one of {', '.join(allowed)}"
            raise TypeError(explain(f"{what} of this dtype", got=str(dtype), instead=hint))
    _check_of_channels(data, axis, scale=scale, zero_point=zero_point)


def _check_of_channels(data, axis, **params):
    """Raise ValueError where there is not one parameter, or one for each index of the axis."""
    if data.ndim == -1:
        return
    which = normalize_axis(axis, data.ndim) if data.ndim else 0
    shape = data.get_shape()
    for name, param in params.items():
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
    which = normalize_axis(axis, len(shape_of(data))) if shape_of(data) else 0
    kind = DataType(out_dtype)

    def cell(*i):
        step, zero = (_of_channel(p, i, which) for p in (scale, zero_point))
        value = cast("float32", element(data, i)) / cast("float32", step)
        if not kind.is_float:
            value = tir.round(value)
        value = value + cast("float32", zero)
        low, high = (cast("float32", bound(kind)) for bound in (min_value, max_value))
        return cast(kind, tir.max(tir.min(value, high), low))

    return compute(shape_of(data), cell, "quantized", axes="i", tag="elemwise")


@quantize.infer
def _(data, scale, zero_point, axis=-1, out_dtype="int8"):
    _check(data, scale, zero_point, axis, ("float32", "float16"), _SHORT, out_dtype)
    return like(data, out_dtype)


def _along(param, data, axis):
    if param.ndim == 0:
        return param
    shape = [1] * data.ndim
    shape[axis] = -1
    return param.reshape(shape)


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


@op("relax.quantize_range")
def quantize_range(data: Tensor):
    """The range of the data to quantize: the greatest of -data, and of data. The last axis is reduced
    second, so that the others are reduced in vectors along it."""
    shape = shape_of(data)

    def cell(*i):
        k, value = i[0], element(data, i[1:])
        return tir.Select(k.equal(const(0, k.dtype)), -value, value)

    ends = compute([const(2, "int64"), *shape], cell, "signed", tag="injective")
    for axes in ([*range(1, len(shape))], [1]) if len(shape) > 1 else ([1],) * len(shape):
        ends = reduce_over(ends, axes, False, lambda i, k, x=ends: te.max(x(*i), axis=k), "most")
    return ends


@op("relax.quantize_scale")
def quantize_scale(ends: Tensor):
    """The scale with which uint8 represents zero and the range between the ends of `quantize_range`; 1 where
    that is zero alone, for which any would do."""
    apart = tir.max(ends(1), 0.0) + tir.max(ends(0), 0.0)
    scale = tir.Select(apart.equal(0.0), const(1.0, ends.dtype), apart / 255.0)
    return compute([], lambda: scale, "scale", tag="elemwise")


@op("relax.quantize_zero_point")
def quantize_zero_point(ends: Tensor, scale: Tensor):
    """The number in uint8 that represents zero, where 0 represents the lower end or zero."""
    steps = tir.max(ends(0), 0.0) / element(scale, ())
    zero = cast("uint8", tir.round(tir.min(steps, 255.0)))
    return compute([], lambda: zero, "zero_point", tag="elemwise")


def _number(dtype, ends, *scale):
    """A number of `dtype` made of the ends of a range, and of a scale."""
    for info, rank in zip((ends, *scale), (1, 0), strict=False):
        if not info.dtype.is_void and info.dtype != "float32":
            raise TypeError(explain("a range of this dtype", got=str(info), instead="float32"))
        dims = info.get_shape() or ()
        if info.ndim not in (-1, rank) or any(differ(d, const(2, "int64")) for d in dims):
            raise ValueError(explain("a range has two ends, a scale is one number", got=str(info)))
    return TensorStructInfo([], dtype)


@quantize_range.infer
def _(data):
    if not data.dtype.is_void and not data.dtype.is_float:
        raise TypeError(explain("a range of this dtype", got=str(data), instead="a float"))
    return TensorStructInfo([2], data.dtype)


quantize_scale.infer(partial(_number, "float32"))
quantize_zero_point.infer(partial(_number, "uint8"))


@quantize_range.numpy
def _(data):
    return np.array([x.max(initial=-np.inf) for x in (-data, data)], data.dtype)


@quantize_scale.numpy
def _(ends):
    apart = np.maximum(ends, np.float32(0)).sum(dtype=np.float32)
    return np.where(apart == 0, np.float32(1), apart / np.float32(255))


@quantize_zero_point.numpy
def _(ends, scale):
    steps = np.maximum(ends[0], np.float32(0)) / scale
    return np.rint(np.minimum(steps, 255)).astype(np.uint8)


@op("relax.dequantize")
def dequantize(
    data: Tensor, scale: Tensor, zero_point: Tensor, axis: Axis = -1, out_dtype: DType = "float32"
):
    """(data - zero_point) * scale in `out_dtype`. scale and zero_point: scalars, or vectors with
    one number for each index of `axis`."""
    which = normalize_axis(axis, len(shape_of(data))) if shape_of(data) else 0
    wide = "float32" if data.dtype.is_float or zero_point.dtype.is_float else "int32"

    def cell(*i):
        step, zero = (_of_channel(p, i, which) for p in (scale, zero_point))
        gap = cast("float32", cast(wide, element(data, i)) - cast(wide, zero))
        return cast(out_dtype, gap * cast("float32", step))

    return compute(shape_of(data), cell, "dequantized", axes="i", tag="elemwise")


@dequantize.infer
def _(data, scale, zero_point, axis=-1, out_dtype="float32"):
    inputs = (*_SHORT, "int32", "float16", "float32")
    _check(data, scale, zero_point, axis, inputs, ("float16", "float32"), out_dtype)
    return like(data, out_dtype)


@dequantize.numpy
def _(data, scale, zero_point, axis=-1, out_dtype="float32"):
    step, zero = (_along(p, data, axis) for p in (scale, zero_point))
    wide = np.float32 if "f" in (data.dtype.kind, zero.dtype.kind) else np.int32
    gap = (data.astype(wide) - zero.astype(wide)).astype(np.float32)
    return (gap * step.astype(np.float32)).astype(numpy_dtype(out_dtype))


@op("relax.requantize")
def requantize(
    data: Tensor, multiplier: Tensor, shift: Tensor, axis: Axis = -1, zero_point: int = 0,
    low: int = -(2**31), high: int = 2**31 - 1, out_dtype: DType = "int32", once: bool = False,
):  # fmt: skip
    """data (int32) * multiplier / 2**31 * 2**shift + zero_point, within [low, high], in `out_dtype`. It is
    rounded as TFLite does: the product to the nearest, then the shift to the right away from zero; `once`: both
    in one, to the nearest. int64 data are scaled by the upper 16 bits of the multiplier and rounded once.
    multiplier and shift (int32): scalars, or vectors with one number for each index of `axis`."""
    which = normalize_axis(axis, len(shape_of(data))) if shape_of(data) else 0
    long = lambda v: cast("int64", v)  # noqa: E731
    none, one = long(0), long(1)

    def scaled(value, factor, by):
        if data.dtype == "int64":
            # Rounded up, the greatest multipliers would be 2**15, which 16 bits do not hold.
            upper = (factor + (1 << 15)) >> 16
            upper = tir.Select(factor < 0x7FFF0000, upper, long(0x7FFF))
            return (value * upper + (one << (14 - by))) >> (15 - by)
        if once:
            return (value * factor + (one << (30 - by))) >> (31 - by)
        product = ((value << tir.max(by, none)) * factor + (1 << 30)) >> 31
        right = tir.max(none - by, none)
        half = (one << right) >> 1
        below = tir.Select(tir.all(product < 0, right > 0), one, none)
        return (product + half - below) >> right

    def cell(*i):
        factor, by = (long(_of_channel(p, i, which)) for p in (multiplier, shift))
        value = scaled(long(element(data, i)), factor, by) + zero_point
        return cast(out_dtype, tir.max(tir.min(value, long(high)), long(low)))

    return compute(shape_of(data), cell, "requantized", axes="i", tag="elemwise")


@requantize.infer
def _(data, multiplier, shift, axis=-1, *, out_dtype="int32", **_):
    wide = ("int32", "int64")
    for what, dtype, allowed in (
        ("data", data.dtype, wide),
        ("multiplier", multiplier.dtype, wide[:1]),
        ("shift", shift.dtype, wide[:1]),
        ("out_dtype", DataType(out_dtype), ("int8", "uint8", "int16", "int32")),
    ):
        if not dtype.is_void and str(dtype) not in allowed:
            hint = f"one of {', '.join(allowed)}"
            raise TypeError(explain(f"{what} of this dtype", got=str(dtype), instead=hint))
    _check_of_channels(data, axis, multiplier=multiplier, shift=shift)
    return like(data, out_dtype)


@requantize.numpy
def _(
    data, multiplier, shift, axis=-1, zero_point=0, low=-(2**31), high=2**31 - 1, out_dtype="int32",
    once=False,
):  # fmt: skip
    factor, by = (_along(p, data, axis).astype(np.int64) for p in (multiplier, shift))
    value = data.astype(np.int64)
    if data.dtype == np.int64:
        upper = np.where(factor < 0x7FFF0000, (factor + (1 << 15)) >> 16, 0x7FFF)
        value = (value * upper + (1 << (14 - by))) >> (15 - by)
    elif once:
        value = (value * factor + (np.int64(1) << (30 - by))) >> (31 - by)
    else:
        product = ((value << np.maximum(by, 0)) * factor + (1 << 30)) >> 31
        right = np.maximum(-by, 0)
        value = (product + ((1 << right) >> 1) - ((product < 0) & (right > 0))) >> right
    return np.clip(value + zero_point, low, high).astype(numpy_dtype(out_dtype))


@op("relax.byte_lookup")
def byte_lookup(data: Tensor, table: Tensor):
    """table[q - least] for each byte q of data (int8 or uint8), of which `least` is the least: a function of
    a quantized number. table: 256 elements of any dtype."""
    (_,) = extents_of(table, "table", 256)
    least = min_value(str(data.dtype)).value

    def cell(*i):
        return table(cast("int64", element(data, i)) - least)

    return compute(shape_of(data), cell, "looked_up", axes="i", tag="injective")


@byte_lookup.infer
def _(data, table):
    if not data.dtype.is_void and str(data.dtype) not in _BYTES:
        what = "relax.byte_lookup: data of this dtype"
        raise TypeError(explain(what, got=str(data.dtype), instead=f"one of {', '.join(_BYTES)}"))
    if table.ndim not in (-1, 1) or any(differ(d, 256) for d in table.get_shape() or ()):
        raise ValueError(explain("the table must have 256 elements", got=str(table)))
    return like(data, table.dtype)


def _layout(call, query):
    """In blocks, if there is one scale and one zero point."""
    if not query.block:
        return along("axis")(call, query)
    layout, *others = query.inputs
    if layout is None or any(arg.struct_info.ndim for arg in call.args[1:]):
        return None
    return LayoutPlan((layout, *others), (layout,), pixels="any")


def _range_layout(call, query):
    """In blocks, where the last one is whole."""
    layout, shape = query.inputs[0], call.args[0].struct_info.get_shape()
    whole = not query.block or is_zero(simplify(shape[1] % query.block))
    return LayoutPlan((layout,), (None,)) if layout is not None and whole else None


quantize_range.layout(_range_layout)
for _operator in (quantize, dequantize, requantize):
    _operator.layout(_layout)
byte_lookup.numpy(lambda data, table: table[data.astype(np.int64) - np.iinfo(data.dtype).min])
byte_lookup.layout(along())

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
quantize_range.samples(case((2, 3, 4)), case(("n", 5)), case((7,)), case(()))
_RANGES = [np.array(r, np.float32) for r in ((3, 5), (-1, 2), (7, -1), (0, 0))]
quantize_scale.samples(*map(case, _RANGES))
quantize_zero_point.samples(*(case(r, np.float32(0.027)) for r in _RANGES))
_ACCUMULATED = np.array([[7, -(2**31), 2**31 - 1], [-3, -1, 100000]], np.int32)
requantize.samples(
    case(_ACCUMULATED, np.array([1 << 30, 1518500250, 2**31 - 1], np.int32), np.array([0, -3, 1], np.int32)),
    case(_ACCUMULATED.astype(np.int64) * 3, np.int32(1518500250), np.int32(-5), zero_point=3),
    case(("n", 3), np.int32(1 << 30), np.int32(-2), dtype="int32", low=-128, high=127, out_dtype="int8"),
    case(np.int32(-1001), np.int32(1 << 30), np.int32(-2)),
    case(_ACCUMULATED, np.int32(1 << 30), np.array([0, -3, -9], np.int32), once=True),
    case(np.array([-17843, -4425], np.int32), np.array([2064272503, 1428511794], np.int32), np.array([-9, -8], np.int32), once=True),
)  # fmt: skip
byte_lookup.samples(
    case(np.array([[-128, 127], [0, 5]], np.int8), np.arange(256, dtype=np.float32)),
    case(np.array([7, 255], np.uint8), np.arange(256).astype(np.int8)),
)
