"""C spellings of types, numbers, texts and names."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

import loopwright
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.c import types
from loopwright.codegen.c.expr import string
from loopwright.codegen.llvm.program import compile_options
from loopwright.ir.dtype import DataType
from loopwright.ir.prim_expr import StringImm
from loopwright.ir.target import Target
from loopwright.script import from_source

LITERALS = [
    ("bool", 1, "true"), ("bool", 0, "false"), ("int8", -128, "(-128)"), ("int8", 255, "(-1)"),
    ("uint8", -1, "255"), ("uint16", 65536, "0"), ("uint32", 7, "7u"), ("uint64", 7, "UINT64_C(7)"),
    ("int32", -(1 << 31), "INT32_MIN"), ("int32", 1 - (1 << 31), "(-2147483647)"),
    ("int64", -(1 << 31), "(INT64_C(-2147483648))"), ("int64", -(1 << 63), "INT64_MIN"),
    ("int64", 32767, "32767"), ("int64", 32768, "INT64_C(32768)"), ("int32", 32768, "32768"),
    ("int64", -32768, "(INT64_C(-32768))"), ("int64", -32767, "(-32767)"), ("int4", 9, "(-7)"),
    ("float32", 0.1, "0.1f"), ("float32", 1, "1.0f"), ("float32", 1e10, "1e+10f"), ("float32", -2.5, "(-2.5f)"),
    ("float32", 16777216, "16777216.0f"), ("float32", 1e39, "INFINITY"), ("float32", -math.inf, "(-INFINITY)"),
    ("float32", math.nan, "NAN"), ("float32", -math.nan, "(-NAN)"), ("float32", -0.0, "(-0.0f)"),
    ("float64", 0.1, "0.1"), ("float64", 1e22, "1e+22"), ("float64", 3, "3.0"), ("float64", math.inf, "HUGE_VAL"),
    ("float64", -math.nan, "(-(double)NAN)"), ("float16", 1, "0x3C00u"), ("bfloat16", -2, "0xC000u"),
    ("float8_e4m3fn", 1, "0x38u"), ("float16", 65520, "0x7C00u"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "value", "text"), LITERALS)
def test_literals(dtype: str, value: float, text: str) -> None:
    assert types.literal(value, DataType(dtype)) == text


def test_floats_read_back_the_same() -> None:
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 500, dtype="uint32")
    for number in bits.view("float32"):
        text = types.real(number)
        assert text.endswith("f") and struct.pack("f", float(text[:-1])) == struct.pack("f", number)
    for number in np.random.default_rng(1).standard_normal(100) * 1e-300:
        assert float(types.real(float(number)).strip("()")) == number


@pytest.mark.parametrize(
    ("dtype", "value", "memory", "wide", "tag", "odd", "small"),
    [
        ("bool", "bool", "uint8_t", "uint32_t", "bool", False, False),
        ("int8", "int8_t", "int8_t", "uint32_t", "i8", False, False),
        ("int4", "int8_t", "int8_t", "uint32_t", "i4", True, False),
        ("uint64", "uint64_t", "uint64_t", "uint64_t", "u64", False, False),
        ("float32", "float", "float", None, "f32", False, False),
        ("float64", "double", "double", None, "f64", False, False),
        ("float16", "uint16_t", "uint16_t", None, "f16", False, True),
        ("bfloat16", "uint16_t", "uint16_t", None, "bf16", False, True),
        ("float8_e5m2", "uint8_t", "uint8_t", None, "f8_e5m2", False, True),
        ("handle", "void*", "void*", None, None, False, False),
        ("void", "void", "void", None, None, False, False),
        ("complex64", "float _Complex", "float _Complex", None, None, False, False),
        ("complex128", "double _Complex", "double _Complex", None, None, False, False),
    ],
)
def test_types(
    dtype: str, value: str, memory: str, wide: Any, tag: Any, odd: bool, small: bool
) -> None:
    kind = DataType(dtype)
    assert (types.c_type(kind), types.memory_type(kind)) == (value, memory)
    assert (types.is_odd(kind), types.is_small(kind)) == (odd, small)
    assert wide is None or types.unsigned(kind) == wide
    assert tag is None or types.tag(kind) == tag


def test_vectors_have_no_type() -> None:
    with pytest.raises(LoopwrightError, match="vectors have no C code\n  got: float32x4"):
        types.c_type(DataType("float32x4"))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (" ~aZ", '" ~aZ"'),
        ('"\\?', '"\\042\\134\\077"'),
        ("\x1f\x7f\n", '"\\037\\177\\012"'),
        ("é", '"\\303\\251"'),
        ("\0", '"\\000"'),
    ],
)
def test_strings(text: str, written: str) -> None:
    assert string(None, StringImm(text)) == written  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("array", "dtype", "packed", "text"),
    [
        (np.zeros(0), "float64", False, "  0"),
        (np.arange(13), "int64", False, "  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,\n  12,"),
        (np.array([-1, 2], "int8"), "int8", False, "  -1, 2,"),
        (np.array([[True], [False]]), "bool", False, "  1, 0,"),
        (np.array([1, 0.5], "float16"), "float16", False, "  15360, 14336,"),
        (np.array([1, 0.1], "float32"), "float32", False, "  1.0f, 0.100000001f,"),
        (np.array([1e30, -2]), "float64", False, "  1e+30, -2.0,"),
        (np.array([1, np.inf], "float32"), "float32", False, "  1.0f, INFINITY,"),
        (np.array([0x21], "uint8"), "int4", True, "  33,"),
    ],
)
def test_elements(array: np.ndarray, dtype: str, packed: bool, text: str) -> None:
    assert types.elements(array, DataType(dtype), packed) == text


def test_headers() -> None:
    found = [types.extern_header(n) for n in ("cosf", "fma", "memcpy", "scale")]
    assert found == ["math.h", "math.h", "string.h", None]


def source(text: str, dtype: str) -> str:
    """The C of `out[i] = text` for i from 0 to 3, `a` an array."""
    body = f"""
@T.prim_func
def main(A: T.Buffer((4,), "{dtype}"), out: T.Buffer((4,), "{dtype}")):
    for i in range(4):
        out[i] = {text}
"""
    return loopwright.compile(from_source(body), "c").source


@pytest.mark.parametrize(("most", "wraps"), [((1 << 31) - 4, False), ((1 << 31) - 3, True)])
def test_sums_that_may_overflow_wrap_around(most: int, wraps: bool) -> None:
    """i is 3 at most."""
    assert ("(uint32_t)i" in source(f"i + {most}", "int32")) == wraps


@pytest.mark.parametrize(
    ("text", "dtype", "written"),
    [
        ("A[i] // 8", "int32", " >> 3)|>> 3;"),
        ("A[i] % 8", "int64", "& 7"),
        ("A[i] // 6", "int32", "lw_floordiv"),
        ("A[i] % 6", "int32", "lw_floormod"),
        ("(i + 5) // 6", "int32", " / 6"),
        ("(i + 5) % 6", "int32", " % 6"),
        ("A[i] // T.uint32(8)", "uint32", "/ 8u"),
        ("T.truncdiv(A[i], 8)", "int32", "/ 8"),
        ("A[i] // A[0]", "int32", "lw_floordiv"),
    ],
)
def test_divisions(text: str, dtype: str, written: str) -> None:
    assert any(part in source(text, dtype) for part in written.split("|"))


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("llvm", (None, None, None)),
        ("llvm -mcpu=native", (None, None, None)),
        ("llvm -mcpu=znver3", (None, "znver3", None)),
        ("llvm -mattr=+avx2,+fma", (None, None, "+avx2,+fma")),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=native", ("aarch64-linux-gnu", None, None)),
        ("llvm -mtriple=aarch64-linux-gnu -mattr=+sve", ("aarch64-linux-gnu", None, "+sve")),
    ],
)
def test_options_of_llvm(target: str, options: tuple[str | None, ...]) -> None:
    assert compile_options(Target(target)) == options


@pytest.mark.parametrize(
    ("dtype", "called"),
    [("float16", "lw_nextafter_f16"), ("float32", "nextafterf"), ("float64", "nextafter")],
)
def test_the_next_float_is_libms_where_c_has_the_type(dtype: str, called: str) -> None:
    a, b = (tir.decl_buffer((2,), dtype, name) for name in "ab")
    body = tir.BufferStore(b, tir.nextafter(a[0], a[1]), [0])
    func = tir.PrimFunc([a, b], body, attrs={"global_symbol": "main"})
    text = loopwright.compile(func, target="c").source
    assert f"  b[0] = {called}(a[0], a[1]);" in text
