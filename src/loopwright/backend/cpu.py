"""The CPU: how a graph becomes native code, top to bottom.

`graph_pipeline()` and `loop_pipeline()` are `Sequential`s: print them, insert a pass of your own by
name (`pipeline.insert_after("FuseTIR", MyPass())`), give them to `loopwright.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.target import Target
from ..ir.transform import Sequential
from ..relax import byoc
from ..relax import transform as rt
from ..runtime.arena import Arena
from ..sched import ApplyDefaultSchedule
from ..tir import transform as tt


def graph_pipeline(
    target: Target | None = None, backends: Sequence[Any] = (), arenas: Sequence[Arena | str] = ()
) -> Sequential:
    """From operators to planned storage and direct calls of kernels.

    backends: external back ends (`relax.byoc`) that take what their patterns match, the first ones
        first; regions that are there already are lowered in any case.
    arenas: where memory is planned for them (`loop_pipeline`), every tensor is an allocation.
    """
    memory = (
        [rt.GraphToTIR(workspace="tensors")]
        if arenas
        else [rt.StaticPlanBlockMemory(), rt.GraphToTIR()]
    )
    return Sequential(
        [
            rt.CanonicalizeBindings(),
            rt.FoldConstant(),
            rt.FoldBatchnormToConv2D(),
            *(byoc.PartitionFor(b) for b in backends),
            rt.RunCodegen(backends=backends),
            rt.BlockedLayout(),
            rt.FoldConstant(),
            rt.CanonicalizeBindings(),
            rt.LegalizeOps(),
            rt.AnnotateTIROpPattern(),
            rt.FuseOps(),
            rt.FuseTIR(),
            rt.DropHostCopies(),
            rt.NameDimensions(),
            rt.DeadCodeElimination(),
            ApplyDefaultSchedule(),
            rt.RewriteDataflowReshape(),
            rt.ToNonDataflow(),
            rt.RemovePurityChecking(),
            rt.CallTIRRewrite(),
            *memory,
        ],
        name="graph_pipeline",
    )


def loop_pipeline(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> Sequential:
    """From scheduled loops to the flat vector loops that the code generator reads.

    arenas: memory that all tensors are placed in, each allocated once for every thread that calls.
    """
    lowered = tt.default_tir_pipeline()
    if not arenas:
        return lowered
    planned = tt.PlanUnifiedMemory(arenas=tuple(arenas), pools="allocate")
    return Sequential([lowered, planned], name="loop_pipeline")
