"""Vector math against numpy's float64 functions: dense over all bit patterns, specials, all widths."""

import ctypes
import math
import platform

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.codegen import elementary
from loopwright.codegen.c.scalar_code import NAMES
from loopwright.codegen.llvm import jit, vecmath
from loopwright.ir.target import Target
from loopwright.tvm.target_info import llvm_get_cpu_features

TYPES = {"float32": ("float", 4), "float64": ("double", 8)}


def build(name: str, dtype: str, lanes: int, cpu: str = "native", scales: bool = False):
    """The function over arrays of a multiple of `lanes` elements."""
    made = vecmath.VecMath(scales=scales)
    symbol = made.require(name, dtype, lanes)
    scalar, width = TYPES[dtype]
    t = scalar if lanes == 1 else f"<{lanes} x {scalar}>"
    arity = made.definitions().split("{")[0].count("%x")
    args = [f"%a{i}" for i in range(arity)]
    loads = "".join(
        f"  %p{i} = getelementptr {scalar}, ptr {a}, i64 %i\n"
        f"  %v{i} = load {t}, ptr %p{i}, align {width}\n"
        for i, a in enumerate(args)
    )
    values = ", ".join(f"{t} %v{i}" for i in range(arity))
    text = f"""{made.text()}
define void @loop({", ".join(f"ptr {a}" for a in args)}, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
{loads}  %r = call {t} @{symbol}({values})
  %q = getelementptr {scalar}, ptr %out, i64 %i
  store {t} %r, ptr %q, align {width}
  %j = add i64 %i, {lanes}
  %more = icmp slt i64 %j, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}}
"""
    library = jit.load_objects([jit.compile_object(text, cpu=cpu, verify=True)], exports=["loop"])
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)

    def run(*arrays):
        full = [np.resize(a, -(-a.size // lanes) * lanes).astype(dtype) for a in arrays]
        out = np.empty_like(full[0])
        if out.size:
            entry(library["loop"])(*(a.ctypes.data for a in full), out.ctypes.data, out.size)
        return out[: arrays[0].size]

    return run


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


REFERENCE = {
    "sigmoid": _sigmoid,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=["float64"]),
    "erfc": np.vectorize(math.erfc, otypes=["float64"]),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "atan2": np.arctan2,
}

SPECIALS = np.array(
    [
        0.0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        2,
        -2,
        3,
        -3,
        1e-45,
        -1e-45,
        1e-39,
        1.17549435e-38,
        3.4e38,
        -3.4e38,
    ]
    + [np.inf, -np.inf, np.nan, 88.7, 88.8, -87.4, -103.9, -104.1, 127.99, 128, -149, -150.5, 1e6]
    + [1.0000001, 0.99999994, 2.5, -2.5, 1e30, 1e10, math.pi, math.pi / 2, 8388609.0, 16777217.0],
    "float32",
)


def expected(name, *args):
    function = REFERENCE.get(name) or getattr(np, name)
    with np.errstate(all="ignore"):
        return function(*(a.astype("float64") for a in args))


def ulps(got, want):
    """Distance in float32 ulps of the exact result; 0 where both are the same special."""
    with np.errstate(all="ignore"):
        rounded = want.astype("float32")
        finite = np.isfinite(rounded)
        unit = np.spacing(np.abs(np.where(finite, rounded, np.float32(1)))).astype("float64")
        error = np.abs(got.astype("float64") - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # A result beyond the largest float may round to either side of overflow.
    return np.where(same & ~finite, 0.0, np.where(np.isnan(error), np.inf, error))


# The oldest 64-bit x86 has no fused multiply-add.
CPUS = ["native"] + ["x86-64"] * (platform.machine() == "x86_64")
SCALED = ["exp", "exp2", "sigmoid", "sinh", "cosh"]
MADE = [(name, cpu, False) for cpu in CPUS for name in elementary.BOUNDS if name != "pow"]
if "avx512f" in llvm_get_cpu_features(Target("llvm -mcpu=native")):
    MADE += [(name, "native", True) for name in SCALED]


@pytest.mark.parametrize(("name", "cpu", "scales"), MADE)
def test_float32_bounds_over_all_exponents(name, cpu, scales):
    bits = np.arange(0, 1 << 32, 16411, dtype="uint64").astype("uint32")
    x = np.concatenate([bits.view("float32"), SPECIALS])
    if name == "erf":
        x = x[::2]  # its reference is slow
    got = build(name, "float32", 16, cpu, scales)(x)
    error = ulps(got, expected(name, x))
    worst = int(error.argmax())
    assert error[worst] <= elementary.BOUNDS[name], f"{name}({x[worst]!r}) = {got[worst]!r}"


@pytest.fixture(scope="module")
def c_functions():
    """y[i] = f(x[i]) for each function, over n floats."""
    n, i = tir.Var("n", "int64"), tir.Var("i", "int64")
    x, y = (tir.decl_buffer((n,), "float32", name) for name in "xy")
    functions = {}
    for name in sorted(NAMES):
        store = tir.BufferStore(y, tir.call_intrin("float32", f"tir.{name}", x[i]), [i])
        loop = tir.For(i, tir.const(0, "int64"), n, tir.ForKind.SERIAL, store)
        functions[name] = tir.PrimFunc([x, y], loop).with_attr("global_symbol", name)
    return lw.compile(lw.IRModule(functions), target="c").build()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_bounds_in_c(c_functions, name):
    bits = np.arange(0, 1 << 32, 65537, dtype="uint64").astype("uint32")
    x = np.concatenate([bits.view("float32"), SPECIALS])
    got = np.empty_like(x)
    c_functions[name](x, got)
    error = ulps(got, expected(name, x))
    worst = int(error.argmax())
    assert error[worst] <= elementary.BOUNDS[name], f"{name}({x[worst]!r}) = {got[worst]!r}"


@pytest.mark.parametrize("name", SCALED if any(scales for *_, scales in MADE) else [])
@pytest.mark.parametrize("lanes", [32, 64])
def test_several_vectors_at_once_give_the_same(name, lanes):
    x = np.arange(0, 1 << 32, 65537, dtype="uint64").astype("uint32").view("float32")[:65536]
    one, many = (build(name, "float32", n, "native", True)(x) for n in (16, lanes))
    np.testing.assert_array_equal(one, many)


@pytest.mark.parametrize("name", [n for n in elementary.BOUNDS if n not in ("pow", "acos", "cosh")])
def test_odd_functions_keep_the_sign_of_zero(name):
    zeros = np.array([0.0, -0.0], "float32")
    got = build(name, "float32", 1)(zeros)
    with np.errstate(all="ignore"):
        want = expected(name, zeros).astype("float32")
    assert got.tobytes() == want.tobytes()


def test_pow_bounds():
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-126, 127, 200_000)).astype("float32")
    y = rng.uniform(-3, 3, x.size).astype("float32")
    y[::4] = rng.uniform(-60, 60, y[::4].size)
    x[::4] = rng.uniform(0.2, 5, x[::4].size)
    y[::7] = np.rint(y[::7])
    x[::7] *= -1
    assert ulps(build("pow", "float32", 16)(x, y), expected("pow", x, y)).max() <= 1.0


def test_pow_special_cases():
    x, y = (a.ravel() for a in np.meshgrid(SPECIALS, SPECIALS))
    got, want = build("pow", "float32", 8)(x, y), expected("pow", x, y)
    bad = ulps(got, want) > 1.0
    assert not bad.any(), list(zip(x[bad], y[bad], got[bad], want[bad]))[:5]
    with np.errstate(all="ignore"):
        zero = want.astype("float32") == 0
    assert (np.signbit(got[zero]) == np.signbit(want[zero])).all()


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 8, 16, 32])
@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log1p", "atan2"])
def test_all_widths_agree(name, lanes):
    args = (SPECIALS, SPECIALS[::-1].copy()) if name == "atan2" else (SPECIALS,)
    one = build(name, "float32", 1)(*args)
    np.testing.assert_array_equal(build(name, "float32", lanes)(*args), one)


@pytest.mark.parametrize("name", sorted({*elementary.BOUNDS, "erfc", "asinh", "atan2", "cbrt"}))
def test_float64(name):
    x = np.random.default_rng(0).uniform(0.01, 0.99, 64)
    args = (x, x[::-1].copy()) if name in ("pow", "atan2") else (x,)
    got = build(name, "float64", 4)(*args)
    np.testing.assert_allclose(got, expected(name, *args), rtol=1e-14)


def test_text_is_written_once_and_only_when_used():
    made = vecmath.VecMath()
    assert made.text() == ""
    symbol = made.require("sin", "float32", 8)
    assert made.require("sin", "float32", 8) == symbol == "lw_sin_f32x8"
    assert made.text().count("define") == 1 and list(made.declarations()) == ["sinf"]
    assert vecmath.require("sin", "float32", 8) == (symbol, made.text())


def test_a_function_with_one_call_is_inlined():
    made = vecmath.VecMath()
    made.require("exp", "float32", 16)
    assert "alwaysinline" in made.definitions()
    made.require("exp", "float32", 16)
    assert "alwaysinline" not in made.definitions()


def test_unknown_functions_are_refused():
    assert not vecmath.supported("gudermannian", "float32")
    with pytest.raises(ValueError, match="no function 'exp' for 4 lanes of 'float16'"):
        vecmath.function("exp", "float16", 4)
    with pytest.raises(ValueError, match="supported, for float32 and float64: acos, acosh"):
        vecmath.function("gudermannian", "float32", 4)
