"""Quantized tensors: numbers as integers with a scale and a zero point, and products of short types."""

from __future__ import annotations

from typing import Any

from ..context import Arg, Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten


def _along(x: Term, vector: Term, axis: int) -> Term:
    """A vector with one number for each element of an axis."""
    return vector.expand_dims([k for k in range(x.ndim) if k != axis])


_Q = "quantized_decomposed"


@aten(f"{_Q}.quantize_per_tensor.default", f"{_Q}.quantize_per_tensor.tensor",
      f"{_Q}.quantize_per_channel.default")  # fmt: skip
def quantize(cx: Context, node: Node, x: Term, scale: Any, zero: Any, *more: Any) -> Term:
    """The nearest integers of x / scale + zero. more: the axis of channels, the least and the largest number."""
    if "channel" in node.op_type:
        (_, low, high), (scale, zero) = more[:3], (_along(x, v, more[0]) for v in (scale, zero))
    else:
        low, high = more[:2]
    by = 1.0 / cx.tensor(scale, str(x.dtype))
    return ((x * by).round() + zero).maximum(low).minimum(high)


@aten(f"{_Q}.dequantize_per_tensor.default", f"{_Q}.dequantize_per_tensor.tensor",
      f"{_Q}.dequantize_per_channel.default")  # fmt: skip
def dequantize(cx: Context, node: Node, x: Term, scale: Any, zero: Any, axis: int) -> Term:
    if "channel" in node.op_type:
        scale, zero = _along(x, scale, axis), None if zero is None else _along(x, zero, axis)
    value = cx.tensor(x, node.dtype)
    return (value if zero is None else value - zero) * scale


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


@aten("_scaled_mm")
def scaled_mm(
    cx: Context, node: Node, a: Term, b: Term, scale_a: Term, scale_b: Term, bias: Term | None
) -> Term:
    wide = [cx.tensor(v, "float32") for v in (a, b)]
    out = cx.ops.matmul(*wide) * scale_a * scale_b
    return out if bias is None else out + bias
