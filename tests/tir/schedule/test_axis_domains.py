"""Which values of axes touch a box of a buffer, against a count of all of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from loopwright.ir.prim_op import const
from loopwright.tir import decl_buffer
from loopwright.tir.buffer import BufferRegion
from loopwright.tir.schedule.machinery.axis_bindings import linear_terms
from loopwright.tir.schedule.machinery.axis_domains import axis_loop, solve_axes, union_spans
from loopwright.tir.stmt import Block, Evaluate
from loopwright.tir.stmt_functor import substitute

V, W, N = (Var(name, "int32") for name in "vwn")
AXES = [IterVar(Range.upto(IntImm("int32", 12)), v, IterVar.DataPar) for v in (V, W)]


def at(expr: PrimExpr, **values: int) -> int:
    made = substitute(
        expr, {x: const(values[x.name], "int32") for x in (V, W, N) if x.name in values}
    )
    return int(Analyzer().simplify(made))


def spans(
    regions: list[tuple[PrimExpr, int]], box: list[tuple[int, int]], touching: bool
) -> dict[str, tuple[int, int]]:
    """The solved axes of a block that accesses a region (begins and extents), n being 5."""
    buffer = decl_buffer((64,) * len(regions), "float32", "B")
    ranges = tuple(Range.from_min_extent(low, const(n, "int32")) for low, n in regions)
    ends = [(const(a, "int32"), const(b, "int32")) for a, b in box]
    region = BufferRegion(buffer, ranges)
    block = Block(AXES, [], [region], "b", Evaluate(0))
    made = solve_axes(Analyzer(), region, ends, block, touching=touching)
    return {v.name: (at(a, n=5), at(b, n=5)) for v, (a, b) in made.items()}


@pytest.mark.parametrize("touching", [True, False])
@pytest.mark.parametrize(
    "begin",
    [V, V + 3, 11 - V, V * 2, V * 3 - 1, 20 - V * 2, 2 * V + N, V // 1, V // 2, V // 3, V + N * 2, N - V, V - 1],
    ids=str,
)  # fmt: skip
def test_one_axis_of_one_dimension(begin: PrimExpr, touching: bool) -> None:
    begins = {v: at(begin, v=v, n=5) for v in range(-30, 60)}
    for (low, high), extent in product([(4, 4), (4, 9), (0, 11)], (1, 2, 3)):
        wanted = set()
        for v, first in begins.items():
            last = first + extent - 1
            if (first <= high and last >= low) if touching else (first >= low and last <= high):
                wanted.add(v)
        (a, b) = spans([(begin, extent)], [(low, high)], touching)["v"]
        assert set(range(a, b + 1)) == wanted


@pytest.mark.parametrize(
    "begin",
    [V + W, V * N, V * V, V % 4, V * 0 + 3, V - W, V // 2 + V, (V + 1) // 2, N // 2, N + 1, V // -2, V // N],
    ids=str,
)  # fmt: skip
def test_what_no_single_axis_decides_is_left_out(begin: PrimExpr) -> None:
    assert spans([(begin, 1)], [(2, 5)], True) == {}


@pytest.mark.parametrize(
    "begins, box, found",
    [
        ([V, W], [(1, 2), (3, 4)], {"v": (1, 2), "w": (3, 4)}),
        ([V, V + 1], [(1, 6), (3, 4)], {"v": (2, 3)}),
        ([V + 4, V], [(1, 6), (1, 9)], {"v": (1, 2)}),
        ([(V * 12 + W) // 16, (V * 12 + W) % 16], [(3, 3), (0, 15)], {"v": (4, 5), "w": (0, 11)}),
        ([(V * 12 + W) // 16, W], [(3, 3), (0, 11)], {"w": (0, 11)}),
    ],
)  # fmt: skip
def test_axes_of_several_dimensions(
    begins: list[PrimExpr], box: list[tuple[int, int]], found: object
) -> None:
    assert spans([(b, 1) for b in begins], box, True) == found


def test_spans_of_several_users_are_joined() -> None:
    ana, (a, b, c, d) = Analyzer(), (const(k, "int32") for k in (1, 3, 2, 9))
    first, other = {V: (a, b), W: (a, b)}, {V: (c, d)}
    assert union_spans(ana, None, first) is first
    joined = union_spans(ana, first, other)
    assert {k: (int(x), int(y)) for k, (x, y) in joined.items()} == {V: (1, 9)}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("low", "extent", "keep_unit"), [(0, 12, True), (3, 9, False), (-2, 12, False)]
)
@pytest.mark.parametrize(
    ("first", "last", "longest"),
    [
        (0, 11, 12), (3, 5, 3), (-4, 20, 12), (-3, 2, 6), (9, 30, 12), (4, 4, 1), (3, 3, 1), (12, 14, 3),
        (N, N + 3, 4), (N, N, 1), (N // 4, N // 4 + N % 4, 4), (N * 0, N, None), (N % 8, N % 8 + 2, 3), (N, 11 + N * 0, None),
    ],
)  # fmt: skip
def test_the_loop_of_an_axis(
    low: int, extent: int, exact: bool, first: Any, last: Any, longest: int | None, keep_unit: bool
) -> None:
    """It takes all values of the span in the domain, each once, and other ones only if not `exact`."""
    axis = IterVar(
        Range.from_min_extent(const(low, "int32"), const(extent, "int32")), V, IterVar.DataPar
    )
    ends = [const(e, "int32") if isinstance(e, int) else e for e in (first, last)]
    made = axis_loop(Analyzer(), axis, (ends[0], ends[1]), "ax", keep_unit, exact)
    domain = range(low, low + extent)
    for n in range(-3, 20):
        size = at(made.extent, n=n)
        values = []
        for k in range(size):
            here = {N: const(n, "int32")} | (
                {} if made.var is None else {made.var: const(k, "int32")}
            )
            if all(Analyzer().simplify(substitute(t, here)).value for t in made.tests):
                values.append(int(Analyzer().simplify(substitute(made.value, here))))
        wanted = [v for v in range(at(ends[0], n=n), at(ends[1], n=n) + 1) if v in domain]
        assert len(set(values)) == len(values) and set(wanted) <= set(values) <= set(domain)
        assert values == wanted or not exact or not wanted
        assert longest is None or size <= longest
        assert isinstance(made.extent, IntImm) or longest is None or exact
    assert (made.var is None) == (
        isinstance(made.extent, IntImm) and int(made.extent) == 1 and not keep_unit
    )


@pytest.mark.parametrize(
    "expr", [V, V + 3, 2 - V, V * 3 - 2 * W, (V + W * 2) * 3, V - (W - V), V // 2 + V % 2 * 4], ids=str
)  # fmt: skip
def test_terms_of_a_sum(expr: PrimExpr) -> None:
    terms = linear_terms(expr)
    assert terms is not None
    rest = {
        at(expr, v=v, w=w) - sum(at(a, v=v, w=w) * f for a, f in terms)
        for v, w in product(range(4), range(4))
    }
    assert len(rest) == 1  # the constant
    assert (
        linear_terms(V * W) is None
        and linear_terms(V * N + 1) is None
        and linear_terms(3 - V * V) is None
    )
