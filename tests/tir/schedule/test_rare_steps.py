"""Steps on rare programs: what they are refused for, or that they keep what the program computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from loopwright import tir
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.schedule import ScheduleError
from loopwright.tvm.tir import schedule_analysis as analysis

from .util import check

Step = Callable[[tir.Schedule], Any]
HEAD = """
@T.prim_func
def main(A: T.Buffer((16, 8)), C: T.Buffer((16, 8)), D: T.Buffer((16,))):
    B = T.alloc_buffer((16, 8))
"""


def nest(block: str, body: str, guard: str = "", init: str = "", where: str = "") -> str:
    """for i, j: the block with axes vi and vj"""
    lines = [f"for i{block}, j{block} in T.grid(16, 8):"]
    inner = "    "
    if guard:
        lines, inner = [*lines, f"    if {guard}:"], "        "
    lines += [
        f"{inner}with T.block('{block}'):",
        f"{inner}    vi, vj = T.axis.remap('S{'R' if init else 'S'}', [i{block}, j{block}])",
    ]
    if where:
        lines.append(f"{inner}    T.where({where})")
    if init:
        lines += [f"{inner}    with T.init():", f"{inner}        {init}"]
    lines += [f"{inner}    {line}" for line in body.split("\n")]
    return "".join(f"    {line}\n" for line in lines)


MAKE, USE = (
    nest("B", "B[vi, vj] = A[vi, vj] * T.float32(2)"),
    nest("C", "C[vi, vj] = B[vi, vj] + T.float32(1)"),
)
SUM = nest("D", "D[vi] = D[vi] + A[vi, vj]", init="D[vi] = T.float32(0)")


def at(block: str, n: int, name: str = "compute_at", moved: str = "B") -> Step:
    return lambda s: getattr(s, name)(moved, s.get_loops(block)[n])


# The pointer of B in a call.
POINTED = "T.reads(A[vi, vj])\nT.writes(B[vi, vj])\nT.evaluate(T.isnullptr(B.data))\nB[vi, vj] = A[vi, vj]"
CASES: dict[str, tuple[str, Step, str]] = {
    "a block under a condition moves": (
        nest("B", "B[vi, vj] = A[vi, vj]", "iB < 20") + USE, at("C", 0), "block 'B' is under a condition or another statement",
    ),
    "a block moves to one under a condition": (MAKE + nest("C", "C[vi, vj] = B[vi, vj]", "iC < 9"), at("C", 0), ""),
    "a block moves into the loop of a condition": (
        MAKE + nest("C", "C[vi, vj] = B[vi, vj]", "iC < 9"),
        at("C", 1),
        "",
    ),
    "a copy for a block under a condition": (nest("C", "C[vi, vj] = A[vi, vj]", "iC < 9"), lambda s: s.cache_read("C", 0, "local"), ""),
    "a loop around a condition is merged": (
        nest("B", "B[vi, vj] = A[vi, vj]", "iB < 9") + USE, lambda s: s.merge(s.get_loops("B")[1], s.get_loops("C")[1]), "",
    ),
    "a loop around a condition is split": (nest("C", "C[vi, vj] = A[vi, vj]", "iC < 9"), lambda s: s.split(s.get_loops("C")[0], [3, 6]), ""),
    "a reduction's result at its own axis": (
        nest("C", "C[vi, vj] = C[vi, vj] + A[vi, vj]", init="C[vi, vj] = T.float32(0)"),
        lambda s: s.rfactor(s.get_loops("C")[1], 0), "C is written at a reduction axis",
    ),
    "a place by a number of the language": (MAKE + USE, lambda s: s.cache_read("C", tir.const(0, "int32"), "local"), ""),
    "a predicate moves": (nest("B", "B[vi, vj] = A[vi, vj]", where="iB < 16 and jB < 8") + USE, at("C", 0), ""),
    "a sampled place that inlines": (
        MAKE + USE, lambda s: s.reverse_compute_at("C", s.sample_compute_location("B", decision=-1)), "",
    ),
    "a block without axes runs in parallel": (
        "    for i in range(16):\n        with T.block('E'):\n            T.reads(A[i, 0])\n            T.writes(D[i])\n            D[i] = A[i, 0]\n",
        lambda s: s.parallel(s.get_loops("E")[0]), "",
    ),
    "a block without axes that writes one place": (
        "    for i in range(16):\n        with T.block('E'):\n            T.reads(A[0, 0])\n            T.writes(D[0])\n            D[0] = A[0, 0]\n",
        lambda s: s.parallel(s.get_loops("E")[0]), "the iterations of loop 'i' write the same elements",
    ),
    "a block of threads for a padded layout": (
        MAKE.replace("range(16)", "range(16)") + USE,
        lambda s: (s.parallel(s.get_loops("B")[0]), s.transform_layout("B", ("write", 0), lambda i, j: (i, j // 3, j % 3), pad_value=0.0)), "",
    ),
    "a pointer of a type that changes": (
        nest("B", POINTED) + USE,
        lambda s: s.unsafe_set_dtype("B", 0, "float16"), "a block uses the pointer B, whose elements would change",
    ),
    "the init of a sum between its loops": (SUM, lambda s: s.decompose_reduction("D", s.get_loops("D")[1]), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    text, step, said = CASES[name]
    before = from_source(HEAD + text)
    sch = tir.Schedule(before)
    if said:
        with pytest.raises(ScheduleError, match=said):
            step(sch)
        check(sch, before)
    else:
        step(sch)
        assert sch.mod["main"].script() != before.script()
        check(sch, before)


@pytest.mark.no_roundtrip  # two nests of threads
def test_nests_that_share_their_variables() -> None:
    """Each loop, thread and axis has a variable of its own in a schedule."""
    a, b = (tir.decl_buffer((8,), "float32", n) for n in "AB")
    i, thread = tir.Var("i", "int32"), tir.IterVar(None, tir.Var("t", "int32"), 1, "threadIdx.x")
    v, k = (
        tir.IterVar((0, 8), "v", tir.IterVar.DataPar),
        tir.IterVar((0, 1), "k", tir.IterVar.CommReduce),
    )

    def nest(buffer: Any, value: Any, kind: int = 0) -> tir.For:
        region = tir.BufferRegion(buffer, (tir.Range.from_min_extent(v.var, 1),))
        reads = [tir.BufferRegion(a, region.region)] if buffer is b else []
        store, zero = (tir.BufferStore(buffer, e, [v.var]) for e in (buffer[v.var] + value, 0.0))
        block = tir.Block([v, k], reads, [region], buffer.name, store, zero)
        realize = tir.BlockRealize([i, tir.const(0)], True, block)
        return tir.For(i, 0, 8, kind, realize, thread if kind else None)

    for kind in (0, 4):
        nests = tir.SeqStmt([nest(a, tir.const(1.0), kind), nest(b, a[v.var] * 2.0, kind)])
        root = tir.BlockRealize([], True, tir.Block([], [], [], "root", nests))
        sch = tir.Schedule(tir.PrimFunc([a, b], root))
        assert tir.analysis.verify_ssa(sch.mod["main"])
        first, second = (sch.get(sch.get_block(n)) for n in "AB")
        assert first.iter_vars[0].var not in (second.iter_vars[0].var, None)
        threads = [sch.get(sch.get_loops(n)[0]).thread_binding for n in "AB"]
        assert threads[0] is None or threads[0].var is not threads[1].var
        if not kind:
            sch.split(sch.get_loops("A")[0], [2, 4])
        run(sch.mod["main"], [x := np.arange(8, dtype="float32"), y := np.zeros(8, "float32")])
        assert x.tolist() == [1] * 8 and y.tolist() == [2] * 8
        assert len(sch.get_loops("B")) == 1


MATMUL = """
@T.prim_func
def main(A: T.Buffer((16, 16)), B: T.Buffer((16, 16)), C: T.Buffer((16, 16))):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + {}
"""


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * B[vk, vj]", True),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * A[vk, vj]", False),
        ("A[vi, vk] * B[vk, vj]", "B[vi, vk] * A[vk, vj]", True),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] * A[vi, vj]", False),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vk] - B[vk, vj]", False),
        ("A[vi, vk] * B[vk, vj]", "A[vi, vj] * B[vi, vj]", False),
        ("A[vi, vk] * B[vi, vk]", "A[vi, vj] * B[vi, vj]", False),  # their i and j are in the same buffers
        ("A[vi, vk] * B[vk, vj] * T.float32(2)", "A[vi, vk] * B[vk, vj] * T.float32(2)", True),
        ("A[vi, vk] * B[vk, vj] * T.float32(2)", "A[vi, vk] * B[vk, vj] * T.float32(3)", False),
        ("T.exp(A[vi, vk]) * B[vk, vj]", "T.exp(A[vi, vk]) * B[vk, vj]", True),
        ("T.exp(A[vi, vk]) * B[vk, vj]", "T.sqrt(A[vi, vk]) * B[vk, vj]", False),
        ("T.Cast('float32', T.Cast('float64', A[vi, vk])) * B[vk, vj]", "T.Cast('float32', T.Cast('float16', A[vi, vk])) * B[vk, vj]", False),
    ],
)  # fmt: skip
def test_axes_that_correspond(ours: str, theirs: str, fits: bool) -> None:
    sch = tir.Schedule(from_source(MATMUL.format(ours)))
    info = analysis.get_auto_tensorize_mapping_info(
        sch, sch.get_block("update"), from_source(MATMUL.format(theirs))
    )
    assert (info is not None) == fits


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        (None, True),
        (('vi, vj, vk = T.axis.remap("SSR", [i, j, k])', 'vi, vj = T.axis.remap("SS", [i, j])\n            vk = T.axis.reduce(16, 15 - k)'), False),
        (("            C[", "            C[vi, vj] = C[vi, vj]\n            C["), True),
        (("    for i,", "    with T.block('other'):\n        C[0, 0] = T.float32(0)\n    for i,"), False),
    ],
)  # fmt: skip
def test_descriptions_with_a_block_in_loops(change: tuple[str, str] | None, fits: bool) -> None:
    text = MATMUL.format("A[vi, vk] * B[vk, vj]")
    desc = from_source(text.replace(*change, 1) if change else text)
    sch = tir.Schedule(from_source(text))
    block = sch.get_block("update")
    assert (analysis.get_tensorize_loop_mapping(sch, block, desc) is not None) == fits
    if change and "other" in change[1]:
        assert analysis.get_auto_tensorize_mapping_info(sch, block, desc) is None
