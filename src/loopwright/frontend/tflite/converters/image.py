"""Convolutions, pools and the other operators on images. They are computed channels first."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ops.resizing import Style
from ....relax import op
from ....relax.expr import ShapeExpr
from ...graph.values import Value, literal
from ..context import TFLiteContext as Context
from ..reader import Operator
from .base import channels_first, channels_last, operator

# The axes of weights (out, rows, columns, in) as (out, in, rows, columns), by the operator.
_AXES = {"CONV_2D": [0, 3, 1, 2], "DEPTHWISE_CONV_2D": [3, 0, 1, 2], "CONV_3D": [4, 3, 0, 1, 2]}


def window(node: Operator, rank: int = 2) -> dict[str, Any]:
    """The strides, padding and dilations of a sliding window."""
    letters = "DHW"[3 - rank :]
    attrs: dict[str, Any] = {"strides": [node.option(f"Stride{s}") for s in letters]}
    attrs["padding"] = "VALID" if node.option("Padding") else "SAME_UPPER"
    attrs["dilations"] = [node.option(f"Dilation{s}Factor", 1) for s in letters]
    return attrs


def weight_of(cx: Context, node: Operator, x: Value, weight: Value) -> tuple[Value, int]:
    """(a convolution's weight as (out, in, ...), the number of groups)."""
    transposed = rearranged(cx, weight, _AXES[node.op_type])
    depth, have = literal(x.shape[-1]), literal(transposed.shape[1])
    if not (isinstance(depth, int) and isinstance(have, int) and have and depth % have == 0):
        what = "the weight's channels must divide the image's"
        raise ValueError(explain(what, got=f"{have} and {depth}"))
    return transposed, depth // have


def rearranged(cx: Context, value: Value, axes: list[int]) -> Value:
    """A tensor with its axes in another order; a constant one is moved here."""
    if value.is_constant:
        constant: Any = value.constant
        return cx.value(cx.constant(np.transpose(constant, axes), str(value.dtype)))
    return cx.value(op.permute_dims(value.expr, axes))


@operator("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D")
def conv(cx: Context, node: Operator, x: Value, weight: Value, bias: Value | None = None) -> Any:
    weight, group = weight_of(cx, node, x, weight)
    sizes = window(node, x.ndim - 2)
    out = cx.ops.conv(channels_first(cx, x), weight, bias, groups=group, **sizes)
    return channels_last(cx, out)


@operator("TRANSPOSE_CONV")
def transpose_conv(
    cx: Context, node: Operator, shape: Value, weight: Value, x: Value, bias: Value | None = None
) -> Any:
    weight = rearranged(cx, weight, [3, 0, 1, 2])
    strides = [node.option("StrideH"), node.option("StrideW")]
    return _transposed(cx, x, weight, bias, strides, node.option("Padding") == 0, shape)


@operator("Convolution2DTransposeBias")
def transpose_conv_bias(cx: Context, node: Operator, x: Value, weight: Value, bias: Value) -> Any:
    """MediaPipe's custom operator; its options are three numbers in C's form."""
    same, across, down = struct.unpack_from("<3i", node.custom)
    weight = rearranged(cx, weight, [3, 0, 1, 2])
    return _transposed(cx, x, weight, bias, [down, across], same == 1)


def _transposed(
    cx: Context,
    x: Value,
    weight: Value,
    bias: Value | None,
    strides: list[int],
    same: bool,
    shape: Value | None = None,
) -> Any:
    kernel = [literal(d) for d in weight.shape[2:]]
    have = [literal(d) for d in x.shape[1:3]]
    extents = [None, None] if shape is None else cx.integers(shape, "output_shape")[1:3]
    sizes: dict[str, Any] = {"padding": "SAME_UPPER" if same else "VALID"}
    if all(isinstance(d, int) for d in (*have, *extents)):
        # The part of the result beyond the adjacent windows.
        more = [w - ((h - 1) * s + k) for h, w, s, k in zip(have, extents, strides, kernel)]
        cut = [max(-m, 0) for m in more]
        pads = [c // 2 for c in cut] + [c - c // 2 for c in cut]
        sizes = {"padding": pads, "output_padding": [max(m, 0) for m in more]}
    out = cx.ops.conv_transpose(channels_first(cx, x), weight, bias, strides=strides, **sizes)
    return channels_last(cx, out)


def _window(node: Operator) -> dict[str, Any]:
    return window(node) | {"kernel": [node.option("FilterHeight"), node.option("FilterWidth")]}


@operator("MAX_POOL_2D", moves=True)
def max_pool(cx: Context, node: Operator, x: Value) -> Any:
    return channels_last(cx, cx.ops.max_pool(channels_first(cx, x), **_window(node)))


@operator("AVERAGE_POOL_2D")
def average_pool(cx: Context, node: Operator, x: Value) -> Any:
    return channels_last(cx, cx.ops.avg_pool(channels_first(cx, x), **_window(node)))


@operator("L2_POOL_2D")
def l2_pool(cx: Context, node: Operator, x: Value) -> Any:
    squares = cx.ops.multiply(x, x)
    return cx.ops.sqrt(cx.value(average_pool(cx, node, squares)))


@operator("RESIZE_BILINEAR")
def resize_bilinear(cx: Context, node: Operator, x: Value, size: Value) -> Any:
    return _resized(cx, node, x, size, "linear", "floor")


@operator("RESIZE_NEAREST_NEIGHBOR", moves=True)
def resize_nearest(cx: Context, node: Operator, x: Value, size: Value) -> Any:
    centers = node.option("HalfPixelCenters", False) or node.option("AlignCorners", False)
    rounding = "round_prefer_ceil" if centers else "floor"
    return _resized(cx, node, x, size, "nearest_neighbor", rounding)


def _resized(cx: Context, node: Operator, x: Value, size: Value, method: str, rounding: str) -> Any:
    positions = "asymmetric"
    if node.option("AlignCorners", False):
        positions = "align_corners"
    elif node.option("HalfPixelCenters", False):
        positions = "half_pixel"
    style, lengths = Style(method, positions, rounding), cx.ops.astype(size, dtype="int64")
    image = cx.ops.resize(channels_first(cx, x), lengths, axes=[2, 3], style=style)
    return channels_last(cx, image)


@operator("SPACE_TO_DEPTH", moves=True)
def space_to_depth(cx: Context, node: Operator, x: Value) -> Any:
    size = node.option("BlockSize")
    return channels_last(cx, cx.ops.space_to_depth(channels_first(cx, x), size=size))


@operator("DEPTH_TO_SPACE", moves=True)
def depth_to_space(cx: Context, node: Operator, x: Value) -> Any:
    size = node.option("BlockSize")
    return channels_last(cx, cx.ops.depth_to_space(channels_first(cx, x), size=size))


def _blocks(cx: Context, block: Value) -> tuple[list[int], int]:
    sizes = cx.numbers(block, "block_shape")
    if any(b < 1 for b in sizes):
        raise ValueError(explain("blocks must be positive", got=sizes))
    return sizes, int(np.prod(sizes))


@operator("SPACE_TO_BATCH_ND", moves=True)
def space_to_batch(cx: Context, node: Operator, x: Value, block: Value, paddings: Value) -> Any:
    sizes, count = _blocks(cx, block)
    rank, fill = len(sizes), zero_of(node, x)
    widths = np.array(cx.numbers(paddings, "paddings"), np.int64).reshape(rank, 2)
    pads = np.zeros((x.ndim, 2), np.int64)
    pads[1 : rank + 1] = widths
    x = cx.ops.pad(x, pads.T.reshape(-1), fill)
    dims = [cx.simplify(literal(d)) for d in x.shape]
    parts = [p for d, b in zip(dims[1:], sizes) for p in (d // b, b)]
    split = cx.value(op.reshape(x.expr, ShapeExpr([dims[0], *parts, *dims[rank + 1 :]])))
    outer, inner = [1 + 2 * k for k in range(rank)], [2 + 2 * k for k in range(rank)]
    moved = op.permute_dims(split.expr, [*inner, 0, *outer, *range(1 + 2 * rank, split.ndim)])
    out = [dims[0] * count, *parts[0::2], *dims[rank + 1 :]]
    return op.reshape(cx.emit(moved), ShapeExpr([cx.simplify(d) for d in out]))


@operator("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space(cx: Context, node: Operator, x: Value, block: Value, crops: Value) -> Any:
    sizes, count = _blocks(cx, block)
    rank = len(sizes)
    cut = np.array(cx.numbers(crops, "crops"), np.int64).reshape(rank, 2)
    dims = [cx.simplify(literal(d)) for d in x.shape]
    batch = cx.simplify(dims[0] // count)
    split = cx.value(op.reshape(x.expr, ShapeExpr([*sizes, batch, *dims[1:]])))
    order = [rank, *(a for k in range(rank) for a in (rank + 1 + k, k))]
    moved = cx.emit(op.permute_dims(split.expr, [*order, *range(2 * rank + 1, split.ndim)]))
    grown = [cx.simplify(d * b) for d, b in zip(dims[1:], sizes)]
    whole = cx.value(op.reshape(moved, ShapeExpr([batch, *grown, *dims[rank + 1 :]])))
    ends = [cx.simplify(d - int(c)) for d, c in zip(grown, cut[:, 1])]
    axes = np.arange(1, rank + 1)
    return cx.ops.strided_slice(whole, cut[:, 0], cx.from_elements(ends, "int64"), axes)


def zero_of(node: Operator, x: Value) -> Any:
    """The representation of zero in x, the first input."""
    tensor = node.input_tensors[0]
    if tensor is None or tensor.quantization is None or x.dtype.is_float:
        return 0
    return np.asarray(tensor.quantization.one_zero, tensor.dtype)


@operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response(cx: Context, node: Operator, x: Value) -> Any:
    """x / (bias + alpha * the sum of the squares of `radius` channels on each side) ** beta"""
    o, radius = cx.ops, node.option("Radius")
    image = channels_first(cx, x)
    alpha = float(node.option("Alpha") * (2 * radius + 1))
    factors = {"beta": float(node.option("Beta")), "bias": float(node.option("Bias"))}
    return channels_last(cx, o.lrn(image, size=2 * radius + 1, alpha=alpha, **factors))


@operator("L2_NORMALIZATION")
def l2_normalization(cx: Context, node: Operator, x: Value) -> Any:
    o = cx.ops
    squares = o.sum(o.multiply(x, x), [-1], keepdims=True)
    return o.divide(x, o.sqrt(o.maximum(squares, 1e-6)))
