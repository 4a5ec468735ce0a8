"""`BF16ComputeLegalize`: computes bfloat16 in float32 and rounds when storing.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")):
          for i in range(8):
    -         B[i] = A[i] * A[i] + T.bfloat16(1)
    +         B[i] = T.Cast("bfloat16", T.Cast("float32", A[i]) * T.Cast("float32", A[i]) + T.float32(1))
"""

from __future__ import annotations

from ...ir.dtype import DataType
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass
from ._promote import Promote, has_native

NATIVE = 80  # the compute capability from which GPUs have bfloat16


def is_bfloat16(dtype: DataType) -> bool:
    """Whether a type, or a vector's element, is bfloat16."""
    return str(dtype.element) == "bfloat16"


class BF16ComputeLegalize(PrimFuncPass):
    """Computes bfloat16 in float32 and rounds when storing. Functions for GPUs that have bfloat16
    stay as they are."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if has_native(func, NATIVE):
            return func
        return func.replace(body=Promote(is_bfloat16, "float32").visit(func.body))
