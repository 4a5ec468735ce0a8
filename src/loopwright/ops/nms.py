"""Boxes with scores: those above a threshold, and those that no better one overlaps."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.prim_op import cast, const, infimum
from .core import Case, case, op
from .extents import check_columns, extents_of
from .overlap import (
    Numbers,
    corners,
    fill,
    kept_box,
    numbers_of,
    overlap,
    rows,
    some_boxes,
    tensors_of,
)
from .params import Tensor
from .sort import argsort, sorted_places
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
        *given, valid, out, places = others
        (least,) = numbers_of((score_threshold,), given)
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [batch], parallel=True)
            kept = ib.allocate("int64", 1, "kept")
            kept[0] = long(0)
            with rows(ib, count, "j") as j:
                chosen = x[i, j, score_index] > cast(data.dtype, least)
                if id_index >= 0:
                    chosen = tir.all(chosen, x[i, j, id_index] >= const(0, data.dtype))
                with ib.if_scope(chosen):
                    with rows(ib, size, "k") as k:
                        out[i, kept[0], k] = x[i, j, k]
                    places[i, kept[0]] = cast("int32", j)
                    kept[0] = kept[0] + 1
            valid[i] = cast("int32", kept[0])
            with rows(ib, count - kept[0], "j") as j:
                fill(ib, out, (i, kept[0] + j), size, none)
                places[i, kept[0] + j] = const(-1, "int32")

    shapes, kinds = [(batch,), data.shape, (batch, count)], ["int32", data.dtype, "int32"]
    inputs = [data, *tensors_of(score_threshold)]
    return list(written(shapes, inputs, write, kinds, "get_valid_counts"))


@get_valid_counts.numpy
def _(data, score_threshold, id_index=0, score_index=1):
    valid = np.zeros(len(data), np.int32)
    out, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for i, some in enumerate(data):
        chosen = some[:, score_index] > score_threshold
        if id_index >= 0:
            chosen &= some[:, id_index] >= 0
        valid[i] = chosen.sum()
        out[i, : valid[i]], places[i, : valid[i]] = some[chosen], np.flatnonzero(chosen)
    return valid, out, places


def _scored(batch: int, count: int) -> np.ndarray:
    """Rows (class, score, box) with different scores."""
    rng = np.random.default_rng((batch, count))
    scores = rng.permutation(batch * count).reshape(batch, count, 1) / (batch * count) - 0.1
    classes = rng.integers(-1, 2, (batch, count, 1))
    return np.concatenate([classes, scores, some_boxes(batch, count)], -1).astype(np.float32)


_SCORED = _scored(2, 9)
_THRESHOLD = np.array(0.2, np.float32)
get_valid_counts.samples(
    case(_SCORED, _THRESHOLD),
    case(_SCORED, _THRESHOLD, id_index=-1),
)

# ---------------------------------------------------------------------- suppression


@op("relax.vision.non_max_suppression", alone=True)
def non_max_suppression(
    data: Tensor,
    valid_count: Tensor,
    indices: Tensor,
    max_output_size: Tensor,
    iou_threshold: Tensor,
    force_suppress: bool = False,
    top_k: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = 0,
    return_indices: bool = True,
    invalid_to_bottom: bool = False,
):
    """Of each batch's first `valid_count` boxes, by score, those that do not overlap a better one of
    the same class (of any with `force_suppress`) by `iou_threshold` or more; at most
    `max_output_size` of the `top_k` best. Gives the numbers in `indices`, -1 after the last one,
    and how many they are; or else the boxes, -1 those that are suppressed (at the end with
    `invalid_to_bottom`)."""
    batch, count, size = extents_of(data, "data", None, None, None)
    extents_of(valid_count, "valid_count", batch)
    if return_indices:  # else they are not read: TVM's users give some other tensor
        extents_of(indices, "indices", batch, count)
    columns = {"score_index": score_index, "id_index": max(id_index, 0)}
    check_columns(size, coord_start=coord_start, coord_end=coord_start + 3, **columns)
    none, zero = const(-1, data.dtype), const(0, data.dtype)
    lowest = infimum(data.dtype)
    scores = te.compute(
        (batch, count),
        lambda i, j: tir.Select(j < cast("int64", valid_count(i)), data(i, j, score_index), lowest),
        name="scores",
    )
    order = argsort(scores, axis=1, descending=True, dtype="int32")
    limits = (max_output_size, iou_threshold)

    def suppress(ib, i, valid, most, least, out, places):
        """Mark the rows of the boxes that are suppressed."""
        found, alive = ib.allocate("int32", 1, "found"), ib.allocate("int32", 1, "alive")
        found[0] = const(0, "int32")

        def drop(j):
            fill(ib, out, (i, j), size, none)
            places[i, j] = const(-1, "int32")

        box = lambda j: corners(lambda n: out[i, j, coord_start + n])  # noqa: E731
        with rows(ib, valid, "j") as j:
            with ib.if_scope(found[0].equal(cast("int32", most))):
                drop(j)
            with ib.else_scope(), ib.if_scope(out[i, j, score_index] > zero):
                alive[0] = const(1, "int32")
                mine = kept_box(ib, box(j))
                with rows(ib, j, "k") as k:
                    rival = [alive[0] > 0, out[i, k, score_index] > zero]
                    if id_index >= 0:
                        rival.append(out[i, k, id_index] >= zero)
                        if not force_suppress:
                            rival.append(out[i, j, id_index].equal(out[i, k, id_index]))
                    with ib.if_scope(tir.all(*rival)):
                        shared = overlap(mine, kept_box(ib, box(k)))
                        with ib.if_scope(shared >= cast(data.dtype, least)):
                            alive[0] = const(0, "int32")
                with ib.if_scope(alive[0] > 0):
                    found[0] = found[0] + 1
                with ib.else_scope():
                    drop(j)

    def write(ib, x, by_score, valid_of, names, *others):
        given, (out, places, kept) = others[:-3], others[-3:]
        most, least = numbers_of(limits, list(given))
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [batch], parallel=True)
            given_count = tir.max(cast("int64", valid_of[i]), long(0))
            valid = ib.let("valid", tir.min(given_count, count))
            best = valid if top_k <= 0 else tir.min(valid, long(top_k))
            with rows(ib, count, "j") as j:
                with ib.if_scope(j < valid):
                    with ib.if_scope(cast(data.dtype, least) > zero):
                        with ib.if_scope(j < best):
                            source = ib.let("source", by_score[i, j])
                            with rows(ib, size, "f") as f:
                                out[i, j, f] = x[i, source, f]
                            places[i, j] = source
                        with ib.else_scope():
                            fill(ib, out, (i, j), size, none)
                            places[i, j] = const(-1, "int32")
                    with ib.else_scope():
                        with rows(ib, size, "f") as f:
                            out[i, j, f] = x[i, j, f]
                        places[i, j] = cast("int32", j)
                with ib.else_scope():
                    fill(ib, out, (i, j), size, none)
                    places[i, j] = const(-1, "int32")
            with ib.if_scope(cast(data.dtype, least) > zero):
                suppress(ib, i, valid, most, least, out, places)
            at = ib.allocate("int64", 1, "at")
            at[0] = long(0)
            if return_indices:
                with rows(ib, count, "j") as j:
                    place = ib.let("place", places[i, j])
                    places[i, j] = const(-1, "int32")
                    with ib.if_scope(place >= 0):
                        places[i, at[0]] = names[i, place]
                        at[0] = at[0] + 1
            elif invalid_to_bottom:
                with rows(ib, count, "j") as j:
                    with ib.if_scope(out[i, j, 0] >= zero):
                        with rows(ib, size, "f") as f:
                            out[i, at[0], f] = out[i, j, f]
                        at[0] = at[0] + 1
                    with ib.if_scope(j >= at[0]):
                        fill(ib, out, (i, j), size, none)
            kept[i, 0] = cast("int32", at[0])

    shapes = [data.shape, (batch, count), (batch, long(1))]
    inputs = [data, order, valid_count, indices, *tensors_of(*limits)]
    kinds = [data.dtype, "int32", "int32"]
    boxes, places, kept = written(shapes, inputs, write, kinds, "non_max_suppression")
    return [places, kept] if return_indices else boxes


@non_max_suppression.numpy
def _(
    data, valid_count, indices, max_output_size, iou_threshold, force_suppress=False, top_k=-1,
    coord_start=2, score_index=1, id_index=0, return_indices=True, invalid_to_bottom=False,
):  # fmt: skip
    out, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for i, valid in enumerate(np.clip(valid_count, 0, data.shape[1])):
        order = sorted_places(data[i, :valid, score_index], 0, descending=True)
        if iou_threshold <= 0:
            order = np.arange(valid)
        order = order[:top_k] if top_k > 0 and iou_threshold > 0 else order
        out[i, : len(order)], places[i, : len(order)] = data[i, order], order
        rows, kept = out[i], []
        for j in range(valid if iou_threshold > 0 else 0):
            box = lambda r: corners(lambda n: r[coord_start + n], Numbers)  # noqa: E731
            better = [
                r for r in kept
                if (id_index < 0 or r[id_index] >= 0)
                and (force_suppress or id_index < 0 or r[id_index] == rows[j, id_index])
            ]  # fmt: skip
            if len(kept) != max_output_size and not rows[j, score_index] > 0:
                continue
            full = len(kept) == max_output_size
            mine = box(rows[j])
            if full or any(overlap(box(r), mine, kit=Numbers) >= iou_threshold for r in better):
                rows[j], places[i, j] = -1, -1
            else:
                kept.append(rows[j].copy())
        if return_indices:
            found = indices[i, places[i][places[i] >= 0]]
            places[i] = np.append(found, np.full(len(places[i]) - len(found), -1))
        elif invalid_to_bottom:
            good = rows[rows[:, 0] >= 0]
            rows[: len(good)], rows[len(good) :] = good.copy(), -1
    kept = (places >= 0).sum(1, keepdims=True).astype(np.int32)
    return (places, kept) if return_indices else out


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
