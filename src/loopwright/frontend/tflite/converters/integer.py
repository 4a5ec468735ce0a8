"""Quantized operators in integers, with TFLite's arithmetic: sums of products are scaled by a fixed-point
multiplier (`relax.requantize`), so that results are equal bit by bit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ....relax import op
from ...graph.values import Value
from ..context import TFLiteContext as Context
from ..reader import Operator, Quantization, Tensor
from .base import away, bounds, channels_first, channels_last, integer, stored
from .elementwise import same_rank
from .image import average_pool, weight_of, window
from .linear import in_order, rows_of

if TYPE_CHECKING:
    from ....relax.expr import Expr

_SHIFTED = {"int8": 20, "uint8": 20, "int16": 15}  # bits that sums have beyond their operands


def multiplier_of(real: np.ndarray[Any, Any] | float) -> tuple[np.ndarray, np.ndarray]:
    """(multiplier, shift) of positive numbers: multiplier / 2**31 * 2**shift, rounded; 0 where that is
    less than 2**-32."""
    fraction, shift = np.frexp(np.asarray(real, np.float64))
    fixed = np.floor(fraction * (1 << 31) + 0.5).astype(np.int64)
    shift = shift + (fixed == 1 << 31)
    fixed = np.where(fixed == 1 << 31, 1 << 30, fixed)
    small = shift < -31
    return np.where(small, 0, fixed).astype(np.int32), np.where(small, 0, shift).astype(np.int32)


def _quantization_of(node: Operator, *positions: int) -> list[Quantization]:
    """The quantization of inputs."""
    params = [q for k in positions if (q := node.operand(k).quantization) is not None]
    assert len(params) == len(positions)
    return params


def _requantized(
    cx: Context, node: Operator, total: Value, real: np.ndarray[Any, Any] | float, axis: int = 0
) -> Any:
    """The result of the node from its exact value in units of `real` results; of one for each index of
    an axis."""
    real = np.asarray(real).reshape(-1) if np.size(real) > 1 else np.asarray(real).reshape(())
    return _scaled(cx, node, total, multiplier_of(real), axis, *bounds(node))


def _scaled(
    cx: Context, node: Operator, total: Value, by: tuple[Any, ...], axis: int, low: int, high: int
) -> Any:
    multiplier, shift = (cx.constant(v) for v in by)
    out, x = node.output_tensors[0], cx.emit(total)
    assert out.quantization is not None
    zero = out.quantization.one_zero
    once = node.op_type == "FULLY_CONNECTED"
    return op.requantize(x, multiplier, shift, axis, zero, low, high, out.dtype, once)


def _centered(cx: Context, x: Value, tensor: Tensor, dtype: str = "int32") -> Value:
    """x less its zero point."""
    wide = cx.value(op.astype(x.expr, dtype))
    q = tensor.quantization
    return wide if q is None or not q.one_zero else cx.ops.subtract(wide, q.one_zero)


def _are_quantized(node: Operator, *positions: int) -> bool:
    return all(
        k < len(node.input_tensors) and _is_quantized(node.input_tensors[k]) for k in positions
    )


def _is_quantized(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.is_quantized


def _wide(node: Operator) -> str:
    """The type of sums of products."""
    return "int64" if node.output_tensors[0].dtype == "int16" else "int32"


def _products(node: Operator) -> np.ndarray:
    """The scale of a product of the first two inputs in units of the result's scale: one for each
    output where weights have scales of their own."""
    (x, w), out = _quantization_of(node, 0, 1), node.output_tensors[0].quantization
    assert out is not None
    return x.scale.astype(np.float64) * w.scale.astype(np.float64) / np.float64(out.scale[0])


@integer("CONV_2D", "DEPTHWISE_CONV_2D")
def conv(cx: Context, node: Operator, x: Value, weight: Value, bias: Value | None = None) -> Any:
    if not _are_quantized(node, 0, 1):
        return None
    kind, sizes = _wide(node), window(node)
    weight, group = weight_of(cx, node, x, weight)
    image = _centered(cx, channels_first(cx, x), node.operand(0), kind)
    taps = _weight(cx, node, weight, kind)
    total = cx.ops.conv(image, taps, groups=group, **sizes)
    if bias is not None:
        total = cx.ops.add(total, cx.ops.reshape(_as(cx, bias, kind), np.array([-1, 1, 1])))
    return channels_last(cx, _requantized(cx, node, total, _products(node), 1))


def _weight(cx: Context, node: Operator, weight: Value, kind: str) -> Value:
    """The second input less its zero point; those of channels are zero."""
    q = _quantization_of(node, 1)[0]
    wide = _as(cx, weight, kind)
    return cx.ops.subtract(wide, int(q.zero[0])) if q.zero.any() else wide


def _as(cx: Context, value: Value, kind: str) -> Value:
    return value if value.dtype == kind else cx.value(op.astype(value.expr, kind))


@integer("FULLY_CONNECTED")
def fully_connected(
    cx: Context, node: Operator, x: Value, weight: Value, bias: Value | None = None
) -> Any:
    if not _are_quantized(node, 0, 1):
        return None
    kind = _wide(node)
    rows, weight = rows_of(cx, node, x, weight)
    left = _centered(cx, rows, node.operand(0), kind)
    total = cx.ops.matmul(left, _weight(cx, node, weight, kind))
    if bias is not None:
        total = cx.ops.add(total, _as(cx, bias, kind))
    return _requantized(cx, node, total, _products(node), total.ndim - 1)


@integer("BATCH_MATMUL")
def batch_matmul(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    if not _are_quantized(node, 0, 1) or _products(node).size > 1:
        return None
    sides = zip(in_order(cx, node, a, b), (node.operand(0), node.operand(1)), strict=True)
    left, right = (_centered(cx, v, t, _wide(node)) for v, t in sides)
    return _requantized(cx, node, cx.ops.matmul(left, right), _products(node))


@integer("ADD", "SUB")
def add(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    """Both in units of half of the greater scale, with more bits."""
    if not _are_quantized(node, 0, 1):
        return None
    out, bits = node.output_tensors[0], _SHIFTED[node.output_tensors[0].dtype]
    scales = [q.one_scale for q in _quantization_of(node, 0, 1)]
    twice = 2 * max(scales)
    sides = [
        _in_units(cx, v, t, multiplier_of(s / twice), bits)
        for v, t, s in zip(
            same_rank(cx, a, b), (node.operand(0), node.operand(1)), scales, strict=False
        )
    ]
    total = (cx.ops.add if node.op_type == "ADD" else cx.ops.subtract)(*sides)
    assert out.quantization is not None
    return _requantized(cx, node, total, twice / ((1 << bits) * out.quantization.one_scale))


def _in_units(
    cx: Context, x: Value, tensor: Tensor, by: Sequence[np.ndarray[Any, Any]], bits: int
) -> Value:
    """x less its zero point, shifted and scaled, in int32; that of a byte by a table."""

    def units(wide: Expr) -> Value:
        multiplier, shift = (cx.constant(v) for v in by)
        return cx.value(op.requantize(wide, multiplier, shift))

    if tensor.dtype == "int16":
        return units(cx.ops.multiply(_centered(cx, x, tensor), 1 << bits).expr)
    info = np.iinfo(tensor.dtype)
    assert tensor.quantization is not None
    every = np.arange(info.min, info.max + 1) - tensor.quantization.one_zero
    table = units(cx.constant((every << bits).astype(np.int32))).constant
    return cx.value(op.byte_lookup(x.expr, cx.constant(table)))


@integer("MUL")
def multiply(cx: Context, node: Operator, a: Value, b: Value) -> Any:
    if not _are_quantized(node, 0, 1):
        return None
    pairs = zip(same_rank(cx, a, b), (node.operand(0), node.operand(1)), strict=False)
    left, right = (_centered(cx, v, t) for v, t in pairs)
    return _requantized(cx, node, cx.ops.multiply(left, right), _products(node))


@integer("PRELU")
def prelu(cx: Context, node: Operator, x: Value, slope: Value) -> Any:
    if not _are_quantized(node, 0, 1):
        return None
    pairs = zip(same_rank(cx, x, slope), (node.operand(0), node.operand(1)), strict=True)
    left, right = (_centered(cx, v, t) for v, t in pairs)
    out = node.output_tensors[0].quantization
    assert out is not None
    real = _quantization_of(node, 0)[0].one_scale / out.one_scale
    positive = _requantized(cx, node, left, real)
    steep = _requantized(cx, node, cx.ops.multiply(left, right), _products(node))
    return cx.ops.where(cx.ops.less(left, 0), steep, positive)


@integer("AVERAGE_POOL_2D")
def average(cx: Context, node: Operator, x: Value) -> Any:
    """The mean of the integers, which have one scale in the whole."""
    mean = average_pool(cx, node, cx.value(op.astype(x.expr, "float32")))
    return stored(cx, away(cx, mean), node.output_tensors[0], *bounds(node))


@integer("MEAN")
def mean(cx: Context, node: Operator, x: Value, axes: Value) -> Any:
    """The sum, by a multiplier that divides by the number of elements."""
    if not _are_quantized(node, 0):
        return None
    which = [a % x.ndim for a in cx.numbers(axes, "axis")]
    extents: list[Any] = [getattr(x.shape[a], "value", None) for a in which]
    if not which or None in extents or 0 in extents:
        return None
    count, out = math.prod(extents), node.output_tensors[0]
    keep = bool(node.option("KeepDims", False))
    wide = _centered(cx, x, node.operand(0))
    total = cx.ops.sum(wide, np.array(which), keepdims=keep)
    assert out.quantization is not None
    factor, shift = (
        int(v)
        for v in multiplier_of(_quantization_of(node, 0)[0].one_scale / out.quantization.one_scale)
    )
    more = min(count.bit_length() - 1, 32, 31 + shift)
    divided = np.int32((factor << more) // count), np.int32(shift - more)
    return _scaled(cx, node, total, divided, 0, *bounds(node))


@integer("QUANTIZE")
def requantize(cx: Context, node: Operator, x: Value) -> Any:
    if not _are_quantized(node, 0):
        return None
    out, q = node.output_tensors[0].quantization, _quantization_of(node, 0)[0]
    assert out is not None
    wide = _centered(cx, x, node.operand(0))
    return _requantized(cx, node, wide, q.one_scale / out.one_scale)


@integer("SOFTMAX")
def softmax(cx: Context, node: Operator, x: Value) -> Any:
    """Exponentials of the 256 distances from the greatest element, by a table."""
    out, q = node.output_tensors[0], _quantization_of(node, 0)[0]
    if out.dtype not in ("int8", "uint8") or x.dtype not in ("int8", "uint8"):
        return None
    o = cx.ops
    scale = np.float32(q.one_scale) * np.float32(node.option("Beta", 1.0))
    table = np.exp(-scale * np.arange(256, dtype=np.float32))
    wide = cx.value(op.astype(x.expr, "int32"))
    distance = o.subtract(o.max(wide, [-1], keepdims=True), wide)
    powers = cx.value(op.byte_lookup(op.astype(distance.expr, "uint8"), cx.constant(table)))
    assert out.quantization is not None
    total = o.multiply(o.sum(powers, [-1], keepdims=True), out.quantization.one_scale)
    scaled = o.floor(o.add(o.multiply(powers, o.divide(1.0, total)), 0.5))
    return stored(cx, o.add(scaled, float(out.quantization.one_zero)), out)


@integer("RESIZE_BILINEAR")
def resize_bilinear(cx: Context, node: Operator, x: Value, size: Value) -> Any:
    """Weighted sums of the four nearest pixels, weights in 1024ths."""
    extents: list[Any] = [getattr(x.shape[axis], "value", None) for axis in (1, 2)]
    if x.dtype != "int8" or None in extents or not size.is_constant:
        return None
    o, kind = cx.ops, _wide(node)
    total = cx.value(op.astype(x.expr, kind))
    for axis, before, after in zip((1, 2), extents, cx.numbers(size, "size"), strict=True):
        dims = [-1 if k == axis else 1 for k in range(4)]
        first, second, weight = _neighbours(node, before, after)
        sides = [(first, 1024 - weight), (second, weight)]
        total = o.add(
            *(
                o.multiply(o.take(total, at, axis=axis), part.reshape(dims).astype(kind))
                for at, part in sides
            )
        )
    half = o.where(o.greater(total, 0), *(np.array(h, kind) for h in (1 << 19, -1 << 19)))
    nearest = o.divide(o.add(total, half), 1 << 20)  # toward zero
    return stored(cx, nearest, node.output_tensors[0])


def _neighbours(node: Operator, before: int, after: int) -> list[np.ndarray]:
    """For each place after the resize the two nearest ones before it, and the weight of the second."""
    step = ((before << 10) + after // 2) // after
    if node.option("AlignCorners", False) and after > 1:
        step = ((before - 1 << 10) + (after - 1) // 2) // (after - 1)
    at = np.arange(after) * step
    if node.option("HalfPixelCenters", False):
        at += step // 2 - 512
    first = np.clip(np.trunc(at / 1024).astype(np.int64), 0, before - 1)
    second = np.minimum(np.trunc((at + 1023) / 1024).astype(np.int64), before - 1)
    return [first, second, at - 1024 * first]
