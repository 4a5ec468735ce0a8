"""Steps that would change what a program computes, each on a small program, and why they are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir import Schedule, ScheduleError
from loopwright.tir.interpreter import run

from . import programs as p

HEAD = """
@T.prim_func
def main(
    A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), C: T.Buffer((8,), "float32"),
    E: T.Buffer((8, 8), "float32"),
):
    D = T.alloc_buffer((8, 8))
"""


def copy(name: str, value: str, extent: int = 8) -> str:
    """A block that fills a matrix."""
    axes = f'vi, vj = T.axis.remap("SS", [{name}i, {name}j])'
    return (
        f"    for {name}i, {name}j in T.grid({extent}, 8):\n        with T.block('{name}'):\n            {axes}\n"
        f"            {name[0]}[vi, vj] = {value}\n"
    )


def total(predicate: str = "True", init: bool = True, loop: str = "range(8)") -> str:
    start = "            with T.init():\n                C[v] = T.float32(0)\n" if init else ""
    return (
        f"    for i in range(8):\n        for k in {loop}:\n            with T.block('C'):\n"
        f"                T.where({predicate})\n"
        f"                v, u = T.axis.remap('SR', [i, k])\n{start.replace('            ', ' ' * 16, 1)}"
        f"                C[v] = C[v] + A[v, u]\n"
    ).replace("                C[v] = T.float32(0)", "                    C[v] = T.float32(0)")


def loops(sch: Schedule, *names: str) -> list[Any]:
    return [sch.get_loops(n)[0] for n in names]


SHARED_LOOP = """
    for i in range(8):
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = D[vi, vj]
"""
CASES: list[tuple[str, Callable[[Schedule], Any], str]] = [
    (
        copy("D", "A[vi, vj]") + copy("A", "B[vi, vj]") + copy("B", "D[vi, vj]"),
        lambda s: s.compute_inline("D"),
        "block 'A' overwrites A, which 'D' reads",
    ),
    (
        copy("D", "A[vi, vj]") + copy("A", "D[vi, vj]"),
        lambda s: s.reverse_compute_inline("A"),
        "block 'A' overwrites what 'D' reads",
    ),
    (
        copy("D", "A[vi, vj]") + copy("E", "B[vi, vj]") + copy("B", "D[vi, vj]"),
        lambda s: s.reverse_compute_inline("B"),
        "block 'E' runs between the two and shares a buffer with them",
    ),
    (
        copy("D", "A[vi, vj]") + copy("B", "D[vi, vj]") + copy("E", "D[vi, vj]"),
        lambda s: s.reverse_compute_inline("B"),
        "block 'E' also reads D",
    ),
    (
        copy("D", "A[vi, vj]", 4) + copy("B", "D[vi, vj]") + copy("Dx", "A[vi, vj]"),
        lambda s: s.cache_write("D", 0, "local"),
        "D is written by several blocks\n  got: D, Dx",
    ),
    (
        copy("D", "A[vi, vj]") + copy("Dx", "A[vi, vj]") + copy("B", "D[vi, vj]"),
        lambda s: s.cache_read("B", 0, "local"),
        "D is written by several blocks\n  got: D, Dx",
    ),
    (total(), lambda s: s.decompose_reduction("C", s.get_loops("C")[1]) and s.rfactor(s.get_loops("C_update")[1], 0),
     "block 'C_update' is not a reduction"),
    (total(), lambda s: s.rfactor(s.get_loops("C")[1], 2), "C has 1 dimensions\n  got: 2"),
    (total(), lambda s: s.rfactor(s.get_loops("C")[1], -3), "C has 1 dimensions\n  got: -3"),
    (total(loop="range(2, 8)"), lambda s: s.rfactor(s.get_loops("C")[1], 0), "rfactor is for a loop from 0"),
    (total("2 <= k"), lambda s: s.rfactor(s.get_loops("C")[1], 0), "some iterations of the loop have nothing to reduce"),
    (
        total() + copy("B", "A[vi, vj]"),
        lambda s: s.decompose_reduction("C", s.get_loops("B")[0]),
        "the loop is not around block 'C'",
    ),
    (
        total(),
        lambda s: s.decompose_reduction("C", s.split(s.get_loops("C")[1], [2, 4])[1]),
        "further out, drives the reduction",
    ),
    (total("k < i + 1"), lambda s: s.decompose_reduction("C", s.get_loops("C")[0]), "the predicate ties spatial"),
    (total("1 <= k"), lambda s: s.reorder(*s.get_loops("C"), s.get_loops("C")[0]), "a loop is given twice"),
    (
        copy("D", "A[vi, vj]") + copy("B", "D[vi, vj]"),
        lambda s: s.reorder(*loops(s, "D", "B")),
        "the loops are not inside each other",
    ),
    (
        total(loop="range(i)"),
        lambda s: s.reorder(*s.get_loops("C")[::-1]),
        "the range of loop 'k' depends on a loop it would leave",
    ),
    (SHARED_LOOP, lambda s: s.reorder(s.get_loops("B")[1], s.get_loops("B")[0]), "something else is inside loop 'i'"),
    (SHARED_LOOP, lambda s: s.loop_partition(s.get_loops("B")[0], []), "a loop is cut into given lengths"),
    (SHARED_LOOP, lambda s: s.loop_partition(s.get_loops("B")[0], [None, None]), "a loop is cut into given lengths"),
    (SHARED_LOOP, lambda s: s.unsafe_hide_buffer_access("B", "read", [1]), "block 'B' reads 1 regions\n  got: [1]"),
    (SHARED_LOOP, lambda s: s.unsafe_hide_buffer_access("B", "write", [0, 1]), "block 'B' writes 1 regions"),
    (SHARED_LOOP, lambda s: s.unsafe_hide_buffer_access("B", "both", [0]), 'buf_type is "read" or "write"'),
    (SHARED_LOOP, lambda s: s.merge(*(s.get_loops(b)[1] for b in "BD")), "merged loops directly follow one"),
    (
        copy("D", "A[vi, vj]") + copy("B", "D[7 - vi, vj]"),
        lambda s: s.merge(*loops(s, "D", "B")),
        "block 'B' reads of D what other iterations of loop 'Di_Bi_m' write",
    ),
    (
        copy("D", "A[vi, vj]") + copy("A", "B[7 - vi, vj]"),
        lambda s: s.merge(*loops(s, "D", "A")),
        "block 'A' writes A, which other iterations of 'D' access",
    ),
    (copy("D", "A[vi, vj]", 4) + copy("B", "A[vi, vj]"), lambda s: s.merge(*loops(s, "D", "B")), "have one extent"),
    (
        copy("D", "A[vi, vj]") + copy("B", "D[vi, vj]"),
        lambda s: s.merge(s.get_loops("D")[1], s.get_loops("B")[0]),
        "merged loops are at one depth",
    ),
    (SHARED_LOOP, lambda s: s.annotate_buffer_access("B", 0, "read", lambda i, j: [(i, i + 1)]), "D has 2 dimensions\n  got: 1 ranges"),
    (SHARED_LOOP, lambda s: s.get_block("X"), "X"),
    (copy("D", "A[vi, vj]") * 2, lambda s: s.get_block("D"), "2 blocks are called 'D'"),
    (SHARED_LOOP, lambda s: s.blockize(s.get_loops("B")[0]), "blockize is for a loop around one block"),
    (
        "    for i in range(8):\n        if i < 4:\n            with T.block('C'):\n                v = T.axis.spatial(8, i)\n"
        "                C[v] = A[v, v]\n",
        lambda s: s.blockize(s.get_loops("C")[0]),
        "something other than loops is between the loop and the block",
    ),
]  # fmt: skip


def ranged(name: str, begin: int, end: int) -> str:
    """A block that fills a part of a column."""
    return (
        f"    for i in range({begin}, {end}):\n        with T.block('{name}'):\n"
        f"            v = T.axis.spatial(8, i)\n            {name}[v, 0] = A[v, 0]\n"
    )


@pytest.mark.parametrize(("begin", "count"), [(0, 4), (2, 4), (4, 4), (0, 8), (0, 7), (1, 7)])
def test_a_copy_of_a_part_has_the_loops_of_the_part(begin: int, count: int) -> None:
    body = ranged("C", 0, count).replace("C[v, 0] = A[v, 0]", f"C[v] = A[v + {begin}, 0]")
    sch = Schedule(from_source(HEAD + body))
    copies = sch.get_loops(sch.cache_read("C", 0, "local"))
    assert [int(sch.get(loop).extent) for loop in copies] == [count, 1]


def in_condition(*names: str) -> str:
    """Blocks that use D in loops around a condition, a loop in it."""
    blocks = "".join(
        f"            for j in range(8):\n                with T.block('{n}'):\n"
        f"                    vi, vj = T.axis.remap('SS', [i, j])\n"
        f"                    {n}[vi, vj] = D[vi, vj] + A[vi, vj]\n"
        for n in names
    )
    return f"    for i in range(8):\n        if i < 4:\n{blocks}"


AXES = "v, u = T.axis.remap('SR', [i, k])"
HALVES = total().replace(AXES, "v, u = T.axis.spatial(4, i // 2), T.axis.reduce(8, k)")
READ_TWICE = """
    for i in range(8):
        with T.block("E"):
            vi = T.axis.spatial(8, i)
            E[vi, 0] = A[vi, 0]
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi, 0] = E[vi, 0]
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = E[vi, 0]
"""
CASES += [
    (in_condition("D") + in_condition("B"), lambda s: s.merge(*(s.get_loops(b)[1] for b in "DB")), "merged loops are directly inside the loops around"),
    (ranged("D", 0, 4) + ranged("B", 0, 5), lambda s: s.merge(*loops(s, "D", "B")), "start at 0 and have one extent\n  got: 4 and 5"),
    (ranged("D", 0, 4) + ranged("B", 4, 8), lambda s: s.merge(*loops(s, "D", "B")), "start at 0 and have one extent\n  got: 4 and 4"),
    (ranged("D", 4, 8) + ranged("B", 4, 8), lambda s: s.merge(*loops(s, "D", "B")), "start at 0 and have one extent\n  got: 4 and 4"),
    (
        HALVES,
        lambda s: s.decompose_reduction("C", s.get_loops("C")[0]),
        "the loops inside give block 'C' the same element several times\n  instead: a loop inside of those that repeat the reduction",
    ),
    (
        HALVES,
        lambda s: s.reorder(*s.get_loops("C")[::-1]),
        "loops inside the reduction of block 'C' would give it the same element twice\n  instead: keep such loops outside",
    ),
    (
        in_condition("D", "B"),
        lambda s: s.cache_inplace("D", 0, "local"),
        "block 'D' is under a condition, or another block in it\n  instead: loops and blocks only",
    ),
    (
        READ_TWICE,
        lambda s: s.cache_read("B", 0, "local", consumer_blocks=["B", "C"]),
        "E may hold elements that the blocks before its readers do not write\n  instead: consumer_blocks that share loops",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "step", "why"), CASES)
def test_refused(body: str, step: Callable[[Schedule], Any], why: str) -> None:
    sch = Schedule(from_source(HEAD + body), debug_mask="all")
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert why in str(error.value)


def test_orders_that_are_there_already() -> None:
    sch = Schedule(p.matmul)
    before, (i, j, k) = sch.mod["main"].body, sch.get_loops("C")
    sch.reorder(i)
    sch.reorder(i, j)
    sch.reorder(j, k)
    assert sch.mod["main"].body is before
    assert isinstance(before, tir.BlockRealize)


def rows(name: str, bounds: str, statement: str, kinds: str = "SS") -> str:
    """A block in a loop over rows, and one whose bounds may use the row."""
    return (
        f"    for i{name} in range(8):\n        for j{name} in range({bounds.replace('@', f'i{name}')}):\n"
        f"            with T.block('{name}'):\n"
        f"                vi, vj = T.axis.remap('{kinds}', [i{name}, j{name}])\n                {statement}\n"
    )


DEPENDENT = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32"), M: T.Buffer((8,), "int32")):
    D = T.alloc_buffer((8, 8))
    N = T.alloc_buffer((8,), "int32")
"""
FILL, MAKE_N = (
    "D[vi, vj] = A[vi, vj]",
    "    for n in range(8):\n        with T.block('N'):\n            v = T.axis.spatial(8, n)\n            N[v] = M[v]\n",
)
NEEDS_ROW = "would be outside of loop 'iB'\n  got: iB + 1, which depends on it"
READ_FROM = "the bounds of loops, or the axes of blocks, are read from "
USE = "B[vi, vj] = D[vi, vj] * T.float32(2)"


def both(s: Schedule, at: int) -> Any:
    return s.merge(*(s.get_loops(b)[at] for b in "DB"))


BOUNDS: dict[str, tuple[str, Callable[[Schedule], Any], str]] = {
    "merge": (rows("D", "@ + 1", FILL) + rows("B", "@ + 1", USE), lambda s: both(s, 1), ""),
    "merge backwards": (rows("D", "8 - @", FILL) + rows("B", "8 - @", USE), lambda s: both(s, 1), ""),
    "merge where equal": (
        rows("D", "T.min(@ + 1, 1)", FILL) + rows("B", "T.min(@ + 2, 1)", USE), lambda s: both(s, 1), "",
    ),
    "merge other lengths": (
        rows("D", "@ + 1", FILL) + rows("B", "8 - @", USE), lambda s: both(s, 1), "have one extent\n  got: iD + 1 and 8 - iB",
    ),
    "merge what is read": (rows("D", "M[@]", FILL) + rows("B", "M[@]", USE), lambda s: both(s, 1), ""),
    "merge what is read and written": (
        rows("D", "M[@]", "M[vi] = T.min(M[vi], 2)") + rows("B", "M[@]", "B[vi, vj] = A[vi, vj]"), lambda s: both(s, 1), READ_FROM + "M",
    ),
    "reindex": (rows("D", "8", FILL) + rows("B", "@ + 1", USE), lambda s: s.reindex("B", ("read", 0)), NEEDS_ROW),
    "reindex_cache_read": (
        rows("D", "8", FILL) + rows("B", "@ + 1", USE),
        lambda s: s.reindex_cache_read("B", 0, "local", lambda i, j: (j, i)),
        NEEDS_ROW,
    ),
    "transform_block_layout": (
        rows("B", "@ + 1", "B[vi, vj] = A[vi, vj]"), lambda s: s.transform_block_layout("B", lambda i, j: (j, i)), NEEDS_ROW,
    ),
    "cache_write": (
        rows("B", "@ + 1", "B[vi, vj] = A[vi, vj]"), lambda s: s.cache_write("B", 0, "local"), "with gaps, which the copy would fill",
    ),
    "cache_write of sums": (
        rows("B", "@ + 1", "with T.init():\n                    B[vi, 0] = T.float32(0)\n                B[vi, 0] = B[vi, 0] + A[vi, vj]", "SR"),
        lambda s: s.cache_write("B", 0, "local"), "",
    ),
    "cache_write of sums that may be empty": (
        rows("B", "@", "with T.init():\n                    B[vi, 0] = T.float32(0)\n                B[vi, 0] = B[vi, 0] + A[vi, vj]", "SR"),
        lambda s: s.cache_write("B", 0, "local"), "with gaps, which the copy would fill",
    ),
    "cache_write of bounds": (MAKE_N + rows("B", "N[@]", "B[vi, vj] = A[vi, vj]"), lambda s: s.cache_write("N", 0, "local"), READ_FROM + "N"),
    "compute_inline": (MAKE_N + rows("B", "N[@]", "B[vi, vj] = A[vi, vj]"), lambda s: s.compute_inline("N"), READ_FROM + "N"),
    "reverse_compute_inline": (
        rows("D", "8", FILL) + MAKE_N.replace("M[v]", "T.Cast('int32', D[v, 0])") + rows("B", "T.max(N[@], 0)", "B[vi, vj] = A[vi, vj]"),
        lambda s: s.reverse_compute_inline("N"), READ_FROM + "N",
    ),
    "compute_at": (
        MAKE_N + rows("B", "N[@]", "B[vi, vj] = A[vi, vj] + T.Cast('float32', N[vi])"), lambda s: s.compute_at("N", s.get_loops("B")[1]), READ_FROM + "N",
    ),
    "reorder": (
        rows("B", "8", "for k in range(M[vi]):\n                    with T.block('K'):\n                        M[vi] = T.int32(2)").replace("with T.block('B'):", "for u in range(1):").replace("vi, vj = T.axis.remap('SS', [iB, jB])", "").replace("vi", "iB"),
        lambda s: s.reorder(*s.get_loops("K")[1::-1]), READ_FROM + "M",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_that_depend_on_loops_or_memory(name: str) -> None:
    """The step keeps what is computed, outputs with holes included, or is refused and changes nothing."""
    body, step, why = BOUNDS[name]
    func = from_source(DEPENDENT + body)
    sch = Schedule(func, debug_mask="all")
    if not why:
        step(sch)
        rng = np.random.default_rng(5)
        given = [*rng.standard_normal((2, 8, 8)).astype("float32"), np.arange(8, dtype="int32")]
        made = [[a.copy() for a in given] for _ in range(2)]
        run(func, made[0])
        run(sch.mod["main"], made[1])
        for want, got in zip(*made, strict=True):
            np.testing.assert_array_equal(got, want)
        return
    before = sch.mod.script()
    with pytest.raises(ScheduleError) as error:
        step(sch)
    assert why in str(error.value)
    assert sch.mod.script() == before
