"""Makers of ONNX nodes that scatter, sample images, transform signals or run over sequences."""

from __future__ import annotations

from typing import Any

from .build import Builder, Dim, NotHere, Value
from .onnx_ops import maker

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
    g.add(op, [v, indices, updates], reduction="add", **more)


@maker("com.microsoft::SkipLayerNormalization")
def skip_layer_normalization(g, op):
    width = g.dim(static=True, least=2)
    v = some(g, 2, g.dim())
    x = g.new("float32", [*v.shape[:2], width], **UNIFORM)
    vectors = [g.new("float32", [width], **UNIFORM) for _ in range(3)]
    count = g.rng.randint(1, 3)
    skip = g.new("float32", x.shape, **UNIFORM)
    g.add(op, [x, skip, *vectors[:count]], epsilon=1e-3)


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
    g.add(op, given, outs=len(outs), hidden_size=size, direction=direction, **more)
