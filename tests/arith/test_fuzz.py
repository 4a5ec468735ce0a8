"""The analyzer against plain evaluation of random expressions; see `fuzz`."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright.arith import Analyzer, bounds, division
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, Var
from loopwright.ir.structural import structural_equal
from tests.arith.fuzz import Case, Tally, Wrong, check, evaluate, random_case
from tests.arith.long_run import run


@settings(max_examples=150, suppress_health_check=[HealthCheck.large_base_example])
@given(st.randoms(use_true_random=False))
def test_random_expressions(rng):
    check(random_case(rng), Tally())


def test_some_seeds():
    tally, wrong = run(400)
    assert not wrong, wrong[0]
    assert tally.counts["expressions"] == 400
    assert tally.counts["under a constraint"] > 160 and tally.counts["proven"] > 40


@pytest.mark.slow
def test_ten_thousand_seeds():
    tally, wrong = run(10_000, seed=1_000_000)
    assert not wrong, "\n".join(wrong)
    assert tally.counts["expressions"] == 10_000


x, y = Var("x"), Var("y")


@pytest.mark.sample(2)
@pytest.mark.parametrize("divide", [pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod])
def test_division_for_all_signs(divide):
    """x / y and x % y, of both roundings, by variables, by numbers and of numbers."""
    for low in (-12, -5, 0, 3):
        for other in (-7, -3, 1, 4):
            domain = {x: (low, 9), y: (other, 3)}
            forms = [
                divide(x, y),
                divide(x * 3 + 1, y),
                divide(x * y + 2, y),
                divide(divide(x, y), IntImm("int32", 3)),
                divide(x, y) * y + divide(x, y),
                *(divide(x * 4 + y, IntImm("int32", c)) for c in (-4, -3, 2, 4, 8)),
                *(divide(IntImm("int32", c), y) for c in (-9, 0, 9)),
            ]
            for expr in forms:
                check(Case(expr, domain, pe.NE(x, IntImm("int32", 0))), Tally())


def test_quotient_and_remainder_belong_together():
    for quotient, remainder in ((po.floordiv, po.floormod), (po.truncdiv, po.truncmod)):
        for divisor in (y, *(IntImm("int32", c) for c in (-5, -1, 3, 8))):
            whole = quotient(x, divisor) * divisor + remainder(x, divisor)
            check(Case(whole, {x: (-20, 41), y: (-6, 13)}, pe.LT(y, x)), Tally())
            assert Analyzer().can_prove_equal(whole, x)


def test_the_check_finds_what_is_wrong(monkeypatch):
    """A checker that lets a wrong simplification pass would be worth nothing."""
    monkeypatch.setattr(division, "_trunc_div", division.poly_div)
    _, wrong = run(300)
    assert any("not equal at" in line for line in wrong)
    monkeypatch.undo()
    monkeypatch.setattr(bounds, "poly_bound", lambda ctx, p: (0, 10))
    with pytest.raises(Wrong):
        check(Case(x * 2, {x: (3, 20)}, pe.GT(x, IntImm("int32", 0))), Tally())


# ---------------------------------------------------------------------------- found by the fuzzer


def simple(expr, **ranges):
    ana = Analyzer()
    for var in (x, y):
        if var.name in ranges:
            ana.bind(var, Range(*ranges[var.name]))
    return ana.simplify(expr)


def test_a_choice_that_disappears_is_looked_into():
    inner = pe.Call("int32", "tir.if_then_else", [pe.LT(x, x), y, x])
    made = simple(pe.FloorDiv(inner, IntImm("int32", 32)), x=(1, 6))
    assert isinstance(made, IntImm) and made.value == 0
    twice = pe.Not(pe.GT(pe.Select(pe.LT(x, IntImm("int32", 0)), x, x), x))
    assert structural_equal(simple(twice), IntImm("bool", 1))


def test_a_side_of_a_select_keeps_what_makes_it_valid():
    """Both sides are evaluated: 17 // x would divide by zero where y is taken."""
    guarded = pe.Call("int32", "tir.if_then_else", [pe.LT(x, y), y, x])
    expr = pe.Select(pe.NE(y, x), IntImm("int32", 1), 17 // guarded)
    check(Case(expr, {x: (0, 8), y: (0, 8)}, pe.LE(x, y)), Tally())
    made = simple(expr)
    assert not evaluate(made, {x: 0, y: 3}).eager.any()


def test_a_divisor_that_is_never_zero_stays_so():
    """Where x == y holds, max(x, y) is x; elsewhere x may be 0."""
    expr = pe.Or(pe.NE(x, y), pe.GT(y // 32, pe.Mod(IntImm("int32", -4), pe.Max(x, y))))
    check(Case(expr, {x: (0, 2), y: (1, 6)}, pe.LE(x, y)), Tally())


def test_a_comparison_of_a_variable_has_its_number_on_one_side():
    made = simple(pe.Not(pe.GT(-2 - y, y)))
    assert structural_equal(made, pe.LE(IntImm("int32", -1), y))
    assert structural_equal(simple(pe.GT(-2 - y, y)), pe.LT(y, IntImm("int32", -1)))


def test_a_guard_is_not_dropped_because_it_is_implied():
    expr = pe.And(pe.LT(IntImm("int32", 0), y), pe.LT(IntImm("int32", 0), x % y))
    assert structural_equal(simple(expr), expr)
    plain = pe.And(pe.GT(y, IntImm("int32", 0)), pe.GT(y, x + 2))
    assert structural_equal(simple(plain, x=(0, 8)), pe.LT(x + 2, y))


def test_a_shift_that_never_runs_is_left_alone():
    out = pe.Call("int32", "tir.shift_right", [IntImm("int32", -6), IntImm("int32", -5)])
    assert simple(out) is out


def test_the_upper_half_of_uint64_becomes_negative():
    wide = pe.Cast("int64", pe.Mul(pe.Cast("uint64", x), IntImm("uint64", 16)))
    assert Analyzer().const_int_bound(wide).min_value < 0


def test_the_outer_remainder_is_found_first():
    inner = pe.Sub(x * -1, y % 4)
    p = inner - inner // 8 * 8
    assert structural_equal(simple(p), inner % 8)


def test_truncated_division_under_a_condition():
    half = pe.Call(
        "int32", "tir.if_then_else", [pe.NE(x, IntImm("int32", 9)), x, po.truncdiv(x, 8)]
    )
    made = simple(half, x=(9, 39))
    assert isinstance(made.args[2], IntImm) and made.args[2].value == 1


def test_a_narrow_product_wraps_around():
    narrow = pe.Mul(IntImm("int8", 16), pe.Cast("int8", x))
    ana = Analyzer()
    ana.bind(x, Range(8, 39))
    bound = ana.const_int_bound(narrow)
    assert (bound.min_value, bound.max_value) == (-128, 127)


def test_what_a_negation_becomes_is_simplified():
    five = IntImm("int32", 5)
    made = simple(pe.Not(pe.Or(pe.LE(x, five), pe.Not(pe.GT(x, five)))))
    assert structural_equal(made, pe.LT(five, x))


def test_a_select_that_is_known_not_to_be_one_of_its_own_values():
    """Its bounds are asked for while its sides are simplified."""
    a, b, one = pe.SizeVar("a", "int64"), pe.SizeVar("b", "int64"), IntImm("int64", 1)

    def broadcast(m, n):
        return pe.Select(pe.EQ(m, one), n, m)

    joined = broadcast(broadcast(a, b), broadcast(a, b))
    analyzer = Analyzer()
    with analyzer.constraint_scope(pe.NE(joined, one)):
        assert analyzer.can_prove(joined >= 0)
        assert structural_equal(analyzer.simplify(joined), broadcast(a, b))


def test_a_condition_about_a_choice_on_what_it_is_compared_with():
    """Its residues are those of a remainder whose parts compare x and y, which the condition is about."""
    choice = pe.Call("int32", "tir.if_then_else", [pe.EQ(y, x), y, IntImm("int32", 13)])
    inner = pe.Mod(y % (y % x + choice), IntImm("int32", -3))
    expr = pe.Or(pe.EQ(y, inner % 32), pe.LE(y, IntImm("int32", 5)))
    check(Case(expr, {x: (3, 7), y: (0, 16)}, pe.EQ(IntImm("int32", -2), x)), Tally())
    check(Case(pe.Not(expr), {x: (3, 7), y: (0, 16)}, pe.LE(x, y)), Tally())


def test_a_quotient_of_a_quotient_by_a_divisor_that_may_be_negative():
    """13 // 2 // -2 is -3, but 13 // -4 is -4."""
    z = Var("z")
    for low in (-7, -2, 0, 1):
        for expr in (x // 2 // y, x // y // z, x // z // y // 4, x // 4 // y // 4, x // 2 // y % 3):
            domain = {x: (-9, 30), y: (low, 5), z: (low, 4)}
            check(Case(expr, domain, pe.LT(y, x)), Tally())


def test_a_comparison_that_can_only_be_an_equality_is_one_at_once():
    big = Var("x", "int64")
    two, minus = IntImm("int64", 2), IntImm("int64", -2)
    inner = pe.FloorMod(pe.FloorMod(pe.FloorDiv(big, minus), minus), two)
    expr = pe.LE(inner, big * IntImm("int64", -8))
    check(Case(expr, {big: (0, 7)}, pe.GT(big, IntImm("int64", 0))), Tally())


def test_a_multiple_of_a_remainder_is_simple_at_once():
    """Its divisor's multiples go: x % 6 * -256 % 3 is x * -256 % 3."""
    six, three = IntImm("int32", 6), IntImm("int32", 3)
    for expr in (x % six * -256 % three, po.truncmod(x % six * 4, six) % IntImm("int32", -3)):
        for bound in ((0, 19), (-7, 19)):
            made = simple(expr // 16, x=bound)
            assert structural_equal(simple(made, x=bound), made)
            check(Case(expr // 16, {x: bound}, pe.GT(x, three)), Tally())
