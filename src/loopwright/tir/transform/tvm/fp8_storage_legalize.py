"""`FP8StorageLegalize`: memory of 8-bit floats is memory of uint8; loads and stores convert.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((8,), "float8_e5m2"), B: T.Buffer((8,), "float8_e5m2")):
    + def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "uint8")):
          for i in range(8):
              B[i] = A[i]

It runs after `FP8ComputeLegalize`, when such values are only loaded, stored and cast. A cast to a wider
type takes the bits apart; a cast from float32 rounds to the nearest value, to the even one of two. What
is too large becomes infinity, or NaN in types without one. Parameters change their type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....base.errors import explain
from ....ir.dtype import DataType
from ....ir.prim_expr import GE, GT, LT, NE, Call, Select
from ....ir.prim_op import (
    add,
    bitwise_and,
    bitwise_or,
    cast,
    const,
    equal,
    multiply,
    shift_left,
    shift_right,
    subtract,
)
from ...function import PrimFunc
from .._base import PrimFuncPass
from ..dtype._low_precision import StoreAsBits
from .fp8_compute_legalize import is_float8

IEEE, FINITE, UNSIGNED_ZERO = "ieee", "finite", "unsigned zero"
# type -> (bits of the mantissa, bias of the exponent, which codes are no numbers): IEEE has
# infinities and NaNs at the top, FINITE one NaN at the top, UNSIGNED_ZERO one NaN at minus zero.
_FORMATS = {
    "float8_e3m4": (4, 3, IEEE),
    "float8_e4m3": (3, 7, IEEE),
    "float8_e4m3b11fnuz": (3, 11, UNSIGNED_ZERO),
    "float8_e4m3fn": (3, 7, FINITE),
    "float8_e4m3fnuz": (3, 8, UNSIGNED_ZERO),
    "float8_e5m2": (2, 15, IEEE),
    "float8_e5m2fnuz": (2, 16, UNSIGNED_ZERO),
}


def _format(dtype: DataType) -> tuple[int, int, str]:
    layout = _FORMATS.get(str(dtype.element))
    if layout is None:
        hint = ", ".join(_FORMATS)
        raise ValueError(explain("no storage of this type as bits", got=str(dtype), instead=hint))
    return layout


def _top(dtype: DataType) -> int:
    """The least code, without its sign, that is no finite number."""
    mantissa, _, kind = _format(dtype)
    top = {IEEE: 0x7F >> mantissa << mantissa, FINITE: 0x7F, UNSIGNED_ZERO: 0x80}
    return top[kind]


def decode(bits: Any, dtype: DataType) -> Any:
    """The float32 of the bits: as a float32's, with the exponents' biases made equal."""
    mantissa, bias, kind = _format(dtype)
    wide = DataType("uint32").with_lanes(dtype.lanes)
    real = DataType("float32").with_lanes(dtype.lanes)
    code = cast(wide, bits)
    size = bitwise_and(code, const(0x7F, wide))
    as_real = Call(real, "tir.reinterpret", [shift_left(size, const(23 - mantissa, wide))])
    number = multiply(as_real, const(2.0 ** (127 - bias), real))
    magnitude = Call(wide, "tir.reinterpret", [number])
    nan, infinity = const(0x7FC00000, wide), const(0x7F800000, wide)
    if kind == UNSIGNED_ZERO:
        magnitude = Select(equal(code, const(0x80, wide)), nan, magnitude)
    else:
        top = const(_top(dtype), wide)
        if kind == IEEE:
            magnitude = Select(equal(size, top), infinity, magnitude)
            magnitude = Select(GT(size, top), nan, magnitude)
        else:
            magnitude = Select(equal(size, top), nan, magnitude)
    sign = shift_left(bitwise_and(code, const(0x80, wide)), const(24, wide))
    return Call(real, "tir.reinterpret", [bitwise_or(sign, magnitude)])


def encode(value: Any, dtype: DataType) -> Any:
    """The bits of a float32 rounded to the type."""
    mantissa, bias, kind = _format(dtype)
    wide = DataType("uint32").with_lanes(dtype.lanes)
    real = DataType("float32").with_lanes(dtype.lanes)
    bits = Call(wide, "tir.reinterpret", [value])
    size = bitwise_and(bits, const(0x7FFFFFFF, wide))
    drop = 23 - mantissa
    # Normal numbers: round the mantissa at the bit where it is cut, move the exponent.
    odd = bitwise_and(shift_right(size, const(drop, wide)), const(1, wide))
    up = add(size, add(odd, const((1 << (drop - 1)) - 1, wide)))
    normal = subtract(shift_right(up, const(drop, wide)), const((127 - bias) << mantissa, wide))
    # Smaller ones: added to a float of which the least bit is theirs, the addition rounds.
    magic = 2.0 ** (1 - bias - mantissa + 23)
    least = shift_left(const(1 - bias - mantissa + 23 + 127, wide), const(23, wide))
    shifted = add(Call(real, "tir.reinterpret", [size]), const(magic, real))
    small = subtract(Call(wide, "tir.reinterpret", [shifted]), least)
    below = LT(size, const((1 - bias + 127) << 23, wide))
    code = Select(below, small, normal)
    top = const(_top(dtype), wide)
    nan = {IEEE: _top(dtype) | 1 << (mantissa - 1), FINITE: 0x7F, UNSIGNED_ZERO: 0x80}[kind]
    too_large = GE(code, top)
    sign = bitwise_and(shift_right(bits, const(24, wide)), const(0x80, wide))
    if kind == UNSIGNED_ZERO:  # its NaN has no sign, and neither has its zero
        number = Select(equal(code, const(0, wide)), code, bitwise_or(sign, code))
        encoded = Select(too_large, const(nan, wide), number)
    else:
        encoded = bitwise_or(sign, Select(too_large, top, code))
    encoded = Select(NE(value, value), const(nan, wide), encoded)
    return cast(DataType("uint8").with_lanes(dtype.lanes), encoded)


@dataclass(frozen=True)
class FP8StorageLegalize(PrimFuncPass):
    """See the file's docstring. Types of an exponent alone (float8_e8m0fnu) are refused."""

    name = "tir.FP8StorageLegalize"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        return StoreAsBits(is_float8, decode, encode).run(func)


__all__ = ["FP8StorageLegalize"]
