"""Vectors in compiled code: ramps and broadcasts of vectors, loads of some lanes."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.script import tir as T

from .emitted import agree, compiled, program

pytestmark = pytest.mark.no_roundtrip

A, B = (tir.decl_buffer((8,), "int32", name) for name in "AB")
F, G = (tir.decl_buffer((16,), "float32", name) for name in "FG")
V, W = (tir.decl_buffer((4,), "float32x4", name) for name in "VW")
X = np.arange(1, 9, dtype="int32")
n = tir.Var("n", "int32")


def lanes(start=0, count=8, stride=1):
    return tir.Ramp(tir.const(start), tir.const(stride), count)


def read(start, count, stride=1):
    return tir.BufferLoad(A, [lanes(start, count, stride)])


def spread(value, count=8):
    return tir.Broadcast(tir.const(value) if isinstance(value, int) else value, count)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (spread(read(2, 4), 2), [3, 4, 5, 6] * 2),
        (spread(spread(n, 4), 2), [3] * 8),
        (tir.Ramp(read(2, 4), spread(10, 4), 2), [3, 4, 5, 6, 13, 14, 15, 16]),
        (tir.Ramp(read(2, 2), spread(n, 2), 4), [3, 4, 6, 7, 9, 10, 12, 13]),
        (tir.Ramp(read(2, 4), read(0, 4), 2), [3, 4, 5, 6, 4, 6, 8, 10]),
        (tir.Ramp(spread(0, 4), spread(n, 4), 2), [0] * 4 + [3] * 4),
        (tir.Ramp(tir.const(0), n, 8), [0, 3, 6, 9, 12, 15, 18, 21]),
        (tir.Ramp(n, tir.const(-2), 8), [3, 1, -1, -3, -5, -7, -9, -11]),
        (tir.Shuffle([read(0, 4), read(4, 4)], [tir.const(k) for k in (7, 0, 1, 2, 3, 4, 5, 6)]),
         [8, 1, 2, 3, 4, 5, 6, 7]),
        (tir.Shuffle([read(0, 2), read(2, 2), read(4, 2)], [tir.const(k) for k in (5, 4, 3, 2, 1, 0, 0, 1)]),
         [6, 5, 4, 3, 2, 1, 1, 2]),
    ],
)  # fmt: skip
def test_vectors_of_vectors(value, want):
    func = tir.PrimFunc([A, B, n], tir.BufferStore(B, value, [lanes()]))
    made = agree(func, X, np.zeros(8, "int32"), 3)
    assert made[1].tolist() == want


@pytest.mark.parametrize("least", [3, 8, 0])
def test_one_element_for_the_lanes_that_ask_for_it(least):
    """It is read where a lane asks: else it may lie anywhere."""
    far = A[1] if least < 8 else A[1] * 100_000_000
    value = tir.call_intrin(
        "int32x8", "tir.if_then_else", read(0, 8) > spread(least),
        tir.BufferLoad(A, [spread(far)]), spread(-1),
    )  # fmt: skip
    func = tir.PrimFunc([A, B], tir.BufferStore(B, value, [lanes()]))
    assert "masked.gather" not in program({"f": func}).text("f")
    made = agree(func, X, np.zeros(8, "int32"))
    assert made[1].tolist() == np.where(least < X, 3, -1).tolist()


@pytest.mark.parametrize("count", [2, 4, 8])
def test_lanes_that_choose_for_themselves(count):
    at = [lanes(0, count)]
    load = tir.BufferLoad(A, [tir.Ramp(tir.const(7), tir.const(-1), count)])
    value = tir.call_intrin(
        load.dtype, "tir.if_then_else", read(0, count) > spread(1, count), load, spread(-1, count)
    )
    made = agree(tir.PrimFunc([A, B], tir.BufferStore(B, value, at)), X, np.zeros(8, "int32"))
    assert made[1][:count].tolist() == [-1, *X[::-1][1:count]]


def guarded(load, store):
    zero = tir.const(0, load.dtype.element)
    zero = zero if load.dtype.lanes == 1 else spread(zero, load.dtype.lanes)
    value = tir.call_intrin(load.dtype, "tir.if_then_else", n < 3, load, zero)
    return tir.BufferStore(store, value, load.indices)


@pytest.mark.parametrize(
    ("load", "branches"),
    [
        (F[n], False),
        (tir.BufferLoad(F, [lanes(0, 8)]), False),
        (tir.BufferLoad(F, [lanes(0, 8, 2)]), True),
        (F[A[0]], True),
        (F[n >> 1], False),
        (F[tir.bitwise_or(n, 1)], True),
    ],
)
def test_loads_that_read_zeros_instead(load, branches):
    """One pointer is chosen where the elements lie in a row and nothing is read to find them."""
    func = tir.PrimFunc([A, F, G, n], guarded(load, G))
    assert (" phi " in program({"f": func}).text("f")) == branches
    for size, zeros in ((2, 0), (3, load.dtype.lanes)):
        made = agree(func, X, np.arange(20, 36, dtype="float32"), np.ones(16, "float32"), size)
        assert (made[2] == 0).sum() == zeros and (made[2] == 1).sum() == 16 - load.dtype.lanes


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (tir.BufferLoad(V, [read(0, 2)]), "buffer V holds vectors: only consecutive elements"),
        (tir.Shuffle([read(0, 4)], [A[0]]), "Shuffle needs literal lanes"),
    ],
)
def test_what_vectors_cannot_do(value, what):
    out = tir.decl_buffer((64,), value.dtype.element, "out")
    at = [lanes(0, value.dtype.lanes)] if value.dtype.lanes > 1 else [0]
    with pytest.raises(LoopwrightError, match=what):
        compiled({"f": tir.PrimFunc([A, V, out], tir.BufferStore(out, value, at))})


def test_the_number_of_overloads_of_an_intrinsic_may_come_first():
    """As older scripts pass it."""

    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), U: T.Buffer((1,), "uint32")):
        A[1] = T.call_llvm_intrin("int32", "llvm.ctpop", T.uint32(1), A[0])
        A[2] = T.call_llvm_pure_intrin("int32", "llvm.smax", T.uint32(2), A[0], A[3])
        U[0] = T.call_llvm_pure_intrin("uint32", "llvm.ctpop", T.uint32(7))

    got, bits = np.array([11, 0, 0, 12], "int32"), np.zeros(1, "uint32")
    compiled({"f": f})["f"](got, bits)
    assert got.tolist() == [11, 3, 12, 12] and bits.tolist() == [3]


@pytest.mark.parametrize("value", ["offset", "none"])
def test_an_offset_that_no_shape_tells_is_not_added_again(value):
    """The caller's pointer stands at the first element."""
    offset = tir.Var("offset", "int32") if value == "offset" else 0
    buffer = tir.decl_buffer((4,), "int32", "buffer", elem_offset=offset)
    func = tir.PrimFunc([buffer, A], tir.BufferStore(A, buffer[1], [0]))
    out = np.zeros(8, "int32")
    compiled({"f": func})["f"](np.array([5, 6, 7, 8], "int32"), out)
    assert out[0] == 6


@pytest.mark.parametrize("grain", [1, 3, tir.const(1), tir.const(3, "int64")])
def test_the_least_work_of_a_task(grain):
    i = tir.Var("i", "int32")
    store = tir.BufferStore(B, A[i] * 2, [i])
    loop = tir.For(i, 0, 8, tir.ForKind.PARALLEL, store, annotations={"grain": grain})
    func = tir.PrimFunc([A, B], loop)
    divided = "sdiv i64 8, 3" in program({"f": func}).text("f")
    assert divided == (int(grain) == 3)
    assert agree(func, X, np.zeros(8, "int32"))[1].tolist() == [2 * v for v in X]
