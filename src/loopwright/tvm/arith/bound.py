"""Solving a condition for one variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...arith import poly as P
from ...arith.analyzer import Analyzer, IntervalSet, nothing
from ...arith.atoms import DIV, is_index
from ...arith.interval import Evaluator, is_infinite, neg_inf, pos_inf
from ...arith.poly import Poly
from ...ir import prim_expr as pe
from ...ir.prim_expr import PrimExpr, Range, Var


def deduce_bound(
    var: Var, cond: PrimExpr, hint_map: Mapping[Var, Any], relax_map: Mapping[Var, Any]
) -> IntervalSet:
    """The values of `var` for which `cond` holds, for all values of the variables of `relax_map`.

    cond: a comparison (not `!=`) of integers, or several with `and`. hint_map: domains of other
    variables, which may determine the sign of a factor. relax_map: sets of the variables that the
    result must not depend on. Returns the empty set if nothing can be deduced.

    >>> i = Var("i")
    >>> int(deduce_bound(i, i * 2 + 3 < 20, {}, {}).max_value)
    8
    """
    if isinstance(cond, pe.And):
        sides = [deduce_bound(var, part, hint_map, relax_map) for part in (cond.a, cond.b)]
        return _both(*sides)
    ordered = isinstance(cond, pe.CmpExpr) and not isinstance(cond, pe.NE)
    if not ordered or not is_index(cond.a.dtype):
        return nothing()
    ana = Analyzer()
    for other, dom in {**hint_map, **relax_map}.items():
        if isinstance(dom, Range):
            ana.bind(other, dom)
        elif isinstance(dom, IntervalSet):
            ana.update(other, dom)
    solver = _Solver(ana, var, relax_map, cond.a.dtype)
    a, b = ana.poly(cond.a), ana.poly(cond.b)
    p = P.add(a, b, -1) if isinstance(cond, (pe.GT, pe.GE)) else P.add(b, a, -1)
    if isinstance(cond, pe.EQ):
        return solver.equal(p)
    return solver.at_least(P.shift(p, -1) if isinstance(cond, (pe.LT, pe.GT)) else p)


def _both(a: IntervalSet, b: IntervalSet) -> IntervalSet:
    if a.is_nothing() or b.is_nothing():
        return nothing()
    ana = Analyzer()
    low, high = a.min_value, a.max_value
    if is_infinite(low) or is_infinite(b.min_value):
        low = b.min_value if is_infinite(low) else low
    else:
        low = ana.simplify(pe.Max(low, b.min_value))
    if is_infinite(high) or is_infinite(b.max_value):
        high = b.max_value if is_infinite(high) else high
    else:
        high = ana.simplify(pe.Min(high, b.max_value))
    return IntervalSet(low, high)


class _Solver:
    """Solves p >= 0 for a variable with one occurrence in p, from the outside in."""

    def __init__(self, ana: Analyzer, var: Var, relax: Mapping[Var, Any], dtype: Any) -> None:
        self.ana = ana
        self.dtype = dtype
        self.relaxed = Evaluator(ana, relax)
        self.target = Evaluator(ana, {var: 0})
        self.number = ana.atoms.of_var(var)

    def apart(self, p: Poly) -> tuple[int, Poly, Poly] | None:
        """(atom, factor, rest): p = factor * atom + rest, the variable occurs in the atom only."""
        holders = {a for m in p for a in m if self.target.atom_involved(a)}
        if len(holders) != 1:
            return None
        (atom,) = holders
        factor: Poly = {}
        rest: Poly = {}
        for m, f in p.items():
            if atom not in m:
                rest[m] = f
            elif m.count(atom) == 1:
                factor[P.divides((atom,), m) or ()] = f
            else:
                return None
        return None if self.relaxed.involved(factor) else (atom, factor, rest)

    def at_least(self, p: Poly) -> IntervalSet:
        """The set where p >= 0."""
        parts = self.apart(p)
        if parts is None:
            return nothing()
        atom, factor, rest = parts
        least = self.relaxed.ends(rest)[0]  # if it holds for the least, it holds for all
        low, high = self.ana.poly_bound(factor)
        if least is None or low <= 0 <= high:
            return nothing()
        if low > 0:  # atom >= -least / factor, rounded up
            up = P.shift(P.add(factor, least, -1), -1)
            quotient = self.ana.poly_div(up, factor, self.dtype)
            return nothing() if quotient is None else self.above(atom, quotient)
        quotient = self.ana.poly_div(least, P.scaled(factor, -1), self.dtype)
        return nothing() if quotient is None else self.below(atom, quotient)

    def above(self, atom: int, end: Poly) -> IntervalSet:
        """The set where atom >= end."""
        if atom == self.number:
            return IntervalSet(self.build(end), pos_inf())
        division = self._division(atom)
        if division is None:
            return nothing()
        n, d = division
        return self.at_least(P.add(n, P.multiply(d, end), -1))  # n // d >= e: n >= d * e

    def below(self, atom: int, end: Poly) -> IntervalSet:
        """The set where atom <= end."""
        if atom == self.number:
            return IntervalSet(neg_inf(), self.build(end))
        division = self._division(atom)
        if division is None:
            return nothing()
        n, d = division
        last = P.shift(P.multiply(d, P.shift(end, 1)), -1)  # n // d <= e: n <= d * (e + 1) - 1
        return self.at_least(P.add(last, n, -1))

    def _division(self, number: int) -> tuple[Poly, Poly] | None:
        """(n, d) of an atom n // d with d > 0 and d independent of all variables in question."""
        atom = self.ana.atoms.all[number]
        if atom.kind != DIV or self.target.involved(atom.data[1]):
            return None
        n, d = atom.data
        if self.ana.poly_bound(d)[0] <= 0 or self.relaxed.involved(d):
            return None
        return n, d

    def equal(self, p: Poly) -> IntervalSet:
        """The set where p == 0: one value, if it is an integer."""
        parts = self.apart(p)
        if parts is None or parts[0] != self.number or self.relaxed.involved(parts[2]):
            return nothing()
        _, factor, rest = parts
        f = P.constant_value(factor)
        if not f or any(c % f for c in rest.values()):
            return nothing()
        point = self.build({m: -c // f for m, c in rest.items()})
        return IntervalSet(point, point)

    def build(self, p: Poly) -> PrimExpr:
        return self.ana.build(p, self.dtype)
