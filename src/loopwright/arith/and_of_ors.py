"""Conditions as a conjunction of disjunctions: `Extension.ConvertBooleanToAndOfOrs`.

`a or (b and c)` becomes `(a or b) and (a or c)`. In that form, any two parts of one disjunction meet
(`i == 20 or b or i != 30` is `b or i != 30`), and any two disjunctions that differ in one part
(`(a or b) and (a or c)` is `a or d`, where `b and c` is simply d). The parts themselves are
simplified by the rules.
"""

from __future__ import annotations

from functools import reduce
from itertools import combinations

from ..ir import prim_expr as pe
from ..ir.prim_expr import FALSE, TRUE, IntImm, PrimExpr
from .context import Context, Extension

_MOST = 64  # disjunctions: more would be slower to evaluate, and to simplify

Clause = tuple[PrimExpr, ...]  # a disjunction


def and_of_ors(ctx: Context, expr: PrimExpr) -> PrimExpr:
    """A scalar condition in that form; the same object where it has it, or where it would be long."""
    flags = ctx.enabled_extensions
    ctx.enabled_extensions = flags & ~Extension.ConvertBooleanToAndOfOrs
    try:
        clauses = _clauses(ctx, expr, True)
        return expr if clauses is None else _built(ctx, expr, _merged(ctx, clauses))
    finally:
        ctx.enabled_extensions = flags


def _clauses(ctx: Context, expr: PrimExpr, holds: bool) -> list[Clause] | None:
    """The disjunctions that say the same as `expr`, or as its negation; None for too many."""
    if isinstance(expr, pe.Not):
        return _clauses(ctx, expr.a, not holds)
    if not isinstance(expr, (pe.And, pe.Or)):
        return [(ctx.simplified(expr if holds else pe.Not._make(expr)),)]
    a, b = _clauses(ctx, expr.a, holds), _clauses(ctx, expr.b, holds)
    if a is None or b is None:
        return None
    if isinstance(expr, pe.And) is holds:
        return a + b if len(a) + len(b) <= _MOST else None
    return [x + y for x in a for y in b] if len(a) * len(b) <= _MOST else None


def _merged(ctx: Context, clauses: list[Clause]) -> list[Clause]:
    """The disjunctions, as far as they do not follow from others and cannot become one."""
    clauses = [_pairwise(ctx, pe.Or, clause) for clause in clauses]
    while True:
        for i, j in combinations(range(len(clauses)), 2):
            merged = _merge(ctx, clauses[i], clauses[j])
            if merged is not None:
                keep, clause = (i, j)[merged[0]], merged[1]
                clauses[keep] = clause
                del clauses[i + j - keep]
                break
        else:
            return clauses


def _pairwise(ctx: Context, kind: type[pe.Or], parts: Clause) -> Clause:
    """The parts of a disjunction; two that are one together take the place of the later."""
    left = list(parts)
    while True:
        for i, j in combinations(range(len(left)), 2):
            one = _single(ctx, kind, left[i], left[j])
            if one is not None:
                left[j] = one
                del left[i]
                break
        else:
            return tuple(left)


def _merge(ctx: Context, a: Clause, b: Clause) -> tuple[int, Clause] | None:
    """(0 or 1: which of two disjunctions stays, what becomes of it), where one is enough."""
    left, right = ({ctx.keys.of(part): part for part in clause} for clause in (a, b))
    more, less = ([k for k in x if k not in y] for x, y in ((left, right), (right, left)))
    if not more:
        return 0, a
    if not less:
        return 1, b
    if len(more) > 1 or len(less) > 1:
        return None
    one = _single(ctx, pe.And, left[more[0]], right[less[0]])
    if one is None:
        return None
    return 1, _pairwise(ctx, pe.Or, tuple(one if p is right[less[0]] else p for p in b))


def _single(ctx: Context, kind: type[pe.LogicalExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Two conditions as one that is neither a conjunction nor a disjunction, or None."""
    one = ctx.simplified(kind._make(a, b))
    return None if isinstance(one, (pe.And, pe.Or)) else one


def _built(ctx: Context, expr: PrimExpr, clauses: list[Clause]) -> PrimExpr:
    built = [reduce(pe.Or._make, clause) for clause in clauses]
    left = [c for c in built if not (isinstance(c, IntImm) and c.value)]
    if any(isinstance(c, IntImm) for c in left):
        return FALSE
    new = reduce(pe.And._make, left) if left else TRUE
    return expr if ctx.keys.of(new) == ctx.keys.of(expr) else new
