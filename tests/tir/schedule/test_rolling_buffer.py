"""`rolling_buffer`: what neighbouring tiles share is computed once."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir import ScheduleError

from .intrinsics import matching
from .util import check

POOLS = from_source("""
@T.prim_func
def main(A: T.Buffer((12, 14, 4), "int32"), C: T.Buffer((8, 10, 4), "int32")):
    B = T.alloc_buffer((10, 12, 4), "int32")
    for i, j, c, p, q in T.grid(10, 12, 4, 3, 3):
        with T.block("B"):
            vi, vj, vc, vp, vq = T.axis.remap("SSSRR", [i, j, c, p, q])
            with T.init():
                B[vi, vj, vc] = -100
            B[vi, vj, vc] = T.max(B[vi, vj, vc], A[vi + vp, vj + vq, vc])
    for i, j, c, p, q in T.grid(8, 10, 4, 3, 3):
        with T.block("C"):
            vi, vj, vc, vp, vq = T.axis.remap("SSSRR", [i, j, c, p, q])
            with T.init():
                C[vi, vj, vc] = 0
            C[vi, vj, vc] = C[vi, vj, vc] + B[vi + vp, vj + vq, vc]
""")

CASES = {  # tile, order of the outer loops, the shape of the buffer then, predicates
    "rows": ((4, 10, 4), "012", [6, 12, 4], 1),
    "columns": ((8, 5, 4), "012", [10, 7, 4], 1),
    "both": ((4, 5, 2), "012", [6, 12, 4], 2),
    "columns outside": ((4, 5, 2), "102", [10, 7, 4], 2),
    "channels outside": ((4, 5, 2), "210", [10, 7, 4], 2),
    "channels between": ((2, 5, 2), "021", [4, 12, 4], 2),
    "tails": ((3, 4, 3), "012", [5, 12, 4], 2),
}


def tiled(tile: tuple[int, ...], order: str) -> tir.Schedule:
    """A schedule with B computed in tiles of C."""
    sch = tir.Schedule(POOLS, debug_mask="all")
    loops = sch.get_loops("C")
    pairs = [sch.split(x, [None, n]) for x, n in zip(loops, tile, strict=False)]
    outer = [pairs[int(n)][0] for n in order]
    sch.reorder(*outer, *(inner for _, inner in pairs))
    sch.compute_at("B", outer[-1])
    return sch


@pytest.mark.parametrize("case", CASES)
def test_tiles_of_a_reduction(case: str) -> None:
    tile, order, shape, tests = CASES[case]
    sch = tiled(tile, order)
    sch.rolling_buffer("B", 0)
    (buffer,) = sch.get(sch.get_block("root")).alloc_buffers
    assert [int(e) for e in buffer.shape] == shape
    assert sch.mod.script().count(" or ") == tests
    check(sch, POOLS)


def test_a_begin_that_is_not_linear() -> None:
    before = from_source("""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), C: T.Buffer((24,), "int32")):
    B = T.alloc_buffer((16,), "int32")
    for i in range(5):
        for j in range(5):
            with T.block("B"):
                T.where(i * 5 // 2 + j < 14)
                v = T.axis.spatial(14, i * 5 // 2 + j)
                B[v] = A[v] * 2
        for j in range(5):
            with T.block("C"):
                T.where(i * 5 + j < 24)
                v = T.axis.spatial(24, i * 5 + j)
                C[v] = B[v // 2] + B[v // 2 + 2]
""")
    sch = tir.Schedule(before, debug_mask="all")
    sch.rolling_buffer("B", 0)
    assert "i < 1 or 2 <= j" in sch.mod.script()
    check(sch, before)


def test_refused() -> None:
    sch = tiled((4, 5, 2), "012")
    sch.parallel(sch.get_loops("C")[2])
    with pytest.raises(ScheduleError, match="does not run in order"):
        sch.rolling_buffer("B", 0)
    text = """
@T.prim_func
def main(A: T.Buffer((10,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((10,), "int32")
    for i in range(4):
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(10, i * 2 + j)
                B[v] = A[v] * 2
        for j in range(2):
            with T.block("C"):
                v = T.axis.spatial(8, i * 2 + j)
                {}
"""
    for body, why in (
        ("A[v] = B[v] + B[v + 2]", "changes what 'B' reads"),
        ("C[v] = B[v] + B[v // 2]", "outside of what is computed"),
        ("C[v] = B[9 - v]", "outside of what is computed"),
    ):
        sch = tir.Schedule(from_source(text.format(body)), debug_mask="all")
        with pytest.raises(ScheduleError, match=why):
            sch.rolling_buffer("B", 0)


WINDOWS = from_source("""
@T.prim_func
def main(A: T.Buffer((7, 6), "int32"), W: T.Buffer((2, 2), "int32"), C: T.Buffer((6, 5), "int32")):
    B = T.alloc_buffer((7, 6), "int32")
    for i, j in T.grid(7, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1
    for i, j, p, q in T.grid(6, 5, 2, 2):
        with T.block("C"):
            vi, vj, vp, vq = T.axis.remap("SSRR", [i, j, p, q])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + B[vi + vp, vj + vq] * W[vp, vq]
""")


@pytest.mark.parametrize("rows", [True, False])
def test_windows_of_an_intrinsic(rows: bool) -> None:
    sch = tir.Schedule(WINDOWS, debug_mask="all")
    i, j, _, q = sch.get_loops("C")
    names = matching(sch.get(sch.get_block("C")), 2)
    sch.tensorize(q, next(n for n in names if ".dot." in n))
    if not rows:
        sch.reorder(j, i)
    sch.compute_at("B", i)
    if rows:
        sch.rolling_buffer("B", 0)
        check(sch, WINDOWS)
    else:
        with pytest.raises(ScheduleError, match="sees several rows of B as one buffer"):
            sch.rolling_buffer("B", 0)
