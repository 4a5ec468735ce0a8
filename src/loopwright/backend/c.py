"""C: how a graph becomes plain loops, top to bottom.

The graph passes are the CPU's without blocked layouts, so that tensors keep the layouts that the
model gives them. Loops are scheduled as for a CPU; then every loop is made serial: what was a vector
or unrolled becomes a short inner loop of constant length over accumulators in a local array, which
C compilers know how to treat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..codegen.c.program import STACK_BYTES, WORKSPACE
from ..ir.target import Target
from ..ir.transform import Sequential
from ..runtime.arena import Arena, as_arenas
from ..tir import transform as tt
from . import llvm

DEFAULT = (Arena(WORKSPACE),)


def graph_pipeline(
    target: Target | None = None, backends: Sequence[Any] = (), arenas: Sequence[Arena | str] = ()
) -> Sequential:
    """From operators to planned storage and direct calls of kernels; see `backend.llvm`."""
    passes = llvm.graph_pipeline(target, backends, arenas or DEFAULT).remove("BlockedLayout").passes
    return Sequential(list(passes), name="c.graph_pipeline")


def loop_pipeline(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> Sequential:
    """From scheduled loops to the flat serial loops that the C code generator reads.

    arenas: memory that all tensors are placed in; functions take a pointer to each. Without any
        there is one, the workspace.
    """
    for arena in as_arenas(tuple(arenas) or DEFAULT):
        if "constant" in arena.kinds:
            what = f"arena {arena.name} takes constants, which are const arrays in C"
            hint = 'use kinds=("tensor", "scratch")'
            raise LoopwrightError(explain(what, instead=hint))
    planned = tt.PlanUnifiedMemory(arenas=tuple(arenas) or DEFAULT, stack_bytes=STACK_BYTES)
    return Sequential(
        [
            tt.VerifyParallel(),
            tt.ConvertForLoopsToSerial(),
            tt.default_tir_pipeline(),
            planned,
        ],
        name="c.loop_pipeline",
    )
