"""The table of data types."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from loopwright.ir.dtype import DataType, numpy_dtype


@pytest.mark.parametrize(
    ("text", "code", "bits", "lanes", "itemsize"),
    [
        ("bool", "bool", 8, 1, 1),
        ("int4", "int", 4, 1, 1),
        ("int8", "int", 8, 1, 1),
        ("uint64", "uint", 64, 1, 8),
        ("float16", "float", 16, 1, 2),
        ("float32x4", "float", 32, 4, 16),
        ("bfloat16", "bfloat", 16, 1, 2),
        ("float8_e4m3fn", "float8", 8, 1, 1),
        ("float8_e5m2x16", "float8", 8, 16, 16),
        ("float4_e2m1fn", "float4", 4, 1, 1),
        ("handle", "handle", 64, 1, 8),
        ("void", "handle", 0, 1, 0),
    ],
)
def test_parts(text, code, bits, lanes, itemsize):
    dtype = DataType(text)
    assert dtype == text
    assert (dtype.code, dtype.bits, dtype.lanes, dtype.itemsize) == (code, bits, lanes, itemsize)
    assert DataType(text) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert dtype.element.lanes == 1
    assert dtype.element.with_lanes(lanes) is dtype


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("int", "int32"),
        ("float", "float32"),
        ("", "void"),
        (bool, "bool"),
        (int, "int32"),
        (float, "float32"),
        (np.int8, "int8"),
        (np.dtype("float64"), "float64"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.float8_e5m2), "float8_e5m2"),
    ],
)
def test_other_spellings(given, expected):
    assert DataType(given) is DataType(expected)


def test_kinds():
    assert DataType("bool").is_integer
    assert not DataType("bool").is_int
    assert DataType("uint8").is_uint
    assert DataType("bfloat16").is_float
    assert DataType("float8_e4m3fn").is_float
    assert DataType("float8").is_float
    assert DataType("float8").bits == 8
    assert DataType("handle").is_handle
    assert DataType("void").is_void
    assert not DataType("handle").is_void


@pytest.mark.parametrize("text", ["int7", "float31", "foo", "int32x0", "float32x", "floatx4x4"])
def test_unknown(text):
    with pytest.raises(ValueError) as error:
        DataType(text)
    assert str(error.value) == (
        f"unknown data type\n  got: {text!r}\n  instead: use one of int8..int64, uint8..uint64, "
        "float16/32/64, bfloat16, float8_*, bool, handle, with xN lanes"
    )


def test_numpy():
    assert numpy_dtype("float32x8") == np.float32
    assert numpy_dtype("bfloat16") == ml_dtypes.bfloat16
    assert numpy_dtype("int4") == np.int8
    assert numpy_dtype("uint4") == np.uint8
    assert DataType("bool").numpy() == np.bool_
    with pytest.raises(ValueError, match="no numpy dtype holds this type\n  got: handle"):
        numpy_dtype("handle")
    for name in ("void", "float8"):
        with pytest.raises(ValueError, match="no numpy dtype"):
            numpy_dtype(name)


def test_unhashable_things_are_refused():
    with pytest.raises((ValueError, TypeError)):
        DataType(["float32"])
