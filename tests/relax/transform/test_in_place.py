"""Elementwise operators that write over an argument."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import DataflowUseInplaceCalls, LegalizeOps
from loopwright.relax.transform.lower.rewrite_dataflow_reshape import RewriteDataflowReshape
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.testing.transform import dataflow_single_inplace_call

from .graphs import values


@I.ir_module
class Chain:
    @R.function
    def main(x: R.Tensor(("n", 3), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            b = R.multiply(a, R.const(2, "float32"))
            pair = (b, y)
            c = R.exp(b)
            d = R.add(c, pair[0])
            e = R.subtract(d, d)
            f = R.nn.silu(e)
            R.output(f)
        return f


def overwritten(mod: IRModule) -> list[str]:
    """The results that are written over an argument."""
    bindings = (b for block in mod["main"].body.blocks for b in block.bindings)
    return [b.var.name_hint for b in bindings if getattr(b.value, "op", None) == IN_PLACE]


IN_PLACE = lw.Op.get("relax.call_tir_inplace")


def test_what_is_used_later_is_not_written_over():
    after = DataflowUseInplaceCalls()(Chain)
    assert_well_formed(after)
    assert overwritten(after) == ["b", "d", "e", "f"]
    x, y = values((2, 3), (3,))
    given = x.copy(), y.copy()
    want = Interpreter(Chain)["main"](x, y).numpy()
    for got in (Interpreter(after)["main"](x, y), lw.compile(after, "llvm")["main"](x, y)):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    np.testing.assert_array_equal(x, given[0])
    np.testing.assert_array_equal(y, given[1])


def test_parameters_constants_and_outside_values_are_not_written_over():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((3,), "float32")):
            outside = R.exp(x)
            with R.dataflow():
                one = R.const(np.ones(3, "float32"))
                a = R.negative(x)
                b = R.exp(one)
                c = R.exp(outside)
                d = R.call_pure_packed("f", a, sinfo_args=R.Tensor((3,), "float32"))
                e = R.exp(d)
                f = (b, c, e)
                R.output(f)
            return f

    assert_structural_equal(DataflowUseInplaceCalls()(Module), Module)


def test_a_copy_of_what_is_written_over_stays_a_copy():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def copy(a: T.Buffer((T.int64(4),), "float32"), b: T.Buffer((T.int64(4),), "float32")):
            for i in range(T.int64(4)):
                with T.block("b"):
                    vi = T.axis.spatial(T.int64(4), i)
                    b[vi] = a[vi]

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                b = R.call_tir(cls.copy, (a,), out_sinfo=R.Tensor((4,), "float32"))
                c = R.negative(a)
                d = R.add(b, c)
                R.output(d)
            return d

    after = RewriteDataflowReshape()(LegalizeOps()(DataflowUseInplaceCalls()(Module)))
    assert "R.reshape" not in after["main"].script()
    assert "R.reshape" in RewriteDataflowReshape()(Module)["main"].script()
    (x,) = values((4,))
    got = lw.compile(DataflowUseInplaceCalls()(Module), "llvm")["main"](x)
    np.testing.assert_array_equal(np.asarray(got), np.zeros(4, "float32"))


def test_calls_that_cannot_are_refused():
    call = Chain["main"].body.blocks[0].bindings[0].value
    new, mod = dataflow_single_inplace_call(Chain, call, [0])
    assert new.op == IN_PLACE and "add_inplace" in mod
    product = Chain["main"].body.blocks[0].bindings[1].value
    dataflow_single_inplace_call(Chain, product, [0])
    unique = relax.BlockBuilder().normalize(R.unique(call.args[1]))  # a function of the run time
    for refused, places in ((call, [0, 1]), (product, [1]), (unique, [0])):
        with pytest.raises(ValueError, match="cannot write over these arguments"):
            dataflow_single_inplace_call(Chain, refused, places)


def test_a_fused_kernel_reads_before_it_writes_over():
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((64, 64), "float32"), w: R.Tensor((64, 64), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.matmul(a, w)
                c = R.add(b, a)
                d = R.nn.relu(c)
                R.output(d)
            return d

    after = DataflowUseInplaceCalls()(Module)
    assert overwritten(after) == ["c", "d"]
    x, w = values((64, 64), (64, 64))
    want = np.asarray(lw.compile(Module, "llvm")["main"](x, w))
    np.testing.assert_allclose(np.asarray(lw.compile(after, "llvm")["main"](x, w)), want, rtol=1e-4)
