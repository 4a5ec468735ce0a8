"""Operators that users define: builder, script, numpy, struct info, lowering from one definition."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.ops import OPERATORS, Axis, Scalar, Tensor, op
from loopwright.relax.interpreter import Interpreter
from loopwright.script import from_source
from loopwright.script import tir as T

from ..programs import graph


def spread_kernel(call):
    """For any dtype: a reduction, another, and an epilogue, through two buffers."""
    info = call.args[0].struct_info
    if info.ndim != 2 or call.attrs.axis != -1:
        return None
    dtype = str(info.dtype)
    low, high = tir.min_value(dtype), tir.max_value(dtype)

    @T.prim_func
    def spread(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        X = T.match_buffer(x, (n, m), dtype)
        Y = T.match_buffer(y, (n,), dtype)
        A = T.alloc_buffer((n,), dtype)
        B = T.alloc_buffer((n,), dtype)
        for i, j in T.grid(n, m):
            with T.block("greatest"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    A[vi] = low
                A[vi] = T.max(A[vi], X[vi, vj])
        for i, j in T.grid(n, m):
            with T.block("least"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    B[vi] = high
                B[vi] = T.min(B[vi], X[vi, vj])
        for i in range(n):
            with T.block("minus"):
                vi = T.axis.spatial(n, i)
                Y[vi] = A[vi] - B[vi]

    return spread


@pytest.fixture(scope="module", autouse=True)
def operators():
    """The operators, and the list of all as it was before when the tests have run."""
    with OPERATORS.snapshot():
        define()
        yield


def define():
    @op("testlib.swish")
    def swish(x: Tensor, beta: float = 1.0):
        "x * sigmoid(beta x)."

        def cell(*i):
            return x(*i) * tir.sigmoid(tir.const(beta, x.dtype) * x(*i))

        return te.compute(x.shape, cell, "swish")

    @swish.numpy
    def _(x, beta):
        return x / (1 + np.exp(-beta * x))

    @op("testlib.spread")
    def spread(x: Tensor, axis: Axis = -1):
        "Greatest minus least along the last axis: only a kernel says how."

    @spread.infer
    def _(x, axis):
        return relax.TensorStructInfo(x.get_shape()[:-1], x.dtype)

    @spread.numpy
    def _(x, axis):
        return np.ptp(x, axis=axis)

    lw.register_legalize("testlib.spread", tir=spread_kernel)


def swish_model():
    Swish = graph("y = R.testlib.swish(x, beta=2.0); z = R.add(y, y)", x=("n", 8))

    return Swish


def test_builder_and_script():
    x = relax.Var("x", relax.TensorStructInfo((tir.Var("n", "int64"), 8), "float32"))
    Swish = swish_model()
    call = relax.op.testlib.swish(x, beta=3)
    assert call.attrs.beta == 3.0
    assert "R.testlib.swish(x, beta=2.0)" in Swish.script()
    lw.ir.assert_structural_equal(from_source(Swish.script()), Swish)
    with pytest.raises(TypeError, match="attribute beta is of type float"):
        relax.op.testlib.swish(x, beta="much")


def test_numbers_and_fusion():
    Swish = swish_model()
    x = np.linspace(-2, 2, 24, dtype="float32").reshape(3, 8)
    want = 2 * x / (1 + np.exp(-2 * x))
    np.testing.assert_allclose(lw.compile(Swish)["main"](x).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(Interpreter(Swish)["main"](x)), want, rtol=1e-6)
    assert "fused_swish_add" in lw.lower(Swish)["FuseTIR"].changed_functions()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_an_operator_with_only_a_kernel(dtype):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((tir.Var("n", "int64"), 6), dtype))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(relax.op.testlib.spread(relax.op.add(x, x)))
            out = bb.emit_output(relax.op.add(y, relax.const(1, dtype)))
        bb.emit_func_output(out)
    mod = bb.get()
    data = (np.random.default_rng(0).standard_normal((4, 6)) * 10).astype(dtype)
    want = np.ptp(2 * data, axis=1) + 1
    np.testing.assert_allclose(lw.compile(mod)["main"](data).numpy(), want, rtol=1e-5)
    np.testing.assert_allclose(np.asarray(Interpreter(mod)["main"](data)), want, rtol=1e-6)
    (note,) = lw.lower(mod).explain("testlib.spread", "legalize")
    assert note.facts["winner"] == "default: kernel spread_kernel"
    assert note.facts["kernel"] == "spread"


def test_one_definition():
    with pytest.raises(lw.LoopwrightError, match=r"operator testlib\.swish is defined twice"):

        @op("testlib.swish")
        def again(x: Tensor): ...


def test_what_is_wrong_with_a_definition_is_told():
    with pytest.raises(TypeError) as error:

        @op("testlib.bare")
        def bare(x):
            return x

    assert str(error.value) == (
        "the parameter x of operator testlib.bare has no annotation\n"
        "  instead: write x: Tensor, or for an attribute its type, such as x: int"
    )

    @op("testlib.numbers")
    def numbers(x: Tensor):
        return te.compute(x.shape, lambda *i: np.exp(x(*i)), "numbers")

    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    with pytest.raises(TypeError, match="instead: elements are symbolic: use functions of tir"):
        relax.BlockBuilder().normalize(relax.op.testlib.numbers(x))


def test_the_loops_of_an_operator_with_a_number_are_written_once():
    written = []
    with OPERATORS.snapshot():

        @op("testlib.scaled")
        def scaled(x: Tensor, factor: Scalar):
            "x * factor."
            written.append(factor)
            return te.compute(x.shape, lambda *i: x(*i) * factor, "scaled")

        scaled.infer(lambda x, factor: x)
        twice = "a = R.testlib.scaled(x, R.const(2.0)); b = R.testlib.scaled(a, R.const(2.0)); "
        mod = graph(twice + "y = R.testlib.scaled(b, R.const(3.0))", x=(4,))
        made = relax.transform.LegalizeOps()(mod)
    assert [float(f.value) for f in written] == [2.0, 3.0]
    assert len(made.functions) == 3
