"""Random orders of passes: after each one the module is valid and computes the same numbers.

Some passes may stand anywhere; those of a chain, which lower, keep their order, and some are left
out where nothing after them needs them.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loopwright.relax import transform as rt
from loopwright.relax.analysis import well_formed
from loopwright.relax.interpreter import Interpreter
from loopwright.tir import transform as tt
from loopwright.tir.analysis import verify_well_formed
from tests.tir.schedule.families import random_program
from tests.tir.schedule.generate import Program
from tests.tir.schedule.long_run import Wrong, compare, outcomes
from tests.tir.schedule.walk import Walk

from .case import Case
from .files import clear
from .judge import Outcome
from .relax_graphs import relax_case
from .relax_module import to_module
from .report import FAULTS, Report
from .tolerance import arrays, differences, spread
from .workers import Pool

Say = Callable[[str], None]
RELAX_ANYWHERE = """
    Normalize CanonicalizeBindings DeadCodeElimination EliminateCommonSubexpr FoldConstant
    FoldBatchnormToConv2D NameDimensions LambdaLift BlockedLayout ConvertLayout DropHostCopies
    MergeLayoutChanges SinkPermutes RewriteDataflowReshape AttachGlobalSymbol
    AdjustMatmulOrder CombineParallelMatmul ExpandMatmulOfSum DecomposeOpsForInference
    ExpandTupleArguments FuseTransposeMatmul FuseAttention InlinePrivateFunctions
    NormalizeGlobalVar OptimizeLayoutTransform RemoveRedundantReshape RemoveUnusedOutputs
    RemoveUnusedParameters ReorderPermuteDimsAfterConcat ReorderTakeAfterMatmul SinkReshapes
    TopologicalSort DataflowUseInplaceCalls ByteProducts ByteTails
    ConvolutionsAsProducts SplitTransposedConvolutions WinogradConvolutions ComputePrimValue
    MarkConstants NameRuntimeShapes SpecializePrimFuncBasedOnCallSite AllocateWorkspace
    SplitLayoutRewritePreproc AttachAttrLayoutFreeBuffers LowerMatmulPrecision WidenFloats
""".split()  # noqa: SIM905
RELAX_CHAIN = """
    ConvertToDataflow LegalizeOps AnnotateTIROpPattern FuseOps FuseTIR RewriteDataflowReshape ToNonDataflow
    RemovePurityChecking CallTIRRewrite StaticPlanBlockMemory
""".split()  # noqa: SIM905
TIR_ANYWHERE = """
    Simplify ConvertSSA RemoveNoOp RenormalizeSplitPattern CommonSubexprElimTIR
    HoistIfThenElse HoistExpression RewriteUnsafeSelect RemoveAssume RemoveStoreUndef
    NarrowDataType LoopPartition ConvertForLoopsToSerial UnrollLoop TransposeInRegisters
    HoistDivisions HoistValues LowerIntrin SkipAssert ForceNarrowIndexToInt32
    InlinePrivateFunctions BF16ComputeLegalize BF16StorageLegalize FP8ComputeLegalize
    FP8StorageLegalize Int4StorageLegalize LowerScalarOps InjectDoubleBuffer
    InjectSoftwarePipeline InjectVirtualThread PointerValueTypeRewrite
    ReduceBranchingThroughOvercompute UnifyThreadBinding InstrumentBoundCheckers
    LowerCustomDatatypes LowerCrossThreadReduction
""".split()  # noqa: SIM905
TIR_CHAIN = """
    LowerInitBlock PlanAndUpdateBufferAllocationLocation ConvertBlocksToOpaque
    LowerMatchBuffer CompactBufferAllocation LowerOpaqueBlock FlattenBuffer LoopPartition
    VectorizeLoop TransposeInRegisters LowerIntrin HoistDivisions HoistValues UnrollLoop
    StorageRewrite RemoveNoOp
""".split()  # noqa: SIM905
OPTIONAL = {
    "ConvertToDataflow",
    "FuseOps",
    "FuseTIR",
    "LoopPartition",
    "TransposeInRegisters",
    "HoistDivisions",
    "HoistValues",
    "UnrollLoop",
    "StorageRewrite",
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ConvertLayout": ({"relax.nn.conv2d": ["NHWC", "OHWI"]},),
    "NarrowDataType": (32,),
}
ELEMENTS = 300  # of all inputs; the loops' interpreter is slow


def order(seed: int) -> tuple[str, list[str]]:
    """The level, "relax" or "tir", and the passes of a seed."""
    rng = random.Random(seed)
    level = "relax" if seed % 2 else "tir"
    anywhere, chain = (RELAX_ANYWHERE, RELAX_CHAIN) if seed % 2 else (TIR_ANYWHERE, TIR_CHAIN)
    end = rng.randint(0, len(chain))
    passes = [p for p in chain[:end] if p not in OPTIONAL or rng.random() < 0.7]
    for _ in range(rng.randint(1, 6)):
        passes.insert(rng.randint(0, len(passes)), rng.choice(anywhere))
    return level, passes


def graph(seed: int) -> Case:
    """A graph of a seed that is small and has plain numbers."""
    for attempt in range(60):
        case = relax_case(seed * 60 + attempt)
        tables = (*case.inputs.values(), *case.weights.values())
        small = sum(a.size for a in case.feeds(0)) <= ELEMENTS
        if small and all(spec.get("draw") != "special" for spec in tables):
            break
    case.sizes = case.sizes[:1]
    return case


def program(seed: int) -> tuple[Program, Any]:
    """A random program of loops, and it scheduled at random."""
    made = random_program(random.Random(seed))
    walk = Walk(made.func, seed)
    if seed % 4:
        walk.go(seed % 5)
    return made, walk.sch.mod


def run(item: tuple[int, Sequence[str] | None], say: Say) -> Outcome:
    """Run the passes of a seed (or these) and look after each."""
    seed, given = item
    level, passes = order(seed)
    passes = passes if given is None else list(given)
    say("make")
    check = _relax(graph(seed)) if level == "relax" else _tir(*program(seed))
    mod, done = check("start", None), []
    for name in passes:
        say(name)
        done.append(name)
        try:
            after = getattr(rt if level == "relax" else tt, name)(*ARGUMENTS.get(name, ()))(mod)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"
            return Outcome("refused" if clear(error) else "raw", name, words, level)
        try:
            mod = check(name, after)
        except Wrong as error:
            return Outcome("wrong", name, str(error), level)
        except Exception as error:
            return Outcome("raw", f"after {name}", f"{type(error).__name__}: {error}", level)
    return Outcome("right")


def _relax(case: Case) -> Callable[[str, Any], Any]:
    start = to_module(case)
    feeds = case.feeds(0)
    expected = arrays(Interpreter(start)["main"](*feeds))
    slack = spread(start, feeds, expected)

    def check(name: str, mod: Any) -> Any:
        if mod is None:
            return start
        if not (well_formed(mod) and verify_well_formed(mod, once=False)):
            raise Wrong("valid: the module is not valid")
        got = arrays(Interpreter(mod)["main"](*feeds))
        what = differences(got, expected, slack, 64)
        if what:
            raise Wrong(what)
        return mod

    return check


def _tir(made: Program, start: Any) -> Callable[[str, Any], Any]:
    expected = outcomes(made, made.func)

    def check(name: str, mod: Any) -> Any:
        if mod is None:
            return start
        if not verify_well_formed(mod, once=False):
            raise Wrong("valid: the module is not valid")
        compare(expected, outcomes(made, mod["main"]), "interpreter")
        return mod

    return check


def shortened(seed: int, outcome: Outcome) -> list[str]:
    """The order without the passes that the failure does not need."""
    passes = order(seed)[1]
    kept = list(passes)
    for index in reversed(range(len(passes))):
        fewer = kept[:index] + kept[index + 1 :]
        ((_, found, _),) = Pool(run, 1).run([(seed, fewer)])
        if (found.kind, found.stage) == (outcome.kind, outcome.stage):
            kept = fewer
    return kept


def search(options: argparse.Namespace) -> int:
    """Orders of graph passes (odd seeds) and of loop passes (even ones)."""
    report = Report("passes")
    items = [(seed, None) for seed in range(options.seed, options.seed + options.count)]
    found: list[tuple[int, Outcome]] = []
    for (seed, _), outcome, _ in Pool(run, options.processes).run(items):
        if report.add(seed, outcome) and outcome.kind in FAULTS:
            found.append((seed, outcome))
    print(report.text(), flush=True)
    for seed, outcome in found[: options.shrink]:
        path = Path(options.save) / f"{outcome.kind}-passes-{seed}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        passes = shortened(seed, outcome)
        case = {
            "passes": passes,
            "seed": seed,
            "note": f"{outcome.group()}\n{outcome.message[:800]}",
        }
        path.write_text(json.dumps(case, indent=1) + "\n")
        print(f"{path}: {outcome.group()}: {passes}", flush=True)
    return 1 if report.faults() else 0
