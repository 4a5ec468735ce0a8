"""Pairs of products in bfloat16: only where a schedule asks, and the numbers lie side by side."""

from __future__ import annotations

import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.target import Target
from loopwright.script import from_source
from loopwright.tir import transform as tt

LOOP = """
@T.prim_func
def main(A: T.Buffer((64,), "bfloat16"), B: T.Buffer((64,), "bfloat16"), C: T.Buffer((16,), "float32")):
    for k in T.unroll({count}{mark}):
        C[0:{lanes}] = {total} + {left} * {right}
"""
MARK = ', annotations={"dot_bfloat16": 1}'
LEFT = 'T.Broadcast(T.Cast("float32", A[{a}]), {lanes})'
RIGHT = 'T.Cast("float32x16", B[k:k + 32:2])'


def dots(
    cpu="cooperlake",
    count=2,
    mark=MARK,
    lanes=16,
    total="C[0:16]",
    a="4 + k",
    left=LEFT,
    right=RIGHT,
):
    left = left.format(a=a, lanes=lanes)
    given = LOOP.format(count=count, mark=mark, lanes=lanes, total=total, left=left, right=right)
    with Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"):
        text = tt.DotBfloat16()(IRModule({"main": from_source(given)}))["main"].script()
    return text.count("dpbf16ps")


def test_pairs_are_one_instruction():
    assert dots() == 1
    assert dots(lanes=8, total="C[0:8]", right='T.Cast("float32x8", B[k + 2:k + 18:2])') == 1


@pytest.mark.parametrize(
    "other",
    [
        {"cpu": "skylake-avx512"},
        {"mark": ""},
        {"count": 4},
        {"total": "T.Broadcast(T.float32(0), 16)"},
        {"a": "2 * k"},
        {"left": "T.Broadcast(T.float32(2), 16)"},
        {"left": 'T.Broadcast(T.Cast("float32", k), 16)'},
        {"left": 'T.Cast("float32x16", T.Broadcast(A[k], 16))'},
        {"right": 'T.Cast("float32x16", B[k * 16:k * 16 + 16])'},
        {"right": 'T.Cast("float32x16", B[k:k + 48:3])'},
        {
            "right": 'T.Cast("float32x16", B.vload([T.Ramp(k, 2, 16)], predicate=T.Broadcast(T.bool(True), 16)))'
        },
        {"total": "C[0:16] * C[0:16]", "right": "T.Broadcast(T.float32(2), 16) + C[0:16]"},
    ],
)
def test_other_loops_stay(other):
    assert dots(**other) == 0


def test_pairs_under_a_name_of_memory():
    given = LOOP.format(
        count=2,
        mark=MARK,
        lanes=16,
        total="C[0:16]",
        left=LEFT.format(a="4 + k", lanes=16),
        right=RIGHT,
    )
    named = given.replace(
        "        C[0:16]",
        '        D = T.decl_buffer((8,), "float32", data=C.data)\n        C[0:16]',
    )
    with Target("llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake"):
        texts = [
            tt.DotBfloat16()(IRModule({"main": from_source(t)}))["main"].script()
            for t in (given, named)
        ]
    assert [t.count("dpbf16ps") for t in texts] == [1, 1]
    assert [t.count("D = T.decl_buffer") for t in texts] == [0, 1]
