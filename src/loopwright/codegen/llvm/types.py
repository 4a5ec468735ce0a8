"""LLVM spellings of types and literals."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType

_FLOATS = {"float16": "half", "float32": "float", "float64": "double", "bfloat16": "bfloat"}


def scalar_type(dtype: DataType) -> str:
    """LLVM's type of one lane held in a register (bool is i1)."""
    if dtype.is_bool:
        return "i1"
    if dtype.is_int or dtype.is_uint:
        return f"i{dtype.bits}"
    if dtype.is_handle:
        return "void" if dtype.is_void else "ptr"
    found = _FLOATS.get(dtype.base)
    if found is None:
        what = "this type has no LLVM code yet"
        raise LoopwrightError(
            explain(what, got=str(dtype), instead="cast it to float16 or float32")
        )
    return found


def llvm_type(dtype: DataType) -> str:
    """LLVM's type of a value, vectors included."""
    base = scalar_type(dtype)
    return base if dtype.lanes == 1 else f"<{dtype.lanes} x {base}>"


def memory_type(dtype: DataType) -> str:
    """LLVM's type of one element in memory: bool and int4 take a byte."""
    if (dtype.is_integer and dtype.bits < 8) or dtype.is_bool:
        return "i8"
    return scalar_type(dtype)


def vector_of(base: str, lanes: int) -> str:
    """`<lanes x base>`, or base for one lane."""
    return base if lanes == 1 else f"<{lanes} x {base}>"


def literal(value: float, dtype: DataType) -> str:
    """A literal of a scalar type."""
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    if dtype.base == "float64":
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if dtype.base == "float32":
        with np.errstate(over="ignore"):
            rounded = float(np.float32(value))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if dtype.base == "float16":
        with np.errstate(over="ignore"):
            return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if dtype.base == "bfloat16":
        return f"0xR{int(np.asarray(value, ml_dtypes.bfloat16).view(np.uint16)):04X}"
    raise LoopwrightError(explain("no LLVM literal for this type", got=str(dtype)))


def mangle(dtype: DataType) -> str:
    """The suffix of an overloaded intrinsic: f32, v16f32, i64."""
    base = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}.get(
        scalar_type(dtype), scalar_type(dtype)
    )
    base = "p0" if base == "ptr" else base
    return base if dtype.lanes == 1 else f"v{dtype.lanes}{base}"
