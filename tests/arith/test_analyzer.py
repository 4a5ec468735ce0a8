"""Particular questions to the analyzer, and what it must not conclude."""

from __future__ import annotations

import pytest

from loopwright.arith import Analyzer, ConstIntBound, ModularSet, proof
from loopwright.ir import prim_expr as pe
from loopwright.ir import prim_op as po
from loopwright.ir.prim_expr import IntImm, Range, SizeVar, Var
from tests.arith.test_int_set import text


@pytest.fixture
def ana():
    return Analyzer()


i, j, k, m, n = (Var(name) for name in "ijkmn")


def test_splits_and_fusions(ana):
    ana.bind(i, Range(0, 64))
    ana.bind(j, Range(0, 8))
    for expr, want in [
        (i // 4 * 4 + i % 4, "i"),
        ((i * 8 + j) // 8, "i"),
        ((i * 8 + j) % 8, "j"),
        ((i * 8 + j) // 32, "(i // 4)"),
        (i // 32 * 32 + i // 4 % 8 * 4 + i % 4, "i"),
        ((i * 56 * 56 + j) // (56 * 56), "i"),
        ((m % 32) // 8 - m // 8 % 4, "0"),
        (i // 4 // 16, "0"),
    ]:
        assert text(ana.simplify(expr)) == want


def test_symbolic_extents(ana):
    ana.bind(n, Range(1, 100))
    ana.bind(k, Range(0, n))
    assert text(ana.simplify((i * n + k) // n)) == "i"
    assert text(ana.simplify((i * n + k) % n)) == "k"
    assert ana.can_prove(k < n) and not ana.can_prove(k < n - 1)
    assert ana.can_prove((n + 7) // 8 * 8 >= n)
    assert ana.can_prove((n + 7) // 8 * 8 < n + 8)
    assert ana.can_prove((114 // n // 4 + 1) * (n * 4) >= 115)


def test_products_of_extents(ana):
    ana.bind(i, Range(0, n))
    ana.bind(j, Range(0, m))
    assert ana.can_prove(i * m + j < n * m)
    assert ana.can_prove(i * m + j >= 0)
    assert not ana.can_prove(i * m + j < n * m - 1)


def test_tile_of_a_tail(ana):
    size = SizeVar("size")
    ana.bind(i, Range(0, (size + 7) // 8))
    ana.bind(j, Range(0, 8))
    assert ana.can_prove(i * 8 < size)
    assert not ana.can_prove(i * 8 + j < size)
    assert ana.can_prove(po.minimum(i * 8 + 8, size) - i * 8 <= 8)
    with ana.constraint_scope(i * 8 + 8 <= size):
        assert ana.can_prove(i * 8 + j < size)


def test_a_loop_tells_nothing_about_its_extent_outside(ana):
    with ana.loop_scope(i, Range(0, n)):
        assert ana.can_prove(n > 0)
    assert not ana.can_prove(n > 0)


def test_bound_anew(ana):
    ana.bind(i, Range(0, n))
    assert ana.can_prove(i < n)
    ana.bind(i, Range(0, m))
    assert ana.can_prove(i < m) and not ana.can_prove(i < n)


def test_what_is_not_about_a_variable_bound_anew_still_holds(ana):
    ana.bind(i, Range(0, n))
    with ana.constraint_scope(pe.And(n <= m, i * j >= 0)):
        assert ana.can_prove(n <= m) and ana.can_prove(i * j >= 0)
        ana.bind(i, Range(-5, n))
        assert ana.can_prove(n <= m) and not ana.can_prove(i * j >= 0)


def test_divisibility(ana):
    with ana.constraint_scope(m % 8 == 0):
        assert ana.can_prove_equal(m // 8 * 8, m)
        assert ana.modular_set(m + 3).base == 3
    assert not ana.can_prove_equal(m // 8 * 8, m)
    ana.update(n, ModularSet(4, 1))
    assert text(ana.simplify(pe.EQ(n % 4, IntImm("int32", 1)))) == "1"


def test_bounds(ana):
    ana.update(m, ConstIntBound(-3, 5))
    bound = ana.const_int_bound(m * -2 + 1)
    assert (bound.min_value, bound.max_value) == (-9, 7)
    wide = ana.const_int_bound(Var("w", "int64"))
    assert (wide.min_value, wide.max_value) == (ConstIntBound.NEG_INF, ConstIntBound.POS_INF)
    byte = po.cast("int32", Var("b", "uint8"))
    assert ana.const_int_bound(byte).max_value == 255
    ana.update(n, ConstIntBound(1, 2**31 - 1))
    rest = ana.const_int_bound(po.floormod(po.cast("int32", Var("c", "uint8")), n))
    assert (rest.min_value, rest.max_value) == (0, 255)


def test_unsigned_and_narrow_types_are_left_alone(ana):
    x = Var("x", "uint8")
    wraps = pe.LT(x - IntImm("uint8", 1), x)  # false for 0
    assert ana.simplify(wraps) is wraps
    assert not ana.can_prove(wraps)


def test_same_object_when_nothing_is_better(ana):
    expr = (i * 8 + j) * k + n // 3
    assert ana.simplify(expr) is expr
    call = po.shift_left(i, j) + 1
    assert ana.simplify(call) is call


def test_reads_of_memory_cancel_but_effects_do_not(ana):
    pure = pe.Call("int32", "tir.popcount", [i])
    other = pe.Call("int32", "tir.popcount", [i])
    assert text(ana.simplify(pure - other)) == "0"
    first = pe.Call("int32", "tir.call_extern", [pe.StringImm("rand")])
    second = pe.Call("int32", "tir.call_extern", [pe.StringImm("rand")])
    assert isinstance(ana.simplify(first - second), pe.Sub)


def test_vectors(ana):
    ramp = pe.Ramp(i * 8, 1, 8)
    eight = pe.Broadcast(IntImm("int32", 16), 8)
    made = ana.simplify(pe.FloorDiv(ramp, eight))
    assert isinstance(made, pe.Broadcast) and text(made.value) == "(i // 2)"
    rest = ana.simplify(pe.FloorMod(ramp, eight))
    assert isinstance(rest, pe.Ramp) and rest.stride.value == 1
    uneven = pe.FloorDiv(pe.Ramp(i * 4 + 2, 1, 8), eight)
    assert isinstance(ana.simplify(uneven), pe.FloorDiv)


def test_contradiction_concludes_nothing_wrong(ana):
    ana.bind(i, Range(0, 4))
    with ana.constraint_scope(i > 10):
        ana.simplify(i // 3)
    assert not ana.can_prove(i > 2)


def test_long_sum(ana):
    total = i
    for x in range(500):
        total = total + Var(f"v{x}")
    assert ana.simplify(total) is total


def test_bounds_of_truncated_division():
    x, y = Var("x", "int32"), Var("y", "int32")
    ana = Analyzer()
    ana.bind(x, Range(-9, 5))
    ana.bind(y, Range(4, 11))
    bound = ana.const_int_bound(po.truncmod(x, y))
    assert (bound.min_value, bound.max_value) == (-9, 4)
    bound = ana.const_int_bound(po.truncdiv(x, y))
    assert (bound.min_value, bound.max_value) == (-2, 1)
    ana.bind(y, Range(-4, 0), True)
    bound = ana.const_int_bound(po.truncdiv(x, y))
    assert (bound.min_value, bound.max_value) == (-4, 9)


@pytest.mark.parametrize("count", [8, 32])
def test_a_fact_that_shares_many_terms_is_tried_once(ana, monkeypatch, count):
    """It was tried once for each term: proofs about the sum of n sizes took n ** 2 steps."""
    tried = []
    search = proof._Proof.search
    monkeypatch.setattr(
        proof._Proof, "search", lambda self, *given: tried.append(1) or search(self, *given)
    )
    sizes = [Var(f"n{number}", "int64") for number in range(count)]
    at, total = Var("at", "int64"), sum(sizes[1:], sizes[0])
    with ana.constraint_scope(total <= at):
        assert not ana.can_prove(total + sizes[0] <= at)
        assert ana.can_prove(total - 1 <= at)
    assert len(tried) < 12
