"""What random programs under random schedules have found: one test for each."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import transform as tt
from loopwright.tir.analysis import out_of_bounds_errors, race_errors, verify_well_formed
from loopwright.tir.interpreter import run
from loopwright.tir.schedule import ScheduleError, Trace
from loopwright.tir.transform import default_tir_pipeline

from ...programs import row_sums, two_steps, vectors
from . import programs as p
from .intrinsics import matching
from .util import arguments, check


def refused(step: Any, match: str) -> None:
    with pytest.raises(ScheduleError, match=match):
        step()


COPY = two_steps(8, 6, "A[vi, vj]")


def tensorized() -> tir.Schedule:
    sch = tir.Schedule(COPY, debug_mask="all")
    inner = sch.split(sch.get_loops("B")[1], [None, 3])[1]
    names = matching(sch.get(sch.get_block("B")), 3)
    sch.tensorize(inner, next(n for n in names if ".copy." in n))
    return sch


# ---------------------------------------------------------------------- traces


def replayed_as_python(sch: tir.Schedule, func: tir.PrimFunc) -> tir.Schedule:
    scope: dict[str, Any] = {"tir": tir, "T": T}
    exec(str(sch.trace), scope)
    again = tir.Schedule(func)
    scope["apply_trace"](again)
    return again


def test_a_single_result_of_a_list_is_unpacked_in_the_python_of_a_trace() -> None:
    func, _ = p.PROGRAMS["matmul"]
    sch = tir.Schedule(func)
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    sch.vectorize(sch.get_loops(block)[1])
    assert "b1, = sch.get_child_blocks(block_or_loop=b0)" in str(sch.trace)
    assert_structural_equal(replayed_as_python(sch, func).mod, sch.mod)


def test_text_as_an_annotation_is_no_random_variable_in_json() -> None:
    sch = tir.Schedule(COPY)
    sch.annotate(sch.get_block("B"), "note", "b0")
    again = tir.Schedule(COPY)
    Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json()), again)
    assert again.get(again.get_block("B")).annotations["note"] == "b0"


def test_index_maps_of_a_trace_take_the_type_of_the_buffer() -> None:
    sch = tir.Schedule(COPY)
    sch.transform_layout("B", ("write", 0), lambda i, j: (j // 2, i, j % 2))
    sch.transform_block_layout("C", lambda i, j: (i * 6 + j,))
    again = replayed_as_python(sch, COPY)
    assert again.mod.script() == sch.mod.script()
    assert "int64" not in again.mod.script()


# ---------------------------------------------------------------------- blocks with windows


def test_parts_of_a_partitioned_loop_have_windows_of_their_own() -> None:
    sch = tensorized()
    sch.loop_partition(sch.get_loops("B_o")[0], [None, 3])
    check(sch, COPY)


def test_blockize_around_a_window() -> None:
    sch = tensorized()
    sch.blockize(sch.get_loops("B_o")[1])
    check(sch, COPY)


def test_the_type_of_a_matched_buffer_changes_with_it() -> None:
    sch = tensorized()
    sch.unsafe_set_dtype("B_o", 0, "float64")
    check(sch, COPY)


def test_reindex_tells_inner_blocks_of_the_new_buffer() -> None:
    sch = tir.Schedule(COPY, debug_mask="all")
    outer = sch.blockize(sch.get_loops("C")[1])
    sch.reindex_cache_read(sch.get_block("C"), 0, "global", lambda *v: v)
    del outer
    check(sch, COPY)


def test_copies_of_bound_loops_have_threads_of_their_own() -> None:
    func, _ = p.PROGRAMS["matmul"]
    sch = tir.Schedule(func)
    i, _, k = sch.get_loops("C")
    sch.bind(i, "vthread.x")
    sch.rfactor(sch.split(k, [None, 4])[1], 0)
    check(sch, func)


def test_unroll_takes_the_thread_off() -> None:
    sch = tir.Schedule(COPY)
    loop = sch.get_loops("B")[0]
    sch.bind(loop, "vthread.x")
    sch.unroll(loop)
    assert sch.get(loop).thread_binding is None
    check(sch, COPY)


def test_only_loops_of_a_known_length_are_vectorized() -> None:
    func, _ = p.PROGRAMS["symbolic_add"]
    sch = tir.Schedule(func)
    refused(
        lambda: sch.vectorize(sch.get_loops("D")[1]), "not have a constant number of iterations"
    )


# ---------------------------------------------------------------------- inlining


def test_reverse_inline_makes_every_element() -> None:
    """The padding would not be written."""
    func = vectors(
        {"A": 8, "C": 12},
        "B[vi] = A[vi] * T.float32(2)",
        "C[vi] = T.if_then_else(vi < 8, B[vi], T.float32(0))",
        B=8,
    )
    sch = tir.Schedule(func)
    refused(lambda: sch.reverse_compute_inline("C"), "read outside of B")


def test_what_is_read_before_stays() -> None:
    steps = "D[vi] = B[vi]", "B[vi] = A[vi] * T.float32(2)", "C[vi] = B[vi]"
    sch = tir.Schedule(vectors({"A": 8, "C": 8}, *steps, B=8, D=8))
    refused(lambda: sch.compute_inline("B"), "before it is written")


GATHERED = {"A": 8, "I": 6, "C": 6}


def test_indices_are_copied_before_what_they_index() -> None:
    func = vectors(GATHERED, "C[vi] = A[T.floormod(I[vi], 8)]")
    sch = tir.Schedule(func)
    copy = sch.cache_read("C", 1, "global")
    sch.reverse_compute_at("C", sch.get_loops(copy)[0])
    sch.reindex_cache_read("C", 0, "global", lambda v: (v,))
    check(sch, func)


def test_a_split_keeps_data_dependent_places_in_range() -> None:
    sch = tir.Schedule(vectors(GATHERED, "C[vi] = A[I[vi]]"))
    sch.read_at(sch.get_loops("C")[0], sch.get_block("C"), 0, "shared")
    sch.split(sch.get_loops("C")[0], [None, 4])
    after = sch.mod["main"]
    assert not out_of_bounds_errors(after)
    data, result = np.arange(8, dtype="float32"), np.zeros(6, "float32")
    run(after, [data, np.array([3, 1, 7, 0, 2, 5], "int32"), result])
    np.testing.assert_array_equal(result, [3, 1, 7, 0, 2, 5])


# ---------------------------------------------------------------------- loops


@pytest.mark.parametrize("copied", [False, True])
def test_a_reader_of_a_rolling_buffer_stays_in_its_loop(copied: bool) -> None:
    func, _ = p.PROGRAMS["conv2d"]
    sch = tir.Schedule(func)
    sch.compute_at("pad", sch.get_loops("conv")[3])
    sch.rolling_buffer("pad", 0)
    if copied:
        sch.cache_read("conv", 0, "shared")
    refused(lambda: sch.compute_at("conv", sch.get_loops("relu")[1]), "writes over later")
    check(sch, func)


def test_what_is_computed_from_a_rolling_buffer_may_be_read_elsewhere() -> None:
    func, _ = p.PROGRAMS["conv2d"]
    sch = tir.Schedule(func)
    sch.compute_at("pad", sch.get_loops("conv")[3])
    sch.rolling_buffer("pad", 0)
    sch.cache_write("relu", 0, "local")
    sch.reverse_compute_at("relu", sch.get_loops("conv")[3])
    sch.compute_at("relu", sch.get_loops("Y_local")[1])
    check(sch, func)


def test_a_merged_loop_has_the_wider_dtype() -> None:
    @T.prim_func
    def func(
        A: T.Buffer((T.int64(1),), "float32"),
        B: T.Buffer((T.int64(1),), "float32"),
        C: T.Buffer((T.int64(1),), "float32"),
    ):
        for i in range(T.int64(1)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(1), i)
                B[v] = A[v]
        for i in range(T.int64(1)):
            with T.block("C"):
                v = T.axis.spatial(T.int64(1), i)
                C[v] = A[v]

    sch = tir.Schedule(func)
    unit = sch.add_unit_loop(sch.get_loops("B")[0])
    (wide,) = sch.get_loops("C")
    merged = sch.merge(unit, wide)
    assert sch.get(merged).loop_var.dtype == "int64"
    check(sch, func)


def test_blockize_refuses_an_axis_that_is_read_of_a_buffer() -> None:
    @T.prim_func
    def f(I: T.Buffer((2,), "int32"), C: T.Buffer((8,), "float32")):
        for i in range(2):
            with T.block("C"):
                v = T.axis.spatial(8, I[i])
                C[v] = T.float32(1)

    sch = tir.Schedule(f)
    refused(lambda: sch.blockize(sch.get_loops("C")[0]), "does not split at the loop")


@pytest.mark.parametrize("start", [1, 2, 3])
def test_blockize_refuses_an_axis_that_begins_above_its_least_value(start: int) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), C: T.Buffer((4,), "int32")):
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, (i + start) % 4)
                C[v] = A[v]

    sch = tir.Schedule(f)
    refused(lambda: sch.blockize(sch.get_loops("C")[0]), "does not split at the loop")


def test_iterations_that_write_the_same_are_not_parallel() -> None:
    """`B` is made again in each iteration, and read by another nest too."""
    sch = tir.Schedule(
        from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8, 4), "float32"), D: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi]
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[v]
""")
    )
    i, j = sch.get_loops("C")
    fused = sch.fuse(i, j)
    refused(lambda: sch.parallel(fused), "conflict with each other|write the same elements")


def test_loops_of_dependent_lengths_are_judged_as_they_run() -> None:
    """The second iteration of j exists for some i only, where it is in range."""
    func = from_source("""
@T.prim_func
def main(B: T.Buffer((21,), "float32")):
    for i in range(28):
        for j in range((i * 3 + 2) // 4 + 1 - i * 3 // 4):
            with T.block("B"):
                v = T.axis.spatial(21, i * 3 // 4 + j)
                B[v] = T.float32(1)
""")
    assert not out_of_bounds_errors(func)
    assert not race_errors(func)


# ---------------------------------------------------------------------- lowering


def test_compact_regions_under_a_condition_and_of_a_symbolic_fusion() -> None:
    """Bounds that come from the limits of a type do not become the extent of a buffer."""
    func = from_source("""
@T.prim_func
def main(a: T.handle, C: T.Buffer((6,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n, 6))
    B = T.alloc_buffer((6,))
    for f in range(n * 6):
        with T.block("B"):
            vi = T.axis.spatial(6, f // n)
            vk = T.axis.reduce(n, f % n)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vk, vi]
    for i in range(6):
        with T.block("C"):
            v = T.axis.spatial(6, i)
            C[v] = B[v]
""")
    lowered = default_tir_pipeline()(tir.Schedule(func).mod)["main"]
    assert "T.decl_buffer((6,)" in lowered.script()
    data, result = np.arange(30, dtype="float32"), np.zeros(6, "float32")
    run(lowered, [data, result, 5])
    np.testing.assert_array_equal(result, data.reshape(5, 6).sum(0))


def test_places_that_depend_on_data_written_in_the_loop() -> None:
    """The row is not known before its index is copied: all rows are made."""
    steps = "B[vi] = A[vi] * T.float32(2)", "C[vi] = B[T.floormod(I[vi], 8)]"
    func = vectors(GATHERED, *steps, B=8)
    sch = tir.Schedule(func, debug_mask="all")
    copy = sch.cache_read("C", 1, "global")
    loop = sch.get_loops("C")[0]
    sch.compute_at(copy, loop)
    sch.compute_at("B", loop, index=-2)
    check(sch, func)


def test_inlining_does_not_reach_through_inner_windows() -> None:
    sch = tir.Schedule(COPY)
    sch.cache_read("B", 0, "local")
    inner = sch.split(sch.get_loops("B")[1], [None, 3])[1]
    names = matching(sch.get(sch.get_block("B")), 3)
    sch.tensorize(inner, next(n for n in names if ".copy." in n))
    sch.blockize(sch.get_block("B_o"))
    refused(lambda: sch.compute_inline("A_local"), "through a pointer or a match")


def test_a_copy_back_does_not_take_what_is_between_strides() -> None:
    """Of B[j], B[j + 2] the iteration j has not written B[j + 1]."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for j in range(2):
        for i in range(2):
            with T.block("C"):
                v = T.axis.spatial(4, i * 2 + j)
                C[v] = A[v] * T.float32(2)
""")
    sch = tir.Schedule(func)
    loop = sch.get_loops("C")[0]
    refused(lambda: sch.write_at(loop, sch.get_block("C"), 0, "shared"), "has not written in this")


def test_vectors_whose_lanes_read_memory_of_their_own() -> None:
    """Each lane fills and reads a buffer of its own, at a place that depends on the lane."""
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((12,), "float32"), C: T.Buffer((12,), "float32")):
    for i in T.vectorized(12):
        with T.block("C_o"):
            vo = T.axis.spatial(12, i)
            T.reads(A[0:12])
            T.writes(C[vo])
            B = T.alloc_buffer((4, 3))
            for k, l in T.grid(4, 3):
                with T.block("B"):
                    vk, vl = T.axis.remap("SS", [k, l])
                    B[vk, vl] = A[vk * 3 + vl]
            with T.block("C"):
                C[vo] = B[vo // 3, vo % 3] + T.float32(1)
""")
    lowered = default_tir_pipeline()(tir.Schedule(func).mod)["main"]
    data, result = np.arange(12, dtype="float32"), np.zeros(12, "float32")
    run(lowered, [data, result])
    np.testing.assert_array_equal(result, data + 1)


def test_parts_of_a_parallel_loop_do_not_share_what_each_iteration_had() -> None:
    sch = tir.Schedule(
        from_source("""
@T.prim_func
def main(A: T.Buffer((1,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((1,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(1, 0)
            B[v] = A[v] * T.float32(2)
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[0]
""")
    )
    loop = sch.get_loops("C")[0]
    sch.parallel(loop)
    text = sch.mod.script()
    refused(lambda: sch.loop_partition(loop, [2, None]), "conflict with each other|write the same")
    assert sch.mod.script() == text


def test_regions_of_two_places_can_be_read_back() -> None:
    """Their box speaks of the least and the greatest of both."""
    func = vectors({"D": 16, "E": 16}, "E[vi] = D[vi] * D[15 - vi]")
    for step in (lambda s: None, lambda s: s.split(s.get_loops("E")[0], [None, 4])):
        sch = tir.Schedule(func)
        step(sch)
        check(sch, func)
        mod = sch.mod
        steps = [tt.LowerInitBlock(), tt.Simplify(), tt.ConvertBlocksToOpaque(), tt.Simplify()]
        for lower in steps:
            mod = lower(mod)
            assert_structural_equal(from_source(mod["main"].script()), mod["main"])
        run(mod["main"], arguments(func))


def test_an_init_that_a_fused_loop_repeats_is_vectorized() -> None:
    sch = tir.Schedule(row_sums(7, 8), debug_mask="all")
    block = sch.get_block("B")
    i, k = sch.get_loops(block)
    sch.reorder(k, i)
    fused = sch.fuse(k, i)
    init = sch.decompose_reduction(block, fused)
    sch.vectorize(sch.get_loops(init)[0])
    assert tir.analysis.verify_parallel(sch.mod["main"])


@T.prim_func
def product_and_sum(A: T.Buffer((8, 6)), W: T.Buffer((6, 4)), C: T.Buffer((8, 4))) -> None:
    B = T.alloc_buffer((8, 4))
    for i, j, k in T.grid(8, 4, 6):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.float32(0)
            B[vi, vj] = B[vi, vj] + A[vi, vk] * W[vk, vj]
    for i, j in T.grid(8, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] + T.float32(1)


def test_a_reader_of_what_each_parallel_iteration_copies_stays_there() -> None:
    sch = tir.Schedule(product_and_sum, debug_mask="all")
    i, j, _ = sch.get_loops("B")
    sch.read_at(j, sch.get_block("B"), 1, "shared")
    sch.parallel(i)
    to = sch.get_loops("C")[1]
    refused(lambda: sch.compute_at("B", to), "what each iteration of the parallel loop 'i'")


@T.prim_func
def gather(A: T.Buffer((9, 3)), rows: T.Buffer(8, "int32"), B: T.Buffer((8, 3))) -> None:
    for i, j in T.grid(8, 3):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[rows[vi], vj]


def test_inlining_into_the_index_of_a_window() -> None:
    sch = tir.Schedule(gather, debug_mask="all")
    names = matching(sch.get(sch.get_block("B")), 3)
    sch.tensorize(sch.get_loops("B")[1], next(n for n in names if ".copy." in n))
    (user,) = sch.get_child_blocks(sch.get_block("root"))
    reads = [r.buffer.name for r in sch.get(user).reads]
    copy = sch.cache_read(user, reads.index("rows"), "global")
    sch.compute_inline(copy)
    rng = np.random.default_rng(0)
    a, rows = rng.random((9, 3), np.float32), rng.integers(0, 9, 8).astype("int32")
    out = np.zeros((8, 3), np.float32)
    run(sch.func, [a, rows, out])
    np.testing.assert_array_equal(out, a[rows])


@T.prim_func
def picked(A: T.Buffer(2), at: T.Buffer(4, "int32"), C: T.Buffer(4)) -> None:
    B = T.alloc_buffer(2)
    for i in range(2):
        with T.block("B"):
            v = T.axis.spatial(2, i)
            B[v] = A[v] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(4, i)
            C[v] = B[at[v] % 2]


def test_a_copy_in_an_empty_part_of_a_loop_does_not_run() -> None:
    sch = tir.Schedule(picked, debug_mask="all")
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.compute_at(sch.cache_read("B", 0, "shared"), sch.get_loops("C")[0])
    _, inner = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.loop_partition(inner, [None, 3])
    blocks = sch.get_child_blocks(sch.get_block("root"))
    sch.reindex([b for b in blocks if sch.get(b).name_hint.startswith("B")][-1], ("read", 0))
    at = np.asarray([1, 2, 3, 0], np.int32)
    out = np.zeros(4, np.float32)
    run(sch.func, [np.asarray([3, 5], np.float32), at, out])
    np.testing.assert_array_equal(out, [10, 6, 10, 6])


@T.prim_func
def looked_up(A: T.Buffer((4, 6)), at: T.Buffer(3, "int32"), C: T.Buffer((3, 6))) -> None:
    B = T.alloc_buffer((4, 6))
    for i, j in T.grid(4, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
    for i, j in T.grid(3, 6):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[at[vi], vj]


def test_a_region_does_not_speak_of_the_blocks_own_memory() -> None:
    sch = tir.Schedule(looked_up, debug_mask="all")
    sch.blockize(sch.get_block("C"))
    sch.cache_read("C", 1, "shared")
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // 3, j % 3))
    after = sch.mod["main"]
    assert_structural_equal(from_source(after.script()), after)


@T.prim_func
def total(a: T.handle, B: T.Buffer(2)) -> None:
    n = T.int32()
    A = T.match_buffer(a, (2, n, 3))
    for i, j, k in T.grid(2, n, 3):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SRR", [i, j, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vj, vk]


def split_size(sch: tir.Schedule) -> None:
    sch.split(sch.get_loops("B")[1], [None, 8])


def fused(sch: tir.Schedule) -> None:
    i, j, k = sch.get_loops("B")
    sch.reorder(i, k, j)
    sch.fuse(i, k)


def both(sch: tir.Schedule) -> None:
    split_size(sch)
    sch.fuse(*sch.get_loops("B")[:2])


@pytest.mark.parametrize("step", [split_size, fused, both])
def test_the_init_of_a_reduction_that_may_be_empty_runs_once(step: Any) -> None:
    sch = tir.Schedule(total, debug_mask="all")
    step(sch)
    check(sch, total, *({"n": n} for n in ((1, 8, 9) if step is both else (0, 1, 8, 9))))


@pytest.mark.parametrize("padding", [[4, 1, 1], [1, 4, 1], [4, 16, 1], [16, 4, 5]])
def test_two_padded_axes_over_one_dimension(padding: list[int]) -> None:
    """The padded operand is as large as the larger of both."""

    @T.prim_func
    def f(
        A: T.Buffer((5, 6), "float32"), B: T.Buffer((6,), "float32"), C: T.Buffer((5, 5), "float32")
    ):
        for i, j, k in T.grid(5, 5, 6):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vj, vk] * B[vk]

    sch = tir.Schedule(f, debug_mask="all")
    sch.pad_einsum("C", padding)
    check(sch, f)
    assert ("B_pad" in sch.mod.script()) == (padding[2] > 1)


def test_a_second_alignment_of_an_axis_replaces_the_first() -> None:
    sch = tir.Schedule(COPY)
    for axis, factor in ((0, 8), (1, 4), (0, 16)):
        sch.storage_align("B", 0, axis, factor, 1)
    notes = sch.get(sch.get_block("B")).annotations["buffer_dim_align"]
    assert [list(map(int, entry)) for entry in notes] == [[0, 1, 4, 1], [0, 0, 16, 1]]


def test_padding_is_not_taken_out_of_a_loop_whose_iterations_run_together() -> None:
    @T.prim_func
    def f(A: T.Buffer((6,)), B: T.Buffer((4, 7))):
        P = T.alloc_buffer((8,))
        for i in range(8):
            with T.block("P"):
                v = T.axis.spatial(8, i)
                P[v] = T.if_then_else(v >= 1 and v < 7, A[v - 1], T.float32(0))
        for i, j in T.grid(4, 7):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = P[vj] + P[vj + 1] + T.Cast("float32", vi)

    sch = tir.Schedule(f, debug_mask="all")
    i = sch.get_loops("B")[0]
    sch.compute_at("P", i)
    sch.parallel(i)
    # Each iteration pads for itself; before the loop, the padding would be that of all.
    refused(lambda: sch.decompose_padding("P", sch.get_loops("P")[0]), "what other iterations")
    sch.decompose_padding("P", sch.get_loops("P")[1])
    check(sch, f)


def test_bounds_of_loops_read_memory_only_where_it_is() -> None:
    @T.prim_func
    def f(A: T.Buffer((7,)), I: T.Buffer((9,), "int64"), B: T.Buffer((9,))):
        D = T.alloc_buffer((7,))
        for i in range(7):
            with T.block("D"):
                v = T.axis.spatial(7, i)
                D[v] = A[v] * T.float32(2)
        for i in range(9):
            with T.block("B"):
                v = T.axis.spatial(9, i)
                B[v] = D[I[v]]

    sch = tir.Schedule(f, debug_mask="all")
    sch.compute_at("D", sch.get_loops("B")[0])
    sch.split(sch.get_loops("B")[0], [None, 4])
    made = sch.mod["main"]
    assert not out_of_bounds_errors(made)
    args = [np.arange(7, dtype="float32"), np.arange(9) % 7, np.zeros(9, "float32")]
    run(made, args)
    np.testing.assert_array_equal(args[2], 2.0 * (np.arange(9) % 7))


def test_what_an_iteration_without_work_allocates() -> None:
    """The extent of a moved loop may be negative: nothing runs, and nothing is allocated."""

    @T.prim_func
    def f(A: T.Buffer((3,), "int32"), B: T.Buffer((2,), "int32")):
        for i in range(3):
            with T.block("root2"):
                v = T.axis.opaque(3, i)
                T.reads(A[v : v + 1])
                T.writes(B[(v + 1) // 2 : (v + 1) // 2 + 1])
                D = T.alloc_buffer((3,), "int32")
                for j in range(v // 2 * 2 - (v + 1) // 2 * 2 + 1):
                    with T.block("D"):
                        w = T.axis.spatial(3, (v + 1) // 2 * 2 + j)
                        D[w] = A[w]
                for j in range(v // 2 - (v + 1) // 2 + 1):
                    with T.block("B"):
                        w = T.axis.spatial(2, (v + 1) // 2 + j)
                        B[w] = D[w * 2]

    low = default_tir_pipeline()(lw.IRModule({"main": f}))["main"]
    args = [np.array([5, 6, 7], "int32"), np.zeros(2, "int32")]
    run(low, args)
    assert args[1].tolist() == [5, 7]


def test_buffers_of_bool_move_to_another_scope_and_are_padded_by_numbers() -> None:
    @T.prim_func
    def f(A: T.Buffer((7,)), B: T.Buffer((7,))):
        M = T.alloc_buffer((7,), "bool")
        for i in range(7):
            with T.block("M"):
                v = T.axis.spatial(7, i)
                M[v] = A[v] > T.float32(1)
        for i in range(7):
            with T.block("B"):
                v = T.axis.spatial(7, i)
                B[v] = T.if_then_else(M[v], A[v], T.float32(0))

    sch = tir.Schedule(f, debug_mask="all")
    refused(lambda: sch.transform_layout("M", ("write", 0), lambda i: (i // 4, i % 4), 2), "bool")
    sch.transform_layout("M", ("write", 0), lambda i: (i // 4, i % 4), 0)
    sch.set_scope("M", 0, "shared")
    assert_structural_equal(from_source(sch.mod.script()), sch.mod)
    check(sch, f)


def test_iterations_in_which_a_value_is_not_written_stay_before_those_that_write_it() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,)), B: T.Buffer((4,))):
        C = T.alloc_buffer((4,))
        for i, j in T.grid(5, 4):
            with T.block("C"):
                v = T.axis.spatial(4, i + j)
                T.where(i + j < 4 and j < 1)
                C[v] = A[v] * T.float32(2)
            with T.block("B"):
                v = T.axis.spatial(4, i + j)
                T.where(i + j < 4)
                B[v] = C[v]

    sch = tir.Schedule(f)
    refused(lambda: sch.reorder(*sch.get_loops("C")[::-1]), "what other iterations")


def test_padding_in_a_virtual_thread_keeps_its_block() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,)), B: T.Buffer((4,))):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = T.if_then_else(v < 1, A[v], T.float32(0))

    sch = tir.Schedule(f)
    block = sch.get_block("B")
    sch.bind(sch.get_loops(block)[0], "vthread.x")
    sch.decompose_padding(block, sch.get_loops(block)[0])
    assert sch.get(block).name_hint == "B"


def test_an_alignment_of_what_is_not_written() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,))):
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                T.reads()
                T.writes()
                T.block_attr({"buffer_dim_align": [[0, 0, 8, 3]]})
                T.evaluate(v)

    low = tt.CompactBufferAllocation()(lw.IRModule({"main": f}))
    tt.LowerOpaqueBlock()(tt.ConvertBlocksToOpaque()(low))


def test_a_choice_that_becomes_known_is_made() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,)), B: T.Buffer((1,))):
        for i in range(1):
            with T.block("B"):
                v = T.axis.scan(1, i)
                B[v] = T.if_then_else(v == 0, A[v], B[v - 1] + A[v])

    sch = tir.Schedule(f)
    sch.blockize(sch.get_loops("B")[0], preserve_unit_iters=False)
    assert_structural_equal(from_source(sch.mod.script()), sch.mod)
    assert "if_then_else" not in sch.mod.script()
    check(sch, f)


def test_threads_of_a_loop_that_begins_at_1() -> None:
    @T.prim_func
    def f(A: T.Buffer((6,)), B: T.Buffer((6,))):
        for i in range(1, 5):
            with T.block("B"):
                v = T.axis.spatial((1, 5), i)
                B[v] = A[v] + T.float32(1)

    sch = tir.Schedule(f)
    sch.bind(sch.get_loops("B")[0], "vthread.x")
    low = default_tir_pipeline()(sch.mod)["main"]
    args = [np.arange(6, dtype="float32"), np.zeros(6, "float32")]
    run(low, args)
    assert args[1].tolist() == [0, 2, 3, 4, 5, 0]


def test_a_part_of_a_sum_whose_length_is_another_loops_is_not_factored() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 4)), B: T.Buffer((8,))):
        for i in range(8):
            for k in range(T.min(i + 1, 4)):
                with T.block("B"):
                    v, vk = T.axis.spatial(8, i), T.axis.reduce(4, k)
                    with T.init():
                        B[v] = T.float32(0)
                    B[v] = B[v] + A[v, vk]

    sch = tir.Schedule(f)
    inner = sch.split(sch.get_loops("B")[1], [None, 2], disable_predication=True)[1]
    refused(lambda: sch.rfactor(inner, 0), "the range of loop 'k_0' depends on other loops")
    sch = tir.Schedule(f)
    loops = sch.get_loops("B")
    sch.write_at(loops[0], sch.get_block("B"), 0, "local")
    refused(lambda: sch.rfactor(loops[1], 0), "the range of loop 'k' depends on other loops")


def test_a_block_inside_reads_the_indices_that_were_computed_before() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,)), B: T.Buffer((8,))):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v * 3 % 8]

    sch = tir.Schedule(f, debug_mask="all")
    outer = sch.blockize(sch.get_block("B"))
    (index,) = sch.cache_index(outer, "global")
    (inner,) = sch.get_child_blocks(outer)
    assert [r.buffer.name for r in sch.get(inner).reads] == ["A", "index_0"]
    sch.compute_inline(index)
    check(sch, f)


def test_an_init_stays_where_its_block_runs() -> None:
    """The block runs in the first iteration of i only."""

    @T.prim_func
    def f(A: T.Buffer((4,)), B: T.Buffer((1,))):
        for i, u, k in T.grid(3, 1, 4):
            with T.block("B"):
                v, vk = T.axis.spatial(1, 0), T.axis.reduce(4, k)
                T.where(i + u < 1)
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[vk]

    sch = tir.Schedule(f)
    _, u, k = sch.get_loops("B")
    refused(lambda: sch.decompose_reduction("B", u), "would run where the block does not")
    sch.decompose_reduction("B", k)
    check(sch, f)


def test_indices_that_only_a_condition_keeps_inside_are_not_reindexed() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), I: T.Buffer((2,), "int32"), B: T.Buffer((3,), "int32")):
        for i in range(3):
            with T.block("B"):
                v = T.axis.spatial(3, i)
                B[v] = T.if_then_else(v < 2, A[I[v] % 4], 0)

    sch = tir.Schedule(f)
    refused(lambda: sch.reindex("B", "A"), "I is indexed out of its bounds")


def test_memory_whose_size_depends_on_the_lane() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,)), B: T.Buffer((4,))):
        for i in T.vectorized(4):
            C = T.decl_buffer((i + 1,))
            for j in range(i + 1):
                C[j] = A[i + j]
            B[i] = C[i]

    low = tt.VectorizeLoop()(tt.FlattenBuffer()(lw.IRModule({"main": f})))["main"]
    args = [np.arange(8, dtype="float32"), np.zeros(4, "float32")]
    run(low, args)
    assert args[1].tolist() == [0, 2, 4, 6]


def test_parts_of_a_loop_of_vectors_do_not_share_what_each_lane_had_for_itself() -> None:
    @T.prim_func
    def f(A: T.Buffer((8,)), B: T.Buffer((8,))):
        C = T.alloc_buffer((8,))
        for i in range(8):
            for j in range(2):
                with T.block("C"):
                    v = T.axis.spatial(8, i // 2 * 2 + j)
                    C[v] = A[v]
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = C[v]

    sch = tir.Schedule(f)
    loop = sch.get_loops("B")[0]
    sch.vectorize(loop)
    refused(lambda: sch.loop_partition(loop, [1, None]), "conflict with each other")


def test_a_copy_behind_a_parallel_loop_would_share_what_each_iteration_has() -> None:
    @T.prim_func
    def f(A: T.Buffer((1,)), B: T.Buffer((4,))):
        C = T.alloc_buffer((1,))
        for i in T.parallel(4):
            with T.block("C"):
                v = T.axis.spatial(1, 0)
                C[v] = A[v]
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = C[0]

    sch = tir.Schedule(f)
    text = sch.mod.script()
    refused(lambda: sch.cache_write("C", 0, "shared", ["B"]), "conflict with|write the same")
    assert sch.mod.script() == text


def test_a_region_that_is_only_declared_goes_with_its_buffer() -> None:
    @T.prim_func
    def f(A: T.Buffer((4,)), B: T.Buffer((4,))):
        C = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = A[v]
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                T.reads(A[v], C[v])
                T.writes(B[v])
                B[v] = A[v]

    sch = tir.Schedule(f, debug_mask="all")
    sch.compute_inline("C")
    check(sch, f)


def test_places_that_only_a_condition_keeps_inside_are_not_computed_before_it() -> None:
    @T.prim_func
    def f(A: T.Buffer((3,)), I: T.Buffer((1,), "int32"), B: T.Buffer((5,))):
        C = T.alloc_buffer((3,))
        for i in range(3):
            with T.block("C"):
                v = T.axis.spatial(3, i)
                C[v] = A[v]
        for i in range(5):
            with T.block("B"):
                v = T.axis.spatial(5, i)
                B[v] = T.if_then_else(v >= 1 and v < 2, C[I[v - 1]], T.float32(0))

    sch = tir.Schedule(f)
    sch.compute_at("C", sch.get_loops("B")[0])
    assert "T.axis.spatial(3, I" not in sch.mod.script()
    run(sch.mod["main"], [np.ones(3, "float32"), np.zeros(1, "int32"), np.zeros(5, "float32")])


def test_places_that_only_a_predicate_keeps_inside_are_not_computed_by_a_copy() -> None:
    @T.prim_func
    def f(A: T.Buffer((3,)), I: T.Buffer((1,), "int64"), B: T.Buffer((1,))):
        D = T.alloc_buffer((3,))
        for i in range(8):
            for j in range(3):
                with T.block("D"):
                    v = T.axis.spatial(3, j)
                    D[v] = A[v]
            with T.block("B"):
                v = T.axis.spatial(1, i)
                T.where(i < 1)
                B[v] = D[I[v]]

    sch = tir.Schedule(f, debug_mask="all")
    sch.cache_read("B", "D", "local")
    args = [np.arange(3, dtype="float32"), np.full(1, 2, "int64"), np.zeros(1, "float32")]
    run(sch.mod["main"], args)
    assert args[2] == 2


def test_places_in_a_schedule_stay_when_its_copy_goes_on() -> None:
    sch = tir.Schedule(COPY)
    block = sch.get_block("B")
    ref, node = sch.get_sref(block), sch.get(block)
    other = sch.copy()
    other.annotate(block, "note", 1)
    assert sch.get_sref(block) is ref and ref.stmt is node
    assert sch.get_loops(block)


def test_only_the_part_that_begins_a_reduction_runs_its_init() -> None:
    @T.prim_func
    def f(hA: T.handle, B: T.Buffer((), "int64")):
        n = T.int32()
        A = T.match_buffer(hA, (n,), "int64")
        for i in range(n):
            with T.block("B"):
                v = T.axis.reduce(n, i)
                with T.init():
                    B[()] = T.int64(0)
                B[()] = B[()] + A[v]

    sch = tir.Schedule(f, debug_mask="all")
    sch.loop_partition(sch.split(sch.get_loops("B")[0], [4, None, 8])[0], [None, 3])
    for n in (0, 1, 12, 40):
        total = np.array(-1)
        run(sch.mod["main"], [np.arange(n) + 1, total])
        assert total == n * (n + 1) // 2


@pytest.mark.parametrize(
    "step",
    [
        lambda sch: sch.reindex_cache_read("B", 1, "global", lambda i: (3 - i,)),
        lambda sch: sch.reindex("B", ("read", 1)),
        lambda sch: sch.transform_layout("I", ("write", 0), lambda i: (i // 2, i % 2)),
    ],
    ids=["reindex_cache_read", "reindex", "transform_layout"],
)
def test_the_indices_of_a_region_follow_a_new_buffer(step: Any) -> None:
    @T.prim_func
    def f(A: T.Buffer((4,)), B: T.Buffer((4,))):
        I = T.alloc_buffer((4,), "int32")
        for i in range(4):
            with T.block("I"):
                v = T.axis.spatial(4, i)
                I[v] = 3 - v
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                T.reads(A[I[v]], I[v])
                T.writes(B[v])
                B[v] = A[I[v]]

    sch = tir.Schedule(f, debug_mask="all")
    step(sch)
    place, index = sch.get(sch.get_block("B")).reads
    load = place.region[0].min
    assert load.buffer is index.buffer
    assert_structural_equal(load.indices, tuple(r.min for r in index.region))
    check(sch, f)


@T.prim_func
def ragged(A: T.Buffer((4, 4, 4)), B: T.Buffer((4, 4))):
    for k0, i in T.grid(2, 4):
        for j in range(i + 1):
            for k1 in range(2):
                with T.block("B"):
                    v, w = T.axis.remap("SS", [i, j])
                    k = T.axis.reduce(4, k0 * 2 + k1)
                    with T.init():
                        B[v, w] = T.float32(0)
                    B[v, w] = B[v, w] + A[v, w, k]


@T.prim_func
def ragged_rows(A: T.Buffer((4, 4, 4)), B: T.Buffer((4, 4))):
    for i in range(4):
        for j in range(i + 1):
            for k in range(4):
                with T.block("B"):
                    v, w, r = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        B[v, w] = T.float32(0)
                    B[v, w] = B[v, w] + A[v, w, r]


@T.prim_func
def ragged_padding(A: T.Buffer((5,)), B: T.Buffer((4, 4))):
    for i in range(4):
        for j in range(i + 1):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = T.if_then_else(v + w < 5, A[v + w], T.float32(0))


RAGGED = {
    "decompose_reduction": (
        ragged,
        lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[0]),
    ),
    "blockize": (ragged, lambda sch: sch.blockize(sch.get_loops("B")[1])),
    "rfactor": (ragged_rows, lambda sch: sch.rfactor(sch.get_loops("B")[2], 0)),
    "decompose_padding": (
        ragged_padding,
        lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]),
    ),
}


@pytest.mark.parametrize("name", RAGGED)
def test_a_copy_of_loops_has_the_ranges_of_its_own_loops(name: str) -> None:
    func, step = RAGGED[name]
    sch = tir.Schedule(func, debug_mask="all")
    step(sch)
    check(sch, func)


def test_an_init_in_loops_whose_ranges_depend_on_the_reduction_is_refused() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 4)), B: T.Buffer((4,))):
        for k0, k1 in T.grid(2, 2):
            for i in range(k1 + 3):
                with T.block("B"):
                    v = T.axis.spatial(4, i)
                    k = T.axis.reduce(4, k0 * 2 + k1)
                    with T.init():
                        B[v] = T.float32(0)
                    B[v] = B[v] + A[v, k]

    sch = tir.Schedule(f)
    outer, inner, _ = sch.get_loops("B")
    refused(lambda: sch.decompose_reduction("B", outer), "range of loop 'i' depends on a loop")
    refused(lambda: sch.blockize(inner), "range of loop 'i' depends on a loop")


def test_an_early_init_has_the_domains_of_its_own_loops() -> None:
    @T.prim_func
    def f(hA: T.handle, B: T.Buffer((4, 4))):
        n = T.int32()
        A = T.match_buffer(hA, (4, 4, n))
        for k, i in T.grid(n, 4):
            for j in range(i + 1):
                with T.block("B"):
                    v, w, r = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        B[v, w] = T.float32(0)
                    B[v, w] = B[v, w] + A[v, w, r]

    lowered = tt.LowerInitBlock()(lw.IRModule({"main": f}))
    assert verify_well_formed(lowered)
    sums = np.full((4, 4), -1, "float32")
    run(lowered["main"], [np.zeros((4, 4, 0), "float32"), sums])
    np.testing.assert_array_equal(sums, -np.triu(np.ones((4, 4)), 1))


def test_the_init_of_one_step_stays_in_its_loop() -> None:
    @T.prim_func
    def f(A: T.Buffer((4, 1)), B: T.Buffer((4,))):
        for i, j in T.grid(4, 1):
            with T.block("B"):
                v, k = T.axis.remap("SR", [i, j])
                with T.init():
                    B[v] = T.float32(0)
                B[v] = B[v] + A[v, k]

    assert "if k == 0:" in tt.LowerInitBlock()(lw.IRModule({"main": f}))["main"].script()


def test_what_a_block_writes_is_copied_back_and_nothing_beside_it() -> None:
    @T.prim_func
    def f(A: T.Buffer((8, 8)), B: T.Buffer((8, 7))):
        for i, j in T.grid(8, 8):
            with T.block("rows"):
                v, w = T.axis.remap("SS", [i, j])
                T.where(j >= 1)
                T.reads(A[v, w])
                T.writes(B[v, w - 1])
                with T.block("B"):
                    B[v, w - 1] = A[v, w]

    sch = tir.Schedule(f, debug_mask="all")
    sch.cache_write("B", 0, "local")
    check(sch, f)


def test_the_region_of_a_part_has_one_type() -> None:
    """Indices of data are int32, the extents of the part they are moved by int64."""

    @T.prim_func
    def f(
        A: T.Buffer((T.int64(6),)), P: T.Buffer((T.int64(4),), "int32"), B: T.Buffer((T.int64(4),))
    ):
        for i in range(T.int64(4)):
            with T.block("B"):
                v = T.axis.spatial(T.int64(4), i)
                B[v] = A[P[v]]

    sch = tir.Schedule(f, debug_mask="all")
    sch.blockize(sch.get_loops("B")[0])
    sch.read_at(sch.get_loops("B")[0], sch.get_block("B"), 0, "shared")
    assert_structural_equal(from_source(sch.mod.script()), sch.mod)


def test_rows_that_an_iteration_of_a_rolling_buffer_keeps_for_the_next() -> None:
    @T.prim_func
    def f(A: T.Buffer((9, 6)), C: T.Buffer((4, 8, 5))):
        B = T.alloc_buffer((9, 6))
        for i, j in T.grid(9, 6):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[v, w] + T.float32(1)
        for k, i, j, m, n in T.grid(4, 8, 5, 2, 2):
            with T.block("C"):
                u, v, w, r, s = T.axis.remap("SSSRR", [k, i, j, m, n])
                with T.init():
                    C[u, v, w] = T.float32(0)
                C[u, v, w] = C[u, v, w] + B[v + r, w + s]

    sch = tir.Schedule(f, debug_mask="all")
    around, rows, columns = sch.get_loops("C")[:3]
    sch.compute_at("B", columns)
    sch.rolling_buffer("B", 0)
    refused(lambda: sch.parallel(rows), "axis 'v'")
    refused(lambda: sch.parallel(columns), "reads of B what other iterations of loop 'j' write")
    sch.parallel(around)
    check(sch, f)


def test_a_matched_region_reads_what_its_indices_load() -> None:
    @T.prim_func
    def f(A: T.Buffer((6, 8)), rows: T.Buffer((4,), "int32"), B: T.Buffer((4, 8))):
        C = T.alloc_buffer((4,), "int32")
        D = T.alloc_buffer((4,), "int32")
        for i in range(4):
            with T.block("C"):
                v = T.axis.spatial(4, i)
                C[v] = rows[v] + 1
        for i in range(4):
            with T.block("D"):
                v = T.axis.spatial(4, i)
                D[v] = C[v] * 2
        for i, j in T.grid(4, 8):
            with T.block("B"):
                v, w = T.axis.remap("SS", [i, j])
                B[v, w] = A[T.floormod(D[v], 6), w]

    sch = tir.Schedule(f, debug_mask="all")
    names = matching(sch.get(sch.get_block("B")), 8)
    sch.tensorize(sch.get_loops("B")[1], next(n for n in names if ".copy." in n))
    sch.compute_inline("D")
    sch.compute_inline("C")
    check(sch, f)
