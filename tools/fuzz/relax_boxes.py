"""Makers of calls of our operators of boxes and regions, of random numbers and of bits."""

from __future__ import annotations

from typing import Any

from .build import NotHere, Value
from .relax_build import RelaxBuilder, maker


@maker("reinterpret")
def bits(g, op):
    v = g.pick(["int32", "uint32", "int64"])
    wide = v.dtype == "int64"
    g.call(op, v, dtype=g.rng.choice(["uint64", "int64"] if wide else ["uint32", "int32"]))


@maker("random.threefry_generate", "random.threefry_split")
def keys(g, op):
    words = [g.rng.randrange(2**63) for _ in range(6)] + [0, g.rng.randrange(99), 1 << 62, 0]
    key = g.weight("uint64", words, [10])
    if op.endswith("split"):
        g.call(op, key, outs=2)
    else:
        g.call(op, key, {"dims": [g.rng.randint(1, 5), g.rng.randint(1, 6)]}, outs=2)


def _static(g: RelaxBuilder) -> tuple[int, ...]:
    return g.const(g.rng.randint(1, 6))


def _boxes(g: RelaxBuilder, batch: Any, count: Any) -> Value:
    return g.new("float32", [batch, count, g.const(4)], low=-2, high=6)


def _scalar(g: RelaxBuilder, dtype: str, value: float) -> str:
    return g.weight(dtype, [value], [])


@maker("vision.all_class_non_max_suppression", "vision.regular_non_max_suppression")
def classes(g, op):
    batch, count = g.dim(), g.dim()
    least, worst = g.rng.choice([0.0, 0.3, 0.5]), g.rng.choice([-1.0, 0.1])
    if "regular" in op:
        wide = g.rng.randint(1, 4)
        limits = {"max_detections_per_class": g.rng.randint(1, 5)}
        limits |= {"max_detections": g.rng.randint(1, 7), "num_classes": g.rng.randint(1, wide)}
        scores = g.new("float32", [batch, count, g.const(wide)])
        given = {**limits, "iou_threshold": least, "score_threshold": worst}
        g.call(op, _boxes(g, batch, count), scores, outs=4, **given)
        return
    scores = g.new("float32", [batch, _static(g), count])
    kinds = ("int32", g.rng.choice([-1, 0, 2])), ("float32", least), ("float32", worst)
    form = g.rng.choice(["onnx", "tensorflow"])
    limits = [_scalar(g, *kind) for kind in kinds]
    outs = 2 if form == "onnx" else 3
    g.call(op, _boxes(g, batch, count), scores, *limits, outs=outs, output_format=form)


@maker("vision.get_valid_counts", "vision.non_max_suppression")
def scored(g, op):
    batch, count = g.dim(), g.dim()
    data = g.new("float32", [batch, count, g.const(6)], low=-1, high=4)
    number = g.rng.choice([-1, 0])
    if op.endswith("counts"):
        least = _scalar(g, "float32", g.rng.choice([-1.0, 0.5]))
        g.call(op, data, least, outs=3, id_index=number)
        return
    valid = g.new("int32", [batch], low=-1, high=9)
    names = g.new("int32", [batch, count], low=0, high=99)
    limits = [
        _scalar(g, "int32", g.rng.choice([-1, 0, 2])),
        _scalar(g, "float32", g.rng.choice([0.0, 0.2, 0.5])),
    ]
    attrs = {"top_k": g.rng.choice([-1, 1, 3]), "force_suppress": g.rng.random() < 0.5}
    numbers = g.rng.random() < 0.5
    attrs |= {"return_indices": numbers, "invalid_to_bottom": g.rng.random() < 0.5}
    outs = 2 if numbers else 1
    g.call(op, data, valid, names, *limits, outs=outs, id_index=number, **attrs)


@maker("vision.multibox_prior", "vision.multibox_transform_loc")
def anchors(g, op):
    if op.endswith("prior"):
        v = g.pick(["float32"], (4, 4), least=1)
        shape = {"sizes": [0.3, 0.7][: g.rng.randint(1, 2)], "ratios": [1.0, 2.0, 0.5]}
        step, first = g.rng.choice([-1.0, 0.25]), g.rng.choice([0.5, 0.0])
        more = {"steps": [step, step], "offsets": [first, first], "clip": g.rng.random() < 0.5}
        g.call(op, v, exact=False, **shape, **more)
        return
    batch, count = g.dim(), _static(g)
    prob = g.new("float32", [batch, g.const(g.rng.randint(2, 4)), count], low=0, high=1)
    moves = g.new("float32", [batch, g.const(4 * count[0])], low=-1, high=1)
    places = g.new("float32", [g.const(1), count, g.const(4)], low=0, high=1)
    attrs: dict[str, Any] = {"clip": g.rng.random() < 0.5, "threshold": 0.3}
    attrs |= {"variances": [0.1, 0.1, 0.2, 0.2], "keep_background": g.rng.random() < 0.3}
    g.call(op, prob, moves, places, outs=2, exact=False, **attrs)


@maker("vision.proposal")
def proposal(g, op):
    batch, high, wide = g.dim(), _static(g), _static(g)
    ratios = [0.5, 1.0][: g.rng.randint(1, 2)]
    count = len(ratios)
    # Its choice hangs on the last bit of overlaps: scores and moves have few bits.
    prob = g.new("float32", [batch, g.const(2 * count), high, wide], draw="quarters")
    moves = g.new("float32", [batch, g.const(4 * count), high, wide], draw="quarters")
    size = {"low": 32, "high": 80, "draw": "quarters"}
    attrs = {"scales": [0.5], "ratios": ratios, "feature_stride": 16, "threshold": 0.4}
    attrs |= {"rpn_pre_nms_top_n": g.rng.choice([-1, 5]), "rpn_post_nms_top_n": g.rng.randint(1, 6)}
    attrs |= {"rpn_min_size": g.rng.choice([1, 16]), "iou_loss": True}
    g.call(op, prob, moves, g.new("float32", [batch, g.const(3)], **size), exact=False, **attrs)


@maker("vision.roi_align", "vision.roi_pool")
def regions(g, op):
    v = g.pick(["float32"], (4, 4), least=1, exact=True, finite=True)
    if len(set(v.shape[0])) > 1:
        raise NotHere
    rows = g.rng.randint(1, 3)
    numbers = [[g.rng.randrange(v.shape[0][0])] for _ in range(rows)]
    ends = [[g.rng.choice([-1, 0, 0.5, 1, 2, 3.25, 7]) for _ in range(4)] for _ in range(rows)]
    rois = g.weight(
        "float32", [n for pair in zip(numbers, ends) for p in pair for n in p], [rows, 5]
    )
    attrs = {"layout": g.rng.choice(["NCHW", "NHWC"]), "pooled_size": [g.rng.randint(1, 3), 2]}
    attrs["spatial_scale"] = g.rng.choice([1.0, 0.5])
    if op.endswith("align"):
        attrs |= {"sample_ratio": g.rng.choice([-1, 2]), "mode": g.rng.choice(["avg", "max"])}
        attrs["aligned"] = g.rng.random() < 0.5
    g.call(op, v, rois, exact=False, **attrs)
