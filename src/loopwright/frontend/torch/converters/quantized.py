"""Quantized tensors: numbers as integers with a scale and a zero point, and products of short types."""

from __future__ import annotations

from ....relax.expr import ShapeExpr
from ..context import Arg, Number, Size, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .nn import matmul
from .table import aten


def _along(cx: Context, x: Term, vector: Term, axis: int) -> Term:
    """A vector with one number for each element of an axis."""
    shape: list[Size] = [1] * x.ndim
    shape[axis] = vector.shape[0]
    return vector.reshape(ShapeExpr(shape))


def _levels(cx: Context, x: Term, scale: Arg, zero: Arg, low: Arg, high: Arg) -> Term:
    """The nearest integers of x / scale + zero, as floats."""
    by = 1.0 / cx.tensor(scale, str(x.dtype))
    return ((x * by).round() + zero).maximum(low).minimum(high)


@aten("quantized_decomposed.quantize_per_tensor.default",
      "quantized_decomposed.quantize_per_tensor.tensor")  # fmt: skip
def quantize(
    cx: Context, node: Node, x: Term, scale: Arg, zero: Arg, low: Number, high: Number, *_: object
) -> Term:
    return _levels(cx, x, scale, zero, low, high).astype(node.dtype)


@aten("quantized_decomposed.dequantize_per_tensor.default",
      "quantized_decomposed.dequantize_per_tensor.tensor")  # fmt: skip
def dequantize(
    cx: Context, node: Node, x: Term, scale: Arg, zero: Arg, *_: object, **__: object
) -> Term:
    return (cx.tensor(x, node.dtype) - zero) * scale


@aten("quantized_decomposed.quantize_per_channel.default")
def quantize_channels(
    cx: Context, node: Node, x: Term, scales: Term, zeros: Term, axis: int, low: Number, high: Number,
    *_: object,
) -> Term:  # fmt: skip
    scale, zero = (_along(cx, x, v, axis) for v in (scales, zeros))
    return _levels(cx, x, scale, zero, low, high).astype(node.dtype)


@aten("quantized_decomposed.dequantize_per_channel.default")
def dequantize_channels(
    cx: Context, node: Node, x: Term, scales: Term, zeros: Term | None, axis: int, *_: object,
    **__: object,
) -> Term:  # fmt: skip
    value = cx.tensor(x, node.dtype)
    value = value if zeros is None else value - _along(cx, x, zeros, axis)
    return value * _along(cx, x, scales, axis)


@aten("fake_quantize_per_tensor_affine_cachemask",
      "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")  # fmt: skip
def fake_quantize(
    cx: Context, node: Node, x: Term, scale: Arg, zero: Arg, *more: Arg
) -> list[Term]:
    """The quantized numbers as floats, and which are within the range."""
    enabled, (low, high) = more[:-2], more[-2:]
    by = 1.0 / cx.tensor(scale, str(x.dtype))
    level = (x * by).round() + zero
    inside = (level >= low) & (level <= high)
    out = (level.maximum(low).minimum(high) - zero) * scale
    if enabled and isinstance(enabled[0], Term):
        on = cx.tensor(enabled[0], "bool")
        out, inside = cx.where(on, out, x), cx.where(on, inside, True)
    return [out, inside]


@aten("_int_mm")
def int_mm(cx: Context, node: Node, a: Term, b: Term) -> Term:
    return matmul(cx, node, a, b)


@aten("_scaled_mm")
def scaled_mm(
    cx: Context, node: Node, a: Term, b: Term, scale_a: Term, scale_b: Term, bias: Term | None = None,
    scale_result: Term | None = None, *_: object,
) -> Term:  # fmt: skip
    wide = [cx.tensor(v, "float32") for v in (a, b)]
    out = cx.ops.matmul(*wide) * scale_a * scale_b
    out = out if bias is None else out + bias
    return out.astype(node.dtype)
