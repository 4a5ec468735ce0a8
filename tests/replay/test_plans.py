"""Places in memory, layouts and index maps: what is found for random ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.prim_expr import Var
from loopwright.tir.data_layout import bijective_layout, layout
from loopwright.tir.index_map import IndexMap
from loopwright.tir.memory_plan import plan, problem
from loopwright.tir.memory_plan.algorithms import ALGORITHMS, place
from loopwright.tvm.tir.suggest_index_map import suggest_index_map

from .stages import said

ROW = 10  # cases of a row


def in_rows(count: int, answers: Any) -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    for seed in range(count):
        row = made.setdefault(str(seed // ROW * ROW), {})
        for name, text in answers(random.Random(seed)).items():
            row[name] = row.get(name, "") + f"{seed}: {text}\n"
    return made


def _planned(rng: random.Random) -> dict[str, str]:
    """A problem of memory with each algorithm's placement, and a plan with pictures of it."""
    pools = tuple(
        problem.Pool(f"pool{k}", rng.choice([None, 64, 200, 512]), rng.choice([1, 8, 64]))
        for k in range(rng.randint(1, 3))
    )
    items = []
    for k in range(rng.randint(1, 9)):
        first = rng.randint(0, 8)
        size, last = rng.choice([0, 1, 8, 24, 64, 100]), first + rng.randint(0, 5)
        order = tuple(rng.sample(range(len(pools)), rng.randint(1, len(pools))))
        items.append(problem.Item(f"t{k}", size, first, last, rng.choice([1, 4, 16]), order))
    after = [(a, b) for a in range(len(items)) for b in range(len(items)) if a < b]
    shared = frozenset(
        (a, b) for a, b in after if items[a].last == items[b].first and rng.random() < 0.5
    )
    given = problem.Problem(tuple(items), pools, shared)
    made = {}
    for name in ALGORITHMS:
        found = place(given, name)
        made[name] = f"{found} {found.fits} {problem.overlaps(given, found)}"
    made["bound"] = str(problem.lower_bound(items, shared))
    entries = [
        plan.Entry(i.name, rng.choice(["tensor", "scratch"]), i.size, pools[at[0]].name, at[1],
                   i.first, i.last, rng.choice(["", "t0"]))
        for i, at in zip(items, found.places, strict=True) if at is not None
    ]  # fmt: skip
    planned = plan.MemoryPlan(
        "main",
        name,
        tuple(
            plan.PlannedPool(p.name, size, p.alignment, -1 if p.limit is None else p.limit)
            for p, size in zip(pools, found.bytes, strict=True)
        ),
        tuple(entries),
        tuple(f"step {k}" for k in range(14)),
        problem.lower_bound(items, shared),
        (("t1", "no room"),) if rng.random() < 0.3 else (),
    )
    func = tir.PrimFunc([], tir.Evaluate(0)).with_attr(plan.ATTRIBUTE, planned.as_attr())
    made["read"] = f"{plan.plan_of(func) == planned} {planned.bytes} {planned.ratio}"
    made["report"] = planned.report()
    made["pictures"] = planned.picture() + planned.picture(pools[0].name, 40, 8) + planned.svg()
    return made


def test_memory(replay: Any) -> None:
    replay("plans/memory", in_rows(80, _planned))


AXES = "NCHW"


def _layout(rng: random.Random) -> str:
    letters = rng.sample(AXES, 4 if rng.random() < 0.9 else 3)
    blocks = [
        f"{rng.choice((2, 4, 8))}{c.lower()}" for c in rng.sample(AXES, rng.choice((0, 1, 2)))
    ]
    for block in blocks:
        letters.insert(rng.choice((len(letters), rng.randint(0, len(letters)))), block)
    return "".join(letters)


def _layouts(rng: random.Random) -> dict[str, str]:
    one, other = _layout(rng), _layout(rng)
    shape = [rng.choice((1, 4, 8, 16, 30)) for _ in range(4)]
    names = [Var(c, "int64") for c in "abcdef"]

    def both() -> str:
        pair = bijective_layout(one, other)
        if pair is None:
            return "None"
        first, last = len(pair.src_layout.parts), len(pair.dst_layout.parts)
        return "\n".join(
            (
                str(pair.forward_shape([*shape, *([4] * 6)][:first])),
                str(pair.backward_shape([*shape, *([4] * 6)][:last])),
                str(pair.forward_index(names[:first])),
                str(pair.backward_index(names[:last])),
                str(pair.index_map()),
            )
        )

    def alone() -> str:
        given = layout(one)
        steps = [(given.index_of(c), given.factor_of(c)) for c in AXES + AXES.lower()]
        return (
            f"{given} {given.axes} {given.parts} {given.steps()} {steps} {given.renamed('C', 'K')}"
        )

    return {"pair": f"{one} {other} {said(both)}", "one": said(alone)}


def test_layouts(replay: Any) -> None:
    replay("plans/layouts", in_rows(150, _layouts))


def _map(rng: random.Random) -> dict[str, str]:
    """A map of indices that are split, fused and turned."""
    dtype = rng.choice(("int32", "int64"))
    shape = [rng.choice((1, 3, 4, 6, 8, 16)) for _ in range(rng.randint(1, 3))]
    given = [Var(f"i{k}", dtype) for k in range(len(shape))]
    digits: list[Any] = []
    for v, extent in zip(given, shape, strict=True):
        pick, factor = rng.random(), rng.choice((2, 3, 4))
        if pick < 0.5:
            digits += [(v // factor, -(-extent // factor)), (v % factor, factor)]
        elif pick < 0.6:
            digits.append((v + factor, extent + factor))
        else:
            digits.append((v, extent))
    rng.shuffle(digits)
    final: list[Any] = []
    while digits:
        (value, extent), *digits = digits
        while digits and rng.random() < 0.3:
            (low, size), *digits = digits
            value, extent = value * size + low, extent * size
        final.append(value)
    made = IndexMap(given, final)
    again = IndexMap([Var(f"j{k}", dtype) for k in range(len(shape))], final[::-1])
    data = np.arange(np.prod(shape)).reshape(shape)
    return {
        "map": f"{made} {shape}",
        "inverse": said(made.inverse, shape),
        "padded": said(lambda: list(map(str, made.non_surjective_inverse(shape)))),
        "shape": said(made.map_shape, shape),
        "ranges": said(made.map_ranges, [tir.Range(1, n + 1) for n in shape]),
        "indices": said(made.map_indices, [2 * v + 1 for v in given]),
        "data": said(lambda: made.map_ndarray(data).tolist()),
        "other": said(lambda: [made.is_equivalent_to(made), made.is_equivalent_to(again)]),
        "typed": said(lambda: [made.with_dtype(t) for t in ("int32", "int64")]),
    }


def test_index_maps(replay: Any) -> None:
    replay("plans/index-maps", in_rows(150, _map))


def _suggestion(rng: random.Random) -> dict[str, str]:
    """The layout that suits an access of a buffer in tiled loops."""
    sizes = [(rng.choice((1, 2, 4)), rng.choice((2, 3, 8))) for _ in range(rng.randint(0, 3))]
    loops, indices = [], []
    for k, pair in enumerate(sizes):
        outer, inner = Var(f"o{k}"), Var(f"i{k}")
        indices.append(outer * pair[1] + inner)
        loops += [
            tir.For(v, 0, n, tir.ForKind.SERIAL, tir.Evaluate(0))
            for v, n in zip((outer, inner), pair, strict=True)
        ]
    rng.shuffle(loops)
    if rng.random() < 0.3:
        indices = indices[::-1]
    cut = rng.choice((0, 0, 1))
    buffer = tir.decl_buffer([a * b - cut for a, b in sizes], "float32", "A")
    limit: Any = rng.choice((True, True, indices[0] < 5 if indices else True))
    found = said(suggest_index_map, buffer, indices, loops, limit)
    return {"": f"{buffer.shape} {indices} {[v.loop_var for v in loops]} {limit}: {found}"}


@pytest.mark.no_roundtrip
def test_suggested_index_maps(replay: Any) -> None:
    replay("plans/suggestions", in_rows(120, _suggestion))
