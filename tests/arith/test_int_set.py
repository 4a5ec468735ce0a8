"""Intervals of expressions and regions, against the values they take."""

from __future__ import annotations

import itertools

from hypothesis import given, settings

from loopwright.arith import (
    Analyzer,
    detect_clip_bound,
    detect_linear_equation,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
    neg_inf,
    pos_inf,
)
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, Var
from tests.arith.test_simplify import VARS, evaluate, integers, points, ranges


@settings(max_examples=300, deadline=None)
@given(integers, ranges, ranges, ranges)
def test_intervals_contain_all_values(expr, rx, ry, rz):
    x, y = VARS["x"], VARS["y"]
    domain = {x: Range.from_min_extent(*rx), y: Range.from_min_extent(*ry)}
    found = eval_set(expr, domain)
    ana = Analyzer()
    for var, dom in domain.items():
        ana.bind(var, dom)
    tighter = eval_set(expr, domain, ana)
    for env in itertools.islice(points((rx, ry, rz)), 0, None, 3):
        outside = {"z": env["z"]}
        try:
            value = evaluate(expr, env)
        except ZeroDivisionError:
            continue
        for one in (found, tighter):
            if one.min_value is not neg_inf():
                assert evaluate(one.min_value, outside) <= value
            if one.max_value is not pos_inf():
                assert value <= evaluate(one.max_value, outside)


def text(e):
    ops = {pe.Add: "+", pe.Sub: "-", pe.Mul: "*", pe.FloorDiv: "//", pe.FloorMod: "%"}
    if type(e) in ops:
        return f"({text(e.a)} {ops[type(e)]} {text(e.b)})"
    return e.name if isinstance(e, Var) else str(e.value)


def test_region_of_a_tile():
    io, ii, n = Var("io"), Var("ii"), Var("n")
    (tile,) = estimate_region_upper_bound(
        [Range.from_min_extent(io * 8 + ii, 3)], {ii: Range(0, 8)}
    )
    assert (text(tile.min_value), text(tile.max_value)) == ("(io * 8)", "((io * 8) + 9)")
    (rows,) = estimate_region_upper_bound([Range.from_min_extent(ii, 1)], {ii: Range(0, n)})
    assert (text(rows.min_value), text(rows.max_value)) == ("0", "(n - 1)")


def test_strict_region_needs_density():
    i, j = Var("i"), Var("j")
    dom = {i: Range(0, 4), j: Range(0, 8)}
    (dense,) = estimate_region_strict_bound([Range.from_min_extent(i * 8 + j, 1)], dom)
    assert text(dense.max_value) == "31"
    assert estimate_region_strict_bound([Range.from_min_extent(i * 9 + j, 1)], dom) is None
    both = [Range.from_min_extent(i, 1), Range.from_min_extent(i, 1)]
    assert estimate_region_strict_bound(both, dom) is None


def test_linear_equation():
    x, y, n = Var("x"), Var("y"), Var("n")
    assert [text(e) for e in detect_linear_equation(x * 4 + y * n + n * 2 + 1, [x, y])] == [
        "4",
        "n",
        "((n * 2) + 1)",
    ]
    assert detect_linear_equation(x * y, [x, y]) == []
    assert detect_linear_equation(x // 2 + y, [x, y]) == []
    assert [text(e) for e in detect_linear_equation(3, [x])] == ["0", "3"]


def test_clip_bound():
    x, n = Var("x"), Var("n")
    low, high = detect_clip_bound(po.logical_and(x >= 2, x < n), [x])
    assert (text(low), text(high)) == ("2", "(n - 1)")
    ends = detect_clip_bound(pe.EQ(x, IntImm("int32", 1)), [x])
    assert [text(end) for end in ends] == ["1", "1"]
    (low, *_, high) = detect_clip_bound(po.logical_and(po.minimum(x, n) > 3, n < 9), [x, n])
    assert (text(low), text(high)) == ("4", "8")
    assert text(detect_clip_bound(po.logical_not(x > n), [x])[1]) == "n"
    assert detect_clip_bound(pe.NE(x, IntImm("int32", 1)), [x]) == []


def test_a_range_that_depends_on_another_variable():
    x, y, z = Var("x"), Var("y"), Var("z")
    domain = {x: Range.from_min_extent(y + z, y + 1), y: Range(0, 4)}
    found = eval_set(x, domain)
    assert str(found.min_value) == "z"
    assert str(Analyzer().simplify(found.max_value - z)) == "6"


def test_lower_bounds_of_fused_iterators():
    x, y = VARS["x"], VARS["y"]
    domain = {x: Range(0, 32), y: Range(0, 64)}

    def bound(*indices):
        found = estimate_region_lower_bound([Range.from_min_extent(i, 1) for i in indices], domain)
        return found and [(int(s.min_value), int(s.max_value)) for s in found]

    assert bound(x // 16, x % 16 // 4 * 8 + x % 4 + y // 32 * 4, y % 32) == [
        (0, 1),
        (0, 31),
        (0, 31),
    ]
    assert bound(x // 16, x // 8) is None
    assert bound(x // 2 * 3) is None
