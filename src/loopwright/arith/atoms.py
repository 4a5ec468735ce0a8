"""Atoms: the unknowns of the algebra, numbered in order of creation.

An atom is opaque to the algebra: a variable, a floor or truncated division (numerator and divisor
are polynomials), a minimum or maximum, an opaque expression, or a sum of data that may wrap
around. `a % b` has no atom: it is `a - b * (a // b)`, so `x // 8 * 8 + x % 8` is just `x`;
`division.paired` recovers remainders. So it is with truncated divisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.dtype import DataType
from ..ir.prim_expr import PrimExpr, Var
from . import poly as P
from .poly import Poly

VAR, DIV, TRUNC, MIN, MAX, OPAQUE, WRAPPED = range(7)
OF_PARTS = frozenset((DIV, TRUNC, MIN, MAX))  # whose data are the operands
INT32, INT64 = DataType("int32"), DataType("int64")


def is_index(dtype: str) -> bool:
    """Whether the algebra handles this type: int32 and int64. Indices are assumed not to overflow;
    data, which was read from memory, wraps around."""
    return dtype is INT32 or dtype is INT64


class Atom:
    """One unknown. `data` is (numerator, divisor) of a division, (a, b) of a min or max, (sum,) of
    what wraps around."""

    __slots__ = ("data", "dtype", "expr", "kind", "number")

    def __init__(self, number: int, kind: int, dtype: Any, expr: Any, data: Any) -> None:
        self.number = number
        self.kind = kind
        self.dtype = dtype
        self.expr = expr
        self.data = data


class Atoms:
    """All atoms of an analyzer, by number and by key."""

    __slots__ = ("all", "being_sought", "by_key", "divisions", "opposites", "read")

    def __init__(self) -> None:
        self.all: list[Atom] = []
        self.by_key: dict[Any, Atom] = {}
        self.divisions: set[int] = set()  # the atoms of kind DIV and TRUNC
        self.opposites: list[tuple[int, int]] = []  # (min, max) of the same two polynomials
        self.being_sought: set[int] = set()  # opaque atoms about which something is being sought
        self.read: set[int] = set()  # the atoms that depend on what was read from memory

    def poly(
        self,
        key: PrimExpr | Sequence[Any],
        kind: int,
        dtype: str,
        expr: Any,
        data: tuple[Any, ...] | None = None,
    ) -> Poly:
        """The polynomial of the atom with this key, which is created if new."""
        atom = self.by_key.get(key)
        if atom is None:
            atom = Atom(len(self.all), kind, dtype, expr, data)
            self.all.append(atom)
            self.by_key[key] = atom
            if kind in (DIV, TRUNC):
                self.divisions.add(atom.number)
            if self.read and data is not None and any(map(self.is_data, data)):
                self.read.add(atom.number)
        return {(atom.number,): 1}

    def is_data(self, p: Poly) -> bool:
        """Whether a polynomial depends on what was read from memory."""
        return not self.read.isdisjoint(a for m in p for a in m) if self.read else False

    def of_var(self, var: Var) -> int:
        """The number of a variable's atom."""
        ((number,),) = self.poly(var, VAR, var.dtype, var)
        return number

    def division(self, n: Poly, d: Poly, dtype: str, kind: int = DIV) -> Poly:
        """n // d as an atom, or the truncated division."""
        return self.poly((kind, P.key_of(n), P.key_of(d)), kind, dtype, None, (n, d))

    def extreme(self, kind: int, a: Poly, b: Poly, dtype: str) -> Poly:
        """min(a, b) or max(a, b) as an atom."""
        sides = frozenset((P.key_of(a), P.key_of(b)))
        new = (kind, sides) not in self.by_key
        atom = self.poly((kind, sides), kind, dtype, None, (a, b))
        opposite = self.by_key.get((MAX if kind == MIN else MIN, sides)) if new else None
        if opposite is not None:
            ((number,),) = atom
            pair = (number, opposite.number)
            self.opposites.append(pair if kind == MIN else (pair[1], pair[0]))
        return atom

    def joined(self, p: Poly) -> Poly:
        """p with min(a, b) + max(a, b) written as a + b."""
        for least, most in self.opposites:
            f, g = p.get((least,), 0), p.get((most,), 0)
            if f * g > 0:
                c = min(f, g, key=abs)
                both = P.add(*self.all[least].data)
                p = P.add(P.add(p, {(least,): 1, (most,): 1}, -c), both, c)
        return p
