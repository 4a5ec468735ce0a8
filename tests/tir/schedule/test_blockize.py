"""`blockize` of a list of blocks."""

from __future__ import annotations

import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir.schedule import ScheduleError

from . import programs as p
from .intrinsics import scaled
from .util import check


def tiled(names: tuple[str, str] = ("D", "E")) -> tuple[tir.Schedule, list[object]]:
    sch = tir.Schedule(p.matmul_bias_relu, debug_mask="all")
    d, e = (sch.get_block(name) for name in names)
    i, j = sch.get_loops(e)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 5])
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at(d, j0)
    return sch, [d, e]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_two_tiles(turned: bool, unit: bool) -> None:
    sch, blocks = tiled()
    outer = sch.blockize(blocks[::-1] if turned else blocks, preserve_unit_iters=unit)
    block = sch.get(outer)
    assert block.name_hint == "outer_D_E_"
    assert [a.dom.extent.value for a in block.iter_vars] == [4, 4]
    assert {r.buffer.name for r in block.reads} == {"C", "bias"}
    assert {r.buffer.name for r in block.writes} == {"D", "E"}
    assert len(sch.get_loops(outer)) == 2
    assert [len(sch.get_loops(b)) for b in blocks] == [2, 2]
    sch.parallel(sch.get_loops(outer)[0])
    check(sch, p.matmul_bias_relu)
    assert "sch.blockize(target=[b" in str(sch.trace)


def test_whole_blocks() -> None:
    sch = tir.Schedule(p.matmul_bias_relu, debug_mask="all")
    outer = sch.blockize([sch.get_block("C"), sch.get_block("D")], preserve_unit_iters=False)
    assert [int(axis.dom.extent) for axis in sch.get(outer).iter_vars] == [1, 1, 1]
    check(sch, p.matmul_bias_relu)


def test_unit_axes() -> None:
    for keep, value in ((True, "i0"), (False, "0")):
        sch = tir.Schedule(p.matmul_bias_relu, debug_mask="all")
        sch.split(sch.get_loops("E")[0], [1, None])
        outer = sch.blockize(sch.get_loops("E")[1], preserve_unit_iters=keep)
        assert str(sch.get_sref(outer).realize.iter_values[0]).replace("_0", "0") == value
        assert [int(a.dom.extent) for a in sch.get(outer).iter_vars] == [1, 1]
        assert "_o" not in str(sch.get(sch.get_block("E")).writes[0])
        check(sch, p.matmul_bias_relu)


def test_init_and_update() -> None:
    sch = tir.Schedule(p.matmul, debug_mask="all")
    update = sch.get_block("C")
    k0, _ = sch.split(sch.get_loops(update)[2], [None, 4])
    init = sch.decompose_reduction(update, k0)
    outer = sch.blockize([init, update])
    assert [a.dom.extent.value for a in sch.get(outer).iter_vars][:2] == [16, 20]
    assert {r.buffer.name for r in sch.get(outer).reads} == {"A", "B"}
    check(sch, p.matmul)


def test_split_with_a_tail() -> None:
    sch, blocks = tiled()
    _, _, i1, _ = sch.get_loops(blocks[1])
    sch.split(i1, [None, 3])
    sch.blockize(blocks)
    check(sch, p.matmul_bias_relu)


def test_refused() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    c, d, e = (sch.get_block(n) for n in "CDE")
    with pytest.raises(ScheduleError, match="do not follow each other"):
        sch.blockize([c, e])
    with pytest.raises(ScheduleError, match="takes distinct blocks"):
        sch.blockize([d, d])
    sch.reverse_compute_at(d, sch.get_loops(c)[0])
    sch.reverse_compute_at(e, sch.get_loops(c)[0])
    sch.blockize([d, e])
    check(sch, p.matmul_bias_relu)


def test_intrinsics_take_the_index_type_of_the_program() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((T.int64(32),), "float32"), C: T.Buffer((T.int64(32),), "float32")):
    for i in range(T.int64(32)):
        with T.block("C"):
            v = T.axis.spatial(T.int64(32), i)
            C[v] = A[v] * T.float32(2)
"""
    before = from_source(text)
    sch = tir.Schedule(before, debug_mask="all")
    _, inner = sch.split(sch.get_loops("C")[0], [None, 8])
    sch.tensorize(inner, scaled(2, n=8))
    windows = [m.buffer for m in sch.get(sch.get_block("C_o")).match_buffers]
    assert {str(e.dtype) for w in windows for e in (*w.shape, w.elem_offset)} == {"int64"}
    check(sch, before)


def test_blocks_under_a_condition() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32"), n: T.int32):
    for i in range(8):
        if n > 3:
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + T.float32(1)
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v] + T.float32(2)
""")
    sch = tir.Schedule(func, debug_mask="all")
    outer = sch.get(sch.blockize([sch.get_block("B"), sch.get_block("C")]))
    assert [b.name for b in (r.buffer for r in outer.writes)] == ["B", "C"]
    assert isinstance(outer.body, tir.SeqStmt)


@pytest.mark.parametrize("loop", [0, 1])
def test_the_init_of_opaque_axes(loop: int) -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.opaque(8, i)
            k = T.axis.reduce(4, j)
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, k]
""")
    sch = tir.Schedule(func, debug_mask="all")
    sch.blockize(sch.get_loops("B")[loop])
    check(sch, func)
