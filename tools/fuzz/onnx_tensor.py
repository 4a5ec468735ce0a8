"""Makers of ONNX nodes that scatter, sample images, transform signals or run over sequences."""

from __future__ import annotations

from typing import Any

from .build import Builder, Dim, NotHere, Value
from .onnx_ops import maker
from .onnx_shapes import each

UNIFORM: dict[str, Any] = {"draw": "uniform"}  # no ties, no halves


def since(g: Builder, opset: int) -> None:
    """This operator is of a later opset."""
    if g.case.opset < opset:
        raise NotHere


def some(g: Builder, rank: int, *lead: Dim) -> Value:
    """Data without special numbers: `lead`, then axes that are not empty."""
    return g.new("float32", [*lead, *(g.dim(least=1) for _ in range(rank))], **UNIFORM)


def few(g: Builder, most: int = 4) -> Dim:
    """A dimension that is the same in each run."""
    return g.const(g.rng.randint(1, most))


@maker("ReverseSequence")
def reverse_sequence(g, op):
    v = g.pick(["float32", "int64"], (2, 4), least=1)
    batch = g.rng.choice([0, 1])
    lengths = g.new("int64", [v.shape[batch]], low=1, high=min(v.shape[1 - batch]))
    g.add(op, [v, lengths], (v.dtype, v.shape), batch_axis=batch, time_axis=1 - batch)


@maker("ScatterElements", "ScatterND")
def scatter(g, op):
    since(g, 16)
    v = g.pick(["float32", "int32", "int64"], (1, 3), least=1)
    if op == "ScatterElements":
        axis = g.axis(v)
        most, shape = min(v.shape[axis]), list(v.shape)
        shape[axis] = few(g)
        indices = g.new("int64", shape, low=-most, high=most - 1)
        more = {"axis": axis}
    else:
        depth, count = g.rng.randint(1, v.rank), few(g, 6)
        most = min(min(d) for d in v.shape[:depth])
        indices = g.new("int64", [count, g.const(depth)], low=-most, high=most - 1)
        shape, more = [count, *v.shape[depth:]], {}
    updates = g.new(v.dtype, shape, low=-3, high=3)
    g.add(op, [v, indices, updates], (v.dtype, v.shape), exact=False, reduction="add", **more)


@maker("com.microsoft::SkipLayerNormalization")
def skip_layer_normalization(g, op):
    width = g.dim(static=True, least=2)
    v = some(g, 2, g.dim())
    x = g.new("float32", [*v.shape[:2], width], **UNIFORM)
    vectors = [g.new("float32", [width], **UNIFORM) for _ in range(3)]
    count = g.rng.randint(1, 3)
    skip = g.new("float32", x.shape, **UNIFORM)
    g.add(op, [x, skip, *vectors[:count]], ("float32", x.shape), exact=False, epsilon=1e-3)


@maker("GridSample", "AffineGrid")
def grids(g, op):
    since(g, 20)
    rank, corners = g.rng.choice([2, 2, 3]), g.rng.choice([0, 1])
    batch = few(g)
    if op == "AffineGrid":
        theta = g.new("float32", [batch, g.const(rank), g.const(rank + 1)], **UNIFORM)
        size = [g.rng.randint(2, 5) for _ in range(rank)]
        shape = [batch, *map(g.const, size), g.const(rank)]
        given = [theta, g.ints([batch[0], 2, *size])]
        g.add(op, given, ("float32", shape), exact=False, align_corners=corners)
        return
    x = some(g, rank, batch, g.dim(least=1))
    out = [g.dim() for _ in range(rank)]
    places = g.new("float32", [batch, *out, g.const(rank)], low=-1.6, high=1.6, **UNIFORM)
    how = {"mode": g.rng.choice(["linear", "nearest", *["cubic"] * (rank == 2)])}
    how["padding_mode"] = g.rng.choice(["zeros", "border", "reflection"])
    shape = [*x.shape[:2], *out]
    g.add(op, [x, places], ("float32", shape), exact=False, align_corners=corners, **how)


@maker("RoiAlign", "MaxRoiPool")
def regions(g, op):
    batch, count = few(g), g.dim()
    x, size = some(g, 2, batch, g.dim(least=1)), [g.rng.randint(1, 4) for _ in "hw"]
    shape = [count, x.shape[1], *map(g.const, size)]
    if op == "MaxRoiPool":
        rois = g.new("float32", [count, g.const(5)], low=0, high=batch[0] - 0.6, **UNIFORM)
        g.add(op, [x, rois], ("float32", shape), pooled_shape=size, spatial_scale=0.9)
        return
    since(g, 16)
    rois = g.new("float32", [count, g.const(4)], low=0, high=9, **UNIFORM)
    images = g.new("int64", [count], low=0, high=batch[0] - 1)
    more = {"mode": g.rng.choice(["avg", "max"]), "sampling_ratio": g.rng.choice([1, 2])}
    more |= {"output_height": size[0], "output_width": size[1], "spatial_scale": 0.7}
    g.add(op, [x, rois, images], ("float32", shape), exact=False, **more)


@maker("NonMaxSuppression")
def suppressed(g, op):
    batch, boxes = few(g), g.dim(least=1)
    sides = g.new("float32", [batch, boxes, g.const(4)], low=0, high=2, **UNIFORM)
    scores = g.new("float32", [batch, few(g), boxes], low=0, high=1, **UNIFORM)
    limits = [g.ints([g.rng.randint(1, 5)])]
    limits += [g.weight("float32", [g.rng.choice([0.2, 0.5])], [1]) for _ in range(2)]
    more = {"center_point_box": g.rng.choice([0, 1])}
    g.add(op, [sides, scores, *limits], ("int64", []), final=True, **more)


@maker("Col2Im")
def col2im(g, op):
    since(g, 18)
    size, kernel = [g.rng.randint(3, 7) for _ in "hw"], [g.rng.randint(1, 3) for _ in "hw"]
    strides, pads = [g.rng.randint(1, 2) for _ in "hw"], [g.rng.randint(0, 1) for _ in range(4)]
    spots = 1
    for k in (0, 1):
        spots *= (size[k] + pads[k] + pads[k + 2] - kernel[k]) // strides[k] + 1
    batch, channels = g.dim(), g.rng.randint(1, 3)
    taps = channels * kernel[0] * kernel[1]
    x = g.new("float32", [batch, g.const(taps), g.const(spots)])
    shape = [batch, g.const(channels), *map(g.const, size)]
    given = [x, g.ints(size), g.ints(kernel)]
    g.add(op, given, ("float32", shape), exact=False, strides=strides, pads=pads)


@maker("MaxUnpool")
def unpooled(g, op):
    x, kernel = some(g, 2, g.dim(least=1), g.dim(least=1)), [g.rng.randint(1, 3) for _ in "hw"]
    small = [each(g, lambda d, k=k: d // k, d) for d, k in zip(x.shape[2:], kernel)]
    if min(min(d) for d in small) < 1:
        raise NotHere
    window = {"kernel_shape": kernel, "strides": kernel}
    shape = [*x.shape[:2], *small]
    most, places = g.add("MaxPool", [x], (x.dtype, shape), ("int64", shape), **window)
    big = [each(g, lambda d, k=k: (d - 1) * k + k, d) for d, k in zip(small, kernel)]
    if [*x.shape[2:]] != big:  # the places are those of the whole input
        raise NotHere
    g.add(op, [most, places], (x.dtype, x.shape), **window)


@maker("DFT", "STFT")
def transforms(g, op):
    since(g, 17)
    if op == "STFT":
        since(g, 20)
        length, step = g.rng.choice([4, 8]), g.rng.randint(1, 4)
        x = g.new("float32", [g.dim(least=1), g.const(g.rng.randint(8, 30)), g.const(1)], **UNIFORM)
        window = g.new("float32", [g.const(length)], **UNIFORM)
        frames = (x.shape[1][0] - length) // step + 1
        shape = [x.shape[0], g.const(frames), g.const(length // 2 + 1), g.const(2)]
        given = [x, g.weight("int64", [step], []), window]
        g.add(op, given, ("float32", shape), exact=False)
        return
    since(g, 20)
    parts, inverse = g.rng.choice([1, 2]), g.rng.choice([0, 1])
    # Of other lengths onnxruntime's transform has three digits.
    length = g.const(g.rng.choice([1, 2, 4, 8, 16, 32]))
    x = g.new("float32", [g.dim(least=1), length, g.const(parts)], **UNIFORM)
    one = parts == 1 and not inverse and g.rng.random() < 0.5
    wide = each(g, lambda d: d // 2 + 1, x.shape[1]) if one else x.shape[1]
    more = {"inverse": inverse, "onesided": int(one)}
    g.add(op, [x], ("float32", [x.shape[0], wide, g.const(2)]), exact=False, **more)


@maker("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix")
def made_signals(g, op):
    since(g, 17)
    if op == "MelWeightMatrix":
        bins, length = g.rng.randint(2, 8), g.rng.choice([16, 32])
        given = [g.weight("int64", [n], []) for n in (bins, length, 16000)]
        given += [g.weight("float32", [f], []) for f in (90.0, 7100.0)]
        shape = [g.const(length // 2 + 1), g.const(bins)]
        g.add(op, given, ("float32", shape), exact=False)
        return
    size = g.rng.randint(2, 20)
    periodic = g.rng.choice([0, 1])
    given = [g.weight("int64", [size], [])]
    g.add(op, given, ("float32", [g.const(size)]), exact=False, periodic=periodic)


@maker("Det")
def determinant(g, op):
    n = few(g)
    x = g.new("float32", [*([g.dim()] if g.rng.random() < 0.7 else []), n, n], **UNIFORM)
    g.add(op, [x], ("float32", x.shape[:-2]), exact=False)


@maker("DeformConv")
def deformed(g, op):
    since(g, 22)
    groups, batch, kernel = (
        g.rng.choice([1, 2]),
        g.dim(least=1),
        [g.rng.randint(1, 3) for _ in "hw"],
    )
    x = g.new("float32", [batch, g.const(2 * groups), g.const(5), g.const(6)], **UNIFORM)
    shape = [batch, few(g), g.const(6 - kernel[0]), g.const(7 - kernel[1])]
    weight = g.new("float32", [shape[1], x.shape[1], *map(g.const, kernel)], **UNIFORM)
    moves = g.const(2 * groups * kernel[0] * kernel[1])
    offset = g.new("float32", [batch, moves, *shape[2:]], **UNIFORM)
    given = [x, weight, offset]
    g.add(op, given, ("float32", shape), exact=False, offset_group=groups)


@maker("RNN", "GRU", "LSTM")
def recurrent(g, op):
    since(g, 14)
    many, size, inputs = {"RNN": 1, "GRU": 3, "LSTM": 4}[op], g.rng.choice([2, 5, 16, 17]), few(g)
    direction = g.rng.choice(["forward", "reverse", "bidirectional"])
    ways = g.const(1 + (direction == "bidirectional"))
    length, batch = g.dim(least=1), g.dim(least=1)
    spec = {"low": -0.5, "high": 0.5, **UNIFORM}
    x = g.new("float32", [length, batch, inputs], **UNIFORM)
    dims = [[ways, g.const(many * size), d] for d in (inputs, g.const(size))]
    dims.append([ways, g.const(2 * many * size)])
    given: list[Any] = [x]
    for shape in dims:
        count = 1
        for d in shape:
            count *= d[0]
        seeds = [g.rng.uniform(spec["low"], spec["high"]) for _ in range(count)]
        given.append(g.weight("float32", seeds, [d[0] for d in shape]))
    if g.rng.random() < 0.4:
        given.append(g.new("int32", [batch], low=1, high=min(length)))
    more = {"linear_before_reset": g.rng.choice([0, 1])} if op == "GRU" else {}
    state = ("float32", [ways, batch, g.const(size)])
    outs = [("float32", [length, ways, batch, g.const(size)]), state, *[state] * (op == "LSTM")]
    g.add(op, given, *outs, exact=False, hidden_size=size, direction=direction, **more)


@maker("TensorScatter")
def cache(g, op):
    since(g, 24)
    batch, width = few(g), g.dim(least=1)
    data = g.new("float32", [batch, g.const(7), width])
    updates = g.new("float32", [batch, g.const(3), width])
    circular = g.rng.random() < 0.5
    start = g.new("int64", [batch], low=0, high=6 if circular else 4)
    mode = "circular" if circular else "linear"
    g.add(op, [data, updates, start], ("float32", data.shape), mode=mode)
