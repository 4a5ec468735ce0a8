"""Operators on images: resizing, sampling, boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....ops.resizing import Style
from ....relax import op
from ....relax.expr import Expr
from ...graph.operators.images import factors_of, resized
from ..context import Term
from ..context import TorchContext as Context
from ..model import TorchNode as Node
from .table import aten

NEAREST = Style("nearest_neighbor", "asymmetric", "floor")


def _resized(
    cx: Context, node: Node, x: Term, style: Style, scales: Sequence[float | None] | None
) -> Term:
    axes, extents = [*range(2, x.ndim)], cx.dims(node.value)[2:]
    whole = scales is not None and all(isinstance(s, float) for s in scales)
    factors = list(scales) if scales is not None and whole else factors_of(cx, x, axes, extents)
    return cx.tensor(resized(cx, x, axes, factors, extents, style))


@aten("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d")
def upsample_nearest(cx: Context, node: Node, x: Term, size: object, *scales: float | None) -> Term:
    return _resized(cx, node, x, NEAREST, scales or None)


@aten("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")
def upsample(
    cx: Context, node: Node, x: Term, size: object, align_corners: bool, *scales: float | None
) -> Term:
    style = smooth_style(node, align_corners)
    return _resized(cx, node, x, style, None if align_corners else scales or None)


def smooth_style(node: Node, corners: bool) -> Style:
    method = "cubic" if "cubic" in node.op_type else "linear"
    return Style(method, "align_corners" if corners else "half_pixel")


@aten("upsample_nearest2d.vec")
def upsample_nearest_by(
    cx: Context, node: Node, x: Term, size: object, scales: list[float] | None
) -> Term:
    return upsample_nearest(cx, node, x, size, *(scales or ()))


@aten("upsample_bilinear2d.vec")
def upsample_by(
    cx: Context, node: Node, x: Term, size: object, align_corners: bool, scales: list[float] | None
) -> Term:
    return upsample(cx, node, x, size, align_corners, *(scales or ()))


@aten("torchvision.deform_conv2d.default")
def deform_conv2d(
    cx: Context, node: Node, x: Term, weight: Term, offset: Term, mask: Term, bias: Term,
    *more: Any,
) -> Term:  # fmt: skip
    strides, (down, right), dilation = more[:2], more[2:4], more[4:6]
    groups, offset_groups, masked = more[6:]
    factors = mask.expr if masked else None
    sides = (strides, (down, right, down, right), dilation)
    out = op.nn.deform_conv2d(
        x.expr, offset.expr, weight.expr, factors, *sides, groups, offset_groups
    )
    return cx.value(out) + bias.expand_dims([1, 2])


@aten("torchvision.nms.default")
def nms(cx: Context, node: Node, boxes: Term, scores: Term, threshold: float) -> Term:
    """The indices of the boxes that no better one overlaps by more than a part, the best first."""
    count = boxes.shape[0]
    corners, values = boxes.expand_dims([0]), scores.expand_dims([0, 1])
    limits = (
        cx.tensor(count, "int64"),
        cx.tensor(threshold, "float32"),
        cx.tensor(-math.inf, "float32"),
    )
    choose = op.vision.all_class_non_max_suppression
    chosen = cx.emit(choose(corners.expr, values.expr, *(v.expr for v in limits), "onnx_exact"))
    rows = cx.integers(cx.value(chosen[1]), "count", dims=True)[0]
    best = cx.part(cx.value(chosen[0]), 0, 0, rows)
    return cx.part(best, 1, 2, 3).squeeze([1])


@aten("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    cx: Context, node: Node, x: Term, grid: Term, mode: int, padding: int, align_corners: bool
) -> Expr:
    method = ("bilinear", "nearest", "bicubic")[mode]
    outside = ("zeros", "border", "reflection")[padding]
    where = grid.permute_dims([0, grid.ndim - 1, *range(1, grid.ndim - 1)])
    layout = "NCHW" if x.ndim == 4 else "NCDHW"
    return op.image.grid_sample(x.expr, where.expr, method, layout, outside, align_corners)
