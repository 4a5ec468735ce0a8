"""bfloat16 and 8-bit floats: wider arithmetic and integer storage keep the values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

TEXT = """
@T.prim_func
def main(A: T.Buffer((64,), "{kind}"), B: T.Buffer((64,), "{kind}"), C: T.Buffer((64,), "float32")):
    t = T.allocate([64], "{kind}", "global")
    t_1 = T.Buffer((64,), "{kind}", data=t)
    for i in range(64):
        t_1[i] = T.max(A[i] * A[i], {kind_call}(0.5)) - T.Cast("{kind}", C[i])
    for i in range(64):
        x: T.{kind_var} = t_1[i]
        B[i] = T.if_then_else(A[i] < {kind_call}(0.25), T.exp(x), t_1[63 - i])
        C[i] = T.Cast("float32", x)
"""


def program(kind):
    return from_source(TEXT.format(kind=kind, kind_call=f"T.{kind}", kind_var=kind))


def arrays(kind):
    rng = np.random.default_rng(5)
    a = rng.random(64).astype("float32").astype(kind)
    return [a, np.zeros(64, kind), rng.random(64).astype("float32")]


@pytest.mark.parametrize(
    ("kind", "dtype", "made"),
    [
        ("bfloat16", ml_dtypes.bfloat16, tt.BF16ComputeLegalize()),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, tt.FP8ComputeLegalize()),
        ("float8_e5m2", ml_dtypes.float8_e5m2, tt.FP8ComputeLegalize()),
    ],
)
def test_compute(kind, dtype, made):
    func = program(kind)
    after = made(IRModule({"main": func}))["main"]
    ta.verify_well_formed(after)
    assert "T.Cast" in after.script()
    before, wide = arrays(dtype), arrays(dtype)
    run(func, before)
    run(after, wide)
    step = float(ml_dtypes.finfo(dtype).eps)
    for x, y in zip(before, wide, strict=True):
        np.testing.assert_allclose(x.astype("f4"), y.astype("f4"), rtol=2 * step, atol=2 * step)


def test_storage():
    func = program("bfloat16")
    wide = tt.BF16ComputeLegalize()(IRModule({"main": func}))
    bits = tt.BF16StorageLegalize()(wide)["main"]
    ta.verify_well_formed(bits)
    assert "bfloat16" not in bits.script()
    a, b, c = arrays(ml_dtypes.bfloat16)
    raw = [a.view("uint16"), np.zeros(64, "uint16"), c.copy()]
    run(wide["main"], [a, b, c])
    run(bits, raw)
    np.testing.assert_array_equal(raw[1], b.view("uint16"))
    np.testing.assert_array_equal(raw[2], c)


def test_rounding():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "bfloat16")):
    for i in range(8):
        B[i] = T.Cast("bfloat16", A[i])
"""
    func = tt.BF16StorageLegalize()(IRModule({"main": from_source(text)}))["main"]
    bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x80000001, 0]
    a = np.array(bits, "uint32").view("float32")
    a[7] = np.nan
    b = np.zeros(8, "uint16")
    run(func, [a, b])
    np.testing.assert_array_equal(b, a.astype(ml_dtypes.bfloat16).view("uint16"))
