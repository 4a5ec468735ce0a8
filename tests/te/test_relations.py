"""Relations between loops: values and sets of values in both directions."""

from __future__ import annotations

from itertools import product

import pytest

from loopwright import te
from loopwright.arith import Analyzer, IntervalSet, neg_inf, pos_inf
from loopwright.ir.prim_expr import IntImm, IterVar, Range
from loopwright.ir.prim_op import const
from loopwright.ir.variables import substitute
from loopwright.tir.index_map import IndexMap
from loopwright.tvm.te.relations import (
    Fuse,
    Rebase,
    Singleton,
    Split,
    Transform,
    matches,
    or_down,
    whole,
)


def axis(name: str, low: int, extent: int) -> IterVar:
    return IterVar(Range.from_min_extent(const(low), const(extent)), te.var(name), IterVar.DataPar)


def two_forms(forward, back):
    return IndexMap.from_func(forward), IndexMap.from_func(back)


I, J = axis("i", 3, 12), axis("j", 0, 4)
ZERO = axis("z", 0, 8)
OUT, INN, ONE = axis("o", 0, 3), axis("n", 0, 4), axis("one", 0, 1)
TWO_D = two_forms(lambda i, j: (j, i // 4, i % 4), lambda j, o, n: (o * 4 + n, j))
RELATIONS = {
    "split": Split(I, OUT, INN, const(4), None),
    "rebase": Rebase(I, axis("r", 0, 12)),
    "fuse": Fuse(axis("a", 2, 3), axis("b", 5, 4), axis("f", 0, 12)),
    "singleton": Singleton(ONE),
    "transform": Transform((ZERO, J), (axis("x", 0, 4), axis("y", 0, 2), axis("w", 0, 4)), *TWO_D),
}


def numbers(domain: IterVar) -> range:
    low = int(domain.dom.min)
    return range(low, low + int(domain.dom.extent))


def values(loops, exprs, at):
    table = {v.var: const(x) for v, x in zip(loops, at, strict=True)}
    return tuple(int(Analyzer().simplify(substitute(e, table))) for e in exprs)


def ranges(relation):
    return {v: v.dom for v in (*relation.sources, *relation.results)}


@pytest.mark.parametrize("name", RELATIONS)
def test_each_point_has_its_place(name):
    """The results go through all points of the sources once; `down` is the way back but for where the
    sources begin."""
    relation, doms = RELATIONS[name], ranges(RELATIONS[name])
    up = relation.up({r: r.var for r in relation.results}, doms)
    down = relation.down({s: s.var for s in relation.sources}, doms)
    places = [*product(*map(numbers, relation.results))]
    points = [values(relation.results, up, place) for place in places]
    assert sorted(points) == [*product(*map(numbers, relation.sources))]
    begins = [0 if name == "rebase" else int(s.dom.min) for s in relation.sources]
    for place, point in zip(places, points, strict=True):
        shifted = [p - b for p, b in zip(point, begins, strict=True)]
        assert values(relation.sources, down, shifted) == place
    analyzer = Analyzer()
    made = relation.ranges(doms, analyzer, lambda v: True)
    assert [(int(r.min), int(r.extent)) for r in made] == [
        (0, int(v.dom.extent)) for v in relation.results
    ]


@pytest.mark.parametrize("name", [n for n in RELATIONS if n != "singleton"])
def test_sets_hold_all_values(name):
    relation, doms = RELATIONS[name], ranges(RELATIONS[name])
    up = relation.up({r: r.var for r in relation.results}, doms)
    bounds = []
    for result in relation.results:
        last = int(result.dom.extent) - 1
        bounds.append(sorted({(0, 0), (0, last), (last, last), (last // 2, last)}))
    for chosen in product(*bounds):
        sets = {
            r: IntervalSet(const(a), const(b))
            for r, (a, b) in zip(relation.results, chosen, strict=True)
        }
        found = relation.up_sets(sets, doms)
        inside = [
            values(relation.results, up, p) for p in product(*(range(a, b + 1) for a, b in chosen))
        ]
        for k, one in enumerate(found):
            known = [p[k] for p in inside]
            ends = [int(Analyzer().simplify(e)) for e in (one.min_value, one.max_value)]
            assert ends[0] <= min(known) and ends[1] >= max(known)
            if name != "fuse":  # where a part of a row is taken as the whole
                assert ends == [min(known), max(known)]


def test_sets_without_ends_match_no_range():
    rng, ana = Range.from_min_extent(const(2), const(4)), Analyzer()
    assert matches(ana, whole(rng), rng)
    assert not matches(ana, IntervalSet(neg_inf(), pos_inf()), rng)
    for low, high in ((2, 4), (3, 5), (1, 5), (2, 6)):
        assert not matches(ana, IntervalSet(const(low), const(high)), rng)


SPLITS = [  # size, factor, nparts: extents of outer and inner, whether they run beyond the end
    (12, 4, None, (3, 4), False),
    (13, 4, None, (4, 4), True),
    (3, 4, None, (1, 3), False),
    (12, None, 5, (5, 3), True),
    (12, None, 4, (4, 3), False),
    (3, None, 4, (3, 1), False),
]


@pytest.mark.parametrize(("size", "factor", "nparts", "extents", "gaps"), SPLITS)
def test_extents_of_splits(size, factor, nparts, extents, gaps):
    parent, out, inn = axis("p", 0, size), te.thread_axis("o"), te.thread_axis("n")
    numbers = [None if n is None else const(n) for n in (factor, nparts)]
    split = Split(parent, out, inn, *numbers)
    doms, ana = {parent: parent.dom}, Analyzer()
    made = split.ranges(doms, ana, lambda v: True)
    assert tuple(int(r.extent) for r in made) == extents
    doms.update(zip((out, inn), made, strict=True))
    assert split.leaves_gaps(doms, ana) is gaps
    free = Split(parent, out, inn, *numbers, disable_predication=True)
    assert free.leaves_gaps(doms, ana) is False


def test_flags_of_a_loop_of_one_iteration():
    b = te.compute((), lambda: 1.0, name="b")
    stage = te.create_schedule(b.op)[b]
    stage.relations = [Singleton(ONE)]
    flags: dict[IterVar, int] = {}
    or_down(stage, flags)
    assert flags == {ONE: 0}
    stage.relations = [Split(I, OUT, INN, const(4), None)]
    or_down(stage, flags)
    assert OUT not in flags
    flags[I] = 2
    or_down(stage, flags)
    assert (flags[OUT], flags[INN]) == (2, 2)


def test_numbers_of_axes():
    for dom, begin, extent in ((5, 0, 5), ((2, 5), 2, 3), ([2, 5], 2, 3), (Range(2, 5), 2, 3)):
        made = te.reduce_axis(dom)
        assert (int(made.dom.min), int(made.dom.extent)) == (begin, extent)
        assert isinstance(made.dom.extent, IntImm) and made.iter_type == IterVar.CommReduce
    for wrong in ((1,), (1, 2, 3)):
        with pytest.raises(TypeError, match=r"an axis runs over \(begin, end\)"):
            te.reduce_axis(wrong)
