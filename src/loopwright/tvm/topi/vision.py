"""topi's operators on boxes and regions of images, over those of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import te, tir
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...te.tensor import Tensor
from .utils import simplify

_OPS = {name: OPERATORS[f"relax.vision.{name}"] for name in (
    "get_valid_counts", "non_max_suppression", "all_class_non_max_suppression",
    "regular_non_max_suppression", "multibox_prior", "multibox_transform_loc", "proposal",
    "roi_align", "roi_pool",
)}  # fmt: skip
regular_non_max_suppression = _OPS["regular_non_max_suppression"]
multibox_prior = _OPS["multibox_prior"]
multibox_transform_loc = _OPS["multibox_transform_loc"]
proposal = _OPS["proposal"]


def _number(value: PrimExpr | float, dtype: str) -> Any:
    """A limit as a scalar; tensors without axes stay."""
    is_value = isinstance(value, (te.Tensor, tir.PrimExpr))
    return value if is_value else te.const(value, dtype)


def get_valid_counts(
    data: Tensor, score_threshold: float = 0, id_index: int = 0, score_index: int = 1
) -> list[Tensor]:
    """The boxes with a score above the threshold, first: how many, the boxes, and their numbers."""
    least = _number(score_threshold, "float32")
    return _OPS["get_valid_counts"](data, least, id_index, score_index)


def non_max_suppression(
    data: Tensor, valid_count: Tensor, indices: Tensor, max_output_size: int = -1,
    iou_threshold: float = 0.5, force_suppress: bool = False, top_k: int = -1, coord_start: int = 2,
    score_index: int = 1, id_index: int = 0, return_indices: bool = True,
    invalid_to_bottom: bool = False,
) -> Any:  # fmt: skip
    """The boxes that no better one overlaps by the threshold: their numbers, or themselves."""
    limits = _number(max_output_size, "int32"), _number(iou_threshold, "float32")
    options = (force_suppress, top_k, coord_start, score_index, id_index)
    return _OPS["non_max_suppression"](
        data, valid_count, indices, *limits, *options, return_indices, invalid_to_bottom
    )


def all_class_non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: int, iou_threshold: float,
    score_threshold: float, output_format: str = "onnx",
) -> list[Tensor]:  # fmt: skip
    """For each class the boxes that no better one overlaps by the threshold."""
    most = _number(max_output_boxes_per_class, "int32")
    limits = (_number(v, "float32") for v in (iou_threshold, score_threshold))
    return _OPS["all_class_non_max_suppression"](boxes, scores, most, *limits, output_format)


def multibox_detection(
    cls_prob: Tensor, loc_pred: Tensor, anchor: Tensor, clip: bool = True, threshold: float = 0.01,
    nms_threshold: float = 0.5, force_suppress: bool = False,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2), nms_topk: int = -1,
) -> Tensor:  # fmt: skip
    """The boxes of `multibox_transform_loc` that no better one overlaps."""
    options = (clip, threshold, variances)
    boxes, count = _OPS["multibox_transform_loc"](cls_prob, loc_pred, anchor, *options)
    return non_max_suppression(
        boxes, count, count, -1, nms_threshold, force_suppress, nms_topk, return_indices=False
    )


_MODES = {b"avg": "avg", 0: "avg", b"max": "max", 1: "max"}


def _roi_align(layout: str) -> Callable[..., Tensor]:
    def roi_align(
        data: Tensor, rois: Tensor, pooled_size: Sequence[int], spatial_scale: float, mode: bytes,
        sample_ratio: int = -1,
    ) -> Tensor:  # fmt: skip
        size = [pooled_size] * 2 if isinstance(pooled_size, int) else list(pooled_size)
        kind = _MODES.get(mode, mode)
        return _OPS["roi_align"](data, rois, size, spatial_scale, sample_ratio, layout, kind)

    roi_align.__name__ = roi_align.__qualname__ = f"roi_align_{layout.lower()}"
    roi_align.__doc__ = f"The mean or greatest value of points in the cells of regions of {layout}."
    return roi_align


roi_align_nchw, roi_align_nhwc = map(_roi_align, ("NCHW", "NHWC"))


def roi_pool_nchw(data: Tensor, rois: Tensor, pooled_size: int, spatial_scale: float) -> Tensor:
    """The greatest value of the pixels in the cells of regions."""
    size = [pooled_size] * 2 if isinstance(pooled_size, int) else list(pooled_size)
    return _OPS["roi_pool"](data, rois, size, spatial_scale)


def reorg(data: Tensor, stride: int) -> Tensor:
    """The channels of an image NCHW spread over blocks of pixels, read on as an image of `stride ** 2`
    times the channels."""
    n, c, h, w = data.shape
    s, wide = stride, w // stride
    few, high = c // (s * s), h // s

    def pixel(b: PrimExpr, channel: PrimExpr, y: PrimExpr, x: PrimExpr) -> Any:
        # The element's number among (block row, block column, few, h, w), which is its place there.
        flat = (channel * high + y) * wide + x
        column, row = flat % w, flat // w % h
        source, block = flat // (w * h) % few, flat // (w * h * few)
        offset = ((source * h + row) * s + block // s) * (w * s) + column * s + block % s
        return data(b, offset // (h * w), offset // w % h, offset % w)

    shape = [n, c * s * s, high, wide]
    return te.compute([simplify(d) for d in shape], pixel, name="reorg", tag="injective")
