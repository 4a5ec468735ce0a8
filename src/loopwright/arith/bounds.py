"""Constant bounds and modular sets of polynomials."""

from __future__ import annotations

from math import gcd
from typing import Any

from ..ir import prim_expr as pe
from ..ir.op import Op
from ..ir.prim_expr import IntImm
from . import poly as P
from .forms import INT64, P_INF, Forms, is_index
from .poly import DIV, MAX, MIN, ONE, VAR, Atom, Poly

Bound = tuple[float, float]  # ints, or the infinities
EVERYTHING: Bound = (-P_INF, P_INF)


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def mul_bounds(a: Bound, b: Bound) -> Bound:
    """Bounds of a product."""
    if a[0] == a[1] and a[0] not in (P_INF, -P_INF):
        f = a[0]
        return (_times(f, b[0]), _times(f, b[1])) if f >= 0 else (_times(f, b[1]), _times(f, b[0]))
    corners = [_times(x, y) for x in a for y in b]
    return (min(corners), max(corners))


def _floor(a: float, b: float) -> float:
    """a // b for b > 0, with infinities."""
    if a in (P_INF, -P_INF):
        return a
    if b == P_INF:
        return 0 if a >= 0 else -1
    return a // b


def div_bounds(n: Bound, d: Bound) -> Bound:
    """Bounds of n // d."""
    # The divisor 0 never runs.
    if d[0] >= 0:
        corners = [_floor(x, y) for x in n for y in (max(d[0], 1), max(d[1], 1))]
        return (min(corners), max(corners))
    if d[1] <= 0:
        return div_bounds((-n[1], -n[0]), (-d[1], -d[0]))
    # |n // d| <= |n| for whole numbers.
    size = max(abs(n[0]), abs(n[1]))
    return (-size, size)


def dtype_bounds(dtype: Any) -> Bound:
    """The values of a type; int64 and wider count as unbounded."""
    if not dtype.is_integer or dtype is INT64 or dtype.bits >= 64 or dtype.lanes != 1:
        return (0, P_INF) if dtype.is_uint else EVERYTHING
    return (pe.int_min(dtype), pe.int_max(dtype))


class Bounds(Forms):
    """The part of the analyzer that knows how large values can be."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, Bound] = {}
        self._modular: dict[int, tuple[int, int]] = {}

    # ------------------------------------------------------------------ constant bounds

    def poly_bound(self, p: Poly) -> Bound:
        if not p:
            return (0, 0)
        if len(p) == 1:
            ((m, f),) = p.items()
            if m == ONE:
                return (f, f)
            if len(m) == 1:
                low, high = self._atom_bound(self._atoms[m[0]])
                return (f * low, f * high) if f > 0 else (f * high, f * low)
        key = P.key_of(p)
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = self._sum_bound(p)
        return found

    def _sum_bound(self, p: Poly) -> Bound:
        pairing = self.paired(p)
        low: float = 0
        high: float = 0
        for m, f in pairing.rest.items():
            a, b = mul_bounds((f, f), self._monomial_bound(m))
            low, high = low + a, high + b
        for scale, factor, value, divisor in pairing.mods:
            b = mul_bounds(self._monomial_bound(factor), self._mod_bound(value, divisor))
            a, b = mul_bounds((scale, scale), b)
            low, high = low + a, high + b
        for m, f in p.items():
            if len(m) == 1 and self._atoms[m[0]].kind in (MIN, MAX) and P.terms(p) > 1:
                side_low, side_high = self._cases(p, m, f)
                low, high = max(low, side_low), min(high, side_high)
        return (low, high)

    def _cases(self, p: Poly, m: Any, f: int) -> Bound:
        """Bounds of p = f * min(a, b) + rest from those of f * a + rest and f * b + rest."""
        atom = self._atoms[m[0]]
        rest = {n: c for n, c in p.items() if n != m}
        (a0, a1), (b0, b1) = (self.poly_bound(P.add(rest, side, f)) for side in atom.data)
        if (atom.kind == MIN) == (f > 0):
            return (min(a0, b0), min(a1, b1))
        return (max(a0, b0), max(a1, b1))

    def _monomial_bound(self, m: Any) -> Bound:
        found = self._products.get(m)
        if found is None:
            found = self._products[m] = self._product_bound(m)
        return found

    def _product_bound(self, m: Any) -> Bound:
        if len(m) == 1:
            return self._atom_bound(self._atoms[m[0]])
        total: Bound = (1, 1)
        i = 0
        while i < len(m):
            power = m.count(m[i])
            low, high = self._atom_bound(self._atoms[m[i]])
            for _ in range(power):
                total = mul_bounds(total, (low, high))
            if power == len(m) and power % 2 == 0:
                total = (max(total[0], 0), total[1])
            i += power
        return total

    def _mod_bound(self, value: Poly, divisor: Poly) -> Bound:
        d0, d1 = self.poly_bound(divisor)
        low, high = self.poly_bound(value)
        if d0 == d1 and d0 > 0:
            d = int(d0)
            if low > -P_INF and high < P_INF and low // d == high // d:
                return (low % d, high % d)
            c, b = self.modular(value)
            g = gcd(c, d)
            return (b % g, d - g + b % g)
        if d0 >= 1:
            return (0, min(d1 - 1, high) if low >= 0 else d1 - 1)
        return (min(d0 + 1, 0), max(d1 - 1, 0))

    def _atom_bound(self, atom: Atom) -> Bound:
        if atom.kind == VAR:
            natural = (0, P_INF) if type(atom.expr) is pe.SizeVar else dtype_bounds(atom.dtype)
        else:
            natural = self._natural_bound(atom)
        known = self._known.get(atom.number)
        if known is None:
            return natural
        low, high = max(known[0], natural[0]), min(known[1], natural[1])
        # Constraints that contradict each other: nothing runs here, and nothing is concluded.
        return (low, high) if low <= high else natural

    def _natural_bound(self, atom: Atom) -> Bound:
        if atom.kind == DIV:
            return div_bounds(self.poly_bound(atom.data[0]), self.poly_bound(atom.data[1]))
        if atom.kind in (MIN, MAX):
            (a0, a1), (b0, b1) = map(self.poly_bound, atom.data)
            pick = min if atom.kind == MIN else max
            return (pick(a0, b0), pick(a1, b1))
        return self.expr_bound(atom.expr)

    def expr_bound(self, e: Any) -> Bound:
        """Bounds of an expression that the algebra does not look into."""
        natural = dtype_bounds(e.dtype)
        if type(e) is pe.Cast:
            if not e.value.dtype.is_integer:
                return natural
            low, high = self.any_bound(e.value)
            if high == P_INF and e.value.dtype.is_uint:
                return natural  # the upper half of uint64 becomes negative
            return (low, high) if natural[0] <= low and high <= natural[1] else natural
        if type(e) is pe.Select:
            return self._union(e.true_value, e.false_value)
        if type(e) is pe.Mul:
            if e.dtype.lanes == 1 and e.dtype.is_int:
                low, high = mul_bounds(self.any_bound(e.a), self.any_bound(e.b))
                fits = natural[0] <= low and high <= natural[1]
                if not fits and is_index(e.dtype):
                    return (max(natural[0], low), min(natural[1], high))
                return (low, high) if fits else natural  # a narrow product wraps around
        elif type(e) is pe.FloorMod:
            low, high = self.any_bound(e.b)
            if low >= 1:
                return (0, high - 1)
        elif type(e) is pe.Let:
            return natural
        elif type(e) is pe.Call and isinstance(e.op, Op):
            return self._call_bound(e, natural)
        return natural

    def _call_bound(self, e: Any, natural: Bound) -> Bound:
        name = e.op.name
        if name == "tir.if_then_else":
            return self._union(e.args[1], e.args[2])
        if name == "tir.bitwise_and":
            limits = [high for low, high in map(self.any_bound, e.args) if low >= 0]
            if limits:
                return (0, min(limits))
        if name == "tir.shift_right":
            (low, high), by = self.any_bound(e.args[0]), e.args[1]
            if isinstance(by, IntImm) and 0 <= by.value < 64:
                return (_floor(low, 1 << by.value), _floor(high, 1 << by.value))
        if name in ("tir.clz", "tir.popcount"):
            return (0, e.args[0].dtype.bits)
        return natural

    def _union(self, a: Any, b: Any) -> Bound:
        (a0, a1), (b0, b1) = self.any_bound(a), self.any_bound(b)
        return (min(a0, b0), max(a1, b1))

    def any_bound(self, e: Any) -> Bound:
        """Bounds of an integer expression of any type."""
        if e.dtype.lanes != 1:
            return EVERYTHING
        if type(e) is IntImm:
            return (e.value, e.value)
        return self.poly_bound(self.poly(e)) if e.dtype.is_integer else EVERYTHING

    # ------------------------------------------------------------------ modular sets

    def modular(self, p: Poly) -> tuple[int, int]:
        """(c, b): every value of p is c * k + b; c is 0 for a constant."""
        coeff, base = 0, 0
        for m, f in p.items():
            c, b = 0, 1
            for a in m:
                ac, ab = self._atom_modular(self._atoms[a])
                # (c x + b)(ac y + ab) = multiples of c*ac, c*ab, b*ac plus b*ab
                c, b = gcd(c * ac, gcd(c * ab, b * ac)), b * ab
            coeff, base = gcd(coeff, c * f), base + b * f
        return (coeff, base % coeff if coeff else base)

    def _atom_modular(self, atom: Atom) -> tuple[int, int]:
        known = self._modular.get(atom.number)
        if known is not None:
            return known
        if atom.kind == DIV:
            d = P.constant_value(atom.data[1])
            c, b = self.modular(atom.data[0])
            if d is not None and d > 0 and c % d == 0 and c:
                return (c // d, b // d)
        elif atom.kind in (MIN, MAX):
            (c, b), (e, f) = map(self.modular, atom.data)
            g = gcd(gcd(c, e), b - f)
            return (g, b % g) if g else (0, b)
        return (1, 0)
