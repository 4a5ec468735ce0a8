"""Operators that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ....relax import op
from ..context import Context
from ..values import Value
from .table import FUNCTIONS, function

_UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp floor isnan log
    logical_not negative round sigmoid sign sin sinh sqrt tan tanh
""".split()  # noqa: SIM905
_BINARY = """
    add atan2 bitwise_and bitwise_or bitwise_xor divide equal floor_mod greater greater_equal
    less less_equal logical_and logical_or logical_xor maximum minimum multiply subtract
""".split()  # noqa: SIM905
Build = Callable[..., Any]


def _unary(build: Build) -> None:
    FUNCTIONS.register(build.__name__, lambda cx, x: build(x.expr))


def _binary(build: Build) -> None:
    def convert(cx: Context, first: Value, *others: Value) -> Any:
        join = lambda a, b: cx.value(build(*cx.broadcast(a, b)))  # noqa: E731
        return reduce(join, others, first)

    FUNCTIONS.register(build.__name__, convert)


for _name in _UNARY:
    _unary(getattr(op, _name))
for _build in (op.nn.gelu, op.nn.gelu_tanh, op.nn.hardswish, op.nn.relu):
    _unary(_build)
for _name in _BINARY:
    _binary(getattr(op, _name))


@function
def where(cx: Context, condition: Value, x: Value, y: Value) -> Any:
    """x where the condition holds, else y."""
    return op.where(*cx.broadcast(condition, x, y))


@function
def astype(cx: Context, x: Value, dtype: str) -> Any:
    """x in another type; as bool whether it is not 0."""
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return op.not_equal(x.expr, cx.scalar(0, x.dtype))
    return op.astype(x.expr, dtype)


@function
def power(cx: Context, base: Value, exponent: Value) -> Any:
    """Powers in the type of the base. Integers wrap around, also where the exponent's type is longer."""
    constant = exponent.constant
    if (
        constant is not None
        and constant.size == 1
        and exponent.ndim <= base.ndim
        and constant.item() == 2
    ):
        return op.multiply(base.expr, base.expr)
    kind = base.dtype
    if kind.is_integer:
        floats = exponent.dtype.is_float
        longer = max(exponent.dtype, kind, key=lambda t: t.bits)
        kind = "float64" if floats else longer
    sides = [cx.value(astype(cx, v, str(kind))) for v in (base, exponent)]
    out = op.power(*cx.broadcast(*sides))
    return out if kind == base.dtype else op.astype(out, base.dtype)


@function
def clip(cx: Context, x: Value, low: Value | None = None, high: Value | None = None) -> Any:
    """x within bounds; where they cross, `high`."""
    bounds = [None if v is None else v.constant for v in (low, high)]
    if all(v is None or b is not None for v, b in zip((low, high), bounds, strict=True)):
        return clipped(cx, x, *[None if b is None else b.reshape(()).item() for b in bounds])
    above = x.expr if low is None else op.maximum(x.expr, low.expr)
    return above if high is None else op.minimum(above, high.expr)


def clipped(cx: Context, x: Value, low: float | None, high: float | None) -> Any:
    """`clip`, to numbers."""
    if high is None:
        return x if low is None else op.maximum(x.expr, cx.scalar(low, x.dtype))
    if low is None or low > high:
        above = x.expr if low is None else op.maximum(x.expr, cx.scalar(low, x.dtype))
        return op.minimum(above, cx.scalar(high, x.dtype))
    return op.clip(x.expr, low, high)


@function
def elu(cx: Context, x: Value, alpha: float = 1.0) -> Any:
    """alpha * (exp(x) - 1) where x < 0, else x."""
    return exponential(cx, x, alpha, 1.0)


def exponential(cx: Context, x: Value, alpha: float, positive: float) -> Any:
    """alpha * (exp(x) - 1) where x < 0, else positive * x. A choice, not a sum: alpha may be infinite."""
    zero = cx.scalar(0, x.dtype)
    below = op.multiply(op.expm1(op.minimum(x.expr, zero)), cx.scalar(alpha, x.dtype))
    above = x.expr if positive == 1.0 else op.multiply(x.expr, cx.scalar(positive, x.dtype))
    return op.where(op.less(x.expr, zero), below, above)


@function
def leakyrelu(cx: Context, x: Value, alpha: float) -> Any:
    """x where it is positive, else alpha * x."""
    return op.nn.leakyrelu(x.expr, alpha)


@function
def prelu(cx: Context, x: Value, slope: Value) -> Any:
    """x where it is positive, else slope * x; the two broadcast."""
    a, b = cx.broadcast(x, slope)
    return op.where(op.less(a, cx.scalar(0, x.dtype)), op.multiply(a, b), a)


@function
def matmul(cx: Context, a: Value, b: Value) -> Any:
    """The matrix product, the inner dimension aligned and the batch dimensions broadcast."""
    if a.ndim == 0 or b.ndim == 0:
        return op.matmul(a.expr, b.expr)
    a, b = cx.aligned([a, b], [[a.ndim - 1, max(b.ndim - 2, 0)]])
    rank = max(a.ndim, b.ndim)
    axes = [[v.ndim - k if k <= v.ndim else None for v in (a, b)] for k in range(rank, 2, -1)]
    (a, b), batch = cx.broadcast_groups([a, b], axes)
    out = cx.emit(op.matmul(a.expr, b.expr))
    if out.struct_info.get_shape() is not None:
        return out
    return cx.of_shape(out, *batch, *a.shape[-2:-1], *b.shape[-1:])
