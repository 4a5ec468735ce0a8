"""What programs and callers should not do, or do rarely: empty, huge, strided, unaligned, wrong."""

from __future__ import annotations

import traceback

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.runtime import register_func, remove_global_func
from loopwright.script import tir as T
from loopwright.tir.interpreter import run

from .emitted import agree, compiled

pytestmark = pytest.mark.no_roundtrip


@T.prim_func
def add_one(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    for i in T.parallel(n):
        for j in T.vectorized(4):
            B[i, j] = A[i, j] + T.float32(1)


def test_empty_buffers_and_loops():
    agree(add_one, np.zeros((0, 4), "float32"), np.zeros((0, 4), "float32"))

    @T.prim_func
    def f(A: T.Buffer((0, 3), "int32"), B: T.Buffer((3,), "int32"), n: T.int32):
        C = T.decl_buffer((n * 0,), "int32")
        for i in range(0):
            C[i] = A[i, 0]
        for i in range(n - 5):
            B[i] = B[i] + 1

    for n in (5, 3, -(2**31) + 5):  # no, and negative, extents
        got = agree(f, np.zeros((0, 3), "int32"), np.zeros(3, "int32"), n)
        assert got[1].tolist() == [0, 0, 0]
    assert agree(f, np.zeros((0, 3), "int32"), np.zeros(3, "int32"), 7)[1].tolist() == [1, 1, 0]


def test_indices_beyond_32_bits():
    """int64 indices count 2**33 bytes; the pages in between are never touched."""

    @T.prim_func
    def f(A: T.Buffer((T.int64(8), T.int64(2**30)), "int8"), B: T.Buffer((8,), "int8")):
        for i in range(T.int64(8)):
            A[i, T.int64(2**30 - 1)] = T.Cast("int8", i)
        for i in range(T.int64(8)):
            B[i] = A[i, T.int64(2**30 - 1)]

    a, b = np.empty((8, 2**30), "int8"), np.zeros(8, "int8")
    compiled({"f": f})["f"](a, b)
    assert b.tolist() == list(range(8))
    assert a[3, -1] == 3


def test_vectors_at_addresses_that_are_not_aligned():
    native = compiled({"add_one": add_one})["add_one"]
    raw = np.zeros(4 * 40 + 4, "uint8")
    a = raw[4:164].view("float32")[:40].reshape(10, 4)
    a[...] = np.arange(40).reshape(10, 4)
    out = np.zeros(41, "float32")[1:].reshape(10, 4)
    native(a, out)
    np.testing.assert_array_equal(out, a + 1)


def test_output_over_input():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    compiled({"add_one": add_one})["add_one"](x, x)
    np.testing.assert_array_equal(x, np.arange(12).reshape(3, 4) + 1)


def test_declared_strides_and_undeclared_ones():
    @T.prim_func
    def f(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (3, 4), "float32", strides=(8, 2))
        B = T.match_buffer(b, (3, 4), "float32")
        for i in range(3):
            for j in T.vectorized(4):
                B[i, j] = A[i, j] * T.float32(2)

    base = np.arange(24, dtype="float32").reshape(3, 8)
    want = np.zeros((3, 4), "float32")
    run(f, [base[:, ::2], want])
    np.testing.assert_array_equal(want, base[:, ::2] * 2)
    with pytest.raises(LoopwrightError, match="parameter A has strides"):
        compiled({"f": f})
    native = compiled({"add_one": add_one})["add_one"]
    with pytest.raises(ValueError, match="argument 0 `A` is not contiguous in row-major order"):
        native(base[:, ::2], want)


def test_wrong_arguments_are_named():
    native = compiled({"add_one": add_one})["add_one"]
    a, b = np.zeros((2, 4), "float32"), np.zeros((2, 4), "float32")
    cases = [
        ((a,), TypeError, "add_one: expected 2 arguments, got 1"),
        ((None, b), TypeError, "add_one: argument 0 `A` must be a tensor, got None"),
        ((1.5, b), TypeError, "add_one: argument 0 `A` must be a tensor, got a float"),
        ((a.astype("float64"), b), ValueError,
         "add_one: argument 0 `A` has dtype float64, expected dtype float32"),
        ((a[0], b), ValueError, "add_one: argument 0 `A` has ndim 1, expected ndim 2"),
        ((a[:, :3].copy(), b), ValueError, "add_one: argument 0 `A` has shape[1] = 3, expected 4"),
        ((a, b[:1]), ValueError, "add_one: argument 1 `B` has shape[0] = 1, expected 2"),
    ]  # fmt: skip
    for args, kind, text in cases:
        with pytest.raises(kind) as caught:
            native(*args)
        assert str(caught.value) == text


@pytest.fixture
def registered():
    names = []

    def add(name, function):
        register_func(name, function, override=True)
        names.append(name)

    yield add
    for name in names:
        remove_global_func(name)


def test_a_python_error_comes_through_native_code_with_its_traceback(registered):
    class Odd(Exception):
        pass

    def deeper(x):
        raise KeyError(f"no {x} here")

    registered("test.hostile.fail", lambda x: deeper(x))

    @T.prim_func
    def f(n: T.int32):
        for i in T.parallel(2):
            T.evaluate(T.call_packed("test.hostile.fail", n + i * 0))

    with pytest.raises(KeyError, match="no 3 here") as caught:
        compiled({"f": f})["f"](3)
    assert "deeper" in "".join(traceback.format_exception(caught.value))
    with pytest.raises(KeyError, match="no 3 here"):
        run(f, [3])


def test_masked_vectors_touch_only_their_lanes():
    a, b = tir.decl_buffer((16,), "float32", "a"), tir.decl_buffer((16,), "float32", "b")
    n = tir.Var("n", "int32")
    at = tir.Ramp(tir.const(8), tir.const(1), 8)
    mask = tir.Call("boolx8", "tir.get_active_lane_mask", [tir.const(0), n])
    load = tir.BufferLoad(a, [at], mask)
    dense = tir.BufferStore(b, load + tir.Broadcast(tir.const(1.0), 8), [at], mask)
    back = tir.Ramp(tir.const(15), tir.const(-1), 8)
    scattered = tir.BufferStore(b, tir.BufferLoad(a, [back], mask), [back], mask)
    for store, lanes in ((dense, slice(8, 11)), (scattered, slice(13, 16))):
        func = tir.PrimFunc([a, b, n], store)
        x = np.arange(16, dtype="float32")
        got = agree(func, x, np.full(16, -5, "float32"), 3)[1]
        want = np.full(16, -5, "float32")
        want[lanes] = x[lanes] + (1 if store is dense else 0)
        np.testing.assert_array_equal(got, want)
        for count in (0, 8):
            agree(func, x, np.full(16, -5, "float32"), count)
