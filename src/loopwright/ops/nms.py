"""Boxes with scores: those above a threshold, and those that no better one overlaps."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, infimum
from .core import Case, case, op
from .extents import check_columns, extents_of
from .overlap import (
    Numbers,
    bound_box,
    corners,
    fill,
    numbers_of,
    overlap,
    rows,
    some_boxes,
    tensors_of,
)
from .params import Tensor
from .sort import argsort, sorted_indices
from .statements import long, loops, written

# ---------------------------------------------------------------------- candidates


@op("relax.vision.get_valid_counts", alone=True)
def get_valid_counts(
    data: Tensor, score_threshold: Tensor, id_index: int = 0, score_index: int = 1
):
    """The boxes with a score above the threshold (and a class of 0 or more), first: how many, the
    boxes, and their numbers; the rest is -1."""
    batch, count, size = extents_of(data, "data", None, None, None)
    check_columns(size, score_index=score_index, id_index=max(id_index, 0))
    none = const(-1, data.dtype)

    def write(ib, x, *others):
        *scalars, valid, out, indices = others
        (least,) = numbers_of((score_threshold,), scalars)
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [batch], parallel=True)
            count_of = ib.allocate("int64", 1, "kept")
            count_of[0] = long(0)
            with rows(ib, count, "j") as j:
                chosen = x[i, j, score_index] > cast(data.dtype, least)
                if id_index >= 0:
                    chosen = tir.all(chosen, x[i, j, id_index] >= const(0, data.dtype))
                with ib.if_scope(chosen):
                    with rows(ib, size, "k") as k:
                        out[i, count_of[0], k] = x[i, j, k]
                    indices[i, count_of[0]] = cast("int32", j)
                    count_of[0] = count_of[0] + 1
            valid[i] = cast("int32", count_of[0])
            with rows(ib, count - count_of[0], "j") as j:
                fill(ib, out, (i, count_of[0] + j), size, none)
                indices[i, count_of[0] + j] = const(-1, "int32")

    shapes, kinds = [(batch,), data.shape, (batch, count)], ["int32", data.dtype, "int32"]
    inputs = [data, *tensors_of(score_threshold)]
    return list(written(shapes, inputs, write, kinds, "get_valid_counts"))


@get_valid_counts.numpy
def _(data, score_threshold, id_index=0, score_index=1):
    valid = np.zeros(len(data), np.int32)
    out, indices = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for i, some in enumerate(data):
        chosen = some[:, score_index] > score_threshold
        if id_index >= 0:
            chosen &= some[:, id_index] >= 0
        valid[i] = chosen.sum()
        out[i, : valid[i]], indices[i, : valid[i]] = some[chosen], np.flatnonzero(chosen)
    return valid, out, indices


def _scored(batch: int, count: int) -> np.ndarray:
    """Rows (class, score, box) with different scores."""
    rng = np.random.default_rng((batch, count))
    scores = rng.permutation(batch * count).reshape(batch, count, 1) / (batch * count) - 0.1
    classes = rng.integers(-1, 2, (batch, count, 1))
    return np.concatenate([classes, scores, some_boxes(batch, count)], -1).astype(np.float32)


_SCORED = _scored(2, 9)
_THRESHOLD = np.array(0.2, np.float32)
get_valid_counts.samples(case(_SCORED, _THRESHOLD), case(_SCORED, _THRESHOLD, id_index=-1))

# ---------------------------------------------------------------------- suppression


@dataclass(frozen=True)
class _Boxes:
    """The results for a batch `i`, in a builder of statements: boxes, of `size` columns each, and their numbers among
    the inputs; all are -1 for a box that is suppressed."""

    ib: Any
    i: PrimExpr
    boxes: Any
    numbers: Any
    size: PrimExpr
    score_index: int
    id_index: int
    coord_start: int

    def copy(self, j, source, k):
        """Let box j be box k of `source`."""
        with rows(self.ib, self.size, "f") as f:
            self.boxes[self.i, j, f] = source[self.i, k, f]

    def drop(self, j):
        """Suppress a box."""
        fill(self.ib, self.boxes, (self.i, j), self.size, const(-1, self.boxes.dtype))
        self.numbers[self.i, j] = const(-1, "int32")

    def corners(self, j):
        """The ends of a box along both axes."""
        return corners(lambda n: self.boxes[self.i, j, self.coord_start + n])

    def suppress(self, valid, most, least, force):
        """Drop each of the first `valid` boxes that overlaps a better one by `least` or more, and those after `most`
        others. force: also boxes of other classes."""
        ib, i, boxes = self.ib, self.i, self.boxes
        zero = const(0, boxes.dtype)
        selected, alive = ib.allocate("int32", 1, "found"), ib.allocate("int32", 1, "alive")
        selected[0] = const(0, "int32")
        with rows(ib, valid, "j") as j:
            with ib.if_scope(selected[0].equal(most)):
                self.drop(j)
            with ib.else_scope(), ib.if_scope(boxes[i, j, self.score_index] > zero):
                alive[0] = const(1, "int32")
                candidate = bound_box(ib, self.corners(j))
                with rows(ib, j, "k") as k:
                    rival = [alive[0] > 0, boxes[i, k, self.score_index] > zero]
                    if self.id_index >= 0:
                        rival.append(boxes[i, k, self.id_index] >= zero)
                        if not force:
                            rival.append(
                                boxes[i, j, self.id_index].equal(boxes[i, k, self.id_index])
                            )
                    with ib.if_scope(tir.all(*rival)):
                        shared = overlap(candidate, bound_box(ib, self.corners(k)))
                        with ib.if_scope(shared >= least):
                            alive[0] = const(0, "int32")
                with ib.if_scope(alive[0] > 0):
                    selected[0] = selected[0] + 1
                with ib.else_scope():
                    self.drop(j)

    def pack_numbers(self, count, names, at):
        """Let the first numbers be `names` of the boxes that are not suppressed; at[0]: their count, from 0 on."""
        with rows(self.ib, count, "j") as j:
            number = self.ib.let("place", self.numbers[self.i, j])
            self.numbers[self.i, j] = const(-1, "int32")
            with self.ib.if_scope(number >= 0):
                self.numbers[self.i, at[0]] = names[self.i, number]
                at[0] = at[0] + 1

    def pack(self, count, at):
        """Move the boxes that are not suppressed to the front; at[0]: their count, from 0 on."""
        with rows(self.ib, count, "j") as j:
            with self.ib.if_scope(self.boxes[self.i, j, 0] >= const(0, self.boxes.dtype)):
                self.copy(at[0], self.boxes, j)
                at[0] = at[0] + 1
            with self.ib.if_scope(j >= at[0]):
                fill(self.ib, self.boxes, (self.i, j), self.size, const(-1, self.boxes.dtype))


@op("relax.vision.non_max_suppression", alone=True)
def non_max_suppression(
    data: Tensor, valid_count: Tensor, indices: Tensor, max_output_size: Tensor,
    iou_threshold: Tensor, force_suppress: bool = False, top_k: int = -1, coord_start: int = 2,
    score_index: int = 1, id_index: int = 0, return_indices: bool = True,
    invalid_to_bottom: bool = False,
):  # fmt: skip
    """Of each batch's first `valid_count` boxes, by score, those that do not overlap a better one of
    the same class (of any with `force_suppress`) by `iou_threshold` or more; at most
    `max_output_size` of the `top_k` best. Returns their numbers in `indices`, -1 after the last one,
    and their count; or else the boxes, -1 those that are suppressed (at the end with
    `invalid_to_bottom`)."""
    batch, count, size = extents_of(data, "data", None, None, None)
    extents_of(valid_count, "valid_count", batch)
    if return_indices:  # else they are not read: TVM's users give some other tensor
        extents_of(indices, "indices", batch, count)
    columns = {"score_index": score_index, "id_index": max(id_index, 0)}
    check_columns(size, coord_start=coord_start, coord_end=coord_start + 3, **columns)
    zero, lowest = const(0, data.dtype), infimum(data.dtype)
    scores = te.compute(
        (batch, count),
        lambda i, j: tir.Select(j < cast("int64", valid_count(i)), data(i, j, score_index), lowest),
        name="scores",
    )
    order = argsort(scores, axis=1, descending=True, dtype="int32")
    limits = (max_output_size, iou_threshold)

    def write(ib, x, by_score, valid_of, names, *others):
        scalars, (out, numbers, counts) = others[:-3], others[-3:]
        most, least = numbers_of(limits, list(scalars))
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [batch], parallel=True)
            claimed = tir.max(cast("int64", valid_of[i]), long(0))
            valid = ib.let("valid", tir.min(claimed, count))
            best = valid if top_k <= 0 else tir.min(valid, long(top_k))
            boxes = _Boxes(ib, i, out, numbers, size, score_index, id_index, coord_start)
            suppresses = cast(data.dtype, least) > zero
            with rows(ib, count, "j") as j:
                with ib.if_scope(j < valid):
                    with ib.if_scope(suppresses):
                        with ib.if_scope(j < best):
                            source = ib.let("source", by_score[i, j])
                            boxes.copy(j, x, source)
                            numbers[i, j] = source
                        with ib.else_scope():
                            boxes.drop(j)
                    with ib.else_scope():
                        boxes.copy(j, x, j)
                        numbers[i, j] = cast("int32", j)
                with ib.else_scope():
                    boxes.drop(j)
            with ib.if_scope(suppresses):
                boxes.suppress(valid, cast("int32", most), cast(data.dtype, least), force_suppress)
            at = ib.allocate("int64", 1, "at")
            at[0] = long(0)
            if return_indices:
                boxes.pack_numbers(count, names, at)
            elif invalid_to_bottom:
                boxes.pack(count, at)
            counts[i, 0] = cast("int32", at[0])

    shapes = [data.shape, (batch, count), (batch, long(1))]
    inputs = [data, order, valid_count, indices, *tensors_of(*limits)]
    kinds = [data.dtype, "int32", "int32"]
    boxes, box_indices, counts = written(shapes, inputs, write, kinds, "non_max_suppression")
    return [box_indices, counts] if return_indices else boxes


@non_max_suppression.numpy
def _(
    data, valid_count, indices, max_output_size, iou_threshold, force_suppress=False, top_k=-1,
    coord_start=2, score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False,
):  # fmt: skip
    out, order_of = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for i, valid in enumerate(np.clip(valid_count, 0, data.shape[1])):
        order = sorted_indices(data[i, :valid, score_index], 0, descending=True)
        if iou_threshold <= 0:
            order = np.arange(valid)
        order = order[:top_k] if top_k > 0 and iou_threshold > 0 else order
        out[i, : len(order)], order_of[i, : len(order)] = data[i, order], order
        rows, selected = out[i], []
        for j in range(valid if iou_threshold > 0 else 0):
            box = lambda r: corners(lambda n: r[coord_start + n], Numbers)  # noqa: E731
            better = [
                r for r in selected
                if (id_index < 0 or r[id_index] >= 0)
                and (force_suppress or id_index < 0 or r[id_index] == rows[j, id_index])
            ]  # fmt: skip
            if len(selected) != max_output_size and not rows[j, score_index] > 0:
                continue
            full = len(selected) == max_output_size
            candidate = box(rows[j])
            if full or any(
                overlap(box(r), candidate, kit=Numbers) >= iou_threshold for r in better
            ):
                rows[j], order_of[i, j] = -1, -1
            else:
                selected.append(rows[j].copy())
        if return_indices:
            originals = indices[i, order_of[i][order_of[i] >= 0]]
            order_of[i] = np.append(originals, np.full(len(order_of[i]) - len(originals), -1))
        elif invalid_to_bottom:
            good = rows[rows[:, 0] >= 0]
            rows[: len(good)], rows[len(good) :] = good.copy(), -1
    selected = (order_of >= 0).sum(1, keepdims=True).astype(np.int32)
    return (order_of, selected) if return_indices else out


def _suppressed(**attrs: Any) -> Case:
    count = np.array([9, 6], np.int32)
    names = np.arange(18, dtype=np.int32).reshape(2, 9)
    most = np.array(attrs.pop("most", -1), np.int32)
    least = np.array(attrs.pop("least", 0.11), np.float32)
    return case(_SCORED, count, names, most, least, **attrs)


non_max_suppression.samples(
    _suppressed(),
    _suppressed(most=2, force_suppress=True),
    _suppressed(top_k=4, return_indices=False),
    _suppressed(top_k=1, return_indices=False),
    _suppressed(id_index=-1, return_indices=False, invalid_to_bottom=True),
    _suppressed(least=0.0, return_indices=False),
)
