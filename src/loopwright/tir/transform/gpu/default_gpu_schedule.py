"""`DefaultGPUSchedule`: binds the loops of unscheduled blocks of a GPU function to threads.

Before::

    @T.prim_func
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
        T.func_attr({"target": T.target("cuda")})
        for i, j in T.grid(64, 32):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vi, vj])
                T.writes(B[vi, vj])
                B[vi, vj] = A[vi, vj] + T.float32(1)

After::

    @T.prim_func
    def main(A: T.Buffer((64, 32), "float32"), B: T.Buffer((64, 32), "float32")):
        T.func_attr({"target": T.target("cuda"), "tir.is_scheduled": True})
        for i_j_fused_0 in T.thread_binding(2, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(1024, thread="threadIdx.x"):
                with T.block("B"):
                    vi = T.axis.spatial(64, (i_j_fused_0 * 1024 + i_j_fused_1) // 32)
                    vj = T.axis.spatial(32, i_j_fused_1 % 32)
                    T.reads(A[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = A[vi, vj] + T.float32(1)

The outer spatial loops of a block are fused, then split by the target's
`max_threads_per_block`; a block without such loops runs in one thread. A function with
`tir.is_scheduled`, or whose target is not a GPU, is not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....ir.functor import nodes_of
from ....ir.prim_expr import IntImm, IterVar
from ....ir.target import Target
from ....ir.transform import IRModule, PassContext
from ....ir.variables import uses_any
from ...function import PrimFunc
from ...schedule import Schedule
from ...stmt import Block, BlockRealize, ForKind
from ..base import PrimFuncPass

if TYPE_CHECKING:
    from ...schedule.machinery.random_variables import BlockRV


def _outer(sch: Schedule, block: BlockRV) -> list[Any] | None:
    """The outer spatial loops of a block; None if threads are already bound."""
    loops = list(sch.get_loops(block))
    if any(sch.get(loop).kind == ForKind.THREAD_BINDING for loop in loops):
        return None
    realize = _realize(sch, sch.get(block))
    pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    summed = [value for axis, value in pairs if axis.iter_type != IterVar.DataPar]
    outer = []
    for loop in loops:
        node = sch.get(loop)
        if node.kind != ForKind.SERIAL or any(uses_any(v, {node.loop_var}) for v in summed):
            break
        outer.append(loop)
    return outer


def _realize(sch: Schedule, block: Block) -> BlockRealize:
    return next(r for r in nodes_of(sch.mod["main"].body, BlockRealize) if r.block is block)


class DefaultGPUSchedule(PrimFuncPass):
    """Binds the loops of unscheduled blocks of a GPU function to threads."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target") or Target.current(allow_none=True)
        if target is None or "gpu" not in target.keys or func.attrs.get("tir.is_scheduled"):
            return func
        most = int(target.attrs.get("max_threads_per_block", 1024))
        # Only spatial loops or loops of extent 1 are bound: nothing to check.
        sch = Schedule(IRModule({"main": func}), enable_check=False)
        for block in sch.get_child_blocks(sch.get_block("root")):
            outer = _outer(sch, block)
            if outer is None:
                continue
            inner = list(sch.get_loops(block)) or [block]
            whole = sch.fuse(*outer) if outer else sch.add_unit_loop(inner[0])
            extent = sch.get(whole).extent
            threads = min(extent.value, most) if isinstance(extent, IntImm) else most
            blocks, thread = sch.split(whole, [None, threads])
            sch.bind(blocks, "blockIdx.x")
            sch.bind(thread, "threadIdx.x")
        return sch.mod["main"].with_attr("tir.is_scheduled", True)
