"""Vectors whose number of lanes the machine says at run time: `T.vscale() * 4` lanes."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright import arith, tir
from loopwright.base.errors import InternalError, LoopwrightError
from loopwright.ir.dtype import DataType
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.script import tir as T

SVE = "llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+sve"


@T.prim_func
def scaled(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in T.vectorized(T.vscale() * 4):
        B[i] = A[i] * T.float32(2)


@T.prim_func
def scaled_by_vectors(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    B[0 : T.vscale() * 4] = A[0 : T.vscale() * 4] * T.Broadcast(T.float32(2), T.vscale() * 4)


def test_types():
    kind = DataType("float32xvscalex4")
    assert (kind.element, kind.lanes, kind.is_scalable) == ("float32", 4, True)
    assert DataType("bool").like(kind) == "boolxvscalex4"
    assert not DataType("float32x4").is_scalable and DataType("uint1x4") == "boolx4"
    for text in ("float32x4xvscale", "float32xvscalex1"):
        with pytest.raises(ValueError, match="unknown data type"):
            DataType(text)


def test_lanes_are_one_expression():
    ramp, copies = tir.Ramp(0, 1, 4 * tir.vscale()), tir.Broadcast(1, tir.vscale() * 4)
    assert ramp.lanes is copies.lanes and ramp.dtype == "int32xvscalex4"
    assert (ramp + 3).dtype == ramp.dtype and (ramp < 3).dtype == "boolxvscalex4"
    for lanes in (tir.vscale(), tir.vscale() + 3, tir.Var("n", "int32")):
        with pytest.raises(LoopwrightError, match="vscale times a number"):
            tir.Ramp(0, 1, lanes)
    with pytest.raises(TypeError, match="different lengths"):
        ramp + tir.Ramp(0, 1, 4)


def test_arithmetic():
    ana, x = arith.Analyzer(), tir.Var("x", "int32")
    lanes = tir.vscale() * 4
    got = ana.simplify(tir.Ramp(x, 1, lanes) + tir.Broadcast(2, lanes))
    assert_structural_equal(got, tir.Ramp(x + 2, 1, lanes))
    interval = arith.IntSet.vector(tir.Ramp(5, 2, lanes))
    assert interval.min_value.value == 5 and arith.is_pos_inf(interval.max_value)


def test_vectorize_loop():
    with lw.Target(SVE):
        mod = tir.transform.VectorizeLoop()(lw.IRModule({"scaled": scaled}))
    wanted = scaled_by_vectors.with_attr("global_symbol", "scaled")
    assert_structural_equal(mod["scaled"], wanted)
    assert_structural_equal(from_source(mod["scaled"].script()), wanted)
    with pytest.raises(InternalError, match=r"extent T.vscale\(\) \* 4 for target"):
        tir.transform.VectorizeLoop()(lw.IRModule({"scaled": scaled}))


@pytest.mark.no_verify
def test_no_code_for_them():
    with pytest.raises(LoopwrightError, match="known at run time"):
        lw.compile(scaled_by_vectors, target="llvm")
