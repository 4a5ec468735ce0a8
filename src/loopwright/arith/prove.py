"""Proofs of p >= 0: by bounds, by known facts, by taking out a common factor."""

from __future__ import annotations

from math import gcd
from typing import Any

from . import poly as P
from .examples import Examples
from .poly import DIV, MAX, MIN, ONE, Poly

_BUDGET = 80


class Prover(Examples):
    """The part of the analyzer that proves inequalities.

    A fact is a polynomial known to be >= 0. To prove p >= 0, a term of p is cancelled against a
    fact that has it with the same sign: if a * p - b * fact >= 0 for positive a and b, so is p.
    Divisions bring two facts each: 0 <= n - d * (n // d) < d.
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: list[Poly] = []
        self._fact_index: dict[Any, list[Poly]] = {}
        self._budget = 0

    def _add_fact(self, p: Poly) -> None:
        self._facts.append(p)
        for m in p:
            if m != ONE:
                self._fact_index.setdefault(m, []).append(p)

    def _drop_facts(self, count: int) -> None:
        while len(self._facts) > count:
            p = self._facts.pop()
            for m in p:
                if m != ONE:
                    self._fact_index[m].pop()

    def _forget_facts(self, number: int) -> None:
        """Leave out the facts on an atom that is bound anew; their places stay counted."""
        for i, p in enumerate(self._facts):
            if any(number in m for m in p):
                self._facts[i] = {}
                for m in p:
                    if m != ONE:
                        self._fact_index[m] = [q for q in self._fact_index[m] if q is not p]

    def nonneg(self, p: Poly, effort: int = 3) -> bool:
        """Whether p is proven to be >= 0."""
        if not p or (len(p) == 1 and ONE in p):
            return not p or p[ONE] >= 0
        if self.refuted(p):
            return False
        low, high = self.poly_bound(p)
        if low >= 0:
            return True
        if high < 0 or effort == 0:
            return False
        key = (P.key_of(p), effort)
        found = self._proofs.get(key)
        if found is None:
            outer, self._budget = self._budget, _BUDGET
            self._proofs[key] = False  # a proof that needs itself is none
            try:
                found = self._search(p, effort, set())
            finally:
                self._budget = outer
            self._proofs[key] = found
        return found

    def _search(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        low, high = self.poly_bound(p)
        if low >= 0:
            return True
        if depth == 0 or high < 0 or self._budget <= 0:
            return False
        key = P.key_of(p)
        if key in seen:
            return False
        seen.add(key)
        self._budget -= 1
        if self._factored(p, depth, seen):
            return True
        for m, f in p.items():
            if m == ONE:
                continue
            for fact in self._facts_with(m, f > 0):
                g = gcd(f, fact[m])
                rest = P.add(P.scaled(p, abs(fact[m]) // g), fact, -(abs(f) // g))
                if self._search(rest, depth - 1, seen):
                    return True
        return self._split_extreme(p, depth, seen) or self._multiplied_out(p, depth, seen)

    def _multiplied_out(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """n // d <= b where n < (b + 1) * d, and n // d >= b where n >= b * d, for positive d."""
        for m, f in p.items():
            if abs(f) != 1 or len(m) != 1 or self._atoms[m[0]].kind != DIV:
                continue
            n, d = self._atoms[m[0]].data
            if self.poly_bound(d)[0] <= 0:
                continue
            rest = {k: c for k, c in p.items() if k != m}
            if f < 0:
                needed = P.shift(P.add(P.multiply(P.shift(rest, 1), d), n, -1), -1)
            else:
                needed = P.add(n, P.multiply(rest, d))
            if self._search(needed, depth - 1, seen):
                return True
        return False

    def _facts_with(self, m: Any, positive: bool) -> list[Poly]:
        found = [p for p in self._fact_index.get(m, ()) if (p[m] > 0) == positive]
        if len(m) == 1:
            atom = self._atoms[m[0]]
            if atom.kind == DIV:
                n, d = atom.data
                product = P.multiply(d, {m: 1})
                if m in product:
                    over = P.add(n, product, -1)  # n - d * q >= 0 where d > 0
                    if self.poly_bound(d)[0] > 0:
                        found.append(P.shift(P.add(d, over, -1), -1) if positive else over)
        else:
            found += self._product_facts(m, positive)
        return [p for p in found if m in p and (p[m] > 0) == positive]

    def _product_facts(self, m: Any, positive: bool) -> list[Poly]:
        """A fact times a factor that is never negative is a fact."""
        found = []
        for i, a in enumerate(m):
            others = m[:i] + m[i + 1 :]
            if self._monomial_bound(others)[0] < 0:
                continue
            for fact in self._facts_with((a,), positive):
                if all(len(n) <= 1 for n in fact):
                    found.append(P.multiply(fact, {others: 1}))
        for q in m:
            atom = self._atoms[q]
            if atom.kind == DIV:
                n, d = atom.data
                product = P.multiply(d, {(q,): 1})
                if m in product and len(d) == 1 and self.nonneg(P.shift(d, -1), effort=1):
                    over = P.add(n, product, -1)
                    found.append(P.shift(P.add(d, over, -1), -1) if positive else over)
        return found

    def _factored(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """p = a * rest with a >= 0 and rest >= 0."""
        if ONE in p:
            return False
        common = set(next(iter(p)))
        for m in p:
            common &= set(m)
        for a in common:
            rest: Poly = {P.divides((a,), m) or ONE: f for m, f in p.items()}
            if self._search({(a,): 1}, depth - 1, seen) and self._search(rest, depth - 1, seen):
                return True
        return False

    def _split_extreme(self, p: Poly, depth: int, seen: set[Any]) -> bool:
        """A term with min(a, b) is one with a or one with b; prove what is needed of them."""
        for m, f in p.items():
            if len(m) != 1 or self._atoms[m[0]].kind not in (MIN, MAX):
                continue
            atom = self._atoms[m[0]]
            rest = {n: c for n, c in p.items() if n != m}
            sides = [P.add(rest, side, f) for side in atom.data]
            need_both = (atom.kind == MIN) == (f > 0)
            done = (self._search(side, depth - 1, set(seen)) for side in sides)
            if all(done) if need_both else any(done):
                return True
        return False
