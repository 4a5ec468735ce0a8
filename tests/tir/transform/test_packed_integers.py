"""`Int4StorageLegalize` on flat loops: what they compute stays, and which of them stay parallel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.runtime import tensor
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

pytestmark = pytest.mark.no_roundtrip
HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int4"), B: T.Buffer((64,), "int4"), C: T.Buffer((64,), "int32")):
"""


def packed(lines: str) -> tir.PrimFunc:
    """The function of these lines after the pass, which computes the same."""
    func = from_source(HEAD + "".join(f"    {line}\n" for line in lines.splitlines()))
    made = tt.Int4StorageLegalize()(IRModule({"main": func}))["main"]
    results = []
    for f in (func, made):
        a, b = (np.arange(64) * step % 16 - 8 for step in (3, 5))
        args: list[Any] = [*(tensor(x, dtype="int4") for x in (a, b)), np.arange(64, dtype="int32")]
        run(f, args)
        results.append([np.asarray(x).astype("int64") for x in args])
    for want, got in zip(*results, strict=True):
        np.testing.assert_array_equal(got, want)
    return made


@pytest.mark.parametrize(
    ("index", "parallel"),
    [
        ("T.Ramp(i * 4, 1, 4)", True),  # whole bytes
        ("T.Ramp(i * 4, 1, 3)", True),  # in bytes of its own
        ("T.Ramp(i * 4 + 1, 1, 3)", True),
        ("T.Ramp(i * 4 + 1, 1, 4)", False),  # the last in the next one's
        ("T.Ramp(i * 3, 1, 3)", False),
        ("T.Ramp(i, 8, 4)", False),
        ("T.Ramp(i * 2, 16, 4)", False),  # an own byte in each lane, which is not seen
        ("T.Ramp(i * 4, 2, 2)", True),
        ("T.Broadcast(i * 2, 4)", False),
        ("i * 2", True),
        ("i * 2 + 1", True),
        ("i", False),
        ("i * 3", False),
        ("8 - i", False),
        ("i * 2 // 2", False),
    ],
)
def test_parallel_stores(index: str, parallel: bool) -> None:
    lanes = int(index[:-1].split()[-1]) if index.startswith("T.") else 1
    value = "T.int4(3)" if lanes == 1 else f"T.Broadcast(T.int4(3), {lanes})"
    made = packed(f"for i in T.parallel(8):\n    B[{index}] = {value}")
    assert ("T.parallel" in made.script()) == parallel


@pytest.mark.parametrize(
    "lines",
    [
        "for i in range(8):\n    C[i] = T.Cast(\"int32\", A[63 - i * 3])",
        "C[0:8] = T.Cast(\"int32x8\", A[8:16])",
        "C[0:8] = T.Cast(\"int32x8\", A[7:15])",
        "C[0:4] = T.Cast(\"int32x4\", A[T.Ramp(3, 5, 4)])",
        "C[0:4] = T.Cast(\"int32x4\", A[T.Broadcast(5, 4)])",
        "for i in range(4):\n    B[T.Ramp(i * 8 + 1, 2, 3)] = A[T.Ramp(i * 3, 1, 3)]",
        "for i in range(4):\n    B[T.Broadcast(i * 9, 2)] = T.Broadcast(A[i], 2)",
        "for i in range(4):\n    B[T.Shuffle([C[i], C[i + 20]], [0, 1])] = A[i * 2:i * 2 + 2]",
        "D = T.decl_buffer((5,), \"uint2\")\nfor i in range(5):\n    D[i] = T.Cast(\"uint2\", i * 3)\n"
        "for i in range(5):\n    C[i] = T.Cast(\"int32\", D[i])",
    ],
)  # fmt: skip
def test_meaning(lines: str) -> None:
    assert "int4" not in str([b.dtype for b in packed(lines).buffers])


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize(
    "test",
    ["T.Ramp(0, 1, 8) < T.Broadcast(3, 8)", "A[T.Ramp(8, 1, 8)] < T.Broadcast(T.int4(1), 8)"],
)
def test_lanes_that_a_mask_leaves_out_stay(begin: int, test: str) -> None:
    packed(f"B.vstore([T.Ramp({begin}, 1, 8)], A[T.Ramp(0, 1, 8)], predicate={test})")


@pytest.mark.parametrize("begin", [0, 1, 2])
def test_masked_loads(begin: int) -> None:
    """Also of lanes that begin with a byte: each has the byte of its own."""
    test = "T.Ramp(0, 1, 8) < T.Broadcast(5, 8)"
    loaded = f"A.vload([T.Ramp({begin}, 1, 8)], predicate={test})"
    packed(f"B.vstore([T.Ramp(0, 1, 8)], {loaded}, predicate={test})")


def test_vectors_and_strides_are_refused() -> None:
    for buffer, said in (
        ('A: T.Buffer((8,), "int4x2")', "buffer A holds vectors of integers below 8 bits"),
        ('A: T.Buffer((8,), "int4", strides=(2,))', "buffer A of int4 is not flat"),
        ('A: T.Buffer((8,), "int4", elem_offset=2)', "buffer A of int4 is not flat"),
    ):
        func = from_source(
            f"@T.prim_func\ndef main({buffer}):\n    T.evaluate(A.access_ptr('r'))\n"
        )
        with pytest.raises(LoopwrightError, match=said):
            tt.Int4StorageLegalize()(IRModule({"main": func}))


def test_pointers_to_parts() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((16,), "int4")):
    T.evaluate(T.call_extern("int32", "f", A.access_ptr("r", offset={}, extent=6)))
"""
    pass_ = tt.Int4StorageLegalize()
    call = pass_(IRModule({"main": from_source(text.format(4))}))["main"].body.value
    assert [int(e) for e in call.args[1].args[2:4]] == [2, 3]  # bytes
    assert call.args[1].args[0].dtype == "uint8"
    with pytest.raises(LoopwrightError, match="a pointer to int4 may point within a byte"):
        pass_(IRModule({"main": from_source(text.format(3))}))


def test_what_is_not_packed_stays() -> None:
    text = (
        HEAD
        + """
    X = T.decl_buffer((32,), "uint8", data=A.data)
    k = T.allocate_const([1, 2, 3], "int32", [3])
    K = T.Buffer((3,), "int32", data=k)
    L = T.decl_buffer((2,), "int16")
    L[1] = T.Cast("int16", C[2])
    T.evaluate(T.atomic_add(T.address_of(C[0]), K[1]))
    X[1] = X[0] + T.Cast("uint8", L[1])
"""
    )
    made = tt.Int4StorageLegalize()(IRModule({"main": from_source(text)}))["main"]
    shown = made.script()
    for line in (
        'X = T.decl_buffer((32,), "uint8", data=A.data)',
        'L = T.decl_buffer((2,), "int16")',
    ):
        assert line in shown
    a, c = np.arange(32, dtype="uint8"), np.arange(64, dtype="int32")
    run(made, [a, np.zeros(32, "uint8"), c])
    assert a[1] == 0 + 2 and c[0] == 0 + 2


def test_sums_of_several_threads_in_a_byte_are_refused() -> None:
    for value in ("T.Cast('int4', C[0])", "A[1]"):
        text = f"{HEAD}    T.evaluate(T.atomic_add(T.address_of(A[0]), {value}))\n"
        with pytest.raises(
            LoopwrightError, match="atomic_add on int4, which shares a byte with others"
        ):
            tt.Int4StorageLegalize()(IRModule({"main": from_source(text)}))
