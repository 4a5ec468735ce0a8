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
        ("C[v] = B[v] + B[v // 2]", "outside of the computed range"),
        ("C[v] = B[9 - v]", "outside of the computed range"),
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


PLAIN = """
@T.prim_func
def main(a: T.handle, c: T.handle, n: T.int32):
    A = T.match_buffer(a, ({whole},), "int32")
    C = T.match_buffer(c, (4096,), "int32")
    B = T.alloc_buffer(({buffer},), "int32")
    for i in {loop}:
        for j in range({inner}):
            with T.block("B"):
                T.where({where})
                v = T.axis.spatial({whole}, {begin} + j)
                B[{place}] = A[v] * 2
        for j in range(2):
            with T.block("C"):
                v = T.axis.spatial(4096, {begin} + j)
                C[v] = B[{read}]
    {after}
"""
SIZES = {
    "whole": "10", "buffer": "10", "loop": "range(4)", "inner": "4", "where": "True", "begin": "i * 2",
    "place": "v", "read": "v + 2", "after": "pass",
}  # fmt: skip


def plain(**changes: str) -> tir.Schedule:
    text = PLAIN.format(**{**SIZES, **changes})
    return tir.Schedule(from_source(text), debug_mask="all")


@pytest.mark.parametrize(
    ("changes", "size", "test"),
    [
        ({}, 4, "i < 1 or 2 <= j"),
        ({"whole": "12", "buffer": "12", "loop": "range(1, 5)"}, 4, "i < 2 or 2 <= j"),
        ({"whole": "n * 2 + 2", "buffer": "n * 2 + 2", "loop": "range(n)"}, 4, "i < 1 or 2 <= j"),
        ({"inner": "9", "begin": "i", "buffer": "13", "whole": "13"}, 9, "i < 1 or 8 <= j"),
        ({"begin": "i // 2"}, 4, "i < 1 or 3 <= j"),
        ({"where": "i * 2 + j < 9"}, 4, "i * 2 + j < 9 and (i < 1 or 2 <= j)"),
        (  # as many begins as are computed one by one
            {"loop": "range(1024)", "whole": "1540", "buffer": "1540", "begin": "i * 3 // 2"},
            4, "i < 1 or 2 <= j",
        ),
    ],
)  # fmt: skip
def test_sizes(changes: dict[str, str], size: int, test: str) -> None:
    sch = plain(**changes)
    sch.rolling_buffer("B", 0)
    text = sch.mod.script()
    assert f"T.where({test})" in text and f"B = T.alloc_buffer(({size},)" in text
    kinds = [[v.iter_type for v in sch.get(sch.get_block(b)).iter_vars] for b in "BC"]
    assert kinds == [[tir.IterVar.DimInfo]] * 2  # iterations run in order


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": "i * 4"},  # neighbours have nothing in common
        {"begin": "6 - i * 2"},  # backwards
        {"inner": "10", "begin": "i", "where": "i + j < 10"},  # it would not be shorter
        {"begin": "i * 3 % 4"},
        {"loop": "T.parallel(4)"},
        {"loop": "T.unroll(4)"},
        {"inner": "1, 5", "begin": "i * 2 - 1"},
        {"where": "j < 3"},  # not of an element, but of an iteration
        {"place": "9 - v", "read": "9 - v"},
        {"loop": "range(1025)", "whole": "1540", "buffer": "1540", "begin": "i * 3 // 2"},
        {"begin": "i * n", "whole": "n * 8", "buffer": "n * 8"},
    ],
)  # fmt: skip
def test_no_axis_overlaps(changes: dict[str, str]) -> None:
    sch = plain(**changes)
    with pytest.raises(ScheduleError, match="no axis of block 'B' overlaps"):
        sch.rolling_buffer("B", 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"buffer": "12", "read": "v + 3"}, "outside of the computed range"),
        (
            {"after": "for k in range(1):\n        with T.block('D'):\n            C[63] = B[0]"},
            "block 'D' uses B outside of the loop",
        ),
    ],
)
def test_uses_elsewhere(changes: dict[str, str], why: str) -> None:
    sch = plain(**changes)
    with pytest.raises(ScheduleError, match=why):
        sch.rolling_buffer("B", 0)


PLANE = """
@T.prim_func
def main(A: T.Buffer((32, 32), "int32"), C: T.Buffer((32, 32), "int32")):
    B = T.alloc_buffer((32, 32), "int32")
    for h, i in T.grid(3, 4):
        for j, k in T.grid(4, 2):
            with T.block("B"):
                v, w = T.axis.spatial(32, {v}), T.axis.spatial(32, {w})
                B[v, w] = A[v, w]
        with T.block("C"):
            v, w = T.axis.remap("SS", [h, i])
            C[v, w] = B[v, w]
"""


@pytest.mark.parametrize(
    ("v", "w"),
    [
        ("i * 2 + j", "k + i"),  # two axes move
        ("i * 2 + j + k", "0"),
        ("h * 4 + i * 2 + j", "k"),
    ],
)
def test_axes_that_do_not_move_alone(v: str, w: str) -> None:
    sch = tir.Schedule(from_source(PLANE.format(v=v, w=w)), enable_check=False)
    with pytest.raises(ScheduleError, match="no axis of block 'B' overlaps"):
        sch.rolling_buffer("B", 0)


def test_a_block_that_is_in_no_loop_of_its_consumers() -> None:
    sch = tir.Schedule(POOLS)
    with pytest.raises(ScheduleError, match="is not inside a loop of its consumers"):
        sch.rolling_buffer("B", 0)


CHAIN = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "int32"), C: T.Buffer((8,), "int32")):
    P = T.alloc_buffer((12,), "int32")
    B = T.alloc_buffer((10,), "int32")
    for i in range(12):
        with T.block("P"):
            v = T.axis.spatial(12, i)
            P[v] = A[v] * 3
    for i in range(10):
        with T.block("B"):
            v = T.axis.spatial(10, i)
            B[v] = P[v] - P[v + 2]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + B[v + 2]
""")


def test_consumers_before_their_producers() -> None:
    def moved() -> tir.Schedule:
        sch = tir.Schedule(CHAIN, debug_mask="all")
        i, _ = sch.split(sch.get_loops("C")[0], [None, 2])
        sch.compute_at("B", i)
        sch.compute_at("P", i)
        return sch

    sch = moved()
    sch.rolling_buffer("B", 0)
    sch.rolling_buffer("P", 0)
    (p, b) = sch.get(sch.get_block("root")).alloc_buffers
    assert [int(p.shape[0]), int(b.shape[0])] == [6, 4]
    check(sch, CHAIN)
    sch = moved()
    sch.rolling_buffer("P", 0)
    with pytest.raises(ScheduleError, match="'P' changes what 'B' reads"):
        sch.rolling_buffer("B", 0)
