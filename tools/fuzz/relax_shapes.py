"""Makers of calls of our operators that make or move data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .build import INTS, NUMBERS, SMALL, Dim, NotHere, Value
from .onnx_shapes import place
from .relax_build import ANY, RelaxBuilder, maker


def dims(g: RelaxBuilder, shape: Sequence[Dim]) -> dict[str, Any]:
    return {"dims": [g.text(d) for d in shape]}


@maker("full", "zeros", "ones", "full_like", "zeros_like", "ones_like")
def filled(g, op):
    dtype = g.rng.choice([*NUMBERS, "bool", "uint8"])
    number = [g.weight(dtype, [1], [])] if "full" in op else []
    if "like" in op:
        g.call(op, g.pick(ANY), *number, dtype=dtype)
    else:
        shape = [g.const(g.rng.choice([0, 1, 2, 5, 16])) for _ in range(g.rng.randint(0, 3))]
        g.call(op, dims(g, shape), *number, dtype=dtype)


@maker("arange")
def arange(g, op):
    step = g.rng.choice([1, 2, -1, -3])
    start = g.rng.choice([0, 5, -2])
    stop = start + step * g.rng.choice([0, 1, 3, 17])
    g.call(
        op,
        *({"dims": n} for n in (start, stop, step)),
        dtype=g.rng.choice(["int64", "int32", "float32"]),
    )


@maker("tril", "triu")
def triangle(g, op):
    g.call(op, g.pick(ANY, (2, 4)), {"dims": g.rng.choice([-3, -1, 0, 1, 2, 9])})


@maker("where")
def where(g, op):
    a = g.pick(ANY)
    b = g.mate(a)
    g.call(
        op,
        g.new(
            "bool",
            [g.const(1) if g.rng.random() < 0.2 else d for d in g.broadcast(a.shape, b.shape)],
        ),
        a,
        b,
    )


def below(g: RelaxBuilder, shape: Sequence[Dim], extent: Dim, low: int = 0) -> Value:
    if min(extent) < 1:
        raise NotHere
    return g.new(g.rng.choice(INTS), shape, low=low, high=min(extent) - 1)


@maker("one_hot")
def one_hot(g, op):
    depth = g.rng.choice([1, 3, 8])
    i = below(g, [g.dim() for _ in range(g.rng.randint(1, 2))], g.const(depth))
    g.call(op, i, {"dims": 2.0}, {"dims": -1.0}, depth=depth, axis=g.rng.randint(-1, i.rank))


@maker("take", "gather_elements", "gather_nd")
def gathered(g, op):
    v = g.pick(ANY, (1, 3))
    k = g.axis(v)
    if op == "take":
        i = below(g, [g.dim() for _ in range(g.rng.randint(0, 2))], v.shape[k])
        g.call(op, v, i, axis=k, mode=g.rng.choice(["fast", "wrap", "clip"]))
    elif op == "gather_elements":
        g.call(op, v, below(g, place(g, v, k, g.dim()), v.shape[k]), axis=k)
    else:
        g.call(op, v, below(g, [g.dim(), g.const(1)], v.shape[0]))


@maker("permute_dims")
def transpose(g, op):
    v = g.pick(ANY, (1, 5))
    g.call(op, v, axes=g.rng.choice([None, g.rng.sample(range(v.rank), v.rank)]))


@maker("reshape", "flatten", "broadcast_to")
def reshape(g, op):
    v = g.pick(ANY, (1, 4))
    if op == "flatten":
        g.call(op, v)
    elif op == "broadcast_to":
        more = g.rng.choice([g.dim(static=True), *v.shape])  # a size must stand in some input
        shape = [more if d == g.const(1) else d for d in v.shape]
        g.call(op, v, dims(g, [*[more] * g.rng.choice([0, 1]), *shape]))
    else:
        fixed = [d[0] for d in v.shape if len(set(d)) == 1]
        kept = [d for d in v.shape if len(set(d)) > 1]
        total = math.prod(fixed)
        f = g.rng.choice([n for n in range(1, total + 1) if total % n == 0] or [0])
        rest = total // f if f else g.rng.choice([0, 3])
        shape = [*kept, g.const(f), g.const(rest)]
        g.rng.shuffle(shape)
        g.call(op, v, dims(g, shape))


@maker("expand_dims", "squeeze", "tile")
def more_axes(g, op):
    v = g.pick(ANY, (1, 3))
    if op == "expand_dims":
        g.call(op, v, axis=[g.rng.randint(-v.rank - 1, v.rank)])
    elif op == "tile":
        g.call(
            op,
            v,
            repeats=[g.rng.choice([1, 1, 2, 3]) for _ in range(v.rank + g.rng.choice([0, 0, 1]))],
        )
    else:
        ones = [k for k, d in enumerate(v.shape) if d == g.const(1)]
        g.call(op, v, axis=g.rng.choice([[g.rng.choice(ones)], None]) if ones else None)


@maker("concat", "split")
def joining(g, op):
    v = g.pick(ANY, (1, 4))
    k = g.axis(v)
    if op == "concat":
        parts = [
            v,
            *(
                g.rng.choice([v, g.new(v.dtype, place(g, v, k, g.dim()))])
                for _ in range(g.rng.randint(0, 3))
            ),
        ]
        g.call(op, parts, axis=k)
        return
    total = v.shape[k]
    if len(set(total)) > 1 or total[0] < 2:
        raise NotHere
    cuts = sorted(g.rng.sample(range(1, total[0]), min(total[0] - 1, g.rng.randint(1, 2))))
    g.call(op, v, outs=len(cuts) + 1, indices_or_sections=cuts, axis=k)


@maker("strided_slice")
def strided_slice(g, op):
    v = g.pick(ANY, (1, 4))
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, min(2, v.rank)))
    begin = [g.rng.choice([0, 1, 2, -1, -3]) for _ in axes]
    end = [g.rng.choice([1, 3, -1, 9, 2**31 - 1]) for _ in axes]
    step = [g.rng.choice([1, 1, 2, 3]) for _ in axes]
    g.call(op, v, *({"dims": x} for x in (axes, begin, end, step)))


@maker("astype")
def astype(g, op):
    v = g.pick([*ANY, *SMALL])
    to = g.rng.choice([*ANY, *SMALL, "bfloat16"])
    if (
        v.dtype[0] == "f"
        and (to[0] in "iu" or to == "bool")
        and not (v.exact and v.finite and to[0] != "u")
    ):
        raise NotHere
    g.call(op, v, finite=to != "float16", dtype=to)


@maker("clip")
def clip(g, op):
    g.call(op, g.pick(NUMBERS), {"dims": -1}, {"dims": 2})


@maker("unique", "nonzero")
def data_dependent(g, op):
    v = g.pick(["float32", *INTS], (1, 3), exact=True, finite=True)
    options = (
        [{"dims": b} for b in (True, *(g.rng.random() < 0.5 for _ in "abc"))]
        if op == "unique"
        else []
    )
    outs = 1 + sum(o["dims"] for o in options[1:])
    g.call(op, v, *options, outs=outs, final=True)
