"""The smaller graph passes, beyond the example in each one's file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.ir.module import IRModule, VDevice
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    AttachGlobalSymbol,
    BindParams,
    BindSymbolicVars,
    CallTIRRewrite,
    CanonicalizeBindings,
    DeadCodeElimination,
    DropHostCopies,
    EliminateCommonSubexpr,
    FoldConstant,
    LambdaLift,
    LegalizeOps,
    NameDimensions,
    Normalize,
    OptimizeLayoutTransform,
    RemovePurityChecking,
    SinkReshapes,
    ToNonDataflow,
    VMShapeLower,
    dataflowblock_pass,
    function_pass,
)
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from tests.counting import calls

from ...programs import pointwise
from .graphs import graph, kernels, values

n = tir.Var("n", "int64")


def module(func) -> IRModule:
    return IRModule({"main": func})


def bound(mod: IRModule, name: str = "main") -> list:
    """The values bound in a function."""
    return [b.value for block in mod[name].body.blocks for b in block.bindings]


# ---------------------------------------------------------------- FoldConstant


def test_operators_are_folded_by_their_meaning():
    weight = relax.const(values((3, 4))[0])
    mod = graph(lambda e, x: e(op.matmul(x, e(op.permute_dims(weight)))), (2, 4))
    folded = FoldConstant()(mod)
    constant = bound(folded)[0].args[1]
    assert isinstance(constant, relax.Constant)
    assert np.array_equal(constant.data.numpy(), weight.data.numpy().T)


def test_loops_are_folded_after_legalization():
    weight = relax.const(values((3, 4))[0])
    mod = LegalizeOps()(graph(lambda e, x: e(op.add(x, e(op.exp(weight)))), (3, 4)))
    folded = DeadCodeElimination()(FoldConstant()(mod))
    assert kernels(folded) == ["add"]
    (x,) = values((3, 4))
    expected = x + np.exp(weight.data.numpy())
    got = Interpreter(folded)["main"](x).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_tuples_of_constants_are_folded():
    weight = relax.const(np.arange(4, dtype="float32"))

    def build(e, x):
        parts = e(op.split(weight, 2))
        return e(op.add(x, e(relax.TupleGetItem(parts, 1))))

    folded = DeadCodeElimination()(CanonicalizeBindings()(FoldConstant()(graph(build, (2,)))))
    assert len(bound(folded)) == 1
    got = Interpreter(folded)["main"](np.zeros(2, "float32")).numpy()
    assert got.tolist() == [2.0, 3.0]


def test_large_results_of_small_arguments_stay():
    large = (300, 300)
    mod = graph(lambda e, x: e(op.add(x, e(op.zeros(large, "float32")))), large)
    assert FoldConstant()(mod) is mod
    mod = graph(lambda e, x: e(op.add(x, e(op.zeros((4, 4), "float32")))), (4, 4))
    assert isinstance(bound(FoldConstant()(mod))[0].args[1], relax.Constant)


def test_what_fails_is_left_to_run_time():
    mod = module(
        R.function(private=True)(
            _failing,
        )
    )
    assert FoldConstant()(mod) is mod


def _failing(x: R.Tensor((2,), "float32")):
    i = R.take(R.const([1.0, 2.0], "float32"), R.const(5, "int64"), axis=0)
    y = R.add(x, i)
    return y


def test_impure_calls_stay():
    @R.function(pure=False, private=True)
    def main(x: R.Tensor((2,), "float32")):
        R.print(R.const(1.0, "float32"), format="{}")
        return x

    mod = module(main)
    assert FoldConstant()(mod) is mod


# ---------------------------------------------------------------- CanonicalizeBindings


def test_match_cast_that_says_nothing_goes():
    @R.function(private=True)
    def main(x: R.Tensor(("m", 2), "float32")):
        m = T.int64()
        k = T.int64()
        y = R.match_cast(x, R.Tensor((m, 2), "float32"))
        z = R.match_cast(y, R.Tensor((k, 2), "float32"))
        w = R.exp(z)
        return w

    after = CanonicalizeBindings()(module(main))
    (value,) = bound(after)
    assert value.args[0] is after["main"].params[0]


def test_symbols_of_a_match_cast_are_replaced_by_what_is_known():
    @R.function(private=True)
    def main(x: R.Tensor((4, "n"), "float32"), y: R.Tensor(dtype="float32", ndim=1)):
        k, m, n = T.int64(), T.int64(), T.int64()
        a = R.match_cast(x, R.Tensor((k, m), "float32"))
        b = R.call_dps_packed("f", (a,), out_sinfo=R.Tensor((k * m + k,), "float32"))
        c = R.match_cast(y, R.Tensor((n,), "float32"))  # is checked when it runs
        return R.call_dps_packed("g", (b, c), out_sinfo=R.Tensor((m,), "float32"))

    after = CanonicalizeBindings()(module(main))
    first, cast, second = after["main"].body.blocks[0].bindings
    n = after["main"].params[0].struct_info.shape[1]
    assert str(first.var.struct_info) == 'R.Tensor((n * 4 + 4,), dtype="float32")'
    assert isinstance(cast, relax.MatchCast)
    assert second.var.struct_info.shape[0] is n


def test_a_match_cast_that_cannot_succeed():
    @R.function(private=True)
    def main(x: R.Tensor((16,), "float32"), y: R.Tensor((32,), "float32")):
        m = T.int64()
        a = R.match_cast(x, R.Tensor((m,), "float32"))
        b = R.match_cast(y, R.Tensor((m,), "float32"))
        return (a, b)

    with pytest.raises(ValueError, match=r"(?s)must be consistent.*\(32,\).*is to be.*\(16,\)"):
        CanonicalizeBindings()(module(main))


def test_what_is_used_in_its_block_only_is_no_output():
    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = R.add(a, b)
            d = c
            R.output(a, b, c, d)
        return d

    after = CanonicalizeBindings()(module(main))["main"]
    (block,) = after.body.blocks
    assert [type(b.var).__name__ for b in block.bindings] == ["DataflowVar", "Var"]
    assert after.body.body is block.bindings[-1].var


def test_constants_are_used_in_place():
    @R.function(private=True)
    def main():
        with R.dataflow():
            a = R.const(1)
            R.output(a)
        return a

    assert isinstance(CanonicalizeBindings()(module(main))["main"].body.body, relax.Constant)


def test_an_output_in_place_of_its_alias_gets_the_values_struct_info():
    @R.function(private=True)
    def main(x: R.Tensor(("n", 2), "float32")):
        with R.dataflow():
            y = x
            a: R.Tuple(R.Tensor(dtype="float32", ndim=2)) = (y,)
            b = a
            R.output(b)
        return b

    after = CanonicalizeBindings()(module(main))["main"]
    assert after.body.body.name_hint == "b"
    assert str(after.body.body.struct_info.fields[0]) == 'R.Tensor((n, 2), dtype="float32")'


def test_a_tuple_of_all_fields_is_the_tuple():
    @R.function(private=True)
    def main(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
        with R.dataflow():
            a = x[0]
            b = x[1]
            c = (a, b)
            R.output(c)
        return c

    mod = DeadCodeElimination(["main"])(CanonicalizeBindings()(module(main)))
    assert all(not isinstance(v, relax.Tuple) for v in bound(mod))


def test_two_outputs_of_one_value():
    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            a = R.exp(x)
            b = a
            c = a
            R.output(b, c)
        return (b, c)

    mod = CanonicalizeBindings()(module(main))
    got = Interpreter(mod)["main"](np.zeros(2, "float32"))
    assert [g.numpy().tolist() for g in got] == [[1.0, 1.0]] * 2


# ---------------------------------------------------------------- the others


def test_dead_functions_and_entries():
    @I.ir_module
    class Mod:
        @R.function(private=True)
        def unused(x: R.Tensor((2,), "float32")):
            return x

        @R.function(private=True)
        def used(x: R.Tensor((2,), "float32")):
            return x

        @R.function
        def main(x: R.Tensor((2,), "float32")):
            cls = Mod
            y: R.Tensor((2,), "float32") = cls.used(x)
            return y

    names = sorted(g.name_hint for g in DeadCodeElimination()(Mod).functions)
    assert names == ["main", "used"]
    names = sorted(g.name_hint for g in DeadCodeElimination(["unused"])(Mod).functions)
    assert names == ["main", "unused", "used"]
    with pytest.raises(ValueError, match="an entry function does not exist"):
        DeadCodeElimination(["nobody"])(Mod)


@pytest.mark.parametrize(
    ("target", "scope", "left"),
    [("llvm", "global", 0), ("llvm", "shared", 1), ("cuda", "global", 1)],
)
def test_copies_within_the_memory_of_the_host_go(target, scope, left):
    place = VDevice(target, 0, scope)
    mod = graph(lambda e, x: e(op.exp(e(op.to_vdevice(x, place)))), (2,))
    mod.update_global_info("vdevice", [place])
    found = [b for block in DropHostCopies()(mod)["main"].body.blocks for b in block.bindings]
    assert sum("to_vdevice" in str(b.value) for b in found) == left


def test_narrow_constants_are_folded():
    values = relax.const(np.array([1, -2, 3], "int8"))
    mod = FoldConstant()(graph(lambda e, x: e(op.astype(values, "int4")), (2,)))
    found = mod["main"].body.body
    assert isinstance(found, relax.Constant) and found.data.dtype == "int4"
    assert [int(v) for v in found.data.numpy()] == [1, -2, 3]


def test_a_branch_without_effects_is_dead():
    @R.function(pure=False, private=True)
    def main(x: R.Tensor((2,), "float32"), flag: R.Tensor((), "bool")):
        if flag:
            y = R.exp(x)
        else:
            y = R.sin(x)  # noqa: F841
        if flag:
            R.print(x, format="{}")
            z = R.exp(x)
        else:
            z = R.sin(x)  # noqa: F841
        return x

    made = DeadCodeElimination()(IRModule({"main": main}))["main"]
    (binding,) = (b for block in made.body.blocks for b in block.bindings)
    assert binding.var.name_hint == "z"


def test_effects_are_not_dead():
    @R.function(pure=False, private=True)
    def main(x: R.Tensor((2,), "float32")):
        R.print(x, format="{}")
        y = R.exp(x)  # noqa: F841
        return x

    mod = DeadCodeElimination()(module(main))
    assert [v.op.name for v in bound(mod)] == ["relax.print"]


def test_kernel_calls_are_not_dead():
    mod = graph(lambda e, x: e(op.exp(e(op.add(x, x)))), (4,))
    for lower in (LegalizeOps(), ToNonDataflow(), RemovePurityChecking(), CallTIRRewrite()):
        mod = lower(mod)
    cleaned = DeadCodeElimination()(mod)
    (x,) = values((4,))
    assert np.array_equal(Interpreter(cleaned)["main"](x).numpy(), np.exp(x + x))


@I.ir_module
class InPlace:
    @T.prim_func(private=True)
    def inc(x: T.Buffer((T.int64(2),), "float32")):
        for i in range(T.int64(2)):
            with T.block("x"):
                vi = T.axis.spatial(T.int64(2), i)
                x[vi] = x[vi] + T.float32(1)

    @R.function
    def main(a: R.Tensor((2,), "float32"), b: R.Tensor((2,), "float32")):
        cls = InPlace
        z = R.zeros(R.shape([2]), "float32")
        t = (z,)
        s = t[0]
        y = R.call_tir_inplace(cls.inc, (s,), [0], out_sinfo=R.Tensor((2,), "float32"))
        u = R.call_tir_inplace(  # noqa: F841
            cls.inc, (b,), [0], out_sinfo=R.Tensor((2,), "float32")
        )
        o = R.zeros(R.shape([2]), "float32")
        r = R.add(R.add(a, y), R.add(b, o))
        return r


@pytest.mark.parametrize(
    "passes",
    [
        [EliminateCommonSubexpr()],
        [FoldConstant()],
        [DeadCodeElimination()],
        [CanonicalizeBindings(), EliminateCommonSubexpr(), FoldConstant(), DeadCodeElimination()],
    ],
)
def test_what_is_written_in_place_stays_apart(passes):
    mod = InPlace
    for step in passes:
        mod = step(mod)
    main = Interpreter(mod)["main"]
    for _ in range(2):
        a, b = np.zeros((2, 2), "float32")
        assert main(a, b).numpy().tolist() == [2, 2]


def test_constants_are_not_written_over():
    with pytest.raises(ValueError, match="parameter b is written over by an in-place call"):
        BindParams("main", {"b": np.zeros(2, "float32")})(InPlace)
    with pytest.raises(ValueError, match="inplace_indices names a constant"):
        op.call_tir_inplace(
            InPlace.get_global_var("inc"), [relax.const([1.0])], 0, relax.TensorStructInfo((1,))
        )


def test_dead_bindings_in_branches():
    @R.function(private=True)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            a = R.exp(x)  # noqa: F841
            r = R.negative(x)
        else:
            r = x
        return r

    mod = DeadCodeElimination()(module(main))
    (branch,) = (v for v in bound(mod) if isinstance(v, relax.If))
    assert sum(len(b.bindings) for b in branch.true_branch.blocks) <= 2
    text = mod.script()
    assert "R.exp" not in text and "R.negative" in text


def test_common_subexpressions_in_scopes():
    @R.function(private=True)
    def main(c: R.Tensor((), "bool"), x: R.Tensor((2,), "float32")):
        if c:
            a = R.exp(x)
            r = R.add(a, a)
        else:
            b = R.exp(x)
            r = R.multiply(b, b)
        d = R.exp(x)
        e = R.exp(x)
        s = R.add(d, e)
        t = R.add(r, s)
        return t

    mod = EliminateCommonSubexpr()(module(main))
    assert mod.script().count("R.exp") == 3


def test_casts_that_define_other_dimensions_stay():
    @R.function(private=True)
    def main(x: R.Tensor(ndim=1, dtype="float32")):
        n, m = T.int64(), T.int64()
        a = R.match_cast(x, R.Tensor((n,), "float32"))
        b = R.match_cast(x, R.Tensor((m,), "float32"))
        c = R.match_cast(x, R.Tensor((n,), "float32"))
        return (a, b, c)

    after = EliminateCommonSubexpr()(module(main))["main"].body.blocks[0].bindings
    assert [isinstance(b, relax.MatchCast) for b in after][:3] == [True, True, False]


def test_calls_only():
    @R.function(private=True)
    def main(x: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
        a = x[0]
        b = x[0]
        c = R.add(a, b)
        return c

    mod = module(main)
    assert EliminateCommonSubexpr(call_only=True)(mod) is mod
    assert EliminateCommonSubexpr()(mod) is not mod


def test_params_and_symbols_are_bound():
    mod = graph(lambda e, x, w: e(op.add(x, w)), (n, 2), (2,))
    made = BindParams("main", {"x1": np.ones(2, "float32")})(mod)
    assert len(made["main"].params) == 1
    made = BindSymbolicVars({"n": 3})(made)
    assert [d.value for d in made["main"].params[0].struct_info.get_shape()] == [3, 2]
    with pytest.raises(ValueError, match="no function has these symbolic variables"):
        BindSymbolicVars({"k": 3})(mod)
    with pytest.raises(ValueError, match="parameter 'w'"):
        BindParams("main", {"w": np.ones(2, "float32")})(mod)


def test_closures_carry_what_they_capture():
    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        @R.function
        def plus(z: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            s: R.Tensor((2,), "float32") = R.add(z, y)
            return s

        r: R.Tensor((2,), "float32") = plus(x)
        return r

    mod = LambdaLift()(module(main))
    assert sorted(g.name_hint for g in mod.functions) == ["main", "main_plus"]
    assert not any(isinstance(v, relax.Function) for v in bound(mod))
    x, y = values((2,), (2,))
    np.testing.assert_allclose(Interpreter(mod)["main"](x, y).numpy(), x + y)


def test_a_recursive_closure_passes_on_what_it_captures():
    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        @R.function
        def loop(i: R.Tensor((), "int32"), s: R.Tensor((2,), "float32")) -> R.Tensor(
            (2,), "float32"
        ):
            more = R.less(i, R.const(3))
            if more:
                r: R.Tensor((2,), "float32") = loop(R.add(i, R.const(1)), R.add(s, x))
            else:
                r: R.Tensor((2,), "float32") = s
            return r

        out: R.Tensor((2,), "float32") = loop(R.const(0), x)
        return out

    mod = LambdaLift()(module(main))
    relax.analysis.assert_well_formed(mod)
    (x,) = values((2,))
    np.testing.assert_allclose(Interpreter(mod)["main"](x).numpy(), 4 * x)


def test_lifted_functions_of_equal_bodies_keep_their_names():
    @I.ir_module
    class Mod:
        @R.function
        def a(x: R.Tensor((2,), "float32")):
            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.exp(y)

            return inner(x)

        @R.function
        def b(x: R.Tensor((2,), "float32")):
            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.exp(y)

            return inner(x)

        @R.function(private=True)
        def b_inner(x: R.Tensor((2,), "float32")):
            return x

    names = sorted(g.name_hint for g in LambdaLift()(Mod).functions)
    assert names == ["a", "a_inner", "b", "b_inner", "b_inner_0"]


def test_global_symbols():
    mod = LegalizeOps()(graph(lambda e, x: e(op.exp(x)), (2,)))
    made = AttachGlobalSymbol()(mod.with_attr("system_lib_prefix", "lib_"))
    assert made["lib_tir_exp"].attrs["global_symbol"] == "lib_tir_exp"
    assert made["main"].attrs["global_symbol"] == "main"


def test_normal_modules_stay():
    mod = graph(lambda e, x: e(op.exp(x)), (2,))
    assert Normalize()(mod) is mod
    plain = ToNonDataflow()(mod)
    assert ToNonDataflow()(plain) is plain
    assert "R.dataflow" not in plain.script()


def test_shapes_are_lowered_to_a_heap():
    @R.function(private=True)
    def main(x: R.Tensor(("m", "m * 2"), "float32")) -> R.Shape(["m + 1"]):
        m = T.int64()
        R.func_attr({"relax.force_pure": True})
        s: R.Shape([m + 1]) = R.shape([m + 1])
        return s

    mod = VMShapeLower()(module(main))
    names = [getattr(v.op, "global_symbol", None) for v in bound(mod) if isinstance(v, relax.Call)]
    packed = [name.removeprefix("vm.builtin.") for name in names if name]
    assert packed == [
        "check_tensor_info",
        "match_shape",
        "match_shape",
        "make_shape",
        "match_shape",
    ]
    func = mod["shape_func"]
    assert func.attrs["tir.is_host_func"]
    heap = np.zeros(3, "int64")
    heap[0] = 5
    tir.interpreter.run(func, [heap])
    assert sorted(heap.tolist()) == [5, 6, 10]


@pytest.mark.no_roundtrip
def test_an_undefined_symbol_cannot_be_lowered():
    k = tir.Var("k", "int64")
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with bb.function("main", [x]):
        bb.emit_func_output(relax.ShapeExpr([k]))
    with pytest.raises(ValueError, match="used before it is defined"):
        VMShapeLower().run(bb.get(), None)


# ---------------------------------------------------------------- passes of users


def test_function_pass():
    seen = []

    @function_pass(opt_level=0)
    def Look(func, mod, ctx):
        seen.append(func)
        return func

    mod = LegalizeOps()(graph(lambda e, x: e(op.exp(x)), (2,)))
    assert Look(mod) is mod
    assert seen == [mod["main"]]


def test_dataflowblock_pass():
    @dataflowblock_pass(opt_level=0)
    class Twice:
        def transform_dataflowblock(self, block, mod, ctx):
            first, *rest = block.bindings
            again = relax.VarBinding(relax.DataflowVar("again", first.var.struct_info), first.value)
            return relax.DataflowBlock([first, again, *rest])

    mod = graph(lambda e, x: e(op.exp(x)), (2,))
    assert len(bound(Twice()(mod))) == len(bound(mod)) + 1

    @dataflowblock_pass(opt_level=0)
    def Nothing(block, mod, ctx):
        return None

    with pytest.raises(TypeError, match="pass 'Nothing' returned None"):
        Nothing(mod)


def test_examples_agree_with_the_interpreter():
    mod = graph(lambda e, x: e(op.exp(e(op.add(x, x)))), (2,))
    (x,) = values((2,))
    expected = Interpreter(mod)["main"](x).numpy()
    for step in (Normalize(), CanonicalizeBindings(), EliminateCommonSubexpr(), FoldConstant()):
        np.testing.assert_array_equal(Interpreter(step(mod))["main"](x).numpy(), expected)
    assert_structural_equal(Normalize()(mod), mod)


def joined(terms: int) -> IRModule:
    """Eight tensors joined, the extent of each of which is the sum of so many sizes."""
    builder = relax.BlockBuilder()
    sizes = [tir.Var(f"n{k}", "int64") for k in range(8 * terms)]
    extents = [sum(sizes[k + 1 : k + terms], sizes[k]) for k in range(0, len(sizes), terms)]
    xs = [relax.Var(f"x{k}", R.Tensor((d,), "float32")) for k, d in enumerate(extents)]
    with builder.function("main", [*xs, relax.Var("sizes", R.Shape(sizes))]):
        builder.emit_func_output(builder.emit(op.concat(xs, 0)))
    return builder.get()


@pytest.mark.no_roundtrip  # the type of a result has groups of terms as the builder added them
def test_sums_of_dimensions_are_written_with_their_names() -> None:
    text = NameDimensions()(LegalizeOps()(joined(3)))["concatenate"].script()
    assert "range(d8)" in text and "d0 + d1 <= v_ax0, x2[v_ax0 - d0 - d1]" in text
    assert "n0" not in text


def test_a_remainder_by_a_named_dimension_is_simplified_before() -> None:
    b, s = tir.Var("b", "int64"), tir.Var("s", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((b * s, 12), "float32"))
    y = relax.Var("y", R.Tensor((b, s), "float32"))
    with builder.function("main", [x, y]):
        builder.emit_func_output(builder.emit(op.reshape(x, (b, s, 12))))
    func = NameDimensions()(LegalizeOps()(builder.get()))["reshape"]
    assert "d0" in func.script() and "% d0" not in func.script()


@pytest.mark.no_roundtrip  # what is counted are calls
def test_sums_of_many_sizes_take_time_by_their_length() -> None:
    """It was the square: for each part of a sum again, and for each pair of terms."""

    def work(terms: int) -> int:
        mod = joined(terms)
        return calls(lambda: NameDimensions()(LegalizeOps()(mod)))

    assert work(32) < 5 * work(8)  # 10.6 before


def test_common_subexpressions_of_outputs_and_casts():
    """An output that equals a dataflow variable is an alias of it, used behind its block; equal
    casts are one; storage is never shared."""

    @R.function(private=True)
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor(dtype="float32", ndim=1)):
        with R.dataflow():
            n = T.int64()
            a = R.exp(x)
            b = R.exp(x)
            c = R.add(a, b)
            d = R.match_cast(y, R.Tensor((n,), "float32"))
            e = R.match_cast(y, R.Tensor((n,), "float32"))
            R.output(b, c, d, e)
        f = R.exp(x)
        g = R.vm.alloc_storage(R.shape([8]), 0, "uint8")
        h = R.vm.alloc_storage(R.shape([8]), 0, "uint8")
        return (b, c, d, e, f, g, h)

    after = EliminateCommonSubexpr()(module(main))
    values = {b.var.name_hint: b.value for blk in after["main"].body.blocks for b in blk.bindings}
    found = {k: v.name_hint for k, v in values.items() if isinstance(v, relax.Var) and k != "d"}
    assert found == {"b": "a", "e": "d", "f": "b"}
    assert [v.name_hint for v in values["c"].args] == ["a", "a"]
    assert values["g"] is not values["h"]


def test_fields_of_what_is_known_to_be_a_tuple_since_its_check():
    """A match_cast stays as an alias: it defines what the struct infos that follow mention."""

    @R.function(private=True)
    def main(x: R.Tensor(("n",), "float32"), y: R.Object) -> R.Tuple(R.Tensor(("n",), "float32")):
        m = T.int64()
        R.func_attr({"relax.force_pure": True})
        _z = R.match_cast(x, R.Tensor((m,), "float32"))
        _k = R.prim_value(m)
        return y

    mod = VMShapeLower()(module(main))
    bindings = [b for block in mod["main"].body.blocks for b in block.bindings]
    (cast,) = [b for b in bindings if isinstance(b, relax.MatchCast)]
    assert cast.value is mod["main"].params[0]
    (number,) = [b for b in bindings if b.var.name_hint == "_k"]
    assert number.var.struct_info.value is cast.struct_info.shape[0]
    called = [getattr(b.value.op, "global_symbol", "") for b in bindings if b is not cast]
    assert called[-3:] == [
        f"vm.builtin.{n}" for n in ("tuple_getitem", "check_tensor_info", "match_shape")
    ]


def test_changes_of_layout_that_do_not_undo_each_other_stay():
    """Shapes alone do not say that a layout is the old one."""

    @R.function(private=True)
    def main(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.layout_transform(x, index_map=lambda i, j: (i * 4 + j,))
            b = R.layout_transform(a, index_map=lambda i: (i % 4, i // 4))
            c = R.layout_transform(a, index_map=lambda i: (i // 4, i % 4))
            d = R.add(b, c)
            R.output(d)
        return d

    after = OptimizeLayoutTransform()(module(main))
    values = bound(after)
    names = ["layout_transform", "layout_transform", "add"]
    assert [v.op.name for v in values] == [f"relax.{n}" for n in names]
    assert values[-1].args[1] is after["main"].params[0]


@pytest.mark.parametrize(("between", "stays"), [("remove_pad", False), ("pad", True), ("", False)])
@pytest.mark.parametrize("given", [(4, 4), None])
def test_changes_of_layout_with_a_kernel_between(between, stays, given):
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(given, "float32", ndim=2))
    kernel = pointwise("between", "X[vi, vj]").with_attr("operator_name", between)
    with bb.function("main", [x]):
        gvar = bb.add_func(kernel, "between")
        with bb.dataflow():
            a = bb.emit(op.layout_transform(x, lambda i, j: (j, i)))
            if between:
                a = bb.emit(relax.call_tir(gvar, [a], relax.TensorStructInfo((4, 4), "float32")))
            a = bb.emit(op.layout_transform(a, lambda i, j: (j, i)))
            a = bb.emit_output(op.exp(a))
        bb.emit_func_output(a)
    last = bound(OptimizeLayoutTransform()(bb.get()))[-1]
    assert (last.args[0] is not x) == (stays or given is None)


def test_a_symbol_that_one_branch_knows():
    mod = from_source("""
@I.ir_module
class Module:
    @R.function
    def main(
        c: R.Tensor((), "bool"), x: R.Tensor(dtype="float32", ndim=1), y: R.Tensor((4,), "float32")
    ):
        m = T.int64()
        if c:
            a = R.match_cast(x, R.Tensor((m,), "float32"))
            r = R.sum(R.exp(a))
        else:
            b = R.match_cast(y, R.Tensor((m,), "float32"))
            r = R.sum(R.add(b, b))
        return r
""")
    text = CanonicalizeBindings()(mod).script()
    assert text.count("match_cast") == 1 and "R.add(y, y)" in text


def test_a_callback_that_returns_nothing_is_called():
    @R.function
    def main(
        x: R.Tensor((4,), "float32"),
        callback: R.Callable((R.Tensor((4,), "float32"),), R.Tuple([])),
    ):
        y = R.add(x, x)
        _ = callback(y)
        return R.tuple()

    seen = []
    mod = lw.IRModule({"main": main})
    exe = relax.build(mod, "llvm")
    relax.VirtualMachine(exe, lw.cpu())["main"](lw.nd.array(np.ones(4, "float32")), seen.append)
    np.testing.assert_array_equal(seen[0].numpy(), 2)


# ---------------------------------------------------------------- SinkReshapes


def reshapes(mod: IRModule) -> int:
    return sum(v.op is op_of("reshape") for v in bound(mod) if isinstance(v, relax.Call))


def op_of(name: str) -> Any:
    return lw.ir.Op.get(f"relax.{name}")


def same_before_and_after(mod: IRModule, *arrays: np.ndarray) -> IRModule:
    after = SinkReshapes()(mod)
    want, got = Interpreter(mod)["main"](*arrays), Interpreter(after)["main"](*arrays)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)
    return after


def test_nothing_is_reshaped_between_a_product_and_its_epilogue():
    w, b = (relax.const(v) for v in values((6, 8), (8,)))

    def build(e, x):
        y = e(op.add(e(op.matmul(e(op.reshape(x, (4, 6))), w)), b))
        half = e(op.multiply(e(op.reshape(y, (1, 4, 8))), relax.const(0.5, "float32")))
        return e(op.nn.relu(half))

    after = same_before_and_after(graph(build, (1, 4, 6)), *values((1, 4, 6)))
    assert reshapes(after) == 0


def test_a_reshape_that_changes_rows_stays_before_the_product():
    w = relax.const(values((6, 8))[0])
    mod = graph(lambda e, x: e(op.matmul(e(op.reshape(x, (6, 6))), w)), (2, 3, 6))
    after = same_before_and_after(mod, *values((2, 3, 6)))
    (product,) = (v for v in bound(after) if getattr(v, "op", None) is op_of("matmul"))
    assert product.args[0].struct_info.ndim == 2


@pytest.mark.parametrize("other", [(8, 1), (8,), (3, 8), (1, 1)])
def test_a_reshape_stays_before_what_is_broadcast_otherwise(other):
    """Only along the last axis of both shapes may another tensor go."""
    (extra,) = values(other)
    shape = (other[0] if len(other) == 2 and other[0] > 1 else 3, 8)

    def build(e, x):
        y = e(op.add(e(op.reshape(x, shape)), relax.const(extra)))
        return e(op.exp(e(op.reshape(y, (shape[0] * 2, 4)))))

    same_before_and_after(graph(build, (shape[0], 2, 4)), *values((shape[0], 2, 4)))


def test_a_softmax_sees_its_tensor_as_it_is():
    mod = graph(lambda e, x: e(op.nn.softmax(e(op.reshape(x, (2, 12))))), (2, 3, 4))
    after = same_before_and_after(mod, *values((2, 3, 4)))
    assert reshapes(after) == 1
