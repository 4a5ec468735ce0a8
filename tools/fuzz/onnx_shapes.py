"""Makers of ONNX nodes that move data: shapes, slices, gathers."""

from __future__ import annotations

import math

from .build import INTS, NUMBERS, Builder, NotHere, Value
from .onnx_ops import maker

ANY = [*NUMBERS, "bool", "uint8", "int8"]


def numbers(dims) -> list[int] | None:
    """The dims as numbers where they are the same in each run."""
    return [d[0] for d in dims] if all(len(set(d)) == 1 for d in dims) else None


def place(g: Builder, v: Value, k: int, new) -> list:
    """The shape with another dimension at axis k."""
    shape = list(v.shape)
    shape[k] = new
    return shape


def each(g: Builder, fn, *dims):
    """A dimension computed from others in each run; must not be negative."""
    made = tuple(fn(*ds) for ds in zip(*dims, strict=True))
    if min(made) < 0:
        raise NotHere
    return made


@maker("Reshape")
def reshape(g, op):
    v = g.pick(ANY, (0, 4))
    known = numbers(v.shape)
    if known is not None:
        total, shape = math.prod(known), []
        while total > 1 and len(shape) < 4 and g.rng.random() < 0.8:
            f = g.rng.choice([k for k in range(1, total + 1) if total % k == 0])
            shape.append(f)
            total //= f
        shape.append(total)
        target = list(shape)
        if 0 not in shape and g.rng.random() < 0.4:
            target[g.rng.randrange(len(shape))] = -1
        g.add(op, [v, g.ints(target)])
        return
    # A symbolic dimension is kept by 0, one of them may be the rest; neighbours merge.
    k = g.axis(v, False)
    if k + 1 < v.rank and g.rng.random() < 0.6 and all(min(d) > 0 for d in v.shape):
        if (rest := numbers(v.shape[k + 2 :])) is None:
            raise NotHere
        g.add(op, [v, g.ints([0] * k + [-1] + rest)])
    else:
        g.add(op, [v, g.ints([0] * v.rank + [1])])


@maker("Transpose")
def transpose(g, op):
    v = g.pick(ANY, (1, 5))
    perm = g.rng.sample(range(v.rank), v.rank)
    g.add(op, [v], perm=perm)


@maker("Flatten")
def flatten(g, op):
    v = g.pick(ANY, (1, 4))
    g.add(op, [v], axis=g.rng.randint(0, v.rank))


@maker("Squeeze")
def squeeze(g, op):
    v = g.pick(ANY, (1, 4), where=lambda v: any(d == g.const(1) for d in v.shape))
    ones = [k for k, d in enumerate(v.shape) if d == g.const(1)]
    axes = g.rng.sample(ones, g.rng.randint(1, len(ones)))
    g.add(op, [v, g.ints([a - v.rank if g.rng.random() < 0.5 else a for a in axes])])


@maker("Unsqueeze")
def unsqueeze(g, op):
    v = g.pick(ANY, (0, 4))
    g.add(op, [v, g.ints([g.rng.randint(0, v.rank)])])


@maker("Concat")
def concat(g, op):
    v = g.pick(ANY, (1, 4))
    k = g.axis(v)
    parts = [v]
    for _ in range(g.rng.randint(0, 3)):
        u = g.rng.choice([v, g.new(v.dtype, place(g, v, k, g.dim()))])
        parts.append(u)
    g.add(op, parts, axis=k)


@maker("Split")
def split(g, op):
    v = g.pick(ANY, (1, 4))
    k = g.rng.choice([n for n, d in enumerate(v.shape) if len(set(d)) == 1] or [None])
    if k is None:
        raise NotHere
    total = v.shape[k][0]
    cuts = sorted(g.rng.randint(0, total) for _ in range(g.rng.randint(1, 2)))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, total])]
    g.add(op, [v, g.ints(parts)], outs=len(parts), axis=k)


@maker("Slice")
def slice_(g, op):
    v = g.pick(ANY, (1, 4))
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, min(2, v.rank)))
    rows = []
    for _ in axes:
        step = g.rng.choice([1, 1, 2, 3, -1, -2, -(2**31)])
        start = g.rng.choice([0, 1, 2, -1, -2, -(2**63), 2**63 - 1, 5])
        stop = g.rng.choice([0, 1, 3, -1, 2**63 - 1, -(2**63), 7, -3])
        if step < 0 and stop == 2**63 - 1:  # onnxruntime takes it as -(2**63)
            stop = -(2**63)
        rows.append((start, stop, step))
    named = [a - v.rank if g.rng.random() < 0.3 else a for a in axes]
    lists = [[r[0] for r in rows], [r[1] for r in rows], named, [r[2] for r in rows]]
    g.add(op, [v, *map(g.ints, lists)])


@maker("Expand")
def expand(g, op):
    v = g.pick(ANY, (0, 3))
    wanted = [g.rng.choice([1, 2, 3, 5]) for _ in range(g.rng.randint(0, 4))]
    g.add(op, [v, g.ints(wanted)])


@maker("Tile")
def tile(g, op):
    v = g.pick(["float32", *INTS, "bool"], (1, 4))
    times = [g.rng.choice([0, 1, 1, 1, 2, 3]) for _ in v.shape]
    g.add(op, [v, g.ints(times)])


@maker("Pad")
def pad(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4))
    mode = g.rng.choice(
        ["constant", "constant", "reflect", "edge"] + ["wrap"] * (g.case.opset >= 19)
    )
    least = {"constant": 0, "reflect": 2}.get(mode, 1)
    low = -1 if mode == "constant" else 0
    pads = []
    for d in v.shape:
        can = min(d) >= least
        pair = [
            g.rng.randint(low, min(3, min(d) - 1) if mode in ("reflect", "wrap") else 3)
            if can
            else 0
            for _ in "ab"
        ]
        if min(d) + sum(pair) < 0:
            raise NotHere
        pads.append(pair)
    inputs = [v, g.ints([p[0] for p in pads] + [p[1] for p in pads])]
    if mode == "constant" and g.rng.random() < 0.6:
        inputs.append(g.weight(v.dtype, [g.rng.choice([0, 1, 3])], []))
    g.add(op, inputs, mode=mode)


def indices(g: Builder, shape, extent, dtype: str = "") -> Value:
    """Indices below the extent's least value."""
    n = min(extent)
    if n < 1:
        raise NotHere
    return g.new(
        dtype or g.rng.choice(INTS), shape, low=-n if g.rng.random() < 0.4 else 0, high=n - 1
    )


@maker("Gather")
def gather(g, op):
    v = g.pick(ANY, (1, 4))
    k = g.axis(v)
    i = indices(g, [g.dim() for _ in range(g.rng.randint(0, 2))], v.shape[k])
    g.add(op, [v, i], axis=k)


@maker("GatherElements")
def gather_elements(g, op):
    v = g.pick(ANY, (1, 3))
    k = g.axis(v)
    i = indices(g, place(g, v, k, g.dim()), v.shape[k])
    g.add(op, [v, i], axis=k)


@maker("ConstantOfShape", "Range")
def created(g, op):
    if op == "Range":
        start, step = g.rng.choice([0, -3, 5]), g.rng.choice([1, 2, -1, -3])
        stop = start + step * g.rng.choice([0, 1, 4, 7])
        dtype = g.rng.choice(["int64", "int32", "float32"])
        g.add(op, [g.weight(dtype, [x], []) for x in (start, stop, step)])
        return
    dims = [g.rng.choice([0, 1, 2, 5]) for _ in range(g.rng.randint(0, 3))]
    dtype = g.rng.choice(["float32", "int64", "bool"])
    g.add(op, [g.ints(dims)], value={"tensor": [dtype, [1]]})


@maker("Shape", "Size")
def shape_of(g, op):
    v = g.pick(ANY, (0, 4))
    if op == "Size":
        g.add(op, [v], final=True)
        return
    attrs = {}
    if g.case.opset >= 15 and g.rng.random() < 0.5:
        attrs = {
            "start": g.rng.randint(-v.rank - 1, v.rank),
            "end": g.rng.randint(-v.rank - 1, v.rank + 1),
        }
    g.add(op, [v], final=True, **attrs)


@maker("ExpandToShapeOf")
def dynamic_shape(g, op):
    """Shapes that the graph computes: Shape, then Expand, Reshape or ConstantOfShape by it."""
    v = g.pick(["float32", "int32"], (1, 4))
    s = g.add("Shape", [v], final=True)[0]
    way = g.rng.choice(["Expand", "Reshape", "ConstantOfShape", "Slice"])
    if way == "Expand":
        u = g.new(v.dtype, [g.const(1)] * v.rank)
        g.add("Expand", [u, s])
    elif way == "Reshape":
        flat = g.add("Reshape", [v, g.ints([-1])])[0]
        if 0 in [d for dim in v.shape for d in dim]:
            raise NotHere
        g.add("Reshape", [flat, s])
    elif way == "ConstantOfShape":
        g.add(way, [s])
    else:
        k = g.axis(v, False)
        end = g.add("Gather", [s, g.ints([k])], final=True)[0]
        g.add(way, [v, g.ints([1]), end, g.ints([k])])


@maker("If")
def branches(g, op):
    v = g.pick(["float32"])
    ways = [g.rng.choice(["Relu", "Neg", "Abs", "Identity"]) for _ in "ab"]
    graphs = [{"graph": [[way, [v.name], [g.name("b")], {}]]} for way in ways]
    c = g.new("bool", [])
    g.add(op, [c], then_branch=graphs[0], else_branch=graphs[1])


@maker("Loop")
def loop(g, op):
    """A value changed some times, and each of its states."""
    # Of no turns, onnxruntime does not know the shape of a state.
    v, turns = g.pick(["float32"], (0, 3)), g.rng.choice([1, 2, 4])
    way = g.rng.choice(["Relu", "Neg", "Abs", "Sigmoid"])
    turn, going, x, on, y, state = (g.name("b") for _ in range(6))
    nodes = [["Identity", [going], [on], {}], [way, [x], [y], {}], ["Identity", [y], [state], {}]]
    ports = [[turn, "int64", []], [going, "bool", []], [x, "float32", None]]
    body = {"graph": nodes, "inputs": ports, "outputs": [on, y, state]}
    g.add(op, [g.weight("int64", turns, []), "", v], outs=2, body=body)


@maker("Constant", "CastLike")
def constants(g, op):
    if op == "Constant":
        dtype = g.rng.choice(["float32", "int64", "bool"])
        g.add(op, [], value={"tensor": [dtype, [0, 1, 2]]})
    elif g.case.opset < 15:
        raise NotHere
    else:
        v, like = g.pick(["int32", "int64", "bool"]), g.pick(["float32", "float64"])
        g.add(op, [v, like])
