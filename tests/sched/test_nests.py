"""Default schedules of nests that are not those of operators: as users write them."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest

import loopwright as lw
from loopwright import te
from loopwright.ir.functor import nodes_of
from loopwright.sched import ApplyDefaultSchedule
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import For, ForKind

LOOPS = {
    "a triangle": ("for i in range(8):\n    for k in range(T.min(i + 1, 9)):", "k"),
    "terms first": ("for k, i in T.grid(9, 8):", "k"),
    "terms in parts": ("for i, o, p in T.grid(8, 3, 3):", "o * 3 + p"),
}
SUM = """
with T.block("S"):
    v = T.axis.spatial(8, i)
    w = T.axis.reduce(9, {k})
    with T.init():
        S[v] = T.float32(0)
    S[v] = S[v] + A[v, w]
"""
PROGRAM = """
@T.prim_func
def main(A: T.Buffer((8, 9), "float32"), W: T.Buffer((9, 16), "float32"), C: T.Buffer((8, 16), "float32")):
    S = T.alloc_buffer((8,))
    E = T.alloc_buffer((8,))
    Z = T.alloc_buffer(())
{nest}
    for i in range(8):
        with T.block("E"):
            v = T.axis.spatial(8, i)
            E[v] = S[v] * T.float32(2)
    for i in range(8):
        with T.block("Z"):
            v = T.axis.reduce(8, i)
            with T.init():
                Z[()] = T.float32(0)
            Z[()] = Z[()] + E[v]
    for i, j, k in T.grid(8, 16, 9):
        with T.block("C"):
            v, w, x = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[v, w] = T.float32(0)
            C[v, w] = C[v, w] + (A[v, x] - E[v] - Z[()]) * W[x, w]
"""


@pytest.mark.parametrize("name", LOOPS)
def test_a_sum_whose_loops_are_no_axes(rng: np.random.Generator, name: str) -> None:
    header, k = LOOPS[name]
    depth = "    " * (2 + header.count("\n"))
    nest = indent(header, "    ") + indent(SUM.format(k=k), depth)
    func = from_source(PROGRAM.format(nest=nest))
    a, w, want, got = (
        np.float32(rng.integers(-4, 5, s)) for s in ((8, 9), (9, 16), (8, 16), (8, 16))
    )
    run(func, [a, w, want])
    lw.compile(func)["main"](a, w, got)
    np.testing.assert_array_equal(got, want)
    scheduled = lw.lower(func)["ApplyDefaultSchedule"].after["main"].attrs.get("tir.is_scheduled")
    assert bool(scheduled) == (name == "terms first")


def test_a_result_that_is_not_read() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((6,), "float32"), C: T.Buffer((1,), "float32")):
    S = T.alloc_buffer((1,))
    B = T.alloc_buffer((1,))
    for i, j in T.grid(1, 6):
        with T.block("S"):
            v, k = T.axis.remap("SR", [i, j])
            with T.init():
                S[v] = T.float32(0)
            S[v] = S[v] + A[k]
    for i in range(1):
        with T.block("B"):
            v = T.axis.spatial(1, i)
            B[v] = S[v] * T.float32(2)
    for i in range(1):
        with T.block("C"):
            v = T.axis.spatial(1, i)
            C[v] = S[v] + S[v]
""")
    a, got = np.arange(6, dtype="float32"), np.zeros(1, "float32")
    lw.compile(func)["main"](a, got)
    assert got.tolist() == [30]


@pytest.mark.parametrize(
    ("shape", "shared", "width"), [((4, 16, 8), False, 32), ((4, 16, 8), True, 8)]
)
def test_short_last_axes_fill_vectors_where_elements_are_adjacent(
    shape: tuple[int, ...], shared: bool, width: int
) -> None:
    """Bytes in blocks of 8 channels; an operand of the last axis alone is not adjacent along two."""
    a, b = te.placeholder(shape, "uint8", "A"), te.placeholder(shape[-1:], "uint8", "B")
    out = te.compute(shape, lambda i, j, k: a[i, j, k] + (b[k] if shared else 1), name="out")
    func = te.create_prim_func([a, b, out])
    with lw.Target("llvm -mcpu=haswell"):
        made = ApplyDefaultSchedule()(lw.IRModule({"main": func}))["main"]
    vectors = [n for n in nodes_of(made.body, For) if n.kind == ForKind.VECTORIZED]
    assert [n.extent.value for n in vectors] == [width]
