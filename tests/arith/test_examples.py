"""Counterexamples: what they refute is false, and what holds is never refuted."""

from __future__ import annotations

import itertools
import random

import pytest

from loopwright.arith import Analyzer
from loopwright.ir.prim_expr import Range, Var


@pytest.mark.parametrize("seed", range(40))
def test_what_is_refuted_is_false_somewhere(seed):
    rand = random.Random(seed)
    ana, n, i, j = Analyzer(), Var("n", "int64"), Var("i", "int64"), Var("j", "int64")
    ana.assume_nonnegative(n)
    ana.bind(i, Range(0, n))
    ana.bind(j, Range(0, 8))
    a, b, c, d, e = (rand.randint(-9, 9) for _ in range(5))
    q = rand.choice([2, 3, 8])
    expr = a * i + b * j + c * n + d * ((i * 8 + j) // q) + e
    refuted = ana.refuted(ana.poly(expr))
    values = [
        a * x + b * y + c * m + d * ((x * 8 + y) // q) + e
        for m in range(1, 140)
        for x, y in itertools.product({0, 1, m // 2, m // 3, m - 1} & set(range(m)), range(8))
    ]
    assert not (refuted and ana.can_prove(expr >= 0))
    if min(values) >= 0 and refuted:
        pytest.fail(f"{expr} >= 0 was refuted")


def test_conditions_hold_in_the_examples():
    ana, n, m = Analyzer(), Var("n", "int64"), Var("m", "int64")
    difference = ana.poly(n - m)
    assert ana.refuted(difference) and ana.refuted(ana.poly(m - n))
    with ana.constraint_scope(n >= m):
        assert not ana.refuted(difference) and ana.can_prove(n >= m)
        with ana.constraint_scope(m >= n + 1):
            assert not ana.refuted(difference), "nothing runs here, and nothing is shown"
    assert ana.refuted(difference)


def test_a_variable_bound_anew_has_other_values():
    ana, i = Analyzer(), Var("i", "int64")
    ana.bind(i, Range(0, 4))
    assert ana.refuted(ana.poly(2 - i)) and not ana.refuted(ana.poly(3 - i))
    ana.bind(i, Range(0, 2))
    assert not ana.refuted(ana.poly(2 - i)) and ana.can_prove(i <= 1)
