"""Operators that work element by element."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from ....base.errors import explain
from ....ir.dtype import DataType, numpy_dtype
from ....relax import op
from ....relax.expr import Expr
from ...graph.operators import elementwise
from ...graph.values import Value, literal
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter, define, register_converter
from ..tensors import STRING, dtype_of
from .texts import cast_texts, written

# ---------------------------------------------------------------- one input


def _unary(name: str, operator: str) -> None:
    def convert(cx: Context, node: Node, x: Value) -> Any:
        node.skip("consumed_inputs")  # opset 1's, which says nothing about values
        return getattr(cx.ops, operator)(x)

    register_converter(name, 1, convert)


_SAME = (
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor IsNaN Log Relu Round Sigmoid Sign "
    "Sin Sinh Sqrt Tan Tanh"
)
_UNARY = {"BitwiseNot": "bitwise_not", "Neg": "negative", "Not": "logical_not"}
_UNARY |= {name: name.lower() for name in _SAME.split()}
for _name, _operator in _UNARY.items():
    _unary(_name, _operator)
define("Identity", lambda cx, node, x: x)


@converter("Dropout")
def dropout(cx: Context, node: Node, x: Value) -> Any:
    node.skip("ratio", "is_test", "consumed_inputs")
    mask = op.ones_like(x.expr, "bool") if len([o for o in node.outputs if o]) > 1 else None
    return [x, mask]


@converter("Reciprocal")
def reciprocal(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    return op.divide(cx.scalar(1, x.dtype), x.expr)


@converter("Cast")
def cast(cx: Context, node: Node, x: Value) -> Any:
    to = node.attributes.get("to")
    if isinstance(to, str):  # opset 1 names the type
        return op.astype(x.expr, DataType(node.text("to").lower().replace("double", "float64")))
    to = node.integer("to")
    if to == STRING:
        node.skip("saturate", "round_mode")
        return x if not x.is_tensor else written(cx, x)
    return _cast(cx, node, x, dtype_of(to))


def _cast(cx: Context, node: Node, x: Value, dtype: str) -> Any:
    if DataType(dtype).code == "complex":
        hint = "numbers, bool and strings"
        raise ValueError(explain("nothing is cast to complex numbers", got=dtype, instead=hint))
    saturate, mode = node.integer("saturate", 1), node.text("round_mode", "up")
    if not x.is_tensor:
        return cast_texts(cx, x, dtype)
    if dtype == "float8_e8m0fnu" and x.dtype != dtype:
        return _exponents(cx, x, mode, bool(saturate))
    if not dtype.startswith("float8") or not x.dtype.is_float or x.dtype.bits <= 8:
        return cx.ops.astype(x, dtype=dtype)
    return saturated(x.expr, dtype) if saturate else op.astype(x.expr, dtype)


def _exponents(cx: Context, x: Value, mode: str, saturate: bool) -> Any:
    """Powers of two as numbers (float8_e8m0fnu, which has no sign): the exponents of
    float32, rounded by ONNX's round_mode."""
    if mode not in ("up", "down", "nearest"):
        raise ValueError(explain("attribute round_mode is up, down or nearest", got=mode))
    number = lambda v: cx.scalar(v, "int32")  # noqa: E731
    wide = cx.emit(op.astype(x.expr, "float32")) if x.dtype != "float32" else x.expr
    bits = cx.emit(op.reinterpret(wide, "int32"))  # sign, 8 bits of exponent, 23 of fraction
    shifted = cx.emit(op.right_shift(bits, number(23)))
    exponent = cx.emit(op.bitwise_and(shifted, number(0xFF)))
    fraction = cx.emit(op.bitwise_and(bits, number(0x7FFFFF)))
    # A fraction of exactly a half (0x400000) is rounded up, that of a subnormal number down.
    normal = op.greater(exponent, number(0))
    least = op.where(normal, number(0x3FFFFF), number(0x400000)) if mode == "nearest" else number(0)
    grows = op.greater(fraction, cx.emit(least))
    finite = op.less(exponent, number(0xFE if saturate else 0xFF))
    more = cx.emit(op.astype(op.logical_and(cx.emit(grows), cx.emit(finite)), "int32"))
    result = exponent if mode == "down" else cx.emit(op.add(exponent, more))
    return op.reinterpret(cx.emit(op.astype(result, "uint8")), "float8_e8m0fnu")


@converter("BitCast", 26)
def bit_cast(cx: Context, node: Node, x: Value) -> Any:
    dtype = dtype_of(node.integer("to"))
    bits = cx.value(op.astype(x.expr, "uint8")) if x.dtype.is_bool else x
    if dtype == "bool":
        return op.astype(op.reinterpret(bits.expr, "uint8"), "bool")
    return bits if bits.dtype == dtype else op.reinterpret(bits.expr, dtype)


def saturated(x: Expr, dtype: str) -> Expr:
    """Floats in a smaller float type, saturated at its greatest number."""
    edge = float(ml_dtypes.finfo(numpy_dtype(dtype)).max)
    return op.astype(op.clip(x, -edge, edge), dtype)


define("CastLike", lambda cx, node, x, like: _cast(cx, node, x, str(like.dtype)), 15)


@converter("IsInf", 10)
def is_inf(cx: Context, node: Node, x: Value) -> Any:
    negative, positive = node.integer("detect_negative", 1), node.integer("detect_positive", 1)
    infinite = op.isinf(x.expr)
    if negative and positive:
        return infinite
    if not negative and not positive:
        return op.zeros_like(x.expr, "bool")
    zero = cx.scalar(0, x.dtype)
    side = op.less(x.expr, zero) if negative else op.greater(x.expr, zero)
    return op.logical_and(infinite, side)


# ---------------------------------------------------------------- activations


@converter("LeakyRelu")
def leaky_relu(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    return op.nn.leakyrelu(x.expr, node.real("alpha", 0.01))


@converter("PRelu")
def prelu(cx: Context, node: Node, x: Value, slope: Value) -> Any:
    node.skip("consumed_inputs")
    shared = slope.ndim == 1 and literal(slope.shape[0]) == 1
    if node.opset < 7 and slope.ndim == 1 and x.ndim > 2 and not shared:  # one for each channel
        return op.nn.prelu(x.expr, slope.expr, 1)
    return cx.ops.prelu(x, slope)


@converter("Elu")
def elu(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    return elementwise.exponential(cx, x, node.real("alpha", 1.0), 1.0)


@converter("Selu")
def selu(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    old = node.opset < 6
    alpha = node.real("alpha", 1.6732 if old else 1.67326319217681884765625)
    gamma = node.real("gamma", 1.0507 if old else 1.05070102214813232421875)
    return elementwise.exponential(cx, x, alpha * gamma, gamma)


@converter("Celu", 12)
def celu(cx: Context, node: Node, x: Value) -> Any:
    alpha, zero = cx.scalar(node.real("alpha", 1.0), x.dtype), cx.scalar(0, x.dtype)
    below = op.multiply(op.expm1(op.divide(op.minimum(x.expr, zero), alpha)), alpha)
    return op.add(op.maximum(x.expr, zero), below)


@converter("ThresholdedRelu", 10)
def thresholded_relu(cx: Context, node: Node, x: Value) -> Any:
    passed = op.greater(x.expr, cx.scalar(node.real("alpha", 1.0), x.dtype))
    return op.where(passed, x.expr, cx.scalar(0, x.dtype))


@converter("HardSigmoid")
def hard_sigmoid(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    return _hard_sigmoid(cx, x, node.real("alpha", 0.2), node.real("beta", 0.5))


def _hard_sigmoid(cx: Context, x: Value, alpha: float, beta: float) -> Any:
    if beta == 0.5 and math.isclose(alpha, 1 / 6, rel_tol=1e-6):
        return op.nn.hardsigmoid(x.expr)
    line = op.add(op.multiply(x.expr, cx.scalar(alpha, x.dtype)), cx.scalar(beta, x.dtype))
    return op.clip(line, 0.0, 1.0)


define("HardSwish", lambda cx, node, x: op.nn.hardswish(x.expr), 14)
define("Gelu", lambda cx, node, x: op.nn.gelu(x.expr), 1, "com.microsoft")


@converter("Gelu", 20)
def gelu(cx: Context, node: Node, x: Value) -> Any:
    tanh = node.choice("approximate", ("none", "tanh")) == "tanh"
    return (op.nn.gelu_tanh if tanh else op.nn.gelu)(x.expr)


@converter("FastGelu", 1, "com.microsoft")
def fast_gelu(cx: Context, node: Node, x: Value, bias: Value | None = None) -> Any:
    return op.nn.gelu_tanh(x.expr if bias is None else op.add(*cx.broadcast(x, bias)))


@converter("BiasGelu", 1, "com.microsoft")
def bias_gelu(cx: Context, node: Node, x: Value, bias: Value) -> Any:
    return op.nn.gelu(op.add(*cx.broadcast(x, bias)))


@converter("QuickGelu", 1, "com.microsoft")
def quick_gelu(cx: Context, node: Node, x: Value) -> Any:
    scaled = op.multiply(x.expr, cx.scalar(node.real("alpha", 1.702), x.dtype))
    return op.multiply(x.expr, op.sigmoid(scaled))


@converter("Swish", 24)
def swish(cx: Context, node: Node, x: Value) -> Any:
    alpha = node.real("alpha", 1.0)
    if alpha == 1.0:
        return op.nn.silu(x.expr)
    return op.multiply(x.expr, op.sigmoid(op.multiply(x.expr, cx.scalar(alpha, x.dtype))))


define("Softplus", lambda cx, node, x: _softplus(cx, x))


def _softplus(cx: Context, x: Value) -> Any:
    """log(1 + exp(x)) for all x."""
    return op.nn.softplus(x.expr, 1.0, math.inf)


define("Mish", lambda cx, node, x: op.multiply(x.expr, op.tanh(_softplus(cx, x))), 18)


@converter("Softsign")
def softsign(cx: Context, node: Node, x: Value) -> Any:
    return op.divide(x.expr, op.add(op.abs(x.expr), cx.scalar(1, x.dtype)))


@converter("Shrink", 9)
def shrink(cx: Context, node: Node, x: Value) -> Any:
    bias, edge = node.real("bias", 0.0), node.real("lambd", 0.5)
    # The attributes may have fractions, or not fit a type of integers.
    kind = "float64" if x.dtype.is_integer else str(x.dtype)
    data = x.expr if x.dtype == kind else cx.emit(op.astype(x.expr, kind))
    below = op.less(data, cx.scalar(-edge, kind))
    above = op.greater(data, cx.scalar(edge, kind))
    width = cx.scalar(bias, kind)
    high = op.where(above, op.subtract(data, width), cx.scalar(0, kind))
    out = op.where(below, op.add(data, width), high)
    return out if x.dtype == kind else op.astype(cx.emit(out), str(x.dtype))


# ---------------------------------------------------------------- limits


@converter("Clip")
def clip_attributes(cx: Context, node: Node, x: Value) -> Any:
    node.skip("consumed_inputs")
    low = node.real("min", None)
    return elementwise.clipped(cx, x, low, node.real("max", None))


@converter("Clip", 11)
def clip(
    cx: Context, node: Node, x: Value, low: Value | None = None, high: Value | None = None
) -> Any:
    return cx.ops.clip(x, low, high)


# ---------------------------------------------------------------- two inputs


def _old_operands(cx: Context, node: Node, a: Value, b: Value) -> list[Any]:
    """The operands in opset 1 and 6, where b is broadcast from `axis` on. Raises ValueError."""
    node.skip("consumed_inputs", "broadcast")
    axis = node.integer("axis", None)
    if axis is None or b.ndim == 0:
        return cx.broadcast(a, b)
    back = a.ndim - (axis % a.ndim) - b.ndim
    if back < 0:
        raise ValueError(explain("axis leaves no room for the second input", got=axis))
    if back == 0:
        return cx.broadcast(a, b)
    wide = cx.value(op.expand_dims(b.expr, list(range(b.ndim, b.ndim + back))))
    return cx.broadcast(a, wide)


def _binary(name: str, operator: str) -> None:
    def old(cx: Context, node: Node, a: Value, b: Value) -> Any:
        if not (node.has("broadcast") or node.has("axis")):  # known integers stay known
            node.skip("consumed_inputs")
            return convert(cx, node, a, b)
        return getattr(op, operator)(*_old_operands(cx, node, a, b))

    def convert(cx: Context, node: Node, a: Value, b: Value) -> Any:
        return getattr(cx.ops, operator)(a, b)

    register_converter(name, 1, old)
    register_converter(name, 7, convert)


_BINARY = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Div": "divide",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}
for _name, _operator in _BINARY.items():
    _binary(_name, _operator)


define("Pow", lambda cx, node, a, b: op.power(*_old_operands(cx, node, a, b)))
define("Pow", lambda cx, node, a, b: cx.ops.power(a, b), 7)


@converter("Mod", 10)
def mod(cx: Context, node: Node, a: Value, b: Value) -> Any:
    return op.mod(*cx.broadcast(a, b)) if node.integer("fmod", 0) else cx.ops.floor_mod(a, b)


@converter("BitShift", 11)
def bit_shift(cx: Context, node: Node, a: Value, b: Value) -> Any:
    direction = node.text("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(explain("attribute direction must be LEFT or RIGHT", got=direction))
    return (op.left_shift if direction == "LEFT" else op.right_shift)(*cx.broadcast(a, b))


# ---------------------------------------------------------------- any number of inputs


def _variadic(name: str, operator: str) -> None:
    def convert(cx: Context, node: Node, first: Value, *rest: Value) -> Any:
        node.skip("consumed_inputs")
        return getattr(cx.ops, operator)(first, *rest)

    register_converter(name, 1, convert)


_variadic("Max", "maximum")
_variadic("Min", "minimum")
_variadic("Sum", "add")


@converter("Mean")
def mean(cx: Context, node: Node, first: Value, *rest: Value) -> Any:
    node.skip("consumed_inputs")
    return cx.ops.divide(cx.ops.add(first, *rest), 1 + len(rest))
