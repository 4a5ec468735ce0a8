"""What is known of blocks at their places."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir.schedule import ScheduleState
from loopwright.tir.schedule.state import CachedFlags

HEAD = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
    B = T.alloc_buffer((128,), "float32")
"""


def step(name, loop, target, value, axis="T.axis.spatial(128, i)", where=None):
    lines = [f"for i in {loop}:", f'    with T.block("{name}"):', f"        vi = {axis}"]
    lines += [f"        T.where({where})"] if where else []
    return "".join(f"    {line}\n" for line in [*lines, f"        {target} = {value}"])


CASES = {
    "all is written": (step("B", "range(128)", "B[vi]", "A[vi]"), True, True),
    "a half is not": (
        step("B", "range(64)", "B[vi]", "A[vi]", "T.axis.spatial(64, i)"),
        False,
        False,
    ),
    "two halves": (
        step("B", "range(64)", "B[vi]", "A[vi]")
        + step("B1", "range(64)", "B[vi]", "A[vi]", "T.axis.spatial(128, i + 64)"),
        True,
        True,
    ),
    "every other one": (
        step("B", "range(64)", "B[vi * 2]", "A[vi]", "T.axis.spatial(64, i)"),
        False,
        False,
    ),
    "not where the predicate is false": (
        step("B", "range(128)", "B[vi]", "A[vi]", where="i < 100"),
        False,
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_regions_that_are_covered(case):
    writes, covered, pipeline = CASES[case]
    text = HEAD + writes + step("C", "range(128)", "C[vi]", "B[vi]")
    state = ScheduleState(from_source(text))
    assert state._get_cached_flags(find(state, "C")) == CachedFlags(True, covered, True)
    assert state._get_cached_flags(find(state, "root")) == CachedFlags(True, True, pipeline)


def test_a_write_after_a_read_is_no_pipeline():
    text = (
        HEAD + step("C", "range(128)", "C[vi]", "B[vi]") + step("B", "range(128)", "B[vi]", "A[vi]")
    )
    state = ScheduleState(from_source(text))
    assert not state._get_cached_flags(find(state, "root")).stage_pipeline


def test_axes_that_are_not_affine():
    text = HEAD + step("C", "range(10)", "C[vi]", "A[vi]", "T.axis.spatial(128, i * i)")
    state = ScheduleState(from_source(text))
    assert not state._get_cached_flags(find(state, "C")).affine_binding


def test_threads_that_share_a_buffer():
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
    B = T.alloc_buffer((8, 8), "float32", scope="SCOPE")
    for i in T.thread_binding(8, thread="threadIdx.x"):
        for j in range(8):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj]
        for j in range(8):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vj, vi] = B[vj, vi]
"""
    for scope, covered in (("shared", True), ("local", False)):
        state = ScheduleState(from_source(text.replace("SCOPE", scope)))
        assert state._get_cached_flags(find(state, "C")).region_cover == covered


def find(state, name):
    found = []
    tir.stmt_functor.post_order_visit(
        state.mod["main"].body,
        lambda n: found.append(n) if isinstance(n, tir.Block) and n.name_hint == name else None,
    )
    return state.get_sref(found[0])
