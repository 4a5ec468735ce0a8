"""Detections: boxes of several classes, those chosen by score that overlap little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const
from ..tir.ir_builder import IRBuilder
from .core import case, op
from .extents import check_columns, extents_of
from .manipulate import transpose
from .overlap import (
    Numbers,
    corners,
    fill,
    greedy,
    numbers_of,
    overlap,
    rows,
    some_boxes,
    tensors_of,
)
from .params import Tensor
from .sort import argsort, sorted_indices
from .statements import long, written


def _above(ib: IRBuilder, count: PrimExpr, above: Callable[..., Any]) -> Any:
    """The number of leading candidates that are above a threshold, of those in order."""
    chosen = ib.allocate("int64", 1, "chosen")
    chosen[0] = long(0)
    with rows(ib, count, "j") as j, ib.if_scope(above(j)):
        chosen[0] = j + 1
    return chosen[0]


_FORMATS = ("onnx", "onnx_exact", "tensorflow")


@op("relax.vision.all_class_non_max_suppression", alone=True, choices={"output_format": _FORMATS})
def all_class_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Tensor,
    iou_threshold: Tensor,
    score_threshold: Tensor,
    output_format: str = "onnx",
):
    """For each class of each batch the boxes (batch, boxes, 4), by score (batch, classes, boxes), that
    are above the score's threshold and do not overlap a better one by `iou_threshold` or more; at most
    `max_output_boxes_per_class` unless that is not positive.

    "onnx": rows (batch, class, box), with zeros after the last one, and the number of rows;
    "onnx_exact" the same, but as ONNX says: an overlap equal to the threshold is allowed, and a limit that
    is not positive leaves nothing;
    "tensorflow": for each batch rows (class, box), their scores, and the number of rows."""
    batch, count, _ = extents_of(boxes, "boxes", None, None, 4)
    _, classes, _ = extents_of(scores, "scores", batch, None, count)
    order = argsort(scores, axis=2, descending=True, dtype="int32")
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    onnx, exact = output_format != "tensorflow", output_format == "onnx_exact"
    kind = boxes.dtype

    def write(ib, box_of, score_of, by_score, *others):
        scalars = others[: -2 if onnx else -3]
        out, total = others[-2 if onnx else -3], others[-1]
        most, least, worst = numbers_of(limits, list(scalars))
        start = ib.allocate("int64", 1, "start")
        if onnx:
            start[0] = long(0)
        with rows(ib, batch, "b") as b:
            if not onnx:
                start[0] = long(0)
            with rows(ib, classes, "c") as c:
                box_at = lambda j: by_score[b, c, j]  # noqa: E731
                above = lambda j: score_of[b, c, box_at(j)] > cast(scores.dtype, worst)  # noqa: E731
                candidates = _above(ib, count, above)

                def keep(j, n):
                    at = start[0] + n
                    if onnx:
                        for k, value in enumerate((b, c, box_at(j))):
                            out[at, k] = cast("int64", value)
                        return
                    out[b, at, 0] = cast("int64", c)
                    out[b, at, 1] = cast("int64", box_at(j))
                    others[-2][b, at] = score_of[b, c, box_at(j)]

                chosen = greedy(
                    ib,
                    (candidates, count),
                    tir.if_then_else(
                        most > 0, cast("int64", most), long(0) if exact else candidates
                    ),
                    lambda j: corners(lambda n: box_of[b, box_at(j), n]),
                    lambda shared: (
                        shared <= cast(kind, least) if exact else shared < cast(kind, least)
                    ),
                    keep,
                    good=above,
                )
                start[0] = start[0] + chosen[0]
            if not onnx:
                total[b] = start[0]
                with rows(ib, classes * count - start[0], "r") as r:
                    fill(ib, out, (b, start[0] + r), long(2), long(0))
                    others[-2][b, start[0] + r] = const(0, scores.dtype)
        if onnx:
            total[0] = start[0]
            with rows(ib, batch * classes * count - start[0], "r") as r:
                fill(ib, out, (start[0] + r,), long(3), long(0))

    inputs = [boxes, scores, order, *tensors_of(*limits)]
    name = "all_class_non_max_suppression"
    if onnx:
        shapes = [(batch * classes * count, long(3)), (long(1),)]
        return list(written(shapes, inputs, write, ["int64", "int64"], name))
    shapes = [(batch, classes * count, long(2)), (batch, classes * count), (batch,)]
    return list(written(shapes, inputs, write, ["int64", scores.dtype, "int64"], name))


def _chosen(boxes, scores, most, far, above) -> list[int]:
    """The numbers of the boxes (lower ends, upper ends) that are chosen greedily."""
    chosen: list[int] = []
    for j in sorted_indices(scores, 0, descending=True):
        apart = (far(overlap(list(boxes[k]), list(boxes[j]), kit=Numbers)) for k in chosen)
        if len(chosen) < most and above(scores[j]) and all(apart):
            chosen.append(int(j))
    return chosen


@all_class_non_max_suppression.numpy
def _(boxes, scores, most, least, worst, output_format="onnx"):
    batch, classes, count = scores.shape
    exact = output_format == "onnx_exact"
    limit = int(most) if most > 0 else 0 if exact else count
    far = lambda s: s <= least if exact else s < least  # noqa: E731
    sides = np.stack(corners(lambda n: boxes[..., n], Numbers), -1)
    chosen = [
        [(b, c, j) for c in range(classes) for j in _chosen(
            sides[b], scores[b, c], limit, far, lambda s: s > worst)]
        for b in range(batch)
    ]  # fmt: skip
    if output_format != "tensorflow":
        flat = [row for rows_ in chosen for row in rows_]
        out = np.zeros((batch * classes * count, 3), np.int64)
        out[: len(flat)] = np.reshape(flat, (-1, 3))
        return out, np.array([len(flat)], np.int64)
    out, values = (
        np.zeros((batch, classes * count, 2), np.int64),
        np.zeros((batch, classes * count), scores.dtype),
    )
    for b, rows_ in enumerate(chosen):
        for n, (_, c, j) in enumerate(rows_):
            out[b, n], values[b, n] = (c, j), scores[b, c, j]
    return out, values, np.array([len(rows_) for rows_ in chosen], np.int64)


_BOXES = some_boxes(2, 8)
_SCORES = (np.random.default_rng(1).permutation(48).reshape(2, 3, 8) / 48).astype(np.float32)
_LIMITS = (np.array(3, np.int32), np.array(0.21, np.float32), np.array(0.3, np.float32))
all_class_non_max_suppression.samples(
    case(_BOXES, _SCORES, *_LIMITS),
    case(_BOXES, _SCORES, *_LIMITS, output_format="tensorflow"),
    case(_BOXES[:0], _SCORES[:0], *_LIMITS, output_format="tensorflow"),
    case(_BOXES, _SCORES, np.array(-1, np.int32), *_LIMITS[1:]),
    case(_BOXES, _SCORES, *_LIMITS, output_format="onnx_exact"),
    case(_BOXES, _SCORES, np.array(0, np.int64), *_LIMITS[1:], output_format="onnx_exact"),
)


@op("relax.vision.regular_non_max_suppression", alone=True)
def regular_non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
):
    """The `max_detections` best of all classes' boxes (batch, boxes, 4): for each class those with a
    score (batch, boxes, classes, before them the background's) of the threshold or more that do not
    overlap a better one by more than `iou_threshold`. Returns boxes, classes, scores, and their number."""
    batch, count, _ = extents_of(boxes, "boxes", None, None, 4)
    _, _, with_background = extents_of(scores, "scores", batch, count, None)
    check_columns(with_background, last_class=num_classes - 1)
    most, kind = long(max_detections), scores.dtype
    by_class = transpose(scores, [0, 2, 1])
    order = argsort(by_class, axis=2, descending=True, dtype="int32")

    def write(ib, box_of, score_of, by_score, out, classes, values, total):
        size, slot = ib.allocate("int64", 1, "held"), ib.allocate("int64", 1, "place")
        with rows(ib, batch, "b") as b:
            size[0] = long(0)
            with rows(ib, most, "r") as r:
                fill(ib, out, (b, r), long(4), const(0, boxes.dtype))
                classes[b, r] = const(0, "float32")
                values[b, r] = const(0, kind)
            with rows(ib, long(num_classes), "c") as c:
                column = c + with_background - num_classes
                number = lambda j: by_score[b, column, j]  # noqa: E731
                score = lambda j: score_of[b, number(j), column]  # noqa: E731
                above = lambda j: score(j) >= const(score_threshold, kind)  # noqa: E731

                def insert(j, n):
                    """Among those kept so far, after those that are as good."""
                    candidate = ib.let("mine", score(j))
                    better = tir.any(size[0] < most, values[b, most - 1] < candidate)
                    with ib.if_scope(better):
                        size[0] = tir.min(size[0] + 1, most)
                        slot[0] = size[0] - 1
                        before = tir.max(slot[0] - 1, long(0))
                        behind = tir.all(slot[0] > 0, values[b, before] < candidate)
                        with ib.while_loop(behind):
                            for k in range(4):
                                out[b, slot[0], k] = out[b, slot[0] - 1, k]
                            classes[b, slot[0]] = classes[b, slot[0] - 1]
                            values[b, slot[0]] = values[b, slot[0] - 1]
                            slot[0] = slot[0] - 1
                        for k in range(4):
                            out[b, slot[0], k] = box_of[b, number(j), k]
                        classes[b, slot[0]] = cast("float32", c)
                        values[b, slot[0]] = candidate

                greedy(
                    ib,
                    (_above(ib, count, above), count),
                    long(max_detections_per_class),
                    lambda j: [box_of[b, number(j), n] for n in range(4)],
                    lambda shared: shared <= const(iou_threshold, boxes.dtype),
                    insert,
                    good=above,
                )
            total[b] = cast("int32", size[0])

    shapes = [(batch, most, long(4)), (batch, most), (batch, most), (batch,)]
    kinds = [boxes.dtype, "float32", kind, "int32"]
    inputs = [boxes, scores, order]
    return list(written(shapes, inputs, write, kinds, "regular_non_max_suppression"))


@regular_non_max_suppression.numpy
def _(boxes, scores, max_detections_per_class, max_detections, num_classes, **thresholds):
    per_class, most = max_detections_per_class, max_detections
    least, worst = thresholds["iou_threshold"], thresholds["score_threshold"]
    batch, _, wide = scores.shape
    out, classes = np.zeros((batch, most, 4), boxes.dtype), np.zeros((batch, most), np.float32)
    values, total = np.zeros((batch, most), scores.dtype), np.zeros(batch, np.int32)
    for b in range(batch):
        candidates = []
        for c in range(num_classes):
            column = scores[b, :, c + wide - num_classes]
            chosen = _chosen(
                boxes[b], column, per_class, lambda s: s <= least, lambda s: s >= worst
            )
            candidates += [(column[j], c, j) for j in chosen]
        candidates.sort(key=lambda row: -row[0])
        total[b] = min(len(candidates), most)
        for n, (value, c, j) in enumerate(candidates[:most]):
            out[b, n], classes[b, n], values[b, n] = boxes[b, j], c, value
    return out, classes, values, total


_OPTIONS: dict[str, Any] = {"num_classes": 2, "iou_threshold": 0.21, "score_threshold": 0.3}
_WIDE = np.ascontiguousarray(_SCORES.transpose(0, 2, 1))
regular_non_max_suppression.samples(
    case(_BOXES, _WIDE, max_detections_per_class=3, max_detections=4, **_OPTIONS),
    case(_BOXES, _WIDE, max_detections_per_class=9, max_detections=12, **_OPTIONS),
    # The second box shares half of the first, which is not more than the threshold; the last score is its own.
    case(
        np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 1, 0.75], [0, 0, 0.5, 0.5]]], np.float32),
        np.array([[[0.75], [0.5], [0.625], [0.25]]], np.float32),
        max_detections_per_class=4,
        max_detections=4,
        num_classes=1,
        iou_threshold=0.5,
        score_threshold=0.25,
    ),
)
