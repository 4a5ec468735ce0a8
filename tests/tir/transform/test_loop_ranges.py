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


SIDES = {  # a body, texts that are there after the pass, and texts that are not
    "launches": (
        "for i in T.serial(8, HINT):\n    with T.launch_thread('threadIdx.x', 4) as t:\n"
        "        if i < t * 2 and i < 3:\n            A[i * 4 + t] = i", ["< t * 2"], ["i < 3"],
    ),
    "literals last": (
        "for i in T.serial(48, HINT):\n    if i < 32:\n        A[i] = 1\n    A[m + i] = i", ["A[m + i + 32]"], ["if"],
    ),
    "equal parts": (
        "for i in T.serial(90, HINT):\n    if i < n and i // 30 * 30 == 30:\n        A[i] = 1", ["if"], [],
    ),
    "a block inside": (
        "for i in T.serial(48, HINT):\n    if i < 32:\n        with T.block('b'):\n            v = T.axis.spatial(48, i)\n"
        "            A[v] = 1", ["48", "if i < 32"], ["range(32"],
    ),
    "a tile": (
        "for i in range(12):\n    for j in T.vectorized(8):\n        if i * 8 + j < n:\n            A[i * 8 + j] = j", ["if i * 8 + 7 < n", "else"], [],
    ),
    "a definition in a tile": (
        "for i in range(12):\n    for j in T.vectorized(8):\n        y: T.int32 = A[i * 8 + j] + m\n"
        "        if i * 8 + j < n:\n            A[i * 8 + j] = y * y", ["if i * 8 + 7 < n", "else"], [],
    ),
    "a tile of no known bound": (
        "for i in range(12):\n    for j in T.vectorized(8):\n        if j * n < m:\n            A[i * 8 + j] = j", [], ["else"],
    ),
    "a tile whose bound is too large": (
        "for i in range(12):\n    for j in T.vectorized(8):\n        if i - j * 1000000000 > n:\n            A[i * 8 + j] = j", [], ["else"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SIDES)
def test_what_is_split(case):
    body, there, gone = SIDES[case]
    lines = "".join(f"    {line}\n" for line in body.replace("HINT", HINT).splitlines())
    before = from_source(HEAD + lines)
    after = tt.LoopPartition()(IRModule({"main": before}))["main"]
    ta.verify_well_formed(after)
    for n, m in ((0, 3), (7, 2), (20, 5), (96, 1)):
        one, two = (np.full(96, -1, "int32") for _ in range(2))
        run(before, [one, n, m])
        run(after, [two, n, m])
        np.testing.assert_array_equal(one, two)
    assert [t in after.script() for t in (*there, *gone)] == [True] * len(there) + [False] * len(
        gone
    )
