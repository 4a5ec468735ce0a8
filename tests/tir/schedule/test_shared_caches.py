"""Caches where the blocks share loops: the copy stands in the loop, and holds what one iteration
needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.ir.prim_expr import IntImm
from loopwright.script import from_source
from loopwright.tir.schedule import ScheduleError

from ...programs import matmul, two_steps, vectors
from .util import arguments, check, outcome

CHAIN = two_steps(8, 6)
STENCIL = vectors(
    {"A": 15, "C": 13},
    "B[vi] = A[vi] * T.float32(2)",
    "C[vi] = B[vi] + B[vi + 1] * T.float32(3) + B[vi + 2]",
    B=15,
)
MATMUL = matmul(8, 8, 8, D="T.max(C[vi, vj], T.float32(0))")
INPLACE = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
    for i in range(8):
        for j in range(4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, 3 - vj]
""")


def native(sch: tir.Schedule, before: tir.PrimFunc) -> None:
    """Compiled, the program gives what the unscheduled one gives."""
    args = arguments(before)
    lw.compile(sch.mod["main"].with_attr("tir.is_scheduled", True))["main"](*args)
    for made, wanted in zip(args, outcome(before), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5)


def fused(s: tir.Schedule) -> None:
    s.compute_at("B", s.get_loops("C")[0])


def tiled(s: tir.Schedule) -> None:
    outer, _ = s.split(s.get_loops("C")[0], [None, 4])
    s.compute_at("B", outer)


def rows(s: tir.Schedule) -> None:
    s.reverse_compute_at("D", s.get_loops("C")[0])


def parallel_rows(s: tir.Schedule) -> None:
    rows(s)
    s.parallel(s.get_loops("C")[0])


Step = Callable[[tir.Schedule], Any]
CASES: dict[str, tuple[tir.PrimFunc, Step, Step, str]] = {
    "read": (CHAIN, fused, lambda s: s.cache_read("C", "B", "local"), "1 6"),
    "write": (CHAIN, fused, lambda s: s.cache_write("B", "B", "local"), "1 6"),
    "read of an output": (CHAIN, fused, lambda s: s.cache_write("C", "C", "local"), "8 6"),
    "input": (CHAIN, fused, lambda s: s.cache_read("B", "A", "local"), "8 6"),
    "reindex": (CHAIN, fused, lambda s: s.reindex("C", ("read", 0)), "6"),
    "reindex write": (CHAIN, fused, lambda s: s.reindex("B", ("write", 0)), "6"),
    "reindex_cache_read": (
        CHAIN,
        fused,
        lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j: (j, i)),
        "6",
    ),
    "reindex_cache_write": (
        CHAIN,
        fused,
        lambda s: s.reindex_cache_write("B", 0, "local", lambda i, j: (j, i)),
        "6",
    ),
    "stencil read": (STENCIL, tiled, lambda s: s.cache_read("C", "B", "local"), "6"),
    "stencil write": (STENCIL, tiled, lambda s: s.cache_write("B", "B", "local"), "6"),
    "reduction": (MATMUL, rows, lambda s: s.cache_write("C", "C", "local"), "1 8"),
    "reduction, parallel": (MATMUL, parallel_rows, lambda s: s.cache_write("C", 0, "local"), "1 8"),
    "reduction's input": (MATMUL, rows, lambda s: s.cache_read("D", "C", "local"), "1 8"),
    "in place": (INPLACE, lambda s: None, lambda s: s.cache_inplace("A", 0, "local")[0], "1 4"),
    "behind in place": (
        INPLACE,
        lambda s: None,
        lambda s: s.cache_read("C", "A", "local", ["C"]),
        "1 4",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_copy_stands_in_the_shared_loop(name: str) -> None:
    func, share, step, extents = CASES[name]
    sch = tir.Schedule(func, debug_mask="all")
    share(sch)
    copy = step(sch)
    scope = sch.get_sref(copy).parent
    inner = []
    while scope is not None and not scope.is_block:
        inner.append(scope)
        scope = scope.parent
    own = [r for r in inner if r.stmt.loop_var.name.startswith("ax")]
    assert " ".join(str(r.stmt.extent) for r in reversed(own)) == extents
    check(sch, func)
    native(sch, func)


def test_a_copy_in_place_of_all_that_is_read_and_written() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32")):
    for i in range(4):
        with T.block("A"):
            v = T.axis.spatial(4, i)
            A[v + 7] = A[v + 2] * T.float32(2)
""")
    sch = tir.Schedule(func, debug_mask="all")
    copy = sch.cache_inplace("A", 0, "local")[0]
    (loop,) = sch.get_loops(copy)
    assert sch.get(loop).extent.value == 9, "elements 2 to 10"
    check(sch, func)


def test_several_levels_and_readers() -> None:
    """The copy goes as far out as no writer comes between it and those that read it."""
    sch = tir.Schedule(CHAIN, debug_mask="all")
    sch.compute_at("B", sch.get_loops("C")[1])
    first = sch.cache_read("C", "B", "local")
    second = sch.cache_read("C", "B_local", "shared")
    assert [len(sch.get_loops(b)) for b in (first, second)] == [4, 4]
    check(sch, CHAIN)
    native(sch, CHAIN)


def test_a_copy_in_a_vectorized_loop_is_refused() -> None:
    sch = tir.Schedule(CHAIN)
    loop = sch.get_loops("C")[1]
    sch.compute_at("B", loop)
    sch.vectorize(loop)
    with pytest.raises(ScheduleError, match="vectorized loop"):
        sch.cache_read("C", "B", "local")


GAPS = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[{index}] = A[v]
"""


@pytest.mark.parametrize("index", ["v * 2, 0", "v, v", "0, v // 2 * 3 + v % 2"])
def test_what_lies_between_is_not_written_over(index: str) -> None:
    """The output keeps what the block does not write."""
    func = from_source(GAPS.format(index=index))
    for step in (
        lambda s: s.cache_write("B", 0, "local"),
        lambda s: (s.split(s.get_loops("B")[0], [None, 2]), s.cache_write("B", 0, "local")),
    ):
        sch = tir.Schedule(func)
        with pytest.raises(ScheduleError, match="gaps"):
            step(sch)


def test_only_the_domain_is_copied_back() -> None:
    func = from_source(
        GAPS.format(index="0, v").replace("range(4)", "range(3)").replace("(4, i)", "(3, i)")
    )
    sch = tir.Schedule(func, debug_mask="all")
    sch.split(sch.get_loops("B")[0], [None, 2])
    sch.cache_write("B", 0, "local")
    check(sch, func)
    native(sch, func)


SCOPES = ("global", "global.vtcm", "local", "shared", "shared.dyn", "warp", "wmma.matrix_a")
MORE_SCOPES = ("m16n8k8.matrixC", "texture", "texture-nhwc", "my_chip.scratch", "global:3")


@pytest.mark.parametrize("scope", [*SCOPES, *MORE_SCOPES])
def test_storage_scopes(scope: str) -> None:
    sch = tir.Schedule(CHAIN)
    copy = sch.cache_read("C", "B", scope)
    assert sch.get(copy).writes[0].buffer.scope() == scope


@pytest.mark.parametrize("scope", ["glbal", "share", ".x", "x.", "my scope"])
def test_unknown_storage_scopes(scope: str) -> None:
    steps: list[Step] = [
        lambda s: s.cache_read("C", "B", scope),
        lambda s: s.cache_write("B", "B", scope),
        lambda s: s.set_scope("B", 0, scope),
        lambda s: s.cache_index("B", scope),
        lambda s: s.reindex_cache_read("C", 0, scope, lambda i, j: (j, i)),
        lambda s: s.read_at(s.get_loops("C")[0], s.get_block("C"), 0, scope),
    ]
    for step in steps:
        with pytest.raises(ScheduleError, match='no such storage scope(.|\n)*"shared.dyn"'):
            step(tir.Schedule(CHAIN))


def test_marks_of_places() -> None:
    inline, root = tir.schedule.StmtSRef.inline_mark(), tir.schedule.StmtSRef.root_mark()
    assert inline.stmt is None and root.stmt is None and inline is not root


INSIDE = from_source("""
@T.prim_func
def main(B: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    A = T.alloc_buffer((8, 8))
    for i0, j0 in T.grid(2, 2):
        with T.block("tile"):
            i, j = T.axis.remap("SS", [i0, j0])
            for x, y in T.grid(4, 4):
                with T.block("A"):
                    vi = T.axis.spatial(8, i * 4 + x)
                    vj = T.axis.spatial(8, j * 4 + y)
                    A[vi, vj] = T.float32(3) * T.Cast("float32", vi * 8 + vj)
            for x, y in T.grid(4, 4):
                with T.block("B"):
                    vi = T.axis.spatial(8, i * 4 + x)
                    vj = T.axis.spatial(8, j * 4 + y)
                    B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(8, 8):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * T.float32(2)
""")


@pytest.mark.parametrize("name", ["B", "C"])
def test_the_copy_in_a_block_has_the_shape_of_what_it_holds(name: str) -> None:
    sch = tir.Schedule(INSIDE, debug_mask="all")
    copy = sch.get(sch.cache_read(name, "A", "local"))
    assert tuple(map(int, copy.writes[0].buffer.shape)) == ((4, 4) if name == "B" else (8, 8))
    check(sch, INSIDE)
    native(sch, INSIDE)


def test_a_block_that_reads_what_it_wrote_is_copied_from() -> None:
    """What the tile reads of A it has written itself, so nothing of A is lost."""
    sch = tir.Schedule(INSIDE, debug_mask="all")
    back = sch.get(sch.cache_write("A", 0, "local"))
    assert tuple(map(int, back.reads[0].buffer.shape)) == (4, 4)
    sch.cache_write("tile", "A", "global")
    check(sch, INSIDE)
    native(sch, INSIDE)


READERS = from_source("""
@T.prim_func
def main(B: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    A = T.alloc_buffer((16,))
    for i in range(4):
        for j in range(4):
            with T.block("A"):
                v = T.axis.spatial(16, i * 4 + j)
                A[v] = T.Cast("float32", v)
        for j in range(4):
            with T.block("B"):
                v = T.axis.spatial(16, i * 4 + j)
                B[v] = A[v] + T.float32(1)
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = A[v]
""")


@pytest.mark.parametrize(("users", "loops"), [(["B", "C"], 2), (["B"], 2), (["C"], 1)])
def test_readers_inside_and_outside_of_the_writers_loop(users: list[str], loops: int) -> None:
    sch = tir.Schedule(READERS, debug_mask="all")
    copy = sch.cache_read("B", "A", "local", users)
    assert len(sch.get_loops(copy)) == loops
    reads = {name: sch.get(sch.get_block(name)).reads[0].buffer.name for name in ("B", "C")}
    assert reads == {name: "A_local" if name in users else "A" for name in ("B", "C")}
    check(sch, READERS)
    native(sch, READERS)


def test_copies_of_results_stand_at_the_end() -> None:
    sch = tir.Schedule(READERS, debug_mask="all")
    copy = sch.cache_write("B", "B", "local")
    last = sch.get_child_blocks(sch.get_block("root"))[-1]
    assert sch.get(last) is sch.get(copy)
    check(sch, READERS)


WINDOW = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            T.reads(A[v * 4 : v * 4 + 4, 0:8])
            T.writes(B[v * 4 : v * 4 + 4, 0:8])
            W = T.match_buffer(A[v * 4 : v * 4 + 4, 0:8], (4, 8), strides=(8, 1), offset_factor=1)
            for x, y in T.grid(4, 8):
                B[v * 4 + x, y] = W[x, y] * T.float32(2)
""")


def test_a_matched_buffer_is_copied_in_its_own_scope() -> None:
    sch = tir.Schedule(WINDOW, debug_mask="all")
    sch.cache_read("B", "A", "global")
    check(sch, WINDOW)
    native(sch, WINDOW)
    with pytest.raises(ScheduleError, match="pointer or a match"):
        tir.Schedule(WINDOW).cache_read("B", "A", "local")


def test_what_a_block_copies_may_differ_in_size_from_iteration_to_iteration() -> None:
    before = vectors({"A": 3, "B": 6}, "B[vi] = A[vi // 2] + A[T.min((vi + 1) // 2, 2)]")
    s = tir.Schedule(before)
    inner = s.get_child_blocks(s.blockize(s.get_block("B"), preserve_unit_iters=False))[0]
    copy = s.get(s.cache_read(inner, 0, "local"))
    assert all(isinstance(d, IntImm) for d in copy.writes[0].buffer.shape)
    check(s, before)
    native(s, before)
