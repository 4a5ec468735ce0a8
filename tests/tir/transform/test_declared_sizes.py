"""Memory whose size depends on a loop's variable, when a pass takes the loop away."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.script import tir as T
from loopwright.tir import transform
from loopwright.tir.analysis import verify_well_formed
from loopwright.tir.interpreter import run


def reversed_in(loop, count):
    """Each run of four elements backwards, by memory that is longer in each iteration."""

    @T.prim_func(private=True)
    def main(a: T.Buffer((4 * count,), "int32")):
        for t in loop(count):
            held = T.decl_buffer((t + 4,), "int32", scope="local")
            for i in range(4):
                held[i] = a[t * 4 + i]
            for i in range(4):
                a[t * 4 + i] = held[3 - i]

    return IRModule({"main": main})


def virtual(count):
    return T.thread_binding(count, thread="vthread.x")


@pytest.mark.parametrize(
    ("rule", "loop", "count"),
    [
        (transform.UnrollLoop(), T.unroll, 3),
        (transform.VectorizeLoop(), T.vectorized, 1),
        (transform.Simplify(), T.serial, 1),
        (transform.InjectVirtualThread(), virtual, 3),
    ],
    ids=["unrolled", "one lane", "one iteration", "virtual threads"],
)
def test_sizes_follow_the_variable(rule, loop, count):
    after = rule(reversed_in(loop, count))
    assert verify_well_formed(after, assert_mode=False)
    a = np.arange(4 * count, dtype="int32")
    run(after["main"], [a], after)
    np.testing.assert_array_equal(a, np.arange(4 * count).reshape(-1, 4)[:, ::-1].ravel())
