"""Makers of calls of our operators that sample images, transform signals or run over sequences."""

from __future__ import annotations

from .onnx_tensor import UNIFORM, few, some
from .relax_build import RelaxBuilder, maker


@maker("image.grid_sample", "image.affine_grid")
def grids(g, op):
    rank, corners, batch = g.rng.choice([2, 2, 3]), g.rng.choice([False, True]), few(g)
    out = [few(g, 5) for _ in range(rank)]
    if op.endswith("affine_grid"):
        theta = g.new("float32", [batch, g.const(rank), g.const(rank + 1)], **UNIFORM)
        g.call(op, theta, {"dims": [d[0] for d in out]}, exact=False, align_corners=corners)
        return
    x = some(g, rank, batch, g.dim(least=1))
    places = g.new("float32", [batch, g.const(rank), *out], low=-1.6, high=1.6, **UNIFORM)
    how = {"method": g.rng.choice(["bilinear", "nearest", *["bicubic"] * (rank == 2)])}
    how["padding_mode"] = g.rng.choice(["zeros", "border", "reflection"])
    how["layout"] = "NCHW" if rank == 2 else "NCDHW"
    g.call(op, x, places, exact=False, align_corners=corners, **how)


@maker("image.col2im")
def col2im(g, op):
    size, kernel = [g.rng.randint(3, 7) for _ in "hw"], [g.rng.randint(1, 3) for _ in "hw"]
    spots = (size[0] - kernel[0] + 1) * (size[1] - kernel[1] + 1)
    x = g.new("float32", [g.dim(), g.const(2 * kernel[0] * kernel[1]), g.const(spots)])
    shapes = [{"dims": size}, {"dims": kernel}]
    given = {"strides": [1, 1], "padding": [0] * 4, "dilation": [1, 1]}
    g.call(op, x, *shapes, exact=False, **given)


@maker("nn.deform_conv2d")
def deformed(g, op):
    batch, kernel = g.dim(least=1), [g.rng.randint(1, 3) for _ in "hw"]
    x = g.new("float32", [batch, g.const(2), g.const(5), g.const(6)], **UNIFORM)
    places = [g.const(6 - kernel[0]), g.const(7 - kernel[1])]
    offset = g.new("float32", [batch, g.const(2 * kernel[0] * kernel[1]), *places], **UNIFORM)
    weight = g.new("float32", [few(g), g.const(2), *map(g.const, kernel)], **UNIFORM)
    g.call(op, x, offset, weight, exact=False)


@maker("signal.dft", "signal.frame")
def transforms(g, op):
    x = g.new("float32", [g.dim(least=1), g.dim(least=1), g.const(2)], **UNIFORM)
    if op.endswith("frame"):
        length = g.rng.randint(1, min(x.shape[1]))
        g.call(op, x, {"dims": [length, g.rng.randint(1, 3)]})
    else:
        inverse = g.rng.choice([False, True])
        g.call(op, x, {"dims": [g.rng.randint(1, 9)]}, exact=False, axis=1, inverse=inverse)


@maker("signal.cosine_window", "signal.mel_weight_matrix")
def made_signals(g, op):
    if op.endswith("window"):
        size = {"dims": [g.rng.randint(1, 20)]}
        periodic = g.rng.choice([False, True])
        g.call(op, size, exact=False, coefficients=[0.42, 0.5, 0.08], periodic=periodic)
        return
    given = [g.weight("int64", [n], []) for n in (g.rng.randint(2, 8), 32, 16000)]
    given += [g.weight("float32", [f], []) for f in (90.0, 7100.0)]
    g.call(op, *given, exact=False, final=True)


@maker("linalg.det")
def determinant(g, op):
    n = few(g)
    g.call(op, g.new("float32", [g.dim(), n, n], **UNIFORM), exact=False)


@maker("tensor_scatter")
def cache(g, op):
    batch, width, circular = few(g), g.dim(least=1), g.rng.choice([False, True])
    data = g.new("float32", [batch, g.const(7), width])
    updates = g.new("float32", [batch, g.const(3), width])
    start = g.new("int64", [batch], low=0, high=6)
    g.call(op, data, updates, start, circular=circular)


@maker("nn.recurrence")
def recurrent(g: RelaxBuilder, op: str) -> None:
    kind = g.rng.choice(["rnn", "gru", "lstm"])
    many, names = {"rnn": (1, 1), "gru": (3, 2), "lstm": (4, 3)}[kind]
    length, batch, size = g.dim(least=1), g.dim(least=1), g.const(g.rng.choice([3, 16]))
    gates = g.new("float32", [length, g.const(1), batch, g.const(many * size[0])], **UNIFORM)
    weight = g.new("float32", [*map(g.const, (1, many, 1)), size, g.const(16)], **UNIFORM)
    lengths = g.new("int64", [batch], low=0, high=min(length))
    states = [
        g.new("float32", [g.const(1), batch, size], **UNIFORM) for _ in range(1 + (kind == "lstm"))
    ]
    given = {"kind": kind, "activations": ["Sigmoid", "Tanh", "Tanh"][-names:]}
    given |= {"alpha": [0.0] * names, "beta": [0.0] * names}
    given["direction"] = g.rng.choice(["forward", "reverse"])
    g.call(op, gates, weight, lengths, states, outs=1 + len(states), exact=False, **given)


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
    g.call(op, *given, exact=False, causal_mask=mask, window_size=mask and g.rng.choice([None, 2]))


@maker("nn.linear_attention")
def linear_attention(g: RelaxBuilder, op: str) -> None:
    batch, length, groups, size, width = few(g), g.dim(), few(g, 2), few(g), few(g)
    heads = g.const(groups[0] * g.rng.choice([1, 2]))
    dims = [[heads, size], [groups, size], [groups, width]]
    given = [g.new("float32", [batch, length, *d], **UNIFORM) for d in dims]
    given.append(g.new("float32", [batch, groups, size, width], **UNIFORM))
    rule = g.rng.choice(["linear", "gated", "delta", "gated_delta"])
    gates = []
    if "gated" in rule:
        gates.append(g.new("float32", [batch, length, groups, size], low=-2, high=0, **UNIFORM))
    if "delta" in rule:
        gates.append(g.new("float32", [batch, length, groups], low=0, high=1, **UNIFORM))
    g.call(op, *given, gates, outs=2, exact=False, update_rule=rule)
