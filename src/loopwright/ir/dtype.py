"""Data types: `DataType` is a string ("float32", "int8x4", "bool") that knows its parts."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..base.errors import CallValueError, explain
from ..base.registry import Registry

_CODES = {
    "int": "int",
    "uint": "uint",
    "float": "float",
    "bfloat": "bfloat",
    "handle": "handle",
    "bool": "bool",
}
_FLOAT8 = (
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
SMALL_FLOATS = (*_FLOAT8, "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")  # in DLPack's order
_NUMBERS = {
    "int": 0,
    "uint": 1,
    "float": 2,
    "handle": 3,
    "bfloat": 4,
    "complex": 5,
    "bool": 6,
    "float8_e3m4": 7,
}
_NUMBERS["custom"] = _NUMBERS["uint"]  # which it is stored as
_BASIC = {
    "bool": ("bool", 8),
    "handle": ("handle", 64),
    "void": ("handle", 0),
    "": ("handle", 0),
    **{f"int{b}": ("int", b) for b in (1, 2, 4, 8, 16, 32, 64, 128)},
    **{f"uint{b}": ("uint", b) for b in (1, 2, 4, 8, 16, 32, 64, 128)},
    **{f"float{b}": ("float", b) for b in (16, 32, 64)},
    "bfloat16": ("bfloat", 16),
    "complex64": ("complex", 64),
    "complex128": ("complex", 128),
    **dict.fromkeys(_FLOAT8, ("float8", 8)),
    "float8": ("float", 8),  # of no format: a type of parameters that are still to be chosen
    "float4_e2m1fn": ("float4", 4),
    "float6_e2m3fn": ("float6", 6),
    "float6_e3m2fn": ("float6", 6),
}
_ALIASES = {"int": "int32", "uint": "uint32", "float": "float32", "bfloat": "bfloat16"}
_ALIASES["uint1"] = "bool"
_ML_DTYPES = {"bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", *_FLOAT8}
# Types that `datatype.register` made: `custom[name]32`. name -> code
CUSTOM_TYPES: Registry[str, int] = Registry("custom type")
_CUSTOM = re.compile(r"^custom\[(\w+)\](\d+)$")
_LANES = re.compile(r"^(.+?)x(vscalex)?(\d+)$")
_CACHE: dict[str, DataType] = {}


class DataType(str):
    """An interned data type. It is its own text, so `expr.dtype == "float32"` just works.

    `bits` is the width of one lane (bool counts 8, as it is stored in a byte; int4 counts 4),
    `lanes` the vector length, `code` one of int, uint, float, bfloat, float8, float6, float4,
    bool, handle, complex, custom. Complex numbers are moved, not computed with. `void` is handle
    with 0 bits. Where `is_scalable`, a vector has `lanes` times vscale lanes, a factor known at run
    time: "float32xvscalex4".

    >>> kind = lw.DataType("int8x16")
    >>> kind.code, kind.bits, kind.lanes
    ('int', 8, 16)
    """

    __slots__ = (
        "base",
        "bits",
        "code",
        "is_bool",
        "is_float",
        "is_int",
        "is_scalable",
        "is_uint",
        "lanes",
    )

    def __new__(cls, text: Any = "float32") -> DataType:
        if type(text) is DataType:
            return text
        cached = _CACHE.get(text) if isinstance(text, str) else None
        return cached if cached is not None else _make(text)

    def __reduce__(self) -> tuple[Any, ...]:
        return (DataType, (str(self),))

    @property
    def lane_bytes(self) -> int:
        """Bytes of one lane, rounded up."""
        return (self.bits + 7) // 8

    @property
    def itemsize(self) -> int:
        """Bytes of all lanes, rounded up. Raises ValueError where that is known at run time only."""
        if self.is_scalable:
            what = "the size of a scalable vector is known at run time only"
            raise ValueError(explain(what, got=str(self), instead="use lane_bytes"))
        return (self.bits * self.lanes + 7) // 8

    @property
    def type_code(self) -> int:
        """DLPack's number of the kind of type: 0 for int, 1 for uint, 2 for float, ..."""
        if self.base in SMALL_FLOATS:
            return _NUMBERS["float8_e3m4"] + SMALL_FLOATS.index(self.base)
        return _NUMBERS[self.code]

    @property
    def is_handle(self) -> bool:
        return self.code == "handle"

    @property
    def is_void(self) -> bool:
        return self.code == "handle" and self.bits == 0

    @property
    def is_integer(self) -> bool:
        """int, uint or bool."""
        return self.is_int or self.is_uint or self.is_bool

    @property
    def element(self) -> DataType:
        """The same type with one lane."""
        return DataType(self.base)

    def with_lanes(self, lanes: int) -> DataType:
        """The same element type with `lanes` lanes."""
        return DataType(self.base if lanes == 1 else f"{self.base}x{lanes}")

    def with_vscale(self, factor: int) -> DataType:
        """The same element type with `factor` times the machine's number of lanes."""
        return DataType(f"{self.base}xvscalex{factor}")

    def like(self, other: DataType) -> DataType:
        """The same element type with the lanes of `other`."""
        return self.with_vscale(other.lanes) if other.is_scalable else self.with_lanes(other.lanes)

    def numpy(self) -> np.dtype:
        """The numpy dtype of one element (ml_dtypes for bfloat16 and the small floats)."""
        return numpy_dtype(self)


def _make(text: object) -> DataType:
    name = text if isinstance(text, str) else _from_other(text)
    if name in ("void", ""):
        name = "void"
    match = None if name in _BASIC else _LANES.match(name)
    base, lanes = (match[1], int(match[3])) if match else (name, 1)
    scalable = bool(match and match[2])
    base = _ALIASES.get(base, base)
    own = _CUSTOM.match(base)
    if own is not None and own[1] not in CUSTOM_TYPES:
        hint = f'datatype.register("{own[1]}", code) makes it one'
        raise ValueError(explain("this custom type is not registered", got=base, instead=hint))
    if own is not None and own[2] not in ("8", "16", "32", "64"):
        what = "a custom type is stored as an unsigned integer"
        raise ValueError(explain(what, got=base, instead="8, 16, 32 or 64 bits"))
    if (base not in _BASIC and own is None) or lanes < 1 + scalable:
        what = "unknown data type"
        hint = "int8..int64, uint8..uint64, float16/32/64, bfloat16, float8_*, bool, handle"
        hint = f"use one of {hint}, with xN lanes"
        raise CallValueError(explain(what, got=repr(text), instead=hint))
    full = base if lanes == 1 else f"{base}x{'vscalex' * scalable}{lanes}"
    dtype = _CACHE.get(full)
    if dtype is None:
        dtype = str.__new__(DataType, full)
        code, bits = _BASIC[base] if own is None else ("custom", int(own[2]))
        dtype.base, dtype.code, dtype.bits, dtype.lanes = base, code, bits, lanes
        dtype.is_scalable = scalable
        dtype.is_int, dtype.is_uint, dtype.is_bool = code == "int", code == "uint", code == "bool"
        dtype.is_float = code in ("float", "bfloat", "float8", "float6", "float4")
        _CACHE[full] = dtype
    _CACHE[name] = dtype
    if isinstance(text, str):
        _CACHE[text] = dtype
    return dtype


def _from_other(value: Any) -> str:
    if value is bool:
        return "bool"
    if value is int:
        return "int32"
    if value is float:
        return "float32"
    name = getattr(value, "name", None)  # numpy dtype objects, ml_dtypes
    if not isinstance(name, str):
        try:
            name = np.dtype(value).name
        except TypeError:
            name = str(value).removeprefix("torch.")
    return name


def numpy_dtype(dtype: str) -> np.dtype:
    """The numpy dtype that stores one element of `dtype`.

    Arrays have int4, uint4 and similar types one per byte (tensors pack them). Raises ValueError
    for handle and void.
    """
    dtype = DataType(dtype)
    base = dtype.base
    if base in _ML_DTYPES:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, base))
    if base in ("handle", "void", "float8"):
        raise ValueError(explain("no numpy dtype holds this type", got=str(dtype)))
    if dtype.code == "custom":
        return np.dtype(f"uint{dtype.bits}")
    if dtype.is_integer and dtype.bits < 8:
        return np.dtype("int8" if dtype.is_int else "uint8")
    return np.dtype(base)
