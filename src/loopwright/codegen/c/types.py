"""C spellings of types, names and literals.

Values of bool are `bool`, in memory a byte. Floats that C lacks (float16, bfloat16, float8
and smaller) are held as their bits in uint16_t or uint8_t and computed in float. Integers of
other widths are held in the next wider type and truncated after every operation.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype

_WORD = re.compile(r"\w+")
_KEYWORDS = frozenset(
    _WORD.findall(
        """auto break case char const continue default do double else enum extern float for goto if
    inline int long register restrict return short signed sizeof static struct switch typedef
    union unsigned void volatile while bool true false main asm NULL NAN INFINITY errno stdin
    stdout stderr unix linux j0 j1 jn y0 y1 yn gamma"""
    )
)
# Functions of the C library that kernels may call by name, declared by its headers.
MATH_H = frozenset(
    f"{name}{suffix}"
    for name in _WORD.findall(
        """acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ldexp
    log log10 log1p log2 modf cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor
    nearbyint rint lrint llrint round lround llround trunc fmod remainder copysign nextafter
    fdim fmax fmin fma"""
    )
    for suffix in ("", "f")
)
STRING_H = frozenset(("memcpy", "memmove", "memset", "memcmp", "strlen"))


def extern_header(name: str) -> str | None:
    """The header of the C library that declares a function."""
    return "math.h" if name in MATH_H else "string.h" if name in STRING_H else None


def is_small(dtype: DataType) -> bool:
    """Whether a float is held as its bits."""
    return dtype.is_float and dtype.base not in ("float32", "float64")


def storage_bits(dtype: DataType) -> int:
    """The bits of the integer type that holds an integer."""
    return next(b for b in (8, 16, 32, 64) if b >= dtype.bits)


def is_odd(dtype: DataType) -> bool:
    """Whether C has no integer of this width."""
    return dtype.is_integer and not dtype.is_bool and dtype.bits not in (8, 16, 32, 64)


def c_type(dtype: DataType) -> str:
    """The type of a value."""
    if dtype.lanes != 1:
        what = "vectors have no C code"
        hint = "compile with the passes of backend.c, which make vector loops serial"
        raise LoopwrightError(explain(what, got=str(dtype), instead=hint))
    if dtype.is_bool:
        return "bool"
    if dtype.is_handle:
        return "void" if dtype.is_void else "void*"
    if dtype.code == "complex":
        return "float _Complex" if dtype.bits == 64 else "double _Complex"
    if dtype.is_float:
        named = {"float32": "float", "float64": "double"}.get(dtype.base)
        return named or f"uint{dtype.lane_bytes * 8}_t"
    return f"{'' if dtype.is_int else 'u'}int{storage_bits(dtype)}_t"


def memory_type(dtype: DataType) -> str:
    """The type of an element in memory."""
    return "uint8_t" if dtype.is_bool else c_type(dtype)


def unsigned(dtype: DataType) -> str:
    """The unsigned type that an integer wraps around in; at least as wide as int."""
    return f"uint{max(32, storage_bits(dtype))}_t"


def tag(dtype: DataType) -> str:
    """The type's suffix in names of helper functions: i32, u8, f32, bf16."""
    if dtype.is_bool:
        return "bool"
    if dtype.is_integer:
        return f"{'i' if dtype.is_int else 'u'}{dtype.bits}"
    short = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
    return short.get(dtype.base) or dtype.base.replace("float", "f")


def literal(value: float, dtype: DataType) -> str:
    """A literal of a scalar type."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return _integer(int(value), dtype)
    if is_small(dtype):
        return f"0x{bits_of(value, dtype):0{2 * dtype.lane_bytes}X}u"
    if dtype.base in ("float64", "complex128"):
        return real(float(value))
    with np.errstate(over="ignore", invalid="ignore"):
        return real(np.float32(value))


def real(value: Any) -> str:
    """The shortest float (np.float32) or double (float) literal that reads back as the same
    number."""
    single = type(value) is np.float32
    if math.isnan(value):
        name = "NAN" if single else "(double)NAN"
        return f"(-{name})" if math.copysign(1.0, value) < 0 else name
    if math.isinf(value):
        name = "INFINITY" if single else "HUGE_VAL"
        return f"(-{name})" if value < 0 else name
    text = f"{float(value):.9g}" if single else repr(float(value))
    if single and len(short := str(value)) < len(text):
        text = short
    if not re.search(r"[.e]", text):
        text += ".0"
    text += "f" if single else ""
    return f"({text})" if text[0] == "-" else text


def _integer(value: int, dtype: DataType) -> str:
    value &= (1 << dtype.bits) - 1
    if dtype.is_uint:
        return (
            str(value)
            if dtype.bits < 32
            else f"{value}u"
            if dtype.bits == 32
            else f"UINT64_C({value})"
        )
    if value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    if value == -(1 << 63):
        return "INT64_MIN"
    if value == -(1 << 31) and dtype.bits == 32:
        return "INT32_MIN"
    text = str(value) if abs(value) < 1 << 15 or dtype.bits <= 32 else f"INT64_C({value})"
    return f"({text})" if value < 0 else text


def bits_of(value: float, dtype: DataType) -> int:
    """The bits of a value of a float type that is held as its bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.asarray(value, np.float64).astype(np.float32).astype(numpy_dtype(dtype.element))
    return int(array.view(f"u{array.itemsize}"))


def elements(array: np.ndarray, dtype: DataType, packed: bool) -> str:
    """The elements of a constant, several per line."""
    flat = array.reshape(-1)
    if not flat.size:
        return "  0"
    if packed or dtype.is_bool or (dtype.is_float and dtype.base not in ("float32", "float64")):
        texts = list(map(str, flat.view(f"u{flat.itemsize}").tolist()))
    elif dtype.is_float:
        texts = _reals(flat)
    else:
        texts = [literal(v, dtype) for v in flat.tolist()]
        texts = [t[1:-1] if t[0] == "(" else t for t in texts]
    return "\n".join("  " + ", ".join(texts[k : k + 12]) + "," for k in range(0, len(texts), 12))


def _reals(flat: np.ndarray) -> list[str]:
    if not np.isfinite(flat).all():
        return [real(v if flat.dtype == np.float32 else float(v)) for v in flat]
    form, end = ("%.9g", "f") if flat.dtype == np.float32 else ("%.17g", "")
    texts = (form % v for v in flat.tolist())
    return [f"{t if '.' in t or 'e' in t else t + '.0'}{end}" for t in texts]


_LONGEST = 200  # letters of a name that code shows


def identifier(name: str) -> str:
    """A C identifier derived from a name; not a keyword."""
    label = re.sub(r"[^A-Za-z0-9_]", "_", name[:_LONGEST]) or "v"
    if label[0].isdigit() or label[0] == "_":
        label = f"v{label}"
    return f"{label}_" if label in _KEYWORDS or label in MATH_H or label in STRING_H else label


def bare(text: str) -> str:
    """An expression without its outermost parentheses."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for k, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and k < len(text) - 1:
            return text
    return text[1:-1]
