"""The C target: how a graph becomes plain loops, top to bottom.

The graph passes are the CPU's. Where vectors have only 128 bits, as in microcontrollers, layouts are not
blocked: tensors keep the model's. Loops are scheduled as for a CPU; then every loop is made serial: vectorized and unrolled loops
become short inner loops of constant length over accumulators in a local array, with pragmas that
make gcc keep these in vector registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..codegen.c.functions import NATIVE
from ..codegen.c.model import CModel
from ..codegen.c.program import WORKSPACE, stack_bytes_for
from ..codegen.lowered import Lowered, refuse_machine
from ..ir.target import Target
from ..ir.transform import Pass, Sequential
from ..relax import transform as rt
from ..runtime.arena import Arena, as_arenas
from ..tir import transform as tt
from . import llvm
from .base import TargetBackend, register_target

DEFAULT = (Arena(WORKSPACE),)
PLAIN_BITS = 128  # of vectors, with which blocks of channels gain too little


def graph_pipeline(
    target: Target | None = None, backends: Sequence[Any] = (), arenas: Sequence[Arena | str] = ()
) -> Sequential:
    """From operators to planned storage and direct kernel calls; see `backend.llvm`."""
    passes = [
        *llvm.library_dispatch_passes(target, backends),
        *legalize_passes(target, planned=bool(arenas)),
        *dataflow_lower_passes(target),
        *finalize_passes(target, arenas),
    ]
    return Sequential(passes, name="c.graph_pipeline")


def legalize_passes(target: Target | None = None, planned: bool = False) -> list[Pass]:
    """From operators to fused, scheduled loops. planned: with the user's arenas, where memory counts
    more than time: blocks of channels take more of it."""
    plain = planned or (target is not None and target.vector_bits <= PLAIN_BITS)
    return llvm.legalize_passes(target, blocked=not plain)


def dataflow_lower_passes(target: Target | None = None) -> list[Pass]:
    """From values to storage. Without a virtual machine, functions are native as a whole, or not at all."""
    return [rt.ToNonDataflow(), *llvm.destination_passes()]


def finalize_passes(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> list[Pass]:
    """From storage to direct calls; memory is planned in the loop passes."""
    return llvm.finalize_passes(target, arenas or DEFAULT)


def loop_pipeline(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> Sequential:
    """From scheduled loops to the flat serial loops that the C code generator reads.

    arenas: memory that all tensors are placed in; functions take a pointer to each. By default
        there is one, the workspace.
    """
    for arena in as_arenas(tuple(arenas) or DEFAULT):
        if "constant" in arena.kinds:
            what = f"arena {arena.name} takes constants, which are const arrays in C"
            raise LoopwrightError(explain(what, instead='use kinds=("tensor", "scratch")'))
    stack_bytes = stack_bytes_for(target)
    planned = tt.PlanUnifiedMemory(arenas=tuple(arenas) or DEFAULT, stack_bytes=stack_bytes)
    return Sequential(
        [
            tt.VerifyParallel(),
            tt.ConvertForLoopsToSerial(keep_kinds=True),
            tt.default_tir_pipeline(NATIVE),
            planned,
        ],
        name="c.loop_pipeline",
    )


def emit(lowered: Lowered) -> CModel:
    """The C source of the lowered functions. Raises LoopwrightError for code that C cannot
    express."""
    refuse_machine("only native functions have C code", lowered.graph, lowered.machine)
    if lowered.imports:
        what = "C code cannot call functions of this Python process"
        hint = "offload to C functions (ExternLibrary) instead"
        raise LoopwrightError(explain(what, got=", ".join(lowered.imports), instead=hint))
    if lowered.threads not in (None, 1):
        what = "C code runs in the thread that calls it"
        raise LoopwrightError(explain(what, got=f"threads={lowered.threads}", instead="threads=1"))
    return CModel(lowered)


PHASES = llvm.PHASES | {
    "legalize": legalize_passes,
    "dataflow_lower": dataflow_lower_passes,
    "finalize": finalize_passes,
}
TARGET = register_target(
    TargetBackend("c", graph_pipeline, emit, CModel, loop_pipeline, phases=PHASES)
)
