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


@pytest.mark.parametrize(
    "kind",
    [
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
        *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    ],
)
def test_float8_as_bits(kind):
    """Every code is decoded to its value, and floats are rounded as ml_dtypes rounds them."""
    text = f"""
@T.prim_func
def main(A: T.Buffer((256,), "{kind}"), F: T.Buffer((256,), "float32"), X: T.Buffer((2048,), "float32"), Y: T.Buffer((2048,), "{kind}")):
    for i in range(256):
        F[i] = T.Cast("float32", A[i])
    for i in range(2048):
        Y[i] = T.Cast("{kind}", X[i])
"""
    dtype = getattr(ml_dtypes, kind)
    after = tt.FP8StorageLegalize()(IRModule({"main": from_source(text)}))["main"]
    assert "float8" not in after.script()
    codes, values = np.arange(256, dtype="uint8"), np.zeros(256, "float32")
    every = codes.view(dtype).astype("float32")
    finite = np.sort(every[np.isfinite(every)])
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(2048) * 10.0 ** rng.integers(-5, 4, 2048)).astype("float32")
    x[: len(finite) - 1] = (finite[1:] + finite[:-1]) / 2  # ties
    x[300:307] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e30, -1e-30]
    made = np.zeros(2048, "uint8")
    run(after, [codes, values, x, made])
    np.testing.assert_array_equal(values, every)
    wanted = x.astype(dtype)
    number = ~np.isnan(wanted.astype("float32"))
    np.testing.assert_array_equal(made[number], wanted.view("uint8")[number])
    assert np.isnan(made.view(dtype).astype("float32")[~number]).all()


def test_float8_without_mantissa_has_no_bits():
    text = TEXT.format(kind="float8_e8m0fnu", kind_call="T.float32", kind_var="float8_e8m0fnu")
    text = text.replace("T.max(A[i] * A[i], T.float32(0.5)) -", "").replace("T.exp(x)", "x")
    text = text.replace("A[i] < T.float32(0.25)", "i < 3")
    with pytest.raises(ValueError, match="no storage of this type as bits"):
        tt.FP8StorageLegalize()(IRModule({"main": from_source(text)}))


@pytest.mark.parametrize("escapes", [False, True])
def test_memory_of_the_function_holds_the_wider_type(escapes):
    use = "T.address_of(M[0])" if escapes else "0"
    text = f"""
@T.prim_func
def main(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((4,), "bfloat16")):
    m = T.allocate([4], "bfloat16", "global")
    M = T.Buffer((4,), "bfloat16", data=m)
    T.evaluate({use})
    for i in range(4):
        M[i] = A[i] + A[3 - i]
        B[i] = M[i] * M[i]
"""
    made = tt.BF16ComputeLegalize()(IRModule({"main": from_source(text)}))["main"].script()
    assert ('T.allocate([4], "float32"' in made) != escapes
    assert made.count('T.Cast("bfloat16"') == 1 + escapes


def test_bits_are_read_as_they_are_stored():
    text = """
@T.prim_func
def main(A: T.Buffer((4,), "float8_e5m2"), B: T.Buffer((4,), "uint8")):
    for i in range(4):
        B[i] = T.reinterpret("uint8", A[i])
        A[i] = T.reinterpret("float8_e5m2", B[i])
"""
    made = tt.FP8StorageLegalize()(IRModule({"main": from_source(text)}))["main"].script()
    assert "reinterpret" not in made


@pytest.mark.parametrize(
    ("value", "there"),
    [
        ("T.Let(x * x, where={x: A[1]})", "T.float32()"),
        ("T.bfloat16(1.5)", "B[0] = T.bfloat16(1.5)"),
        (
            'T.reinterpret("bfloat16", T.reinterpret("uint16", A[1] + A[2]) + T.uint16(1))',
            'reinterpret("bfloat16"',
        ),
    ],
)
def test_rare_values(value, there):
    text = f"""
@T.prim_func
def main(A: T.Buffer((4,), "bfloat16"), B: T.Buffer((4,), "bfloat16")):
    x = T.bfloat16()
    B[0] = {value}
"""
    mod = IRModule({"main": from_source(text)})
    made = tt.BF16ComputeLegalize()(mod)["main"]
    assert there in made.script()
    results = []
    for func in (mod["main"], made):
        b = np.zeros(4, ml_dtypes.bfloat16)
        run(func, [np.array([1, 1.5, 0.25, 3], ml_dtypes.bfloat16), b])
        results.append(b[0])
    assert results[0] == results[1] != 0


def test_functions_of_c_give_the_type_that_they_declare():
    text = """
@T.prim_func
def main(B: T.Buffer((4,), "bfloat16")):
    B[0] = T.call_extern("bfloat16", "f", T.int32(1)) + B[1]
"""
    made = tt.BF16ComputeLegalize()(IRModule({"main": from_source(text)}))["main"].script()
    assert 'T.Cast("float32", T.call_extern("bfloat16", "f", 1))' in made
