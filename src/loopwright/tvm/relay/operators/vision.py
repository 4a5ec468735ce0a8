"""Operators on boxes: anchors, suppression of those that overlap, regions of images."""

from __future__ import annotations

from typing import Any

from .common import expression, shape_of, whole
from .core import Input, R, Row, builder, op, view


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(float(getattr(v, "value", v)) for v in values)


@op("vision.multibox_prior", attrs="MultiBoxPriorAttrs")
def multibox_prior(
    data: Input,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
    clip: bool = False,
) -> Any:
    """Boxes of sizes and ratios around the pixels of an image."""
    options = map(_floats, (sizes, ratios, steps, offsets))
    return R.vision.multibox_prior(data, *options, bool(clip))


@op("vision.multibox_transform_loc", results=2, attrs="MultiBoxTransformLocAttrs")
def multibox_transform_loc(
    cls_prob: Input,
    loc_pred: Input,
    anchor: Input,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> Any:
    """The boxes of the most probable classes, moved from their anchors, and how many there are."""
    options = (bool(clip), float(threshold), _floats(variances), bool(keep_background))
    return R.vision.multibox_transform_loc(cls_prob, loc_pred, anchor, *options)


# ---------------------------------------------------------------------- suppression


@op("vision.get_valid_counts", results=3, attrs="GetValidCountsAttrs", view=False)
def get_valid_counts(
    data: Input, score_threshold: Input, id_index: int = 0, score_index: int = 1
) -> Any:
    """The boxes with a score above a threshold, first: how many, the boxes, their numbers."""
    return R.vision.get_valid_counts(data, score_threshold, id_index, score_index)


@view("vision.get_valid_counts")
def _get_valid_counts(
    data: Any, score_threshold: Any, id_index: int = 0, score_index: int = 1
) -> Any:
    """The boxes with a score above a threshold, which may be an expression."""
    least = expression(score_threshold, "float32")
    return get_valid_counts.builder(data, least, id_index, score_index)


def _of_indices(attrs: dict[str, Any], args: Any) -> int | None:
    return 2 if attrs["return_indices"] else None


@op(
    "vision.non_max_suppression",
    results=_of_indices,
    attrs="NonMaximumSuppressionAttrs",
    view=False,
)
def non_max_suppression(
    data: Input, valid_count: Input, indices: Input, max_output_size: Input, iou_threshold: Input,
    force_suppress: bool = False, top_k: int = -1, coord_start: int = 2, score_index: int = 1,
    id_index: int = 0, return_indices: bool = True, invalid_to_bottom: bool = False,
) -> Any:  # fmt: skip
    """The boxes that no better one overlaps by a threshold: their numbers, or themselves."""
    options = (bool(force_suppress), top_k, coord_start, score_index, id_index)
    return R.vision.non_max_suppression(
        data, valid_count, indices, max_output_size, iou_threshold, *options,
        bool(return_indices), bool(invalid_to_bottom),
    )  # fmt: skip


@view("vision.non_max_suppression")
def _non_max_suppression(
    data: Any, valid_count: Any, indices: Any, max_output_size: Any = -1, iou_threshold: Any = 0.5,
    force_suppress: bool = False, top_k: int = -1, coord_start: int = 2, score_index: int = 1,
    id_index: int = 0, return_indices: bool = True, invalid_to_bottom: bool = False,
) -> Any:  # fmt: skip
    """The boxes that no better one overlaps; the limits may be expressions."""
    limits = expression(max_output_size, "int32"), expression(iou_threshold, "float32")
    options = (force_suppress, top_k, coord_start, score_index, id_index)
    return non_max_suppression.builder(
        data, valid_count, indices, *limits, *options, return_indices, invalid_to_bottom
    )


def _of_format(attrs: dict[str, Any], args: Any) -> int:
    return 2 if attrs["output_format"] == "onnx" else 3


@op(
    "vision.all_class_non_max_suppression",
    results=_of_format,
    attrs="AllClassNonMaximumSuppressionAttrs",
    view=False,
)
def all_class_non_max_suppression(
    boxes: Input,
    scores: Input,
    max_output_boxes_per_class: Input,
    iou_threshold: Input,
    score_threshold: Input,
    output_format: str = "onnx",
) -> Any:
    """For each class the boxes that no better one overlaps by a threshold."""
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    return R.vision.all_class_non_max_suppression(boxes, scores, *limits, output_format)


@view("vision.all_class_non_max_suppression")
def _all_class_non_max_suppression(
    boxes: Input,
    scores: Any,
    max_output_boxes_per_class: Any = -1,
    iou_threshold: Any = -1.0,
    score_threshold: Any = -1.0,
    output_format: str = "onnx",
) -> Any:
    """For each class the boxes that no better one overlaps; the limits may be expressions."""
    most = expression(max_output_boxes_per_class, "int32")
    limits = (expression(v, "float32") for v in (iou_threshold, score_threshold))
    return all_class_non_max_suppression.builder(boxes, scores, most, *limits, output_format)


@op("vision.regular_non_max_suppression", results=4, attrs="RegularNonMaximumSuppressionAttrs")
def regular_non_max_suppression(
    boxes: Input,
    scores: Input,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> Any:
    """The best boxes of all classes that no better one of their class overlaps."""
    limits = (max_detections_per_class, max_detections, num_classes)
    thresholds = float(iou_threshold), float(score_threshold)
    return R.vision.regular_non_max_suppression(boxes, scores, *limits, *thresholds)


# ---------------------------------------------------------------------- regions


@op("vision.roi_align", attrs="ROIAlignAttrs")
def roi_align(
    data: Input,
    rois: Input,
    pooled_size: Any,
    spatial_scale: float,
    sample_ratio: int = -1,
    layout: str = "NCHW",
    mode: str = "avg",
) -> Any:
    """The mean or greatest value of points in the cells of regions."""
    size = [whole(s) for s in pooled_size]
    options = (float(spatial_scale), sample_ratio, layout, mode)
    return R.vision.roi_align(data, rois, size, *options)


@op("vision.roi_pool", attrs="ROIPoolAttrs")
def roi_pool(
    data: Input, rois: Input, pooled_size: Any, spatial_scale: float, layout: str = "NCHW"
) -> Any:
    """The greatest value of the pixels in the cells of regions."""
    size = [whole(s) for s in pooled_size]
    return R.vision.roi_pool(data, rois, size, float(spatial_scale), layout)


def _square(row: Row) -> None:
    @row.build
    def _(**attrs: Any) -> dict[str, Any]:
        size = attrs["pooled_size"]
        attrs["pooled_size"] = (size, size) if isinstance(size, int) else size
        return attrs


_square(roi_align)
_square(roi_pool)


@op("vision.proposal", attrs="ProposalAttrs")
def proposal(
    cls_prob: Input, bbox_pred: Input, im_info: Input, scales: Any, ratios: Any,
    feature_stride: int, threshold: float, rpn_pre_nms_top_n: int, rpn_post_nms_top_n: int,
    rpn_min_size: int, iou_loss: bool,
) -> Any:  # fmt: skip
    """The best boxes of all anchors, moved by predictions, that do not overlap."""
    options = (feature_stride, float(threshold), rpn_pre_nms_top_n, rpn_post_nms_top_n)
    return R.vision.proposal(
        cls_prob, bbox_pred, im_info, _floats(scales), _floats(ratios), *options, rpn_min_size,
        bool(iou_loss),
    )  # fmt: skip


@op("vision.yolo_reorg", attrs="YoloReorgAttrs")
def yolo_reorg(data: Input, stride: int) -> Any:
    """The channels of an image NCHW spread over blocks of pixels, read on as an image of
    `stride ** 2` times the channels."""
    bb, s = builder(), int(stride)
    n, c, h, w = shape_of(data)
    parts = bb.emit(R.reshape(data, [n, c // (s * s), h, s, w, s]))
    transposed = bb.emit(R.permute_dims(parts, [0, 3, 5, 1, 2, 4]))
    return R.reshape(transposed, [n, c * s * s, h // s, w // s])
