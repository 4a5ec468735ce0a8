"""Refuting p >= 0 by example: values of the unknowns that satisfy all known facts.

A failing proof costs a hundred times as much as a successful one, because everything is tried.
Most unprovable claims are simply false, and then one of a few examples refutes them. No proof is
lost by trying examples first: a claim with a counterexample has no proof.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from .atoms import DIV, MAX, MIN, TRUNC, VAR, Atom, Atoms
from .poly import Poly

AtomBound = Callable[[Atom], tuple[float, float]]

# (sizes, position between the ends of a range, in 16ths): an unknown
# without a range takes one of the sizes above its least value, in turn.
_KINDS = (
    ((67, 93, 131, 49), (16, 16, 16)),
    ((67, 93, 131, 49), (0, 0, 0)),
    ((75, 101, 38, 59), (7, 11, 3)),
    ((1, 1, 1, 1), (0, 0, 0)),
    ((16, 32, 24, 8), (16, 0, 8)),
    ((16, 32, 24, 8), (0, 16, 0)),
    ((3, 2, 5, 4), (16, 8, 16)),
    ((0, 1, 0, 2), (0, 16, 0)),
)


class Example:
    """Values of atoms. `bad` is the index of the first claim violated, `checked` the number
    of claims known to be satisfied."""

    __slots__ = ("bad", "checked", "parts", "sizes", "values")

    def __init__(self, sizes: tuple[int, ...], parts: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.parts = parts
        self.values: dict[int, int] = {}
        self.bad = -1
        self.checked = 0


class Examples:
    """Finds counterexamples.

    A claim is a polynomial that the analyzer's user said is >= 0. A ranged variable takes
    its value from its range, a defined one from its definition, others from their bounds.
    """

    __slots__ = ("_atoms", "_busy", "_examples", "_kinds", "claims", "defined", "ranges")

    def __init__(self, atoms: Atoms) -> None:
        self._atoms = atoms
        self._busy = False
        self._kinds = _KINDS
        self.claims: list[Poly] = []
        self.ranges: dict[int, tuple[Poly, Poly]] = {}
        self.defined: dict[int, Poly] = {}
        self.renew()

    def renew(self) -> None:
        """Start with new examples: a fact about an unknown has been retracted."""
        self._examples = [Example(*kind) for kind in self._kinds]

    def give_up(self) -> None:
        """Disable refutation: examples ignore facts about remainders."""
        self._kinds = ()
        self.renew()

    def mention(self, number: int) -> bool:
        """Whether an example can assign a value to an atom."""
        return any(number in example.values for example in self._examples)

    def define(self, number: int, p: Poly) -> None:
        """Define an unknown as p."""
        if self.mention(number):
            self.renew()
        if not any(number in m for m in p):
            self.defined[number] = p

    def drop_claims(self, count: int) -> None:
        """Forget all but the first `count` claims."""
        del self.claims[count:]
        for example in self._examples:
            if example.checked > count:
                example.checked = count
            if example.bad >= count:
                example.bad = -1

    def refute(self, p: Poly, bound: AtomBound) -> bool:
        """Whether an example shows that p can be negative; `bound` returns an atom's bounds."""
        if self._busy:  # computing a bound may need proofs itself
            return False
        self._busy = True
        try:
            return self._refute(p, bound)
        finally:
            self._busy = False

    def _refute(self, p: Poly, bound: AtomBound) -> bool:
        claims = self.claims
        for example in self._examples:
            if example.bad >= 0:
                continue
            try:
                if self._value(p, example, bound) >= 0:
                    continue
                for k in range(example.checked, len(claims)):
                    if self._value(claims[k], example, bound) < 0:
                        example.bad = k
                        break
                    example.checked = k + 1
            except ZeroDivisionError:
                continue
            if example.bad < 0:
                return True
        return False

    def _value(self, p: Poly, example: Example, bound: AtomBound) -> int:
        values = example.values
        total = 0
        for m, f in p.items():
            for a in m:
                value = values.get(a)
                if value is None:
                    value = values[a] = self._pick(self._atoms.all[a], example, bound)
                f *= value
            total += f
        return total

    def _pick(self, atom: Atom, example: Example, bound: AtomBound) -> int:
        """The value of an atom; raises ZeroDivisionError if it has none."""
        if atom.kind == DIV:
            n, d = (self._value(part, example, bound) for part in atom.data)
            return n // d
        if atom.kind == TRUNC:
            n, d = (self._value(part, example, bound) for part in atom.data)
            size = abs(n) // abs(d)
            return size if (n < 0) == (d < 0) else -size
        if atom.kind == MIN or atom.kind == MAX:
            pair = (self._value(side, example, bound) for side in atom.data)
            return min(pair) if atom.kind == MIN else max(pair)
        number = atom.number
        if number in self.defined:
            return self._value(self.defined[number], example, bound)
        low, high = bound(atom)
        if number in self.ranges:
            first, last = (self._value(end, example, bound) for end in self.ranges[number])
            if last < first:
                raise ZeroDivisionError  # an empty range: nothing can be said
            low, high = max(low, first), min(high, last)
            part = example.parts[number % len(example.parts)]
            picked = int(low) + (int(high) - int(low)) * part // 16
        else:
            least = 0 if low == -inf and high >= 0 else low if low > -inf else high
            picked = int(least) + example.sizes[number % len(example.sizes)]
            if atom.kind != VAR and low < 0 and number % 2:
                picked = -picked
        return int(min(max(picked, low), high))
