"""What memory holds, as `Simplify` and `RemoveNoOp` use it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

HEAD = (
    '@T.prim_func\ndef main(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):\n'
)
OPTIONS = {
    "tir.Simplify": {
        "propagate_knowns_to_prove_conditional": True,
        "propagate_knowns_to_simplify_expressions": True,
    },
    "tir.RemoveNoOp": {"use_dataflow_analysis": True},
}


def passed(func, made):
    with PassContext(config=OPTIONS):
        return made(IRModule({"main": func}))["main"]


def simplified(text, made=tt.Simplify):
    return passed(from_source(HEAD + text), made()).script()


LOOP = "    for i in range(8):\n"
ELSE = "    A[0] = 7\n    if n > 4:\n        A[0] = 1\n    else:\n        A[0] = 2\n"
IF_ZERO = "            A[i] = 5\n" + LOOP + "        if A[i] == 0:\n            B[i] = 1\n"


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("    A[0] = 3\n    if A[0] == 3:\n        B[0] = 1\n", True),
        ("    A[0] = 3\n    B[0] = 4\n    if A[0] == 3:\n        B[0] = 1\n", True),
        ("    A[0] = 3\n    A[n] = 4\n    if A[0] == 3:\n        B[0] = 1\n", False),
        ("    A[0] = n\n    A[0] = A[0] + 1\n    if A[0] > n:\n        B[0] = 1\n", True),
        (LOOP + "        A[i] = i\n" + LOOP + "        if A[i] < 8:\n            B[i] = 1\n", True),
        (
            LOOP
            + "        A[i] = B[i] * 0\n"
            + LOOP
            + "        if A[i] == 0:\n            B[i] = 1\n",
            True,
        ),
        (LOOP + "        A[i] = 0\n" + LOOP + "        if i < n:\n" + IF_ZERO, False),
        (LOOP + "        A[7 - i] = i\n    if A[2] == 5:\n        B[0] = 1\n", True),
        (LOOP + "        A[i // 2] = i\n    if A[2] == 5:\n        B[0] = 1\n", False),
        ("    A[0] = 0\n" + LOOP + "        if A[0] < 9:\n            A[0] = A[0] + B[i]\n", False),
        ("    T.evaluate(T.assume(n == 4))\n    if n == 4:\n        B[0] = 1\n", True),
        (
            "    for i in range(8):\n        T.evaluate(T.assume(i < 4 or A[i] == 1))\n"
            "    for i in range(8):\n        if i > 3:\n            if A[i] == 1:\n"
            "                B[i] = 1\n",
            True,
        ),
        ("    A[T.ramp(0, 2, 4)] = T.ramp(5, 3, 4)\n    if A[4] == 11:\n        B[0] = 1\n", True),
        (
            "    A[0] = 7\n    for i in range(4):\n        if i > n:\n            A[0] = 1\n"
            "        if n > 4:\n            if A[0] == 7:\n                B[0] = 1\n",
            True,
        ),
        (ELSE + "    if n < 3:\n        if A[0] == 2:\n            B[0] = 1\n", True),
        (ELSE + "    if n > 5:\n        if A[0] == 1:\n            B[0] = 1\n", True),
        (ELSE + "    if n > 3:\n        if A[0] == 1:\n            B[0] = 1\n", False),
        (
            "    A[0] = 1\n    A[T.ramp(0, 2, 4)] = T.broadcast(7, 4)\n"
            "    if A[3] == 7:\n        B[0] = 1\n",
            False,
        ),
        (
            "    A[0] = 1\n    T.evaluate(T.call_extern('int32', 'f', A.data))\n"
            "    if A[0] == 1:\n        B[0] = 1\n",
            False,
        ),
        (
            "    for i in T.parallel(8):\n        A[i] = i\n        if A[i] == i:\n"
            "            B[i] = 1\n",
            True,
        ),
        (
            "    A[0] = 1\n    while B[0] < 3:\n        if A[0] == 1:\n            A[0] = 2\n"
            "        B[0] = B[0] + 1\n",
            False,
        ),
    ],
)
def test_conditions(text, decided):
    last = simplified(text).rstrip().split("\n")
    guards = [line for line in last if "if A[" in line or "if n ==" in line]
    assert bool(guards) is not decided, "\n".join(last)


def test_a_condition_of_now_says_nothing_of_before():
    text = """
    B[0] = A[0]
    A[0] = 5
    if A[0] == n:
        if B[0] == n:
            B[1] = 1
"""
    assert "if B[0] == n" in simplified(text)


def test_values_and_stores():
    left = simplified("    A[0] = 5\n    A[1] = A[0] + 7\n    B[0] = A[1] * n\n")
    assert "A[1] = 12" in left and "B[0] = A[1] * n" in left
    text = "    for i in range(8):\n        A[i] = i\n    A[4] = 4\n    A[5] = 4\n"
    left = simplified(text, tt.RemoveNoOp)
    assert "A[4]" not in left and "A[5] = 4" in left


def program(rng, depth=0, loops=()):
    """A random program on two arrays of eight."""
    index = [
        str(rng.randrange(8)),
        *loops,
        *(f"7 - {v}" for v in loops),
        *(f"{v} // 2" for v in loops),
    ]

    def place():
        return f"{rng.choice('AB')}[{rng.choice(index)}]"

    def term():
        return rng.choice([place(), place(), str(rng.randrange(4)), rng.choice([*loops, "n"])])

    pad, lines = "    " * (depth + 1), []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(6 if depth < 3 else 2)
        if kind < 2:
            lines.append(f"{pad}{place()} = {term()} {rng.choice('+-*')} {term()}")
        elif kind < 4:
            lines.append(f"{pad}if {term()} {rng.choice(['==', '<', '!='])} {term()}:")
            lines += program(rng, depth + 1, loops)
            if rng.randrange(2):
                lines.append(f"{pad}else:")
                lines += program(rng, depth + 1, loops)
        else:
            var = "ijk"[len(loops) % 3] + str(depth)
            low = rng.randrange(3)
            lines.append(f"{pad}for {var} in range({low}, {rng.randrange(low + 1, 9)}):")
            lines += program(rng, depth + 1, (*loops, var))
    return lines


@pytest.mark.slow
def test_random_programs_give_the_same():
    changed = 0
    for seed in range(16):
        func = from_source(HEAD + "\n".join(program(random.Random(seed))))
        for made in (tt.Simplify(), tt.RemoveNoOp()):
            after = passed(func, made)
            changed += after is not func
            one = [np.arange(k, k + 8, dtype="int32") % 5 for k in (0, 3)]
            two = [a.copy() for a in one]
            run(func, [*one, 2])
            run(after, [*two, 2])
            assert all(map(np.array_equal, one, two)), f"seed {seed}\n{func.script()}"
    assert changed > 4


OVERCOMPUTED = [  # what the condition guards is a no-op, or overwritten, where it does not hold
    "        if i > 2:\n            B[i] = B[i] + T.max(i - 2, 0)\n",
    "        if i < 5:\n            A[i] = 1\n"
    + LOOP
    + "        if i >= 5:\n            A[i] = 2\n",
    "        if i < 6:\n            A[i] = 1\n            T.evaluate(0)\n        else:\n            A[i] = 1\n",
]
KEPT = [
    "        if i < 5:\n            A[i] = 1\n",  # another value there
    "        if i < 5:\n            A[i] = 1\n"
    + LOOP
    + "        if i >= 5:\n            A[i] = A[i] + 2\n",
    "        if i < 5:\n            A[i + 3] = B[i + 3]\n" + LOOP + "        A[i] = 3\n",  # outside
    "        if i > 2:\n            A[i] = 4 // (n + i)\n" + LOOP + "        A[i] = 3\n",  # 4 // 0
    "        if i < 5:\n            A[0] = i\n"
    + LOOP
    + "        if i >= 5:\n            A[i] = 2\n",
    "        if i < 5:\n            A[i] = A[7 - i]\n"
    + LOOP
    + "        if i >= 5:\n            A[i] = 2\n",
]


@pytest.mark.parametrize("kept", [False, True])
def test_computing_more_instead_of_branches(kept, rng):
    options = {"tir.ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": True}}
    for body in KEPT if kept else OVERCOMPUTED:
        func = from_source(HEAD + LOOP + body)
        with PassContext(config=options):
            made = tt.ReduceBranchingThroughOvercompute()(IRModule({"main": func}))["main"]
        assert made.script().count(" if ") == func.script().count(" if ") - (not kept), body
        values = rng.integers(-9, 9, (2, 8)).astype("int32")
        wanted, got = values.copy(), values.copy()
        run(func, [*wanted, 3])
        run(made, [*got, 3])
        np.testing.assert_array_equal(got, wanted)
