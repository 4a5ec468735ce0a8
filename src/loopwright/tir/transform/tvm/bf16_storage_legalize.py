"""`BF16StorageLegalize`: memory of bfloat16 is memory of uint16, the upper half of a float32.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "float32")):
    + def main(A: T.Buffer((8,), "uint16"), B: T.Buffer((8,), "float32")):
          for i in range(8):
    -         B[i] = T.Cast("float32", A[i])
    +         B[i] = T.reinterpret("float32", T.shift_left(T.Cast("uint32", A[i]), T.uint32(16)))

Stores round to the nearest value, to the even one of two; NaN stays NaN. It runs after
`BF16ComputeLegalize`, when bfloat16 is only loaded, stored and cast. Parameters change their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.dtype import DataType
from ....ir.prim_expr import NE, Call, Select
from ....ir.prim_op import add, bitwise_and, cast, const, shift_left, shift_right
from ...function import PrimFunc
from .._base import PrimFuncPass
from ..dtype._low_precision import StoreAsBits
from .bf16_compute_legalize import is_bfloat16


def decode(bits: Any, dtype: DataType) -> Any:
    """The float32 of the bits of a bfloat16."""
    wide = DataType("uint32").with_lanes(dtype.lanes)
    moved = shift_left(cast(wide, bits), const(16, wide))
    return Call(DataType("float32").with_lanes(dtype.lanes), "tir.reinterpret", [moved])


def encode(value: Any, dtype: DataType) -> Any:
    """The bits of a float32 rounded to bfloat16."""
    wide = DataType("uint32").with_lanes(dtype.lanes)
    half = DataType("uint16").with_lanes(dtype.lanes)
    bits = Call(wide, "tir.reinterpret", [value])
    upper = shift_right(bits, const(16, wide))
    odd = bitwise_and(upper, const(1, wide))
    rounded = shift_right(add(bits, add(odd, const(0x7FFF, wide))), const(16, wide))
    return cast(half, Select(NE(value, value), const(0x7FC0, wide), rounded))


@dataclass(frozen=True)
class BF16StorageLegalize(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.BF16StorageLegalize"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return StoreAsBits(is_bfloat16, decode, encode).run(func)


__all__ = ["BF16StorageLegalize"]
