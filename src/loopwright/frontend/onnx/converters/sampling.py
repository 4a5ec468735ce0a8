"""Images read between pixels or by regions, boxes, and windows put together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ....relax.expr import ShapeExpr
from ...common import padded
from ...graph.operators.windows import with_bias
from ...graph.values import Value
from ..context import OnnxContext as Context
from ..reader import Node
from ..registry import converter
from .nn import padding_of, per_axis, windowed

_METHODS = {"linear": "bilinear", "cubic": "bicubic"}  # as they are called from opset 20 on


@converter("GridSample", 16)
def grid_sample(cx: Context, node: Node, x: Value, grid: Value) -> Any:
    mode = node.text("mode", "linear" if node.opset >= 20 else "bilinear")
    padding, corners = node.text("padding_mode", "zeros"), node.flag("align_corners")
    layout = "NCDHW" if x.ndim == 5 else "NCHW"
    first = cx.emit(op.permute_dims(grid.expr, [0, grid.ndim - 1, *range(1, grid.ndim - 1)]))
    method: Any = _METHODS.get(mode, mode)
    return op.image.grid_sample(x.expr, first, method, layout, padding, corners)


@converter("AffineGrid", 20)
def affine_grid(cx: Context, node: Node, theta: Value, size: Value) -> Any:
    extents = cx.integers(size, "size", dims=True)[2:]
    corners = node.flag("align_corners")
    first = cx.emit(op.image.affine_grid(theta.expr, ShapeExpr(extents), corners))
    rank = len(extents)
    return op.permute_dims(first, [0, *range(2, rank + 2), 1])


@converter("DeformConv", 19)
def deform_conv(
    cx: Context,
    node: Node,
    x: Value,
    weight: Value,
    offset: Value,
    bias: Value | None = None,
    mask: Value | None = None,
) -> Any:
    x, weight, _ = windowed(cx, node, x, weight)
    if x.ndim != 4:
        raise ValueError(explain("the input must be [N, C, H, W]", got=str(x.info)))
    strides, dilation = (per_axis(node, n, 2, [1, 1]) for n in ("strides", "dilations"))
    pads, group = padding_of(node, "pads", 4), node.integer("group", 1)
    inputs = (x.expr, offset.expr, weight.expr, None if mask is None else mask.expr)
    groups = (group, node.integer("offset_group", 1))
    out = op.nn.deform_conv2d(*inputs, strides, pads, dilation, *groups)
    return with_bias(cx, out, bias, 2)


_MOST_SAMPLES = 1000  # along each side of a bin; models have 2


@converter("RoiAlign", 10)
@converter("RoiAlign", 16)
def roi_align(cx: Context, node: Node, x: Value, rois: Value, images: Value) -> Any:
    modes = ("half_pixel", "output_half_pixel")
    transform = node.choice("coordinate_transformation_mode", modes) if node.opset >= 16 else ""
    number = op.reshape(op.astype(images.expr, str(rois.dtype)), ShapeExpr([rois.shape[0], 1]))
    regions = cx.emit(op.concat([cx.emit(number), rois.expr], 1))
    size = [node.integer(n, 1) for n in ("output_height", "output_width")]
    scale, ratio = node.real("spatial_scale", 1.0), node.integer("sampling_ratio", 0)
    if ratio > _MOST_SAMPLES:
        what = f"attribute sampling_ratio is at most {_MOST_SAMPLES:,}"
        raise ValueError(explain(what, got=ratio))
    mode, aligned = node.text("mode", "avg"), transform == "half_pixel"
    mode = "max_taps" if mode == "max" else mode
    return op.vision.roi_align(x.expr, regions, size, scale, ratio, "NCHW", mode, aligned)


@converter("MaxRoiPool")
def max_roi_pool(cx: Context, node: Node, x: Value, rois: Value) -> Any:
    size, kind = per_axis(node, "pooled_shape", 2), rois.dtype
    # Halves are rounded away from 0; column 0, the image's number, is truncated and not scaled.
    scale = np.array([1, *[node.real("spatial_scale", 1.0)] * 4], kind.numpy())
    scaled = cx.emit(op.multiply(rois.expr, cx.constant(scale)))
    halves = cx.constant(np.array([0, *[0.5] * 4], kind.numpy()))
    whole = op.floor(op.add(op.abs(scaled), halves))
    return op.vision.roi_pool(x.expr, op.multiply(op.sign(scaled), whole), size, 1.0)


@converter("NonMaxSuppression", 10)
def non_max_suppression(
    cx: Context,
    node: Node,
    boxes: Value,
    scores: Value,
    most: Value | None = None,
    overlap: Value | None = None,
    least: Value | None = None,
) -> Any:
    corners = boxes.expr
    if node.flag("center_point_box"):
        middle, size = (
            cx.emit(op.strided_slice(corners, [2], [k], [k + 2], assume_inbound=True))
            for k in (0, 2)
        )
        half = cx.emit(op.multiply(size, cx.scalar(0.5, boxes.dtype)))
        corners = cx.emit(op.concat([op.subtract(middle, half), op.add(middle, half)], 2))
    count = cx.scalar(0, "int64") if most is None else _first(cx, most)
    far = cx.scalar(0.0, "float32") if overlap is None else _first(cx, overlap)
    worst = cx.scalar(-np.inf, "float32") if least is None else _first(cx, least)
    choose = op.vision.all_class_non_max_suppression
    chosen = cx.emit(choose(corners, scores.expr, count, far, worst, "onnx_exact"))
    rows = cx.integers(cx.value(chosen[1]), "count", dims=True)
    return op.strided_slice(cx.emit(chosen[0]), [0], [0], rows, assume_inbound=True)


def _first(cx: Context, value: Value) -> Any:
    """A value of one element as a scalar."""
    return value.expr if value.ndim == 0 else cx.emit(op.reshape(value.expr, ShapeExpr([])))


@converter("Col2Im", 18)
def col2im(cx: Context, node: Node, x: Value, size: Value, block: Value) -> Any:
    extents = cx.integers(size, "image_shape", dims=True)
    window, rank = cx.integers(block, "block_shape", dims=True), len(extents)
    strides, dilation = (per_axis(node, n, rank, [1] * rank) for n in ("strides", "dilations"))
    pads = padding_of(node, "pads", 2 * rank)
    args = (x.expr, ShapeExpr(extents), ShapeExpr(window))
    return op.image.col2im(*args, strides, pads, dilation)


@converter("MaxUnpool", 9)
def max_unpool(cx: Context, node: Node, x: Value, indices: Value, size: Value | None = None) -> Any:
    rank = x.ndim - 2
    kernel, strides = (
        per_axis(node, "kernel_shape", rank),
        per_axis(node, "strides", rank, [1] * rank),
    )
    pads = padding_of(node, "pads", 2 * rank)
    inner = [
        (d - 1) * strides[k] + (kernel[k] - pads[k] - pads[rank + k])
        for k, d in enumerate(x.shape[2:])
    ]
    dims = [cx.simplify(d) for d in (*x.shape[:2], *inner)]
    total = cx.product(dims)
    empty = cx.emit(op.zeros(ShapeExpr([total]), str(x.dtype)))
    flat = [cx.emit(op.reshape(v.expr, ShapeExpr([cx.product(x.shape)]))) for v in (indices, x)]
    whole = cx.emit(op.scatter_elements(empty, *flat, 0, "update"))
    out = cx.emit(op.reshape(whole, ShapeExpr(dims)))
    if size is None:
        return out
    extents = cx.integers(size, "output_shape", dims=True)
    more = [cx.simplify(w - d) for w, d in zip(extents, dims, strict=True)]
    return padded(out, [0] * len(more), more)
