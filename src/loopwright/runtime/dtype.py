"""Type names between three worlds: dtype strings, DLPack's (code, bits, lanes), numpy."""

from __future__ import annotations

import re
from functools import cache
from math import prod

import ml_dtypes  # noqa: F401 (numpy then knows its types by name)
import numpy as np

_CODES = {"int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat": 4, "complex": 5}
# Types whose name does not end in their width.
_NAMED = {
    "bool": (6, 8),
    "float8_e3m4": (7, 8),
    "float8_e4m3": (8, 8),
    "float8_e4m3b11fnuz": (9, 8),
    "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8),
    "float8_e5m2": (12, 8),
    "float8_e5m2fnuz": (13, 8),
    "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6),
    "float4_e2m1fn": (17, 4),
}
_BY_CODE = {code: name for name, (code, _) in _NAMED.items()}
_PREFIXES = {code: name for name, code in _CODES.items()}
_PATTERN = re.compile(r"^([a-z]+)(\d+)$")
_CUSTOM = re.compile(r"^custom\[\w+\](\d+)")  # a type of one's own: passed as its bits


@cache
def dl_dtype(dtype: str) -> tuple[int, int, int]:
    """DLPack's (code, bits, lanes) of a dtype string, e.g. `float32` or `int8x4`."""
    dtype = "bfloat16" if dtype == "bfloat" else _CUSTOM.sub(r"uint\1", dtype)
    whole = dtype in _NAMED or dtype in ("complex64", "complex128")
    base, _, lanes = (dtype, "", "") if whole else dtype.partition("x")
    if base in _NAMED:
        code, bits = _NAMED[base]
        return code, bits, int(lanes or 1)
    match = _PATTERN.match(base)
    if base == "handle":
        return 3, 64, int(lanes or 1)
    if match is None or match[1] not in _CODES or (lanes and not lanes.isdigit()):
        raise ValueError(f"unknown dtype {dtype!r}; expected a name such as float32, int64 or bool")
    return _CODES[match[1]], int(match[2]), int(lanes or 1)


@cache
def dtype_name(code: int, bits: int, lanes: int = 1) -> str:
    """The dtype string of DLPack's (code, bits, lanes)."""
    name = _BY_CODE.get(code) or f"{_PREFIXES[code]}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


@cache
def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of a dtype string; ml_dtypes serves bfloat16, float8 and int4."""
    dtype = "bfloat16" if dtype == "bfloat" else _CUSTOM.sub(r"uint\1", dtype)
    try:
        return np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype {dtype!r} has no numpy type, so no tensor can hold it") from None


@cache
def item_bytes(dtype: str) -> int:
    """Bytes of an element, of all lanes of a vector; 1 of what shares a byte with others."""
    _, bits, lanes = dl_dtype(dtype)
    return max(bits // 8, 1) * lanes


@cache
def is_native(dtype: np.dtype) -> bool:
    """Whether numpy itself (not ml_dtypes) defines the type, so that its DLPack export knows it."""
    return dtype.kind in "biufc" and dtype.type.__module__ == "numpy"


@cache
def is_packed(kind: np.dtype) -> bool:
    """Whether elements of an array's type share bytes in a tensor. (numpy takes 2 us for its name.)"""
    return elements_per_byte(kind.name) > 1


@cache
def elements_per_byte(dtype: str) -> int:
    """How many elements share a byte of memory: 2 for int4 and uint4, 1 for most types.

    The first element is in the lowest bits, as in DLPack. Floats below 8 bits take a byte each.
    """
    match = _PATTERN.match(dtype)
    if match is None or match[1] not in ("int", "uint"):
        return 1
    bits = int(match[2])
    if bits < 8 and bits not in (1, 2, 4):
        raise ValueError(f"unknown dtype {dtype!r}; integers below 8 bits have 1, 2 or 4")
    return max(1, 8 // bits)


def pack_bits(array: np.ndarray, dtype: str) -> np.ndarray:
    """The bytes of integers below 8 bits, in row-major order; values that do not fit wrap around."""
    per = elements_per_byte(dtype)
    bits = 8 // per
    flat = np.ascontiguousarray(array).astype(np.int8, copy=False).view(np.uint8).reshape(-1)
    room = np.zeros(-(-flat.size // per) * per, np.uint8)
    room[: flat.size] = flat & (1 << bits) - 1
    lanes = room.reshape(-1, per) << np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(lanes, axis=1, dtype=np.uint8)


def unpack_bits(data: np.ndarray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """`pack_bits` back: int8 or uint8 values of that shape."""
    per, count = elements_per_byte(dtype), prod(shape)
    bits = 8 // per
    lanes = data[: -(-count // per), None] >> np.arange(0, 8, bits, dtype=np.uint8)
    flat = (lanes << np.uint8(8 - bits)).reshape(-1)[:count]  # the sign bit on top
    values = flat.view(np.int8) if dtype.startswith("int") else flat
    return (values >> (8 - bits)).reshape(shape)
