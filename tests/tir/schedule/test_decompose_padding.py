"""`decompose_padding`: what is inside, where loops are tiled, and where the constant is written."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.script import from_source

from .util import check

PAD = """
@T.prim_func
def main(A: T.Buffer((4, 9), "float32"), B: T.Buffer((4, 12), "float32")):
    P = T.alloc_buffer((4, 14), "float32")
    for i, j in T.grid(4, 14):
        with T.block("P"):
            v, w = T.axis.remap("SS", [i, j])
            P[v, w] = T.if_then_else(2 <= w and w < 11, A[v, w - 2], T.float32(5))
    for i, j, k in T.grid(4, 12, 3):
        with T.block("B"):
            v, w, x = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[v, w] = T.float32(0)
            B[v, w] = B[v, w] + P[v, w + x]
"""


@pytest.mark.parametrize("depth", [0, 1])
def test_axes_run_over_the_inside(depth: int) -> None:
    before = from_source(PAD)
    sch = tir.Schedule(before)
    constant = sch.decompose_padding("P", sch.get_loops("P")[depth])
    check(sch, before)
    inside = sch.get(sch.get_block("P"))
    assert [int(a.dom.extent) for a in inside.iter_vars] == [4, 9]
    assert [int(a.dom.extent) for a in sch.get(constant).iter_vars] == [4, 14]
    assert "T.where" not in sch.get(sch.get_loops("P")[0]).script()


@pytest.mark.parametrize("depth", range(3))
@pytest.mark.parametrize("tile", [4, 5])
def test_tiles_are_guarded_and_the_constant_may_be_lifted(tile: int, depth: int) -> None:
    before = from_source(PAD)
    sch = tir.Schedule(before)
    outer, _ = sch.split(sch.get_loops("B")[1], [None, tile])
    sch.compute_at("P", outer)
    sch.decompose_padding("P", sch.get_loops("P")[depth])
    check(sch, before)
    text = sch.mod["main"].script()
    assert f"w = T.axis.spatial(9, j_0 * {tile} + ax0 - 2)" in text
    assert f"T.where(2 <= j_0 * {tile} + ax0 and j_0 * {tile} + ax0 < 11" in text


def test_a_condition_of_data_stays_a_condition() -> None:
    text = PAD.replace("2 <= w and w < 11", "2 <= w and w < 11 and T.float32(0) < A[v, w - 2]")
    before = from_source(text)
    sch = tir.Schedule(before)
    sch.decompose_padding("P", sch.get_loops("P")[0])
    check(sch, before)


def test_a_condition_that_always_holds_is_no_padding() -> None:
    sch = tir.Schedule(from_source(PAD.replace("2 <= w and w < 11", "0 <= w and w < 14")))
    assert not sch.can_decompose_padding("P", sch.get_loops("P")[0])
    with pytest.raises(tir.ScheduleError, match="always holds"):
        sch.decompose_padding("P", sch.get_loops("P")[0])
