"""Rules for vectors: an operation on ramps and broadcasts becomes a ramp or a broadcast."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.literals import int_value, is_zero
from ..ir.prim_expr import FALSE, TRUE, IntImm
from . import poly as P
from .bounds import may_wrap, poly_bound
from .context import Context
from .convert import poly
from .proof import nonneg


def vector(
    ctx: Context,
    kind: type[pe.BinaryOpExpr] | type[pe.Mul] | type[pe.PrimExpr],
    a: pe.PrimExpr,
    b: pe.PrimExpr,
) -> Any:
    """`kind` of two vectors with broadcasts and ramps moved outwards, or None."""
    ta, tb = type(a), type(b)
    if ta is pe.Broadcast and tb is pe.Broadcast and a.value.dtype == b.value.dtype:
        return pe.Broadcast._make(_scalar(ctx, kind, a.value, b.value), a.lanes)
    if kind is pe.Add and tb is pe.Broadcast and getattr(b.value, "value", None) == 0:
        return a
    if kind in (pe.Min, pe.Max) and ta is kind and type(a.b) is tb is pe.Broadcast:
        return kind._make(a.a, vector(ctx, kind, a.b, b))
    integer = a.dtype.element in ("int32", "int64")
    if not integer or not {ta, tb} <= {pe.Ramp, pe.Broadcast}:
        return None
    if any((e.base if type(e) is pe.Ramp else e.value).dtype.lanes != 1 for e in (a, b)):
        return None
    lanes = (a if ta is pe.Ramp else b).lanes
    if kind is pe.Add or kind is pe.Sub:
        (ab, as_), (bb, bs) = _line(a), _line(b)
        base = _scalar(ctx, kind, ab, bb)
        stride = _scalar(ctx, kind, as_, bs)
        if is_zero(stride):
            return pe.Broadcast._make(base, lanes)
        return pe.Ramp._make(base, stride, lanes)
    if kind is pe.Mul and (ta is pe.Broadcast or tb is pe.Broadcast):
        ramp, factor = (a, b.value) if ta is pe.Ramp else (b, a.value)
        if is_zero(factor):
            return pe.Broadcast._make(factor, lanes)
        scale = [_scalar(ctx, kind, part, factor) for part in (ramp.base, ramp.stride)]
        return pe.Ramp._make(*scale, lanes)
    if ta is pe.Ramp and tb is pe.Broadcast:
        if kind in _DOWN and (_DOWN[kind] is kind or _never_negative(ctx, a)):
            return _ramp_division(ctx, kind, a, b.value)
    if issubclass(kind, pe.CmpExpr):
        return _vector_compare(ctx, kind, a, b)
    return None


def _scalar(
    ctx: Context,
    kind: type[pe.BinaryOpExpr] | type[pe.Mul] | type[pe.PrimExpr],
    a: pe.PrimExpr,
    b: pe.PrimExpr,
) -> Any:
    folded = po.fold_binary(kind, a, b)
    return ctx.simplified(kind._make(a, b) if folded is None else folded)


# Divisions by the ones that round down, which they are for numbers that are not negative.
_DOWN = {pe.FloorDiv: pe.FloorDiv, pe.FloorMod: pe.FloorMod}
_DOWN |= {pe.Div: pe.FloorDiv, pe.Mod: pe.FloorMod}


def _never_negative(ctx: Context, ramp: pe.PrimExpr) -> bool:
    stride = int_value(ramp.stride)
    return stride is not None and stride >= 0 and nonneg(ctx, poly(ctx, ramp.base))


def _ramp_division(ctx: Context, kind: Any, ramp: pe.PrimExpr, divisor: pe.PrimExpr) -> Any:
    """The quotient or remainder of a ramp by a scalar, both rounded down."""
    c, s = int_value(divisor), int_value(ramp.stride)
    if c is None or s is None or c <= 0 or _wraps(ctx, ramp):
        return None
    division, kind = kind, _DOWN[kind]
    if s % c == 0:
        base = _scalar(ctx, kind, ramp.base, divisor)
        if kind is pe.FloorMod:
            return pe.Broadcast._make(base, ramp.lanes)
        return pe.Ramp._make(base, IntImm(divisor.dtype, s // c), ramp.lanes)
    if not isinstance(ramp.lanes, int):
        return _without_multiples(ctx, division, ramp, divisor)
    rest = poly(ctx, pe.FloorMod._make(ramp.base, divisor))
    low, high = poly_bound(ctx, rest)
    ends = s * (ramp.lanes - 1)
    if low + min(ends, 0) >= 0 and high + max(ends, 0) < c:
        base = _scalar(ctx, kind, ramp.base, divisor)
        if kind is pe.FloorDiv:
            return pe.Broadcast._make(base, ramp.lanes)
        return pe.Ramp._make(base, ramp.stride, ramp.lanes)
    return _without_multiples(ctx, division, ramp, divisor)


def _without_multiples(
    ctx: Context, kind: type[pe.BinaryOpExpr], ramp: pe.PrimExpr, divisor: pe.PrimExpr
) -> Any:
    """The remainder of a ramp that begins at a multiple of the divisor and a literal, as that of
    one that begins at the literal; None for another."""
    coeff, base = ctx.modular(poly(ctx, ramp.base))
    if _DOWN[kind] is pe.FloorDiv or coeff == 0 or coeff % divisor.value:
        return None
    start = IntImm(divisor.dtype, base % divisor.value)
    indices = pe.Ramp._make(start, ramp.stride, ramp.lanes)
    return kind._make(indices, pe.Broadcast._make(divisor, ramp.lanes))


def _vector_compare(ctx: Context, kind: type[pe.CmpExpr], a: pe.PrimExpr, b: pe.PrimExpr) -> Any:
    """A comparison of a ramp and a broadcast that has the same result in all lanes."""
    (ab, as_), (bb, bs) = _line(a), _line(b)
    stride = P.constant_value(P.add(poly(ctx, as_), poly(ctx, bs), -1))
    if stride is None or kind in (pe.EQ, pe.NE) or a.dtype.is_scalable:
        return None
    if _wraps(ctx, a) or _wraps(ctx, b):
        return None
    lanes = a.dtype.lanes
    last = stride * (lanes - 1)
    base = P.add(poly(ctx, ab), poly(ctx, bb), -1)
    least, most = P.shift(base, min(last, 0)), P.shift(base, max(last, 0))
    if kind is pe.LT or kind is pe.LE:  # base + ... < 0
        slack = 1 if kind is pe.LT else 0
        always = nonneg(ctx, P.shift(P.scaled(most, -1), -slack))
        never = nonneg(ctx, P.shift(least, slack - 1))
    else:
        slack = 1 if kind is pe.GT else 0
        always = nonneg(ctx, P.shift(least, -slack))
        never = nonneg(ctx, P.shift(P.scaled(most, -1), slack - 1))
    if always or never:
        return pe.Broadcast._make(TRUE if always else FALSE, lanes)
    return None


def _wraps(ctx: Context, v: pe.PrimExpr) -> bool:
    """Whether the last lane of a ramp that begins at data may be less than the first, or kin."""
    base, stride = _line(v)
    first = poly(ctx, base)
    if not ctx.atoms.is_data(first) or is_zero(stride):
        return False
    ends = P.scaled(poly(ctx, stride), v.dtype.lanes - 1)
    return v.dtype.is_scalable or may_wrap(ctx, P.add(first, ends), base.dtype)


def _line(v: pe.PrimExpr) -> tuple[Any, Any]:
    """(base, stride) of a ramp; a broadcast has stride 0."""
    if type(v) is pe.Ramp:
        return v.base, v.stride
    return v.value, IntImm(v.value.dtype, 0)
