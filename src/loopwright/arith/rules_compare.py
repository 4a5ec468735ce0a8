"""Rules for comparisons."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import FALSE, TRUE, IntImm
from .atoms import is_index
from .context import Context, Rule
from .convert import poly
from .normal import comparison, normal
from .rules_arithmetic import binary


def _compare(ctx: Context, expr: Any) -> Any:
    if not is_index(expr.a.dtype):
        kept = binary(ctx, expr)
        if type(expr) in (pe.EQ, pe.NE) and type(kept) is type(expr):
            return _same_operands(ctx, kept)
        return kept
    truth, p = normal(ctx, type(expr), poly(ctx, expr.a), poly(ctx, expr.b))
    if truth is not None:
        return TRUE if truth else FALSE
    kept = binary(ctx, expr)
    try:
        built = comparison(ctx, type(expr), p, expr.a.dtype)
    except ValueError:
        return kept
    return built if ctx.costs.of(built) < ctx.costs.of(kept) else kept


def _same_operands(ctx: Context, expr: Any) -> Any:
    if not expr.a.dtype.is_integer or expr.dtype.lanes != 1:
        return expr
    if ctx.keys.of(expr.a) == ctx.keys.of(expr.b):
        return TRUE if type(expr) is pe.EQ else FALSE
    if expr.a.dtype.is_bool and isinstance(expr.b, IntImm):
        positive = bool(expr.b.value) == (type(expr) is pe.EQ)
        return expr.a if positive else ctx.simplified(pe.Not._make(expr.a))
    return expr


RULES: dict[type, Rule] = dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE), _compare)
