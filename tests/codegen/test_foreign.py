"""Programs for another machine than this one are made, and say so where they are called."""

from __future__ import annotations

import pytest

import loopwright as lw
from loopwright.codegen.llvm import jit
from loopwright.script import tir as T

HERE = jit.host_triple()
KIND = HERE.partition("-")[0]
# Instructions that hardly any machine has.
LACKED = "xop" if KIND == "x86_64" else "sme2p1"
ELSEWHERE = "aarch64-linux-gnu" if KIND != "aarch64" else "x86_64-linux-gnu"


@T.prim_func
def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] * T.float32(2)


def test_another_processor() -> None:
    exe = lw.compile(twice, f"llvm -mtriple={ELSEWHERE}")
    with pytest.raises(lw.LoopwrightError, match=f"was compiled for {ELSEWHERE}; it cannot run"):
        exe["twice"](None, None)


@pytest.mark.parametrize("triple", ["", f"-mtriple={HERE}"])
def test_instructions_that_are_not_here(triple: str) -> None:
    exe = lw.compile(twice, f"llvm {triple} -mattr=+{LACKED}")
    with pytest.raises(lw.LoopwrightError, match=f"got: a processor without .*{LACKED}"):
        exe["twice"](None, None)
