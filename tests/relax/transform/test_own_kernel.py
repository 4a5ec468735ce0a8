"""Hand-written kernels as the lowering of operators: `register_legalize(op, tir=...)`."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import loopwright as lw
from loopwright.ir import trace
from loopwright.ir.op import Op
from loopwright.ir.target import Target
from loopwright.relax.transform import LegalizeOps
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@T.prim_func
def blocked_matmul(a: T.handle, b: T.handle, c: T.handle):
    """Into an intermediate buffer, then out: two blocks."""
    n, m, k = T.int64(), T.int64(), T.int64()
    A = T.match_buffer(a, (n, k))
    B = T.match_buffer(b, (k, m))
    C = T.match_buffer(c, (n, m))
    W = T.alloc_buffer((n, m))
    for i, j, r in T.grid(n, m, k):
        with T.block("product"):
            vi, vj, vr = T.axis.remap("SSR", [i, j, r])
            with T.init():
                W[vi, vj] = T.float32(0)
            W[vi, vj] = W[vi, vj] + A[vi, vr] * B[vr, vj]
    for i, j in T.grid(n, m):
        with T.block("out"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = W[vi, vj]


@T.prim_func(private=True)
def leaky(x: T.handle, y: T.handle, alpha: T.float32):
    n, m = T.int64(), T.int64()
    X = T.match_buffer(x, (n, m))
    Y = T.match_buffer(y, (n, m))
    for i, j in T.grid(n, m):
        with T.block("leaky"):
            vi, vj = T.axis.remap("SS", [i, j])
            Y[vi, vj] = T.max(X[vi, vj], X[vi, vj] * alpha)


@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8, 4), "float32")):
        with R.dataflow():
            y = R.matmul(x, w)
            z = R.nn.relu(y)
            R.output(z)
        return z


@pytest.fixture
def rules():
    """Operators whose rules are put back after the test."""
    names = ["relax.matmul", "relax.nn.leakyrelu", "relax.exp"]
    tables = ["FLegalizeByTarget", "FLegalizeEarlier", "FLegalize"]
    kept = {(n, t): Op.get(n).get_attr(t) for n in names for t in tables}
    yield
    for (name, table), value in kept.items():
        op = Op.get(name)
        if value is None:
            op.reset_attr(table)
        else:
            op.set_attr(table, value, 1000)


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_a_kernel_replaces_the_lowering_and_fuses(rules):
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm")
    steps = lw.lower(Model)
    (note,) = steps.explain("relax.matmul", "legalize")
    assert note.facts["winner"] == "target llvm: kernel blocked_matmul"
    fused = [f for f in steps["FuseTIR"].changed_functions() if "fused" in f]
    assert fused == ["fused_blocked_matmul_relu"]
    w = numbers(8, 4)
    for n in (1, 5):
        x = numbers(n, 8)
        got = lw.compile(Model)["main"](x, w).numpy()
        np.testing.assert_allclose(got, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


def test_in_the_map_too():
    made = LegalizeOps({"relax.matmul": blocked_matmul})(Model)
    assert any(g.name_hint == "blocked_matmul" for g in made.functions)


def test_other_targets_keep_theirs(rules):
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="mydev")
    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Model)
    assert seen.explain("relax.matmul", "legalize")[0].facts["winner"].startswith("default")


def test_the_reason_why_a_kernel_is_not_taken(rules):
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm")

    @I.ir_module
    class Half:
        @R.function
        def main(x: R.Tensor((2, 8), "float16"), w: R.Tensor((8, 4), "float16")):
            with R.dataflow():
                y = R.matmul(x, w)
                R.output(y)
            return y

    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Half)
    (note,) = seen.explain("relax.matmul", "legalize")
    assert note.facts["losers"] == [
        "target llvm: kernel blocked_matmul (A is float32, the tensor float16)"
    ]
    assert note.facts["winner"].startswith("default")


def test_when(rules):
    def few_rows(call):
        return isinstance(call.args[0].struct_info.shape[0], lw.tir.IntImm)

    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm", when=few_rows)
    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Model)
    (note,) = seen.explain("relax.matmul", "legalize")
    assert note.facts["losers"] == ["target llvm: kernel blocked_matmul (few_rows said no)"]


def test_priority_and_conflicts(rules, caplog):
    @T.prim_func(private=True)
    def other(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (k, m))
        C = T.match_buffer(c, (n, m))
        for i, j, r in T.grid(n, m, k):
            with T.block("C"):
                vi, vj, vr = T.axis.remap("SSR", [i, j, r])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vr] * B[vr, vj]

    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm")
    lw.register_legalize("relax.matmul", tir=other, target="llvm")
    with caplog.at_level(logging.WARNING), trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Model)
    (note,) = seen.explain("relax.matmul", "legalize conflict")
    assert "blocked_matmul" in note.facts["also"]
    assert "both fit; the later registered one is taken" in caplog.text
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm", priority=11)
    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Model)
    assert not seen.explain("relax.matmul", "legalize conflict")


def test_a_kernel_for_each_dtype(rules):
    def exp_kernel(call):
        info = call.args[0].struct_info
        if info.ndim != 1:
            return None
        dtype = str(info.dtype)

        @T.prim_func(private=True)
        def my_exp(x: T.handle, y: T.handle):
            n = T.int64()
            X = T.match_buffer(x, (n,), dtype)
            Y = T.match_buffer(y, (n,), dtype)
            for i in range(n):
                with T.block("exp"):
                    vi = T.axis.spatial(n, i)
                    Y[vi] = T.exp(X[vi])

        return my_exp

    lw.register_legalize("relax.exp", tir=exp_kernel, target="llvm")

    @I.ir_module
    class Two:
        @R.function
        def main(x: R.Tensor((4,), "float32"), y: R.Tensor((2, 2), "float32"), z: R.Tensor((3,), "float64")):  # fmt: skip
            with R.dataflow():
                a = R.exp(x)
                b = R.exp(y)
                c = R.exp(z)
                R.output(a, b, c)
            return a, b, c

    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Two)
    winners = [n.facts["winner"] for n in seen.explain("relax.exp", "legalize")]
    assert [w.split(":")[0] for w in winners] == ["target llvm", "default", "target llvm"]
    args = (numbers(4), numbers(2, 2), numbers(3).astype("float64"))
    for got, x in zip(lw.compile(Two)["main"](*args), args, strict=True):
        np.testing.assert_allclose(got.numpy(), np.exp(x), rtol=1e-5)


def test_attributes_are_scalar_parameters(rules):
    lw.register_legalize("relax.nn.leakyrelu", tir=leaky, target="llvm")

    @I.ir_module
    class Leaky:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")):
            with R.dataflow():
                y = R.nn.leakyrelu(x, alpha=0.25)
                R.output(y)
            return y

    x = numbers(3, 4)
    np.testing.assert_array_equal(lw.compile(Leaky)["main"](x).numpy(), np.maximum(x, x * 0.25))


def test_a_kernel_with_a_wrong_result_is_an_error(rules):
    @T.prim_func(private=True)
    def wrong(a: T.handle, b: T.handle, c: T.handle):
        n, m, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (n, k))
        B = T.match_buffer(b, (k, m))
        C = T.match_buffer(c, (m, n))
        for i, j in T.grid(n, m):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = A[vi, 0] * B[0, vj]

    lw.register_legalize("relax.matmul", tir=wrong, target="llvm")
    with Target("llvm"), pytest.raises(lw.LoopwrightError) as error:
        LegalizeOps()(Model)
    assert "takes the inputs of relax.matmul, but axis 0 of C is 4, of the tensor n" in str(
        error.value
    )
    assert 'declare the result as R.Tensor((n, 4), dtype="float32")' in str(error.value)


def test_what_is_no_kernel_is_refused():
    with pytest.raises(TypeError, match="is a PrimFunc, or a function"):
        lw.register_legalize("relax.matmul", tir=3)
    with pytest.raises(TypeError, match="a function or a kernel"):
        lw.register_legalize("relax.matmul", lambda bb, call: None, tir=blocked_matmul)
    with pytest.raises(TypeError, match="give a kernel as tir="):
        lw.register_legalize("relax.matmul", blocked_matmul)
