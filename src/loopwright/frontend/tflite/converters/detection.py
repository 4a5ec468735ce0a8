"""The custom operator at the end of detection networks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....relax import op
from ...graph.values import Value, literal
from ..context import TFLiteContext as Context
from ..reader import Operator
from .base import operator

_OPTIONS = {  # the options that are read, with their defaults
    "max_detections": None,
    "max_classes_per_detection": None,
    "detections_per_class": 100,
    "num_classes": None,
    "nms_score_threshold": None,
    "nms_iou_threshold": None,
    "y_scale": None,
    "x_scale": None,
    "h_scale": None,
    "w_scale": None,
    "use_regular_nms": False,
}


def _options(node: Operator) -> dict[str, Any]:
    """The options, a map in the format flexbuffers: keys are looked up, nothing is walked."""
    from flatbuffers import flexbuffers

    options = dict(_OPTIONS)
    table = flexbuffers.GetRoot(bytearray(node.custom)).AsMap
    keys = table.Keys
    for k in range(min(len(keys), 64)):
        if keys[k].AsKey in options:
            value: Any = table.Values[k]
            options[str(keys[k].AsKey)] = value.AsFloat if value.IsFloat else int(value.Value)
    missing = [name for name, value in options.items() if value is None]
    if missing:
        raise ValueError(explain("options of the operator are missing", got=", ".join(missing)))
    return options


@operator("TFLite_Detection_PostProcess")
def detections(cx: Context, node: Operator, codes: Value, scores: Value, anchors: Value) -> Any:
    """(boxes, classes, scores, their number) of the best boxes that overlap none that is better. Boxes
    are coded relative to anchors (y, x, height, width)."""
    o, options = cx.ops, _options(node)
    most, classes = int(options["max_detections"]), int(options["num_classes"])
    first = literal(scores.shape[2]) - classes
    scale = np.array([options[f"{c}_scale"] for c in "yxhw"], np.float32)
    where, size = (
        o.strided_slice(anchors, np.array([b]), np.array([b + 2]), np.array([1])) for b in (0, 2)
    )
    moved, grown = o.split(o.divide(codes, scale), axis=2, count=2)
    middle = o.add(o.multiply(moved, size), where)
    half = o.multiply(o.multiply(o.exp(grown), size), 0.5)
    boxes = o.concat(o.subtract(middle, half), o.add(middle, half), axis=2)
    if options["use_regular_nms"]:
        each = int(options["detections_per_class"])
        limits = float(options["nms_iou_threshold"]), float(options["nms_score_threshold"])
        selected = op.vision.regular_non_max_suppression(
            boxes.expr, scores.expr, each, most, classes, *limits
        )
        return [cx.value(cx.emit(selected)[k]) for k in range(4)]
    if options["max_classes_per_detection"] != 1:
        what = "max_classes_per_detection must be 1"
        raise ValueError(explain(what, got=options["max_classes_per_detection"]))
    return _best(cx, boxes, scores, options, most, first)


def _best(
    cx: Context, boxes: Value, scores: Value, options: dict[str, Any], most: int, first: int
) -> list[Any]:
    """Each box with its best class."""
    o = cx.ops
    named = o.strided_slice(scores, np.array([first]), np.array([2**31]), np.array([2]))
    best = o.max(named, [2])
    kinds = o.astype(o.argmax(named, axis=2), dtype="float32")
    # The threshold itself is enough.
    least = np.nextafter(np.float32(options["nms_score_threshold"]), np.float32(-np.inf))
    selected = cx.emit(
        op.vision.all_class_non_max_suppression(
            boxes.expr,
            o.expand_dims(best, np.array([1])).expr,
            cx.scalar(most, "int64"),
            cx.scalar(options["nms_iou_threshold"], "float32"),
            cx.scalar(least, "float32"),
            "onnx_exact",
        )
    )
    rows, count = cx.value(selected[0]), o.reshape(cx.value(selected[1]), np.array([1]))
    have = literal(rows.shape[0])
    if not isinstance(have, int):
        raise ValueError(explain("the number of boxes must be known", got=str(boxes.info)))
    chosen = o.strided_slice(rows, np.array([0, 2]), np.array([most, 3]), np.array([0, 1]))
    chosen = o.pad(chosen, np.array([0, 0, max(most - have, 0), 0]))
    inside = o.less(cx.value(cx.constant(np.arange(most))), count)

    def picked(v: Value) -> Any:
        part = o.take(v, o.reshape(chosen, np.array([most])), axis=1)
        mask = o.expand_dims(inside, np.arange(1, v.ndim - 1)) if v.ndim > 2 else inside
        return o.where(mask, part, 0.0)

    return [picked(boxes), picked(kinds), picked(best), o.astype(count, dtype="float32")]
