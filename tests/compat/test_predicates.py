"""Questions that TVM's own passes ask."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from loopwright import tir
from loopwright.compat.predicates import identify_memcpy, narrow_predicate
from loopwright.ir.prim_expr import Range
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
