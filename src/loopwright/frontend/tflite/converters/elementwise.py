"""Functions of single elements, and quantization itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....relax import op
from ...graph.values import Value
from ..context import TFLiteContext as Context
from ..reader import Operator
from .base import dequantized, limited_real, operator, quantized

_SAME = "abs ceil cos elu exp floor log relu round sign sin sqrt tanh logical_not"
_UNARY = {name.upper(): name for name in _SAME.split()}
_UNARY |= {"HARD_SWISH": "hardswish", "LOGISTIC": "sigmoid", "NEG": "negative"}
_SAME_OF_TWO = (
    "add bitwise_xor equal floor_mod greater greater_equal less less_equal logical_and logical_or maximum "
    "minimum"
)
_BINARY = {name.upper(): name for name in _SAME_OF_TWO.split()}
_BINARY |= {"DIV": "divide", "MUL": "multiply", "POW": "power", "SUB": "subtract"}


def _unary(name: str, build: str) -> None:
    @operator(name, unary=True)
    def convert(cx: Context, node: Operator, x: Value) -> Any:
        return getattr(cx.ops, build)(x)


def _binary(name: str, build: str) -> None:
    @operator(name, moves=name in ("MAXIMUM", "MINIMUM"))
    def convert(cx: Context, node: Operator, a: Value, b: Value) -> Any:
        return getattr(cx.ops, build)(*same_rank(cx, a, b))


for _name, _build in _UNARY.items():
    _unary(_name, _build)
for _name, _build in _BINARY.items():
    _binary(_name, _build)


def same_rank(cx: Context, *values: Any) -> list[Value]:
    """The operands; constants get the rank of the others, so that they follow layouts."""
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


operator("RELU_0_TO_1", unary=True)(lambda cx, node, x: cx.ops.clip(x, 0.0, 1.0))


@operator("LEAKY_RELU", unary=True)
def leaky_relu(cx: Context, node: Operator, x: Value) -> Any:
    return cx.ops.leakyrelu(x, alpha=float(node.option("Alpha")))


@operator("GELU", unary=True)
def gelu(cx: Context, node: Operator, x: Value) -> Any:
    return cx.ops.gelu_tanh(x) if node.option("Approximate", False) else cx.ops.gelu(x)


operator("RSQRT", unary=True)(lambda cx, node, x: cx.ops.divide(1.0, cx.ops.sqrt(x)))
operator("SQUARE", unary=True)(lambda cx, node, x: cx.ops.multiply(x, x))
operator("ZEROS_LIKE")(lambda cx, node, x: op.zeros_like(x.expr))


@operator("PRELU")
def prelu(cx: Context, node: Operator, x: Value, slope: Value) -> Any:
    x, slope = same_rank(cx, x, slope)
    return cx.ops.prelu(x, slope)


@operator("SQUARED_DIFFERENCE")
def squared_difference(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    gap = cx.ops.subtract(*same_rank(cx, a, b))
    return cx.ops.multiply(gap, gap)


operator("NOT_EQUAL")(lambda cx, node, a, b: cx.ops.logical_not(cx.ops.equal(a, b)))


@operator("FLOOR_DIV")
def floor_div(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    if a.dtype.is_float:
        return cx.ops.floor(cx.ops.divide(a, b))
    return op.floor_divide(*cx.broadcast(a, b))


operator("ATAN2")(lambda cx, node, y, x: op.atan2(*cx.broadcast(y, x)))
operator("ADD_N")(lambda cx, node, *values: cx.ops.add(*values))


@operator("SELECT", "SELECT_V2", moves=True)
def select(cx: Context, node: Operator, condition: Value, x: Value, y: Value) -> Any:
    if node.op_type == "SELECT" and condition.ndim == 1 and x.ndim > 1:
        condition = cx.ops.expand_dims(condition, np.arange(1, x.ndim))
    return cx.ops.where(condition, x, y)


@operator("CAST", moves=True)
def cast(cx: Context, node: Operator, x: Value) -> Any:
    return cx.ops.astype(x, dtype=node.output_tensors[0].dtype)


@operator("QUANTIZE", moves=True)
def quantize(cx: Context, node: Operator, x: Value) -> Any:
    return quantized(cx, x, node.output_tensors[0]) if x.dtype.is_float else x


@operator("DEQUANTIZE", moves=True)
def dequantize(cx: Context, node: Operator, x: Value) -> Any:
    source = node.input_tensors[0]
    assert source is not None
    if x.dtype.is_float:
        return cast(cx, node, x)
    return dequantized(cx, x, source)


@operator("FAKE_QUANT")
def fake_quant(cx: Context, node: Operator, x: Value) -> Any:
    """The numbers that `num_bits` bits can represent; the range is moved so that zero is one, in
    float32, as TFLite does."""
    o, least, most = cx.ops, np.float32(node.option("Min")), np.float32(node.option("Max"))
    first, last = int(node.option("NarrowRange", False)), (1 << node.option("NumBits", 8)) - 1
    step = (most - least) / np.float32(last - first)
    zero = min(max(int(np.floor(first - least / step + np.float32(0.5))), first), last)
    low, high = (first - zero) * step, (last - zero) * step
    limited = o.clip(x, np.float32(low), np.float32(high))
    steps = o.floor(o.add(o.divide(o.subtract(limited, low), step), 0.5))
    return o.add(o.multiply(steps, step), low)
