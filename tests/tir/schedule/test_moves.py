"""Where `compute_at` and `reverse_compute_at` find the values of axes, and how they bound them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.schedule import ScheduleError

from .util import check


def program(params: str, *nests: str) -> tir.PrimFunc:
    return from_source(f"@T.prim_func\ndef main({params}):\n" + "".join(nests))


def text(sch: tir.Schedule, block: str) -> str:
    return sch.get(sch.get_loops(block)[0]).script()


DOUBLE = """
    B = T.alloc_buffer((16,), "float32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(16, i)
            B[v] = A[v] * T.float32(2)
"""


def test_an_axis_that_runs_backwards() -> None:
    before = program(
        'A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")',
        DOUBLE.replace("B[v] =", "B[15 - v] ="),
        """
    for i in range(16):
        with T.block("C"):
            v = T.axis.spatial(16, i)
            C[v] = B[v] + T.float32(1)
""",
    )
    sch = tir.Schedule(before)
    sch.compute_at("B", sch.get_loops("C")[0])
    check(sch, before)
    assert "v = T.axis.spatial(16, 15 - i)" in text(sch, "C")


def test_memory_of_a_block_of_threads_is_filled_for_all_of_them() -> None:
    before = program(
        'A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")',
        DOUBLE.replace('"float32")', '"float32", scope="shared")', 1),
        """
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("C"):
                v = T.axis.spatial(16, b * 8 + t)
                C[v] = B[v] + T.float32(1)
""",
    )
    sch = tir.Schedule(before)
    sch.compute_at("B", sch.get_loops("C")[1])
    check(sch, before)
    assert [int(sch.get(loop).extent) for loop in sch.get_loops("B")] == [2, 8, 8]
    local = tir.Schedule(from_source(before.script().replace("shared", "local")))
    local.compute_at("B", local.get_loops("C")[1])
    assert len(local.get_loops("B")) == 2


CONCAT = """
    for i in range(24):
        with T.block("C"):
            v = T.axis.spatial(24, i)
            C[v] = T.if_then_else(8 <= v, B[v - 8], T.float32(0))
"""


def test_tests_name_what_moves_on_one_side() -> None:
    before = program('A: T.Buffer((16,), "float32"), C: T.Buffer((24,), "float32")', DOUBLE, CONCAT)
    sch = tir.Schedule(before)
    sch.compute_at("B", sch.get_loops("C")[0])
    check(sch, before)
    assert "T.where(8 <= i)" in text(sch, "C")


def test_a_part_of_a_domain_that_is_read_is_computed() -> None:
    nest = CONCAT.replace("24", "10").replace("for i in range(10)", "for o, i in T.grid(1, 10)")
    before = program('A: T.Buffer((16,), "float32"), C: T.Buffer((10,), "float32")', DOUBLE, nest)
    sch = tir.Schedule(before)
    sch.compute_at("B", sch.get_loops("C")[0])
    check(sch, before)
    assert int(sch.get(sch.get_loops("B")[1]).extent) == 2


def test_axes_that_are_one_to_one_with_the_dimensions_together() -> None:
    before = program(
        'A: T.Buffer((3, 16), "float32"), C: T.Buffer((6, 8), "float32")',
        """
    B = T.alloc_buffer((3, 16), "float32")
    for i, j in T.grid(3, 16):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * T.float32(2)
    for i, j in T.grid(6, 8):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = B[(v * 8 + w) // 16, (v * 8 + w) % 16]
""",
    )
    sch = tir.Schedule(before)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    check(sch, before)
    assert [int(sch.get(loop).extent) for loop in sch.get_loops("C")] == [3, 2, 8]


def test_a_fused_loop_of_symbolic_length_covers_the_domain() -> None:
    before = program(
        "a: T.handle, c: T.handle",
        """
    n = T.int32()
    A = T.match_buffer(a, (4, n), "float32")
    C = T.match_buffer(c, (4, n), "float32")
    B = T.alloc_buffer((4, n), "float32")
    for f in range(n * 4):
        with T.block("B"):
            v = T.axis.spatial(4, f // n)
            w = T.axis.spatial(n, f % n)
            B[v, w] = A[v, w] * T.float32(2)
    for i, j in T.grid(4, n):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            C[v, w] = B[v, w] + T.float32(1)
""",
    )
    sch = tir.Schedule(before)
    sch.reverse_compute_at("C", sch.get_loops("B")[0])
    check(sch, before, {"n": 3}, {"n": 1})
    assert "T.where" not in text(sch, "C")


def test_a_consumer_of_a_part_runs_where_the_part_is_computed() -> None:
    before = program(
        'A: T.Buffer((16,), "float32"), C: T.Buffer((3,), "float32")',
        DOUBLE.replace("range(16)", "T.serial(16)"),
        """
    for i in range(3):
        with T.block("C"):
            v = T.axis.spatial(3, i)
            C[v] = B[v] + T.float32(1)
""",
    )
    sch = tir.Schedule(before)
    outer, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_at("C", outer)
    check(sch, before)
    assert "T.where(i_0 * 4 + ax0 < 3)" in text(sch, "C")
    assert int(sch.get(sch.get_loops("C")[1]).extent) == 4


def test_a_reduction_goes_into_the_threads_that_make_its_parts() -> None:
    before = program(
        'A: T.Buffer((2, 8), "float32"), C: T.Buffer((2,), "float32")',
        """
    B = T.alloc_buffer((2, 8), "float32", scope="local")
    for b in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("B"):
                v, w = T.axis.remap("SS", [b, t])
                B[v, w] = A[v, w] * T.float32(2)
    for i, k in T.grid(2, 8):
        with T.block("C"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + B[v, w]
""",
    )
    sch = tir.Schedule(before)
    sch.reverse_compute_at("C", sch.get_loops("B")[1])
    check(sch, before)
    assert len(sch.get_loops("C")) == 2


def test_constants_around_the_whole_scope() -> None:
    before = program(
        'A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")',
        """
    B = T.alloc_buffer((4,), "float32")
    data = T.allocate_const([1.0, 2.0, 3.0, 4.0], "float32", [4])
    D = T.decl_buffer((4,), "float32", data=data)
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = A[v] + D[v]
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[v] + T.float32(1)
""",
    )
    steps: list[Callable[[tir.Schedule], Any]] = [
        lambda s: s.compute_at("B", s.get_loops("C")[0]),
        lambda s: s.reverse_compute_at("C", s.get_loops("B")[0]),
        lambda s: s.cache_read("C", 0, "local"),
        lambda s: s.cache_write("B", 0, "local"),
    ]
    for step in steps:
        sch = tir.Schedule(before)
        step(sch)
        check(sch, before)


def test_what_a_predicate_says_already_is_not_said_again() -> None:
    before = program(
        'A: T.Buffer((16,), "float32"), C: T.Buffer((12,), "float32")',
        """
    B = T.alloc_buffer((12,), "float32")
    for i in range(16):
        with T.block("B"):
            v = T.axis.spatial(12, i)
            T.where(i < 12)
            B[v] = A[v] * T.float32(2)
    for i in range(12):
        with T.block("C"):
            v = T.axis.spatial(12, i)
            C[v] = B[v] + T.float32(1)
""",
    )
    sch = tir.Schedule(before)
    sch.reverse_compute_inline("C")
    check(sch, before)
    assert "T.where(i < 12)" in text(sch, "B")


def test_declared_regions_are_noted_one_by_one() -> None:
    before = program(
        'A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")',
        """
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = A[v] + B[v]
""",
    )
    sch = tir.Schedule(before)
    for n in (0, 1, 0):
        sch.annotate_buffer_access("C", n, "read", lambda v: [(0, 4)])
    block = sch.get(sch.get_block("C"))
    assert [int(n) for n in block.annotations["explicit_read_region"]] == [1, 0]
    check(sch, before)


def test_regions_of_two_types_are_declared_again_from_a_trace() -> None:
    before = program(
        'A: T.Buffer((4,), "float32"), C: T.Buffer((T.int64(2), 4), "float32")',
        """
    for i in range(4):
        for j in range(T.int64(2)):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                w = T.axis.spatial(T.int64(2), j)
                C[w, v] = A[v]
""",
    )
    sch = tir.Schedule(before)
    region = (T.int64(0), T.int64(2)), (0, 4)
    sch.annotate_buffer_access("C", 0, "write", lambda v, w: region)
    check(sch, before)


def test_bindings_are_flat_sums_and_single_remainders() -> None:
    """As TVM writes them: all of what is split in one sum, of fused loops a quotient of a remainder."""
    before = program('A: T.Buffer((16,), "float32")', DOUBLE)
    sch = tir.Schedule(before, debug_mask="all")
    first, _ = sch.split(sch.get_loops("B")[0], [None, 4])
    sch.split(first, [2, 2])
    assert "v = T.axis.spatial(16, i_0_0 * 8 + i_0_1 * 4 + i_1)" in text(sch, "B")
    sch.fuse(*sch.get_loops("B"))
    assert "T.axis.spatial(16, i_0_0_i_0_1_i_1_fused)" in text(sch, "B")
    grid = from_source("""
@T.prim_func
def main(n: T.int32, b: T.handle):
    B = T.match_buffer(b, (4, 8, n), "float32")
    for i, j, k in T.grid(4, 8, n):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = T.Cast("float32", vi + vj)
""")
    sch = tir.Schedule(grid, debug_mask="all")
    sch.fuse(*sch.get_loops("B"))
    assert "vj = T.axis.spatial(8, i_j_k_fused % (n * 8) // n)" in text(sch, "B")


@pytest.mark.parametrize(
    ("shape", "place", "reader"),
    [
        ("(8, 1)", "[v, 0]", "[v, 0]"),
        ("(1, 8)", "[0, v]", "[0, v]"),
        ("(8, 2)", "[v, 0]", None),
        ("(8, 1)", "[7 - v, 0]", None),
    ],
)
def test_inlining_of_blocks_that_write_axes_of_one_element(shape, place, reader) -> None:
    """Each index is an axis of its own, or a literal where there is one element."""
    func = from_source(f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer({shape})
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B{place} = A[v] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B{reader or place} + T.float32(1)
""")
    sch = tir.Schedule(func, debug_mask="all")
    if reader is None:
        with pytest.raises(ScheduleError):
            sch.compute_inline("B")
        return
    sch.compute_inline("B")
    assert "C[v] = A[v] * T.float32(2.0) + T.float32(1.0)" in sch.mod.script()
    check(sch, func)
