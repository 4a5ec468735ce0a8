"""Rules for conditions and choices, and the assumptions inside them."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.literals import is_true
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import FALSE, TRUE, FloatImm, IntImm, PrimExpr, Var
from .and_of_ors import and_of_ors
from .atoms import is_index
from .bounds import any_bound
from .constraints import ConstraintScope
from .context import Context, Extension, Rule
from .rules_arithmetic import binary, call, with_args

# How evaluating an expression may fail: a division by a variable that may be 0, a division by an
# expression that a condition could change, a load.
ZERO, CHANGES, LOADS = 1, 2, 4
_DIVISIONS = (pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod)
_SHIFTS = ("tir.shift_left", "tir.shift_right")


def _and_or(ctx: Context, expr: pe.BinaryOpExpr) -> Any:
    if expr.dtype.lanes > 1:
        return binary(ctx, expr)
    if ctx.enabled_extensions & Extension.ConvertBooleanToAndOfOrs:
        return and_of_ors(ctx, expr)
    kind, is_and = type(expr), isinstance(expr, pe.And)
    a = ctx.simplified(expr.a)
    b = _side(ctx, a, is_and, expr.b)
    if isinstance(a, IntImm):
        return b if bool(a.value) is is_and else a
    if isinstance(b, IntImm):
        return a if bool(b.value) is is_and else b
    if ctx.keys.of(a) == ctx.keys.of(b):
        return b
    if not _risk(ctx, b) and (_implies(ctx, b, a) if is_and else _implies(ctx, a, b)):
        return b
    return expr if a is expr.a and b is expr.b else kind._make(a, b, span=expr.span)


def _implies(ctx: Context, condition: PrimExpr, conclusion: PrimExpr) -> bool:
    """Whether `conclusion` holds wherever `condition` does."""
    if not isinstance(condition, pe.CmpExpr) or not is_index(condition.a.dtype):
        return False
    with ConstraintScope(ctx, condition):
        return _holds(ctx, conclusion)


def _holds(ctx: Context, conclusion: PrimExpr) -> bool:
    """Whether a condition is known to hold. Its parts are tested one by one: simplifying the whole
    would test again, for each inner `and`, what its operands imply."""
    if isinstance(conclusion, pe.And):
        return _holds(ctx, conclusion.b) and _holds(ctx, conclusion.a)
    if isinstance(conclusion, pe.Or):
        return _holds(ctx, conclusion.b) or _holds(ctx, conclusion.a)
    simple = ctx.simplified(conclusion)
    return is_true(simple)


def _under(ctx: Context, condition: PrimExpr, holds: bool, expr: PrimExpr) -> Any:
    """`expr` simplified under the assumption that `condition` is true, or false."""
    if not _plain_condition(condition) or not _worth_it(expr):
        return ctx.simplified(expr)
    fact = condition if holds else pe.Not._make(condition)
    with ConstraintScope(ctx, fact):
        return ctx.simplified(expr)


def _side(ctx: Context, condition: PrimExpr, holds: bool, expr: PrimExpr) -> Any:
    """Like `_under`, for an operand of a Select or the right operand of `and`. These are evaluated
    even if they are not needed, and must not fail then: they keep the Select or minimum
    that makes a divisor or an address valid."""
    risk = _risk(ctx, expr)
    if risk & CHANGES or (risk & LOADS and _risk(ctx, condition) & LOADS):
        simple = ctx.simplified(expr)
        return simple if simple is expr else _side(ctx, condition, holds, simple)
    return _under(ctx, condition, holds, expr)


def _risk(ctx: Context, expr: PrimExpr) -> int:
    """How evaluating `expr` may fail: flags ZERO, CHANGES, LOADS."""
    kind = type(expr)
    if kind is Var or kind is IntImm or kind is FloatImm:
        return 0
    entry = ctx.cache.risks.get(id(expr))
    if entry is None:
        total = 0
        if kind in _DIVISIONS:
            total = _risk_of_divisor(ctx, expr.b)
        elif kind is pe.Call:
            name = expr.op.name if isinstance(expr.op, Op) else ""
            if name in _SHIFTS:
                total = 0 if isinstance(expr.args[1], IntImm) else CHANGES
        elif not kind.__module__.endswith("prim_expr"):
            total = LOADS
        for child in expr.args if kind is pe.Call else expr.children():
            if isinstance(child, PrimExpr):
                total |= _risk(ctx, child)
        entry = ctx.cache.risks[id(expr)] = (expr, total)
    return entry[1]


def _risk_of_divisor(ctx: Context, divisor: PrimExpr) -> int:
    if isinstance(divisor, IntImm) or not divisor.dtype.is_integer:
        return 0
    if _worth_it(divisor):
        return CHANGES
    return 0 if any_bound(ctx, divisor)[0] > 0 else ZERO


def _not(ctx: Context, expr: pe.Not) -> Any:
    a = ctx.simplified(expr.a)
    kind = type(a)
    if kind is IntImm:
        return FALSE if a.value else TRUE
    if kind is pe.Not:
        return a.a
    if kind is pe.EQ or kind is pe.NE:
        other = (pe.NE if kind is pe.EQ else pe.EQ)._make(a.a, a.b, span=expr.span)
        return other if kind is pe.NE else ctx.simplified(other)
    if (kind is pe.And or kind is pe.Or) and expr.dtype.lanes == 1:
        sides = (ctx.simplified(pe.Not._make(side)) for side in (a.a, a.b))
        return ctx.simplified((pe.Or if kind is pe.And else pe.And)._make(*sides, span=expr.span))
    if kind in NEGATED and a.a.dtype.is_integer:
        return ctx.simplified(NEGATED[kind]._make(a.a, a.b, span=expr.span))
    if kind is pe.Broadcast:
        return pe.Broadcast._make(ctx.simplified(pe.Not._make(a.value)), a.lanes)
    return expr if a is expr.a else pe.Not._make(a, span=expr.span)


def _select(ctx: Context, expr: pe.Select) -> Any:
    c = ctx.simplified(expr.condition)
    if isinstance(c, IntImm):
        return ctx.simplified(expr.true_value if c.value else expr.false_value)
    if type(c) is pe.Broadcast and isinstance(c.value, IntImm):
        return ctx.simplified(expr.true_value if c.value.value else expr.false_value)
    t, f = _side(ctx, c, True, expr.true_value), _side(ctx, c, False, expr.false_value)
    if t is f or ctx.keys.of(t) == ctx.keys.of(f):
        return t
    if c is expr.condition and t is expr.true_value and f is expr.false_value:
        return expr
    return pe.Select._make(c, t, f, span=expr.span)


def _call(ctx: Context, expr: pe.Call) -> Any:
    rule = _CALLS.get(expr.op.name) if isinstance(expr.op, Op) else None
    return call(ctx, expr) if rule is None else rule(ctx, expr)


def _if_then_else(ctx: Context, expr: pe.Call) -> Any:
    c, t, f = expr.args
    c = ctx.simplified(c)
    if isinstance(c, IntImm):
        return ctx.simplified(t if c.value else f)
    t, f = _under(ctx, c, True, t), _under(ctx, c, False, f)
    return with_args(expr, (c, t, f))


def _likely(ctx: Context, expr: pe.Call) -> Any:
    c = ctx.simplified(expr.args[0])
    return c if isinstance(c, IntImm) else with_args(expr, (c,))


def _plain_condition(c: PrimExpr) -> bool:
    """Whether a condition is worth recording: comparisons of integers and conjunctions of them."""
    if isinstance(c, pe.And):
        return _plain_condition(c.a) or _plain_condition(c.b)
    if isinstance(c, pe.Not):
        return _plain_condition(c.a)
    if isinstance(c, pe.Call) and isinstance(c.op, Op) and c.op.name == "tir.likely":
        return _plain_condition(c.args[0])
    return isinstance(c, pe.CmpExpr) and is_index(c.a.dtype)


def _worth_it(e: Node) -> bool:
    """Whether anything in `expr` could become simpler under an assumption."""
    if isinstance(e, (Var, IntImm, FloatImm)):
        return False
    if isinstance(e, _CONDITIONAL):
        return True
    if isinstance(e, Node) and not e.bound_by_identity:
        return any(_worth_it(child) for child in e.children())
    return False


# Nodes that an assumption may simplify.
_CONDITIONAL = (pe.CmpExpr, *_DIVISIONS, pe.Min, pe.Max, pe.Select)
_CALLS: dict[str, Rule] = {"tir.if_then_else": _if_then_else, "tir.likely": _likely}
NEGATED = {pe.LT: pe.GE, pe.GE: pe.LT, pe.GT: pe.LE, pe.LE: pe.GT}
RULES: dict[type, Rule] = {
    pe.And: _and_or,
    pe.Or: _and_or,
    pe.Not: _not,
    pe.Select: _select,
    pe.Call: _call,
}
