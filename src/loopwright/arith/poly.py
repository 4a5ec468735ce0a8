"""Integer polynomials over atoms: the canonical form behind the simplifier.

A polynomial is a dict from monomial to coefficient; a monomial is a sorted tuple of atom numbers
(see `atoms`), the empty one standing for the constant term. Coefficients are Python integers and
never 0. A polynomial is never modified once built, so it can be shared and cached.
"""

from __future__ import annotations

Monomial = tuple[int, ...]
Poly = dict[Monomial, int]

ONE: Monomial = ()
ZERO: Poly = {}


def key_of(p: Poly) -> frozenset[tuple[Monomial, int]]:
    """A hashable value that is equal for equal polynomials."""
    return frozenset(p.items())


def constant(value: int) -> Poly:
    """A constant polynomial."""
    return {ONE: value} if value else ZERO


def constant_value(p: Poly) -> int | None:
    """The value of a constant `p`, else None."""
    if not p:
        return 0
    return p[ONE] if len(p) == 1 and ONE in p else None


def add(a: Poly, b: Poly, scale: int = 1) -> Poly:
    """a + scale * b"""
    if not b or not scale:
        return a
    out = dict(a)
    for m, c in b.items():
        value = out.get(m, 0) + scale * c
        if value:
            out[m] = value
        else:
            del out[m]
    return out


def shift(p: Poly, value: int) -> Poly:
    """p + value"""
    return add(p, {ONE: value}) if value else p


def scaled(p: Poly, factor: int) -> Poly:
    """p * factor"""
    if factor == 1:
        return p
    return {m: c * factor for m, c in p.items()} if factor else ZERO


def times(m: Monomial, n: Monomial) -> Monomial:
    """The product of two monomials."""
    if not m:
        return n
    return tuple(sorted(m + n)) if n else m


def multiply(a: Poly, b: Poly) -> Poly:
    """a * b"""
    out: Poly = {}
    for m, c in a.items():
        for n, d in b.items():
            mn = times(m, n)
            out[mn] = out.get(mn, 0) + c * d
    return {m: c for m, c in out.items() if c}


def divides(m: Monomial, n: Monomial) -> Monomial | None:
    """n / m, or None if m does not divide n."""
    if not m:
        return n
    rest = list(n)
    for a in m:
        if a not in rest:
            return None
        rest.remove(a)
    return tuple(rest)


def terms(p: Poly) -> int:
    """Number of terms apart from the constant."""
    return len(p) - (ONE in p)
