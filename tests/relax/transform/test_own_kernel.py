"""Hand-written kernels as the lowering of operators: `register_legalize(op, tir=...)`."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import loopwright as lw
from examples.seed1_own_kernel import my_hardswish
from loopwright import relax
from loopwright.ir import trace
from loopwright.ir.target import Target
from loopwright.relax.transform import LegalizeOps
from loopwright.relax.transform.legalize_ops.common import LEGALIZATIONS, taker
from loopwright.relax.transform.legalize_ops.kernel import Kernel
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.tir.analysis.op_pattern import OpPattern, analyze_op_pattern

from ...programs import graph, pointwise, pointwise_convolution
from .graphs import kernels


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


leaky = pointwise("leaky", "T.max(X[vi, vj], X[vi, vj] * alpha)", ", alpha: T.float32")
Model = graph("y = R.matmul(x, w); z = R.nn.relu(y)", x=("n", 8), w=(8, 4))


@pytest.fixture
def rules():
    """Operators whose rules are put back after the test."""
    with LEGALIZATIONS.registry.snapshot():
        yield


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

    Half = graph(
        "y = R.matmul(x, w)", x='R.Tensor((2, 8), "float16")', w='R.Tensor((8, 4), "float16")'
    )

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
    other = blocked_matmul.with_attr("global_symbol", "other")
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm")
    lw.register_legalize("relax.matmul", tir=other, target="llvm")
    twice = graph("y = R.matmul(x, w); z = R.matmul(w, y)", x=(4, 8), w=(8, 4))
    with caplog.at_level(logging.WARNING), trace.trace() as seen, Target("llvm"):
        LegalizeOps()(twice)
    (note,) = seen.explain("relax.matmul", "legalize conflict")
    assert "blocked_matmul" in note.facts["also"]
    assert "both fit; the later registered one is taken" in caplog.text
    lw.register_legalize("relax.matmul", tir=blocked_matmul, target="llvm", priority=11)
    with trace.trace() as seen, Target("llvm"):
        LegalizeOps()(Model)
    assert not seen.explain("relax.matmul", "legalize conflict")
    # Whether a rule takes a call is known only once it is called.
    lw.register_legalize("relax.matmul", lambda bb, call: call.args[0], target="llvm", priority=11)
    square = graph("y = R.matmul(x, w)", x=(4, 4), w=(4, 4))
    with trace.trace() as seen, Target("llvm"):
        assert not kernels(LegalizeOps()(square))
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

    Leaky = graph("y = R.nn.leakyrelu(x, alpha=0.25)", x=("n", 4))

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


# ---------------------------------------------------------------- fusion with neighbours


def test_a_chain_through_buffers_fuses(rules):
    @T.prim_func
    def chain(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        X, Y = T.match_buffer(x, (n, m)), T.match_buffer(y, (n, m))
        A, B = T.alloc_buffer((n, m)), T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("a"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = X[vi, vj] + 1.0
        for i, j in T.grid(n, m):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * X[vi, vj]
        for i, j in T.grid(n, m):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.exp(B[vi, vj] - A[vi, vj])

    lw.register_legalize("relax.exp", tir=chain, target="llvm")
    check(
        lambda x: R.nn.relu(R.exp(R.negative(x)) - R.const(1.0)),
        lambda x: np.maximum(np.exp((1 - x) * -x - (1 - x)) - 1, 0),
        "fused_tir_negative_chain_subtract_relu",
    )


def test_a_reduction_with_an_epilogue_fuses(rules):
    @T.prim_func
    def root_of_squares(x: T.handle, y: T.handle):
        n, m = T.int64(), T.int64()
        X, Y, S = T.match_buffer(x, (n, m)), T.match_buffer(y, (n,)), T.alloc_buffer((n,))
        for i, j in T.grid(n, m):
            with T.block("squares"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    S[vi] = 0.0
                S[vi] += X[vi, vj] * X[vi, vj]
        for i in range(n):
            with T.block("root"):
                vi = T.axis.spatial(n, i)
                Y[vi] = T.sqrt(S[vi])

    lw.register_legalize("relax.sum", tir=root_of_squares, target="llvm")
    check(
        lambda x: R.nn.relu(R.sum(x, axis=[1]) - R.const(2.0)),
        lambda x: np.maximum(np.sqrt((x * x).sum(1)) - 2, 0),
        "fused_root_of_squares_subtract_relu",
    )


def test_a_stencil_fuses(rules):
    @T.prim_func
    def blur(x: T.handle, y: T.handle):
        """Twice the mean of three neighbours in a row, the ends repeated."""
        n, m = T.int64(), T.int64()
        X, Y, H = T.match_buffer(x, (n, m)), T.match_buffer(y, (n, m)), T.alloc_buffer((n, m))
        for i, j in T.grid(n, m):
            with T.block("once"):
                vi, vj = T.axis.remap("SS", [i, j])
                left, right = T.max(vj - 1, 0), T.min(vj + 1, m - 1)
                H[vi, vj] = (X[vi, left] + X[vi, vj] + X[vi, right]) / 3.0
        for i, j in T.grid(n, m):
            with T.block("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                left, right = T.max(vj - 1, 0), T.min(vj + 1, m - 1)
                Y[vi, vj] = (H[vi, left] + H[vi, vj] + H[vi, right]) / 3.0

    def once(x):
        wide = np.pad(x, ((0, 0), (1, 1)), "edge")
        return (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) / 3

    lw.register_legalize("relax.exp", tir=blur, target="llvm")
    check(
        lambda x: R.nn.relu(R.exp(R.negative(x)) + x),
        lambda x: np.maximum(once(once(-x)) + x, 0),
        "blur_add_relu",
    )


def test_a_packed_intermediate_buffer_fuses(rules):
    """The layout of a kernel's local buffer does not affect other functions."""

    def turned(call):
        schedule = lw.tir.Schedule(blocked_matmul)
        copy = schedule.cache_read("product", 1, "global")
        schedule.transform_layout(copy, ("write", 0), lambda i, j: (j, i))
        return schedule.mod["main"]

    lw.register_legalize("relax.matmul", tir=turned, target="llvm")
    steps = lw.lower(Model)
    assert "fused_blocked_matmul_relu" in steps["FuseTIR"].changed_functions()
    w, x = numbers(8, 4), numbers(3, 8)
    got = lw.compile(Model)["main"](x, w).numpy()
    np.testing.assert_allclose(got, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


def check(graph, meaning, kernel):
    """A graph of one input compiles to numbers as numpy's, and has the kernel of that name."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((lw.tir.Var("n", "int64"), 6), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(graph(x))
        bb.emit_func_output(out)
    names = [g.name_hint for g in lw.lower(bb.get())["FuseTIR"].after.functions]
    assert any(kernel in name for name in names), names
    exe = lw.compile(bb.get())
    for n in (1, 7):
        data = numbers(n, 6)
        got = exe["main"](data).numpy()
        np.testing.assert_allclose(got, meaning(data), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- blocked layouts


def four_dimensions(call):
    return my_hardswish(call) if call.args[0].struct_info.ndim == 4 else None


def convolutions():
    weights = numbers(20, 3, 3, 3), numbers(4, 20, 1, 1)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 3, 9, 10), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            first = R.nn.conv2d(x, relax.const(weights[0]), padding=1)
            out = bb.emit_output(R.nn.conv2d(R.nn.hardswish(first), relax.const(weights[1])))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize(
    "kernel, group",
    [(my_hardswish, "conv2d, my_hardswish"), (four_dimensions, "unpack_channels, my_hardswish")],
)
def test_kernels_between_blocked_convolutions(rules, kernel, group):
    x = numbers(1, 3, 9, 10)
    want = lw.compile(convolutions())["main"](x).numpy()
    lw.register_legalize("relax.nn.hardswish", tir=kernel, target="llvm")
    steps = lw.lower(convolutions())
    assert f"group: {group}" in str(steps.explain("relax.nn.hardswish", "fuse"))
    got = lw.compile(convolutions())["main"](x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_convolution_of_ones_own_between_blocked_ones(rules):
    """It is left in the plain layout; what stands around it is laid out as before."""

    x = numbers(1, 3, 9, 10)
    want = lw.compile(convolutions())["main"](x).numpy()
    lw.register_legalize("relax.nn.conv2d", tir=pointwise_convolution("own_conv"), target="llvm")
    steps = lw.lower(convolutions())
    winners = [n.facts["winner"] for n in steps.explain("relax.nn.conv2d", "legalize")]
    assert "target llvm: kernel own_conv" in winners
    got = lw.compile(convolutions())["main"](x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_blocks_of_one_name_are_told_apart():
    """Also one called as the block around all."""

    @I.ir_module
    class Twice:
        @T.prim_func
        def main(X: T.Buffer((4, 8), "float32"), Y: T.Buffer((4, 8), "float32")):
            S = T.alloc_buffer((4, 8))
            A = T.alloc_buffer((4, 8))
            for i, j in T.grid(4, 8):
                with T.block("root"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    S[vi, vj] = X[vi, vj] + 1.0
            for i, j in T.grid(4, 8):
                with T.block("step"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = S[vi, vj] * 2.0
            for i, j in T.grid(4, 8):
                with T.block("step"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    Y[vi, vj] = A[vi, vj] - 3.0

    x = numbers(4, 8)
    got = np.empty_like(x)
    lw.compile(Twice)["main"](x, got)
    np.testing.assert_allclose(got, (x + 1) * 2 - 3, rtol=1e-6)


def test_a_store_through_a_name_is_no_elementwise_one():
    @T.prim_func(private=True)
    def scatter(X: T.Buffer((8,), "float32"), Y: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("scatter"):
                vi = T.axis.spatial(8, i)
                place = (vi * 3) % 8
                Y[place] = X[vi]

    assert analyze_op_pattern(scatter) is OpPattern.OPAQUE


# ---------------------------------------------------------------- why a kernel does not fit


def kernel_of(*buffers, scalars=""):
    """A PrimFunc of buffers, each {dimensions}: dtype, that does nothing."""
    names = [f"B{k}" for k in range(len(buffers))]
    lines = [
        f"@T.prim_func\ndef made({', '.join(f'b{k}: T.handle' for k in range(len(names)))}{scalars}):"
    ]
    lines.append(
        "    n, m, k = T.int64(), T.int64(), T.int64()"
        if not scalars
        else "    m, k = T.int64(), T.int64()"
    )
    lines += [
        f"    {n} = T.match_buffer(b{k}, ({d},), '{t}')"
        for k, (n, (d, t)) in enumerate(zip(names, buffers, strict=True))
    ]
    return from_source("\n".join([*lines, "    T.evaluate(0)"]))  # fmt: skip


def tensor(*shape, dtype="float32"):
    return relax.Var("t", relax.TensorStructInfo(shape, dtype))


FLOAT = "float32"
REFUSALS = [
    (R.exp(tensor(4, 3)), kernel_of(("4", FLOAT), ("4", FLOAT)), "B0 has 1 dimensions, the tensor 2"),
    (R.exp(tensor(4)), kernel_of(("n", FLOAT)), "the kernel has 1 buffers, the call 1 tensors in and 1 out"),
    (R.exp(tensor(4)), kernel_of(*[("n", FLOAT)] * 3), "the kernel has 3 buffers, the call 1 tensors in and 1 out"),
    (R.exp(tensor(4)), kernel_of(("n", "float64"), ("n", FLOAT)), "B0 is float64, the tensor float32"),
    (R.exp(tensor(4)), kernel_of(("5", FLOAT), ("n", FLOAT)), "axis 0 of B0 is 5, of the tensor 4"),
    (
        R.exp(relax.Var("t", relax.TensorStructInfo(dtype=FLOAT, ndim=1))),
        kernel_of(("n", FLOAT), ("n", FLOAT)), "the shape of the tensor for B0 is not known",
    ),
    (
        R.concat(relax.Var("t", relax.TupleStructInfo([relax.TensorStructInfo((4,), FLOAT)] * 2))),
        kernel_of(("n", FLOAT), ("n", FLOAT)), "B0 is a buffer, the argument is R.Tuple(",
    ),
    (
        R.exp(tensor(4)), kernel_of(("4", FLOAT), ("4", FLOAT), scalars=", alpha: T.float32"),
        "the operator has no number attribute alpha",
    ),
    (
        R.exp(tensor(lw.tir.Var("a", "int64"))), kernel_of(("n", FLOAT), ("n", FLOAT), scalars=", n: T.int64"),
        "the operator has no number attribute n",
    ),
    (R.exp(tensor(4)), lambda call: None, "the function that makes the kernel answered None"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS, ids=[c[2] for c in REFUSALS])
def test_a_kernel_that_does_not_fit_says_why(case):
    call, tir, why = case
    builder = relax.BlockBuilder()
    call = builder.normalize(call)
    kernel = Kernel(call.op.name, tir)
    assert kernel.refusal(call).startswith(why)
    assert kernel(builder, call) is None


def test_tensors_of_tuples_and_extents_as_scalars():
    call = R.concat([tensor(2, 3), tensor(4, 3)], axis=0)
    builder = relax.BlockBuilder()
    call = builder.normalize(call)
    buffers = [(f"{d}, 3", FLOAT) for d in ("n", "m", "k")]
    kernel = Kernel("relax.concat", kernel_of(*buffers))
    assert kernel.refusal(call) is None
    called = kernel(builder, call)
    assert [str(f.struct_info.shape) for f in called.args[1].fields] == [
        "R.shape([2, 3])",
        "R.shape([4, 3])",
    ]
    kernel = Kernel("relax.concat", kernel_of(*buffers, scalars=", n: T.int64"))
    func, tensors = kernel.fit(call)
    assert len(func.params) == len(tensors) + 1
    assert [int(b.shape[0]) for b in func.buffers[:2]] == [2, 4]


def test_a_maker_of_what_is_no_kernel():
    call = relax.BlockBuilder().normalize(R.exp(tensor(4)))
    with pytest.raises(TypeError, match=r"the kernel of relax.exp returns a PrimFunc"):
        Kernel("relax.exp", lambda call: 3).refusal(call)


def test_nobody_takes_what_has_no_rule():
    call = relax.BlockBuilder().normalize(R.unique(tensor(4)))
    own = LEGALIZATIONS.candidates(None, "relax.unique")
    assert not own and (taker(call, None) is None)
    func = kernel_of(("n", FLOAT), ("n", FLOAT))
    call = relax.BlockBuilder().normalize(R.exp(tensor(4)))
    assert taker(call, None) is None  # only a call of the rule would tell
    with LEGALIZATIONS.registry.snapshot():
        lw.register_legalize("relax.exp", tir=func)
        assert str(taker(call, None)) == "default: kernel made"
