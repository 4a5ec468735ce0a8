"""Arithmetic in compiled code: each type, as scalars and as vectors, against the interpreter."""

from __future__ import annotations

import platform

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.dtype import DataType, numpy_dtype
from loopwright.tir.transform.lower.lower_scalar_ops import MARK

from .emitted import agree, apply, compiled, elementwise, padded, program

pytestmark = pytest.mark.no_roundtrip  # many modules, all of one form

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]
FLOAT8 += ["float8_e4m3b11fnuz", "float8_e4m3", "float8_e3m4"]


def pairs(dtype):
    """Every pair of some interesting integers."""
    info = np.iinfo(dtype)
    some = [0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1]
    some += [-1, -2, -3, -100] if info.min else [info.max // 2]
    grid = np.array([(a, b) for a in some for b in some], dtype)
    return padded(grid[:, 0], dtype), padded(grid[:, 1], dtype)


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mixed": lambda a, b: (a + b) * a - b * b,
    "min": tir.min,
    "max": tir.max,
    "eq": lambda a, b: tir.EQ(a, b),
    "ne": lambda a, b: tir.NE(a, b),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "select": lambda a, b: tir.Select(a < b, a, b * b),
    "let": lambda a, b: _let(a * b, a.dtype),
    "broadcast_literal": lambda a, b: a * tir.const(3, a.dtype) + tir.const(1, a.dtype),
}


def _let(value, dtype):
    var = tir.Var("v", dtype)
    return tir.Let(var, value, var * var + var)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integer_arithmetic_wraps_around(dtype):
    fns = dict(ARITHMETIC)
    if dtype not in ("int32", "int64"):  # there the simplifier takes sums not to overflow
        fns["overflowing_compare"] = lambda a, b: (a + b) > b
    apply(fns, *pairs(dtype))


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_division_of_all_signs(dtype):
    a, b = pairs(dtype)
    keep = padded(np.where(b == 0, 1, b), dtype)
    fns = {
        "floordiv": tir.floordiv,
        "floormod": tir.floormod,
        "truncdiv": tir.truncdiv,
        "truncmod": tir.truncmod,
    }
    for by in (1, 3, 7, 8, 64, -1, -3, -8):
        if by > 0 or np.iinfo(dtype).min:
            for name in list(fns)[:4]:
                fn = fns[name]
                fns[f"{name}_by_{by}".replace("-", "m")] = lambda a, b, fn=fn, by=by: fn(
                    a, tir.const(by, a.dtype)
                )
    apply(fns, a, keep)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
def test_division_by_zero_gives_zero_and_does_not_stop_the_process(dtype):
    from .emitted import compiled, elementwise

    a = padded([5, 0, np.iinfo(dtype).min, 7], dtype)
    zero, got = np.zeros_like(a), np.ones_like(a)
    fns = (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod)
    made = compiled(
        {
            f"f{k}_{lanes}": elementwise(fn, dtype, dtype, lanes=lanes)
            for k, fn in enumerate(fns)
            for lanes in (1, 8)
        }
    )
    for native in made.values():
        got[...] = 1
        native(a, zero, got)
        np.testing.assert_array_equal(got, zero)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_bits_and_shifts(dtype):
    a, b = pairs(dtype)
    bits = np.iinfo(dtype).bits
    steps = padded(np.arange(a.size) % bits, dtype)
    apply(
        {
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "not": lambda a, b: ~a,
            "popcount": lambda a, b: tir.popcount(a),
            "clz": lambda a, b: tir.clz(a),
        },
        a,
        b,
    )
    shifts = {"left": lambda a, b: a << b, "right": lambda a, b: a >> b}
    shifts["left3"] = lambda a, b: a << tir.const(3, a.dtype)
    shifts["right3"] = lambda a, b: a >> tir.const(3, a.dtype)
    apply(shifts, a, steps)
    far = padded(np.full(a.size, bits + 1), dtype)
    apply({"left": shifts["left"], "right": shifts["right"]}, a, far)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2"])
def test_integers_below_a_byte_are_packed(dtype):
    kind = DataType(dtype)
    low = -(1 << kind.bits - 1) if kind.is_int else 0
    values = np.arange(low, low + (1 << kind.bits))
    a = padded(np.repeat(values, len(values)), dtype)
    b = padded(np.tile(values, len(values)), dtype)
    fns = {name: ARITHMETIC[name] for name in ("add", "sub", "mul", "min", "max", "lt", "eq")}
    apply(fns, a, b, dtypes=[dtype, dtype])
    apply({"wide": lambda a, b: a.astype("int32") * b.astype("int32")}, a, b, dtypes=[dtype] * 2)


def test_bool():
    a, b = padded([True, True, False, False], "bool"), padded([True, False, True, False], "bool")
    apply(
        {
            "and": tir.And,
            "or": tir.Or,
            "not": lambda a, b: tir.Not(a),
            "eq": lambda a, b: tir.EQ(a, b),
            "lt": lambda a, b: a < b,
            "min": tir.Min,
            "max": tir.Max,
            "bits": lambda a, b: a & b,
            "xor": lambda a, b: a ^ b,
            "invert": lambda a, b: ~a,
            "as_int": lambda a, b: a.astype("int32") + b.astype("int32"),
            "as_float": lambda a, b: a.astype("float32"),
            "select": lambda a, b: tir.Select(a, b, tir.Not(b)),
        },
        a,
        b,
    )


SPECIAL = [0.0, -0.0, 1.0, -1.5, 0.25, 3.0, np.inf, -np.inf, np.nan, 100.0]


def float_pairs(dtype):
    grid = np.array([(a, b) for a in SPECIAL for b in SPECIAL])
    return padded(grid[:, 0], dtype), padded(grid[:, 1], dtype)


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", FLOATS + FLOAT8)
def test_float_arithmetic_and_comparisons_with_nan_and_infinity(dtype):
    fns = {k: ARITHMETIC[k] for k in ("add", "sub", "mul", "min", "max", "eq", "ne", "lt", "le")}
    fns |= {k: ARITHMETIC[k] for k in ("gt", "ge", "select")}
    fns["div"] = tir.div
    fns["truncmod"] = lambda a, b: tir.Mod(a, b)
    fns["isnan"] = lambda a, b: tir.isnan(a)
    fns["isinf"] = lambda a, b: tir.isinf(a * b)
    fns["min_literal"] = lambda a, b: tir.min(a, tir.const(2.0, a.dtype))
    fns["max_literal"] = lambda a, b: tir.max(tir.const(0.0, a.dtype), a)
    rtol = 0.0 if DataType(dtype).bits < 32 else 1e-7
    apply(fns, *float_pairs(dtype), rtol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_nan_wins_in_min_and_max(dtype):
    nan = np.nan
    a, b = (
        padded([nan, 1, 2, nan, 3, 4, nan, 0], dtype),
        padded([1, nan, 1, nan, 4, 3, 0, 5], dtype),
    )
    got = apply({"min": tir.min, "max": tir.max}, a, b)
    np.testing.assert_array_equal(got["max"].astype("float32"), [nan, nan, 2, nan, 4, 4, nan, 5])
    np.testing.assert_array_equal(got["min"].astype("float32"), [nan, nan, 1, nan, 3, 3, nan, 0])


ALL = ["bool", "int4", "uint4", *SIGNED, *UNSIGNED, *FLOATS, *FLOAT8]


@pytest.mark.sample(6)
@pytest.mark.parametrize("source", ALL)
def test_casts_to_every_type(source):
    kind = DataType(source)
    if kind.is_float:
        values = np.array([*SPECIAL, 2.5, -2.5, 7.9, -7.9, 0.3, 1e3, -448, 480, 1e-3])
    elif kind.is_bool:
        values = np.array([True, False])
    else:
        values = np.array([0, 1, 2, 5, 7, -1 if kind.is_int else 3, -7 if kind.is_int else 6])
    a = padded(values, source)
    fns = {t: lambda a, t=t: tir.Cast(DataType(t).with_lanes(a.dtype.lanes), a) for t in ALL}
    apply(fns, a, dtypes=[source])


@pytest.mark.parametrize("target", FLOATS[:2] + FLOAT8)
def test_rounding_to_small_floats_is_that_of_ml_dtypes(target):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**32, 60_000, dtype=np.uint32)
    near = rng.normal(size=60_000).astype("float32") * 2.0 ** rng.integers(-20, 12, 60_000)
    x = padded(np.concatenate([bits.view("float32"), near.astype("float32")]), "float32")
    from .emitted import compiled, elementwise, same

    native = compiled({"f": elementwise(lambda a: a.astype(target), "float32")})["f"]
    got = np.zeros(x.size, numpy_dtype(target))
    native(x, got)
    with np.errstate(all="ignore"):
        want = x.astype(numpy_dtype(target))
    same(got, want)


@pytest.mark.parametrize("source", ["bfloat16", *FLOAT8, "float8_e8m0fnu"])
def test_every_small_float_widens_exactly(source):
    kind = numpy_dtype(source)
    codes = np.arange(1 << 8 * kind.itemsize, dtype=f"u{kind.itemsize}").view(kind)
    from .emitted import compiled, elementwise

    native = compiled({"f": elementwise(lambda a: a.astype("float32"), source)})["f"]
    got = np.zeros(codes.size, "float32")
    native(codes, got)
    np.testing.assert_array_equal(got, codes.astype("float32"))


def test_float64_to_float16_rounds_once():
    rng = np.random.default_rng(3)
    x = rng.normal(size=4000) * 2.0 ** rng.integers(-26, 17, 4000)
    half = rng.integers(0, 0x7C00, 4000).astype("uint16").view("float16").astype("float64")
    after = np.nextafter(half.astype("float16"), np.float16(np.inf)).astype("float64")
    ties = (half + after) / 2
    x = padded(np.concatenate([x, ties, np.nextafter(ties, 0), np.nextafter(ties, 1e9)]), "float64")
    got = apply({"half": lambda a: a.astype("float16")}, x)["half"]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, x.astype("float16"))


@pytest.mark.parametrize("target", SIGNED + UNSIGNED)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_floats_that_do_not_fit_an_integer_are_no_poison(source, target):
    info = np.iinfo(target)
    values = [np.nan, np.inf, -np.inf, 1e30, -1e30, 4e9, -4e9, 1e19, 127.9, 128, 255.9, 256, -1.0]
    values += [float(info.max) / 2, float(info.min), 65504.0, 2.0**31, 2.0**63]
    if source != "float16":
        apply({"cut": lambda a: a.astype(target)}, padded(values, source))
    else:
        apply({"cut": lambda a: a.astype(target)}, padded(values, source))


def test_operations_of_a_pass_that_runs_last():
    fns = {"floor": tir.floordiv, "max": tir.max, "not": lambda a, b: ~(a + b), "inf": _is_inf}
    for name, dtype in (
        ("floor", "int32"),
        ("max", "float32"),
        ("not", "int8"),
        ("inf", "float32"),
    ):
        a = padded([0, -1, 7, 100, -100, 3], dtype)
        func = elementwise(fns[name], dtype, dtype, lanes=1).with_attr(MARK, True)
        agree(func, a, a[::-1].copy(), np.zeros(a.size, numpy_dtype(func.buffers[-1].dtype)))


def _is_inf(a, b):
    return tir.isinf(a / b)


def test_reinterpret():
    x = padded([1.0, -2.5, np.inf, 0.0, 3e-40], "float32")
    apply({"bits": lambda a: tir.reinterpret(DataType("int32").with_lanes(a.dtype.lanes), a)}, x)


@pytest.mark.parametrize("lanes", [1, 8])
def test_products_of_integers_are_rounded_before_a_sum(lanes):
    """Dequantization: with one rounding less, the next quantization gives another step."""
    func = elementwise(
        lambda a, b, c: a.astype(b.dtype) * b + c, "int32", "float32", "float32", lanes=lanes
    )
    rng = np.random.default_rng(0)
    numbers = padded(rng.integers(-(2**23), 2**23, 256), "int32")
    scale, bias = (padded(rng.normal(size=256), "float32") for _ in range(2))
    got = np.zeros(256, "float32")
    compiled({"f": func})["f"](numbers, scale, bias, got)
    np.testing.assert_array_equal(got, numbers.astype("float32") * scale + bias)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names an instruction of x86")
def test_a_maximum_is_one_instruction_and_a_test_for_nan():
    made = program({"f": elementwise(tir.max, "float32", "float32")})
    text = "".join(made.assembly(name) for name in made.texts)
    assert "maxps" in text and "cmpunord" in text and "cmplt" not in text


def test_a_difference_of_equal_products_is_zero():
    func = elementwise(lambda a, b: tir.erf(a) * b - tir.erf(a) * b, "float32", "float32")
    a, b = np.random.default_rng(0).random((2, 64), np.float32)
    out = np.ones(64, np.float32)
    compiled({"f": func})["f"](a, b, out)
    assert not out.any()


def test_a_pointer_is_a_number():
    a, b = tir.decl_buffer((4,), "float32"), tir.decl_buffer((1,), "uint64")
    store = tir.BufferStore(b, tir.Cast("uint64", a.data), [0])
    func = tir.PrimFunc(
        [p := tir.Var("p", "handle"), q := tir.Var("q", "handle")], store, buffer_map={p: a, q: b}
    )
    got = np.zeros(1, "uint64")
    compiled({"f": func})["f"](np.zeros(4, "float32"), got)
    assert got[0] > 4096
