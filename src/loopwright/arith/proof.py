"""Proofs of p >= 0: by bounds, by known facts, by factoring.

To prove p >= 0, a term of p is cancelled against a fact that has it with the same sign: if
a * p - b * fact >= 0 for positive a and b, so is p. Divisions bring two facts each:
0 <= n - d * (n // d) < d.
"""

from __future__ import annotations

from functools import partial
from math import gcd
from typing import Any

from ..base import budget
from . import poly as P
from .atoms import DIV, MAX, MIN, TRUNC, Atom
from .bounds import atom_bound, monomial_bound, poly_bound
from .context import Context
from .poly import ONE, Monomial, Poly

_BUDGET = 80  # the most steps of one proof
_TERMS = 32  # a step looks at every term: these many terms more cost another


def nonneg(ctx: Context, p: Poly, effort: int = 3) -> bool:
    """Whether p >= 0 can be proved."""
    if not p or (len(p) == 1 and ONE in p):
        return not p or p[ONE] >= 0
    if refuted(ctx, p):
        return False
    low, high = poly_bound(ctx, p)
    if low >= 0:
        return True
    if high < 0 or effort == 0:
        return False
    proofs = ctx.cache.proofs
    key = (P.key_of(p), effort)
    proven = proofs.get(key)
    if proven is None:
        proofs[key] = False  # circular proofs are invalid
        proven = proofs[key] = _Proof(ctx).search(p, effort, set())
    return proven


def refuted(ctx: Context, p: Poly) -> bool:
    """Whether an example shows that p can be negative."""
    return ctx.examples.refute(p, partial(atom_bound, ctx))


class _Proof:
    """One search for a proof, within its budget."""

    __slots__ = ("budget", "ctx")

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.budget = _BUDGET

    def search(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        low, high = poly_bound(self.ctx, p)
        if low >= 0:
            return True
        if depth == 0 or high < 0 or self.budget <= 0:
            return False
        key = P.key_of(p)
        if key in seen:
            return False
        seen.add(key)
        self.budget -= 1 + len(p) // _TERMS
        budget.check()
        return (
            self.factored(p, depth, seen)
            or self.cancelled(p, depth, seen)
            or self.split_extreme(p, depth, seen)
            or self.multiplied_out(p, depth, seen)
        )

    def cancelled(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """a * p - b * fact >= 0, for the facts that have a term of p."""
        tried: dict[tuple[int, int, int], Poly] = {}  # a fact meets a sum at many of its terms
        for m, f in p.items():
            if m == ONE:
                continue
            for fact in _facts_with(self.ctx, m, f > 0):
                g = gcd(f, fact[m])
                a, b = abs(fact[m]) // g, abs(f) // g
                if (id(fact), a, b) in tried:
                    continue
                tried[id(fact), a, b] = fact
                if self.search(P.add(P.scaled(p, a), fact, -b), depth - 1, seen):
                    return True
        return False

    def factored(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """p = a * rest with a >= 0 and rest >= 0."""
        if ONE in p:
            return False
        common = set(next(iter(p)))
        for m in p:
            common &= set(m)
        for a in common:
            rest: Poly = {P.divides((a,), m) or ONE: f for m, f in p.items()}
            if self.search({(a,): 1}, depth - 1, seen) and self.search(rest, depth - 1, seen):
                return True
        return False

    def split_extreme(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """Replaces min(a, b) in a term by a or by b and proves the resulting cases."""
        atoms = self.ctx.atoms.all
        for m, f in p.items():
            if len(m) != 1 or atoms[m[0]].kind not in (MIN, MAX):
                continue
            atom = atoms[m[0]]
            rest = {n: c for n, c in p.items() if n != m}
            sides = [P.add(rest, side, f) for side in atom.data]
            need_both = (atom.kind == MIN) == (f > 0)
            done = (self.search(side, depth - 1, set(seen)) for side in sides)
            if all(done) if need_both else any(done):
                return True
        return False

    def multiplied_out(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """n // d <= b where n < (b + 1) * d, and n // d >= b where n >= b * d, for positive d."""
        atoms = self.ctx.atoms.all
        for m, f in p.items():
            if abs(f) != 1 or len(m) != 1 or atoms[m[0]].kind != DIV:
                continue
            n, d = atoms[m[0]].data
            if poly_bound(self.ctx, d)[0] <= 0:
                continue
            rest = {k: c for k, c in p.items() if k != m}
            if f < 0:
                needed = P.shift(P.add(P.multiply(P.shift(rest, 1), d), n, -1), -1)
            else:
                needed = P.add(n, P.multiply(rest, d))
            if self.search(needed, depth - 1, seen):
                return True
        return False


def _facts_with(ctx: Context, m: Monomial, positive: bool) -> list[Poly]:
    """Facts that have the term m with that sign: known facts and those of divisions."""
    facts = [p for p in ctx.facts.with_term(m) if (p[m] > 0) == positive]
    if len(m) == 1:
        atom = ctx.atoms.all[m[0]]
        if atom.kind == DIV or atom.kind == TRUNC:
            n, d = atom.data
            product = P.multiply(d, {m: 1})
            if m in product and poly_bound(ctx, d)[0] > 0:
                least = {} if atom.kind == DIV else P.shift(P.scaled(d, -1), 1)
                facts.append(_division_fact(n, d, product, positive, least))
    else:
        facts += _product_facts(ctx, m, positive)
    return [p for p in facts if m in p and (p[m] > 0) == positive]


def _division_fact(n: Poly, d: Poly, product: Poly, positive: bool, least: Poly = P.ZERO) -> Poly:
    """least <= n - d * q < d for q = n // d and positive d: the side that has d * q with that sign, as
    tight as whole numbers are."""
    remainder = P.add(n, product, -1)
    fact = P.shift(P.add(d, remainder, -1), -1) if positive else P.add(remainder, least, -1)
    size = gcd(*(f for m, f in fact.items() if m != ONE))
    return {m: f // size for m, f in fact.items() if f // size} if size > 1 else fact


def _product_facts(ctx: Context, m: Monomial, positive: bool) -> list[Poly]:
    """A fact times a non-negative factor is a fact."""
    facts = []
    for i, a in enumerate(m):
        others = m[:i] + m[i + 1 :]
        if monomial_bound(ctx, others)[0] < 0:
            continue
        for fact in _facts_with(ctx, (a,), positive):
            if all(len(n) <= 1 for n in fact):
                facts.append(P.multiply(fact, {others: 1}))
    for q in m:
        atom = ctx.atoms.all[q]
        for n, d in quotients_of(ctx, atom) if atom.kind == DIV else ():
            product = P.multiply(d, {(q,): 1})
            if m in product and len(d) == 1 and nonneg(ctx, P.shift(d, -1), effort=1):
                facts.append(_division_fact(n, d, product, positive))
    return facts


def quotients_of(ctx: Context, atom: Atom) -> list[tuple[Poly, Poly]]:
    """(n, d) for which an atom is n // d: itself; for x // m // 12 also x // (12 * m); for
    x // m // n also x // n // m. Only where the last divisor is not negative: 13 // 2 // -2 is -3."""
    n, d = atom.data
    inner = single_quotient(ctx, n)
    if inner is None or poly_bound(ctx, d)[0] < 0:
        return [(n, d)]
    x, other = inner
    quotients = [(n, d), (x, P.multiply(other, d))]
    if P.constant_value(d) is None and poly_bound(ctx, other)[0] >= 0:
        quotients.append((ctx.atoms.division(x, d, atom.dtype), other))
    return quotients


def single_quotient(ctx: Context, n: Poly, kind: int = DIV) -> tuple[Poly, Poly] | None:
    """(x, d) where n is x // d, or the truncated division, and nothing else."""
    if len(n) != 1:
        return None
    ((m, f),) = n.items()
    if f != 1 or len(m) != 1 or ctx.atoms.all[m[0]].kind != kind:
        return None
    return ctx.atoms.all[m[0]].data
