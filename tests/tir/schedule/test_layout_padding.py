"""`transform_layout` where the new layout is larger: what writes the padding, or states it."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.interpreter import run

from .util import check

SPLIT = lambda i: [i // 4, i % 4]  # noqa: E731

COPY = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), C: T.Buffer((14,), "int32")):
    B = T.alloc_buffer((14,), "int32")
    for i in range(14):
        with T.block("B"):
            v = T.axis.spatial(14, i)
            B[v] = A[v] * 2
    for i in range(14):
        with T.block("C"):
            v = T.axis.spatial(14, i)
            C[v] = B[v] + 1
"""

SUM = """
@T.prim_func
def main(A: T.Buffer((14, 5), "int32"), B: T.Buffer((14,), "int32")):
    for i, k in T.grid(14, 5):
        with T.block("B"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                B[v] = 0
            B[v] = B[v] + A[v, w]
"""

BEHIND = {
    "another effect": """
            v = T.axis.spatial(14, i)
            B[v] = A[v]
            D[v] = A[v]""",
    "a condition": """
            v = T.axis.spatial(14, i)
            T.where(A[i] < 5)
            B[v] = A[v]""",
    "a neighbour": """
            v = T.axis.opaque(14, i)
            B[v] = A[v] + B[T.max(v - 1, 0)]""",
    "an opaque block of other places": """
            B[13 - i] = A[i]""",
    "a definition around": """
            v = T.axis.spatial(14, i)
            x: T.int32 = 13 - v
            B[x] = A[x]""",
    "a definition of the value": """
            v = T.axis.spatial(14, i)
            x: T.int32 = A[v] + 1
            B[v] = x""",
    "a condition inside": """
            v = T.axis.spatial(14, i)
            if v < 9:
                B[v] = A[v]""",
    "a loop of its length": """
            for j in range(i + 1):
                B[i] = A[j]""",
    "a call": """
            v = T.axis.spatial(14, i)
            B[v] = A[v]
            T.evaluate(A[v])""",
    "two axes of one loop": """
            v, w = T.axis.spatial(14, i), T.axis.spatial(14, i)
            B[v] = A[w]""",
    "a block inside": """
            v = T.axis.spatial(14, i)
            for j in range(3):
                with T.block("inner"):
                    w = T.axis.opaque(3, j)
                    B[v] = A[v] + w""",
}
TRAVERSALS = {
    "an opaque block": """
            B[i] = A[i]""",
    "an axis beside it": """
            w, v, u = T.axis.spatial(1, 0), T.axis.spatial(14, i), T.axis.spatial(1, 0)
            B[v] = A[v + w] + u""",
    "a loop inside": """
            v = T.axis.spatial(14, i)
            for j in range(3):
                B[v] = A[v] + j""",
    "a loop of an axis's length": """
            v = T.axis.spatial(14, i)
            for j in range(v + 1):
                B[v] = A[j]""",
}


def moved(text, block, buffer, pad_value, index_map=SPLIT):
    before = from_source(text)
    sch = tir.Schedule(before)
    sch.transform_layout(block, buffer, index_map, pad_value=pad_value)
    return before, sch


def test_a_nest_over_the_buffer_writes_its_padding():
    before, sch = moved(COPY, "B", "B", 7)
    check(sch, before)
    text = sch.mod["main"].script()
    assert "for axis0, axis1 in T.grid(4, 4):" in text
    assert "T.if_then_else(v_axis0 == 3 and 2 <= v_axis1, 7, A[v_axis0 * 4 + v_axis1] * 2)" in text
    assert [sch.get(b).name_hint for b in blocks(sch)] == ["B", "C"]


def blocks(sch):
    return sch.get_child_blocks(sch.get_block("root"))


@pytest.mark.parametrize("value", [3, lambda i, j: i * 10 + j])
def test_a_reduction_leaves_the_pad_value(value):
    _, sch = moved(SUM, "B", "B", value)
    x = np.arange(70, dtype="int32").reshape(14, 5)
    made = np.full((4, 4), -1, "int32")
    run(sch.mod["main"], [x, made])
    want = np.array(
        [[value(i, j) if callable(value) else value for j in range(4)] for i in range(4)]
    )
    want.reshape(-1)[:14] = x.sum(1)
    np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("body", BEHIND.values(), ids=BEHIND)
def test_other_padding_is_written_behind_the_last_writer(body):
    head = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32"), D: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("B"):"""
    before, sch = moved(head + body, "B", "B", 7)
    assert len(blocks(sch)) == 2
    x = np.arange(14, dtype="int32")
    plain, padded = np.zeros(14, "int32"), np.zeros((4, 4), "int32")
    run(before, [x, plain, np.zeros(14, "int32")])
    run(sch.mod["main"], [x, padded, np.zeros(14, "int32")])
    np.testing.assert_array_equal(padded.reshape(-1), [*plain, 7, 7])


@pytest.mark.parametrize("body", TRAVERSALS.values(), ids=TRAVERSALS)
def test_a_nest_in_the_order_of_the_buffer_runs_over_the_padding(body):
    head = """
@T.prim_func
def main(A: T.Buffer((14,), "int32"), B: T.Buffer((14,), "int32")):
    for i in range(14):
        with T.block("B"):"""
    before, sch = moved(head + body, "B", "B", 7)
    assert len(blocks(sch)) == 1 and len(sch.get_loops(blocks(sch)[0])) == 2
    x = np.arange(14, dtype="int32")
    plain, padded = np.zeros(14, "int32"), np.zeros((4, 4), "int32")
    run(before, [x, plain])
    run(sch.mod["main"], [x, padded])
    np.testing.assert_array_equal(padded.reshape(-1), [*plain, 7, 7])


@pytest.mark.parametrize(
    "loops, whole",
    [
        ("for i, j in T.grid(14, 3):", True), ("for j, i in T.grid(3, 14):", False), ("for i, j in T.grid(13, 3):", False),
        ("for i in range(1, 14):\n      for j in range(3):", False), ("for i in range(14):\n      for j in T.parallel(3):", False),
        ("for i in range(14):\n      for j in T.serial(3, annotations={'pragma_x': 1}):", False),
        ("for i in range(14):\n     A[0, 0] = 1\n     for j in range(3):", False), ("for i, o, j in T.grid(14, 2, 3):", False),
    ],
)  # fmt: skip
def test_what_runs_over_the_whole_buffer(loops, whole):
    text = f"""
@T.prim_func
def main(A: T.Buffer((14, 3), "int32"), B: T.Buffer((14, 3), "int32")):
    {loops}
        with T.block("B"):
            v, w = T.axis.spatial(14, i), T.axis.spatial(3, j)
            B[v, w] = A[v, w] * 2
"""
    before, sch = moved(text, "B", "B", 7, lambda i, j: [i // 4, j, i % 4])
    assert len(blocks(sch)) == (1 if whole else 2)
    x, plain, padded = (
        np.arange(42, dtype="int32").reshape(14, 3),
        np.zeros((14, 3), "int32"),
        np.zeros((4, 3, 4), "int32"),
    )
    run(before, [x.copy(), plain])
    run(sch.mod["main"], [x.copy(), padded])
    rows = padded.transpose(0, 2, 1).reshape(16, 3)
    np.testing.assert_array_equal(rows, np.concatenate([plain, np.full((2, 3), 7)]))


def test_padding_of_what_is_only_read_is_assumed():
    _, sch = moved(COPY, "B", "A", 7)
    text = sch.mod["main"].script()
    assert "T.assume(not (v_axis0 == 3 and 2 <= v_axis1) or A[v_axis0, v_axis1] == 7)" in text
    x = np.arange(14, dtype="int32")
    packed = np.array([*x, 7, 7], "int32").reshape(4, 4)
    made = np.zeros(14, "int32")
    lw.build(sch.mod["main"], "llvm")(lw.nd.array(packed), result := lw.nd.array(made))
    np.testing.assert_array_equal(result.numpy(), x * 2 + 1)


def test_what_padding_cannot_hold_is_refused():
    other = tir.decl_buffer((1,), "int32", "other")
    for value, said in (
        (0.5, "holds int32"),
        (tir.IntImm("int8", 0), "holds int32"),
        (lambda i, j: other[0], "may load from no other buffer"),
        (lambda i, j: [i, j], "holds one value"),
    ):
        sch = tir.Schedule(from_source(COPY))
        with pytest.raises(tir.ScheduleError, match=said):
            sch.transform_layout("B", "B", SPLIT, pad_value=value)


def test_sampled_numbers_stand_in_a_map():
    before = from_source(COPY.replace("14", "16"))
    sch = tir.Schedule(before)
    _, size = sch.sample_perfect_tile(sch.get_loops("B")[0], 2, decision=[4, 4])
    sch.transform_layout("B", "B", lambda i: [i // size, i % size])
    check(sch, before)
    assert [int(e) for e in sch.get(sch.get_block("B")).writes[0].buffer.shape] == [4, 4]


def test_symbolic_axes_are_fused():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (T.int64(3), n), "float32")
    B = T.match_buffer(b, (T.int64(3), n), "float32")
    for i, j in T.grid(T.int64(3), n):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            B[v, w] = A[v, w] * T.float32(2)
"""
    before = from_source(text)
    n = before.buffer_map[before.params[0]].shape[1]
    sch = tir.Schedule(before)
    sch.transform_block_layout("B", lambda i, j: [i * n + j])
    assert len(sch.get_loops("B")) == 1
    check(sch, before, {"n": 5}, replay=False)  # the map names n


MATCH = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), C: T.Buffer((4, 6), "float32")):
    B = T.alloc_buffer((4, 6), "float32")
    for i, j in T.grid(4, 6):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            M = T.match_buffer(B[v, w], (), offset_factor=1)
            M[()] = A[v, w] * T.float32(2)
    for i, j in T.grid(4, 6):
        with T.block("C"):
            v, w = T.axis.remap("SS", [i, j])
            N = T.match_buffer(B[v, w], (), offset_factor=1)
            C[v, w] = N[()] + T.float32(1)
"""


def test_what_matches_a_region_follows_its_buffer():
    steps = {
        "axis_separators=[1]": lambda s: s.set_axis_separator("B", ("write", 0), [1]),
        'scope="shared"': lambda s: s.set_scope("B", 0, "shared"),
        '"float64"': lambda s: s.unsafe_set_dtype("B", 0, "float64"),
    }
    for shown, step in steps.items():
        before = from_source(MATCH)
        sch = tir.Schedule(before)
        step(sch)
        matches = [n for n in sch.mod["main"].script().splitlines() if "T.match_buffer(B" in n]
        kept = shown.replace("[1]", "[0]")
        assert len(matches) == 2 and all(kept in n for n in matches), matches
        check(sch, before)


def test_separators_of_a_map_are_a_step_of_the_trace():
    before = from_source(MATCH)
    sch = tir.Schedule(before)
    sch.transform_layout("B", "B", lambda i, j: [i, tir.IndexMap.AXIS_SEPARATOR, j])
    assert [i.kind.name for i in sch.trace.insts][-2:] == ["TransformLayout", "SetAxisSeparator"]
    check(sch, before)


def test_what_makes_no_difference_to_an_index_is_no_axis_of_the_copy():
    text = """
@T.prim_func
def main(A: T.Buffer((3,), "float32"), B: T.Buffer((8, 3), "float32")):
    for i, j in T.grid(8, 3):
        with T.block("B"):
            v, w = T.axis.remap("SS", [i, j])
            T.reads(A[v // 8 * 3 + w])
            T.writes(B[v, w])
            B[v, w] = A[v // 8 * 3 + w]
"""
    before = from_source(text)
    sch = tir.Schedule(before)
    copy = sch.get(sch.reindex("B", ("read", 0)))
    assert [int(e) for e in copy.writes[0].buffer.shape] == [3]
    check(sch, before)


def test_a_declared_update_stays_declared_after_reindex():
    before = from_source(
        SUM.replace("with T.init", "T.reads(B[v], A[v, w])\n            with T.init")
    )
    sch = tir.Schedule(before)
    sch.reindex("B", ("write", 0))
    assert [r.buffer.name for r in sch.get(sch.get_block("B")).reads] == ["B_reindex", "A"]


@pytest.mark.parametrize("value", [7, lambda i, j: 7, tir.IntImm("int32", 7)])
def test_the_text_of_a_trace_keeps_the_type_of_the_padding(value):
    before = from_source(COPY.replace("14", "T.int64(14)"))
    sch = tir.Schedule(before)
    sch.transform_layout("B", "B", SPLIT, pad_value=value)
    check(sch, before)
    assert "pad_value=7" in str(sch.trace)
    again = tir.Schedule(before)
    exec(f"{sch.trace}\napply_trace(again)", {"tir": tir, "again": again, "T": T})
    assert again.mod["main"].script() == sch.mod["main"].script()
