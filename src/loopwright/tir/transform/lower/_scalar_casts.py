"""Rules of `LowerScalarOps` for conversions between numeric types."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ....ir.dtype import DataType, numpy_dtype
from ....ir.prim_expr import EQ, GE, GT, LT, NE, Add, And, Cast, Mul, PrimExpr, Select, Sub, int_min
from ....ir.prim_op import const
from ._scalar_ops import (
    BOOL,
    CONVERTED,
    F32,
    I32,
    I64,
    U32,
    Rule,
    Scalars,
    bits_as,
    call,
    code_of,
    kind_of,
    like,
    shifted,
)


def _cast(ops: Scalars, node: Cast) -> PrimExpr:
    """A conversion: through float32 or a wider integer if the emitter has no direct one."""
    x, old, new = node.value, node.value.dtype, node.dtype
    if old == new:
        return x
    if old.is_handle or new.is_handle:
        return node
    ops.need(old)
    ops.need(new)
    if new.is_bool:
        return ops(NE._make(x, const(0, old)))
    between: DataType | None = None
    if old.is_float and old.base not in ops.native:
        between = None if new.base == "float32" else F32
    elif new.is_float and new.base not in ops.native:
        exact = old.base == "float32" or (new.base, old.base) == ("float16", "float64")
        between = None if exact else F32
    elif old.is_float and new.is_integer:
        wide = I64 if new.bits > 32 or (new.bits == 32 and new.is_uint) else I32
        large = new.base == "uint64" and old.bits > 16  # 2**63 is not a float16
        between = None if large or new.base == wide.base else wide
    elif not (old.is_float and (old.base, new.base) == ("float64", "float16")):
        return node
    if between is not None:
        return ops(Cast._make(new, ops(Cast._make(like(between, x), x))))
    if new.base == "float8_e8m0fnu":  # nothing rounds to it
        return node
    name = new.base if new.is_integer else kind_of(new)
    return node if ops.has(f"Cast:{kind_of(old)}", name) else _converted(ops, node)


def _converted(ops: Scalars, node: Cast) -> PrimExpr:
    """A conversion that no machine has."""
    old, new = node.value.dtype, node.dtype
    if new.is_integer:
        return (_to_uint64 if new.is_uint else _to_integer)(ops, node)
    if old.base == "float64":
        return ops(Cast._make(new, _round_to_odd(ops, node.value)))
    if old.base == "float32":
        return _narrowed(ops, node)
    return _widened(ops, node)


def _to_integer(ops: Scalars, node: Cast) -> PrimExpr:
    x, new = ops.named(node.value, "x"), node.dtype
    least = int_min(new)
    below = new.bits == 32 and x.dtype.bits == 64  # out-of-range values become the least value
    low = GT._make(x, const(least - 1.0, x.dtype)) if below else GE._make(x, const(least, x.dtype))
    inside = And._make(low, LT._make(x, const(-float(least), x.dtype)))
    return Select._make(inside, Cast._make(new, x), const(least, new))


def _to_uint64(ops: Scalars, node: Cast) -> PrimExpr:
    x, new = ops.named(node.value, "x"), node.dtype
    low, high = (const(2.0**k, x.dtype) for k in (63, 64))
    signed, moved = (
        Cast._make(new, ops(Cast._make(like(I64, x), v))) for v in (x, Sub._make(x, low))
    )
    large = And._make(GE._make(x, low), LT._make(x, high))
    moved = call("bitwise_xor", new, moved, const(1 << 63, new))
    return Select._make(large, moved, signed)


def _round_to_odd(ops: Scalars, x: PrimExpr) -> PrimExpr:
    """float64 to float32 such that rounding again has the same result as rounding once."""
    x, i32 = ops.named(x, "x"), like(I32, x)
    near = ops.named(Cast._make(like(F32, x), x), "near")
    back = ops.named(Cast._make(x.dtype, near), "back")
    above = GT._make(*(call("fabs", x.dtype, v) for v in (back, x)))
    bits = Sub._make(bits_as(near, I32), Cast._make(i32, above))
    odd = call("bitwise_or", i32, bits, Cast._make(i32, NE._make(back, x)))
    return bits_as(odd, F32)


def _widened(ops: Scalars, node: Cast) -> PrimExpr:
    """A smaller float as float32, exactly."""
    x, old, wide = node.value, node.value.dtype, like(U32, node)
    bits = Cast._make(wide, bits_as(x, DataType(f"uint{8 * old.lane_bytes}")))
    if old.base == "bfloat16":
        return bits_as(shifted(bits, -16), F32)
    form, n = _form(old), lambda v: const(v, wide)
    both, either = (lambda a, b, f=f"bitwise_{f}": call(f, wide, a, b) for f in ("and", "or"))
    bits = ops.named(bits, "bits")
    size = ops.named(both(bits, n(form.sign - 1)), "size")
    part = ops.named(both(size, n((1 << form.mantissa) - 1)), "part")
    power = ops.named(shifted(size, form.mantissa), "power")
    unit = const(2.0 ** (form.lowest - form.mantissa), node.dtype)
    small = bits_as(Mul._make(Cast._make(node.dtype, part), unit), U32)
    high = shifted(Add._make(power, n(126 + form.lowest)), -23)
    normal = either(high, shifted(part, form.mantissa - 23))
    result = Select._make(EQ._make(power, n(0)), small, normal)
    if form.has_infinity:
        result = Select._make(EQ._make(size, n(form.largest + 1)), n(0x7F800000), result)
    if code_of(-0.0, old) == 0:  # NaN has the code of minus zero
        result = Select._make(EQ._make(bits, n(form.nan)), n(0x7FC00000), result)
    elif form.sign - 1 > form.top:
        result = Select._make(GT._make(size, n(form.top)), n(0x7FC00000), result)
    sign = shifted(both(bits, n(form.sign)), form.sign.bit_length() - 32)
    return bits_as(either(sign, result), F32)


def _narrowed(ops: Scalars, node: Cast) -> PrimExpr:
    """A float32 rounded to a smaller float. Normal numbers are rounded in their bits; subnormal
    ones by adding the power of two whose last place is the smallest subnormal. Overflow results in
    ml_dtypes' value."""
    x, new, i32 = ops.named(node.value, "x"), node.dtype, like(I32, node)
    n = lambda v: const(v, i32)  # noqa: E731
    both = lambda a, b: call("bitwise_and", i32, a, b)  # noqa: E731
    bits = ops.named(bits_as(x, I32), "bits")
    broken = call("isnan", like(BOOL, x), x)
    if new.base == "bfloat16":
        high = ops.named(bits_as(shifted(bits_as(bits, U32), 16), I32), "high")
        up = Add._make(bits, Add._make(both(high, n(1)), n(32767)))
        whole = bits_as(shifted(bits_as(up, U32), 16), I32)
        quiet = call("bitwise_or", i32, high, n(64))
        return _of_code(Select._make(broken, quiet, whole), new)
    form = _form(new)
    cut, magic = 23 - form.mantissa, 2.0 ** (form.lowest - form.mantissa + 23)
    size = ops.named(both(bits, n(0x7FFFFFFF)), "size")
    up = Add._make(both(shifted(size, cut), n(1)), n((1 << (cut - 1)) - 1))
    normal = Sub._make(shifted(Add._make(size, up), cut), n((126 + form.lowest) << form.mantissa))
    moved = Add._make(bits_as(size, F32), const(magic, like(F32, x)))
    tiny = Sub._make(bits_as(moved, I32), n(int(np.float32(magic).view(np.int32))))
    limit = n(int(np.float32(2.0**form.lowest).view(np.int32)))
    code = ops.named(Select._make(LT._make(size, limit), tiny, normal), "code")
    negative = ops.named(LT._make(bits, n(0)), "negative")
    sign = Select._make(negative, n(form.sign), n(0))
    if code_of(-0.0, new) == 0:  # no negative zero
        sign = Select._make(EQ._make(code, n(0)), n(0), sign)
    result = call("bitwise_or", i32, code, sign)
    beyond = Select._make(negative, n(code_of(-np.inf, new)), n(code_of(np.inf, new)))
    result = Select._make(GT._make(code, n(form.largest)), beyond, result)
    nan = Select._make(negative, n(code_of(-np.nan, new)), n(form.nan))
    return _of_code(Select._make(broken, nan, result), new)


def _of_code(bits: PrimExpr, dtype: DataType) -> PrimExpr:
    """The small float with the given bits."""
    unsigned = DataType(f"uint{8 * dtype.lane_bytes}").with_lanes(dtype.lanes)
    return bits_as(Cast._make(unsigned, bits), dtype)


@dataclass(frozen=True)
class _Form:
    """A float type below 32 bits: mantissa bits, the exponent of the least normal number, and
    codes: of the sign, the largest number, the last non-NaN, and NaN."""

    mantissa: int
    lowest: int
    sign: int
    largest: int
    nan: int
    has_infinity: bool

    @property
    def top(self) -> int:
        return self.largest + self.has_infinity


@cache
def _form(dtype: DataType) -> _Form:
    import ml_dtypes

    kind = numpy_dtype(dtype.element)
    info = ml_dtypes.finfo(kind)
    largest, lowest = code_of(float(info.max), dtype), np.log2(float(info.smallest_normal))
    sign = code_of(-float(info.max), dtype) ^ largest
    infinite = bool(np.isinf(np.asarray(np.inf).astype(kind).astype(np.float32)))
    return _Form(int(info.nmant), int(lowest), sign, largest, code_of(np.nan, dtype), infinite)


RULES: dict[Any, Rule | None] = {Cast: _cast, CONVERTED: _converted}
