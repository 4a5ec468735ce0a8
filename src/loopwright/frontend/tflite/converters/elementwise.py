"""Functions of single elements, and quantization itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ...graph.context import Context
from ...graph.values import Value
from ..reader import Operator
from .base import ONNX_TYPES, dequantized, limited_real, operator, quantized

_UNARY = {
    "ABS": "Abs",
    "CEIL": "Ceil",
    "COS": "Cos",
    "ELU": "Elu",
    "EXP": "Exp",
    "FLOOR": "Floor",
    "HARD_SWISH": "HardSwish",
    "LOG": "Log",
    "LOGICAL_NOT": "Not",
    "LOGISTIC": "Sigmoid",
    "NEG": "Neg",
    "RELU": "Relu",
    "ROUND": "Round",
    "SIGN": "Sign",
    "SIN": "Sin",
    "SQRT": "Sqrt",
    "TANH": "Tanh",
}
_BINARY = {
    "ADD": "Add",
    "BITWISE_XOR": "BitwiseXor",
    "DIV": "Div",
    "EQUAL": "Equal",
    "FLOOR_MOD": "Mod",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "MUL": "Mul",
    "POW": "Pow",
    "SUB": "Sub",
}


def _unary(name: str, theirs: str) -> None:
    @operator(name, unary=True)
    def convert(cx: Context, node: Operator, x: Value) -> Any:
        return getattr(cx.onnx, theirs)(x)


def _binary(name: str, theirs: str) -> None:
    @operator(name, moves=name in ("MAXIMUM", "MINIMUM"))
    def convert(cx: Context, node: Operator, a: Value, b: Value) -> Any:
        return getattr(cx.onnx, theirs)(*same_rank(cx, a, b))


for _name, _theirs in _UNARY.items():
    _unary(_name, _theirs)
for _name, _theirs in _BINARY.items():
    _binary(_name, _theirs)


def same_rank(cx: Context, *values: Any) -> list[Value]:
    """Operands of which constants have as many axes as the others, so that they follow layouts."""
    rank = max(v.ndim for v in values)
    if all(v.elements is not None for v in values):
        return list(values)  # the arithmetic of shapes
    return [
        cx.value(cx.constant(v.constant.reshape([1] * (rank - v.ndim) + list(v.constant.shape))))
        if v.is_constant and 0 < v.ndim < rank
        else v
        for v in values
    ]


@operator("RELU6", "RELU_N1_TO_1", unary=True)
def relu_limited(cx: Context, node: Operator, x: Value) -> Any:
    return limited_real(cx, x, 3 if node.op_type == "RELU6" else 2)


@operator("RELU_0_TO_1", unary=True)
def relu_0_to_1(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Clip(x, 0.0, 1.0)


@operator("LEAKY_RELU", unary=True)
def leaky_relu(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.LeakyRelu(x, alpha=float(node.option("Alpha")))


@operator("GELU", unary=True)
def gelu(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Gelu(x, approximate="tanh" if node.option("Approximate", False) else "none")


@operator("RSQRT", unary=True)
def rsqrt(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Div(1.0, cx.onnx.Sqrt(x))


@operator("SQUARE", unary=True)
def square(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Mul(x, x)


@operator("ZEROS_LIKE")
def zeros_like(cx: Context, node: Operator, x: Value) -> Any:
    return op.zeros_like(x.expr)


@operator("PRELU")
def prelu(cx: Context, node: Operator, x: Value, slope: Value) -> Any:
    x, slope = same_rank(cx, x, slope)
    return cx.onnx.PRelu(x, slope)


@operator("SQUARED_DIFFERENCE")
def squared_difference(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    gap = cx.onnx.Sub(*same_rank(cx, a, b))
    return cx.onnx.Mul(gap, gap)


@operator("NOT_EQUAL")
def not_equal(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    return cx.onnx.Not(cx.onnx.Equal(a, b))


@operator("FLOOR_DIV")
def floor_div(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    if a.dtype.is_float:
        return cx.onnx.Floor(cx.onnx.Div(a, b))
    return op.floor_divide(*cx.broadcast(a, b))


@operator("ATAN2")
def atan2(cx: Context, node: Operator, y: Value, x: Value) -> Any:
    return op.atan2(*cx.broadcast(y, x))


@operator("ADD_N")
def add_n(cx: Context, node: Operator, *values: Value) -> Any:
    return cx.onnx.Sum(*values)


@operator("SELECT", "SELECT_V2", moves=True)
def select(cx: Context, node: Operator, condition: Value, x: Value, y: Value) -> Any:
    if node.op_type == "SELECT" and condition.ndim == 1 and x.ndim > 1:
        condition = cx.onnx.Unsqueeze(condition, np.arange(1, x.ndim))
    return cx.onnx.Where(condition, x, y)


@operator("CAST", moves=True)
def cast(cx: Context, node: Operator, x: Value) -> Any:
    return cx.onnx.Cast(x, to=onnx_type(node.gives[0].dtype))


def onnx_type(dtype: str) -> int:
    """ONNX's number of a dtype. Raises ValueError for what has none."""
    if dtype not in ONNX_TYPES:
        raise ValueError(explain("element type is not supported", got=dtype))
    return ONNX_TYPES[dtype]


@operator("QUANTIZE", moves=True)
def quantize(cx: Context, node: Operator, x: Value) -> Any:
    return quantized(cx, x, node.gives[0]) if x.dtype.is_float else x


@operator("DEQUANTIZE", moves=True)
def dequantize(cx: Context, node: Operator, x: Value) -> Any:
    source = node.given[0]
    assert source is not None
    if x.dtype.is_float:
        return cast(cx, node, x)
    return dequantized(cx, x, source)


@operator("FAKE_QUANT")
def fake_quant(cx: Context, node: Operator, x: Value) -> Any:
    """The numbers that `num_bits` bits can stand for; the range is moved so that zero is one, in
    float32, as TFLite does."""
    o, least, most = cx.onnx, np.float32(node.option("Min")), np.float32(node.option("Max"))
    first, last = int(node.option("NarrowRange", False)), (1 << node.option("NumBits", 8)) - 1
    step = (most - least) / np.float32(last - first)
    zero = min(max(int(np.floor(first - least / step + np.float32(0.5))), first), last)
    low, high = (first - zero) * step, (last - zero) * step
    limited = o.Clip(x, np.float32(low), np.float32(high))
    steps = o.Floor(o.Add(o.Div(o.Sub(limited, low), step), 0.5))
    return o.Add(o.Mul(steps, step), low)
