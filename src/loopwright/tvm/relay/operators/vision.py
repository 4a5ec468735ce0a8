"""Operators on boxes: anchors, suppression of those that overlap, regions of images."""

from __future__ import annotations

from typing import Any

from ....ops.core import FUSABLE, INJECTIVE
from . import layouts
from .core import REQUIRED, Input, R, builder, op, same
from .transform import dims_of

same("vision.multibox_prior", attrs="MultiBoxPriorAttrs")
same("vision.multibox_transform_loc", results=2, attrs="MultiBoxTransformLocAttrs")
same("vision.proposal", attrs="ProposalAttrs", iou_loss=("bool", REQUIRED))

# ---------------------------------------------------------------------- suppression

same(
    "vision.get_valid_counts", results=3, attrs="GetValidCountsAttrs",
    score_threshold=("InputFloat32", REQUIRED),
)  # fmt: skip
same(
    "vision.non_max_suppression", attrs="NonMaximumSuppressionAttrs",
    results=lambda attrs, args: 2 if attrs["return_indices"] else None,
    max_output_size=("InputInt32", -1), iou_threshold=("InputFloat32", 0.5),
)  # fmt: skip
same(
    "vision.all_class_non_max_suppression", attrs="AllClassNonMaximumSuppressionAttrs",
    results=lambda attrs, args: 2 if attrs["output_format"] == "onnx" else 3,
    max_output_boxes_per_class=("InputInt32", -1), iou_threshold=("InputFloat32", -1.0),
    score_threshold=("InputFloat32", -1.0),
)  # fmt: skip
same("vision.regular_non_max_suppression", results=4, attrs="RegularNonMaximumSuppressionAttrs")

# ---------------------------------------------------------------------- regions

_REGIONS = layouts.fixed(("layout", "NC"), "layout")

roi_align = same(
    "vision.roi_align", attrs="ROIAlignAttrs",
    params="data rois pooled_size spatial_scale sample_ratio layout mode", kind=FUSABLE, layout=_REGIONS,
)  # fmt: skip
roi_pool = same("vision.roi_pool", attrs="ROIPoolAttrs", layout=_REGIONS)

for _row in (roi_align, roi_pool):

    @_row.build
    def _(pooled_size: Any, **attrs: Any) -> dict[str, Any]:
        size = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
        return {"pooled_size": size, **attrs}


@op("vision.yolo_reorg", attrs="YoloReorgAttrs", kind=INJECTIVE)
def yolo_reorg(data: Input, stride: int) -> Any:
    """The channels of an image NCHW spread over blocks of pixels, read on as an image of
    `stride ** 2` times the channels."""
    bb, s = builder(), int(stride)
    n, c, h, w = dims_of(data)
    parts = bb.emit(R.reshape(data, [n, c // (s * s), h, s, w, s]))
    transposed = bb.emit(R.permute_dims(parts, [0, 3, 5, 1, 2, 4]))
    return R.reshape(transposed, [n, c * s * s, h // s, w // s])
