"""Every intrinsic with a meaning on numbers, compiled, as scalars and as vectors."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import tir
from loopwright.ir.dtype import DataType
from loopwright.ir.op import Op

from .emitted import apply, padded

pytestmark = pytest.mark.no_roundtrip

NAMES = [n.removeprefix("tir.") for n in Op.list_op_names() if n.startswith("tir.")]
NUMBERS = [n for n in NAMES if Op.get(f"tir.{n}").has_attr("numpy")]
INTEGER = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "popcount"}
INTEGER |= {"shift_left", "shift_right"}
BINARY = {"atan2", "nextafter", "hypot", "copysign", "ldexp", "pow", "fmod"}
UNARY = sorted(set(NUMBERS) - INTEGER - BINARY)
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1e-2}
VALUES = [0.5, -0.5, 0.9, -0.3, 0.0, 2.5, -1.5, 1e-3, 3.5, -7.25, 1.0, -1.0, 40.0]
VALUES += [np.inf, -np.inf, np.nan, 1000.0, -1000.0]


def call(name, *args):
    lanes = args[0].dtype.lanes
    dtype = DataType("bool").with_lanes(lanes) if name in ("isnan", "isinf") else args[0].dtype
    return tir.Call(dtype, f"tir.{name}", list(args))


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_unary(dtype):
    fns = {name: lambda a, name=name: call(name, a) for name in UNARY}
    apply(fns, padded(VALUES, dtype), rtol=TOLERANCE[dtype], atol=2e-7)


@pytest.mark.parametrize("dtype", sorted(TOLERANCE))
def test_binary(dtype):
    grid = np.array([(a, b) for a in VALUES[:14] for b in VALUES])
    a, b = padded(grid[:, 0], dtype), padded(grid[:, 1], dtype)
    names = ["atan2", "hypot", "copysign", "fmod", "pow"]
    fns = {name: lambda a, b, name=name: call(name, a, b) for name in names}
    tolerance = TOLERANCE[dtype] * (1 if dtype != "float16" else 2)
    apply(fns, a, b, rtol=tolerance, atol=1e-7)
    apply({"nextafter": lambda a, b: call("nextafter", a, b)}, a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_ldexp(dtype):
    x = padded([1.0, -0.75, 0.0, np.inf, np.nan, 3.0], dtype)
    e = padded([0, 1, -1, 5, -20, 3, 12, -3], "int32")
    fns = {
        "ldexp": lambda a, e: tir.ldexp(a, e),
        "literal": lambda a, e: tir.ldexp(a, tir.const(3, e.dtype)),
        "wide": lambda a, e: tir.ldexp(a, e.astype("int64")),
    }
    apply(fns, x, e, dtypes=[dtype, "int32"])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"])
def test_integer_power(dtype):
    a = padded([0, 1, 2, 3, 5, 7, 10, -3 if dtype[0] == "i" else 11], dtype)
    n = padded([0, 1, 2, 3, 4, 5, 6, 7], dtype)
    apply({"pow": lambda a, b: call("pow", a, b)}, a, n)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
def test_negative_integer_powers_round_toward_zero(dtype):
    """1 / 2 is 0; of 0, which has none, it is 0."""
    low = np.iinfo(dtype).min
    a = np.array([0, 1, -1, -1, 2, -3, low, 7], dtype)
    n = np.array([-1, -5, -1, -2, -1, -3, -2, low], dtype)
    (got,) = apply({"pow": lambda a, b: call("pow", a, b)}, a, n).values()
    assert got.tolist() == [0, 1, -1, 1, 0, 0, 0, 0]


def test_fused_multiply_add():
    a, b, c = (padded(np.random.default_rng(k).normal(size=64), "float64") for k in range(3))
    got = apply({"fma": tir.fma}, a, b, c, rtol=1e-14)["fma"]
    assert got.dtype == np.float64


def test_fixed_point_multiplication():
    x = padded([100, -100, 2**20, -(2**25), 3, 7, 2**30, -1], "int32")
    y = padded([2**30, 2**30, 2**29, 2**30, -(2**30), 2**28, 2**30, 2**30], "int32")
    c = lambda v, t="int32": tir.const(v, t)  # noqa: E731

    def shifted(a, b, s):
        return tir.Call("int32", "tir.q_multiply_shift", [a, b, c(31), c(s)])

    def per_axis(a, b, left, right):
        flags = [c(left, "bool"), c(right, "bool")]
        args = [a, b, c(2), c(3), c(31), *flags]
        return tir.Call("int32", "tir.q_multiply_shift_per_axis", args)

    fns = {f"s{s}".replace("-", "m"): lambda a, b, s=s: shifted(a, b, s) for s in (1, 3, 0, -1)}
    fns |= {f"axis{i}": lambda a, b, i=i: per_axis(a, b, i & 1, i >> 1) for i in range(4)}
    apply(fns, x, y, lanes=(1,))


def test_halves_of_vectors():
    from loopwright.script import tir as T

    from .emitted import agree

    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        B[0:4] = T.vectorhigh("float32x4", A[0:8])
        B[4:8] = T.vectorlow("float32x4", A[0:8])
        A[0:8] = T.vectorcombine("float32x8", B[4:8], B[0:4])

    x = np.arange(8, dtype="float32")
    made = agree(f, x, np.zeros(8, "float32"))
    np.testing.assert_array_equal(made[1], [4, 5, 6, 7, 0, 1, 2, 3])


def test_lane_mask():
    from .emitted import agree

    n = tir.Var("n", "int32")
    out = tir.decl_buffer((8,), "bool", "out")
    mask = tir.Call("boolx8", "tir.get_active_lane_mask", [tir.const(2), n])
    at = tir.Ramp(tir.const(0), tir.const(1), 8)
    func = tir.PrimFunc([out, n], tir.BufferStore(out, mask, [at]))
    (got, _) = agree(func, np.zeros(8, bool), 5)
    np.testing.assert_array_equal(got, [True] * 3 + [False] * 5)


def test_intrinsics_without_meaning_say_so():
    from loopwright.base.errors import LoopwrightError

    from .emitted import compiled, elementwise

    func = elementwise(lambda a: call("exp", a), "int32", lanes=1)
    with pytest.raises(LoopwrightError, match=r"tir\.exp has no LLVM code for int32"):
        compiled({"f": func})
