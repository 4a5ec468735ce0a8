"""Converts expressions to polynomials.

`ring` returns a polynomial that equals an expression in the arithmetic of its type, which wraps
around: enough for sums and products. `poly` returns one whose value as a whole number is that of
the expression: for operands of comparisons, divisions, bounds and widening casts. They differ for
data only, as indices are assumed not to
overflow: x + 5, of an x that was read from memory, is an unknown of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import IntImm, PrimExpr, Var
from . import poly as P
from .atoms import MAX, MIN, OPAQUE, VAR, WRAPPED, is_index
from .bounds import may_wrap, poly_bound
from .context import Context
from .division import poly_div, trunc_div, without_multiples
from .poly import Poly
from .proof import nonneg

# Terms of the longest product of sums that is expanded: longer ones stay opaque, so that products of
# products do not grow exponentially.
_EXPAND = 8


def poly(ctx: Context, expr: Any) -> Poly:
    """The canonical form of an integer scalar; of data that may wrap around, an unknown."""
    p = ring(ctx, expr)
    if type(expr) in _RING and may_wrap(ctx, p, expr.dtype):
        simple = ctx.simplified(expr)
        return ctx.atoms.poly((WRAPPED, expr.dtype, P.key_of(p)), WRAPPED, expr.dtype, simple, (p,))
    return p


def ring(ctx: Context, expr: Any) -> Poly:
    """The canonical form of an integer scalar in the arithmetic of its type."""
    kind = type(expr)
    if kind is IntImm:
        return P.constant(expr.value)
    if kind is Var or kind is pe.SizeVar:
        return var_poly(ctx, expr)
    cached = ctx.cache.polys.get(id(expr))
    if cached is not None:
        return cached[1]
    handler = TO_POLY.get(kind) if is_index(expr.dtype) else None
    p = None if handler is None else handler(ctx, expr)
    if p is None:
        p = _opaque(ctx, expr)
    ctx.cache.polys[id(expr)] = (expr, p)
    return p


def var_poly(ctx: Context, var: Var) -> Poly:
    """The value of a variable if it has one, else its atom."""
    values = ctx.assumed.values
    p = values.get(var)
    if p is None:
        p = values[var] = ctx.atoms.poly(var, VAR, var.dtype, var)
    return p


def _opaque(ctx: Context, expr: PrimExpr) -> Poly:
    simple = ctx.rebuilt(expr)
    if type(simple) is not type(expr) and simple.dtype is expr.dtype:
        return poly(ctx, simple)  # it was simplified to another form
    p = ctx.atoms.poly(ctx.keys.of(simple), OPAQUE, simple.dtype, simple)
    if ctx.keys.reads(simple):
        ((number,),) = p
        ctx.atoms.read.add(number)
    return p


def _sum(ctx: Context, e: Any) -> Poly:
    """The polynomial of a + and - chain; iterative along its left side."""
    parts = []
    while type(e) is pe.Add or type(e) is pe.Sub:
        parts.append((e.b, 1 if type(e) is pe.Add else -1))
        e = e.a
    total = dict(ring(ctx, e))
    for part, sign in reversed(parts):
        for m, c in ring(ctx, part).items():
            value = total.get(m, 0) + sign * c
            if value:
                total[m] = value
            else:
                del total[m]
    return ctx.atoms.joined(total) if ctx.atoms.opposites else total


def _mul(ctx: Context, e: pe.BinaryOpExpr) -> Poly | None:
    a, b = ring(ctx, e.a), ring(ctx, e.b)
    if P.terms(a) == 0 or P.terms(b) == 0 or len(a) * len(b) <= _EXPAND:
        return P.multiply(a, b)
    return None


def _floordiv(ctx: Context, e: pe.BinaryOpExpr) -> Poly | None:
    return poly_div(ctx, poly(ctx, e.a), poly(ctx, e.b), e.dtype)


def _floormod(ctx: Context, e: pe.BinaryOpExpr) -> Poly | None:
    a, b = poly(ctx, e.a), poly(ctx, e.b)
    a = without_multiples(ctx, a, b)
    quotient = poly_div(ctx, a, b, e.dtype)
    if quotient is None or len(b) * len(quotient) > _EXPAND:
        return None
    return P.add(a, P.multiply(b, quotient), -1)


def _div(ctx: Context, e: pe.BinaryOpExpr) -> Poly | None:
    return trunc_div(ctx, poly(ctx, e.a), poly(ctx, e.b), e.dtype)


def _mod(ctx: Context, e: pe.BinaryOpExpr) -> Poly | None:
    a, b = poly(ctx, e.a), poly(ctx, e.b)
    if poly_bound(ctx, a)[0] >= 0 and poly_bound(ctx, b)[0] > 0:
        return _floormod(ctx, e)
    quotient = trunc_div(ctx, a, b, e.dtype)
    if quotient is None or len(b) * len(quotient) > _EXPAND:
        return None
    return P.add(a, P.multiply(b, quotient), -1)


def _cast(ctx: Context, e: pe.Cast) -> Poly | None:
    source = e.value.dtype
    if is_index(source):
        if e.dtype.bits >= source.bits:
            return poly(ctx, e.value)
        low, high = poly_bound(ctx, poly(ctx, e.value))
        fits = pe.int_min(e.dtype) <= low and high <= pe.int_max(e.dtype)
        return poly(ctx, e.value) if fits else None
    return None


def poly_extreme(ctx: Context, kind: int, a: Poly, b: Poly, dtype: str) -> Poly:
    """min(a, b) or max(a, b)."""
    diff = P.add(a, b, -1)
    if nonneg(ctx, diff, effort=1):
        return b if kind == MIN else a
    if nonneg(ctx, P.scaled(diff, -1), effort=1):
        return a if kind == MIN else b
    common = {m: c for m, c in a.items() if b.get(m) == c}
    if common:
        a, b = P.add(a, common, -1), P.add(b, common, -1)
    part = _extreme_apart(ctx, kind, a, b, dtype)
    return P.add(common, part) if common else part


def _extreme_apart(ctx: Context, kind: int, a: Poly, b: Poly, dtype: str) -> Poly:
    """min or max of polynomials that have no term in common."""
    g = gcd(*a.values(), *b.values())
    if g > 1:
        a, b = ({m: f // g for m, f in side.items()} for side in (a, b))
        return P.scaled(_extreme_apart(ctx, kind, a, b, dtype), g)
    for one, two in ((a, b), (b, a)):
        other = _absorbed(ctx, kind, one, two)
        if other is not None:
            return poly_extreme(ctx, kind, other, two, dtype)
    return ctx.atoms.extreme(kind, a, b, dtype)


def _absorbed(ctx: Context, kind: int, a: Poly, b: Poly) -> Poly | None:
    """x, where a is max(x, y) and y <= b: then max(a, b) is max(x, b). The same for min."""
    if len(a) != 1:
        return None
    ((m, f),) = a.items()
    if f != 1 or len(m) != 1 or ctx.atoms.all[m[0]].kind != kind:
        return None
    sides = ctx.atoms.all[m[0]].data
    for x, y in (sides, sides[::-1]):
        diff = P.add(b, y, -1) if kind == MAX else P.add(y, b, -1)
        if nonneg(ctx, diff, effort=1):
            return x
    return None


def _extreme(kind: int) -> Handler:
    def extreme(ctx: Context, e: pe.BinaryOpExpr) -> Poly:
        return poly_extreme(ctx, kind, poly(ctx, e.a), poly(ctx, e.b), e.dtype)

    return extreme


Handler = Callable[[Context, Any], Poly | None]
_RING = (pe.Add, pe.Sub, pe.Mul)
# A handler that returns None makes the expression an atom.
TO_POLY: dict[type, Handler] = {
    pe.Add: _sum,
    pe.Sub: _sum,
    pe.Mul: _mul,
    pe.FloorDiv: _floordiv,
    pe.FloorMod: _floormod,
    pe.Div: _div,
    pe.Mod: _mod,
    pe.Cast: _cast,
    pe.Min: _extreme(MIN),
    pe.Max: _extreme(MAX),
}
