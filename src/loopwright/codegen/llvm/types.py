"""LLVM spellings of types and literals.

Registers hold bool as i1, int4 as i4, and the floats that not all LLVM targets compute with
(bfloat16, float8, float6, float4: "soft" floats) as an integer with their bits, and so complex numbers. In memory, a bool
or a float below 8 bits takes a byte; buffers of int4 were packed into bytes by
`Int4StorageLegalize`.
"""

from __future__ import annotations

import re
import struct

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType, numpy_dtype

_FLOATS = {"float16": "half", "float32": "float", "float64": "double"}
_TAGS = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}
_SCALARS: dict[str, str] = {}
_TYPES: dict[str, str] = {}
_MEMORY: dict[str, str] = {}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.$-]+")


def is_soft(dtype: DataType) -> bool:
    """Whether a float is computed in float32."""
    return dtype.is_float and dtype.base not in _FLOATS


def scalar_type(dtype: DataType) -> str:
    """LLVM's type of one lane held in a register."""
    text = _SCALARS.get(dtype.base)
    if text is None:
        text = _SCALARS[dtype.base] = _scalar_type(dtype)
    return text


def _scalar_type(dtype: DataType) -> str:
    if dtype.is_bool:
        return "i1"
    if dtype.is_handle:
        return "void" if dtype.is_void else "ptr"
    if dtype.is_float:
        return _FLOATS.get(dtype.base) or f"i{dtype.lane_bytes * 8}"
    return f"i{dtype.bits}"


def llvm_type(dtype: DataType) -> str:
    """LLVM's type of a value, vectors included."""
    text = _TYPES.get(dtype)
    if text is None:
        if dtype.is_scalable:
            what = "this code generator has no vectors whose length is known at run time"
            raise LoopwrightError(explain(what, got=dtype, instead="use a fixed number of lanes"))
        text = _TYPES[dtype] = vector_of(scalar_type(dtype), dtype.lanes)
    return text


def memory_type(dtype: DataType) -> str:
    """LLVM's type of one value in memory (a single int4 takes a byte; in buffers they are
    packed)."""
    text = _MEMORY.get(dtype.base)
    if text is None:
        small = dtype.is_bool or (dtype.is_integer and dtype.bits < 8)
        text = _MEMORY[dtype.base] = "i8" if small else scalar_type(dtype)
    return text


def vector_of(base: str, lanes: int) -> str:
    """`<lanes x base>`, or base for one lane."""
    return base if lanes == 1 else f"<{lanes} x {base}>"


def flag_type(dtype: DataType) -> str:
    """The type of the result of comparing such values."""
    return vector_of("i1", dtype.lanes)


def wrap(value: int, dtype: DataType) -> int:
    """An integer wrapped to its type (two's complement)."""
    value &= (1 << dtype.bits) - 1
    if dtype.is_int and value >> (dtype.bits - 1):
        value -= 1 << dtype.bits
    return value


def literal(value: float, dtype: DataType) -> str:
    """A literal of a scalar type."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(wrap(int(value), dtype))
    if dtype.base == "float64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.base == "float32":
            rounded = float(np.float32(value))
            return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
        if dtype.base == "float16":
            return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
        if dtype.is_float:
            return str(bits_of(value, dtype))
        if dtype.code == "complex":
            real, imaginary = np.asarray(value, dtype.base).reshape(1).view(f"u{dtype.bits // 16}")
            return str(int(real) | int(imaginary) << dtype.bits // 2)
    raise LoopwrightError(explain("no LLVM literal for this type", got=str(dtype)))


def bits_of(value: float, dtype: DataType) -> int:
    """The bits of a value of a soft float type."""
    array = np.asarray(value, np.float32).astype(numpy_dtype(dtype.element))
    return int(array.view(f"u{array.itemsize}"))


def mangle(dtype: DataType) -> str:
    """The suffix of an overloaded intrinsic: f32, v16f32, i64."""
    return tag(scalar_type(dtype), dtype.lanes)


def tag(base: str, lanes: int) -> str:
    """The overload suffix for `lanes` of an LLVM scalar type."""
    base = _TAGS.get(base, base)
    return base if lanes == 1 else f"v{lanes}{base}"


def global_name(name: str) -> str:
    """A global name quoted as LLVM requires, without the @."""
    if _PLAIN_NAME.fullmatch(name):
        return name
    escaped = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else _hex(c) for c in name)
    return f'"{escaped}"'


def _hex(char: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in char.encode())


def symbol(name: str) -> str:
    """The symbol of the function `name`; cannot collide with a C function."""
    return global_name(f"lw.{name}")
