"""Facts: polynomials known to be >= 0, indexed by their terms."""

from __future__ import annotations

from collections.abc import Sequence

from .poly import ONE, Monomial, Poly


class Facts:
    """A stack of facts; leaving a scope drops the facts added in it."""

    __slots__ = ("_by_term", "_stack")

    def __init__(self) -> None:
        self._stack: list[Poly] = []
        self._by_term: dict[Monomial, list[Poly]] = {}

    def __len__(self) -> int:
        return len(self._stack)

    def add(self, p: Poly) -> None:
        """Record p >= 0."""
        self._stack.append(p)
        for m in p:
            if m != ONE:
                self._by_term.setdefault(m, []).append(p)

    def drop(self, count: int) -> None:
        """Forget all but the first `count`."""
        while len(self._stack) > count:
            p = self._stack.pop()
            for m in p:
                if m != ONE:
                    self._by_term[m].pop()

    def forget(self, number: int) -> None:
        """Forget the facts about one atom, which is rebound; they still count in `len`."""
        for i, p in enumerate(self._stack):
            if any(number in m for m in p):
                self._stack[i] = {}
                for m in p:
                    if m != ONE:
                        self._by_term[m] = [q for q in self._by_term[m] if q is not p]

    def with_term(self, m: Monomial) -> Sequence[Poly]:
        """The facts with a term in the monomial m."""
        return self._by_term.get(m, ())
