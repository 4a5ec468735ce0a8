"""Linear, clip and repeated patterns in index expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.literals import conjuncts
from ..ir.prim_expr import PrimExpr, ScalarLike, Var
from . import poly as P
from .analyzer import Analyzer
from .interval import Evaluator
from .normal import normal
from .rules_logic import NEGATED


def detect_linear_equation(
    expr: ScalarLike, var_list: Sequence[Var], ana: Analyzer | None = None
) -> list[PrimExpr]:
    """[c0, ..., cn, base] such that expr = c0 * var0 + ... + cn * varn + base, where no coefficient
    depends on the variables; an empty list if `expr` is not linear in them. ana: its bounds and
    constraints are used to simplify the coefficients."""
    ana = ana or Analyzer()
    expr = po.convert(expr)
    p = ana.ring(expr)
    evaluator = Evaluator(ana, dict.fromkeys(var_list, 0))
    coefficients: list[P.Poly] = [{} for _ in var_list]
    numbers = [ana.atoms.of_var(v) for v in var_list]
    base: P.Poly = {}
    for m, f in p.items():
        hits = [i for i, number in enumerate(numbers) if number in m]
        if not hits:
            base[m] = f
            continue
        rest = P.divides((numbers[hits[0]],), m)
        assert rest is not None
        coefficients[hits[0]][rest] = f
    if any(evaluator.involved(part) for part in (*coefficients, base)):
        return []
    return [ana.build(part, expr.dtype) for part in (*coefficients, base)]


def detect_clip_bound(expr: PrimExpr, var_list: Sequence[Var]) -> list[Any]:
    """[low0, high0, low1, ...] such that `expr` holds exactly if lowi <= vari <= highi for all i; None
    for a variable without that bound. An empty list if `expr` is not such a conjunction."""
    ana = Analyzer()
    numbers = [ana.atoms.of_var(v) for v in var_list]
    evaluator = Evaluator(ana, dict.fromkeys(var_list, 0))
    ends: list[Any] = [None] * (2 * len(var_list))
    for part in _comparisons(expr):
        if not isinstance(part, pe.CmpExpr) or isinstance(part, pe.NE):
            return []
        _, p = normal(ana, type(part), ana.poly(part.a), ana.poly(part.b))
        hits = [i for i, number in enumerate(numbers) if (number,) in p]
        if len(hits) != 1:
            return []
        i, dtype = hits[0], part.a.dtype
        f = p[(numbers[i],)]
        rest = {m: c for m, c in p.items() if m != (numbers[i],)}
        if abs(f) != 1 or evaluator.involved(rest):
            return []
        slot = 2 * i + (f < 0)
        end = ana.build(P.scaled(rest, -1) if f > 0 else rest, dtype)
        join = po.maximum if f > 0 else po.minimum
        ends[slot] = end if ends[slot] is None else ana.simplify(join(ends[slot], end))
    return ends


def _comparisons(expr: PrimExpr) -> list[Any]:
    """The comparisons of a conjunction. `a == b` is two of them, a >= b and a <= b; so are
    `min(x, y) >= b` and `max(x, y) <= b`, which bound both x and y."""
    parts = []
    a: Any
    for part in conjuncts(expr) or [expr]:
        kind, a, b = type(part), getattr(part, "a", None), getattr(part, "b", None)
        both = pe.Min if kind in (pe.GT, pe.GE) else pe.Max if kind in (pe.LT, pe.LE) else ()
        if kind is pe.Not and type(a) in NEGATED:
            parts += _comparisons(NEGATED[type(a)](a.a, a.b))
        elif kind is pe.EQ:
            parts += [pe.GE(a, b), pe.LE(a, b)]
        elif isinstance(a, both):
            parts += [kind(side, b) for side in (a.a, a.b)]
        else:
            parts.append(part)
    return parts
