"""`BF16StorageLegalize`: stores bfloat16 as uint16, the upper half of a float32.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "float32")):
    + def main(A: T.Buffer((8,), "uint16"), B: T.Buffer((8,), "float32")):
          for i in range(8):
    -         B[i] = T.Cast("float32", A[i])
    +         B[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", A[i]), T.uint32(16)))

Stores round to nearest, ties to even; NaN stays NaN. It runs after
`BF16ComputeLegalize`, when bfloat16 is only loaded, stored and cast. Parameters change their type.
"""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass
from ...tir.transform.low_precision import StoreAsBits
from ._promote import has_native
from .bf16_compute_legalize import NATIVE, is_bfloat16


class BF16StorageLegalize(PrimFuncPass):
    """Stores bfloat16 as uint16, the upper half of a float32. Functions for GPUs that have
    bfloat16 stay as they are."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return func if has_native(func, NATIVE) else StoreAsBits(is_bfloat16).run(func)
