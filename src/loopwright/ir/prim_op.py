"""Builders of primitive expressions: type matching and constant folding.

`add(x, 0)` is `x` and `add(2, 3)` is a literal, as everywhere in this field; integers fold
exactly, floats fold in double precision rounded to their type.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np

from ..base.errors import CallTypeError, CallValueError, DivisionByZero, LoopwrightError, explain
from . import prim_expr as pe
from .datatype import least
from .dtype import DataType, numpy_dtype
from .expr import Extent
from .node import Node
from .op import Op
from .prim_expr import FloatImm, IntImm, PrimExpr

if TYPE_CHECKING:
    from ..base.span import Span

INT32, INT64 = DataType("int32"), DataType("int64")
FLOAT32, FLOAT64 = DataType("float32"), DataType("float64")
FLOAT32_MAX = float(np.finfo("float32").max)
# Whether an int64 that does not fit is an error: the sizes of tensors are, machine numbers are not.
NO_WRAP: ContextVar[bool] = ContextVar("prim_op.no_wrap", default=False)


def get_op(name: str) -> Op:
    """The operator of that name."""
    return Op.get(name)


# Literals that programs are full of; nodes are immutable, so one object each will do.
_SMALL: dict[Any, IntImm] = {
    (value, dtype): IntImm(dtype, value) for dtype in (INT32, INT64) for value in range(-1, 129)
}


def const(value: Any, dtype: DataType | str | None = None, span: Span | None = None) -> PrimExpr:
    """A literal of `dtype` (by default bool, int32 or float32 after the Python kind).

    A vector dtype results in a broadcast. An integer that does not fit wraps around, as on the
    machine, except an int64 under `NO_WRAP`, which raises CallValueError.
    """
    if type(value) is int and span is None:
        small = _SMALL.get((value, dtype or "int32"))
        if small is not None:
            return small
    if isinstance(value, PrimExpr):
        return value if dtype is None else cast(dtype, value)
    if isinstance(value, np.generic):
        dtype = dtype or value.dtype.name
        value = value.item()
    if dtype is None:
        dtype = _default_dtype(value)
    dtype = DataType(dtype)
    if dtype.lanes > 1:
        return pe.Broadcast(const(value, dtype.element), lanes_of(dtype))
    if dtype.is_float:
        return FloatImm(dtype, _round_float(float(value), dtype), span)
    if dtype.is_handle:
        return pe.Cast(dtype, IntImm("int64", int(value)), span)
    if dtype.code == "complex" and complex(value).imag:
        hint = "read it from a constant tensor"
        raise CallTypeError(explain("a literal is real", got=value, instead=hint, span=span))
    if dtype.code in ("custom", "complex"):
        return FloatImm(dtype, complex(value).real, span)
    return IntImm(dtype, _wrap(int(value), dtype), span)


def literal(
    value: float, dtype: DataType | str | None = None, span: Span | None = None
) -> PrimExpr:
    """`const` for users: raises CallValueError for a value that the type cannot hold."""
    number = const(value, dtype, span)
    one = number.value if isinstance(number, pe.Broadcast) else number
    wrapped = type(one) is IntImm and not one.dtype.is_bool and one.value != int(value)
    if not wrapped and type(one) is FloatImm and math.isfinite(value):
        limit: Any = max_value(one.dtype)
        wrapped = abs(value) > limit.value * (1 + 1e-8)  # its decimal text may be rounded up
    if wrapped:
        what = f"literal does not fit {one.dtype}"
        raise CallValueError(explain(what, got=value, instead="use a wider type"))
    return number


@cache
def vscale() -> PrimExpr:
    """How many times the least number of lanes a vector register has (one expression)."""
    return pe.Call(INT32, "tir.vscale", ())


@cache
def scalable_lanes(factor: int) -> PrimExpr:
    """`vscale() * factor`, one expression for each factor."""
    return pe.Mul._make(vscale(), const(factor, INT32))


def lanes_of(dtype: DataType) -> pe.Lanes:
    """The lanes of a type, as `Ramp` and `Broadcast` have them."""
    return scalable_lanes(dtype.lanes) if dtype.is_scalable else dtype.lanes


def vscale_factor(value: pe.PrimExpr | int) -> int | None:
    """The number in `vscale() * number`; None for other expressions."""
    if not isinstance(value, pe.Mul):
        return None
    factor, call = (value.a, value.b) if isinstance(value.a, IntImm) else (value.b, value.a)
    of_machine = isinstance(call, pe.Call) and getattr(call.op, "name", "") == "tir.vscale"
    return factor.value if of_machine and isinstance(factor, IntImm) else None


class _Lanes(Extent):
    """Lanes given as an IntImm, which say of themselves what one says."""

    __slots__ = ()
    dtype: ClassVar[DataType] = INT32


def as_lanes(value: pe.PrimExpr | int) -> pe.Lanes:
    """A number of lanes. Raises LoopwrightError for an expression that is not one."""
    if isinstance(value, PrimExpr) and not isinstance(value, IntImm):
        factor = vscale_factor(value)
        if factor is None or factor < 2:
            what = "lanes are a number, or vscale times a number above 1"
            raise LoopwrightError(explain(what, got=str(value), instead="T.vscale() * 4"))
        return scalable_lanes(factor)
    return _Lanes(value.value) if isinstance(value, IntImm) else int(value)


def _default_dtype(value: object) -> DataType:
    if isinstance(value, bool):
        return pe.BOOL
    if isinstance(value, int):
        return INT32 if -(2**31) <= value < 2**31 else INT64
    if isinstance(value, float):
        return FLOAT64 if FLOAT32_MAX < abs(value) < math.inf else FLOAT32
    what = "no literal can be made of this value"
    hint = "give a number, a bool, a string or an expression"
    raise TypeError(explain(what, got=f"{value!r} of type {type(value).__name__}", instead=hint))


class Wrapper(Protocol):
    """An object that converts itself to an expression, as tensors and their slices do."""

    def asobject(self) -> Any:
        """The expression."""


@overload
def convert(value: Wrapper) -> Any: ...
@overload
def convert(value: PrimExpr | float) -> PrimExpr: ...
@overload
def convert(value: Any) -> Any: ...
def convert(value: Any) -> Any:
    """Python values to expressions; nodes and None stay; IterVars become their variable."""
    kind = type(value)
    if kind in PrimExpr.__kinds__:
        return value.var if kind is pe.IterVar else value
    if isinstance(value, str):
        return pe.StringImm(str(value))
    as_expr = getattr(value, "asobject", None)  # tensors, their slices and other wrappers
    if as_expr is not None:
        return as_expr()
    return value if value is None or isinstance(value, Node) else const(value)


def _wrap(value: int, dtype: DataType) -> int:
    """Two's complement wrap-around to the width of `dtype`."""
    if dtype.is_bool:
        return int(bool(value))
    wrapped = value & ((1 << dtype.bits) - 1)
    if dtype.is_int and wrapped >> (dtype.bits - 1):
        wrapped -= 1 << dtype.bits
    if wrapped != value and dtype == INT64 and NO_WRAP.get():
        what = "a size, or a number that sizes are computed from, does not fit an int64"
        raise CallValueError(explain(what, got=value, instead="smaller sizes"))
    return wrapped


def _round_float(value: float, dtype: DataType) -> float:
    if dtype.bits == 64 or not math.isfinite(value):
        return value
    if dtype.base == "float32" and abs(value) <= 1e38:
        # A literal keeps its decimal digits (0.1 stays 0.1); its bits are float32's.
        return value
    with np.errstate(over="ignore"):
        return float(np.asarray(value).astype(numpy_dtype(dtype)))


def _is_literal(value: pe.PrimExpr | float) -> bool:
    return isinstance(value, (int, float, np.generic)) and not isinstance(value, Node)


def convert_pair(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both as expressions; a Python literal takes the other's type."""
    left, right, expressions = type(a), type(b), PrimExpr.__kinds__
    if right is int and left in expressions:
        small = _SMALL.get((b, a.dtype))
        if small is not None and left is not pe.IterVar:
            return a, small
    if left in expressions and right in expressions:
        return a.var if left is pe.IterVar else a, b.var if right is pe.IterVar else b
    if _is_literal(a) and right in expressions:
        b = convert(b)
        return _literal_like(a, b), b
    if _is_literal(b) and left in expressions:
        a = convert(a)
        return a, _literal_like(b, a)
    return convert(a), convert(b)


def _literal_like(value: np.generic | float | pe.PrimExpr, other: PrimExpr) -> PrimExpr:
    dtype = other.dtype
    fractional = isinstance(value, (float, np.floating)) and not dtype.is_float
    if fractional or dtype.is_handle or (dtype.is_bool and not isinstance(value, (bool, np.bool_))):
        return convert(value)
    return const(value, dtype)


def match_types(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    """Both as expressions of one type: vectors win over scalars, floats over integers, the
    wider over the narrower, unsigned over signed of the same width, as in C."""
    a, b = convert_pair(a, b)
    if a.dtype == b.dtype:
        return a, b
    if a.dtype.is_handle or b.dtype.is_handle:
        what, hint = (
            "a pointer has no operators with numbers",
            "T.handle_add_byte_offset, T.isnullptr",
        )
        raise TypeError(explain(what, got=f"{a.dtype} and {b.dtype}", instead=hint))
    la, lb = lanes_of(a.dtype), lanes_of(b.dtype)
    if la != lb:
        if la == 1:
            a = pe.Broadcast(a, lb)
        elif lb == 1:
            b = pe.Broadcast(b, la)
        else:
            raise TypeError(explain("vectors of different lengths", got=f"{a.dtype} and {b.dtype}"))
    if a.dtype == b.dtype:
        return a, b
    target = _wider(a.dtype, b.dtype).like(a.dtype)
    return cast(target, a), cast(target, b)


def _wider(a: DataType, b: DataType) -> DataType:
    if a.is_float != b.is_float:
        return a.element if a.is_float else b.element
    if a.bits != b.bits or a.is_bool != b.is_bool:
        if a.is_bool:
            return b.element
        if b.is_bool:
            return a.element
        return a.element if a.bits > b.bits else b.element
    return b.element if b.is_uint else a.element


def cast(dtype: Any, value: Any, span: Span | None = None) -> PrimExpr:
    """Convert `value`; a value that has the type is returned unchanged, a literal is folded."""
    dtype, value = DataType(dtype), convert(value)
    if value.dtype == dtype:
        return value
    if lanes_of(dtype) != lanes_of(value.dtype):
        if value.dtype.lanes == 1:
            return pe.Broadcast(cast(dtype.element, value), lanes_of(dtype))
        raise TypeError(explain("cannot cast between lengths", got=f"{value.dtype} to {dtype}"))
    if value.dtype.is_handle != dtype.is_handle and isinstance(value, pe.StringImm):
        what = "Can't cast a handle to other types"
        raise CallTypeError(explain(what, got=f"{value} to {dtype}", instead="cast a number"))
    if isinstance(value, pe.Broadcast):
        return pe.Broadcast(cast(dtype.element, value.value), value.lanes)
    if dtype.code == "complex" or value.dtype.code == "complex":
        raise _not_computed(value, f"a cast to {dtype}")
    if dtype.code == "custom" or value.dtype.code == "custom":
        return pe.Cast(dtype, value, span)
    if isinstance(value, IntImm) and not dtype.is_handle:
        return const(value.value, dtype)
    if isinstance(value, FloatImm) and dtype.is_float:
        return const(value.value, dtype)
    if isinstance(value, FloatImm) and dtype.is_integer and math.isfinite(value.value):
        return const(int(value.value), dtype)
    return pe.Cast(dtype, value, span)


def _literal(expr: PrimExpr) -> Any:
    return expr.value if type(expr) is IntImm or type(expr) is FloatImm else None


def trunc_div(a: int, b: int) -> int:
    """Integer division rounded toward zero."""
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def _fold_div(x: float, y: Any) -> Any:
    if isinstance(x, int):
        return None if y == 0 else trunc_div(x, y)
    return x / y if y else None


COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    pe.EQ: operator.eq,
    pe.NE: operator.ne,
    pe.LT: operator.lt,
    pe.LE: operator.le,
    pe.GT: operator.gt,
    pe.GE: operator.ge,
}
_FOLD: dict[type, Callable[[Any, Any], Any]] = {
    pe.Add: lambda x, y: x + y,
    pe.Sub: lambda x, y: x - y,
    pe.Mul: lambda x, y: x * y,
    pe.Div: _fold_div,
    pe.Mod: lambda x, y: x - trunc_div(x, y) * y if y else None,
    pe.FloorDiv: lambda x, y: x // y if y else None,
    pe.FloorMod: lambda x, y: x % y if y else None,
    pe.Min: lambda x, y: min(x, y) if x == x and y == y else None,
    pe.Max: lambda x, y: max(x, y) if x == x and y == y else None,
    **COMPARE,
}


def _not_computed(value: PrimExpr, what: str) -> CallTypeError:
    hint = "compute with the real and the imaginary part, as two tensors of floats"
    text = "complex numbers are moved, not computed with"
    return CallTypeError(explain(text, got=f"{what} of {value.dtype}", instead=hint))


def fold_binary(kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The folded value of `kind(a, b)` for operands of one type, or None."""
    if a.dtype.code == "custom":  # only its owner knows what it means
        return None
    if a.dtype.code == "complex":
        raise _not_computed(a, kind.__name__)
    ta, tb = type(a), type(b)
    x = a.value if ta is IntImm or ta is FloatImm else None
    y = b.value if tb is IntImm or tb is FloatImm else None
    if x is None and y is None:
        return a if a is b and kind in (pe.Min, pe.Max) else None
    if x is not None and y is not None:
        value = _FOLD[kind](x, y)
        if value is None:
            return None
        return const(value, pe.BOOL if issubclass(kind, pe.CmpExpr) else a.dtype)
    return _fold_identity(kind, a, b, x, y)


def _fold_identity(
    kind: type, a: PrimExpr, b: PrimExpr, x: float | None, y: float | None
) -> PrimExpr | None:
    if kind is pe.Add:
        return b if x == 0 else a if y == 0 else None
    if kind is pe.Sub:
        return a if y == 0 else None
    if kind is pe.Mul:
        if x == 1 or y == 1:
            return b if x == 1 else a
        zero = (x == 0 or y == 0) and a.dtype.is_integer
        return const(0, a.dtype) if zero else None
    if kind in (pe.Div, pe.FloorDiv):
        if y == 1:
            return a
        return a if x == 0 and a.dtype.is_integer else None
    if kind in (pe.Mod, pe.FloorMod):
        if y == 1 and a.dtype.is_integer:
            return const(0, a.dtype)
        return a if x == 0 and a.dtype.is_integer else None
    return None


def _binary(
    kind: type, a: Any, b: pe.PrimExpr | float | None, span: Span | None = None
) -> PrimExpr:
    a, b = match_types(a, b)
    folded = fold_binary(kind, a, b)
    return kind._make(a, b, span=span) if folded is None else folded


def _builder(name: str, kind: type, doc: str) -> Callable[..., PrimExpr]:
    """The function that builds a binary expression of one kind."""

    def build(a: pe.PrimExpr, b: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
        return _binary(kind, a, b, span)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


def add(lhs: pe.PrimExpr | int, rhs: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """lhs + rhs"""
    return _binary(pe.Add, lhs, rhs, span)


def subtract(lhs: Any, rhs: pe.PrimExpr | int | None, span: Span | None = None) -> PrimExpr:
    """lhs - rhs"""
    return _binary(pe.Sub, lhs, rhs, span)


def multiply(lhs: pe.PrimExpr | int, rhs: pe.PrimExpr | float, span: Any = None) -> PrimExpr:
    """lhs * rhs"""
    return _binary(pe.Mul, lhs, rhs, span)


def div(a: pe.PrimExpr | float, b: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """a / b: floats divide, integers round toward zero (use floordiv for shapes)."""
    a, b = match_types(a, b)
    check_divisor(b)
    return _binary(pe.Div, a, b, span)


def check_divisor(b: PrimExpr) -> None:
    """Raises DivisionByZero for the literal 0."""
    b = b.value if isinstance(b, pe.Broadcast) else b
    if isinstance(b, IntImm) and b.value == 0:
        raise DivisionByZero(explain("division by the literal 0"))


def _integers(name: str, a: pe.PrimExpr | int, b: pe.PrimExpr | int) -> tuple[PrimExpr, PrimExpr]:
    a, b = match_types(a, b)
    if not a.dtype.is_integer:
        what, hint = f"{name} is for integers", "use div, or floor the quotient"
        raise CallTypeError(explain(what, got=str(a.dtype), instead=hint))
    check_divisor(b)
    return a, b


def truncdiv(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """a / b on integers, rounded toward zero."""
    return _binary(pe.Div, *_integers("truncdiv", a, b), span)


def truncmod(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """Remainder of truncdiv."""
    return _binary(pe.Mod, *_integers("truncmod", a, b), span)


def floordiv(
    a: pe.PrimExpr | int, b: pe.PrimExpr | int | None, span: Span | None = None
) -> PrimExpr:
    """a // b on integers, rounded toward minus infinity; on floats floor(a / b)."""
    a, b = match_types(a, b)
    if a.dtype.is_float:
        return pe.Call(a.dtype, "tir.floor", [div(a, b)], span)
    return _binary(pe.FloorDiv, *_integers("floordiv", a, b), span)


def floormod(a: Any, b: Any, span: Span | None = None) -> PrimExpr:
    """a % b on integers, with the sign of b; on floats a - floor(a / b) * b."""
    a, b = match_types(a, b)
    if a.dtype.is_float:
        return subtract(a, multiply(floordiv(a, b), b))
    return _binary(pe.FloorMod, *_integers("floormod", a, b), span)


def indexdiv(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """Division of an index by an extent, neither negative. By the literal 0 it is 0: where an
    extent is 0, there is nothing to index."""
    a, b = match_types(a, b)
    return b if isinstance(b, IntImm) and b.value == 0 else floordiv(a, b, span)


def indexmod(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """Remainder of an index by an extent, neither negative; by the literal 0 it is 0."""
    a, b = match_types(a, b)
    return b if isinstance(b, IntImm) and b.value == 0 else floormod(a, b, span)


def ceildiv(lhs: pe.PrimExpr | int, rhs: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """Integer division rounded up."""
    lhs, rhs = match_types(lhs, rhs)
    return floordiv(add(lhs, subtract(rhs, 1)), rhs, span)


def minimum(a: pe.PrimExpr | int, b: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """The smaller of two values."""
    return _binary(pe.Min, a, b, span)


def maximum(a: pe.PrimExpr | int, b: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """The larger of two values."""
    return _binary(pe.Max, a, b, span)


def neg(x: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """-x: a folded literal, else x * -1 as TVM prints it."""
    x = convert(x)
    value = _literal(x)
    if value is not None:
        return const(-value, x.dtype)
    return multiply(x, const(-1, x.dtype), span)


less = _builder("less", pe.LT, "a < b")
less_equal = _builder("less_equal", pe.LE, "a <= b")
greater = _builder("greater", pe.GT, "a > b")
greater_equal = _builder("greater_equal", pe.GE, "a >= b")


def equal(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> Any:
    """a == b. Never folded away to a Python bool; the `EQ` node's truth value is identity."""
    try:
        a, b = match_types(a, b)
    except (TypeError, AttributeError):
        return False
    return pe.EQ._make(a, b, span=span)


def not_equal(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Span | None = None) -> Any:
    """a != b"""
    try:
        a, b = match_types(a, b)
    except (TypeError, AttributeError):
        return True
    return pe.NE._make(a, b, span=span)


def _boolean(name: str, *values: pe.PrimExpr | int) -> list[PrimExpr]:
    operands = [convert(v) for v in values]
    for value in operands:
        if not value.dtype.is_bool:
            what = f"{name} needs boolean operands"
            raise CallTypeError(explain(what, got=str(value.dtype), instead="compare with 0 first"))
    return operands


def logical_and(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Any = None) -> PrimExpr:
    """a and b on booleans."""
    a, b = _boolean("And", a, b)
    if isinstance(a, IntImm):
        return b if a.value else a
    if isinstance(b, IntImm):
        return a if b.value else b
    return pe.And._make(*match_types(a, b), span=span)


def logical_or(a: pe.PrimExpr | int, b: pe.PrimExpr | int, span: Any = None) -> PrimExpr:
    """a or b on booleans."""
    a, b = _boolean("Or", a, b)
    if isinstance(a, IntImm):
        return a if a.value else b
    if isinstance(b, IntImm):
        return b if b.value else a
    return pe.Or._make(*match_types(a, b), span=span)


def logical_not(a: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """not a on booleans."""
    (a,) = _boolean("Not", a)
    return const(not a.value, a.dtype) if isinstance(a, IntImm) else pe.Not._make(a, span=span)


def _bitwise(
    name: str,
    fold: Callable[[int, int], int],
    a: pe.PrimExpr | int,
    b: pe.PrimExpr | float,
    span: Span | None,
) -> PrimExpr:
    a, b = match_types(a, b)
    if not a.dtype.is_integer:
        raise CallTypeError(explain(f"{name} is for integers", got=str(a.dtype)))
    if isinstance(a, IntImm) and isinstance(b, IntImm):
        return const(fold(a.value, b.value), a.dtype)
    return pe.Call(a.dtype, f"tir.{name}", [a, b], span)


def _check_shift(a: pe.PrimExpr | int, b: pe.PrimExpr | float) -> None:
    a, b = match_types(a, b)
    if isinstance(b, IntImm) and not 0 <= b.value < a.dtype.bits:
        what = f"the count of a shift of {a.dtype} is from 0 to {a.dtype.bits - 1}"
        raise CallValueError(explain(what, got=b.value, instead="mask the count"))


def shift_left(x: pe.PrimExpr | int, y: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """x << y"""
    _check_shift(x, y)
    return _bitwise("shift_left", operator.lshift, x, y, span)


def shift_right(x: pe.PrimExpr | int, y: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """x >> y, keeping the sign of signed integers."""
    _check_shift(x, y)
    return _bitwise("shift_right", operator.rshift, x, y, span)


def bitwise_and(x: pe.PrimExpr | int, y: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """x & y; on booleans the same as `And`."""
    return _bitwise("bitwise_and", operator.and_, x, y, span)


def bitwise_or(x: pe.PrimExpr | int, y: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """x | y"""
    return _bitwise("bitwise_or", operator.or_, x, y, span)


def bitwise_xor(x: pe.PrimExpr | int, y: pe.PrimExpr | int, span: Span | None = None) -> PrimExpr:
    """x ^ y"""
    return _bitwise("bitwise_xor", operator.xor, x, y, span)


def bitwise_not(x: pe.PrimExpr | float, span: Span | None = None) -> PrimExpr:
    """~x"""
    x = convert(x)
    if x.dtype.is_float:
        raise CallTypeError(explain("bitwise_not is for integers", got=str(x.dtype)))
    if isinstance(x, IntImm) and not x.dtype.is_bool:
        return const(~x.value, x.dtype)
    return pe.Call(x.dtype, "tir.bitwise_not", [x], span)


def min_value(dtype: DataType | str, span: Span | None = None) -> PrimExpr:
    """The least value of a type (for floats the least finite one)."""
    dtype = DataType(dtype)
    if dtype.code == "custom":
        return least(dtype)
    if dtype.is_float:
        return FloatImm(dtype, -_float_max(dtype), span)
    return IntImm(dtype, pe.int_min(dtype), span)


def max_value(dtype: DataType | str, span: Span | None = None) -> PrimExpr:
    """The greatest value of a type (for floats the greatest finite one)."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return FloatImm(dtype, _float_max(dtype), span)
    return IntImm(dtype, pe.int_max(dtype), span)


def infimum(dtype: DataType | str) -> PrimExpr:
    """The lower bound of a type's values: minus infinity, or the least value of a type without."""
    dtype = DataType(dtype)
    return const(-math.inf, dtype) if _has_infinity(dtype) else min_value(dtype)


def supremum(dtype: DataType | str) -> PrimExpr:
    """The upper bound of a type's values: infinity, or the greatest value of a type without."""
    dtype = DataType(dtype)
    return const(math.inf, dtype) if _has_infinity(dtype) else max_value(dtype)


def _has_infinity(dtype: DataType) -> bool:
    return dtype.is_float and bool(np.isinf(np.asarray(math.inf).astype(numpy_dtype(dtype))))


def _float_max(dtype: DataType) -> float:
    kind = numpy_dtype(dtype)
    if dtype.code == "float":
        return float(np.finfo(kind).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(kind).max)


PrimExpr._build = sys.modules[__name__]
