"""Tiles read row by row and transposed in registers: right for each type, and only where it may be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Shuffle
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

TILE = """
@T.prim_func
def main(A: T.Buffer((800,), "{dtype}"), B: T.Buffer((800,), "{dtype}"), n: T.int32):
    C = T.Buffer((2, 400), "{dtype}", data=A.data)
    D = T.Buffer((400,), "{dtype}", data=A.data, strides=[2])
    for i in T.{kind}({size}):
        B[i * {size}:i * {size} + {size}] = {value}
"""
STRIDED = "A[i + 5:i + 5 + {size} * {stride}:{stride}]"


def shuffles(func: Any) -> int:
    found: list[Shuffle] = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, Shuffle) else None)
    return len(found)


def transposed(value: str = STRIDED, size: int = 8, dtype: str = "float32", kind: str = "unroll"):
    """The kernel after the pass, which computes what it did before."""
    value = value.format(size=size, stride=20)
    func = from_source(TILE.format(dtype=dtype, size=size, kind=kind, value=value))
    made = tt.TransposeInRegisters()(IRModule({"main": func}))["main"]
    given = np.random.default_rng(0).integers(0, 50, 800).astype(dtype)
    results = []
    for one in (func, made):
        a, b = given.copy(), given[::-1].copy()
        run(one, [a, b, 20])
        results.append((a, b))
    np.testing.assert_array_equal(results[0], results[1])
    return made


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "float16", "uint16", "int8"])
@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_squares_of_each_type(dtype: str, size: int) -> None:
    assert shuffles(transposed(size=size, dtype=dtype)) == size * (size.bit_length() - 1)


def test_what_else_the_statement_reads_is_kept() -> None:
    both = f"{STRIDED} * {STRIDED.replace('5', '7')} + A[i * 8:i * 8 + 8]"
    assert shuffles(transposed(both)) == 2 * 24
    assert shuffles(transposed("A[T.Ramp(i + n, n, 8)]")) == 24, "a stride that is not known"


@pytest.mark.parametrize(
    "value",
    [
        STRIDED.replace("A", "B"),  # may be written before it is read
        "A[i * 2:i * 2 + 160:20]",  # the rows of the tile are not beside each other
        "A[i:i + 8]",
        "A.vload([T.Ramp(i, 20, 8)], predicate=T.Broadcast(T.bool(True), 8))",
        "C[1, T.Ramp(i, 20, 8)]",
        "D[T.Ramp(i, 20, 8)]",
        "T.if_then_else(i < n, A[i:i + 160:20], T.Broadcast(T.float32(0), 8))",
    ],
)
def test_other_loads_are_not_moved(value: str) -> None:
    assert shuffles(transposed(value)) == 0


def test_other_loops_are_not_written_out() -> None:
    assert shuffles(transposed(kind="serial")) == 0
    assert shuffles(transposed(size=3)) == 0
