"""Software pipelines compute what their loops compute, or are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

TEXT = """
@T.prim_func
def main(A: T.Buffer((9, 4), "float32"), C: T.Buffer((9, 4), "float32"), D: T.Buffer((4,), "float32")):
    for i in T.serial({low}, {high}, annotations={{"software_pipeline_stage": {stage}, "software_pipeline_order": {order}}}):
        with T.block():
            T.reads()
            T.writes()
            X = T.alloc_buffer((4,))
            Y = T.alloc_buffer((4,))
            for j in range(4):
                X[j] = A[i, j]
            for j in range(4):
                Y[j] = X[3 - j] * T.float32(2)
            for j in range(4):
                C[i, j] = Y[j] + X[j]
            for j in range(4):
                D[j] = D[j] + {last}
"""


def program(stage, order=(0, 1, 2, 3), low=0, high=9, last="Y[j]"):
    values = {"stage": list(stage), "order": list(order), "low": low, "high": high, "last": last}
    return from_source(TEXT.format(**values))


@pytest.mark.parametrize(
    ("stage", "order", "low", "high"),
    [
        ((0, 0, 0, 0), (0, 1, 2, 3), 0, 9),
        ((0, 1, 1, 1), (0, 1, 2, 3), 0, 9),
        ((0, 1, 2, 2), (0, 1, 2, 3), 0, 9),
        ((0, 1, 2, 3), (3, 2, 1, 0), 0, 9),
        ((0, 0, 3, 1), (1, 2, 0, 3), 2, 9),
        ((0, 1, 2, 3), (2, 0, 3, 1), 1, 4),
        ((0, 1, 2, 3), (0, 1, 2, 3), 1, 3),
        ((0, 1, 2, 3), (3, 2, 1, 0), 4, 5),
    ],
)
def test_same_numbers(stage, order, low, high):
    func = program(stage, order, low, high)
    after = tt.InjectSoftwarePipeline()(IRModule({"main": func}))["main"]
    ta.verify_well_formed(after)
    loops = tt.lower_to_loops()(IRModule({"main": func}))["main"]
    rng = np.random.default_rng(1)
    given = [rng.random((9, 4)).astype("f4"), np.zeros((9, 4), "f4"), np.zeros(4, "f4")]
    wanted = [a.copy() for a in given]
    run(func, wanted)
    for made in (after, loops):
        got = [a.copy() for a in given]
        run(made, got)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stage": (1, 0, 1, 1)}, "X is used before it is made"),
        ({"stage": (0, 0, 0, 0), "order": (1, 0, 2, 3)}, "X is used before it is made"),
        ({"stage": (0, 1, 1)}, "a number for each statement"),
        ({"stage": (0, 1, 1, 1), "order": (0, 1, 1, 2)}, "each number once"),
        ({"stage": (0, 0, 0, 1), "order": ()}, "software_pipeline_order [] for 4 statements"),
        ({"stage": (0, 0, 0, 1), "last": "C[i - 1, j]"}, "C is shared between stages"),
    ],
)
def test_refused(options, text):
    with pytest.raises(ValueError, match="cannot be a software pipeline") as e:
        tt.InjectSoftwarePipeline()(IRModule({"main": program(**options)}))
    assert text in str(e.value)
    assert "for i in T.serial(" in str(e.value)


def test_copies_of_an_aligned_buffer_keep_its_strides() -> None:
    @T.prim_func
    def f(A: T.Buffer((6, 5)), B: T.Buffer((6, 5))):
        for i in range(6):
            for j in range(5):
                with T.block("C"):
                    v, w = T.axis.remap("SS", [i, j])
                    B[v, w] = A[v, w] + T.float32(1)

    sch = tir.Schedule(f)
    copy = sch.cache_read("C", 0, "local")
    loop = sch.get_loops("C")[0]
    sch.compute_at(copy, loop)
    sch.storage_align(copy, 0, 0, 8, 3)
    sch.annotate(loop, "software_pipeline_stage", [0, 1])
    sch.annotate(loop, "software_pipeline_order", [0, 1])
    low = tt.default_tir_pipeline()(sch.mod)["main"]
    args = [np.arange(30, dtype="float32").reshape(6, 5), np.zeros((6, 5), "float32")]
    run(low, args)
    np.testing.assert_array_equal(args[1], args[0] + 1)


@pytest.mark.parametrize("stage", [(0, 1, 1, 1), (0, 0, 1, 2), (0, 1, 2, 3)])
def test_loops_of_unknown_length(stage):
    text = TEXT.replace(
        ', D: T.Buffer((4,), "float32")', ', D: T.Buffer((4,), "float32"), n: T.int32'
    )
    text = text.format(stage=list(stage), order=[0, 1, 2, 3], low=0, high="n", last="Y[j]")
    func = from_source(text)
    after = tt.InjectSoftwarePipeline()(IRModule({"main": func}))["main"]
    exe = lw.compile(func)
    for n in range(7):
        given = [np.arange(36, dtype="f4").reshape(9, 4), np.zeros((9, 4), "f4"), np.zeros(4, "f4")]
        wanted, got, compiled = ([a.copy() for a in given] for _ in range(3))
        run(func, [*wanted, n])
        run(after, [*got, n])
        exe["main"](*compiled, n)
        for a, b, c in zip(wanted, got, compiled, strict=True):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)


NESTED = """
@T.prim_func
def main(A: T.Buffer((9, 6), "float32"), C: T.Buffer((9, 6), "float32")):
    for i in T.serial(9, annotations={"software_pipeline_stage": OUTER, "software_pipeline_order": ORDER}):
        with T.block():
            X = T.alloc_buffer((6,))
            for j in range(6):
                X[j] = A[i, j]
            for j in T.serial(6, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
                with T.block():
                    Y = T.alloc_buffer((1,))
                    Y[0] = X[5 - j] * T.float32(2)
                    C[i, j] = Y[0] + T.float32(1)
"""


@pytest.mark.parametrize(
    ("outer", "order"),
    [([0, 1, 1, 1], [0, 1, 2, 3]), ([0, 0, 1, 1], [0, 2, 1, 3]), ([0, 1], [0, 1])],
)
def test_the_parts_of_a_pipeline_inside_are_numbered(outer, order):
    func = from_source(NESTED.replace("OUTER", str(outer)).replace("ORDER", str(order)))
    if len(outer) < 4:
        with pytest.raises(ValueError, match=r"for 4 statements"):
            tt.InjectSoftwarePipeline()(IRModule({"main": func}))
        return
    low = tt.lower_to_loops()(IRModule({"main": func}))["main"]
    a, c = np.arange(54, dtype="f4").reshape(9, 6), np.zeros((9, 6), "f4")
    run(low, [a, c])
    np.testing.assert_array_equal(c, a[:, ::-1] * 2 + 1)


def test_as_few_copies_as_the_order_allows():
    """A buffer that is read before the next iteration writes it needs one; one that a block marks, two."""
    text = TEXT.format(stage=[0, 1, 1, 1], order=[2, 0, 1, 3], low=0, high=9, last="D[j]")
    assert "X = T.alloc_buffer((4,))" in after_text(text)
    assert "X = T.alloc_buffer((2, 4))" in after_text(text.replace("[2, 0, 1, 3]", "[1, 0, 2, 3]"))
    marked = text.replace(
        """            for j in range(4):
                X[j] = A[i, j]
""",
        """            with T.block():
                T.reads(A[i, 0:4])
                T.writes(X[0:4])
                T.block_attr({"double_buffer_scope": 0})
                for j in range(4):
                    X[j] = A[i, j]
""",
    )
    assert "X = T.alloc_buffer((2, 4))" in after_text(marked)


def after_text(text):
    return tt.InjectSoftwarePipeline()(IRModule({"main": from_source(text)}))["main"].script()


def test_stages_in_the_background_commit_and_wait():
    text = TEXT.format(stage=[0, 0, 3, 3], order=[0, 1, 2, 3], low=0, high=9, last="Y[j]")
    text = text.replace("annotations={", 'annotations={"software_pipeline_async_stages": [0], ')
    made = after_text(text)
    assert (
        made.count('"async_commit_queue_scope", 0') == 4
    )  # Y, which waits for X, is apart from it
    counts = re.findall(r'"async_wait_inflight_count", (.*)\)', made)
    assert counts == ["0", "0", "2 - i"]
    low = tt.lower_to_loops()(IRModule({"main": from_source(text)}))["main"]
    plain = program((0, 0, 3, 3))
    data = [np.arange(36, dtype="f4").reshape(9, 4), np.zeros((9, 4), "f4"), np.zeros(4, "f4")]
    wanted, got = ([a.copy() for a in data] for _ in range(2))
    run(plain, wanted)
    run(low, got)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_pointers_to_copies():
    @T.prim_func
    def f(A: T.Buffer((6, 4), "int32"), C: T.Buffer((6,), "int32")):
        for i in T.serial(
            6,
            annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]},
        ):
            with T.block():
                X = T.alloc_buffer((4,), "int32")
                for j in range(4):
                    X[j] = A[i, j]
                C[i] = T.call_extern("int32", "last", X.access_ptr("r", offset=3))

    script = tt.InjectSoftwarePipeline()(IRModule({"main": f}))["main"].script()
    assert "X.data, 3 + 1 * 4" in script or "X.data, 7" in script, script


def test_separators_of_axes_move_with_the_versions():
    text = TEXT.format(stage=[0, 1, 1, 1], order=[0, 1, 2, 3], low=0, high=9, last="Y[j]")
    text = text.replace(
        "X = T.alloc_buffer((4,))", "X = T.alloc_buffer((4, 1), axis_separators=[1])"
    )
    text = text.replace("X[j]", "X[j, 0]").replace("X[3 - j]", "X[3 - j, 0]")
    after = tt.InjectSoftwarePipeline()(IRModule({"main": from_source(text)}))["main"]
    assert "T.alloc_buffer((2, 4, 1), axis_separators=[2])" in after.script()


@pytest.mark.parametrize(
    ("head", "at", "refused"),
    [
        ("with T.block():", "i", False),
        ("pass", "i", False),
        ("with T.block():\n            v = T.axis.opaque(9, i)", "v", True),
        (
            "with T.block():\n            with T.init():\n                D[0] = T.float32(0)",
            "0",
            True,
        ),
    ],
)
def test_what_the_stages_stand_in(head, at, refused):
    inner = " " * (12 if "block" in head else 8)
    text = f"""
@T.prim_func
def main(A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32"), D: T.Buffer((9,), "float32")):
    for i in T.serial(9, annotations={{"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}}):
        {head}
{inner}C[{at}] = A[{at}] * T.float32(2)
{inner}D[{at}] = A[{at}] + T.float32(1)
"""
    mod = IRModule({"main": from_source(text)})
    if refused:
        with pytest.raises(ValueError, match="is a block with axes"):
            tt.InjectSoftwarePipeline()(mod)
        return
    after = tt.InjectSoftwarePipeline()(mod)["main"]
    a, c, d = np.arange(9, dtype="f4"), np.zeros(9, "f4"), np.zeros(9, "f4")
    run(after, [a, c, d])
    np.testing.assert_array_equal([c, d], [a * 2, a + 1])
