"""Rules for comparisons."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import FALSE, TRUE, IntImm
from . import poly as P
from .atoms import is_index
from .bounds import any_bound, may_wrap, poly_bound, writable
from .context import Context, Rule
from .convert import poly, ring
from .normal import comparison, is_zero, normal
from .poly import Poly
from .rules_arithmetic import binary


def _compare(ctx: Context, expr: pe.BinaryOpExpr) -> Any:
    if not is_index(expr.a.dtype):
        unified = binary(ctx, expr)
        if type(unified) is not type(expr):
            return unified
        return (_same_operands if type(expr) in (pe.EQ, pe.NE) else _by_bounds)(ctx, unified)
    truth, p = normal(ctx, type(expr), poly(ctx, expr.a), poly(ctx, expr.b))
    if truth is not None:
        return TRUE if truth else FALSE
    unified = binary(ctx, expr)
    try:
        built = comparison(ctx, type(expr), p, expr.a.dtype)
    except ValueError:
        built = unified
    if ctx.atoms.is_data(p) and not (writable(ctx, p) and _fits(ctx, built)):
        built = unified
    best = built if ctx.costs.of(built) < ctx.costs.of(unified) else unified
    narrow = _narrowed(ctx, best, p)
    if narrow is None or ctx.costs.of(narrow) > ctx.costs.of(best):
        return _upward(best)
    return _compare(ctx, narrow)


def _fits(ctx: Context, expr: Any) -> bool:
    """Whether neither side of an order wraps around; two sides that are equal are so wrapped, too."""
    sides = () if type(expr) in (pe.EQ, pe.NE) else (expr.a, expr.b)
    return not any(may_wrap(ctx, ring(ctx, side), side.dtype) for side in sides)


_MIRRORED = {pe.GT: pe.LT, pe.GE: pe.LE}


def _upward(expr: Any) -> Any:
    """x >= 20 is 20 <= x, one form of both."""
    mirrored = _MIRRORED.get(type(expr))
    return expr if mirrored is None else mirrored._make(expr.b, expr.a, span=expr.span)


def _narrowed(ctx: Context, expr: Any, p: Poly) -> Any:
    """The part of a comparison that is not already known: a <= b is a == b where a >= b, and a < b
    where a != b; a != b is a < b where a <= b. None where nothing of that kind is known."""
    kind = type(expr)
    if kind is pe.LE or kind is pe.GE:
        if poly_bound(ctx, p)[1] == 0:
            low, high = (expr.a, expr.b) if kind is pe.LE else (expr.b, expr.a)
            if poly_bound(ctx, P.add(poly(ctx, high), poly(ctx, low), -1))[1]:
                # p == 0 leaves them a distance
                return comparison(ctx, pe.EQ, p, expr.a.dtype) if writable(ctx, p) else None
            a, b = (expr.b, expr.a) if isinstance(expr.a, IntImm) else (expr.a, expr.b)
            return pe.EQ._make(a, b, span=expr.span)
        if ctx.assumed.nonzero and is_zero(ctx, p) is False:
            return (pe.LT if kind is pe.LE else pe.GT)._make(expr.a, expr.b, span=expr.span)
    if kind is pe.NE:
        low, high = poly_bound(ctx, P.add(poly(ctx, expr.a), poly(ctx, expr.b), -1))
        if high == 0:
            return pe.LT._make(expr.a, expr.b, span=expr.span)
        if low == 0:
            return pe.GT._make(expr.a, expr.b, span=expr.span)
    return None


def _by_bounds(ctx: Context, expr: pe.BinaryOpExpr) -> Any:
    """An order that the ranges of its sides decide: no unsigned number is less than 0."""
    if not expr.a.dtype.is_integer or expr.dtype.lanes != 1:
        return expr
    order = _upward(expr)
    (low, high), (least, most) = any_bound(ctx, order.a), any_bound(ctx, order.b)
    if type(order) is pe.LT:
        return TRUE if high < least else FALSE if low >= most else expr
    return TRUE if high <= least else FALSE if low > most else expr


def _same_operands(ctx: Context, expr: pe.BinaryOpExpr) -> Any:
    if not expr.a.dtype.is_integer or expr.dtype.lanes != 1:
        return expr
    if ctx.keys.of(expr.a) == ctx.keys.of(expr.b):
        return TRUE if type(expr) is pe.EQ else FALSE
    if expr.a.dtype.is_bool and isinstance(expr.b, IntImm):
        positive = bool(expr.b.value) == (type(expr) is pe.EQ)
        return expr.a if positive else ctx.simplified(pe.Not._make(expr.a))
    return expr


RULES: dict[type, Rule] = dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE), _compare)
