"""Calls of our operators that make or move data, of arguments that depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .build import FLOATS, INTS, NUMBERS, SMALL, Dim, NotHere, Value
from .onnx_shapes import place
from .relax_build import RelaxBuilder, maker
from .relax_calls import ANY


def dims(g: RelaxBuilder, shape: Sequence[Dim]) -> dict[str, Any]:
    return {"dims": [g.text(d) for d in shape]}


def below(g: RelaxBuilder, shape: Sequence[Dim], extent: Dim) -> Value:
    """Indices of an axis of this extent."""
    if min(extent) < 1:
        raise NotHere
    return g.new(g.rng.choice(INTS), shape, low=0, high=min(extent) - 1)


@maker("full", "zeros", "ones", "full_like")
def filled(g, op):
    dtype = g.rng.choice([*NUMBERS, "bool", "uint8"])
    number = [g.weight(dtype, [1], [])] if "full" in op else []
    sizes = [g.const(g.rng.choice([0, 1, 2, 5, 16])) for _ in range(g.rng.randint(0, 3))]
    g.call(op, g.pick(ANY) if "like" in op else dims(g, sizes), *number, dtype=dtype)


@maker("arange")
def arange(g, op):
    step, start = g.rng.choice([1, 2, -1, -3]), g.rng.choice([0, 5, -2])
    bounds = start, start + step * g.rng.choice([0, 1, 3, 17]), step
    g.call(op, *({"dims": n} for n in bounds), dtype=g.rng.choice(["int64", "int32", "float32"]))


@maker("hamming_window")
def hamming(g, op):
    size, periodic = g.rng.choice([1, 2, 9]), g.rng.random() < 0.5
    g.call(op, *({"dims": x} for x in (size, periodic, 0.54, 0.46)), dtype="float32")


@maker("where")
def where(g, op):
    a = g.pick(ANY)
    b = g.mate(a)
    both = g.broadcast(a.shape, b.shape)
    g.call(op, g.new("bool", [g.const(1) if g.rng.random() < 0.2 else d for d in both]), a, b)


@maker("one_hot")
def one_hot(g, op):
    depth = g.rng.choice([1, 3, 8])
    i = below(g, [g.dim() for _ in range(g.rng.randint(1, 2))], g.const(depth))
    g.call(op, i, {"dims": 2.0}, {"dims": -1.0}, depth=depth, axis=g.rng.randint(-1, i.rank))


@maker("take", "gather_elements", "gather_nd", "grad.take_backward")
def gathered(g, op):
    v = g.pick(["float32"] if "grad" in op else ANY, (1, 3))
    k = g.axis(v)
    if op == "take":
        i = below(g, [g.dim() for _ in range(g.rng.randint(0, 2))], v.shape[k])
        g.call(op, v, i, axis=k, mode=g.rng.choice(["fast", "wrap", "clip"]))
    elif op == "gather_elements":
        g.call(op, v, below(g, place(g, v, k, g.dim()), v.shape[k]), axis=k)
    elif op == "gather_nd":
        g.call(op, v, below(g, [g.dim(), g.const(1)], v.shape[0]))
    else:
        rows = g.dim()
        grad = g.new(v.dtype, place(g, v, k, rows))
        g.call(op, grad, v, below(g, [rows], v.shape[k]), axis=k % v.rank)


@maker("scatter_elements", "scatter_nd", "index_tensor", "index_put", "slice_scatter")
def scattered(g, op):
    v = g.pick(["float32", *INTS], (1, 3), exact=True)
    k, rows = g.axis(v, False), g.dim()
    how = g.rng.choice(["update", "add", "min", "max"])
    if op == "scatter_elements":
        some = [g.const(2) if a == k else g.const(1) for a in range(v.rank)]
        if any(min(d) < 1 for d in v.shape):
            raise NotHere
        i = below(g, some, v.shape[k])
        g.call(op, v, i, g.new(v.dtype, some), axis=k, reduction=how)
    elif op == "slice_scatter":
        if len(set(v.shape[k])) > 1 or v.shape[k][0] < 2:
            raise NotHere
        at = g.rng.randrange(v.shape[k][0])
        bounds = [{"dims": n} for n in (at, at + 1, g.rng.choice([1, 2]))]
        g.call(op, v, g.new(v.dtype, place(g, v, k, g.const(1))), *bounds, axis=k)
    elif op == "scatter_nd":
        i = below(g, [rows, g.const(1)], v.shape[0])
        g.call(op, v, i, g.new(v.dtype, [rows, *v.shape[1:]]), reduction=how)
    elif op == "index_tensor":
        g.call(op, v, [below(g, [rows], v.shape[0])])
    else:
        new = g.new(v.dtype, [rows, *v.shape[1:]])
        g.call(op, v, [below(g, [rows], v.shape[0])], new, accumulate=g.rng.random() < 0.5)


@maker("permute_dims")
def transpose(g, op):
    v = g.pick(ANY, (1, 5))
    g.call(op, v, axes=g.rng.choice([None, g.rng.sample(range(v.rank), v.rank)]))


@maker("reshape")
def reshape(g, op):
    v = g.pick(ANY, (1, 4))
    fixed = [d[0] for d in v.shape if len(set(d)) == 1]
    total = math.prod(fixed)
    f = g.rng.choice([n for n in range(1, total + 1) if total % n == 0] or [0])
    rest = total // f if f else g.rng.choice([0, 3])
    shape = [*(d for d in v.shape if len(set(d)) > 1), g.const(f), g.const(rest)]
    g.rng.shuffle(shape)
    g.call(op, v, dims(g, shape))


@maker("broadcast_to")
def broadcast_to(g, op):
    v = g.pick(ANY, (1, 4))
    more = g.rng.choice([g.dim(static=True), *v.shape])  # a size must stand in some input
    shape = [more if d == g.const(1) else d for d in v.shape]
    g.call(op, v, dims(g, [*[more] * g.rng.choice([0, 1]), *shape]))


@maker("expand_dims", "squeeze", "tile")
def more_axes(g, op):
    v = g.pick(ANY, (1, 3))
    ones = [k for k, d in enumerate(v.shape) if d == g.const(1)]
    if op == "expand_dims":
        g.call(op, v, axis=[g.rng.randint(-v.rank - 1, v.rank)])
    elif op == "squeeze":
        g.call(op, v, axis=g.rng.choice([[g.rng.choice(ones)], None]) if ones else None)
    else:
        times = v.rank + g.rng.choice([0, 0, 1])
        g.call(op, v, repeats=[g.rng.choice([1, 1, 2, 3]) for _ in range(times)])


@maker("concat", "stack", "split")
def joining(g, op):
    v = g.pick(ANY, (int(op != "stack"), 4 if op != "stack" else 3))
    if op == "stack":
        parts = [v, *(g.new(v.dtype, v.shape) for _ in range(g.rng.randint(0, 2)))]
        return g.call(op, parts, axis=g.rng.randint(-v.rank - 1, v.rank))
    k = g.axis(v)
    if op == "concat":
        parts = [v]
        for _ in range(g.rng.randint(0, 3)):
            parts.append(g.rng.choice([v, g.new(v.dtype, place(g, v, k, g.dim()))]))
        return g.call(op, parts, axis=k)
    total = v.shape[k]
    if len(set(total)) > 1 or total[0] < 2:
        raise NotHere
    cuts = sorted(g.rng.sample(range(1, total[0]), min(total[0] - 1, g.rng.randint(1, 2))))
    return g.call(op, v, indices_or_sections=cuts, axis=k)


@maker("einsum")
def einsum(g, op):
    text = g.rng.choice(["ij,jk->ik", "bij,bj->bi", "ij->ji", "...i,i->...", "ij,ij->"])
    extents = {c: g.dim() for c in "bijk"}
    terms, kind = text.split("->")[0].replace("...", "bk"), g.rng.choice(["float32", "int32"])
    parts = [g.new(kind, [extents[c] for c in term]) for term in terms.split(",")]
    g.call(op, parts, subscripts=text)


@maker("ewise_fma")
def fused(g, op):
    v = g.pick(FLOATS)
    g.call(op, v, *(g.new(v.dtype, v.shape) for _ in "ab"))


@maker("strided_slice", "dynamic_strided_slice")
def slices(g, op):
    v = g.pick(ANY, (1, 4))
    if op.startswith("dynamic"):
        bounds = [[g.rng.choice(c) for _ in v.shape] for c in ([0, 1, -2], [9, 3, -1], [1, 2])]
        return g.call(op, v, *(g.weight("int64", b, [v.rank]) for b in bounds))
    axes = g.rng.sample(range(v.rank), g.rng.randint(1, min(2, v.rank)))
    begin = [g.rng.choice([0, 1, 2, -1, -3]) for _ in axes]
    end = [g.rng.choice([1, 3, -1, 9, 2**31 - 1]) for _ in axes]
    step = [g.rng.choice([1, 1, 2, 3]) for _ in axes]
    return g.call(op, v, *({"dims": x} for x in (axes, begin, end, step)))


@maker("astype", "reinterpret")
def retyped(g, op):
    if op == "reinterpret":
        v = g.pick(["int32", "uint32", "int64"])
        wide = v.dtype == "int64"
        to = ["uint64", "int64"] if wide else ["uint32", "int32"]
        return g.call(op, v, dtype=g.rng.choice(to))
    v, to = g.pick([*ANY, *SMALL]), g.rng.choice([*ANY, *SMALL, "bfloat16"])
    whole = to[0] in "iu" or to == "bool"
    if v.dtype[0] == "f" and whole and not (v.exact and v.finite and to[0] != "u"):
        raise NotHere
    return g.call(op, v, dtype=to)


@maker("clip")
def clip(g, op):
    g.call(op, g.pick(NUMBERS), {"dims": -1}, {"dims": 2})


@maker("unique")
def unique(g, op):
    v = g.pick(["float32", *INTS], (1, 3), exact=True, finite=True)
    g.call(op, v, *({"dims": b} for b in (True, *(g.rng.random() < 0.5 for _ in "abc"))))


@maker("topk")
def topk(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4), exact=True)
    axis = g.axis(v)
    attrs = {"k": g.rng.randint(0, min(v.shape[axis])), "largest": g.rng.random() < 0.5}
    g.call(op, v, axis=axis, ret_type="both", dtype=g.rng.choice(INTS), **attrs)


@maker("collapse_sum_to", "collapse_sum_like")
def collapsed(g, op):
    v = g.pick(["float32", "float64", *INTS], (1, 4))
    kept = [g.const(1) if g.rng.random() < 0.5 else d for d in v.shape]
    kept = kept[g.rng.randint(0, v.rank) :]
    g.call(op, v, dims(g, kept) if op == "collapse_sum_to" else g.new(v.dtype, kept))
