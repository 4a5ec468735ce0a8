"""`FP8StorageLegalize`: stores 8-bit floats as uint8; loads and stores convert.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((8,), "float8_e5m2"), B: T.Buffer((8,), "float8_e5m2")):
    + def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "uint8")):
          for i in range(8):
              B[i] = A[i]

It runs after `FP8ComputeLegalize`, when such values are only loaded, stored and cast. A cast to a wider
type decodes the bits; a cast from float32 rounds to nearest, ties to even. Overflow
results in infinity, or NaN in types without one. Parameters change their type. The
conversions are those of `LowerScalarOps`.
"""

from __future__ import annotations

from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...tir.function import PrimFunc
from ...tir.transform.base import PrimFuncPass
from ...tir.transform.low_precision import StoreAsBits
from .fp8_compute_legalize import is_float8

_TYPES = [
    f"float8_e{rest}" for rest in ("3m4", "4m3", "4m3b11fnuz", "4m3fn", "4m3fnuz", "5m2", "5m2fnuz")
]


class _Store(StoreAsBits):
    def bits(self, dtype: DataType) -> DataType:
        if dtype.base not in _TYPES:
            hint = ", ".join(_TYPES)
            what = "no storage of this type as bits"
            raise ValueError(explain(what, got=str(dtype), instead=hint))
        return super().bits(dtype)


class FP8StorageLegalize(PrimFuncPass):
    """Stores 8-bit floats as uint8; loads and stores convert. Types without mantissa
    (float8_e8m0fnu) are rejected."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        return _Store(is_float8).run(func)
