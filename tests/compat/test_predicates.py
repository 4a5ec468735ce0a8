"""Questions that TVM's own passes ask."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwright import tir
from loopwright.arith import solve_linear_equations
from loopwright.compat import predicates
from loopwright.compat.predicates import identify_memcpy, narrow_predicate
from loopwright.ir.prim_expr import EQ, Range, Var
from loopwright.ir.structural import structural_equal
from loopwright.script import tir as T
from loopwright.tir.interpreter import run

i, n = tir.Var("i", "int32"), tir.Var("n", "int32")


@pytest.mark.parametrize(
    ("condition", "narrow"),
    [
        (i > n, i > 7),
        (tir.Not(i < n), tir.Not(i < 7)),
        (tir.EQ(i, n), tir.all(i <= 0, tir.LE(7, i))),
        (i - n < 10, tir.LT(tir.Sub(i, 0), 10)),
        ((i + n) // 4 > 1, tir.Add(i, 0) // 4 > 1),
        (tir.EQ(i // n, 0), tir.const(False, "bool")),
        (tir.NE(i, n), tir.Or(tir.LT(i, 0), tir.LT(7, i))),
        (i % 8 + 1 < n, tir.const(False, "bool")),
        (tir.Not(i % 8 + 1 < n), tir.const(False, "bool")),
        (tir.Or(i % 8 < n, i <= n), tir.Or(tir.const(False, "bool"), i <= 0)),
    ],
)
def test_a_condition_without_parameters(condition: tir.PrimExpr, narrow: tir.PrimExpr) -> None:
    made = narrow_predicate(condition, {n: Range(0, 8)})
    assert structural_equal(made, narrow)
    for at, k in itertools.product(range(-2, 20), range(1, 8)):
        assert not _holds(made, at, k) or _holds(condition, at, k)


def _holds(condition: tir.PrimExpr, at: int, k: int) -> bool:
    out = tir.decl_buffer((1,), "bool")
    func = tir.PrimFunc([i, n, out], tir.BufferStore(out, condition, [0]))
    held = np.zeros(1, "bool")
    run(func, [at, k, held])
    return bool(held[0])


def test_which_loops_copy() -> None:
    @T.prim_func
    def func(A: T.Buffer((32, 32)), B: T.Buffer((1024,)), C: T.Buffer((32,))):
        for a, b in T.grid(32, 32):
            B[a * 32 + b] = A[a, b]
        for a, b in T.grid(32, 32):
            C[b] = A[a, b]
        for a, b in T.grid(32, 32):
            B[b * 32 + a] = A[a, b]
        for a in range(16):
            C[a * 2] = B[a] + T.float32(1)

    copy, row, turned, other = (identify_memcpy(nest) for nest in func.body.seq)
    texts = [[str(region) for region in pair] for pair in copy]
    assert texts == [["A[0:32, 0:32]", "B[0:1024]"], ["A[a, 0:32]", "B[a * 32:a * 32 + 32]"]]
    assert "bijective" in row[0].value and [str(r) for r in row[1]] == ["A[a, 0:32]", "C[0:32]"]
    assert "different source" in turned[0].value
    assert "(32) and number of dst indices touched (993)" in turned[1].value
    assert "value to be BufferLoad" in other[0].value


def test_the_box_of_a_statement() -> None:
    @T.prim_func
    def shifted(A: T.Buffer((100, 8), "float32"), B: T.Buffer((100, 8), "float32")):
        for i, j in T.grid(100, 8):
            A[i, j] = B[i - 1, j + 1] + A[i - 1, j - 1]

    a, b = shifted.buffers
    boxes = {
        (True, False): [(-1, 99), (-1, 7)],
        (False, True): [(0, 100), (0, 8)],
        (True, True): [(-1, 100), (-1, 8)],
    }
    for sides, ends in boxes.items():
        touched = predicates.domain_touched(shifted.body, a, *sides)
        assert [(int(r.min), int(r.min + r.extent)) for r in touched] == ends
    assert predicates.domain_touched(shifted.body, b, False, True) == ()


def test_conditions_at_all_points() -> None:
    x, y = Var("x"), Var("y")
    ranges = {x: Range(-2, 5), y: Range.from_min_extent(0, x + 3)}
    predicates.check_bool_expr_is_true(y <= x + 2, ranges)
    predicates.check_bool_expr_is_true(y < 3, ranges, x < 1)
    predicates.check_bool_expr_is_true(x > y, {x: Range(0, 0), y: Range(0, 9)})
    with pytest.raises(AssertionError, match=r"got: \{'x': 1, 'y': 3\}"):
        predicates.check_bool_expr_is_true(y < 3, ranges)
    with pytest.raises(ValueError, match="too many points"):
        predicates.check_bool_expr_is_true(y < 3, {y: Range(0, Var("n"))})


def test_systems_with_the_same_solutions() -> None:
    x, y = Var("x"), Var("y")
    ranges = {x: Range(-5, 6), y: Range(0, 9)}
    solved = solve_linear_equations([EQ(x + y * 2, 3)], [x, y], ranges)
    predicates.check_int_constraints_trans_consistency(solved)
    wrong = solved.replace(dst_to_src={n: e + 1 for n, e in solved.dst_to_src.items()})
    with pytest.raises(AssertionError, match="does not hold"):
        predicates.check_int_constraints_trans_consistency(wrong)
