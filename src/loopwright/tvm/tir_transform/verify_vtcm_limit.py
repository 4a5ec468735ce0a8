"""`VerifyVTCMLimit`: rejects functions that allocate more tightly coupled memory than available.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "uint8")):
          v = T.allocate([64], "uint8", "global.vtcm")
          V = T.Buffer((64,), "uint8", data=v, scope="global.vtcm")
          for i in range(64):
              V[i] = A[i]

Pass::

    VerifyVTCMLimit(64)

The limit, in bytes, is the pass's, else the option `tir.vtcm_capacity`, else the target's `vtcm-capacity`; 0 or None means no limit.
"""

from __future__ import annotations

from ...base.errors import explain
from ...ir.pass_context import PassContext
from ...ir.target import Target
from ...ir.transform import IRModule, Pass
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass
from ...tir.transform.lower.compact_buffer_allocation import CompactBufferAllocation
from ...tir.transform.lower.convert_blocks_to_opaque import ConvertBlocksToOpaque
from ...tir.transform.lower.flatten_buffer import FlattenBuffer
from ...tir.transform.lower.inject_software_pipeline import InjectSoftwarePipeline
from ...tir.transform.lower.lower_init_block import LowerInitBlock
from ...tir.transform.lower.lower_match_buffer import LowerMatchBuffer
from ...tir.transform.lower.lower_opaque_block import LowerOpaqueBlock
from ...tir.transform.lower.plan_and_update_buffer_allocation_location import (
    PlanAndUpdateBufferAllocationLocation,
)
from ...tir.transform.lower.vectorize_loop import VectorizeLoop
from ...tir.transform.optimize.simplify import Simplify
from ..tir.query import calculate_allocated_bytes
from .storage_rewrite import StorageRewrite


class VerifyVTCMLimit(PrimFuncPass):
    """Rejects functions that allocate more tightly coupled memory than available. Raises
    RuntimeError for a function over the limit."""

    limit: int | None = None

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        limit = self.limit
        if limit is None:
            limit = ctx.option("tir.vtcm_capacity") or None
        if limit is None:
            target = func.attrs.get("target") or Target.current(allow_none=True)
            limit = None if target is None else target.attrs.get("vtcm-capacity")
        if limit and int(limit) > 0:
            name = func.attrs.get("global_symbol", "main")
            for sizes in calculate_allocated_bytes(func).values():
                used = sizes.get("global.vtcm", 0)
                if used > int(limit):
                    what = f"function {name} allocates more VTCM than there is"
                    got = f"{used} bytes, the limit is {limit}"
                    hint = "compute in smaller tiles (sch.compute_at of the caches)"
                    raise RuntimeError(explain(what, got=got, instead=hint, span=func.span))
        return func


def get_vtcm_compaction_passes() -> list[Pass]:
    """The passes after which a function's allocations show the memory that it needs."""
    return [
        LowerInitBlock(),
        PlanAndUpdateBufferAllocationLocation(),
        ConvertBlocksToOpaque(),
        CompactBufferAllocation(),
        LowerMatchBuffer(),
        InjectSoftwarePipeline(),
        LowerOpaqueBlock(),
        FlattenBuffer(),
        Simplify(),
        VectorizeLoop(),
        StorageRewrite(),
    ]
