"""`IRBuilder`: programs built step by step equal the scripts they stand for."""

from __future__ import annotations

import pytest

from loopwright import relax, tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import ir as SI
from loopwright.script import relax as SR
from loopwright.script import tir as ST
from loopwright.script.ir_builder import IRBuilder
from loopwright.script.ir_builder import ir as I
from loopwright.script.ir_builder import relax as R
from loopwright.script.ir_builder import tir as T
from loopwright.script.ir_builder.relax import function


@SI.ir_module
class Expected:
    SI.module_attrs({"kind": "sum"})

    @ST.prim_func
    def scale(a: ST.handle, B: ST.Buffer((16,), "float32")):
        A = ST.match_buffer(a, (16,), "float32")
        for i in ST.serial(16):
            with ST.block("scale"):
                v = ST.axis.spatial(16, i)
                B[v] = A[v] * ST.float32(2)

    @SR.function
    def main(x: SR.Tensor((16,), "float32")) -> SR.Tensor((16,), "float32"):
        SR.func_attr({"level": 3})
        with SR.dataflow():
            lv = SR.add(x, x)
            out = SR.exp(lv)
            SR.output(out)
        return out


@pytest.mark.parametrize("R", [R, SR], ids=["of the builder", "of scripts"])
def test_a_module(R):
    with IRBuilder() as ib, I.ir_module():
        I.module_attrs({"kind": "sum"})
        with T.prim_func():
            T.func_name("scale")
            a = T.arg("a", T.handle())
            B = T.arg("B", T.Buffer((16,), "float32"))
            A = T.match_buffer(a, (16,), "float32")
            with T.serial(16) as i, T.block("scale"):
                v = T.axis.spatial(16, i)
                T.buffer_store(B, A[v] * T.float32(2), [v])
        with function():
            R.func_name("main")
            R.func_attr({"level": 3})
            x = R.arg("x", relax.TensorStructInfo((16,), "float32"))
            with R.dataflow() as flow:
                out = IRBuilder.name("out", R.emit(R.exp(R.emit(R.add(x, x)))))
                R.output(out)
            assert flow.output_vars == (out,)
            R.func_ret_value(out)
    assert_structural_equal(ib.get(), Expected)


def test_a_statement_and_a_function_without_a_name():
    with IRBuilder() as ib, T.If(T.int32() < 12):
        with T.Then():
            T.evaluate(0)
        with T.Else():
            T.evaluate(1)
    condition = tir.Var("c", "int32") < 12
    wanted = tir.IfThenElse(condition, tir.Evaluate(0), tir.Evaluate(1))
    assert_structural_equal(ib.get(), wanted, map_free_vars=True)
    with IRBuilder() as ib, T.prim_func():
        T.evaluate(0)
    assert_structural_equal(ib.get(), tir.PrimFunc([], tir.Evaluate(0)))


def test_names():
    x, buffer = relax.Var("x", relax.TensorStructInfo((2,), "float32")), T.Buffer((2,), "int8")
    assert IRBuilder.name("y", x).name_hint == "y"
    IRBuilder.name_many(["A", "i"], [buffer, i := tir.Var("", "int32")])
    assert (buffer.name, buffer.data.name, i.name) == ("A", "A", "i")


def test_scopes():
    with IRBuilder() as outer:
        with IRBuilder() as inner:
            assert IRBuilder.current() is inner
        assert IRBuilder.current() is outer and IRBuilder.is_in_scope()
    with pytest.raises(ValueError, match="no IRBuilder is open"):
        IRBuilder.current()
    with pytest.raises(ValueError, match="0 of them"):
        outer.get()
    with pytest.raises(ValueError, match="outside a function"), IRBuilder():
        R.func_name("f")
