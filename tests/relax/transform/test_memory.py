"""Destination passing and the memory plan: what is shared, what is not, and that it computes the
same at each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright import relax, tir
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import IntImm
from loopwright.ir.structural import structural_equal
from loopwright.ir.transform import Sequential
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.op.storage import (
    BUILTIN_ALLOC_TENSOR,
    MEMORY_ALLOC_STORAGE,
    MEMORY_ALLOC_TENSOR,
    VM_KILL_OBJECT,
)
from loopwright.relax.transform import (
    CallTIRRewrite,
    KillAfterLastUse,
    LegalizeOps,
    LowerAllocTensor,
    LowerRuntimeBuiltin,
    RemovePurityChecking,
    RewriteDataflowReshape,
    StaticPlanBlockMemory,
    ToNonDataflow,
)
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .graphs import graph, values

REWRITE = Sequential(
    [
        LegalizeOps(),
        RewriteDataflowReshape(),
        ToNonDataflow(),
        RemovePurityChecking(),
        CallTIRRewrite(),
    ]
)
n, m = tir.Var("n", "int64"), tir.Var("m", "int64")


def count(mod: IRModule, operator: Any, name: str = "main") -> int:
    """How often an operator is called in a function."""
    bindings = (b for block in mod[name].body.blocks for b in block.bindings)
    return sum(isinstance(b.value, relax.Call) and b.value.op is operator for b in bindings)


def storage_bytes(mod: IRModule, name: str = "main") -> list[Any]:
    """Sizes of the storages, literals as ints."""
    bindings = (b for block in mod[name].body.blocks for b in block.bindings)
    calls = (b.value for b in bindings if isinstance(b.value, relax.Call))
    sizes = [c.args[0].values[0] for c in calls if c.op is MEMORY_ALLOC_STORAGE]
    return [s.value if isinstance(s, IntImm) else str(s) for s in sizes]


def chain(length: int, shape: tuple[Any, ...]) -> IRModule:
    def build(e, x):
        for _ in range(length):
            x = e(op.exp(x))
        return x

    return graph(build, shape)


def test_every_step_computes_the_same():
    def build(e, x, w):
        y = e(op.reshape(e(op.nn.relu(e(op.matmul(x, w)))), (6,)))
        parts = e(op.split(e(op.exp(y)), 2))
        a = e(op.negative(relax.TupleGetItem(parts, 1)))
        return e(relax.Tuple([a, relax.TupleGetItem(parts, 0)]))

    mod = graph(build, (2, 4), (4, 3))
    inputs = values((2, 4), (4, 3))
    expected = Interpreter(mod)["main"](*inputs)
    mod = REWRITE(mod)
    steps = [StaticPlanBlockMemory(), LowerAllocTensor(), KillAfterLastUse()]
    for step in (lambda x: x, *steps):
        mod = step(mod)
        got = Interpreter(mod)["main"](*inputs)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_two_storages_carry_a_chain():
    mod = StaticPlanBlockMemory()(REWRITE(chain(6, (4,))))
    assert storage_bytes(mod) == [16, 16]
    assert count(mod, MEMORY_ALLOC_TENSOR) == 5
    assert count(mod, BUILTIN_ALLOC_TENSOR) == 1  # the result


def test_a_storage_grows_with_its_largest_tensor():
    def build(e, x):
        y = e(op.exp(e(op.exp(x))))  # 16 bytes each
        y = e(op.repeat(y, 2))  # 32 bytes into the first one's place
        return e(op.sum(y))

    mod = StaticPlanBlockMemory()(REWRITE(graph(build, (4,))))
    assert storage_bytes(mod) == [32, 16]


def test_sizes_too_far_apart_do_not_share():
    def build(e, x):
        y = e(op.sum(e(op.exp(x))))
        return e(op.exp(e(op.negative(y))))

    mod = StaticPlanBlockMemory()(REWRITE(graph(build, (100,))))
    assert storage_bytes(mod) == [400, 4, 4]


def test_dtypes_do_not_share():
    def build(e, x):
        y = e(op.astype(e(op.exp(e(op.exp(x)))), "int32"))
        return e(op.astype(e(op.negative(y)), "float32"))

    mod = StaticPlanBlockMemory()(REWRITE(graph(build, (4,))))
    assert storage_bytes(mod) == [16, 16, 16, 16]


def test_a_reshaped_tensor_lives_on():
    def build(e, x):
        y = e(op.reshape(e(op.exp(x)), (6,)))
        z = e(op.exp(e(op.exp(y))))
        return e(op.add(z, y))

    mod = REWRITE(graph(build, (2, 3)))
    assert count(mod, op.reshape(relax.Var("x", R.Tensor((2,))), (2,)).op) == 1
    assert storage_bytes(StaticPlanBlockMemory()(mod)) == [24, 24, 24]


def test_equal_symbolic_sizes_are_reused():
    mod = StaticPlanBlockMemory()(REWRITE(chain(5, (n, m))))
    assert len(storage_bytes(mod)) == 2


def test_upper_bounds_make_a_static_plan():
    mod = chain(5, (n, m))
    bounded = mod["main"].with_attr("tir_var_upper_bound", {"n": 4, "m": 8})
    mod = mod.with_functions({mod.get_global_var("main"): bounded})
    assert storage_bytes(StaticPlanBlockMemory()(REWRITE(mod))) == [128, 128]


@pytest.mark.parametrize(("bound", "error"), [(1.5, TypeError), ("4", TypeError), (-1, ValueError)])
def test_bounds_are_natural_numbers(bound, error):
    mod = REWRITE(chain(2, (n,)))
    main = mod["main"].with_attr("tir_var_upper_bound", {"n": bound})
    with pytest.raises(error, match="tir_var_upper_bound"):
        StaticPlanBlockMemory()(mod.with_functions({mod.get_global_var("main"): main}))


def test_dynamic_results_are_planned_on_demand():
    mod = chain(2, (n,))
    main = mod["main"].with_attr(
        {"tir_var_upper_bound": {"n": 4}, "relax.memory_plan_dynamic_func_output": True}
    )
    mod = REWRITE(mod.with_functions({mod.get_global_var("main"): main}))
    planned = StaticPlanBlockMemory()(mod)
    assert storage_bytes(planned) == [16, 16]
    assert count(planned, BUILTIN_ALLOC_TENSOR) == 0


@I.ir_module
class Escapes:
    @R.function(private=True)
    def inner(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.func_attr({"relax.force_pure": True})
        return x

    @R.function
    def main(x: R.Tensor((2,), "float32"), c: R.Tensor((), "bool")) -> R.Tensor((2,), "float32"):
        R.func_attr({"relax.force_pure": True})
        cls = Escapes
        a = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        b = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        d = R.builtin.alloc_tensor(
            R.shape([2]), R.dtype("float32"), R.prim_value(0), R.str("global")
        )
        R.call_packed("fill", a, sinfo_args=R.Tuple())
        R.call_packed("fill", d, sinfo_args=R.Tuple())
        y: R.Tensor((2,), "float32") = cls.inner(a)
        if c:
            R.call_packed("fill", b, sinfo_args=R.Tuple())
            z = y
        else:
            z = x
        return z


def test_what_escapes_is_not_planned():
    mod = StaticPlanBlockMemory()(Escapes)
    assert count(mod, BUILTIN_ALLOC_TENSOR) == 2
    assert storage_bytes(mod) == [8]


def test_scalars_of_calls_go_to_the_dynamic_call():
    @I.ir_module
    class Mod:
        @T.prim_func(private=True)
        def fill(y: T.Buffer((T.int64(2),), "int64"), k: T.int64):
            for i in range(T.int64(2)):
                with T.block("y"):
                    vi = T.axis.spatial(T.int64(2), i)
                    y[vi] = k

        @R.function
        def main(s: R.Shape(["n"])) -> R.Tensor((2,), "int64"):
            n = T.int64()
            cls = Mod
            y = R.call_tir(cls.fill, (), out_sinfo=R.Tensor((2,), "int64"), tir_vars=R.shape([n]))
            return y

    mod = REWRITE(Mod)
    names = [
        b.value.op.name
        for b in mod["main"].body.blocks[0].bindings
        if isinstance(b.value, relax.Call)
    ]
    assert names == ["relax.builtin.alloc_tensor", "relax.vm.call_tir_dyn"]
    assert Interpreter(mod)["main"]((7,)).numpy().tolist() == [7, 7]


def test_outputs_without_shape_cannot_be_allocated():
    @I.ir_module
    class Mod:
        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor(ndim=1, dtype="float32"):
            R.func_attr({"relax.force_pure": True})
            y = R.call_dps_packed("f", (x,), out_sinfo=R.Tensor(ndim=1, dtype="float32"))
            return y

    with pytest.raises(ValueError, match="cannot allocate its output"):
        CallTIRRewrite()(Mod)


def test_everything_is_dropped_once():
    mod = REWRITE(chain(4, (4,)))
    lower = [StaticPlanBlockMemory(), LowerAllocTensor(), KillAfterLastUse(), LowerRuntimeBuiltin()]
    mod = Sequential(lower)(mod)
    killed = [
        b.value.args[0].name_hint
        for b in mod["main"].body.blocks[0].bindings
        if isinstance(b.value, relax.Call) and b.value.op is VM_KILL_OBJECT
    ]
    assert sorted(killed) == ["alloc", "alloc1", "alloc2", "storage", "storage", "storage1"]
    before = Sequential(lower[:3])(REWRITE(chain(4, (4,))))
    assert structural_equal(KillAfterLastUse()(before), before)


def test_memory_of_an_unknown_shape_cannot_be_allocated():
    @R.function(pure=False, private=True)
    def main(s: R.Shape(ndim=2)):
        a = R.builtin.alloc_tensor(s, R.dtype("float32"), R.prim_value(0))
        return a

    with pytest.raises(ValueError, match=r"a shape of known dimensions\n  got: R.Shape\(ndim=2\)"):
        LowerAllocTensor()(IRModule({"main": main}))


def test_planning_twice_changes_nothing():
    mod = StaticPlanBlockMemory()(REWRITE(chain(4, (4,))))
    assert StaticPlanBlockMemory()(mod) is mod


@I.ir_module
class Copies:
    """Kernels that copy the second input, and a first part of an input."""

    @T.prim_func(private=True)
    def second(
        a: T.Buffer((T.int64(4),), "float32"),
        b: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        c: T.Buffer((T.int64(6),), "float32"),
    ):
        for i in range(T.int64(6)):
            with T.block("c"):
                vi = T.axis.spatial(T.int64(6), i)
                c[vi] = b[vi // T.int64(3), vi % T.int64(3)]

    @T.prim_func(private=True)
    def first_part(a: T.Buffer((T.int64(6),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
        for i in range(T.int64(4)):
            with T.block("b"):
                vi = T.axis.spatial(T.int64(4), i)
                b[vi] = a[vi]

    @R.function
    def main(x: R.Tensor((4,), "float32"), y: R.Tensor((2, 3), "float32")):
        cls = Copies
        with R.dataflow():
            a = R.call_tir(cls.second, (x, y), out_sinfo=R.Tensor((6,), "float32"))
            b = R.call_tir(cls.first_part, (a,), out_sinfo=R.Tensor((4,), "float32"))
            c = R.add(b, b)
            R.output(c)
        return c


def test_a_copy_of_one_of_several_inputs_is_a_reshape_and_a_part_is_none():
    after = RewriteDataflowReshape()(Copies)
    text = after["main"].script()
    assert "R.reshape(y, R.shape([6]))" in text and "first_part" in text
    x, y = values((4,), (2, 3))
    want, got = (Interpreter(mod)["main"](x, y).numpy() for mod in (Copies, after))
    np.testing.assert_array_equal(want, got)


def test_a_tensor_of_a_cast_is_dropped():
    @R.function(pure=False)
    def main(w: R.Tensor((2, 3), "float32")):
        x = R.exp(w)
        y = R.match_cast(x, R.Tensor((2, 3)))
        z = R.exp(y)
        return z

    killed = KillAfterLastUse()(IRModule({"main": main}))["main"].script()
    assert killed.index("kill_tensor(x)") < killed.index("z:") < killed.index("kill_tensor(y)")


def test_the_estimate_of_a_plan():
    mod = StaticPlanBlockMemory()(REWRITE(chain(6, (1024,))))
    text = relax.analysis.estimate_memory_usage(mod)
    assert "Without memory planning, there are 6 constant-size" in text
    assert "With memory planning, there are 3 constant-size" in text
    assert "to 50%" in text
    dynamic = relax.analysis.estimate_memory_usage(REWRITE(chain(2, (n,)))["main"])
    assert "The sizes of 2 more are known at run time." in dynamic


@I.ir_module
class Branch:
    @T.prim_func(private=True)
    def exp(x: T.Buffer((T.int64(2),), "float32"), y: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("y"):
                vi = T.axis.spatial(T.int64(2), i)
                y[vi] = T.exp(x[vi])

    @R.function
    def main(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
        R.func_attr({"relax.force_pure": True})
        cls = Branch
        if flag:
            a = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), R.prim_value(0))
            cls.exp(x, a)
            kept = a
            b = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), R.prim_value(0))
            cls.exp(kept, b)
            c = R.builtin.alloc_tensor(R.shape([2]), R.dtype("float32"), R.prim_value(0))
            cls.exp(b, c)
            y = kept
        else:
            y = x
        return y


def test_the_result_of_a_branch_is_not_overwritten():
    planned = StaticPlanBlockMemory()(Branch)
    (x,) = values((2,))
    flag = np.array(True)
    want, got = (Interpreter(mod)["main"](x, flag).numpy() for mod in (Branch, planned))
    np.testing.assert_array_equal(want, got)
    assert 'a: R.Tensor((2,), dtype="float32") = R.builtin.alloc_tensor' in planned.script()


def test_a_planned_result_shares_with_nothing():
    mod = chain(3, (n,))
    main = mod["main"].with_attr(
        {"tir_var_upper_bound": {"n": 4}, "relax.memory_plan_dynamic_func_output": True}
    )
    planned = StaticPlanBlockMemory()(
        REWRITE(mod.with_functions({mod.get_global_var("main"): main}))
    )
    assert storage_bytes(planned) == [16, 16, 16]
    assert "relax.memory_plan_dynamic_func_output" not in planned["main"].attrs
