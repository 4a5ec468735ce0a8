"""From Python values to primitive expressions, and from a type to another: literals, lanes, casts.

Integers wrap around as on the machine; floats are rounded to their type.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, overload

import numpy as np

from ..base.errors import CallTypeError, CallValueError, LoopwrightError, explain
from . import prim_expr as pe
from .dtype import DataType, numpy_dtype
from .expr import Extent
from .node import Node
from .prim_expr import FloatImm, IntImm, PrimExpr, ScalarLike

if TYPE_CHECKING:
    from ..base.span import Span

INT32, INT64 = DataType("int32"), DataType("int64")
FLOAT32, FLOAT64 = DataType("float32"), DataType("float64")
FLOAT32_MAX = float(np.finfo("float32").max)
# Whether an int64 that does not fit is an error: the sizes of tensors are, machine numbers are not.
NO_WRAP: ContextVar[bool] = ContextVar("prim_op.no_wrap", default=False)

# Literals that programs are full of; nodes are immutable, so one object each will do.
_SMALL: dict[Any, IntImm] = {
    (value, dtype): IntImm(dtype, value) for dtype in (INT32, INT64) for value in range(-1, 129)
}


def const(value: Any, dtype: str | None = None, span: Span | None = None) -> PrimExpr:
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


def vscale_factor(value: ScalarLike) -> int | None:
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


def as_lanes(value: ScalarLike) -> pe.Lanes:
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
def convert(value: ScalarLike) -> PrimExpr: ...
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


def convert_all(values: Iterable[Any]) -> tuple[Any, ...]:
    """Each of several values as a node."""
    return tuple(map(convert, values))


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


def _is_literal(value: ScalarLike) -> bool:
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
        raise not_computed(value, f"a cast to {dtype}")
    if dtype.code == "custom" or value.dtype.code == "custom":
        return pe.Cast(dtype, value, span)
    if isinstance(value, IntImm) and not dtype.is_handle:
        return const(value.value, dtype)
    if isinstance(value, FloatImm) and dtype.is_float:
        return const(value.value, dtype)
    if isinstance(value, FloatImm) and dtype.is_integer and math.isfinite(value.value):
        return const(int(value.value), dtype)
    return pe.Cast(dtype, value, span)


def not_computed(value: PrimExpr, what: str) -> CallTypeError:
    hint = "compute with the real and the imaginary part, as two tensors of floats"
    text = "complex numbers are moved, not computed with"
    return CallTypeError(explain(text, got=f"{what} of {value.dtype}", instead=hint))
