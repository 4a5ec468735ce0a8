"""Divisions that indices share: bound once, where their variables and divisors allow."""

from __future__ import annotations

import numpy as np

import loopwright as lw
from loopwright import tir
from loopwright.ir.functor import post_order_visit
from loopwright.script import tir as T
from loopwright.tir import stmt as st
from loopwright.tir.analysis import verify_well_formed


def hoisted(func):
    mod = tir.transform.HoistDivisions()(lw.IRModule({"main": func}))
    return mod["main"]


def bindings(func):
    """(variable's name, value's text) of each binding, in order."""
    found = []

    def visit(node):
        if isinstance(node, st.LetStmt):
            found.append((node.var.name, str(node.value)))

    post_order_visit(func.body, visit)
    return found[::-1]


def test_nested_divisions_are_bound_in_order():
    @T.prim_func
    def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        for i in T.parallel(96):
            B[i // 8 % 3 + i // 8 % 3 * 3 + i // 8] = A[i // 8 % 3]

    made = hoisted(main)
    assert bindings(made) == [("index", "i // 8"), ("index", "index % 3")]
    assert isinstance(made.body, st.For)


def test_a_division_done_once_stays():
    @T.prim_func
    def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        for i in range(96):
            B[i] = A[i // 8]

    assert hoisted(main) is main


def test_a_division_in_a_loop_written_out_counts_as_often():
    @T.prim_func
    def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
        for i in range(12):
            for j in T.unroll(8):
                B[i * 8 + j] = A[i // 3 + j // 2]

    assert bindings(hoisted(main)) == [("index", "i // 3")]


def test_a_divisor_that_may_be_0_stays_under_its_condition():
    @T.prim_func
    def main(a: T.handle, B: T.Buffer((96,), "int32"), n: T.int32, m: T.int32):
        A = T.match_buffer(a, (n,), "int32")
        for i in range(n * 4):
            if m > 0:
                B[i // m] = B[i // m] + A[i // n] + A[i // n]

    assert bindings(hoisted(main)) == [("index", "i // n")]


def test_a_variable_bound_at_two_depths_ends_it():
    i = tir.Var("i", "int32")
    buffer = tir.decl_buffer((8,), "int32", "A")
    store = st.BufferStore(buffer, i // 2 + i // 2, [i // 2])
    inner = st.For(i, 0, 8, st.ForKind.SERIAL, store)
    outer = st.For(tir.Var("j", "int32"), 0, 2, st.ForKind.SERIAL, inner)
    func = tir.PrimFunc([buffer.data], st.SeqStmt([inner, outer]))
    assert tir.transform.HoistDivisions().run_function(func, None, None) is func


def test_the_same_values():
    @T.prim_func
    def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 6), "float32")):
        for i in T.parallel(12):
            for j in T.unroll(4):
                B[(i * 4 + j) % 8, (i * 4 + j) // 8] = A[(i * 4 + j) // 8, (i * 4 + j) % 8] + (
                    A[i // 2, i % 8] * T.float32(i // 2) + A[i // 2, i % 8]
                )

    x = np.random.default_rng(0).random((6, 8), "float32")
    results = []
    for func in (main, hoisted(main)):
        out = np.zeros((8, 6), "float32")
        tir.interpreter.run(func, [x, out])
        results.append(out)
    assert bindings(hoisted(main))
    np.testing.assert_array_equal(*results)
    compiled = np.zeros((8, 6), "float32")
    lw.compile(main)["main"](x, compiled)
    np.testing.assert_allclose(compiled, results[0], rtol=1e-6)


def test_axes_of_blocks_and_matched_sizes_stay_in_their_block():
    @T.prim_func
    def main(A: T.Buffer((96,), "float32"), b: T.handle):
        n = T.int32()
        B = T.match_buffer(b, (96, n), "float32")
        for i in range(96):
            with T.block("b"):
                vi = T.axis.spatial(96, i)
                k = T.int32()
                C = T.match_buffer(B[vi, 0:n], (1, k), "float32")
                C[0, vi // 8 % 3 + vi // 8 + n // 2 + k // 2] = A[vi // 8 + n // 2] + C[0, k // 2]

    made = hoisted(main)
    assert bindings(made) == [("index", "n // 2")]
    assert verify_well_formed(made)
