"""The memory planner's algorithms: nothing overlaps, limits hold, none is below the bound."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as some

from loopwright.runtime.arena import Arena, as_arenas, format_bytes, parse_bytes
from loopwright.tir.memory_plan import (
    ALGORITHMS,
    Entry,
    Item,
    MemoryPlan,
    PlannedPool,
    Pool,
    Problem,
    lower_bound,
    place,
    share,
)
from loopwright.tir.memory_plan.problem import overlaps, placement_of


@some.composite
def items(draw, pools=1):
    """Up to 24 items at up to 16 times."""
    made = []
    for k in range(draw(some.integers(0, 24))):
        first = draw(some.integers(0, 15))
        last = draw(some.integers(first, min(first + 6, 15)))
        size = draw(some.one_of(some.integers(0, 100), some.sampled_from([64, 256, 1024, 4096])))
        own = draw(some.permutations(range(pools)))[: draw(some.integers(1, pools))]
        align = draw(some.sampled_from([1, 4, 64, 128]))
        made.append(Item(f"t{k}", size, first, last, align, tuple(own)))
    return tuple(made)


def pairs_in_place(listed):
    """Pairs (a, b) where b begins when a ends."""
    return frozenset(
        (i, j)
        for i, a in enumerate(listed)
        for j, b in enumerate(listed)
        if i != j and a.last == b.first and a.first < b.first and b.last > a.last
    )


def wrong(problem, placement):
    """Pairs that lie over each other while both live, found byte by byte."""
    found = []
    for i, a in enumerate(problem.items):
        for j, b in enumerate(problem.items[:i]):
            p, q = placement.places[i], placement.places[j]
            if p is None or q is None or p[0] != q[0] or a.last < b.first or b.last < a.first:
                continue
            shared = (i, j) in problem.shared or (j, i) in problem.shared
            if shared and p[1] == q[1]:
                continue
            if set(range(p[1], p[1] + a.size)) & set(range(q[1], q[1] + b.size)):
                found.append((i, j))
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(listed=items())
def test_nothing_overlaps_and_alignment_is_kept(algorithm, listed):
    problem = Problem(listed, (Pool("p", None, 16),))
    made = place(problem, algorithm)
    assert made.fits
    assert wrong(problem, made) == overlaps(problem, made) == []
    for item, (_, offset) in zip(listed, made.places, strict=True):
        assert offset % max(item.alignment, 16) == 0
        assert offset + item.size <= made.bytes[0]
    assert made.bytes[0] >= lower_bound(listed)


@given(listed=items())
def test_best_is_not_above_any(listed):
    problem = Problem(listed)
    least = place(problem, "best").bytes
    assert all(least <= place(problem, name).bytes for name in ALGORITHMS)


@given(listed=items())
def test_the_bound_is_the_most_that_lives_at_once(listed):
    alive = [sum(i.size for i in listed if i.first <= t <= i.last) for t in range(16)]
    assert lower_bound(listed) == max(alive, default=0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(listed=items())
def test_in_place(algorithm, listed):
    problem = Problem(listed, shared=pairs_in_place(listed))
    made = place(problem, algorithm)
    assert wrong(problem, made) == overlaps(problem, made) == []
    assert sum(made.bytes) >= lower_bound(listed, problem.shared)


@pytest.mark.sample(2)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(listed=items(pools=3), limits=some.lists(some.integers(0, 6000), min_size=3, max_size=3))
def test_limits_hold(algorithm, listed, limits):
    problem = Problem(listed, tuple(Pool(f"p{k}", n) for k, n in enumerate(limits)))
    made = place(problem, algorithm)
    assert wrong(problem, made) == overlaps(problem, made) == []
    assert all(used <= limit for used, limit in zip(made.bytes, limits, strict=True))
    for item, placed in zip(listed, made.places, strict=True):
        if placed is not None:
            assert placed[0] in item.pools
        else:  # it is larger than what is left in each of its pools
            assert item.size > 0


@given(items(), some.sampled_from([None, 4]))
def test_pieces_have_one_user_at_a_time(listed, window):
    kinds = [item.alignment for item in listed]
    pieces = share(listed, kinds, window)
    assert len(pieces) == len(listed) and sorted(set(pieces)) == list(range(len(set(pieces))))
    for k, piece in enumerate(pieces):
        for other in range(k):
            if pieces[other] == piece:
                assert kinds[other] == kinds[k] and not listed[other].meets(listed[k])


@pytest.mark.parametrize(
    ("sizes", "window", "pieces"),
    [
        ((64, 32, 40), None, [0, 1, 0]),  # the smallest that is large enough
        ((64, 32, 80), None, [0, 1, 0]),  # else the largest, which grows
        ((64, 32, 20), None, [0, 1, 1]),
        ((64, 32, 1000), 4, [0, 1, 2]),
        ((64, 32, 5), 4, [0, 1, 2]),
    ],
)
def test_which_piece_is_used_again(sizes, window, pieces):
    first = [Item(f"t{k}", size, 0, 1) for k, size in enumerate(sizes[:2])]
    listed = [*first, Item("late", sizes[2], 2, 3)]
    assert share(listed, ["kind"] * 3, window) == pieces


def test_hill_climbing_improves_the_greedy_orders():
    # Each greedy order leaves a hole here that another order fills.
    rows = [(64, 0, 1), (96, 1, 2), (32, 0, 3), (96, 3, 4), (64, 2, 3), (32, 2, 5), (128, 5, 6)]
    rows += [(48, 4, 6), (80, 6, 7), (112, 7, 8), (48, 7, 9), (64, 8, 9), (16, 1, 8)]
    problem = Problem(tuple(Item(f"t{k}", *row) for k, row in enumerate(rows)))
    greedy = min(place(problem, n).bytes[0] for n in ("greedy_by_size", "greedy_by_conflicts"))
    bound = lower_bound(problem.items)
    assert bound <= place(problem, "hill_climb").bytes[0] <= greedy
    assert place(problem).bytes[0] <= 1.05 * bound


def test_a_chain_in_place_needs_the_largest():
    chain = tuple(Item(f"t{k}", 100 - k, k, k + 1) for k in range(5))
    problem = Problem(chain, shared=frozenset((k, k + 1) for k in range(4)))
    made = place(problem)
    assert made.bytes == (100,)
    assert lower_bound(chain, problem.shared) == 100
    assert place(Problem(chain)).bytes == (199,)


def test_what_does_not_fit_spills_to_the_next_pool():
    listed = tuple(Item(f"t{k}", 60, 0, 1, pools=(0, 1)) for k in range(3))
    made = place(Problem(listed, (Pool("fast", 128), Pool("slow"))))
    assert made.fits
    assert made.bytes == (120, 60)
    short = place(Problem(listed, (Pool("fast", 128), Pool("slow", 32))))
    assert not short.fits
    assert short.cost[0] == 60


def test_unknown_algorithm():
    with pytest.raises(ValueError) as error:
        place(Problem(()), "greedy_by_sizes")
    assert str(error.value) == (
        "unknown algorithm of the memory planner\n"
        "  got: greedy_by_sizes\n"
        "  instead: did you mean greedy_by_size?"
    )


# ---------------------------------------------------------------------- arenas


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [("256KiB", 1 << 18), ("1.5 MB", 1_500_000), ("2gib", 2 << 30), ("64", 64), ("7B", 7), (9, 9)],
)
def test_sizes(text, bytes_):
    assert parse_bytes(text) == bytes_
    assert Arena("a", text).limit == bytes_


@given(some.integers(0, 1 << 40))
def test_a_size_reads_as_it_is_written(size):
    assert parse_bytes(format_bytes(size)) == size


ERRORS = [
    (
        lambda: Arena("a", "many"),
        "this is not a size\n  got: 'many'\n"
        '  instead: a number of bytes, or a text such as "256KiB", "4MB"',
    ),
    (
        lambda: Arena("a", -1),
        "a size is not negative\n  got: -1\n"
        '  instead: a number of bytes, or a text such as "256KiB", "4MB"',
    ),
    (
        lambda: Arena("fast ram"),
        "an arena's name is an identifier: parameters and macros are called after it\n"
        "  got: 'fast ram'",
    ),
    (
        lambda: Arena("a", alignment=48),
        "the alignment of arena a is a power of two\n  got: 48",
    ),
    (
        lambda: Arena("a", kinds="weights"),
        "arena a holds an unknown kind of memory\n  got: weights\n"
        "  instead: one of tensor, scratch, constant",
    ),
    (lambda: as_arenas(["a", "a"]), "two arenas have one name\n  got: a"),
    (
        lambda: as_arenas([]),
        'the list of arenas is empty\n  instead: give one: [Arena("workspace")]',
    ),
]


@pytest.mark.parametrize(("make", "text"), ERRORS)
def test_errors_of_arenas(make, text):
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == text


def test_a_size_of_another_type():
    with pytest.raises(TypeError, match="this is not a size"):
        Arena("a", 1.5)
    with pytest.raises(TypeError, match="arenas are given as a list of Arena"):
        as_arenas([1])


def test_what_an_arena_takes():
    arena = Arena("a", kinds="tensor", only=("conv*", "y"))
    assert arena.takes("tensor", "conv1")
    assert arena.takes("tensor", "y")
    assert not arena.takes("tensor", "x")
    assert not arena.takes("scratch", "conv1")


# ---------------------------------------------------------------------- pictures


PLAN = MemoryPlan(
    "main",
    "best",
    (PlannedPool("sram", 192, 64, 256), PlannedPool("dram", 64, 64)),
    (
        Entry("a", "tensor", 128, "sram", 0, 0, 1),
        Entry("b", "scratch", 64, "sram", 128, 1, 1),
        Entry("c<1>", "tensor", 64, "dram", 0, 1, 2),
        Entry("d", "tensor", 128, "sram", 0, 2, 2, "a"),
    ),
    ("first", "second", "third"),
    256,
    (("kernel.t", "its size is known only at run time (n)"),),
)


def test_report():
    assert PLAN.report() == (
        "memory plan of main (best)\n"
        "  pool sram: 192 bytes of 256 (256B), aligned to 64\n"
        "  pool dram: 64 bytes, aligned to 64\n"
        "  live-range lower bound: 256 bytes, planned: 256, ratio 1.000\n"
        "  tensor  kind     bytes  pool  offset  lives\n"
        "  a       tensor     128  sram       0  0-1 first .. second\n"
        "  c<1>    tensor      64  dram       0  1-2 second .. third\n"
        "  b       scratch     64  sram     128  1-1 second\n"
        "  d       tensor     128  sram       0  2-2 third, over a\n"
        "  not planned: kernel.t: its size is known only at run time (n)"
    )


def test_text_picture():
    assert PLAN.picture("sram", height=3) == (
        "sram: 192 bytes, 3 steps\n"
        "       128 |.B.|\n"
        "        64 |AAC|\n"
        "         0 |AAC|\n"
        "A a (128)   B b (64)   C d (128)"
    )
    assert PLAN.picture(height=1).count("steps") == 2


def test_svg():
    root = ElementTree.fromstring(PLAN.svg())
    name = "{http://www.w3.org/2000/svg}"
    titles = [t.text for t in root.iter(f"{name}title")]
    assert titles == [
        "memory plan of main",
        "a: 128 bytes at 0, 0-1 first .. second",
        "b: 64 bytes at 128, 1-1 second",
        "d: 128 bytes at 0, 2-2 third, over a",
        "c<1>: 64 bytes at 0, 1-2 second .. third",
    ]
    boxes = [r for r in root.iter(f"{name}rect") if r.find(f"{name}title") is not None]
    assert len(boxes) == len(PLAN.entries)
    # b lies above a, begins one step later, and is half as high.
    a, b = boxes[0].attrib, boxes[1].attrib
    assert float(b["y"]) + float(b["height"]) == pytest.approx(float(a["y"]), abs=0.2)
    assert float(b["x"]) > float(a["x"])
    assert float(a["height"]) == pytest.approx(2 * float(b["height"]), abs=0.2)
    assert re.search(r">third</text>", PLAN.svg())


def test_entries_by_name():
    assert PLAN["b"].bytes == 64
    with pytest.raises(KeyError):
        PLAN["x"]


@pytest.mark.parametrize(
    ("sizes", "places", "apart"),
    [
        ((8, 8), ((0, 0), (0, 8)), True),
        ((8, 8), ((0, 8), (0, 0)), True),
        ((8, 8), ((0, 0), (0, 7)), False),
        ((8, 8), ((0, 7), (0, 0)), False),
        ((8, 8), ((0, 4), (0, 4)), False),
        ((8, 8), ((0, 4), (1, 4)), True),
        ((8, 8), ((0, 4), None), True),
        ((8, 8), (None, (0, 4)), True),
        ((0, 8), ((0, 4), (0, 0)), True),
        ((8, 0), ((0, 0), (0, 4)), True),
        ((8, 1), ((0, 0), (0, 4)), False),
        ((1, 8), ((0, 4), (0, 0)), False),
    ],
)
def test_what_overlaps(sizes, places, apart):
    pools = (Pool("p", None), Pool("q", None))
    for last, meet in ((1, True), (0, False)):
        items = (Item("a", sizes[0], 0, last), Item("b", sizes[1], 1, 2, 1, (0, 1)))
        problem = Problem(items, pools)
        found = overlaps(problem, placement_of(problem, places))
        assert found == ([(0, 1)] if meet and not apart else [])
