"""Calls of our operators of networks and images, of arguments that depend on each other."""

from __future__ import annotations

from typing import Any

from .build import NotHere, Value, few
from .onnx_nn import spatial, window
from .onnx_shapes import each
from .relax_build import RelaxBuilder, maker
from .relax_moves import dims


@maker("nn.prelu", "nn.bias_add")
def per_channel(g, op):
    v = g.pick(["float32"], (1, 4))
    axis = g.axis(v, False)
    g.call(op, v, g.new(v.dtype, [v.shape[axis]]), axis=axis)


@maker(
    "nn.layer_norm",
    "nn.rms_norm",
    "nn.batch_norm",
    "nn.group_norm",
    "nn.instance_norm",
    "nn.dropout",
)
def norm(g, op):
    v = g.pick(["float32"] * 3 + ["float16"], (2, 4))
    if op == "nn.dropout":
        g.call(op, v)
        return
    attrs = {"epsilon": 1e-3} if g.rng.random() < 0.5 else {}
    if op in ("nn.layer_norm", "nn.rms_norm"):
        axes = list(range(g.rng.randrange(v.rank), v.rank))
        more = [
            g.new(v.dtype, [v.shape[a] for a in axes])
            for _ in ("ab" if op == "nn.layer_norm" else "a")
        ]
        g.call(op, v, *more, axes=[a - v.rank for a in axes], **attrs)
        return
    axis = g.axis(v, False) if op == "nn.batch_norm" else 1
    c = v.shape[axis]
    more = [g.new(v.dtype, [c], low=-1, high=2) for _ in "ab"]
    if op == "nn.batch_norm":
        more += [g.new(v.dtype, [c], low=-1, high=1), g.new(v.dtype, [c], low=1, high=3)]
        g.call(op, v, *more, axis=axis, training=g.rng.random() < 0.3, **attrs)
    else:
        if len(set(c)) > 1 or not c[0] or v.rank < 3:
            raise NotHere
        if op == "nn.instance_norm":
            g.call(op, v, *more, channel_axis=1, axes=list(range(2, v.rank)), **attrs)
            return
        groups = g.rng.choice([k for k in range(1, c[0] + 1) if c[0] % k == 0])
        axes = list(range(2, v.rank))
        g.call(op, v, *more, num_groups=groups, channel_axis=1, axes=axes, **attrs)


@maker("matmul")
def matmul(g, op):
    a = g.pick(["float32"] * 4 + ["float64", "float16", "int32"], (1, 4), exact=True)
    k, n = a.shape[-1], g.dim()
    batch = [g.const(1) if g.rng.random() < 0.3 else g.beside(d) for d in a.shape[:-2]]
    b = g.new(a.dtype, g.rng.choice([[k], [k, n], [*batch, k, n]]))
    g.call(op, a, b)


@maker("nn.attention")
def attention(g, op):
    b, s, t, groups, h, hv = (g.dim(least=1) for _ in range(6))
    heads = groups if len(set(groups)) > 1 else g.const(groups[0] * g.rng.choice([1, 1, 3]))
    q, k, v = (
        g.new("float32", [b, s, heads, h]),
        g.new("float32", [b, t, groups, h]),
        g.new("float32", [b, t, groups, hv]),
    )
    bias = g.rng.choice([None, g.new("float32", [g.rng.choice([b, g.const(1)]), g.const(1), s, t])])
    g.call(op, q, k, v, bias, causal_mask=g.rng.choice([None, "TopLeft", "BottomRight"]))


def image(g: RelaxBuilder, rank: int, channels: int, layout: str) -> Value:
    space, c = [g.dim(least=1) for _ in range(rank)], g.const(channels)
    n = g.dim()
    return g.new("float32", [n, c, *space] if layout.startswith("NC") else [n, *space, c])


@maker("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose")
def conv(g, op):
    rank, back = int(op[7]), "transpose" in op
    groups, inner, outer = (
        g.rng.choice([1, 1, 2, 5]),
        g.rng.choice([1, 2, 3, 8]),
        g.rng.choice([1, 2, 4, 17]),
    )
    kernel, strides, dilations, pads = spatial(g, rank)
    axes = "DHW"[3 - rank :]
    first = "NC" + axes if back or g.rng.random() < 0.7 else f"N{axes}C"
    x = image(g, rank, inner * groups, first)
    w = [inner * groups, outer] if back else [outer * groups, inner]
    weight = g.new("float32", [*map(g.const, w), *map(g.const, kernel)])
    places = x.shape[2:] if first.startswith("NC") else x.shape[1:-1]
    for d, k, s, e, p in zip(places, kernel, strides, dilations, pads):
        each(
            g, lambda n, k=k, s=s, e=e, p=p: (n - 1) * s + e * (k - 1) - sum(p), d
        ) if back else window(g, d, k, s, e, p)
    padding = [p[0] for p in pads] + [p[1] for p in pads]
    layouts = {} if back else {"data_layout": first, "out_layout": first}
    g.call(
        op,
        x,
        weight,
        strides=strides,
        padding=padding,
        dilation=dilations,
        groups=groups,
        **layouts,
    )


@maker(*[f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3)])
def pool(g, op):
    rank, largest = int(op[-2]), "max" in op
    kernel, strides, dilations, pads = spatial(g, rank)
    pads = [tuple(min(p, k - 1) for p in ps) for ps, k in zip(pads, kernel)]
    axes = "DHW"[3 - rank :]
    layout = g.rng.choice([f"NC{axes}", f"N{axes}C"])
    x = image(g, rank, g.rng.choice([1, 3, 16]), layout)
    ceil = g.rng.random() < 0.3
    places = x.shape[2:] if layout.startswith("NC") else x.shape[1:-1]
    for d, *rest in zip(places, kernel, strides, dilations, pads):
        window(g, d, *rest, ceil)
    padding = [p[0] for p in pads] + [p[1] for p in pads]
    more = {} if largest else {"count_include_pad": g.rng.random() < 0.5}
    g.call(
        op,
        x,
        pool_size=kernel,
        strides=strides,
        padding=padding,
        dilation=dilations,
        ceil_mode=ceil,
        layout=layout,
        out_layout=layout,
        **more,
    )


@maker(*[f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3)])
def adaptive(g, op):
    rank = int(op[-2])
    axes = "DHW"[3 - rank :]
    layout = g.rng.choice([f"NC{axes}", f"N{axes}C"])
    x = image(g, rank, 3, layout)
    g.call(
        op,
        x,
        output_size=[g.rng.choice([1, 2, 3, 7]) for _ in range(rank)],
        layout=layout,
        out_layout=layout,
    )


@maker("nn.pad")
def pad(g, op):
    v = g.pick(["float32", "int32"], (1, 4))
    mode = g.rng.choice(["constant", "constant", "reflect", "replicate", "circular"])
    most = min(3, min((min(d) for d in v.shape), default=0) - 1) if mode != "constant" else 3
    if most < 0:
        raise NotHere
    far = mode == "reflect" and g.rng.random() < 0.3  # again and again, where the extent is known
    known = [far and len(set(d)) == 1 for d in v.shape for _ in "ab"]
    widths = [g.rng.randint(0, 7 if wide else most) for wide in known]
    g.call(
        op, v, pad_width=widths, pad_mode=mode, **({"pad_value": 1.0} if mode == "constant" else {})
    )


@maker("nn.attention_var_len")
def ragged(g: RelaxBuilder, op: str) -> None:
    length, other = g.rng.randrange(8), g.rng.randrange(8)
    groups, size, width, count = few(g), few(g), few(g), g.rng.randrange(3)
    heads = g.const(groups[0] * g.rng.choice([1, 2]))
    dims = [(length, heads, size), (other, groups, size), (other, groups, width)]
    given = [g.new("float32", [g.const(1), g.const(n), *d]) for n, *d in dims]
    for total in (length, other):
        starts = [0, *sorted(g.rng.randint(0, total) for _ in range(count)), total]
        given += [g.weight("int32", starts, [len(starts)]), g.weight("int32", [total], [])]
    mask = g.rng.choice([None, "TopLeft", "BottomRight"])
    g.call(op, *given, causal_mask=mask, window_size=mask and g.rng.choice([None, 2]))


@maker("nn.attention_paged")
def paged(g: RelaxBuilder, op: str) -> None:
    groups, size, page, count = (
        g.rng.randint(1, 3),
        g.rng.randint(1, 20),
        g.rng.randint(1, 5),
        g.rng.randrange(4),
    )
    heads = groups * g.rng.choice([1, 2])
    tokens = [g.rng.randint(0, 9) for _ in range(count)]
    asked = [g.rng.randint(0, n) for n in tokens]
    lists = [-(-n // page) for n in tokens]
    total = sum(lists) + 1
    ids = g.rng.sample(range(total), sum(lists))
    sums = lambda of: [sum(of[:k]) for k in range(len(of) + 1)]  # noqa: E731
    table = lambda of: g.weight("int32", of, [len(of)])  # noqa: E731
    shape = (total, 2, groups, page, size)
    queries = g.new("float32", [g.const(n) for n in (sum(asked), heads, size)])
    pages = g.new("float32", [g.const(n) for n in shape])
    tables = (table(sums(asked)), pages, table(sums(lists)), table(ids), table(tokens))
    mask = g.rng.choice([None, "BottomRight"])
    window = mask and g.rng.choice([None, 3])
    g.call(op, queries, *tables, causal_mask=mask, window_size=window)


@maker("image.resize2d")
def resize(g, op):
    layout = g.rng.choice(["NCHW", "NHWC"])
    size = [g.const(g.rng.choice([1, 3, 8])) for _ in "hw"]
    attrs = {
        "method": g.rng.choice(["nearest_neighbor", "linear", "cubic"]),
        "coordinate_transformation_mode": g.rng.choice(
            ["half_pixel", "align_corners", "asymmetric"]
        ),
        "rounding_method": g.rng.choice(["round", "floor"]),
    }
    if attrs["method"] == "nearest_neighbor":  # elsewhere a rounding error picks another pixel
        attrs |= {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
        size = [g.const(1), g.const(1)]
    g.call(op, image(g, 2, 3, layout), dims(g, size), layout=layout, **attrs)


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
        g.call(op, _boxes(g, batch, count), scores, **given)
        return
    scores = g.new("float32", [batch, _static(g), count])
    kinds = ("int32", g.rng.choice([-1, 0, 2])), ("float32", least), ("float32", worst)
    form = g.rng.choice(["onnx", "tensorflow"])
    limits = [_scalar(g, *kind) for kind in kinds]
    g.call(op, _boxes(g, batch, count), scores, *limits, output_format=form)


@maker("vision.get_valid_counts", "vision.non_max_suppression")
def scored(g, op):
    batch, count = g.dim(), g.dim()
    data = g.new("float32", [batch, count, g.const(6)], low=-1, high=4)
    number = g.rng.choice([-1, 0])
    if op.endswith("counts"):
        least = _scalar(g, "float32", g.rng.choice([-1.0, 0.5]))
        g.call(op, data, least, id_index=number)
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
    g.call(op, data, valid, names, *limits, id_index=number, **attrs)


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
    g.call(op, prob, moves, g.new("float32", [batch, g.const(3)], **size), **attrs)


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
    g.call(op, v, rois, **attrs)
