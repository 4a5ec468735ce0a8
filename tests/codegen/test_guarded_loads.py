"""What loads may read: under conditions one pointer is chosen among the data and zeros, without
branches; what lies between elements is read, what lies behind the last is not."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest

import loopwright as lw
from loopwright.script import ir as I
from loopwright.script import tir as T


@I.ir_module
class Padded:
    @T.prim_func
    def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((6, 6), "float32")):
        T.func_attr({"tir.is_scheduled": True})
        for i, j in T.grid(6, 6):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = T.if_then_else(
                    v >= 1 and v < 5,
                    T.if_then_else(w >= 1 and w < 5, A[v - 1, w - 1], T.float32(0)),
                    T.float32(0),
                )


@I.ir_module
class OtherValue:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32"), B: T.Buffer((6,), "float32")):
        T.func_attr({"tir.is_scheduled": True})
        for i in range(6):
            with T.block("B"):
                v = T.axis.spatial(6, i)
                B[v] = T.if_then_else(
                    v >= 1, T.if_then_else(v < 5, A[v - 1], T.float32(7)), T.float32(0)
                )


def test_nested_conditions_that_give_zero_are_one():
    exe = lw.compile(Padded)
    x = np.random.default_rng(0).random((4, 4), "float32")
    out = np.full((6, 6), 9, "float32")
    exe["main"](x, out)
    np.testing.assert_array_equal(out, np.pad(x, 1))
    text = exe.program.text("main")
    assert "@lw.zeros" in text and " phi float" not in text


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
def test_neighbours_share_the_choice(dtype):
    """Of what is before all of them, or of two such places."""
    size = 24

    @T.prim_func
    def padded(a: T.Buffer((4 * size,), dtype), b: T.Buffer((6 * size,), dtype)):
        for i in range(6):
            for c in T.unroll(size):
                b[i * size + c] = T.if_then_else(
                    i >= 1 and i < 5, a[i * size + c - size], T.Cast(dtype, 0)
                )

    exe = lw.compile(padded)
    a, b = np.arange(1, 4 * size + 1).astype(dtype), np.full(6 * size, 9, dtype)
    exe["padded"](a, b)
    np.testing.assert_array_equal(b, np.pad(a, size))
    choices = [line for line in exe.program.text("padded").split("\n") if " select i1 " in line]
    assert len(choices) <= {"int8": 2, "float32": 3, "float64": 4}[dtype]


@pytest.mark.parametrize("seed", range(2))
def test_another_value_is_given_where_it_is_asked_for(seed):
    exe = lw.compile(OtherValue)
    x = np.random.default_rng(seed).random(4, "float32")
    out = np.full(6, 9, "float32")
    exe["main"](x, out)
    np.testing.assert_array_equal(out, [0, *x, 7])


@pytest.mark.parametrize("dtype", ["int8", "float32", "int64", "bool"])
@pytest.mark.parametrize("lanes", [2, 4, 16])
@pytest.mark.parametrize("stride", [2, 3, 4, 5])
def test_every_nth_element_is_read_by_dense_loads(stride, lanes, dtype):
    """No load goes beyond the last element: what lies behind it may not be read."""
    size = stride * (lanes - 1) + 2

    @T.prim_func
    def pick(a: T.Buffer((size,), dtype), b: T.Buffer((lanes,), dtype)):
        for i in T.vectorized(lanes):
            b[i] = a[i * stride + 1]

    exe = lw.compile(pick)
    text = exe.program.text("pick")
    assert ("masked.gather" in text) == (stride > 4)
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    kind = np.dtype(dtype)
    a = np.frombuffer(memory, kind, size, page - size * kind.itemsize)
    a[:] = np.arange(size) % (2 if dtype == "bool" else 100)
    b = np.zeros(lanes, kind)
    exe["pick"](a, b)
    np.testing.assert_array_equal(b, a[1::stride])


@pytest.mark.parametrize("dtype", ["int8", "float32", "bool"])
def test_elements_read_backward_are_a_dense_load(dtype):
    """Only those whose condition holds are read, where loads can have masks."""

    @T.prim_func
    def mirror(a: T.Buffer((8,), dtype), b: T.Buffer((8,), dtype), c: T.Buffer((8,), dtype)):
        for i in T.vectorized(8):
            b[i] = a[7 - i]
        for i in T.vectorized(8):
            c[i] = T.if_then_else(i < 5, a[4 - i], T.Cast(dtype, 1))

    exe = lw.compile(mirror)
    page, kind = mmap.PAGESIZE, np.dtype(dtype)
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), page, 0) == 0
    a = np.frombuffer(memory, kind, 8, page)  # what lies before it may not be read
    a[:] = np.arange(8) % (2 if dtype == "bool" else 100)
    b, c = np.zeros(8, kind), np.zeros(8, kind)
    exe["mirror"](a, b, c)
    np.testing.assert_array_equal(b, a[::-1])
    np.testing.assert_array_equal(c, [*a[4::-1], 1, 1, 1])
    assert "masked.gather" not in exe.program.text("mirror") or dtype != "float32"


@lw.testing.requires_x86_avx512
@pytest.mark.parametrize(
    "wide, dtype", [("int32", "uint8"), ("int32", "int16"), ("int64", "int32")]
)
def test_a_masked_store_of_one_lane_writes_no_more(wide, dtype):
    """17 columns of a narrow type, computed in a wide one: the second tile has one lane."""

    @T.prim_func
    def narrow(a: T.Buffer((8, 17), wide), b: T.Buffer((8, 17), dtype)):
        T.func_attr({"tir.is_scheduled": True, "tir.noalias": True})
        for tile in T.unroll(2):
            for row in T.unroll(8):
                for lane in T.vectorized(16):
                    with T.block("b"):
                        i, j = T.axis.spatial(8, row), T.axis.spatial(17, tile * 16 + lane)
                        T.where(tile * 16 + lane < 17)
                        b[i, j] = T.Cast(dtype, a[i, j])

    a, b = np.arange(8 * 17, dtype=wide).reshape(8, 17), np.zeros((8, 17), dtype)
    lw.compile(narrow, "llvm -mcpu=skylake-avx512")["narrow"](a, b)
    np.testing.assert_array_equal(b, a)
