"""`VerifyMemory`: rejects GPU code that accesses device memory outside of threads.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32")):
          T.func_attr({"target": T.target("cuda")})
          for i in T.thread_binding(8, thread="threadIdx.x"):
              A[i] = T.float32(0)

A loop that is not bound to a thread runs on the host, which cannot access that memory:
RuntimeError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.memory import host_access_errors
from ...function import PrimFunc
from ..base import PrimFuncPass

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class VerifyMemory(PrimFuncPass):
    """Rejects GPU code that accesses device memory outside of threads."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        errors = host_access_errors(func)
        if errors:
            raise RuntimeError(errors[0])
        return func
