"""Anchors: boxes at every pixel of an image, and the boxes that a network predicts relative to them.

References: Liu et al., "SSD: Single Shot MultiBox Detector", 2016; Ren et al., "Faster R-CNN", 2015.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import te, tir
from ..ir.prim_op import cast, const
from .common import compute
from .core import case, op
from .extents import extents_of, simplify
from .overlap import Numbers, fill, greedy, overlap, rows
from .params import Tensor
from .sort import argsort, sorted_indices
from .statements import long, loops, written


def _sides(sizes: Sequence[float], ratios: Sequence[float]) -> list[tuple[float, float]]:
    """(width, height) of the boxes of a pixel: of all sizes, then the first one in other ratios."""
    roots = [math.sqrt(r) for r in ratios[1:]]
    return [(s, s) for s in sizes] + [(sizes[0] * r, sizes[0] / r) for r in roots]


@op("relax.vision.multibox_prior")
def multibox_prior(
    data: Tensor,
    sizes: Any = (1.0,),
    ratios: Any = (1.0,),
    steps: Any = (-1.0, -1.0),
    offsets: Any = (0.5, 0.5),
    clip: bool = False,
):
    """Boxes (1, boxes, 4) around the pixels of data NCHW as parts of the image: of each of `sizes`, and
    of the first one in each ratio but the first. `steps`: from pixel to pixel, down and right (not
    positive: the whole image); `offsets`: of the first pixel. `clip`: nothing outside."""
    _, _, high, wide = data.shape
    sides, kind = _sides(sizes, ratios), data.dtype
    count = len(sides)
    real = lambda v: cast(kind, v)  # noqa: E731
    step = [
        const(s, kind) if s > 0 else const(1, kind) / real(extent)
        for s, extent in zip(steps, (high, wide), strict=True)
    ]

    def cell(_, box, end):
        index = (box // count // wide, box // count % wide)
        value: Any = None
        for k, (width, height) in enumerate(sides):
            half = const(width / 2, kind) * real(high) / real(wide), const(height / 2, kind)
            parts = []
            for axis in (1, 0):
                middle = (real(index[axis]) + const(offsets[axis], kind)) * step[axis]
                parts.append((middle, half[1 - axis]))
            ends = [m - h for m, h in parts] + [m + h for m, h in parts]
            chosen = ends[3]
            for n in (2, 1, 0):
                chosen = tir.Select(end.equal(n), ends[n], chosen)
            value = chosen if value is None else tir.Select((box % count).equal(k), chosen, value)
        if clip:
            value = tir.max(tir.min(value, const(1, kind)), const(0, kind))
        return value

    boxes = simplify(high * wide * count)
    return compute([long(1), boxes, long(4)], cell, "multibox_prior", tag="injective")


@multibox_prior.numpy
def _(data, sizes, ratios, steps, offsets, clip=False):
    _, _, high, wide = data.shape
    step = [s if s > 0 else 1 / e for s, e in zip(steps, (high, wide), strict=True)]
    y, x = ((np.arange(e) + o) * s for e, o, s in zip((high, wide), offsets, step, strict=True))
    sides = np.array(_sides(sizes, ratios)) / 2 * [high / wide, 1]
    y, x, width, height = np.broadcast_arrays(
        y[:, None, None], x[None, :, None], sides[:, 0], sides[:, 1]
    )
    out = np.stack([x - width, y - height, x + width, y + height], -1).reshape(1, -1, 4)
    return (out.clip(0, 1) if clip else out).astype(data.dtype)


_SHAPE: dict[str, Any] = {"steps": (-1.0, -1.0), "offsets": (0.5, 0.5)}
multibox_prior.samples(
    case((1, 3, 4, 5), sizes=(0.3, 0.7), ratios=(1.0, 2.0, 0.5), **_SHAPE),
    case((1, 3, 3, "n"), sizes=(0.9,), ratios=(1.0,), clip=True, **_SHAPE),
    case((1, 1, 2, 3), sizes=(0.2,), ratios=(1.0,), steps=(0.25, 0.5), offsets=(0.1, 0.2)),
)


@op("relax.vision.multibox_transform_loc", alone=True)
def multibox_transform_loc(
    cls_prob: Tensor,
    loc_pred: Tensor,
    anchor: Tensor,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Any = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
):
    """The boxes (class, score, x, y, x, y) of the most probable classes (batch, classes, boxes), moved
    from their anchors by predictions (batch, boxes * 4), and their number. Class 0, the background,
    and scores below the threshold are left out unless `keep_background`. The rest is -1."""
    batch, classes, count = extents_of(cls_prob, "cls_prob", None, None, None)
    extents_of(loc_pred, "loc_pred", batch, simplify(count * 4))
    extents_of(anchor, "anchor", 1, count, 4)
    kind, first = loc_pred.dtype, 0 if keep_background else 1
    half, none = const(0.5, kind), const(-1, kind)

    def moved(locations, anchors, i, j):
        """The box number j, from its anchor."""
        ends = [anchors[0, j, n] for n in range(4)]
        moves = [locations[i, j * 4 + n] * const(variances[n], kind) for n in range(4)]
        lower, upper = [], []
        for axis in (0, 1):
            size = ends[axis + 2] - ends[axis]
            middle = moves[axis] * size + (ends[axis] + ends[axis + 2]) * half
            radius = tir.exp(moves[axis + 2]) * size * half
            lower.append(middle - radius)
            upper.append(middle + radius)
        inside = lambda v: tir.max(const(0, kind), tir.min(const(1, kind), v))  # noqa: E731
        return [inside(v) if clip else v for v in (*lower, *upper)]

    def write(ib, prob, locations, anchors, out, valid):
        with ExitStack() as stack:
            (i,) = loops(ib, stack, [batch], parallel=True)
            number, best = ib.allocate("int64", 1, "kept"), ib.allocate("int64", 1, "best")
            score = ib.allocate(kind, 1, "score")
            number[0] = long(0)
            with rows(ib, count, "j") as j:
                score[0], best[0] = none, long(0)
                with rows(ib, classes - first, "c") as c:
                    likely = prob[i, c + first, j]
                    with ib.if_scope(likely > score[0]):
                        score[0] = likely
                        best[0] = c + first
                with ib.if_scope(score[0] < const(threshold, kind)):
                    best[0] = long(0)
                with ib.if_scope(tir.any(best[0] > 0, tir.const(keep_background, "bool"))):
                    out[i, number[0], 0] = cast(kind, best[0] - first)
                    out[i, number[0], 1] = score[0]
                    for n, value in enumerate(moved(locations, anchors, i, j)):
                        out[i, number[0], n + 2] = value
                    number[0] = number[0] + 1
            valid[i] = cast("int32", number[0])
            with rows(ib, count - number[0], "j") as j:
                fill(ib, out, (i, number[0] + j), long(6), none)

    shapes = [(batch, count, long(6)), (batch,)]
    inputs = [cls_prob, loc_pred, anchor]
    return list(written(shapes, inputs, write, [kind, "int32"], "multibox_transform_loc"))


@multibox_transform_loc.numpy
def _(prob, locations, anchor, clip, threshold, variances, keep_background=False):
    batch, _, count = prob.shape
    first = 0 if keep_background else 1
    out, valid = np.full((batch, count, 6), -1, np.float32), np.zeros(batch, np.int32)
    for i in range(batch):
        best = prob[i, first:].argmax(0) + first
        score = np.take_along_axis(prob[i], best[None], 0)[0]
        best = np.where(score < threshold, 0, best)
        chosen = np.flatnonzero(keep_background | (best > 0))
        low, high = anchor[0, :, :2], anchor[0, :, 2:]
        moves = locations[i].reshape(-1, 4) * np.array(variances)
        middle, radius = (
            moves[:, :2] * (high - low) + (low + high) / 2,
            np.exp(moves[:, 2:]) * (high - low) / 2,
        )
        box = np.concatenate([middle - radius, middle + radius], 1)
        rows_ = np.concatenate(
            [(best - first)[:, None], score[:, None], box.clip(0, 1) if clip else box], 1
        )
        valid[i] = len(chosen)
        out[i, : len(chosen)] = rows_[chosen]
    return out, valid


_PROB = np.random.default_rng(2).dirichlet(np.ones(3), (2, 5)).transpose(0, 2, 1).astype(np.float32)
_ANCHORS = np.random.default_rng(3).uniform(0, 1, (1, 5, 4)).astype(np.float32)
_MOVES: dict[str, Any] = {"clip": True, "threshold": 0.4, "variances": (0.1, 0.1, 0.2, 0.2)}
multibox_transform_loc.samples(
    case(_PROB, (2, 20), _ANCHORS, **_MOVES),
    case(_PROB, (2, 20), _ANCHORS, **{**_MOVES, "clip": False, "keep_background": True}),
)

# ---------------------------------------------------------------------- proposals


def _anchor(ratio: float, scale: float, base: float) -> tuple[float, ...]:
    """The box of one ratio and scale around the first pixel of a step `base`, in whole pixels."""
    middle = 0.5 * (base - 1.0)
    width = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5)
    height = math.floor(width * ratio + 0.5) * scale
    x, y = 0.5 * (width * scale - 1.0), 0.5 * (height - 1.0)
    return middle - x, middle - y, middle + x, middle + y


def _predicted(
    box: list[Any], moves: list[Any], iou_loss: bool, exp: Callable[..., Any]
) -> list[Any]:
    """A box moved by predictions: of its ends, or of its middle and size."""
    if iou_loss:
        return [b + m for b, m in zip(box, moves, strict=True)]
    lower, upper = [], []
    for axis in (0, 1):
        size = box[axis + 2] - box[axis] + 1.0
        middle = moves[axis] * size + box[axis] + 0.5 * (size - 1.0)
        radius = 0.5 * (exp(moves[axis + 2]) * size - 1.0)
        lower.append(middle - radius)
        upper.append(middle + radius)
    return [*lower, *upper]


def _predictions(
    cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor, shapes: list[Any],
    feature_stride: int, rpn_min_size: int, iou_loss: bool,
) -> te.Tensor:  # fmt: skip
    """The boxes of all anchors of `shapes`, moved by predictions, with their scores: (batch, count, 5)."""
    number, kind = len(shapes), bbox_pred.dtype
    batch, _, high, wide = extents_of(cls_prob, "cls_prob", None, 2 * number, None, None)
    extents_of(bbox_pred, "bbox_pred", batch, 4 * number, high, wide)
    extents_of(im_info, "im_info", batch, 3)
    count = simplify(high * wide * number)
    zero, one = const(0, kind), const(1, kind)

    def predict(ib, prob, moves, info, out):
        with ExitStack() as stack:
            b, y, x = loops(ib, stack, [batch, high, wide], parallel=True)
            for k, anchor in enumerate(shapes):
                at = (y * wide + x) * number + k
                shift = [cast(kind, v * feature_stride) for v in (x, y, x, y)]
                box = [const(a, kind) + s for a, s in zip(anchor, shift, strict=True)]
                shifts = [moves[b, k * 4 + n, y, x] for n in range(4)]
                limits = [info[b, n] - one for n in (1, 0, 1, 0)]
                ends = _predicted(box, shifts, iou_loss, tir.exp)
                ends = [tir.max(tir.min(e, m), zero) for e, m in zip(ends, limits, strict=True)]
                ends = [ib.let(f"end{n}", e) for n, e in enumerate(ends)]
                least = info[b, 2] * const(rpn_min_size, kind)
                small = tir.any(*(ends[n + 2] - ends[n] + one < least for n in (0, 1)))
                here = [cast("int64", info[b, n] / const(feature_stride, kind)) for n in (0, 1)]
                invalid = tir.any(small, y >= here[0], x >= here[1])
                for n, end in enumerate(ends):
                    grown = least * const(0.5 if n > 1 else -0.5, kind)
                    out[b, at, n] = tir.if_then_else(small, end + grown, end)
                out[b, at, 4] = tir.if_then_else(invalid, -one, prob[b, number + k, y, x])

    inputs = [cls_prob, bbox_pred, im_info]
    inputs = [cls_prob, bbox_pred, im_info]
    return written([(batch, count, long(5))], inputs, predict, [kind], "predict")


@op("relax.vision.proposal", alone=True)
def proposal(
    cls_prob: Tensor, bbox_pred: Tensor, im_info: Tensor, scales: Any, ratios: Any,
    feature_stride: int, threshold: float, rpn_pre_nms_top_n: int, rpn_post_nms_top_n: int,
    rpn_min_size: int, iou_loss: bool = False,
):  # fmt: skip
    """`rpn_post_nms_top_n` boxes (batch, x, y, x, y) of each image: of the `rpn_pre_nms_top_n` best of all
    anchors, moved by predictions, those that do not overlap a better one by more than `threshold`,
    again and again. im_info: rows (height, width, scale)."""
    shapes = [_anchor(r, s, feature_stride) for r in ratios for s in scales]
    boxes = _predictions(
        cls_prob, bbox_pred, im_info, shapes, feature_stride, rpn_min_size, iou_loss
    )
    batch, count, _ = boxes.shape
    kind = bbox_pred.dtype
    best = tir.min(count, long(rpn_pre_nms_top_n)) if rpn_pre_nms_top_n > 0 else count
    scores = te.compute((batch, count), lambda b, i: boxes(b, i, 4), name="scores")
    order = argsort(scores, axis=1, descending=True, dtype="int32")

    def choose(ib, of, by_score, out):
        with ExitStack() as stack:
            (b,) = loops(ib, stack, [batch], parallel=True)
            picks = ib.allocate("int64", best, "kept")

            def keep(j, n):
                picks[n] = j

            chosen = greedy(
                ib,
                (best, best),
                best,
                lambda j: [of[b, by_score[b, j], n] for n in range(4)],
                lambda shared: shared <= const(threshold, kind),
                keep,
                grown=1.0,
            )
            with rows(ib, long(rpn_post_nms_top_n), "r") as r:
                at = b * rpn_post_nms_top_n + r
                out[at, 0] = cast(kind, b)
                with ib.if_scope(chosen[0] > 0):
                    source = ib.let("source", by_score[b, picks[r % chosen[0]]])
                    for n in range(4):
                        out[at, n + 1] = of[b, source, n]
                with ib.else_scope():
                    for n in range(4):
                        out[at, n + 1] = const(0, kind)

    shape = (simplify(batch * rpn_post_nms_top_n), long(5))
    return written([shape], [boxes, order], choose, [kind], "proposal")


@proposal.numpy
def _(prob, moves, info, scales, ratios, feature_stride, threshold, rpn_pre_nms_top_n,
      rpn_post_nms_top_n, rpn_min_size, iou_loss=False):  # fmt: skip
    batch, _, high, wide = prob.shape
    shapes = [_anchor(r, s, feature_stride) for r in ratios for s in scales]
    out = []
    for b in range(batch):
        scored = []
        for y, x, k in np.ndindex(high, wide, len(shapes)):
            box = [a + s * feature_stride for a, s in zip(shapes[k], (x, y, x, y), strict=True)]
            ends = _predicted(box, list(moves[b, k * 4 : k * 4 + 4, y, x]), iou_loss, np.exp)
            limits = [info[b, n] - 1 for n in (1, 0, 1, 0)]
            ends = [np.maximum(np.minimum(e, m), 0) for e, m in zip(ends, limits, strict=True)]
            least = info[b, 2] * rpn_min_size
            small = any(ends[n + 2] - ends[n] + 1 < least for n in (0, 1))
            invalid = (
                small
                or y >= int(info[b, 0] / feature_stride)
                or x >= int(info[b, 1] / feature_stride)
            )
            ends = [e + least * (0.5 if n > 1 else -0.5) * small for n, e in enumerate(ends)]
            scored.append((-1.0 if invalid else prob[b, len(shapes) + k, y, x], ends))
        order = sorted_indices(np.array([score for score, _ in scored]), 0, descending=True)
        picks: list[Any] = []
        for candidate in order[: rpn_pre_nms_top_n if rpn_pre_nms_top_n > 0 else None]:
            box = scored[candidate][1]
            if all(overlap(other, box, 1.0, Numbers) <= threshold for other in picks):
                picks.append(box)
        out += [[b, *picks[n % len(picks)]] for n in range(rpn_post_nms_top_n)]
    return np.array(out, np.float32).reshape(-1, 5)


_SCORES = (np.random.default_rng(4).permutation(48).reshape(1, 4, 3, 4) / 48).astype(np.float32)
_INFO = np.array([[48.0, 60.0, 1.0]], np.float32)
_PROPOSAL: dict[str, Any] = {"scales": (0.5,), "ratios": (0.5, 1.0), "feature_stride": 16}
_PROPOSAL |= {"threshold": 0.4, "rpn_post_nms_top_n": 6, "rpn_min_size": 16}
proposal.samples(
    case(_SCORES, (1, 8, 3, 4), _INFO, rpn_pre_nms_top_n=20, low=-0.5, high=0.5, **_PROPOSAL),
    case(_SCORES, (1, 8, 3, 4), _INFO, rpn_pre_nms_top_n=-1, iou_loss=True, **_PROPOSAL),
)
