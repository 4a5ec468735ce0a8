"""Quantized numbers: q represents (q - zero_point) * scale."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.prim_op import max_value, min_value
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.operators.windows import spatial_rank
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from ..tensors import dtype_of
from .elementwise import saturated
from .nn import conv


def _along(cx: Context, v: Value, x: Value, axis: int, block: int = 0) -> Any:
    """A scale or zero point as it broadcasts against x: one number, a vector along `axis`, or one
    for each `block` elements of it."""
    one = v.ndim == 1 and literal(v.shape[0]) == 1
    if v.ndim == 0 or (one and not (x.ndim == 1 and axis in (0, -1))):
        return _scalar(cx, v)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(explain("attribute axis is out of range", got=f"{axis} for rank {x.ndim}"))
    which = axis % x.ndim
    if v.ndim == 1:
        return op.reshape(
            v.expr, ShapeExpr([1] * which + [v.shape[0]] + [1] * (x.ndim - which - 1))
        )
    if block <= 0 or v.ndim != x.ndim:
        what = "scale and zero point must be one number, a vector, or blocks"
        raise ValueError(explain(what, got=str(v.info)))
    repeated = cx.value(op.repeat(v.expr, block, which))
    if cx.equal(repeated.shape[which], x.shape[which]):
        return repeated.expr
    return op.strided_slice(repeated.expr, [which], [0], [x.shape[which]])


def _scalar(cx: Context, v: Value) -> Any:
    """The one element of a scale or zero point."""
    if v.ndim == 0:
        return v.expr
    constant = v.constant
    return (
        op.reshape(v.expr, ShapeExpr([]))
        if constant is None
        else cx.scalar(constant[0], str(v.dtype))
    )


@converter("QuantizeLinear", 10)
@converter("QuantizeLinear", 1, "com.microsoft")
def quantize_linear(
    cx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Any:
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    number = node.integer("output_dtype", 0)
    node.skip("precision")
    if not node.integer("saturate", 1):
        raise ValueError(explain("attribute saturate must be 1", got=0))
    dtype = str(zero.dtype) if zero is not None else (dtype_of(number) if number else "uint8")
    return _quantize(cx, x, scale, zero, dtype, axis, block)


def _quantize(
    cx: Context, x: Value, scale: Value, zero: Value | None, dtype: str, axis: int, block: int
) -> Any:
    if x.dtype != scale.dtype and x.dtype.is_integer:
        x = cx.value(op.astype(x.expr, str(scale.dtype)))
    if dtype in _SHORT and str(x.dtype) == "float32":
        params = _plain(cx, x, scale, zero, axis, dtype)
        if params is not None:
            return op.quantize(x.expr, *params, dtype)
    scaled = op.divide(x.expr, _along(cx, scale, x, axis, block))
    if dtype.startswith("float"):
        return saturated(scaled, dtype)
    rounded = op.round(scaled)
    if zero is not None:
        rounded = op.add(rounded, op.astype(_along(cx, zero, x, axis, block), str(x.dtype)))
    low, high = float(min_value(dtype).value), float(max_value(dtype).value)
    return op.astype(op.clip(rounded, low, high), dtype)


@converter("DequantizeLinear", 10)
@converter("DequantizeLinear", 1, "com.microsoft")
def dequantize_linear(
    cx: Context, node: Node, x: Value, scale: Value, zero: Value | None = None
) -> Any:
    axis, block = node.integer("axis", 1), node.integer("block_size", 0)
    number = node.integer("output_dtype", 0)
    dtype = dtype_of(number) if number else str(scale.dtype)
    out = _dequantize(cx, x, scale, zero, axis, block)
    if block and dtype == scale.dtype:
        out = cx.emit(out)
        cx.dequantized[out] = x, scale, zero, axis, block
    return out if dtype == scale.dtype else op.astype(cx.emit(out), dtype)


def _dequantize(
    cx: Context, x: Value, scale: Value, zero: Value | None, axis: int, block: int
) -> Any:
    kind = str(scale.dtype)
    if str(x.dtype) in _BYTES:
        params = _plain(cx, x, scale, zero, axis, str(x.dtype))
        if params is not None:
            return op.dequantize(x.expr, *params, kind)
    out = _centered(cx, x, zero, axis, kind, block)
    return op.multiply(out, _along(cx, scale, x, axis, block))


@converter("DynamicQuantizeLinear", 11)
def dynamic_quantize_linear(cx: Context, node: Node, x: Value) -> Any:
    params = cx.emit(op.quantize_range(x.expr))
    scale = cx.value(op.quantize_scale(params))
    zero = cx.value(op.quantize_zero_point(params, scale.expr))
    return [cx.onnx.QuantizeLinear(x, scale, zero), scale, zero]


_SHORT = ("int8", "uint8", "int16", "uint16")
_BYTES = ("int8", "uint8", "int32")


def _plain(
    cx: Context, x: Value, scale: Value, zero: Value | None, axis: int, dtype: str
) -> tuple[Any, Any, int] | None:
    """Scale, zero point and axis as `relax.quantize` takes them: one number for all, or one for each
    index of the axis."""
    params = [v for v in (scale, zero) if v is not None]
    if str(scale.dtype) != "float32":
        return None
    if all([literal(d) for d in v.shape] in ([], [1]) for v in params):
        parts = [_scalar(cx, v) for v in params]
        axis = 0
    else:
        if any(v.ndim != 1 for v in params) or not -x.ndim <= axis < x.ndim:
            return None
        if not cx.equal(scale.shape[0], x.shape[axis]):
            return None
        parts = [v.expr for v in params]
    none = cx.scalar(0, dtype)
    return parts[0], [*parts[1:], none][0], axis % max(x.ndim, 1)


def _centered(
    cx: Context, x: Value, zero: Value | None, axis: int, dtype: str, block: int = 0
) -> Any:
    """x minus its zero point, in `dtype`."""
    centered = op.astype(x.expr, dtype)
    if zero is None:
        return centered
    return op.subtract(centered, op.astype(_along(cx, zero, x, axis, block), dtype))


@converter("MatMulInteger", 10)
def matmul_integer(
    cx: Context,
    node: Node,
    a: Value,
    b: Value,
    a_zero: Value | None = None,
    b_zero: Value | None = None,
) -> Any:
    return _product(cx, a, b, a_zero, b_zero)


def _product(cx: Context, a: Value, b: Value, a_zero: Value | None, b_zero: Value | None) -> Any:
    left = _centered(cx, a, a_zero, max(a.ndim - 2, 0), "int32")
    return op.matmul(left, _centered(cx, b, b_zero, b.ndim - 1, "int32"))


@converter("QLinearMatMul", 10)
def quantized_matmul(
    cx: Context, node: Node, a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value,
    b_zero: Value, y_scale: Value, y_zero: Value,
) -> Any:  # fmt: skip
    total = cx.value(op.astype(_product(cx, a, b, a_zero, b_zero), "float32"))
    rows = _float(cx, _along(cx, a_scale, total, max(total.ndim - 2, 0)))
    columns = _float(cx, _along(cx, b_scale, total, total.ndim - 1))
    return _scaled(cx, total, rows, columns, y_scale, y_zero, max(total.ndim - 2, 0))


def _scaled(
    cx: Context, total: Value, a: Any, b: Any, y_scale: Value, y_zero: Value, axis: int
) -> Any:
    """Sums of products of numbers with the scales a and b, as numbers with the scale y_scale. The scales
    are made one factor first, as the standard says."""
    own = _float(cx, _along(cx, y_scale, total, axis))
    factor = cx.emit(op.divide(cx.emit(op.multiply(a, b)), own))
    real = cx.value(op.multiply(total.expr, factor))
    one = cx.value(cx.scalar(1, "float32"))
    if y_zero.ndim == 1 and literal(y_zero.shape[0]) == 1:
        y_zero = cx.value(_scalar(cx, y_zero))
    return _quantize(cx, real, one, y_zero, str(y_zero.dtype), axis, 0)


def _float(cx: Context, expr: Expr) -> Expr:
    value = cx.emit(expr)
    return value if value.struct_info.dtype == "float32" else op.astype(value, "float32")


@converter("ConvInteger", 10)
def conv_integer(
    cx: Context,
    node: Node,
    x: Value,
    weight: Value,
    x_zero: Value | None = None,
    w_zero: Value | None = None,
) -> Any:
    centered = [
        cx.value(_centered(cx, v, zero, axis, "int32"))
        for v, zero, axis in ((x, x_zero, 1), (weight, w_zero, 0))
    ]
    return conv(cx, node, *centered)


@converter("QLinearConv", 10)
def quantized_conv(
    cx: Context, node: Node, x: Value, x_scale: Value, x_zero: Value, weight: Value, w_scale: Value,
    w_zero: Value, y_scale: Value, y_zero: Value, bias: Value | None = None,
) -> Any:  # fmt: skip
    total = cx.value(conv_integer(cx, node, x, weight, x_zero, w_zero))
    if bias is not None:
        if bias.ndim != 1:
            raise ValueError(explain("input bias must have rank 1", got=f"rank {bias.ndim}"))
        wide = op.reshape(bias.expr, ShapeExpr([1, bias.shape[0], *[1] * spatial_rank(x)]))
        total = cx.value(op.add(total.expr, wide))
    total = cx.value(op.astype(total.expr, "float32"))
    scales = (_along(cx, s, total, 1) for s in (x_scale, w_scale))
    return _scaled(cx, total, *scales, y_scale, y_zero, 1)
