"""Builders of primitive expressions: type matching and constant folding.

`add(x, 0)` is `x` and `add(2, 3)` is a literal, as everywhere in this field; integers fold
exactly, floats fold in double precision rounded to their type.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import CallTypeError, CallValueError, DivisionByZero, explain
from ..base.names import named
from . import prim_expr as pe
from .conversion import FLOAT32 as FLOAT32
from .conversion import FLOAT64 as FLOAT64
from .conversion import INT32 as INT32
from .conversion import INT64 as INT64
from .conversion import NO_WRAP as NO_WRAP
from .conversion import Wrapper as Wrapper
from .conversion import as_lanes as as_lanes
from .conversion import cast as cast
from .conversion import const as const
from .conversion import convert as convert
from .conversion import convert_all as convert_all
from .conversion import convert_pair as convert_pair
from .conversion import lanes_of as lanes_of
from .conversion import match_types as match_types
from .conversion import not_computed
from .conversion import scalable_lanes as scalable_lanes
from .conversion import vscale as vscale
from .conversion import vscale_factor as vscale_factor
from .datatype import least
from .dtype import DataType, numpy_dtype
from .op import Op
from .prim_expr import FloatImm, IntImm, PrimExpr, ScalarLike

if TYPE_CHECKING:
    from ..base.span import Span


def get_op(name: str) -> Op:
    """The operator of that name."""
    return Op.get(name)


def literal(value: float, dtype: str | None = None, span: Span | None = None) -> PrimExpr:
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
    pe.And: lambda x, y: bool(x and y),
    pe.Or: lambda x, y: bool(x or y),
    **COMPARE,
}


def fold_binary(kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """The folded value of `kind(a, b)` for operands of one type, or None."""
    if a.dtype.code == "custom":  # only its owner knows what it means
        return None
    if a.dtype.code == "complex":
        raise not_computed(a, kind.__name__)
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


def _binary(kind: type, a: Any, b: ScalarLike | None, span: Span | None = None) -> PrimExpr:
    a, b = match_types(a, b)
    folded = fold_binary(kind, a, b)
    return kind._make(a, b, span=span) if folded is None else folded


def _builder(name: str, kind: type, doc: str) -> Callable[..., PrimExpr]:
    """The function that builds a binary expression of one kind."""

    def build(a: pe.PrimExpr, b: ScalarLike, span: Span | None = None) -> PrimExpr:
        return _binary(kind, a, b, span)

    return named(build, name, doc)


def add(lhs: ScalarLike, rhs: ScalarLike, span: Span | None = None) -> PrimExpr:
    """lhs + rhs"""
    return _binary(pe.Add, lhs, rhs, span)


def subtract(lhs: Any, rhs: ScalarLike | None, span: Span | None = None) -> PrimExpr:
    """lhs - rhs"""
    return _binary(pe.Sub, lhs, rhs, span)


def multiply(lhs: ScalarLike, rhs: ScalarLike, span: Any = None) -> PrimExpr:
    """lhs * rhs"""
    return _binary(pe.Mul, lhs, rhs, span)


def div(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> PrimExpr:
    """a / b: floats divide, integers round toward zero (use floordiv for shapes)."""
    a, b = match_types(a, b)
    check_divisor(b)
    return _binary(pe.Div, a, b, span)


def check_divisor(b: PrimExpr) -> None:
    """Raises DivisionByZero for the literal 0."""
    b = b.value if isinstance(b, pe.Broadcast) else b
    if isinstance(b, IntImm) and b.value == 0:
        raise DivisionByZero(explain("division by the literal 0"))


def _integers(name: str, a: ScalarLike, b: ScalarLike) -> tuple[PrimExpr, PrimExpr]:
    a, b = match_types(a, b)
    if not a.dtype.is_integer:
        what, hint = f"{name} is for integers", "use div, or floor the quotient"
        raise CallTypeError(explain(what, got=str(a.dtype), instead=hint))
    check_divisor(b)
    return a, b


def truncdiv(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> PrimExpr:
    """a / b on integers, rounded toward zero."""
    return _binary(pe.Div, *_integers("truncdiv", a, b), span)


def truncmod(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Remainder of truncdiv."""
    return _binary(pe.Mod, *_integers("truncmod", a, b), span)


def floordiv(a: ScalarLike, b: ScalarLike | None, span: Span | None = None) -> PrimExpr:
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


def indexdiv(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Division of an index by an extent, neither negative. By the literal 0 it is 0: where an
    extent is 0, there is nothing to index."""
    a, b = match_types(a, b)
    return b if isinstance(b, IntImm) and b.value == 0 else floordiv(a, b, span)


def indexmod(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Remainder of an index by an extent, neither negative; by the literal 0 it is 0."""
    a, b = match_types(a, b)
    return b if isinstance(b, IntImm) and b.value == 0 else floormod(a, b, span)


def ceildiv(lhs: ScalarLike, rhs: ScalarLike, span: Span | None = None) -> PrimExpr:
    """Integer division rounded up."""
    lhs, rhs = match_types(lhs, rhs)
    return floordiv(add(lhs, subtract(rhs, 1)), rhs, span)


def neg(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """-x: a folded literal, else x * -1 as TVM prints it."""
    x = convert(x)
    value = _literal(x)
    if value is not None:
        return const(-value, x.dtype)
    return multiply(x, const(-1, x.dtype), span)


minimum = _builder("minimum", pe.Min, "The smaller of two values.")
maximum = _builder("maximum", pe.Max, "The larger of two values.")
less = _builder("less", pe.LT, "a < b")
less_equal = _builder("less_equal", pe.LE, "a <= b")
greater = _builder("greater", pe.GT, "a > b")
greater_equal = _builder("greater_equal", pe.GE, "a >= b")


def equal(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> Any:
    """a == b. Never folded away to a Python bool; the `EQ` node's truth value is identity."""
    try:
        a, b = match_types(a, b)
    except (TypeError, AttributeError):
        return False
    return pe.EQ._make(a, b, span=span)


def not_equal(a: ScalarLike, b: ScalarLike, span: Span | None = None) -> Any:
    """a != b"""
    try:
        a, b = match_types(a, b)
    except (TypeError, AttributeError):
        return True
    return pe.NE._make(a, b, span=span)


def _boolean(name: str, *values: ScalarLike) -> list[PrimExpr]:
    operands = [convert(v) for v in values]
    for value in operands:
        if not value.dtype.is_bool:
            what = f"{name} needs boolean operands"
            raise CallTypeError(explain(what, got=str(value.dtype), instead="compare with 0 first"))
    return operands


def logical_and(a: ScalarLike, b: ScalarLike, span: Any = None) -> PrimExpr:
    """a and b on booleans."""
    a, b = _boolean("And", a, b)
    if isinstance(a, IntImm):
        return b if a.value else a
    if isinstance(b, IntImm):
        return a if b.value else b
    return pe.And._make(*match_types(a, b), span=span)


def logical_or(a: ScalarLike, b: ScalarLike, span: Any = None) -> PrimExpr:
    """a or b on booleans."""
    a, b = _boolean("Or", a, b)
    if isinstance(a, IntImm):
        return a if a.value else b
    if isinstance(b, IntImm):
        return b if b.value else a
    return pe.Or._make(*match_types(a, b), span=span)


def logical_not(a: ScalarLike, span: Span | None = None) -> PrimExpr:
    """not a on booleans."""
    (a,) = _boolean("Not", a)
    return const(not a.value, a.dtype) if isinstance(a, IntImm) else pe.Not._make(a, span=span)


def _bitwise(
    name: str, fold: Callable[[int, int], int], doc: str, shifts: bool = False
) -> Callable[..., PrimExpr]:
    """The function that builds an operation on the bits of integers."""

    def build(x: ScalarLike, y: ScalarLike, span: Span | None = None) -> PrimExpr:
        a, b = match_types(x, y)
        if shifts and isinstance(b, IntImm) and not 0 <= b.value < a.dtype.bits:
            what = f"the count of a shift of {a.dtype} is from 0 to {a.dtype.bits - 1}"
            raise CallValueError(explain(what, got=b.value, instead="mask the count"))
        if not a.dtype.is_integer:
            raise CallTypeError(explain(f"{name} is for integers", got=str(a.dtype)))
        if isinstance(a, IntImm) and isinstance(b, IntImm):
            return const(fold(a.value, b.value), a.dtype)
        return pe.Call(a.dtype, f"tir.{name}", [a, b], span)

    return named(build, name, doc)


shift_left = _bitwise("shift_left", operator.lshift, "x << y", shifts=True)
shift_right = _bitwise(
    "shift_right", operator.rshift, "x >> y, keeping the sign of signed integers.", shifts=True
)
bitwise_and = _bitwise("bitwise_and", operator.and_, "x & y; on booleans the same as `And`.")
bitwise_or = _bitwise("bitwise_or", operator.or_, "x | y")
bitwise_xor = _bitwise("bitwise_xor", operator.xor, "x ^ y")


def bitwise_not(x: ScalarLike, span: Span | None = None) -> PrimExpr:
    """~x"""
    x = convert(x)
    if x.dtype.is_float:
        raise CallTypeError(explain("bitwise_not is for integers", got=str(x.dtype)))
    if isinstance(x, IntImm) and not x.dtype.is_bool:
        return const(~x.value, x.dtype)
    return pe.Call(x.dtype, "tir.bitwise_not", [x], span)


def min_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The least value of a type (for floats the least finite one)."""
    dtype = DataType(dtype)
    if dtype.code == "custom":
        return least(dtype)
    if dtype.is_float:
        return FloatImm(dtype, -_float_max(dtype), span)
    return IntImm(dtype, pe.int_min(dtype), span)


def max_value(dtype: str, span: Span | None = None) -> PrimExpr:
    """The greatest value of a type (for floats the greatest finite one)."""
    dtype = DataType(dtype)
    if dtype.is_float:
        return FloatImm(dtype, _float_max(dtype), span)
    return IntImm(dtype, pe.int_max(dtype), span)


def infimum(dtype: str) -> PrimExpr:
    """The lower bound of a type's values: minus infinity, or the least value of a type without."""
    dtype = DataType(dtype)
    return const(-math.inf, dtype) if _has_infinity(dtype) else min_value(dtype)


def supremum(dtype: str) -> PrimExpr:
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
