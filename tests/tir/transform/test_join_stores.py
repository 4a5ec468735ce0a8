"""Adjacent stores of a few bytes become one: right in any order, and only where no element is read or stored twice."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.ir.functor import nodes_of
from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import BufferStore

KERNEL = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "uint8"), n: T.int32):
    for i in range(1):
"""


def lanes_of_stores(
    *starts: str, value: str = 'T.Cast("uint8x8", A[{0}:{0} + 8] - 3)'
) -> list[int]:
    """The lanes of each store that is left of those of 8 bytes at these places; the numbers are what they were."""
    lines = [f"        B[{at}:{at} + 8] = {value.format(at)}\n" for at in starts]
    func = from_source(KERNEL + "".join(lines))
    made = tt.JoinStores()(IRModule({"main": func}))["main"]
    results = []
    for one in (func, made):
        a, b = np.arange(64, dtype="int32") * 7, np.arange(64, dtype="uint8")
        run(one, [a, b, 16])
        results.append(b)
    np.testing.assert_array_equal(*results)
    return [store.value.dtype.lanes for store in nodes_of(made.body, BufferStore)]


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        (["0", "8"], [16]),
        (["8", "0", "24", "16"], [32]),
        (["n", "n + 32", "n + 8", "n + 40", "n + 16"], [16, 8, 16]),
        ([str(8 * k) for k in range(7)], [32, 16, 8]),
        (["0", "9"], [8, 8]),
        (["0", "4"], [8, 8]),  # the second one wins
        (["0", "n"], [8, 8]),
    ],
)
def test_those_of_adjacent_elements_are_joined(starts: list[str], expected: list[int]) -> None:
    assert lanes_of_stores(*starts) == expected


def test_what_reads_the_memory_or_was_no_wider_is_kept() -> None:
    assert lanes_of_stores("8", "0", value='T.Cast("uint8x8", T.Cast("int32x8", B[0:8]) + 1)') == [
        8,
        8,
    ]
    assert lanes_of_stores("0", "8", value="B[40:48]") == [8, 8]
    assert lanes_of_stores("0", "8", value='T.Cast("uint8x8", T.Broadcast(n, 8))') == [16]
