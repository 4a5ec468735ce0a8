"""Steps that random schedules took and that were wrong, each on the smallest program: refused now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir.schedule import ScheduleError

Step = Callable[[tir.Schedule], Any]
PROGRAM = """
@T.prim_func
def main(A: T.Buffer({a}), C: T.Buffer({c})):
    B = T.alloc_buffer({b})
    D = T.alloc_buffer({b})
{body}
"""

# Iterations that run together: what each writes is its own, or used by it alone.
COPIES = """
    for i in range(1):
        with T.block("B"):
            v = T.axis.spatial(1, i)
            B[v] = A[v]
    for i in T.parallel(2):
        for k in range(1):
            with T.block("D"):
                v = T.axis.spatial(1, k)
                D[v] = B[v]
        with T.block("C"):
            v = T.axis.spatial(1, i)
            T.where(i < 1)
            C[v] = D[v]
"""
THREADS = """
    for i in T.thread_binding(2, thread="vthread.x"):
        for j in range(3):
            with T.block("B"):
                v = T.axis.spatial(2, i + j)
                T.where(j < 1)
                B[v] = A[v]
    for i in range(2):
        with T.block("C"):
            v = T.axis.spatial(2, i)
            C[v] = B[v]
"""
OVERLAP = """
    for i in range(3):
        for k in range(2):
            with T.block("C"):
                v = T.axis.spatial(4, i + k)
                C[v] = A[v]
"""
SCATTER = """
    for i in range(3):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            T.where(i < 2)
            C[B[v]] = A[v]
        with T.block("D"):
            v = T.axis.spatial(2, i)
            T.where(i < 2)
            A[v] = C[B[v]]
"""
NOTHING = """
    for i in range(1):
        for j in range(5):
            with T.block("C"):
                v = T.axis.spatial(2, i + j)
                T.where(j < 0)
                C[v] = A[v]
"""
OUTER_INIT = """
    for i in range(3):
        with T.block("C_o"):
            vi = T.axis.reduce(3, i)
            with T.init():
                for j in range(6):
                    with T.block("C_init"):
                        vj = T.axis.spatial(6, j)
                        C[vj] = T.float32(0)
            for j in range(6):
                with T.block("C"):
                    vj = T.axis.spatial(6, j)
                    C[vj] = C[vj] + A[vi * 6 + vj]
"""
TWO_BRANCHES = """
    for i in range(6):
        if i < 3:
            with T.block("B"):
                v = T.axis.spatial(6, i)
                C[v] = A[v]
        else:
            with T.block("C"):
                v = T.axis.spatial(6, i)
                C[v] = A[v] + T.float32(1)
"""
LEFT = """
    for i in T.vectorized(3):
        for k in range(2):
            with T.block("D"):
                v = T.axis.spatial(5, i + k * 2)
                D[v] = A[v]
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + D[vi + vk * 2]
    for i in range(3):
        with T.block("C"):
            v = T.axis.spatial(3, i)
            C[v] = B[v]
"""
COPIED = """
    for i in T.thread_binding(2, thread="vthread.x"):
        for k in range(2):
            with T.block("D"):
                v = T.axis.spatial(2, k)
                D[v] = A[v]
        with T.block("B"):
            v = T.axis.spatial(2, i)
            B[v] = D[v]
    for i in range(2):
        with T.block("C"):
            v = T.axis.spatial(2, i)
            C[v] = B[v]
"""
LANES = """
    for i, k in T.grid(4, 6):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi * 6 + vk]
    for i in T.vectorized(5):
        with T.block("C"):
            v = T.axis.spatial(5, i)
            T.reads(B[0:4])
            T.writes(C[v])
            C[v] = B[v % 4]
"""
# Blocks that run over a part of their axes, or compute a part of a box.
PART = """
    for i, j in T.grid(4, 1):
        with T.block("B"):
            vi = T.axis.spatial(4, i)
            vj = T.axis.spatial(2, j)
            B[vi] = A[vi, vj]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v]
"""
SPARSE = """
    for i, j in T.grid(4, 72):
        with T.block("B"):
            vi = T.axis.spatial(18, (i * 72 + j) // 16)
            vj = T.axis.spatial(16, (i * 72 + j) % 16)
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(18, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
TWO_WRITERS = """
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(6, i)
            vj = T.axis.spatial(4, 0)
            B[vi, vj] = A[vi, vj]
    for i in range(22):
        with T.block("B1"):
            vi = T.axis.spatial(6, (i + 2) % 6)
            vj = T.axis.spatial(4, (i + 2) // 6)
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(6, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj]
"""
UNUSED = """
    for i, j, k in T.grid(2, 1, 6):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("S{kind}R", [i, j, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk] * A[vi, vk]
"""
IN_PLACE = """
    for i, k in T.grid(4, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vk]
"""

INSIDE = """
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = A[v]
    for i in range(1, 5):
        with T.block("C_i"):
            v = T.axis.spatial((1, 5), i)
            C[v] = C[v] + T.float32(1)
"""
TRIANGLE = """
    for i in range(6):
        with T.block("D"):
            v = T.axis.spatial(6, i)
            D[v] = A[v, 0]
    for i in range(6):
        for k in range(T.min(i + 1, 4)):
            with T.block("B"):
                v, vk = T.axis.spatial(6, i), T.axis.reduce(4, k)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, vk] * D[v]
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v]
"""


def to(block: str, target: str, loop: int, how: str) -> Step:
    return lambda sch: getattr(sch, how)(block, sch.get_loops(target)[loop])


TOGETHER = "conflict with each other|write the same elements|each iteration of the parallel loop"
CASES: dict[str, tuple[str, list[Any], Step, str]] = {
    "inlined into copies": (COPIES, [1, 1, 1], lambda s: s.reverse_compute_inline("C"), TOGETHER),
    "threads that overlap": (
        THREADS,
        [2, 2, 2],
        to("C", "B", 1, "reverse_compute_at"),
        "what other iterations",
    ),
    "out of lanes": (
        LEFT,
        [5, 5, 3],
        to("B", "C", 0, "compute_at"),
        TOGETHER,
    ),
    "out of threads": (COPIED, [2, 2, 2], lambda s: s.compute_inline("B"), TOGETHER),
    "a sum in each lane": (LANES, [24, 4, 5], to("B", "C", 0, "compute_at"), TOGETHER),
    "a part of an axis": (PART, [(4, 2), 4, 4], to("B", "C", 0, "compute_at"), "only a part of"),
    "a part of a box": (
        SPARSE,
        [(18, 16)] * 3,
        to("C", "B", 0, "reverse_compute_at"),
        "has not written in this iteration",
    ),
    "a triangle into a loop over its rows": (
        TRIANGLE,
        [(6, 4), 6, 6],
        to("B", "C", 0, "compute_at"),
        "only a part of the domain",
    ),
    "a triangle to what it reads": (
        TRIANGLE,
        [(6, 4), 6, 6],
        to("B", "D", 0, "reverse_compute_at"),
        "only a part of its axes",
    ),
    "a block of a triangle's rows": (
        TRIANGLE.replace("4", "1"),
        [(6, 1), 6, 6],
        lambda s: s.blockize(s.get_loops("B")[1]),
        "the range of loop 'k' depends on loops outside",
    ),
    "lanes that write one element": (
        OVERLAP,
        [4, 4, 4],
        lambda s: s.vectorize(s.get_loops("C")[0]),
        "iterations of loop 'i' conflict",
    ),
    "virtual threads that write one element": (
        OVERLAP,
        [4, 4, 4],
        lambda s: s.bind(s.get_loops("C")[0], "vthread.x"),
        "iterations of loop 'i' conflict",
    ),
    "an init and an update as one block": (
        OUTER_INIT,
        [18, 6, 6],
        lambda s: s.blockize([s.get_block("C_init"), s.get_block("C")]),
        "the blocks do not follow each other directly",
    ),
    "two branches as one block": (
        TWO_BRANCHES,
        [6, 6, 6],
        lambda s: s.blockize([s.get_block("B"), s.get_block("C")]),
        "the blocks do not follow each other directly",
    ),
    "axes that begin at 1": (
        INSIDE,
        [6, 6, 6],
        lambda s: s.transform_block_layout("C_i", lambda i: (i // 2, i % 2)),
        "'v' of block 'C_i' does not begin at 0\n  got: 1",
    ),
    "another writer": (
        TWO_WRITERS,
        [(6, 4)] * 3,
        lambda s: s.write_at(s.get_loops("B1")[0], s.get_block("B1"), 0, "shared"),
        "B is written by several blocks\n  got: B, B1",
    ),
    "a spatial axis that indexes nothing": (
        UNUSED.format(kind="S"),
        [(2, 6), 1, 2],
        lambda s: s.pad_einsum("C", [1, 4, 1]),
        "'vj' of block 'C' cannot be padded\n  got: it indexes no element of the result",
    ),
    "a sum that begins with what is there": (
        IN_PLACE,
        [4, 4, 4],
        lambda s: s.reindex_cache_write("C", 0, "local", lambda i, k: (i,)),
        "updates C in place",
    ),
    "a map of too few axes": (
        IN_PLACE,
        [4, 4, 4],
        lambda s: s.reindex_cache_read("C", "A", "local", lambda i: (i,)),
        "block 'C' has 2 axes\n  got: a map of 1\n  instead: a map of each axis",
    ),
    "a copy of what data says, where the loop may not run": (
        SCATTER,
        [2, '2, "int32"', 4],
        lambda s: s.cache_write("B", 0, "local"),
        "depends on data",
    ),
    "a block that never runs": (
        NOTHING,
        [2, 2, 2],
        lambda s: s.blockize(s.get_loops("C")[1]),
        "'v' does not split at the loop",
    ),
    "a reduction that indexes nothing": (
        UNUSED.format(kind="R"),
        [(2, 6), 1, 2],
        lambda s: s.pad_einsum("C", [1, 4, 1]),
        "'vj' of block 'C' cannot be padded\n  got: it indexes no operand",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    body, (a, b, c), step, match = CASES[name]
    sch = tir.Schedule(from_source(PROGRAM.format(a=a, b=b, c=c, body=body)), debug_mask="all")
    text = sch.mod.script()
    with pytest.raises(ScheduleError, match=match):
        step(sch)
    assert sch.mod.script() == text
