"""Operators on images: resizing, sampling, boxes."""

from __future__ import annotations

import math
from typing import Any

from ....ops.resizing import Style
from ...graph.operators.images import factors_of, resized
from ..context import Term, op
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten

NEAREST = Style("nearest_neighbor", "asymmetric", "floor")


def smooth_style(node: Node, corners: bool) -> Style:
    method = "cubic" if "cubic" in node.op_type else "linear"
    return Style(method, "align_corners" if corners else "half_pixel")


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_nearest2d.vec",
      "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d",
      "upsample_bilinear2d.vec")  # fmt: skip
def upsample(cx: Context, node: Node, x: Term, size: object, *more: Any) -> Term:
    """more: whether corners are aligned, of all but the nearest ones; the scale of each axis, or all in a list."""
    style = NEAREST
    if "nearest" not in node.op_type:
        style, more = smooth_style(node, more[0]), more[1:]
    scales = more[0] if node.op_type.endswith(".vec") else more
    axes, extents = [*range(2, x.ndim)], cx.dims(node.value)[2:]
    by_scale = scales and None not in scales and style.coordinates != "align_corners"
    factors = [*scales] if by_scale else factors_of(cx, x, axes, extents)
    return cx.tensor(resized(cx, x, axes, factors, extents, style))


@aten("torchvision.deform_conv2d.default")
def deform_conv2d(
    cx: Context, node: Node, x: Term, weight: Term, offset: Term, mask: Term, bias: Term, *more: Any
) -> Term:  # fmt: skip
    strides, (down, right), dilation = more[:2], more[2:4], more[4:6]
    groups, offset_groups, masked = more[6:]
    sides = (strides, (down, right, down, right), dilation)
    factors = mask if masked else None
    out = op.nn.deform_conv2d(x, offset, weight, factors, *sides, groups, offset_groups)
    return out + bias.expand_dims([1, 2])


@aten("torchvision.nms.default")
def nms(cx: Context, node: Node, boxes: Term, scores: Term, threshold: float) -> Term:
    """The indices of the boxes that no better one overlaps by more than a part, the best first."""
    corners, values = boxes.expand_dims([0]), scores.expand_dims([0, 1])
    limits = (cx.tensor(v, "float32") for v in (threshold, -math.inf))
    count = cx.tensor(boxes.shape[0], "int64")
    choose = op.vision.all_class_non_max_suppression
    chosen, number, *_ = choose(corners, values, count, *limits, "onnx_exact")
    best = cx.part(chosen, 0, 0, cx.integers(number, "count", dims=True)[0])
    return cx.part(best, 1, 2, 3).squeeze([1])


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    cx: Context, node: Node, x: Term, grid: Term, mode: int, padding: int, align_corners: bool
) -> Term:
    method = ("bilinear", "nearest", "bicubic")[mode]
    outside = ("zeros", "border", "reflection")[padding]
    where = grid.permute_dims([0, grid.ndim - 1, *range(1, grid.ndim - 1)])
    layout = "NCHW" if x.ndim == 4 else "NCDHW"
    return op.image.grid_sample(x, where, method, layout, outside, align_corners)
