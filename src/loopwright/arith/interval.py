"""Intervals with symbolic ends: the values of a polynomial while variables range over their
sets."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.prim_expr import PrimExpr, Range, Var
from ..ir.variables import vars_in
from . import poly as P
from .atoms import DIV, INT32, MAX, MIN, OF_PARTS, TRUNC, VAR
from .bounds import poly_bound
from .context import Context
from .convert import poly_extreme, ring
from .division import paired, poly_div
from .poly import Monomial, Poly
from .proof import nonneg

if TYPE_CHECKING:
    from ..ir.dtype import DataType

Ends = tuple[Poly | None, Poly | None]  # None: no bound
_UNBOUNDED: Ends = (None, None)
POS_INF, NEG_INF = Var("pos_inf", "handle"), Var("neg_inf", "handle")


def pos_inf() -> PrimExpr:
    """The end of a set without a greatest value."""
    return POS_INF


def neg_inf() -> PrimExpr:
    """The end of a set without a least value."""
    return NEG_INF


def is_pos_inf(e: PrimExpr) -> bool:
    """Whether `e` is `pos_inf()`."""
    return e is POS_INF


def is_neg_inf(e: PrimExpr) -> bool:
    """Whether `e` is `neg_inf()`."""
    return e is NEG_INF


def is_infinite(e: PrimExpr) -> bool:
    """Whether `e` is one of the infinities."""
    return e is POS_INF or e is NEG_INF


class Evaluator:
    """Intervals of polynomials: variables of `domain` range over their sets, others are
    symbolic."""

    def __init__(self, ctx: Context, domain: Mapping[Var, Any], dtype: Any = INT32) -> None:
        self.ctx = ctx
        self.dtype = dtype  # of new divisions and extremes
        self.atoms: dict[int, Ends] = {}
        self.settled: set[int] = set()
        self.depends: dict[int, bool] = {}
        for var, dom in domain.items():
            self.atoms[ctx.atoms.of_var(var)] = self._domain(dom)

    def _domain(self, dom: Any) -> Ends:
        if isinstance(dom, Range):
            low = ring(self.ctx, dom.min)
            return low, P.shift(P.add(low, ring(self.ctx, dom.extent)), -1)
        if hasattr(dom, "min_value"):  # an IntervalSet
            ends = (dom.min_value, dom.max_value)
            low, high = (None if is_infinite(e) else ring(self.ctx, e) for e in ends)
            return low, high
        point = ring(self.ctx, po.convert(dom))
        return point, point

    def involved(self, p: Poly) -> bool:
        """Whether p depends on a variable of the domain."""
        return any(self.atom_involved(a) for m in p for a in m)

    def atom_involved(self, number: int) -> bool:
        """Whether an atom depends on a variable of the domain."""
        depends = self.depends.get(number)
        if depends is None:
            atom = self.ctx.atoms.all[number]
            if number in self.atoms:
                depends = True
            elif atom.kind in OF_PARTS:
                depends = any(map(self.involved, atom.data))
            elif atom.kind == VAR:
                depends = False
            else:
                depends = any(map(self._runs, vars_in(atom.expr)))
            self.depends[number] = depends
        return depends

    def _runs(self, var: Var) -> bool:
        return self.ctx.atoms.of_var(var) in self.atoms

    def ends(self, p: Poly) -> Ends:
        """(least, greatest) of p."""
        if not self.involved(p):
            return p, p
        pairing = paired(self.ctx, p)
        low: Poly | None = P.ZERO
        high: Poly | None = P.ZERO
        for m, f in pairing.rest.items():
            low, high = _plus((low, high), self._scaled(self._product(m), P.constant(f)))
        for scale, factor, value, divisor, kind in pairing.mods:
            down = kind == DIV or self._never_negative(value)
            part = self._remainder(value, divisor) if down else _UNBOUNDED
            if factor:
                if self.involved({factor: 1}) or part == _UNBOUNDED:
                    return self._constant_ends(p)
                part = self._scaled(part, {factor: 1})
            low, high = _plus((low, high), self._scaled(part, P.constant(scale)))
        if low is None or high is None:
            bounds = self._constant_ends(p)
            low = bounds[0] if low is None else low
            high = bounds[1] if high is None else high
        return low, high

    def _constant_ends(self, p: Poly) -> Ends:
        """Ends from the analyzer's constant bounds; sound only for variables that have been
        bound."""
        if any(self._unbound(a) for m in p for a in m):
            return _UNBOUNDED
        low, high = poly_bound(self.ctx, p)
        return (
            None if low == -inf else P.constant(int(low)),
            None if high == inf else P.constant(int(high)),
        )

    def _unbound(self, number: int) -> bool:
        """Whether an atom depends on a domain variable without a range in the analyzer."""
        atom = self.ctx.atoms.all[number]
        if number in self.atoms:
            return number not in self.ctx.assumed.bounds
        if atom.kind in OF_PARTS:
            return any(self._unbound(a) for p in atom.data for m in p for a in m)
        return self.atom_involved(number)

    def _product(self, m: Monomial) -> Ends:
        moving = [a for a in m if self.atom_involved(a)]
        still = tuple(a for a in m if a not in moving)
        if not moving:
            return {m: 1}, {m: 1}
        if len(moving) > 1:
            return _UNBOUNDED
        return self._scaled(self._atom_ends(moving[0]), {still: 1})

    def _scaled(self, ends: Ends, by: Poly) -> Ends:
        low, high = ends
        b0, b1 = poly_bound(self.ctx, by)
        if b0 < 0 < b1:
            return _UNBOUNDED
        low, high = (None if e is None else P.multiply(e, by) for e in (low, high))
        return (low, high) if b0 >= 0 else (high, low)

    def _atom_ends(self, number: int) -> Ends:
        cached = self.atoms.get(number)
        if cached is not None:
            if number not in self.settled:  # its ends may depend on other variables of the domain
                self.settled.add(number)
                low, high = cached
                cached = self.atoms[number] = (
                    None if low is None else self.ends(low)[0],
                    None if high is None else self.ends(high)[1],
                )
            return cached
        atom = self.ctx.atoms.all[number]
        if atom.kind == DIV:
            return self._quotient(*atom.data, atom.dtype)
        if atom.kind == TRUNC:
            down = self._never_negative(atom.data[0])
            return self._quotient(*atom.data, atom.dtype) if down else _UNBOUNDED
        if atom.kind in (MIN, MAX):
            (a0, a1), (b0, b1) = map(self.ends, atom.data)
            return self._extreme(atom.kind, a0, b0, True), self._extreme(atom.kind, a1, b1, False)
        return self._opaque_ends(atom.expr)

    def _never_negative(self, p: Poly) -> bool:
        """Whether p is 0 or more over the domain, where truncated divisions round down."""
        least = self.ends(p)[0]
        return least is not None and nonneg(self.ctx, least)

    def _opaque_ends(self, e: PrimExpr | None) -> Ends:
        """Ends of a choice."""
        if type(e) is pe.Select:
            (a0, a1), (b0, b1) = (
                self.ends(ring(self.ctx, v)) for v in (e.true_value, e.false_value)
            )
            low = None if a0 is None or b0 is None else self._extreme(MIN, a0, b0, True)
            return low, None if a1 is None or b1 is None else self._extreme(MAX, a1, b1, False)
        return _UNBOUNDED

    def _extreme(self, kind: int, a: Poly | None, b: Poly | None, lower: bool) -> Poly | None:
        if a is None or b is None:
            # min(a, b) <= b even if a is unknown; max(a, b) >= b.
            helps = (kind == MIN) != lower
            return (a if b is None else b) if helps else None
        return poly_extreme(self.ctx, kind, a, b, self.dtype)

    def _quotient(self, n: Poly, d: Poly, dtype: DataType) -> Ends:
        if self.involved(d) or poly_bound(self.ctx, d)[0] <= 0:
            return _UNBOUNDED
        low, high = self.ends(n)
        return (
            None if low is None else poly_div(self.ctx, low, d, dtype),
            None if high is None else poly_div(self.ctx, high, d, dtype),
        )

    def _remainder(self, value: Poly, divisor: Poly) -> Ends:
        if self.involved(divisor):
            return _UNBOUNDED
        low, high = self.ends(value)
        c = P.constant_value(divisor)
        if low is not None and high is not None:
            q0 = poly_div(self.ctx, low, divisor, self.dtype)
            q1 = poly_div(self.ctx, high, divisor, self.dtype)
            if q0 is not None and q1 is not None and not P.add(q0, q1, -1):
                back = P.multiply(divisor, q0)
                return P.add(low, back, -1), P.add(high, back, -1)
        if poly_bound(self.ctx, divisor)[0] <= 0:
            return _UNBOUNDED
        last = P.shift(divisor, -1) if c is None else P.constant(c - 1)
        if low is not None and high is not None and poly_bound(self.ctx, low)[0] >= 0:
            if nonneg(self.ctx, P.add(last, high, -1)):
                last = high
        return P.ZERO, last


def _plus(a: Ends, b: Ends) -> Ends:
    low = None if a[0] is None or b[0] is None else P.add(a[0], b[0])
    high = None if a[1] is None or b[1] is None else P.add(a[1], b[1])
    return low, high
