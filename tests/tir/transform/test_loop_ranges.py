"""`LoopPartition` by ranges: loops split where marked conditions change."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext, Sequential
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

HEAD = '@T.prim_func\ndef main(A: T.Buffer((96,), "int32"), n: T.int32, m: T.int32):\n'
HINT = 'annotations={"pragma_loop_partition_hint": 1}'


def split(text, **options):
    """The function before, and the text of it after LoopPartition and Simplify."""
    before = from_source(HEAD + text.replace("HINT", HINT))
    with PassContext(config={"tir.LoopPartition": options}):
        passes = Sequential([tt.LoopPartition(), tt.Simplify(), tt.RemoveNoOp()])
        after = passes(IRModule({"main": before}))["main"]
    ta.verify_well_formed(after)
    for n, m in ((0, 3), (7, 2), (20, 5), (96, 1)):
        one, two = (np.full(96, -1, "int32") for _ in range(2))
        run(before, [one, n, m])
        run(after, [two, n, m])
        np.testing.assert_array_equal(one, two)
    return after.script()


@pytest.mark.parametrize(
    ("condition", "loops"),
    [
        ("i < 32", 2),
        ("32 <= i and i < 64", 3),
        ("i == 0 or i == 95", 3),
        ("i // 8 == 3", 3),
        ("i // 8 != 3", 3),
        ("not i > 90", 2),
        ("i * 3 >= 100", 2),
    ],
)
def test_constant_ranges(condition, loops):
    text = f"""
    for i in T.serial(96, HINT):
        if {condition}:
            A[i] = i
        else:
            A[i] = i * 2
"""
    after = split(text)
    assert "if" not in after and after.count("A[") == loops


def test_loops_further_inside():
    text = """
    for i in T.serial(11, HINT):
        for j in range(8):
            if T.likely(3 <= i * 4 + j and i * 4 + j < 46):
                A[i * 4 + j] = j
"""
    after = split(text, partition_const_loop=True)
    assert "if" not in after and "for i, j in T.grid(9, 8)" in after


def test_symbolic_ranges():
    text = """
    for i in range((n + 3) // 4):
        for j in range(4):
            if T.likely(i * 4 + j < n):
                A[i * 4 + j] = j
"""
    first = split(text).split("for i")[1]
    assert "n // 4" in first.split("\n")[0] and "if" not in first


def test_annotations_and_options():
    text = """
    for i in T.serial(12, annotations={"pragma_loop_partition_hint": 1, "key": 1}):
        for j in range(8):
            if 3 <= i * 4 + j:
                A[i * 4 + j] = j
"""
    after = split(text, unroll_loop_with_partition_hint_no_interval=True)
    assert "partition_hint" not in after and after.count('"key": 1') == 2
    assert 'annotations={"key": 1}' in after and "T.unroll" not in after
    unmarked = "    for i in range(9):\n        if T.likely(i < 5):\n            A[i] = i\n"
    assert "if" in split(unmarked) and "likely" not in split(unmarked)
    assert "if" not in split(unmarked, partition_const_loop=True)


def test_what_no_condition_decides_is_unrolled_on_request():
    text = """
    for i in T.serial(6, HINT):
        for j in range(4):
            if 5 <= i * 2 + j:
                A[i + j] = j
"""
    after = split(text, unroll_loop_with_partition_hint_no_interval=True)
    assert "T.unroll(2)" in after and "T.grid(3, 4)" in after


def test_ignored_and_unknown_conditions():
    text = """
    for i in T.serial(12, HINT):
        x = A[i]
        if T.ignore_loop_partition(i < 5) and x + i < 3 and A[i] < i:
            A[i] = i
"""
    after = split(text)
    assert after.count("for") == 1 and "ignore" not in after
