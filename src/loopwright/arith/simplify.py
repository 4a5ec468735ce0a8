"""Simplification of expressions: integers by their canonical form, others by rules.

If no cheaper form exists, the same object is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..base import budget
from ..base.registry import Registry
from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr, ScalarLike, Var
from . import rules_arithmetic, rules_compare, rules_logic
from .atoms import is_index
from .bounds import writable
from .build import build
from .context import Context, Rule
from .convert import TO_POLY, ring
from .cost import STEP
from .division import without_remainders
from .poly import Poly
from .rules_arithmetic import default

if TYPE_CHECKING:
    from ..ir.dtype import DataType

# Higher layers register the rules of the expressions that they define.
RULES: Registry[type, Rule] = Registry("rule of the simplifier", compiles=True)
for _rules in (rules_arithmetic.RULES, rules_compare.RULES, rules_logic.RULES):
    for _kind, _rule in _rules.items():
        RULES.register(_kind, _rule, origin=__name__)

_LONG = 64  # terms of a sum whose parts are not worth forms of their own
_OFTEN = 64  # visits between two looks at the clock


def simplify(ctx: Context, expr: ScalarLike, steps: int = 2) -> Any:
    """An equal expression that costs no more; the same object if none is better.

    Indices, of type int32 and int64, are assumed not to overflow; data wraps around. Python numbers
    are converted.
    """
    expr = po.convert(expr)
    if not isinstance(expr, PrimExpr):
        return expr
    for _ in range(4):
        simple = simplified(ctx, expr)
        if simple is expr:
            break
        expr = simple
    return expr


def simplified(ctx: Context, expr: Any) -> Any:
    """One step of `simplify`."""
    kind = type(expr)
    if kind is IntImm or kind is FloatImm or kind is pe.StringImm:
        return expr
    if kind is Var or kind is pe.SizeVar:
        if expr.dtype.is_bool:
            return _known_truth(ctx, expr)
        value = ctx.assumed.values.get(expr)
        if value is None or not is_index(expr.dtype):
            return expr
        built = _built(ctx, value, expr.dtype)
        return expr if built is None else built
    entry = ctx.cache.simple.get(id(expr))
    if entry is not None:
        return entry[1]
    ctx.counts.visited += 1
    if not ctx.counts.visited % _OFTEN:
        budget.check()
    if is_index(expr.dtype) and kind in TO_POLY:
        simple = _best_integer(ctx, expr)
    else:
        simple = rebuilt(ctx, expr)
    if simple is not expr and expr.span is not None and simple.span is None:
        if not isinstance(simple, (IntImm, Var)):
            simple = simple.with_span(expr.span)
    cache = ctx.cache.simple
    cache[id(expr)] = (expr, simple)
    if simple is not expr:  # simplified expressions are already simple
        ctx.counts.rewritten += 1
        cache[id(simple)] = (simple, simple)
    return simple


def _best_integer(ctx: Context, expr: Any) -> Any:
    p = ring(ctx, expr)
    built = _built(ctx, p, expr.dtype)
    if len(p) > 1 and (parts := without_remainders(ctx, p)) is not None:
        other = _built(ctx, parts, expr.dtype)
        if built is None or (other is not None and ctx.costs.of(other) < ctx.costs.of(built)):
            built = other
    # The parts of a long sum are not worth forms of their own: each would be long, too.
    unchanged = rebuilt(ctx, expr) if len(p) <= _LONG else expr
    if built is None or ctx.costs.of(unchanged) <= ctx.costs.of(built):
        return unchanged
    return built


def _built(ctx: Context, p: Poly, dtype: DataType) -> PrimExpr | None:
    if not writable(ctx, p):
        return None
    try:
        return build(ctx, p, dtype)
    except ValueError:  # a literal that does not fit the type
        return None


def rebuilt(ctx: Context, expr: PrimExpr) -> PrimExpr:
    """`expr` with its operands simplified, by the rule of its type."""
    simple = RULES.get(type(expr), default)(ctx, expr)
    return _known_truth(ctx, simple) if simple.dtype.is_bool else simple


def _known_truth(ctx: Context, condition: PrimExpr) -> PrimExpr:
    """A condition, or its value where that is known."""
    truths = ctx.assumed.truths
    if truths and not isinstance(condition, IntImm):
        key = ctx.keys.of(condition)
        for holds in (True, False):
            if (key, holds) in truths:
                return IntImm("bool", holds)
    return condition


def _is_sum_of_products(expr: PrimExpr) -> bool:
    if isinstance(expr, (pe.Add, pe.Sub)):
        return _is_sum_of_products(expr.a) and _is_sum_of_products(expr.b)
    return not isinstance(expr, pe.Mul) or _is_product(expr)


def _is_product(expr: PrimExpr) -> bool:
    if isinstance(expr, pe.Mul):
        return _is_product(expr.a) and _is_product(expr.b)
    return not isinstance(expr, (pe.Add, pe.Sub))


def expand(ctx: Context, expr: PrimExpr) -> Any:
    """An integer as a sum of products, if that costs about the same: sums that differ in
    one term then share the others."""
    simple = simplify(ctx, expr)
    if not is_index(simple.dtype) or _is_sum_of_products(simple):
        return simple
    built = _built(ctx, ring(ctx, simple), simple.dtype)
    if built is None or ctx.costs.of(built) > ctx.costs.of(simple) + 3 * STEP:
        return simple
    return built
