"""The table of data types."""

from __future__ import annotations

import pickle

import ml_dtypes
import numpy as np
import pytest

from loopwright.ir.dtype import CUSTOM_TYPES, DataType, numpy_dtype


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


# The names and codes of dlpack.h (version 1.1), and the widths that follow a name of integers.
CODES = """int=0 uint=1 float=2 handle=3 bfloat16=4 complex=5 bool=6 float8_e3m4=7 float8_e4m3=8
    float8_e4m3b11fnuz=9 float8_e4m3fn=10 float8_e4m3fnuz=11 float8_e5m2=12 float8_e5m2fnuz=13
    float8_e8m0fnu=14 float6_e2m3fn=15 float6_e3m2fn=16 float4_e2m1fn=17"""
WIDTHS = {
    "int": [2, 4, 8, 16, 32, 64, 128], "uint": [2, 4, 8, 16, 32, 64, 128],
    "float": [16, 32, 64], "complex": [64, 128],
}  # fmt: skip


def test_codes_and_widths_of_dlpack():
    for name, code in (part.split("=") for part in CODES.split()):
        for bits in WIDTHS.get(name, [None]):
            dtype = DataType(f"{name}{bits or ''}")
            assert dtype.type_code == int(code)
            assert bits is None or dtype.bits == bits
            assert dtype.is_float is (name.startswith(("float", "bfloat")))
            assert dtype.lane_bytes == (dtype.bits + 7) // 8
    sizes = {name: DataType(name).bits for name in ("bool", "bfloat16", "handle", "void")}
    assert sizes == {"bool": 8, "bfloat16": 16, "handle": 64, "void": 0}
    small = ("float8_e8m0fnu", "float6_e3m2fn", "float4_e2m1fn")
    assert [DataType(name).bits for name in small] == [8, 6, 4]
    assert DataType("int1").bits == 1 and DataType("uint1") is DataType("bool")


def test_lanes():
    four, scalable = DataType("int16x4"), DataType("int16xvscalex4")
    assert (four.lanes, four.itemsize, four.is_scalable, four.element) == (4, 8, False, "int16")
    assert (scalable.lanes, scalable.is_scalable, scalable.lane_bytes) == (4, True, 2)
    assert [DataType(t).itemsize for t in ("int4x2", "int4x3", "float6_e2m3fnx4")] == [1, 2, 3]
    assert DataType("int8x1") is DataType("int8") is DataType("int8x4").with_lanes(1)
    assert DataType("int8").like(four) == "int8x4"
    assert four.like(DataType("int8")) == "int16"
    assert DataType("int8").like(scalable) == "int8xvscalex4" == DataType("int8").with_vscale(4)
    with pytest.raises(ValueError, match="run time only\n  got: int16xvscalex4"):
        scalable.itemsize
    with pytest.raises(ValueError, match="unknown data type"):
        DataType("int16xvscalex1")
    assert DataType("int16xvscalex2").lanes == 2


def test_types_of_users():
    with pytest.raises(ValueError, match="not registered\n  got: custom.posit.16\n  instead: dat"):
        DataType("custom[posit]16")
    with CUSTOM_TYPES.snapshot():
        CUSTOM_TYPES.register("posit", 131)
        dtype = DataType("custom[posit]16x2")
        assert (dtype.code, dtype.bits, dtype.lanes, dtype.type_code) == ("custom", 16, 2, 1)
        assert numpy_dtype(dtype) == np.uint16 and not dtype.is_float and not dtype.is_integer
        with pytest.raises(ValueError, match="as an unsigned integer\n  got: custom.posit.24\n"):
            DataType("custom[posit]24")


def test_unhashable_things_are_refused():
    with pytest.raises((ValueError, TypeError)):
        DataType(["float32"])
