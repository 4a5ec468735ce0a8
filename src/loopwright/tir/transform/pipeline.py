"""`default_tir_pipeline`: from scheduled TensorIR to flat loops over vectors.

User passes are added by `PassContext(config={"tir.add_lower_pass": [(phase, pass), ...]})`: phase 0
runs first, 1 after blocks are lowered and buffers flattened, 2 after vectorization and
unrolling, 3 on the finished function.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
          T.func_attr({"tir.noalias": True})
          for i in range(8):
    -         for j in T.vectorized(8):
    -             with T.block("B"):
    -                 vi = T.axis.spatial(64, i * 8 + j)
    -                 T.reads(A[vi])
    -                 T.writes(B[vi])
    -                 B[vi] = A[vi] + T.float32(1)
    +         B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + T.Broadcast(T.float32(1), 8)

Pass::

    lower_to_loops()
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import explain
from ...base.late import Slot
from ...ir.transform import IRModule, Pass, PassContext, Sequential
from ..signature import signature_of
from .dtype.int4_storage_legalize import Int4StorageLegalize
from .dtype.lower_custom_datatypes import LowerCustomDatatypes
from .lower.compact_buffer_allocation import CompactBufferAllocation
from .lower.convert_blocks_to_opaque import ConvertBlocksToOpaque
from .lower.flatten_buffer import FlattenBuffer
from .lower.inject_double_buffer import InjectDoubleBuffer
from .lower.inject_software_pipeline import InjectSoftwarePipeline
from .lower.inject_virtual_thread import InjectVirtualThread
from .lower.join_stores import JoinStores
from .lower.lower_init_block import LowerInitBlock
from .lower.lower_intrin import LowerIntrin
from .lower.lower_match_buffer import LowerMatchBuffer
from .lower.lower_opaque_block import LowerOpaqueBlock
from .lower.lower_scalar_ops import MACHINE, LowerScalarOps
from .lower.plan_and_update_buffer_allocation_location import PlanAndUpdateBufferAllocationLocation
from .lower.transpose_in_registers import TransposeInRegisters
from .lower.unpack_signatures import UnpackSignatures
from .lower.unroll_loop import UnrollLoop
from .lower.vectorize_loop import VectorizeLoop
from .optimize.hoist_divisions import HoistDivisions
from .optimize.hoist_if_then_else import HoistIfThenElse
from .optimize.hoist_values import HoistValues
from .optimize.loop_partition import LoopPartition
from .optimize.remove_no_op import RemoveNoOp
from .optimize.simplify import Simplify
from .prim_func_pass import prim_func_pass
from .verify.instrument_bound_checkers import BoundCheckersIfWanted
from .verify.skip_assert import AssertsIfWanted
from .verify.verify_externs import VerifyExterns
from .verify.verify_parallel import VerifyParallel

PROFILER: Slot[type[Pass]] = Slot("tir.profiler")


class AddedPasses(Pass):
    """Runs the passes that the option `tir.add_lower_pass` adds to one phase. They see each kernel
    under its name, and not the functions that graphs became."""

    name = "tir.AddedPasses"
    phase: int = 0

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        entries = ctx.option("tir.add_lower_pass") or ()
        passes = [as_pass(entry[1]) for entry in entries if int(entry[0]) == self.phase]
        if self.phase == 3 and ctx.option("tir.instrument_lwp"):
            passes.append(PROFILER.get()())
        if not passes:
            return mod
        graphs = {g: f for g, f in mod.functions.items() if signature_of(f) is not None}
        shown = {g: f for g, f in mod.functions.items() if g not in graphs}
        private = {g for g, f in shown.items() if "global_symbol" not in f.attrs}
        named = {g: shown[g].with_attr("global_symbol", g.name_hint) for g in private}
        kernels = mod.with_functions(named, remove=graphs)
        for added in passes:
            kernels = added(kernels)
        renamed = {
            g: f.without_attr("global_symbol") if g in private else f
            for g, f in kernels.functions.items()
        }
        removed = [g for g in shown if g not in renamed]
        return mod.with_functions(renamed, remove=removed)


def as_pass(entry: object) -> Pass:
    """A pass, or a function (func, mod, ctx) -> func as one."""
    if isinstance(entry, Pass):
        return entry
    if isinstance(entry, type) and issubclass(entry, Pass):
        return entry()
    if callable(entry):
        return prim_func_pass(entry, opt_level=0)
    what = "tir.add_lower_pass takes pairs (phase, pass)"
    hint = "decorate the function with tir.transform.prim_func_pass"
    raise TypeError(explain(what, got=type(entry).__name__, instead=hint))


def lower_to_loops() -> Sequential:
    """Lowers blocks, buffers, vectors and unrolled loops; signatures are not changed."""
    return Sequential(
        [
            AddedPasses(0),
            VerifyParallel(),
            VerifyExterns(),
            LowerInitBlock(),
            PlanAndUpdateBufferAllocationLocation(),
            ConvertBlocksToOpaque(),
            LowerMatchBuffer(),
            CompactBufferAllocation(),
            BoundCheckersIfWanted(),  # until then a tile's buffer has the tensor's extents
            InjectSoftwarePipeline(),
            LowerOpaqueBlock(),
            FlattenBuffer(native=True),
            InjectVirtualThread(),
            InjectDoubleBuffer(),
            Simplify(),
            AddedPasses(1),
            LowerCustomDatatypes(),
            AssertsIfWanted(),
            HoistIfThenElse(),
            LoopPartition(),
            VectorizeLoop(native=True),
            TransposeInRegisters(),
            LowerIntrin(),  # before unrolling, while there is less code
            HoistDivisions(),
            HoistValues(),
            UnrollLoop(),
            JoinStores(),
            AddedPasses(2),
            RemoveNoOp(),
            AddedPasses(3),
        ],
        name="tir.lower_to_loops",
    )


def finalize(native: frozenset[str] = MACHINE) -> Sequential:
    """Kernels take pointers and sizes; memory consists of bytes; the remaining operations are ones
    that the emitter has (`native`, see `LowerScalarOps`)."""
    passes = [UnpackSignatures(), Int4StorageLegalize(), LowerScalarOps(native)]
    return Sequential(passes, name="tir.finalize")


def default_tir_pipeline(native: frozenset[str] = MACHINE) -> Sequential:
    """The whole lowering: `lower_to_loops`, then `finalize`."""
    return Sequential([lower_to_loops(), finalize(native)], name="tir.default_tir_pipeline")


_PIPELINES: dict[str, Callable[..., Sequential]] = {
    "default": default_tir_pipeline,
    "lower_to_loops": lower_to_loops,
    "finalize": finalize,
}


def get_tir_pipeline(name: str = "default", **kwargs: dict[str, Any]) -> Sequential:
    """The lowering of that name. Raises ValueError with the known names."""
    if name not in _PIPELINES:
        what = "no pipeline has this name"
        raise ValueError(explain(what, got=name, instead=f"one of {', '.join(_PIPELINES)}"))
    return _PIPELINES[name](**kwargs)
