"""The LLVM target, for CPUs: how a graph becomes native code, top to bottom.

`graph_pipeline()` and `loop_pipeline()` are `Sequential`s: print them, insert a pass of your own by
name (`pipeline.insert_after("FuseTIR", MyPass())`), pass them to `loopwright.compile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import LoopwrightError
from ..codegen.llvm import support
from ..codegen.llvm.build import build_program
from ..codegen.llvm.compiler import CompileError
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.machine import check_machine, resolve
from ..codegen.llvm.program import compile_options
from ..codegen.lowered import Lowered
from ..codegen.vm import program_of
from ..ir.target import Target
from ..ir.transform import Pass, Sequential
from ..relax import byoc
from ..relax import transform as rt
from ..runtime.arena import Arena
from ..sched import ApplyDefaultSchedule
from ..tir import transform as tt
from .base import TargetBackend, register_target


def graph_pipeline(
    target: Target | None = None, backends: Sequence[Any] = (), arenas: Sequence[Arena | str] = ()
) -> Sequential:
    """From operators to planned storage and direct kernel calls.

    backends: external back ends (`relax.byoc`) to offload to, in order of preference; regions
    already
        in the module are lowered in any case.
    arenas: if memory is planned for arenas (`loop_pipeline`), every tensor is an allocation.
    """
    return Sequential(
        [
            *library_dispatch_passes(target, backends),
            *legalize_passes(target),
            *dataflow_lower_passes(target),
            *finalize_passes(target, arenas),
        ],
        name="graph_pipeline",
    )


def library_dispatch_passes(
    target: Target | None = None, backends: Sequence[Any] = ()
) -> list[Pass]:
    """Clean up the graph and offload supported parts to external back ends."""
    folding = [
        rt.FoldConstant(),
        rt.FoldBatchnormToConv2D(keep_training=True, wide=not backends),
    ]
    if not backends:
        return [
            rt.CanonicalizeBindings(),
            rt.ByteProducts(target),
            rt.ByteTails(),
            *folding,
            rt.RunCodegen(),
        ]
    # Dead code is not offloaded, and folded constants are visible where they are used.
    clean = [rt.CanonicalizeBindings(), rt.DeadCodeElimination(keep_packed=True)]
    return [
        *clean,
        byoc.FuseBeforeFolding(backends, [*folding, *clean]),
        *folding,
        *clean,
        *(byoc.PartitionFor(b, unmatched=False) for b in backends),
        rt.RunCodegen(backends=backends),
    ]


def legalize_passes(target: Target | None = None, blocked: bool = True) -> list[Pass]:
    """From operators to fused, scheduled loops. blocked: in layouts of blocks of channels."""
    products = [rt.SplitTransposedConvolutions(), rt.ConvolutionsAsProducts()]
    layouts = [*products, rt.BlockedLayout()] if blocked else []
    return [
        rt.LambdaLift(),
        rt.NameRuntimeShapes(),
        rt.ConvertToDataflow(),
        rt.WidenFloats(),
        rt.SinkReshapes(),
        *layouts,
        rt.WinogradConvolutions(),
        rt.LowerMatmulPrecision(),
        rt.FoldConstant(),
        rt.CanonicalizeBindings(),
        rt.FuseAttention(),
        rt.LegalizeOps(),
        rt.AnnotateTIROpPattern(),
        rt.FuseOps(),
        rt.FuseTIR(),
        rt.DropHostCopies(),
        rt.NameDimensions(),
        rt.RewriteDataflowReshape(),  # before schedules, behind which it would not see the order
        rt.DeadCodeElimination(keep_packed=True),
        # A schedule may pack constants: kernels of their own, which run now.
        rt.MarkConstants(),
        ApplyDefaultSchedule(),
        rt.SplitLayoutRewritePreproc(keep_names=True),
        rt.FoldConstant(),
        rt.DeadCodeElimination(keep_packed=True),
    ]


def dataflow_lower_passes(target: Target | None = None) -> list[Pass]:
    """From values to storage. What runs natively is taken out of functions that the virtual machine runs."""
    return [rt.ToNonDataflow(), rt.OutlineNative(), *destination_passes()]


def destination_passes() -> list[Pass]:
    """Kernels write to tensors that their caller allocates."""
    return [rt.RemovePurityChecking(), rt.CallTIRRewrite()]


def finalize_passes(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> list[Pass]:
    """From storage to planned memory and direct calls."""
    if arenas:
        return [rt.GraphToTIR(workspace="tensors")]
    return [rt.StaticPlanBlockMemory(), rt.GraphToTIR(), *machine_passes()]


def machine_passes() -> list[Pass]:
    """The rest of the graph, in the form that the virtual machine runs."""
    return [
        rt.LowerAllocTensor(),
        rt.KillAfterLastUse(),
        rt.LowerRuntimeBuiltin(),
        rt.VMShapeLower(),
    ]


def get_default_pipeline(target: Target | None = None) -> Sequential:
    """TVM's name of `graph_pipeline`."""
    return graph_pipeline(target)


def loop_pipeline(target: Target | None = None, arenas: Sequence[Arena | str] = ()) -> Sequential:
    """From scheduled loops to the flat vector loops that the code generator reads.

    arenas: memory that all tensors are placed in, allocated once per calling thread.
    """
    lowered = tt.default_tir_pipeline()
    if not arenas:
        return lowered
    planned = tt.PlanUnifiedMemory(arenas=tuple(arenas), pools="allocate")
    return Sequential([lowered, planned], name="loop_pipeline")


def emit(lowered: Lowered) -> Executable:
    """Compile the lowered functions and load them."""
    program = build_program(
        lowered.kernels,
        lowered.graphs,
        lowered.entries,
        lowered.target,
        libraries=lowered.libraries,
        imports=lowered.imports,
        threads=lowered.threads,
        silent=lowered.silent,
    )
    exe = Executable(program, lowered)
    if lowered.machine:
        exe.add_machine(program_of(lowered.machine, lowered.entries))
    return exe


def check(target: Target) -> None:
    """Raise LoopwrightError for a triple, a processor or a feature that LLVM does not know."""
    try:
        check_machine(*resolve(*compile_options(target)))
    except CompileError as error:
        raise LoopwrightError(str(error)) from None


PHASES = {
    "library_dispatch": library_dispatch_passes,
    "legalize": legalize_passes,
    "dataflow_lower": dataflow_lower_passes,
    "finalize": finalize_passes,
}
TARGET = register_target(
    TargetBackend(
        "llvm",
        graph_pipeline,
        emit,
        Executable,
        loop_pipeline,
        one_by_one=True,
        phases=PHASES,
        check=check,
        prepare=support.prepare,
    )
)
