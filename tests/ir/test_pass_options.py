"""Options of `PassContext`: each that passes read changes what they make; the others say why not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, relay, te, tir
from loopwright.base.config import PASS_OPTIONS
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext, module_pass
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

tt = tir.transform


@T.prim_func
def tail(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    for i in range(4):
        for j in T.vectorized(4):
            if i * 4 + j < 14:
                B[i * 4 + j] = A[i * 4 + j] + T.float32(1)


@T.prim_func
def overwritten(A: T.Buffer((1,), "int32")):
    A[0] = 1
    A[0] = 2


@T.prim_func
def known(A: T.Buffer((1,), "int32")):
    A[0] = 1
    A[0] = A[0] + 1


@T.prim_func
def checked(A: T.Buffer((8,), "float32"), k: T.int32):
    T.func_attr({"global_symbol": "main"})
    assert k < 4, "k is too large"
    for i in range(8):
        if k > 0:
            A[i] = T.float32(k * k + 1) + T.float32(k * k + 1 + i)


@T.prim_func
def equal_terms(A: T.Buffer((8,), "float32"), k: T.int32, m: T.int32):
    for i in range(8):
        A[i] = T.float32((k + m) * 3) + T.float32(k * 3 + m * 3)


@T.prim_func
def vector(A: T.Buffer((14,), "float32"), k: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in range(2):
        for j in T.vectorized(8):
            if i * 8 + j < 14:
                A[i * 8 + j] = A[k]


@T.prim_func
def local(A: T.Buffer((8,), "float32")):
    T.func_attr({"global_symbol": "main"})
    b = T.allocate([8], "float32", "local")
    c = T.allocate([8], "float32", "local")
    d = T.allocate([8], "float32", "local")
    B = T.Buffer((8,), data=b, scope="local")
    C = T.Buffer((8,), data=c, scope="local")
    D = T.Buffer((8,), data=d, scope="local")
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[7 - i]
    for i in range(8):
        D[i] = C[7 - i]
    for i in range(8):
        A[i] = D[i]


@T.prim_func
def fetched(A: T.Buffer((40,), "float32"), C: T.Buffer((40,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(10):
        b = T.allocate([4], "float32", "local")
        B = T.Buffer((4,), data=b, scope="local")
        with T.attr(b, "double_buffer_scope", 1):
            for j in range(4):
                B[j] = A[i * 4 + j]
        for j in range(4):
            C[i * 4 + j] = B[j] + T.float32(1)


@T.prim_func
def wide(A: T.Buffer((T.int64(64),), "uint8")):
    T.func_attr({"global_symbol": "main"})
    for i in range(T.int64(64)):
        A[i] = T.uint8(1)


@T.prim_func
def fast_memory(A: T.Buffer((64,), "uint8")):
    T.func_attr({"global_symbol": "main"})
    v = T.allocate([64], "uint8", "global.vtcm")
    V = T.Buffer((64,), "uint8", data=v, scope="global.vtcm")
    for i in range(64):
        V[i] = A[i]


@T.prim_func
def same_again(A: T.Buffer((1,), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "main"})
    A[0] = 0
    if n > 3:
        A[0] = 0


@T.prim_func
def some_threads(A: T.Buffer((8,), "int32")):
    T.func_attr({"global_symbol": "main"})
    thread = T.launch_thread("threadIdx.x", 8)
    for i in range(2):
        if thread < 4:
            A[thread] = i


@I.ir_module
class Graph:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            z = R.exp(y)
            R.output(z)
        return z


@I.ir_module
class Product:
    @R.function
    def main(x: R.Tensor((2, 1), "float32")) -> R.Tensor((2, 2), "float32"):
        with R.dataflow():
            y = R.matmul(x, R.const([[1.0, 2.0]], "float32"))
            R.output(y)
        return y


@I.ir_module
class Weighted:
    @R.function
    def main(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")):
        R.func_attr({"num_input": 1})
        y = R.exp(w)
        z = R.add(x, y)
        return z


@module_pass(opt_level=0)
def renames(mod, ctx):
    mod["main"] = mod["main"].with_attr("seen", 1)
    return mod


def lowered(func) -> Callable[[], str]:
    return lambda: tt.default_tir_pipeline()(IRModule.from_expr(func)).script()


def after(func, *passes) -> Callable[[], str]:
    return lambda: lw.transform.Sequential(list(passes))(IRModule.from_expr(func)).script()


@I.ir_module
class Nests:
    @T.prim_func
    def one(A: T.Buffer((2, 3, 4), "float32")):
        for i, j, k in T.grid(2, 3, 4):
            A[i, j, k] = T.float32(0)

    @T.prim_func
    def other(A: T.Buffer((2, 3), "float32")):
        for i, j in T.grid(2, 3):
            A[i, j] = T.float32(0)


def profiled() -> str:
    """Loops without siblings, too."""
    config = {"tir.instr_siblings": False, **PassContext.current().config}
    with PassContext(config=config):
        return str(tt.InstrumentProfileIntrinsics()(Nests))


def text(func) -> Callable[[], str]:
    return lambda: lw.compile(IRModule.from_expr(func), "llvm").as_text()


def graph(*passes) -> Callable[[], str]:
    return lambda: lw.transform.Sequential(list(passes))(Graph).script()


def fused() -> str:
    steps = (relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps())
    return graph(relax.transform.LegalizeOps(), *steps)()


def relay_text(*passes) -> Callable[[], str]:
    """Relay's text of two layers and a constant after passes."""
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 8))
    dense = relay.nn.dense(x, w) + relay.const(np.ones(8, "float32"))
    mod = IRModule.from_expr(relay.tanh(relay.nn.relu(dense)))
    return lambda: lw.transform.Sequential([relay.transform.InferType(), *passes])(mod).astext()


def schedule_record() -> str:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="y")
    schedule = te.create_schedule(y.op)
    schedule[y].split(y.op.axis[0], 4)
    return str(len(schedule.schedule_record))


def convolved() -> str:
    """A convolution of 3 x 3 in blocks, as the pass leaves it."""
    bb = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorStructInfo((1, 4, 16, 16, 16), "float32"))
    weight = relax.const(np.zeros((64, 64, 3, 3), "float32"))
    blocks = {"kernel_layout": "OIHW16i16o", "data_layout": "NCHW16c", "out_layout": "NCHW16c"}
    with bb.function("main", [data]):
        packed = bb.emit(relax.op.nn.pack_weight(weight, "OIHW16i16o"))
        bb.emit_func_output(bb.emit(relax.op.nn.conv2d(data, packed, **blocks)))
    return relax.transform.WinogradConvolutions()(bb.get()).script()


# What each option that is read changes.
READ: dict[str, tuple[object, Callable[[], str]]] = {
    "relax.FuseOps.max_depth": (1, fused),
    "relax.lift_transform_params.consume_params": (
        True,
        lambda: relax.transform.LiftTransformParams()(Weighted).script(),
    ),
    "relax.matmul_precision": (
        "bfloat16",
        lambda: relax.transform.LowerMatmulPrecision()(Product).script(),
    ),
    "relax.winograd_tile": (4, convolved),
    "relax.transform.apply_legalize_ops": (False, graph(relax.transform.LegalizeOps())),
    "relay.FuseOps.link_params": (True, relay_text(relay.transform.FuseOps(2))),
    "relay.FuseOps.max_depth": (1, relay_text(relay.transform.FuseOps(2))),
    "relay.ToMixedPrecision.keep_orig_output_dtype": (
        True,
        relay_text(relay.transform.ToMixedPrecision()),
    ),
    "te.keep_schedule_record": (True, schedule_record),
    "testing.immutable_module": (True, lambda: str(renames(Graph.clone()))),
    "tir.HoistExpression": (
        {"hoisted_conditionals": False},
        after(checked, tt.HoistExpression()),
    ),
    "tir.HoistIfThenElse": (
        {"support_block_scope_hoisting": True},
        after(some_threads, tt.HoistIfThenElse()),
    ),
    "tir.InjectDoubleBuffer": ({"split_loop": 2}, lowered(fetched)),
    "tir.LoopPartition": (
        {"partition_const_loop": False},
        after(vector, tt.LoopPartition()),
    ),
    "tir.ReduceBranchingThroughOvercompute": (
        {"use_dataflow_analysis": True},
        after(same_again, tt.ReduceBranchingThroughOvercompute()),
    ),
    "tir.RemoveNoOp": ({"use_dataflow_analysis": True}, after(overwritten, tt.RemoveNoOp())),
    "tir.Simplify": (
        {"propagate_knowns_to_simplify_expressions": True},
        after(known, tt.Simplify()),
    ),
    "tir.UnrollLoop": ({"unroll_local_access": True}, lowered(local)),
    "tir.add_lower_pass": ([(3, tt.ForceNarrowIndexToInt32)], lowered(wide)),
    "tir.disable_assert": (True, lowered(checked)),
    "tir.disable_cse_tir": (True, after(checked, tt.CommonSubexprElimTIR())),
    "tir.disable_storage_rewrite": (True, after(local, tt.StorageRewrite())),
    "tir.disable_vectorize": (True, text(tail)),
    "tir.enable_buffer_level_predication": (False, lowered(tail)),
    "tir.enable_equiv_terms_in_cse_tir": (
        True,
        after(equal_terms, tt.CommonSubexprElimTIR()),
    ),
    "tir.instrument_bound_checkers": (True, lowered(vector)),
    "tir.instr_siblings": (False, after(fetched, tt.InstrumentProfileIntrinsics())),
    "tir.instrument_lwp": (True, lowered(fetched)),
    "tir.lwp_disable_func_prof": (True, profiled),
    "tir.lwp_max_depth": (1, profiled),
    "tir.lwp_min_height": (2, profiled),
    "tir.noalias": (False, text(tail)),
    "tir.reset_start_id": (True, profiled),
    "tir.vtcm_capacity": (63, after(fast_memory, tt.VerifyVTCMLimit())),
}


def made(make: Callable[[], str]) -> str:
    try:
        return make()
    except (RuntimeError, ValueError) as error:
        return str(error)


def test_every_option_has_a_row():
    plain = {n for n, k in PASS_OPTIONS.items() if not k.doc.startswith(("Accepted", "Refused"))}
    assert plain == set(READ)


@pytest.mark.parametrize("name", READ)
def test_options_that_are_read_have_an_effect(name):
    value, make = READ[name]
    usual = made(make)
    with PassContext(config={name: None}):
        assert made(make) == usual, "None is the default"
    with PassContext(config={name: value}):
        assert made(make) != usual


@pytest.mark.parametrize("together", [1, 2, 3, 4, 11])
def test_iterations_in_a_row(together):
    given, out = np.arange(40, dtype="float32"), np.zeros(40, "float32")
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": together}}):
        lw.compile(IRModule.from_expr(fetched), "llvm")["main"](given, out)
    np.testing.assert_array_equal(out, given + 1)


def test_loops_over_registers():
    data = np.arange(8, dtype="float32")
    with PassContext(config={"tir.UnrollLoop": {"unroll_local_access": True}}):
        exe = lw.compile(IRModule.from_expr(local), "llvm")
    exe["main"](data)
    np.testing.assert_array_equal(data, np.arange(8))
    assert "range" not in exe.as_python()


def test_halves_are_known_in_iterations_in_a_row():
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 2}}):
        text = lowered(fetched)()
    assert "%" not in text and "range(5)" in text
    with PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": 3}}):
        text = lowered(fetched)()
    assert "range(3)" in text and "B[3" not in text


def test_lane_by_lane():
    out = np.zeros(16, "float32")
    with PassContext(config={"tir.enable_buffer_level_predication": False}):
        exe = lw.compile(IRModule.from_expr(tail), "llvm")
        assert "predicate" not in exe.as_python()
    exe["main"](np.ones(16, "float32"), out)
    np.testing.assert_array_equal(out, [2.0] * 14 + [0.0] * 2)


def test_parameters_may_overlap():
    assert "noalias" in text(tail)().split("define", 2)[1]
    with PassContext(config={"tir.noalias": False}):
        assert "noalias" not in text(tail)()
        texts = lw.compile(IRModule.from_expr(tail), "c").texts
    assert "restrict" not in "".join(texts.values())


@pytest.mark.parametrize("name", [n for n, k in PASS_OPTIONS.items() if k.refused])
def test_refused_options(name):
    knob = PASS_OPTIONS[name]
    value = {bool: True, int: 3, str: "x", dict: {"a": 1}}[knob.kind]
    for nothing in (None, knob.kind()):
        PassContext(config={name: nothing})
    with pytest.raises(ValueError) as error:
        PassContext(config={name: value})
    why, instead = knob.refused
    assert str(error.value) == (
        f"config option {name!r} has no effect in Loopwright: {why}\n"
        f"  got: {value!r}\n  instead: {instead}"
    )


def test_accepted_options_change_nothing():
    values = {bool: True, int: 3, str: "x", dict: {}}
    accepted = {n: values[k.kind] for n, k in PASS_OPTIONS.items() if k.doc.startswith("Accepted")}
    assert len(accepted) > 10
    with PassContext(config=accepted):
        changed = lowered(checked)()
    assert changed == lowered(checked)()


def test_entries_of_dicts_are_known():
    with pytest.raises(ValueError) as error:
        PassContext(config={"tir.UnrollLoop": {"auto_max_steps": 16}})
    assert str(error.value) == (
        "config option 'tir.UnrollLoop' has no entry of this name\n"
        "  got: auto_max_steps\n  instead: did you mean auto_max_step?"
    )


def test_a_pass_that_changes_its_module():
    with (
        PassContext(config={"testing.immutable_module": True}),
        pytest.raises(ValueError, match="pass 'renames' changed the module it was given") as error,
    ):
        renames(Graph.clone())
    assert "def renames(mod, ctx)" in str(error.value)


def test_entries_are_attributes_with_their_defaults():
    config = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 10}}).config
    options = config["tir.UnrollLoop"]
    assert (options.auto_max_step, options.explicit_unroll) == (10, True)
    assert options == {"auto_max_step": 10}
    with pytest.raises(AttributeError, match="no entry of this name\n  got: auto_max_steps"):
        _ = options.auto_max_steps
    for wrong, kinds in (
        ({"tir.UnrollLoop": {"invalid": 1}}, (TypeError, ValueError)),
        ({"no-option": True}, (AttributeError, ValueError)),
        ({"tir.UnrollLoop": 1}, (AttributeError, TypeError)),
    ):
        with pytest.raises(kinds[0]) as error:
            PassContext(config=wrong)
        assert isinstance(error.value, kinds)
