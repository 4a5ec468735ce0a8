"""Comparisons in normal form: p >= 0 for an order, p == 0 for EQ and NE."""

from __future__ import annotations

from math import gcd, inf

from ..ir import prim_expr as pe
from ..ir.prim_expr import PrimExpr
from . import poly as P
from .bounds import poly_bound
from .build import build, number
from .context import Context
from .division import paired, remainder, without_remainders
from .poly import ONE, Poly
from .proof import nonneg


def normal(
    ctx: Context, kind: type[pe.CmpExpr] | type[PrimExpr], a: Poly, b: Poly
) -> tuple[bool | None, Poly]:
    """(known truth or None, p): for an order, equivalent to p >= 0; for EQ and NE, to p == 0."""
    if kind is pe.EQ or kind is pe.NE:
        p = P.add(a, b, -1)
        equal = is_zero(ctx, p)
        if equal is not None:
            return (equal if kind is pe.EQ else not equal), p
        return None, reduced(p)
    if kind is pe.LT or kind is pe.LE:
        p = P.add(b, a, -1)
    else:
        p = P.add(a, b, -1)
    if kind is pe.LT or kind is pe.GT:
        p = P.shift(p, -1)
    p = tightened(ctx, p)
    if nonneg(ctx, p):
        return True, p
    if nonneg(ctx, P.shift(P.scaled(p, -1), -1)):
        return False, p
    return None, p


def is_zero(ctx: Context, p: Poly) -> bool | None:
    """Whether p is always 0 (True), never 0 (False), or unknown (None)."""
    if not p:
        return True
    low, high = poly_bound(ctx, p)
    if low > 0 or high < 0:
        return False
    if low == high == 0:
        return True
    c, b = ctx.modular(p)
    if c and b % c:
        return False
    negative = P.scaled(p, -1)
    if nonneg(ctx, P.shift(p, -1)) or nonneg(ctx, P.shift(negative, -1)):
        return False
    if nonneg(ctx, p) and nonneg(ctx, negative):
        return True
    if any(_is_multiple(ctx, p, q) for q in ctx.assumed.nonzero):
        return False
    return True if without_remainders(ctx, p) == P.ZERO else None


def _is_multiple(ctx: Context, p: Poly, q: Poly) -> bool:
    """Whether p, without the common factor of its coefficients, is q or -q."""
    p = reduced(p)
    for diff in (P.add(p, q, -1), P.add(p, q)):
        if nonneg(ctx, diff) and nonneg(ctx, P.scaled(diff, -1)):
            return True
    return False


def tightened(ctx: Context, p: Poly) -> Poly:
    """g * s + r >= 0 becomes s + floor(r / g) >= 0 if that floor is a constant."""
    for g in sorted({abs(f) for m, f in p.items() if m} - {1}, reverse=True):
        main = {m: f // g for m, f in p.items() if f % g == 0 and m}
        small = {m: f for m, f in p.items() if f % g or not m}
        low, high = poly_bound(ctx, small)
        if -inf < low and high < inf and low // g == high // g:
            return tightened(ctx, P.shift(main, int(low // g)))
    return p


def comparison(
    ctx: Context, kind: type[pe.CmpExpr] | type[pe.BinaryOpExpr], p: Poly, dtype: str
) -> PrimExpr:
    """The comparison equivalent to p >= 0 or p == 0, in the form of `kind`. Raises ValueError if a
    literal does not fit the type."""
    if kind is pe.EQ or kind is pe.NE:
        plus, minus = _sides(*_by_sign(ctx, p, dtype))
        return kind._make(build(ctx, plus, dtype), build(ctx, minus, dtype))
    plus, minus, k = _by_sign(ctx, p, dtype)
    if not minus:  # plus >= -k
        if kind is pe.LE or kind is pe.LT:
            return pe.LE._make(number(ctx, -k, dtype), build(ctx, plus, dtype))
        return pe.GE._make(build(ctx, plus, dtype), number(ctx, -k, dtype))
    if k == 0:
        parts = (pe.LE, minus, plus)
    elif k == -1:
        parts = (pe.LT, minus, plus)
    elif (k > 0 or not plus) and kind in (pe.LE, pe.GE):
        parts = (pe.LE, minus, P.shift(plus, k))
    elif k > 0 or not plus:
        parts = (pe.LT, minus, P.shift(plus, k + 1))
    else:
        parts = (pe.LT, P.shift(minus, -k - 1), plus)
    return parts[0]._make(build(ctx, parts[1], dtype), build(ctx, parts[2], dtype))


def reduced(p: Poly) -> Poly:
    """p divided by the common factor of its coefficients."""
    g = gcd(*p.values())
    return {m: f // g for m, f in p.items()} if g > 1 else p


def _by_sign(ctx: Context, p: Poly, dtype: str) -> tuple[Poly, Poly, int]:
    """(plus, minus, k), where p is plus - minus + k: the terms by their signs. A remainder, whose
    quotient has the other sign than its value, stays whole."""
    pairing = paired(ctx, p)
    plus = {m: f for m, f in pairing.rest.items() if m and f > 0}
    minus = {m: -f for m, f in pairing.rest.items() if m and f < 0}
    for scale, factor, value, divisor, kind in pairing.mods:
        whole = P.multiply({factor: abs(scale)}, remainder(ctx, value, divisor, dtype, kind))
        plus, minus = (P.add(plus, whole), minus) if scale > 0 else (plus, P.add(minus, whole))
    return plus, minus, pairing.rest.get(ONE, 0)


def _sides(plus: Poly, minus: Poly, k: int) -> tuple[Poly, Poly]:
    """plus - minus + k == 0 as (left, right), with positive coefficients on both sides if possible."""
    if not plus:
        plus, minus, k = minus, plus, -k
    if not minus:
        return plus, P.constant(-k)
    return (P.shift(plus, k), minus) if k > 0 else (plus, P.shift(minus, -k))
