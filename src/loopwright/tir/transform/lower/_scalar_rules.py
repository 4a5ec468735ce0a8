"""Rules of `LowerScalarOps` for arithmetic and functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....ir import prim_expr as pe
from ....ir.dtype import DataType
from ....ir.prim_op import const
from ._scalar_ops import (
    BOOL,
    I32,
    I64,
    ON_FLAGS,
    Rule,
    Scalars,
    bits_as,
    call,
    code_of,
    in_float32,
    like,
    name_of,
    number_of,
    shifted,
)

ROUNDING = ("floor", "ceil", "trunc", "round", "nearbyint")
# Functions on floats whose operands have one type.
FUNCTIONS = [
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cos", "cosh", "erf", "exp"),
    *("exp2", "expm1", "log", "log10", "log1p", "log2", "sin", "sinh", "tan", "tanh", "sqrt"),
    *("cbrt", "hypot", "pow", "copysign", "fma", "fmod", *ROUNDING),
]
_FLOORS = (pe.FloorDiv, pe.FloorMod)


def _division(ops: Scalars, node: pe.BinaryOpExpr) -> pe.PrimExpr:
    """Div, Mod, FloorDiv, FloorMod."""
    kind, dtype, by = type(node), node.dtype, number_of(node.b)
    quotient = kind is pe.Div or kind is pe.FloorDiv
    if dtype.is_float:
        return _real_division(ops, node)
    if not dtype.is_int:
        kind = pe.Div if quotient else pe.Mod
    if by is not None and by > 0 and by & (by - 1) == 0 and (kind in _FLOORS or not dtype.is_int):
        if not quotient:
            return call("bitwise_and", dtype, node.a, const(by - 1, dtype))
        return shifted(node.a, by.bit_length() - 1) if by > 1 else node.a
    if by not in (None, 0, -1) or ops.index:
        return _machine_division(ops, kind, node.a, node.b)
    a, b = ops.named(node.a, "a"), ops.named(node.b, "b")
    zero, least = const(0, dtype), const(-1, dtype)
    none, minus = pe.EQ._make(b, zero), pe.EQ._make(b, least)
    special = pe.Or._make(none, minus) if dtype.is_int else none
    safe = ops.named(pe.Select._make(special, const(1, dtype), b), "safe")
    result = _machine_division(ops, kind, a, safe)
    if not quotient:
        return result  # of 1: 0
    if dtype.is_int:
        result = pe.Select._make(minus, pe.Sub._make(zero, a), result)
    return pe.Select._make(none, zero, result)


def _machine_division(
    ops: Scalars, kind: type[pe.BinaryOpExpr], a: pe.PrimExpr, b: pe.PrimExpr
) -> pe.PrimExpr:
    """Division by a divisor other than 0 and -1. If the remainder and the divisor have different
    signs, the floor is one less than the truncation."""
    if kind not in _FLOORS:
        return kind._make(a, b)
    dtype = a.dtype
    a, b, zero = ops.named(a, "a"), ops.named(b, "b"), const(0, dtype)
    rest = ops.named(pe.Mod._make(a, b), "rest")
    mixed = pe.LT._make(call("bitwise_xor", dtype, rest, b), zero)
    moved = pe.And._make(pe.NE._make(rest, zero), mixed)
    if kind is pe.FloorMod:
        return pe.Select._make(moved, pe.Add._make(rest, b), rest)
    toward_zero = ops.named(pe.Div._make(a, b), "quotient")
    return pe.Select._make(moved, pe.Sub._make(toward_zero, const(1, dtype)), toward_zero)


def _real_division(ops: Scalars, node: pe.BinaryOpExpr) -> pe.PrimExpr:
    """Floor division and its remainder, as in Python."""
    kind, dtype = type(node), node.dtype
    if kind is pe.Div:
        return node
    if kind is pe.FloorDiv:
        return ops(call("floor", dtype, ops(pe.Div._make(node.a, node.b))))
    if kind is pe.Mod:
        return ops(call("fmod", dtype, node.a, node.b))
    b, zero = ops.named(node.b, "b"), const(0.0, dtype)
    rest = ops.named(ops(call("fmod", dtype, node.a, b)), "rest")
    signs = ops(pe.LT._make(rest, zero)), ops(pe.LT._make(b, zero))
    mixed = pe.And._make(pe.NE._make(*signs), ops(pe.NE._make(rest, zero)))
    return pe.Select._make(mixed, ops(pe.Add._make(rest, b)), rest)


def _extremum(ops: Scalars, node: pe.BinaryOpExpr) -> pe.PrimExpr:
    """Min and Max."""
    a, b, dtype, largest = node.a, node.b, node.dtype, isinstance(node, pe.Max)
    if dtype.is_bool:
        return (pe.Or if largest else pe.And)._make(a, b)
    number = number_of(a)
    if number is not None and number == number:
        a, b, number = b, a, None
    a, b = ops.named(a, "a"), ops.named(b, "b")
    # x86's max(b, a) returns a if either is NaN: a NaN in a passes, one in b must be tested. The
    # test selects the constant: LLVM would merge two selections of b into one, on two comparisons
    # instead of a maximum.
    chosen = pe.Select._make((pe.GT if largest else pe.LT)._make(b, a), b, a)
    number = number_of(b)
    if not dtype.is_float or (number is not None and number == number):
        return chosen
    return pe.Select._make(call("isnan", like(BOOL, b), b), const(math.nan, dtype), chosen)


def _shift(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """A shift by the type's width or more shifts every bit out."""
    dtype, (a, b), name = node.dtype, node.args, node.op.name.removeprefix("tir.")
    by = number_of(b)
    if by is not None and 0 <= by < dtype.bits:
        return node
    a, b = ops.named(a, "a"), ops.named(b, "b")
    unsigned = DataType(f"uint{dtype.bits}").with_lanes(dtype.lanes)
    number = b if dtype.is_uint else pe.Cast._make(unsigned, b)
    if name == "shift_right" and dtype.is_int:
        most = ops(pe.Min._make(number, const(dtype.bits - 1, unsigned)))
        return call(name, dtype, a, pe.Cast._make(dtype, most))
    inside, zero = pe.LT._make(number, const(dtype.bits, unsigned)), const(0, dtype)
    return pe.Select._make(inside, call(name, dtype, a, pe.Select._make(inside, b, zero)), zero)


def _bitwise_not(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    if node.dtype.is_bool:
        return pe.Not._make(node.args[0])
    return call("bitwise_xor", node.dtype, node.args[0], const(-1, node.dtype))


# -- functions -------------------------------------------------------------------------------------


def _function(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """A function of floats: operands of its type; on float16 mostly through float32."""
    dtype = node.dtype
    if not dtype.is_float:
        return node.args[0] if name_of(node.op.name) in ROUNDING else node
    if dtype.base not in ("float32", "float64"):
        return in_float32(ops, node)
    if all(a.dtype is dtype or a.dtype == dtype for a in node.args):
        return node
    args = (a if a.dtype == dtype else ops(pe.Cast._make(dtype, a)) for a in node.args)
    return pe.Call._make(dtype, node.op, tuple(args))


def _absolute(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    (x,), dtype = node.args, node.dtype
    if dtype.is_float:
        return _function(ops, node)
    if not dtype.is_int:
        return x
    x, zero = ops.named(x, "x"), const(0, dtype)
    return pe.Select._make(pe.LT._make(x, zero), pe.Sub._make(zero, x), x)


def _is_inf(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    (x,) = node.args
    return ops(pe.EQ._make(ops(call("fabs", x.dtype, x)), const(np.inf, x.dtype)))


def _inverse_root(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    root = ops(call("sqrt", node.dtype, node.args[0]))
    return ops(pe.Div._make(const(1.0, node.dtype), root))


def _power_of_ten(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    if node.dtype.base == "float16":
        return in_float32(ops, node)
    return ops(call("pow", node.dtype, const(10.0, node.dtype), node.args[0]))


def _power(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """Squares and cubes are products."""
    x, exponent = node.args
    while isinstance(exponent, pe.Broadcast):
        exponent = exponent.value
    if not isinstance(exponent, pe.FloatImm) or exponent.value not in (2.0, 3.0):
        return _function(ops, node)
    square = ops(pe.Mul._make(x, x))
    return square if exponent.value == 2.0 else ops(pe.Mul._make(square, x))


def _sigmoid(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    dtype, (x,) = node.dtype, node.args
    if dtype.base == "float16":
        return in_float32(ops, node)
    one, zero = const(1.0, dtype), const(0.0, dtype)
    # exp(-|x|) overflows nowhere, and keeps small values.
    power = ops(call("exp", dtype, pe.Min._make(x, pe.Sub._make(zero, x))))
    above = pe.Select._make(pe.GE._make(x, zero), one, power)
    return pe.Div._make(above, pe.Add._make(one, power))


def _ldexp(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """x * 2**e for e of any type, converted to int32."""
    (x, by), dtype = node.args, node.dtype
    if dtype.base not in ("float32", "float64"):  # LLVM 22 miscompiles vectors of float16
        return in_float32(ops, node)
    if by.dtype.is_integer and by.dtype.bits == 64:
        by = ops(pe.Min._make(by, const(5000, by.dtype)))
        by = ops(pe.Max._make(by, const(-5000, by.dtype))) if by.dtype.is_int else by
    steps = like(I32, x)
    return call("ldexp", dtype, x, by if by.dtype == steps else ops(pe.Cast._make(steps, by)))


def _nextafter(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """The adjacent number of x toward y, computed on its bits."""
    dtype = node.dtype
    if dtype.bits < 16:
        return node
    ints = DataType(f"int{dtype.bits}").with_lanes(dtype.lanes)
    x, y = (ops.named(v, hint) for v, hint in zip(node.args, "xy", strict=True))
    xi, yi = ops.named(bits_as(x, ints), "xi"), ops.named(bits_as(y, ints), "yi")
    zero, one, sign = const(0.0, dtype), const(1, ints), const(pe.int_min(ints), ints)
    upward, positive = ops(pe.LT._make(x, y)), ops(pe.GT._make(x, zero))
    step = pe.Select._make(pe.NE._make(upward, positive), const(-1, ints), one)
    least = call("bitwise_or", ints, call("bitwise_and", ints, yi, sign), one)
    result = pe.Select._make(ops(pe.EQ._make(x, zero)), least, pe.Add._make(xi, step))
    result = pe.Select._make(ops(pe.EQ._make(x, y)), yi, result)
    broken = pe.Or._make(*(ops(call("isnan", like(BOOL, x), v)) for v in (x, y)))
    return bits_as(pe.Select._make(broken, const(code_of(np.nan, dtype), ints), result), dtype)


def _count_bits(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """popcount and clz; the native operation has the operand's type."""
    (x,), old, new = node.args, node.args[0].dtype, node.dtype
    name = name_of(node.op.name)
    unsigned = DataType(f"uint{old.bits}").with_lanes(old.lanes)
    wide = DataType("uint64" if old.bits > 32 else "uint32").with_lanes(old.lanes)
    x = pe.Cast._make(wide, x if old == unsigned else pe.Cast._make(unsigned, x))
    n = lambda v: const(v & (1 << wide.bits) - 1, wide)  # noqa: E731
    bits_and = lambda a, b: call("bitwise_and", wide, a, b)  # noqa: E731
    if name == "clz":  # set all bits below the highest one
        for by in (1, 2, 4, 8, 16, 32)[: wide.bits.bit_length() - 1]:
            x = ops.named(x, "x")
            x = call("bitwise_or", wide, x, shifted(x, by))
    ones = 0x0101010101010101
    x = ops.named(x, "x")
    x = ops.named(pe.Sub._make(x, bits_and(shifted(x, 1), n(0x55 * ones))), "pairs")
    x = pe.Add._make(bits_and(x, n(0x33 * ones)), bits_and(shifted(x, 2), n(0x33 * ones)))
    x = ops.named(x, "fours")
    x = pe.Mul._make(bits_and(pe.Add._make(x, shifted(x, 4)), n(0x0F * ones)), n(ones))
    x = pe.Cast._make(new, shifted(x, wide.bits - 8))
    return pe.Sub._make(const(old.bits, new), x) if name == "clz" else x


def _multiply_shift(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    """x * y as numbers with q fraction bits, shifted right by s, rounded half up."""
    wide = like(I64, node)
    args = [a if a.dtype.is_bool else ops(pe.Cast._make(wide, a)) for a in node.args]
    x, y, *rest = (ops.named(a, hint) for a, hint in zip(args, "xyqsabcd", strict=False))
    if len(rest) > 2:  # per axis: left and right shift, q, and two flags
        x = ops.named(pe.Select._make(rest[3], call("shift_left", wide, x, rest[0]), x), "x")
        total = pe.Select._make(rest[4], pe.Add._make(rest[2], rest[1]), rest[2])
    else:
        total = pe.Add._make(*rest)
    product, total = ops.named(pe.Mul._make(x, y), "product"), ops.named(total, "total")
    zero, one = const(0, wide), const(1, wide)
    half = call("shift_left", wide, one, pe.Sub._make(total, one))
    right = call("shift_right", wide, pe.Add._make(product, half), total)
    left = call("shift_left", wide, product, pe.Sub._make(zero, total))
    return ops(pe.Cast._make(node.dtype, pe.Select._make(pe.GT._make(total, zero), right, left)))


def _large_uint(ops: Scalars, node: pe.Call) -> pe.PrimExpr:
    low, high = (a.value for a in node.args)
    return const(high << 32 | low & 0xFFFFFFFF, node.dtype)


# None: kept on floats that the emitter computes with.
RULES: dict[Any, Rule | None] = {
    **dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE)),
    **ON_FLAGS,
    **dict.fromkeys((pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod), _division),
    **dict.fromkeys((pe.Min, pe.Max), _extremum),
    **dict.fromkeys((f"tir.{name}" for name in FUNCTIONS), _function),
    **dict.fromkeys(("tir.shift_left", "tir.shift_right"), _shift),
    "tir.bitwise_not": _bitwise_not,
    "tir.fabs": _absolute,
    "tir.isnan": None,
    "tir.isinf": _is_inf,
    "tir.rsqrt": _inverse_root,
    "tir.pow": _power,
    "tir.exp10": _power_of_ten,
    "tir.sigmoid": _sigmoid,
    "tir.ldexp": _ldexp,
    "tir.nextafter": _nextafter,
    **dict.fromkeys(("tir.popcount", "tir.clz"), _count_bits),
    **dict.fromkeys(("tir.q_multiply_shift", "tir.q_multiply_shift_per_axis"), _multiply_shift),
    "tir.large_uint_imm": _large_uint,
}
