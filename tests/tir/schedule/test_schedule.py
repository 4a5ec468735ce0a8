"""Schedules of typical kernels, the state behind them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import tir
from loopwright.ir import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.script import from_source
from loopwright.tir import ScheduleError

from ...programs import matmul
from . import programs as p
from .intrinsics import scaled
from .util import check

# ------------------------------------------------------------------ kernels


def blocked_matmul(sch: tir.Schedule, block: Any, tile: tuple[int, int, int]) -> list[Any]:
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, tile[0]])
    j0, j1 = sch.split(j, [None, tile[1]])
    k0, k1 = sch.split(k, [None, tile[2]])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    return [i0, j0, k0, k1, i1, j1]


@pytest.mark.parametrize("tile", [(4, 5, 3), (5, 8, 5), (16, 20, 12)])
def test_blocked_matmul(tile: tuple[int, int, int]) -> None:
    sch = tir.Schedule(p.matmul)
    c = sch.get_block("C")
    i0, j0, k0, _, i1, j1 = blocked_matmul(sch, c, tile)
    packed = sch.cache_read(c, 1, "global")
    sch.transform_layout(packed, ("write", 0), lambda k, j: (j // 4, k, j % 4))
    sch.compute_at(packed, j0)
    out = sch.cache_write(c, 0, "global")
    sch.reverse_compute_at(out, j0)
    init = sch.decompose_reduction(c, k0)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(init)[-1])
    sch.unroll(i1)
    sch.parallel(i0)
    assert len(sch.get_loops(c)) == 6
    check(sch, p.matmul)


@pytest.mark.parametrize("how", ["inline", "reverse_inline", "compute_at"])
@pytest.mark.parametrize("tile", [(4, 5, 3), (5, 8, 5)])
def test_fused_epilogue(how: str, tile: tuple[int, int, int]) -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    c = sch.get_block("C")
    if how == "inline":
        sch.compute_inline("D")
        last = sch.get_block("E")
    elif how == "reverse_inline":
        sch.reverse_compute_inline("E")
        last = sch.get_block("D")
    else:
        last = sch.get_block("E")
        sch.reverse_compute_at(last, sch.get_loops("D")[0])
        last = None
    loops = blocked_matmul(sch, c, tile)
    if last is not None:
        sch.reverse_compute_at(last, loops[1])
        assert len(sch.get_child_blocks(loops[1])) == 2
        sch.vectorize(sch.get_loops(last)[-1])
        sch.parallel(loops[0])
    check(sch, p.matmul_bias_relu)


@pytest.mark.parametrize("rows", [2, 3])
def test_padding_written_by_the_tile(rows: int) -> None:
    sch = tir.Schedule(p.conv2d)
    n, o, h, *_ = sch.get_loops("conv")
    h0, h1 = sch.split(h, [None, rows])
    sch.reorder(n, h0, o, h1)
    sch.compute_at("pad", h0)
    sch.reverse_compute_at("relu", h0)
    sch.decompose_reduction("conv", sch.get_loops("conv")[5])
    sch.parallel(h0)
    check(sch, p.conv2d)
    assert f"range({rows + 2})" in sch.mod.script() or f"({3}, {rows + 2}" in sch.mod.script()


def test_softmax_by_rows() -> None:
    sch = tir.Schedule(p.softmax)
    row = sch.get_loops("B")[0]
    sch.compute_at("S", row)
    sch.compute_at("X", row)
    sch.compute_at("M", row)
    sch.parallel(row)
    assert len(sch.get_child_blocks(row)) == 4
    check(sch, p.softmax)


def test_layer_norm_by_rows() -> None:
    sch = tir.Schedule(p.layer_norm)
    sch.compute_inline("V")
    row = sch.get_loops("B")[0]
    for name in ("S", "Q"):
        k = sch.get_loops(name)[1]
        _, k1 = sch.split(k, [None, 2])
        sch.rfactor(k1, 0)
    for name in ("S", "Q", "S_rf", "Q_rf"):
        sch.compute_at(name, row)
    sch.parallel(row)
    check(sch, p.layer_norm)


def test_symbolic_matmul_stays_tidy() -> None:
    sch = tir.Schedule(p.symbolic_matmul)
    d, c = sch.get_block("D"), sch.get_block("C")
    i, j, k = sch.get_loops(d)
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(c, j0)
    sch.parallel(i0)
    check(sch, p.symbolic_matmul, {"n": 1}, {"n": 6}, {"n": 8})
    text = sch.mod.script()
    assert "T.min" not in text
    assert text.count("T.where(") == 2  # one predicate for each block


def test_symbolic_elementwise_fused_and_split() -> None:
    sch = tir.Schedule(p.symbolic_add)
    sch.compute_inline("D")
    loop = sch.fuse(*sch.get_loops("C"))
    outer, inner = sch.split(loop, [None, 8])
    sch.parallel(outer)
    sch.vectorize(inner)
    check(sch, p.symbolic_add, {"n": 5, "m": 9}, {"n": 1, "m": 1}, {"n": 4, "m": 8})


def test_tensorize_in_a_matmul() -> None:
    desc = from_source("""
@T.prim_func
def desc(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1),
         C: T.Buffer((1,), "float32", offset_factor=1)):
    for k in range(4):
        with T.block("dot"):
            vk = T.axis.reduce(4, k)
            C[0] = C[0] + A[vk] * B[vk]
""")
    impl = from_source("""
@T.prim_func
def impl(A: T.Buffer((4,), "float32", offset_factor=1), B: T.Buffer((4,), "float32", offset_factor=1),
         C: T.Buffer((1,), "float32", offset_factor=1)):
    with T.block("root"):
        C[0] = C[0] + (A[0] * B[0] + A[1] * B[1] + (A[2] * B[2] + A[3] * B[3]))
""")
    before = matmul(4, 6, 8, transposed=True)
    tir.TensorIntrin.register("test.dot4", desc, impl, override=True)
    sch = tir.Schedule(before)
    k0, k1 = sch.split(sch.get_loops("C")[2], [None, 4])
    sch.decompose_reduction("C", k0)
    sch.tensorize(k1, "test.dot4")
    check(sch, before)
    assert "T.match_buffer(A[vi_o, vk_o * 4:vk_o * 4 + 4]" in sch.mod.script()


def test_tensorize_of_what_follows_the_place_in_a_tile() -> None:
    desc = """
@T.prim_func
def desc(X: T.Buffer((1,), "int32", offset_factor=1), Y: T.Buffer((8,), "int32", offset_factor=1)):
    for i in range(8):
        with T.block("x"):
            v = T.axis.spatial(8, i)
            Y[v] = T.shift_right(X[0], v % 8 * 4) + AT
"""
    impl = """
@T.prim_func
def impl(X: T.Buffer((1,), "int32", offset_factor=1), Y: T.Buffer((8,), "int32", offset_factor=1)):
    with T.block("root"):
        for i in range(8):
            Y[i] = T.shift_right(X[0], i * 4) + i
"""
    before = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "int32"), B: T.Buffer((32,), "int32")):
    for i in range(32):
        with T.block("B"):
            v = T.axis.spatial(32, i)
            B[v] = T.shift_right(A[v // 8], v % 8 * 4) + v % 8
""")
    for at in ("v % 8", "v"):
        tir.TensorIntrin.register(
            "test.nibbles", from_source(desc.replace("AT", at)), from_source(impl), override=True
        )
        sch = tir.Schedule(before)
        _, inner = sch.split(sch.get_loops("B")[0], [None, 8])
        sch.tensorize(inner, "test.nibbles")
        check(sch, before)
    tir.TensorIntrin.register(
        "test.nibbles", from_source(desc.replace("AT", "v % 4")), from_source(impl), override=True
    )
    sch = tir.Schedule(before)
    _, inner = sch.split(sch.get_loops("B")[0], [None, 8])
    with pytest.raises(ScheduleError, match="description differs"):
        sch.tensorize(inner, "test.nibbles")


def test_a_wrong_tensorize_is_refused() -> None:
    sch = tir.Schedule(p.elementwise)
    _, inner = sch.split(sch.get_loops("C")[1], [None, 4])
    with pytest.raises(ScheduleError, match="description differs from the program: an expression"):
        sch.tensorize(inner, scaled(2, n=4))


# ------------------------------------------------------------------ state and trace


def test_random_variables_stay_good() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    c, d, e = (sch.get_block(n) for n in "CDE")
    i, j, k = sch.get_loops(c)
    sch.split(j, [None, 4])
    assert sch.get(i).loop_var.name == "i"
    assert sch.get(c).name_hint == "C"
    sch.compute_inline(d)
    with pytest.raises(ScheduleError, match="program does not contain"):
        sch.get(d)
    with pytest.raises(ScheduleError, match="program does not contain loop 'j'"):
        sch.get(j)
    assert sch.get(e) is sch.get(sch.get_block("E"))
    assert [sch.get(b).name_hint for b in sch.get_consumers(c)] == ["E"]
    assert [sch.get(b).name_hint for b in sch.get_producers(e)] == ["C"]
    root = sch.get_block("root")
    assert [sch.get(b).name_hint for b in sch.get_output_blocks(root)] == ["E"]
    assert sch.get(k).extent.value == 12


def test_a_copy_goes_its_own_way() -> None:
    sch = tir.Schedule(p.matmul)
    i, j, _ = sch.get_loops("C")
    other = sch.copy()
    sch.split(i, [None, 4])
    other.fuse(i, j)
    assert len(sch.get_loops("C")) == 4
    assert len(other.get_loops("C")) == 2
    check(sch, p.matmul)
    check(other, p.matmul)


def test_a_module_given_out_is_not_changed() -> None:
    sch = tir.Schedule(p.matmul)
    before = sch.mod
    text = before.script()
    sch.split(sch.get_loops("C")[0], [None, 4])
    assert before.script() == text != sch.mod.script()


def test_trace_as_text() -> None:
    sch = tir.Schedule(p.matmul)
    i, *_ = sch.get_loops(sch.get_block("C"))
    i0, _ = sch.split(i, [None, 4])
    sch.parallel(i0)
    assert sch.trace.as_python() == [
        'b0 = sch.get_block(name="C", func_name="main")',
        "l1, l2, l3 = sch.get_loops(block=b0)",
        "l4, l5 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, "
        "disable_predication=False)",
        "sch.parallel(loop=l4)",
    ]
    assert sch.trace.as_json()[0][2] == ["Split", ["l1", "None", 4], [True, False], ["l4", "l5"]]


def test_decisions_are_replayed_and_changed() -> None:
    sch = tir.Schedule(p.matmul, seed=7)
    loop = sch.get_loops("C")[0]
    tiles = sch.sample_perfect_tile(loop, 2, 8)
    which = sch.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5])
    sch.split(loop, tiles)
    product = sch.get(tiles[0]) * sch.get(tiles[1])
    assert product == 16 and sch.get(tiles[1]) <= 8
    assert sch.get(which) in (1, 2, 4)
    check(sch, p.matmul)
    inst = next(i for i in sch.trace.insts if i.kind.name == "SamplePerfectTile")
    again = tir.Schedule(p.matmul)
    sch.trace.with_decision(inst, [2, 8], True).apply_to_schedule(again)
    assert [again.get(v).extent.value for v in again.get_loops("C")[:2]] == [2, 8]
    check(again, p.matmul)


def test_sampled_place() -> None:
    for decision in (-2, -1, 0, 1):
        sch = tir.Schedule(p.elementwise)
        place = sch.sample_compute_location(sch.get_block("B"), decision=decision)
        sch.compute_at("B", place)
        check(sch, p.elementwise)


def test_several_functions() -> None:
    mod = tir.Schedule(p.matmul).mod.clone()
    mod["other"] = p.softmax
    sch = tir.Schedule(mod)
    sch.work_on("other")
    sch.parallel(sch.get_loops("B")[0])
    assert_structural_equal(sch.mod["main"], mod["main"])
    again = tir.Schedule(mod)
    sch.trace.apply_to_schedule(again)
    assert_structural_equal(again.mod, sch.mod)
    with pytest.raises(ScheduleError, match="no such PrimFunc"):
        sch.work_on("nobody")


# ------------------------------------------------------------------ refused


def refused(fn: Any, *parts: str) -> str:
    with pytest.raises(ScheduleError) as caught:
        fn()
    text = str(caught.value)
    for part in parts:
        assert part in text, text
    return text


def test_the_error_shows_the_place() -> None:
    sch = tir.Schedule(p.matmul)
    k = sch.get_loops("C")[2]
    text = refused(
        lambda: sch.parallel(k),
        "An error occurred in the schedule primitive 'parallel'.",
        "loop 'k' drives axis 'vk' of block 'C', which is not spatial",
        "instead: a loop over spatial axes; rfactor makes one of a reduction",
    )
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if "for k in range(12)" in line)
    assert set(lines[at + 1].strip()) == {"^"}
    assert lines[at - 1].strip() == "# tir.For#0"
    assert "for j in range" in lines[at - 2]  # the loop outside is not marked
    quiet = tir.Schedule(p.matmul, error_render_level="none")
    with pytest.raises(ScheduleError) as caught:
        quiet.parallel(quiet.get_loops("C")[2])
    assert "T.prim_func" not in str(caught.value)
    assert str(caught.value).endswith("(not rendered)")


def test_refused_loops() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    i, j, k = sch.get_loops("C")
    d = sch.get_loops("D")[0]
    refused(lambda: sch.split(i, [3, 4]), "do not cover loop 'i'", "3 * 4", "16")
    refused(lambda: sch.split(i, [None, None]), "only one factor can be inferred")
    refused(lambda: sch.split(i, [0, None]), "a factor is 1 or more")
    refused(lambda: sch.fuse(i, k), "'k' is not all that is inside 'i'")
    refused(lambda: sch.reorder(i, d), "not inside each other")
    refused(lambda: sch.reorder(i, i), "given twice")
    refused(lambda: sch.bind(i, "thread"), "no such thread axis")
    refused(lambda: sch.merge(i, k), "merged loops")
    refused(lambda: sch.loop_partition(i, [8, 9]), "do not add up")
    sch.annotate(i, "key", 1)
    refused(lambda: sch.split(i, [4, 4]), "annotations", "key")
    refused(lambda: sch.annotate(i, "key", 2), "already")
    refused(lambda: sch.unannotate(j, "key"), "no such annotation")
    check(sch, p.matmul_bias_relu)


def test_refused_names() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    refused(lambda: sch.get_block("CC"), "no block of this name", "did you mean C?")
    refused(lambda: sch.get_block("C", "f"), "no such function")
    refused(lambda: sch.get_loops(sch.get_loops("C")[0]), "this step is for blocks")
    refused(lambda: sch.vectorize(sch.get_block("C")), "this step is for loops")
    refused(lambda: sch.cache_read("D", 7, "local"), "reads no such buffer", "0: C, 1: bias")


def test_refused_moves() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    i, _, k = sch.get_loops("C")
    e = sch.get_loops("E")[0]
    refused(lambda: sch.compute_at("E", i), "is an output block")
    refused(lambda: sch.compute_at("C", e), "requires all the consumers of block 'C'")
    refused(lambda: sch.reverse_compute_at("D", k), "is not finished where 'D' would run")
    refused(lambda: sch.reverse_compute_at("E", i), "no producer of block 'E' is below the loop")
    refused(lambda: sch.compute_inline("C"), "more than one store")
    refused(lambda: sch.compute_inline("E"), "which outlives it")
    refused(lambda: sch.reverse_compute_inline("D"), "more than one store")
    refused(lambda: sch.decompose_reduction("D", i), "is not a reduction")
    refused(lambda: sch.rfactor(i, 0), "does not drive the reduction")
    check(sch, p.matmul_bias_relu)


def test_refused_reductions() -> None:
    sch = tir.Schedule(p.matmul)
    _, j, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 4])
    refused(lambda: sch.decompose_reduction("C", k1), "loop 'k_0', further out")
    fused = sch.fuse(j, k0)
    f0, f1 = sch.split(fused, [None, 7])
    refused(lambda: sch.reorder(f1, f0), "so its iterations run in order")
    check(sch, p.matmul)


def test_a_pool_is_not_moved_to_half_of_its_rows() -> None:
    sch = tir.Schedule(p.pool)
    h = sch.get_loops("R")[1]
    refused(lambda: sch.reverse_compute_at("B", h), "has not written in this iteration")
    check(sch, p.pool)


def test_racy_parallel_is_refused() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
    for i, j in T.grid(8, 4):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = B[v] + T.float32(1)
""")
    sch = tir.Schedule(func)
    refused(lambda: sch.parallel(sch.get_loops("B")[1]), "write the same elements")


def test_layouts_are_refused() -> None:
    sch = tir.Schedule(p.elementwise)
    refused(
        lambda: sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // 8, j % 8)),
        "has elements that hold nothing",
        "give pad_value=",
    )
    refused(lambda: sch.transform_layout("B", ("write", 0), lambda i, j: (i,)), "cannot be changed")
    sch.transform_layout("B", ("write", 0), lambda i, j: (i, j // 8, j % 8), pad_value=0.0)
    check(sch, p.elementwise)


def test_analysis_and_testing() -> None:
    sch = tir.Schedule(p.matmul_bias_relu)
    analysis, testing = tir.schedule.analysis, tir.schedule.testing
    assert analysis.has_block(sch, "C") and not analysis.has_block(sch, "Q")
    assert analysis.is_output_block(sch, sch.get_block("E"))
    assert not analysis.is_output_block(sch, sch.get_block("C"))
    assert not analysis.can_tensorize(sch, sch.get_loops("C")[0], "no such intrinsic")
    sch.compute_inline("D")
    testing.verify_trace_roundtrip(sch, p.matmul_bias_relu)
    testing.assert_structural_equal_ignore_global_symbol(
        sch.mod["main"], sch.mod["main"].with_attr("global_symbol", "other")
    )


def test_a_block_of_a_part_of_its_domain_stays() -> None:
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(4):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = B[v] + T.float32(1)
""")
    sch = tir.Schedule(func)
    refused(lambda: sch.reverse_compute_at("C", sch.get_loops("B")[0]), "a part of its axes'")
    sch.compute_at("B", sch.get_loops("C")[0])
    check(sch, func)


def test_a_refused_step_changes_nothing() -> None:
    sch = tir.Schedule(p.pool)
    before = sch.func
    loop = sch.get_loops("R")[1]
    for fn in (
        lambda: sch.reverse_compute_at("B", loop),
        lambda: sch.read_at(loop, sch.get_block("B"), 0, "shared"),
        lambda: sch.write_at(sch.get_loops("B")[3], sch.get_block("B"), 0, "shared"),
    ):
        refused(fn)
        assert sch.func is before
    assert sch.get(loop).loop_var.name == "h"


def test_inlining_what_nothing_reads_removes_it():
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = VALUE
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
"""
    sch = tir.Schedule(from_source(text.replace("VALUE", "A[vi] * T.float32(2)")))
    sch.compute_inline("B")
    assert "T.alloc_buffer" not in sch.mod["main"].script()
    call = 'T.call_extern("float32", "next_number")'
    sch = tir.Schedule(from_source(text.replace("VALUE", call)))
    refused(lambda: sch.compute_inline("B"), "computing it has an effect")


def test_output_blocks_at_any_depth() -> None:
    sch = tir.Schedule(p.matmul_bias_relu, debug_mask="all")
    names = [sch.get(b).name_hint for b in sch.get_output_blocks("root")]
    sch.blockize(sch.get_loops("E")[0])
    blocks = sch.get_output_blocks("root")
    assert [sch.get(b).name_hint for b in blocks] == ["E_o", *names]
    assert [sch.get(b).name_hint for b in sch.get_output_blocks(blocks[0])] == ["E"]


def test_random_variables_of_another_schedule() -> None:
    sch = tir.Schedule(p.matmul_bias_relu, debug_mask="all")
    other = sch.copy()
    mine = sch.split(sch.get_loops("C")[0], [None, 4])[0]
    for get in (other.get, other.get_sref):
        with pytest.raises(IndexError, match="not a block or loop of this schedule"):
            get(mine)
    block = sch.get_block("C")
    sch.remove_rv(block)
    with pytest.raises(IndexError):
        sch.get(block)
    assert not sch.get_sref(sch.get_block("D")).same_as(other.get_sref(other.get_block("D")))


def test_no_current_function() -> None:
    sch = tir.Schedule(IRModule({"f": p.matmul, "g": p.matmul}))
    with pytest.raises(ValueError, match="does not know which function to be working on"):
        sch.get_block("C")
    sch.work_on("g")
    assert sch.get(sch.get_block("C")).name_hint == "C"
