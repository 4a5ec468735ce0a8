"""Passes that change what private functions take and return, and what calls them."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.ir.expr import GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import (
    ExpandTupleArguments,
    InlinePrivateFunctions,
    NormalizeGlobalVar,
    RemoveUnusedOutputs,
    RemoveUnusedParameters,
    UpdateParamStructInfo,
)
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T

from .graphs import values


def checked(transform, mod: IRModule, *shapes) -> IRModule:
    """What a pass makes of a module; it is well formed and computes the same."""
    arrays = values(*shapes)
    after = transform(mod)
    assert_well_formed(after)
    want, got = (Interpreter(m)["main"](*arrays) for m in (mod, after))
    as_list = list if isinstance(want, (tuple, list)) else lambda one: [one]
    for a, b in zip(as_list(want), as_list(got), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    return after


@I.ir_module
class Shared:
    """`pair` is called twice: one call uses both fields, the other the last one."""

    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            both = Shared.triple(x, y, (x, y))
            a = both[2]
            again = Shared.triple(a, y, (a, y))
            b = again[0]
            c = again[2]
            out = R.add(b, c)
            R.output(out)
        return out

    @R.function(private=True)
    def triple(
        x: R.Tensor(("n", 3), "float32"),
        unused: R.Tensor((3,), "float32"),
        t: R.Tuple(R.Tensor(("n", 3), "float32"), R.Tensor((3,), "float32")),
    ):
        n = T.int64()
        first = t[0]
        second = t[1]
        a = R.add(first, second)
        b = R.exp(x)
        c = R.zeros((n, 3), "float32")
        d = R.add(a, c)
        return (a, b, d)


def test_outputs_that_no_call_uses_are_removed():
    after = checked(RemoveUnusedOutputs(), Shared, (2, 3), (3,))
    assert len(after["triple"].ret_struct_info.fields) == 2
    assert "R.exp" not in after["triple"].script()


def test_parameters_that_are_not_used_are_removed():
    after = checked(RemoveUnusedParameters(), Shared, (2, 3), (3,))
    assert [p.name_hint for p in after["triple"].params] == ["x", "t"]
    slim = checked(RemoveUnusedParameters(), RemoveUnusedOutputs()(Shared), (2, 3), (3,))
    assert [p.name_hint for p in slim["triple"].params] == ["t"]


def test_tuples_are_taken_apart():
    after = checked(ExpandTupleArguments(), Shared, (2, 3), (3,))
    assert [p.name_hint for p in after["triple"].params] == ["x", "unused", "t_0", "t_1"]


def test_functions_are_inlined_into_dataflow_blocks():
    after = checked(InlinePrivateFunctions(), Shared, (2, 3), (3,))
    assert [g.name_hint for g in after.functions] == ["main"]


def test_all_of_them_in_a_row():
    mod = Shared
    for step in (ExpandTupleArguments(), RemoveUnusedOutputs(), RemoveUnusedParameters()):
        mod = checked(step, mod, (2, 3), (3,))
    assert [p.name_hint for p in mod["triple"].params] == ["t_0", "t_1"]
    assert len(mod["triple"].ret_struct_info.fields) == 2


def test_functions_that_are_values_keep_their_signatures():
    @I.ir_module
    class Module:
        @R.function(pure=False)
        def main(x: R.Tensor((3,), "float32")):
            cls = Module
            closure = R.make_closure(cls.func, (x,))
            out = cls.func(x, x)
            return (out, closure)

        @R.function(private=True)
        def func(x: R.Tensor((3,), "float32"), y: R.Tensor((3,), "float32")):
            out = R.exp(x)
            return out

    for transform in (RemoveUnusedParameters(), InlinePrivateFunctions()):
        assert_structural_equal(transform(Module), Module)


def test_a_symbol_that_a_call_does_not_tell_keeps_its_parameter():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(ndim=1, dtype="float32")):
            out = Module.func(x)
            return out

        @R.function(private=True)
        def func(x: R.Tensor(("n",), "float32")):
            n = T.int64()
            out = R.zeros((n,), "float32")
            return out

    assert_structural_equal(RemoveUnusedParameters()(Module), Module)


def test_branches_may_be_inlined_into_a_dataflow_block():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32"), flag: R.Tensor((), "bool")):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                b = cls.func(a, flag)
                c = R.add(a, b)
                R.output(c)
            return c

        @R.function(private=True)
        def func(x: R.Tensor((3,), "float32"), flag: R.Tensor((), "bool")):
            if flag:
                y = R.negative(x)
            else:
                y = R.exp(x)
            return y

    after = InlinePrivateFunctions()(Module)
    assert_well_formed(after)
    (x,) = values((3,))
    for flag in (np.array(True), np.array(False)):
        want, got = (Interpreter(m)["main"](x, flag).numpy() for m in (Module, after))
        np.testing.assert_array_equal(want, got)


def test_a_function_given_twice_is_an_error():
    func = Shared["triple"]
    with pytest.raises(ValueError, match="two functions are given for 'f'"):
        func.inline_functions({"f": func, GlobalVar("f"): func})


def test_a_name_that_becomes_free_is_given_to_a_private_function():
    @I.ir_module(check_well_formed=False)
    class Module:
        @R.function(private=True)
        def f():
            return R.const(1, "int32")

        @R.function
        def f1():
            R.func_attr({"global_symbol": "f"})
            cls = Module
            out = cls.f()
            return out

    after = NormalizeGlobalVar()(Module)
    assert_well_formed(after)
    assert sorted(g.name_hint for g in after.functions) == ["f", "f1"]
    assert int(Interpreter(after)["f"]().numpy()) == 1


def test_new_struct_infos_of_parameters_reach_the_result():
    def wider(var: relax.Var):
        return relax.TensorStructInfo((8, 3), "float32") if var.name_hint == "w" else None

    @R.function
    def main(x: R.Tensor((3,), "float32"), w: R.Tensor((2, 3), "float32")):
        out = R.matmul(w, x)
        return out

    after = UpdateParamStructInfo(wider)(IRModule({"main": main}))
    assert_well_formed(after)
    assert str(after["main"].ret_struct_info) == 'R.Tensor((8,), dtype="float32")'


@I.ir_module
class Sized:
    """A parameter that is a symbol, and a tuple that is a parameter."""

    @R.function
    def main(
        t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((2,), "float32"))),
        x: R.Tensor(("m",), "float32"),
    ):
        m = T.int64()
        return Sized.func(x, R.prim_value(m + 1), t)

    @R.function(private=True)
    def func(
        unused: R.Tensor(("k",), "float32"),
        size: R.Prim(value="n"),
        t: R.Tuple(R.Tensor((3,), "float32"), R.Tuple(R.Tensor((2,), "float32"))),
    ):
        n, k = T.int64(), T.int64()
        inner = t[1]
        return (R.zeros((n,), "float32"), R.exp(inner[0]), R.ones((k,), "float32"))


def test_symbols_that_are_parameters_and_tuples_that_are_given():
    x, y, z = values((3,), (2,), (5,))
    for transform in (RemoveUnusedParameters(), ExpandTupleArguments()):
        after = transform(Sized)
        assert_well_formed(after)
        want, got = (Interpreter(m)["main"]((x, (y,)), z) for m in (Sized, after))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        names = [p.name_hint for p in after["func"].params]
        removes = isinstance(transform, RemoveUnusedParameters)
        assert names == (
            ["size", "t", "param_k"] if removes else ["unused", "size", "t_0", "t_1_0"]
        )
