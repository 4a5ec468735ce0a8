"""Slow numbers leave the loops that do not change them."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.interpreter import run


@T.prim_func
def normed(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        for j in range(64):
            B[i, j] = A[i, j] / T.Select(T.sqrt(S[i]) > T.float32(1), T.sqrt(S[i]), T.float32(1))


@T.prim_func
def in_an_order(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        S[i] = S[i] + T.float32(1)
        for j in range(8):
            scale: T.float32 = T.float32(j) + T.float32(0.5)
            for k in range(8):
                B[i, j * 8 + k] = A[i, j * 8 + k] * (scale / S[i]) + T.exp(S[i])


@T.prim_func
def changed(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        for j in range(64):
            B[i, j] = A[i, j] * T.sqrt(S[i])
            S[i] = S[i] + T.float32(1)


@T.prim_func
def under_a_condition(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        for j in range(64):
            if A[i, j] > T.float32(0):
                B[i, j] = T.sqrt(S[i])
            else:
                B[i, j] = T.if_then_else(A[i, j] < T.float32(-1), T.exp(S[i]), T.float32(0))


@T.prim_func
def behind_another_condition(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((5,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    for i in range(8):
        for j in range(64):
            if i < 5 and T.sqrt(S[i]) > A[i, j]:
                B[i, j] = T.Select(i < 5, T.sqrt(S[i]) * A[i, j], T.float32(0))
            B[i, j] = T.Cast("float32", i >= 5 or T.sqrt(S[i]) > A[i, j])


@T.prim_func
def bound_in_an_expression(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    T.func_attr({"tir.noalias": True})
    v = T.float32()
    for i in range(8):
        for j in range(64):
            B[i, j] = T.Let(T.sqrt(v) / T.float32(3), where={v: A[i, j] + S[i]})


@T.prim_func
def may_overlap(
    A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")
):
    for i in range(8):
        for j in range(64):
            B[i, j] = A[i, j] * T.sqrt(S[i])


@T.prim_func
def of_any_length(a: T.handle, S: T.Buffer((8,), "float32"), b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int64()
    A, B = T.match_buffer(a, (8, n), "float32"), T.match_buffer(b, (8, n), "float32")
    for i in range(8):
        for j in range(n):  # perhaps never, and then S might be shorter
            B[i, j] = A[i, j] * T.sqrt(S[i])


def _hoisted(func):
    return tir.transform.HoistValues()(lw.IRModule({"main": func}))["main"]


def _bound(func) -> list[str]:
    found = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda n: found.append(str(n.value)) if isinstance(n, tir.LetStmt) else None
    )
    return found


def test_equal_numbers_are_computed_once_in_front_of_the_loop():
    made = _hoisted(normed)
    assert _bound(made) == ["T.Select(T.sqrt(S[i]) > T.float32(1.0), T.sqrt(S[i]), T.float32(1.0))"]
    assert isinstance(made.body.body, tir.LetStmt)


def test_each_number_stands_in_front_of_the_outermost_loop_that_keeps_it():
    bound = _bound(_hoisted(in_an_order))
    assert bound[1:] == ['T.Cast("float32", j) + T.float32(0.5)', "T.exp(S[i])"]
    assert bound[0] == "scale / S[i]"


@pytest.mark.parametrize(
    "func",
    [
        *(changed, under_a_condition, behind_another_condition, bound_in_an_expression),
        *(may_overlap, of_any_length),
    ],
)
def test_what_may_differ_or_may_not_be_computed_stays(func):
    assert _hoisted(func) is func


@pytest.mark.parametrize("func", [normed, in_an_order])
def test_the_numbers_are_the_same(func):
    """In float64: the interpreter rounds a float32 that has a name, and not each step of a chain."""
    func = from_source(func.script().replace("float32", "float64"))
    rng = np.random.default_rng(0)
    a, s = rng.random((8, 64)), rng.random(8) * 4
    results = []
    for one in (func, _hoisted(func)):
        b = np.zeros_like(a)
        run(one, [a.copy(), s.copy(), b])
        results.append(b)
    assert _bound(_hoisted(func))
    np.testing.assert_array_equal(*results)
