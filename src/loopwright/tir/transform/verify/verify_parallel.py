"""`VerifyParallel`: rejects parallel loops whose iterations write the same element, and vectorized
loops whose result differs from serial execution.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8,), "float32")):
          for i in T.parallel(8):
              for k in range(4):
                  B[i] = B[i] + A[i, k]

With `k` parallel instead it raises ValueError, which names the element, both iterations and the
lines. It reports only certain conflicts: data-dependent accesses pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...analysis.parallel import verify_parallel
from ...function import PrimFunc
from ..base import PrimFuncPass

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class VerifyParallel(PrimFuncPass):
    """Rejects parallel loops whose iterations write the same element, and vectorized loops whose
    result differs from serial execution."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        verify_parallel(func)
        return func
