"""Expressions to polynomials and back."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any, ClassVar

from ..ir import prim_expr as pe
from ..ir.dtype import DataType
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import IntImm, PrimExpr, Var
from . import poly as P
from .poly import DIV, MAX, MIN, ONE, OPAQUE, VAR, Atom, Poly

INT32, INT64 = DataType("int32"), DataType("int64")
INDEX_TYPES = (INT32, INT64)
# The longest product of sums that is multiplied out.
_EXPAND = 8


def is_index(dtype: Any) -> bool:
    """Whether the algebra speaks of this type: int32 and int64, which do not overflow."""
    return dtype is INT32 or dtype is INT64


class Pairing:
    """A polynomial with its remainders found: rest + sum of scale * factor * (value % divisor)."""

    __slots__ = ("mods", "rest")

    def __init__(self, rest: Poly, mods: list[tuple[int, tuple[int, ...], Poly, Poly]]) -> None:
        self.rest = rest
        self.mods = mods


class Forms:
    """The part of the analyzer that knows atoms and polynomials. See `poly`."""

    _to_poly: ClassVar[dict[type, Callable[..., Any]]] = {}

    def __init__(self) -> None:
        self._atoms: list[Atom] = []
        self._by_key: dict[Any, Atom] = {}
        self._by_var: dict[Var, Poly] = {}
        self._keys: dict[int, tuple[Any, Any]] = {}
        self._costs: dict[int, tuple[Any, int]] = {}
        self._constants: dict[tuple[Any, int], IntImm] = {}
        self._opposites: list[tuple[int, int]] = []  # (min, max) of the same two
        self._new_caches()

    def _new_caches(self) -> None:
        """Caches of what depends on the known bounds and constraints."""
        self._polys: dict[int, tuple[Any, Poly]] = {}
        self._simple: dict[int, tuple[Any, Any]] = {}
        self._bounds: dict[Any, tuple[float, float]] = {}
        self._proofs: dict[Any, bool] = {}
        self._risks: dict[int, tuple[Any, int]] = {}
        self._pairings: dict[Any, Pairing] = {}
        self._products: dict[Any, tuple[float, float]] = {}

    def _caches(self) -> tuple[Any, ...]:
        return (
            self._polys,
            self._simple,
            self._bounds,
            self._proofs,
            self._risks,
            self._pairings,
            self._products,
        )

    def _use_caches(self, caches: tuple[Any, ...]) -> None:
        """Go back to what `_caches` gave."""
        (
            self._polys,
            self._simple,
            self._bounds,
            self._proofs,
            self._risks,
            self._pairings,
            self._products,
        ) = caches

    # ------------------------------------------------------------------ atoms

    def _atom(self, key: Any, kind: int, dtype: Any, expr: Any, data: Any = None) -> Poly:
        found = self._by_key.get(key)
        if found is None:
            found = Atom(len(self._atoms), kind, dtype, expr, data)
            self._atoms.append(found)
            self._by_key[key] = found
        return {(found.number,): 1}

    def _var(self, var: Var) -> Poly:
        found = self._by_var.get(var)
        if found is None:
            found = self._atom(var, VAR, var.dtype, var)
            self._by_var[var] = found
        return found

    def _opaque(self, expr: PrimExpr) -> Poly:
        made = self._rebuilt(expr)
        if type(made) is not type(expr) and made.dtype is expr.dtype:
            return self.poly(made)  # it has become something else
        return self._atom(self.key(made), OPAQUE, made.dtype, made)

    def _rebuilt(self, expr: PrimExpr) -> PrimExpr:
        """`expr` with its operands simplified."""
        raise NotImplementedError

    def key(self, expr: Any) -> Any:
        """A hashable value, equal only for expressions that always have equal values."""
        if isinstance(expr, Node):
            found = self._keys.get(id(expr))
            if found is None:
                found = (expr, self._key(expr))
                self._keys[id(expr)] = found
            return found[1]
        if isinstance(expr, (tuple, list)):
            return tuple(self.key(item) for item in expr)
        if isinstance(expr, dict):
            return tuple((k, self.key(v)) for k, v in expr.items())
        return expr

    def _key(self, expr: Any) -> Any:
        kind = type(expr)
        if getattr(expr, "bound_by_identity", False):
            return ("id", expr)
        if kind is IntImm or kind is pe.FloatImm:
            return (kind, expr.dtype, expr.value, str(expr.value))
        if kind is pe.Call and not _repeatable(expr):
            return ("id", expr)
        if kind is pe.Let or not isinstance(expr, (PrimExpr, pe.Range)):
            return ("id", expr)
        if isinstance(expr, PrimExpr) and any(f.role == "def" for f in expr.__fields__):
            return ("id", expr)
        return (kind, *(self.key(getattr(expr, f.name)) for f in expr.__fields__))

    # ------------------------------------------------------------------ expression -> polynomial

    def poly(self, expr: Any) -> Poly:
        """The canonical form of an integer scalar."""
        kind = type(expr)
        if kind is IntImm:
            return P.constant(expr.value)
        if kind is int:
            return P.constant(expr)
        if kind is Var or kind is pe.SizeVar:
            return self._var(expr)
        found = self._polys.get(id(expr))
        if found is not None:
            return found[1]
        handler = self._to_poly.get(kind) if is_index(expr.dtype) else None
        made = None
        if handler is not None:
            made = handler(self, expr)
        if made is None:
            made = self._opaque(expr)
        self._polys[id(expr)] = (expr, made)
        return made

    def _poly_sum(self, e: Any) -> Poly:
        """Of a + and - chain, down its left side without recursion."""
        parts = []
        while type(e) is pe.Add or type(e) is pe.Sub:
            parts.append((e.b, 1 if type(e) is pe.Add else -1))
            e = e.a
        total = dict(self.poly(e))
        for part, sign in reversed(parts):
            for m, c in self.poly(part).items():
                value = total.get(m, 0) + sign * c
                if value:
                    total[m] = value
                else:
                    del total[m]
        return self._joined(total) if self._opposites else total

    def _joined(self, p: Poly) -> Poly:
        """p with min(a, b) + max(a, b) written as a + b."""
        for least, most in self._opposites:
            f, g = p.get((least,), 0), p.get((most,), 0)
            if f * g > 0:
                c = min(f, g, key=abs)
                both = P.add(*self._atoms[least].data)
                p = P.add(P.add(p, {(least,): 1, (most,): 1}, -c), both, c)
        return p

    def _poly_mul(self, e: Any) -> Poly | None:
        a, b = self.poly(e.a), self.poly(e.b)
        if P.terms(a) == 0 or P.terms(b) == 0 or len(a) * len(b) <= _EXPAND:
            return P.multiply(a, b)
        return None

    def _poly_floordiv(self, e: Any) -> Poly | None:
        return self.poly_div(self.poly(e.a), self.poly(e.b), e.dtype)

    def _poly_floormod(self, e: Any) -> Poly | None:
        a, b = self.poly(e.a), self.poly(e.b)
        quotient = self.poly_div(a, b, e.dtype)
        if quotient is None or len(b) * len(quotient) > _EXPAND:
            return None
        return P.add(a, P.multiply(b, quotient), -1)

    def _poly_div(self, e: Any) -> Poly | None:
        return self._poly_floordiv(e) if self._truncates_down(e) else None

    def _poly_mod(self, e: Any) -> Poly | None:
        return self._poly_floormod(e) if self._truncates_down(e) else None

    def _truncates_down(self, e: Any) -> bool:
        """Whether a truncated division is the same as a floor division: of equal signs, or exact."""
        a, b = self.poly(e.a), self.poly(e.b)
        if self.poly_bound(a)[0] >= 0 and self.poly_bound(b)[0] > 0:
            return True
        c = P.constant_value(b)
        return bool(c) and all(f % c == 0 for f in a.values())

    def _poly_cast(self, e: Any) -> Poly | None:
        source = e.value.dtype
        if is_index(source):
            if e.dtype.bits >= source.bits:
                return self.poly(e.value)
            low, high = self.poly_bound(self.poly(e.value))
            fits = pe.int_min(e.dtype) <= low and high <= pe.int_max(e.dtype)
            return self.poly(e.value) if fits else None
        return None

    def _poly_min(self, e: Any) -> Poly:
        return self.poly_extreme(MIN, self.poly(e.a), self.poly(e.b), e.dtype)

    def _poly_max(self, e: Any) -> Poly:
        return self.poly_extreme(MAX, self.poly(e.a), self.poly(e.b), e.dtype)

    def poly_extreme(self, kind: int, a: Poly, b: Poly, dtype: Any) -> Poly:
        """min(a, b) or max(a, b)."""
        diff = P.add(a, b, -1)
        if self.nonneg(diff, effort=1):
            return b if kind == MIN else a
        if self.nonneg(P.scaled(diff, -1), effort=1):
            return a if kind == MIN else b
        for whole, part in ((a, b), (b, a)):
            other = self._absorbed(kind, whole, part)
            if other is not None:
                return self.poly_extreme(kind, other, part, dtype)
        common = {m: c for m, c in a.items() if b.get(m) == c}
        if common:
            a, b = P.add(a, common, -1), P.add(b, common, -1)
        g = gcd(*a.values(), *b.values())
        if g > 1:
            a, b = ({m: f // g for m, f in side.items()} for side in (a, b))
            made = P.scaled(self.poly_extreme(kind, a, b, dtype), g)
            return P.add(common, made) if common else made
        sides = frozenset((P.key_of(a), P.key_of(b)))
        new = (kind, sides) not in self._by_key
        atom = self._atom((kind, sides), kind, dtype, None, (a, b))
        opposite = self._by_key.get((MAX if kind == MIN else MIN, sides)) if new else None
        if opposite is not None:
            ((number,),) = atom
            pair = (number, opposite.number)
            self._opposites.append(pair if kind == MIN else (pair[1], pair[0]))
        return P.add(common, atom) if common else atom

    def _absorbed(self, kind: int, a: Poly, b: Poly) -> Poly | None:
        """x, where a is max(x, y) and y <= b: then max(a, b) is max(x, b). The same for min."""
        if len(a) != 1:
            return None
        ((m, f),) = a.items()
        if f != 1 or len(m) != 1 or self._atoms[m[0]].kind != kind:
            return None
        sides = self._atoms[m[0]].data
        for x, y in (sides, sides[::-1]):
            diff = P.add(b, y, -1) if kind == MAX else P.add(y, b, -1)
            if self.nonneg(diff, effort=1):
                return x
        return None

    # ------------------------------------------------------------------ floor division

    def poly_div(self, n: Poly, d: Poly, dtype: Any) -> Poly | None:
        """floor(n / d), or None for a division by 0."""
        c = P.constant_value(d)
        if c is None:
            return self._div_symbolic(n, d, dtype)
        if c == 0:
            return None
        if c < 0:
            n, c = P.scaled(n, -1), -c
        return self._div_const(n, c, dtype)

    def _div_const(self, n: Poly, c: int, dtype: Any) -> Poly:
        if c == 1:
            return n
        low, high = self.poly_bound(n)
        if low > -P_INF and high < P_INF and low // c == high // c:
            return P.constant(int(low // c))
        whole: Poly = {}
        rest: Poly = {}
        for m, f in n.items():
            if f % c == 0:
                whole[m] = f // c
            elif m == ONE:
                if f // c:
                    whole[m] = f // c
                rest[m] = f % c
            else:
                rest[m] = f
        if not rest:
            return whole
        if any(self._atoms[a].kind == DIV for m in whole for a in m):
            # A remainder was torn apart: keep it whole, unless it is all there is.
            kept = self._keep_remainders(n, c, dtype)
            if kept is not None:
                return kept
        return (
            P.add(whole, self._div_rest(rest, c, dtype))
            if whole
            else self._div_rest(rest, c, dtype)
        )

    def _keep_remainders(self, n: Poly, c: int, dtype: Any) -> Poly | None:
        pairing = self.paired(n)
        torn = [m for m in pairing.mods if m[0] % c]
        if not torn:
            return None
        rest_terms = [m for m, f in pairing.rest.items() if f % c]
        if len(torn) == 1 and not rest_terms:
            scale, factor, value, divisor = torn[0]
            period = P.constant_value(divisor)
            if scale == 1 and not factor and period is not None and period % c == 0:
                return None  # (x % 32) // 8 is x // 8 - 4 * (x // 32): the parts combine
        whole: Poly = {}
        rest: Poly = {}
        for m, f in pairing.rest.items():
            if f % c == 0:
                whole[m] = f // c
            elif m == ONE:
                whole = P.shift(whole, f // c)
                rest[m] = f % c
            else:
                rest[m] = f
        for scale, factor, value, divisor in pairing.mods:
            unit = P.multiply({factor: scale}, self._remainder(value, divisor, dtype))
            if scale % c == 0:
                whole = P.add(whole, {m: f // c for m, f in unit.items()})
            else:
                rest = P.add(rest, unit)
        return P.add(whole, self._div_rest(rest, c, dtype))

    def _remainder(self, value: Poly, divisor: Poly, dtype: Any) -> Poly:
        quotient = self.poly_div(value, divisor, dtype)
        assert quotient is not None
        return P.add(value, P.multiply(divisor, quotient), -1)

    def _div_rest(self, rest: Poly, c: int, dtype: Any) -> Poly:
        """floor(rest / c) where no whole multiple of c can be taken out."""
        low, high = self.poly_bound(rest)
        if low > -P_INF and high < P_INF and low // c == high // c:
            return P.constant(int(low // c))
        for g in sorted({gcd(c, f) for m, f in rest.items() if m} - {1}, reverse=True):
            main = {m: f // g for m, f in rest.items() if f % g == 0 and m}
            small = {m: f for m, f in rest.items() if f % g or not m}
            low, high = self.poly_bound(small)
            if low > -P_INF and high < P_INF and low // g == high // g:
                return self._div_const(P.shift(main, int(low // g)), c // g, dtype)
        if P.terms(rest) == 1:
            nested = self._div_nested(rest, c, dtype)
            if nested is not None:
                return nested
        return self._div_atom(rest, P.constant(c), dtype)

    def _div_nested(self, rest: Poly, c: int, dtype: Any) -> Poly | None:
        """(x // a + k) // c is (x + k * a) // (a * c)."""
        for m, f in rest.items():
            if f != 1 or len(m) != 1:
                continue
            inner = self._atoms[m[0]]
            if inner.kind == DIV:
                a = P.constant_value(inner.data[1])
                if a is not None:
                    n = P.shift(inner.data[0], rest.get(ONE, 0) * a)
                    return self._div_const(n, a * c, dtype)
        return None

    def _div_symbolic(self, n: Poly, d: Poly, dtype: Any) -> Poly:
        if not n:
            return P.ZERO
        whole: Poly = {}
        rest = n
        if len(d) == 1:
            ((dm, dc),) = d.items()
            for m, f in n.items():
                quotient = P.divides(dm, m) if f % dc == 0 else None
                if quotient is not None:
                    whole[quotient] = f // dc
            rest = P.add(n, P.multiply(whole, d), -1)
        else:
            lead, coefficient = _lead(d)
            for m, f in n.items():
                quotient = P.divides(lead, m) if f % coefficient == 0 else None
                if quotient is not None:
                    left = P.add(n, P.multiply({quotient: f // coefficient}, d), -1)
                    if len(left) < len(n):
                        whole, rest = {quotient: f // coefficient}, left
                        break
        if not rest:
            return whole
        if self.nonneg(rest) and self.nonneg(P.shift(P.add(d, rest, -1), -1)):
            return whole
        if len(d) == 1 and dc > 1:  # x // (12 * m) is x // m // 12: one form for both
            inner = self._div_symbolic(rest, {dm: 1}, dtype)
            return P.add(whole, self._div_const(inner, dc, dtype))
        if len(d) == 1 and dc == 1 and len(dm) > 1:  # so is x // (m * n) for a positive n
            *first, last = dm
            if self.poly_bound({(last,): 1})[0] > 0:
                inner = self._div_symbolic(rest, {tuple(first): 1}, dtype)
                return P.add(whole, self._div_symbolic(inner, {(last,): 1}, dtype))
        swapped = self._in_order(rest, d, dtype)
        return P.add(whole, self._div_atom(rest, d, dtype) if swapped is None else swapped)

    def _in_order(self, n: Poly, d: Poly, dtype: Any) -> Poly | None:
        """x // 12 // m as x // m // 12, and x // n // m as x // m // n where m comes first; only
        for positive divisors."""
        inner = self._single_quotient(n)
        if inner is None or len(d) != 1 or self.poly_bound(d)[0] <= 0:
            return None
        x, other = inner
        c = P.constant_value(other)
        if c is None and (len(other) != 1 or next(iter(other)) <= next(iter(d))):
            return None
        if self.poly_bound(other)[0] <= 0:
            return None
        first = self._div_symbolic(x, d, dtype)
        return self.poly_div(first, other, dtype)

    def _single_quotient(self, n: Poly) -> tuple[Poly, Poly] | None:
        """(x, d) where n is x // d and nothing else."""
        if len(n) != 1:
            return None
        ((m, f),) = n.items()
        if f != 1 or len(m) != 1 or self._atoms[m[0]].kind != DIV:
            return None
        return self._atoms[m[0]].data

    def _div_atom(self, n: Poly, d: Poly, dtype: Any) -> Poly:
        return self._atom((DIV, P.key_of(n), P.key_of(d)), DIV, dtype, None, (n, d))

    # ------------------------------------------------------------------ remainders

    def has_division(self, p: Poly) -> bool:
        """Whether some term of p is a multiple of a floor division."""
        atoms = self._atoms
        return any(atoms[a].kind == DIV for m in p for a in m)

    def paired(self, p: Poly) -> Pairing:
        """p with terms like x - 8 * (x // 8) written as remainders."""
        mods: list[Any] = []
        if not self.has_division(p):
            return Pairing(p, mods)
        key = tuple(p.items())
        found = self._pairings.get(key)
        if found is None:
            found = self._pairings[key] = self._paired(p, mods)
        return found

    def _paired(self, p: Poly, mods: list[Any]) -> Pairing:
        places = {m: i for i, m in enumerate(p)}
        found_at: list[int] = []
        again = True
        while again:
            again = False
            divided = [m for m in p if any(self._atoms[a].kind == DIV for a in m)]
            if len(divided) > 1:  # the longest numerators first: they hold the others' remainders
                divided.sort(key=self._numerator_size, reverse=True)
            for m in divided:
                found = self._find_remainder(p, m)
                if found is not None:
                    p, mod = found
                    mods.append(mod)
                    found_at.append(places.get(m, len(places)))
                    again = True
                    break
        order = sorted(range(len(mods)), key=found_at.__getitem__)
        return Pairing(p, [mods[i] for i in order])

    def _numerator_size(self, m: Any) -> int:
        atoms = self._atoms
        return max((len(atoms[a].data[0]) for a in m if atoms[a].kind == DIV), default=0)

    def _find_remainder(self, p: Poly, m: Any) -> Any:
        f = p[m]
        for q in m:
            atom = self._atoms[q]
            if atom.kind != DIV:
                continue
            without = P.divides((q,), m)
            if without is None:
                continue
            for n, d in self._quotients_of(atom):
                lead, lead_coef = _lead(d)
                factor = P.divides(lead, without)
                if factor is None:
                    continue
                c = P.constant_value(d)
                steps = [1] if c is None else self._inner_divisors(p, n, c)
                for step in steps:
                    divisor = d if c is None else P.constant(c // step)
                    size = lead_coef if c is None else c // step
                    if f % size:
                        continue
                    scale = -f // size
                    value = n if step == 1 else self._div_const(n, step, atom.dtype)
                    left = P.add(p, P.multiply({factor: scale}, value), -1)
                    left = P.add(left, P.multiply({times_atom(factor, q): scale}, divisor))
                    if self._worth(p, left, value, factor, scale):
                        return left, (scale, factor, value, divisor)
        return None

    def _quotients_of(self, atom: Any) -> list[tuple[Poly, Poly]]:
        """(n, d) for which an atom is n // d: itself; for x // m // 12 also x // (12 * m); for
        x // m // n also x // n // m."""
        n, d = atom.data
        inner = self._single_quotient(n)
        if inner is None:
            return [(n, d)]
        x, other = inner
        made = [(n, d), (x, P.multiply(other, d))]
        if P.constant_value(d) is None and self.poly_bound(d)[0] > 0 < self.poly_bound(other)[0]:
            made.append((self._div_atom(x, d, atom.dtype), other))
        return made

    def _inner_divisors(self, p: Poly, n: Poly, c: int) -> list[int]:
        """Numbers s below c for which n // s occurs in p: then n // s % (c // s) may."""
        steps = [1]
        for m in p:
            for a in m:
                atom = self._atoms[a]
                if atom.kind == DIV:
                    s = P.constant_value(atom.data[1])
                    if s is not None and 1 < s < c and c % s == 0 and s not in steps:
                        steps.append(s)
        return sorted(steps, reverse=True)

    def _worth(self, p: Poly, left: Poly, value: Poly, factor: Any, scale: int) -> bool:
        if P.terms(left) + 1 > P.terms(p):
            return False
        for m, f in value.items():
            mono = P.times(m, factor)
            if m and abs(left.get(mono, 0)) > abs(p.get(mono, 0)):
                return False
            if m and mono in p and (p[mono] > 0) != (scale * f > 0):
                return False
        return True

    # ------------------------------------------------------------------ polynomial -> expression

    def build(self, p: Poly, dtype: Any) -> PrimExpr:
        """The expression of a polynomial. Raises ValueError when a literal does not fit."""
        pairing = self.paired(p)
        plus: list[PrimExpr] = []
        minus: list[PrimExpr] = []
        for m, f in pairing.rest.items():
            if m:
                self._term(plus, minus, f, self._product(m, dtype), dtype)
        for scale, factor, value, divisor in pairing.mods:
            mod = pe.FloorMod._make(self.build(value, dtype), self.build(divisor, dtype))
            if factor:
                mod = pe.Mul._make(self._product(factor, dtype), mod)
            self._term(plus, minus, scale, mod, dtype)
        offset = pairing.rest.get(ONE, 0)
        if not plus:
            total: PrimExpr = self.number(offset, dtype)
            if not minus:
                return total
            if offset == 0 and not plus:
                # -x - y: TVM's spelling of a negation is x * -1
                first = minus.pop(0)
                total = self._negated(first, dtype)
        else:
            total = plus[0]
            for item in plus[1:]:
                total = pe.Add._make(total, item)
        for item in minus:
            total = pe.Sub._make(total, item)
        if plus and offset:
            kind = pe.Add if offset > 0 else pe.Sub
            total = kind._make(total, self.number(abs(offset), dtype))
        return total

    def _negated(self, item: PrimExpr, dtype: Any) -> PrimExpr:
        if type(item) is pe.Mul and type(item.b) is IntImm:
            return pe.Mul._make(item.a, self.number(-item.b.value, dtype))
        return pe.Mul._make(item, self.number(-1, dtype))

    def number(self, value: int, dtype: Any) -> IntImm:
        """A literal; one object for each value."""
        found = self._constants.get((dtype, value))
        if found is None:
            found = IntImm(dtype, int(value))
            self._constants[dtype, value] = found
        return found

    def _term(self, plus: list[Any], minus: list[Any], f: int, item: Any, dtype: Any) -> None:
        size = abs(f)
        if size != 1:
            item = pe.Mul._make(item, self.number(size, dtype))
        (plus if f > 0 else minus).append(item)

    def _product(self, m: Any, dtype: Any) -> PrimExpr:
        made = self.atom_expr(self._atoms[m[0]], dtype)
        for a in m[1:]:
            made = pe.Mul._make(made, self.atom_expr(self._atoms[a], dtype))
        return made

    def atom_expr(self, atom: Atom, dtype: Any) -> PrimExpr:
        """The expression of an atom, cast to `dtype` where it is of another type."""
        if atom.expr is None:
            a, b = (self.build(part, atom.dtype) for part in atom.data)
            kind = {DIV: pe.FloorDiv, MIN: pe.Min, MAX: pe.Max}[atom.kind]
            atom.expr = kind._make(a, b)
        expr = atom.expr
        return expr if expr.dtype is dtype else pe.Cast._make(dtype, expr)

    # ------------------------------------------------------------------ cost

    def cost(self, expr: Any) -> int:
        """How much an expression takes to compute; what decides between equal forms.

        Of forms with the same operations the one with fewer variables is the cheaper (n * 2, not
        n + n), then the one that has its literals on the right."""
        kind = type(expr)
        leaf = _LEAF.get(kind)
        if leaf is not None:
            return leaf
        found = self._costs.get(id(expr))
        if found is None:
            if kind in _CHAIN:
                total, node = 0, expr
                while type(node) in _CHAIN and id(node) not in self._costs:
                    total += 2 * _STEP + self.cost(node.b) + (kind is not pe.Sub and _untidy(node))
                    node = node.a
                    kind = type(node)
                total += self.cost(node)
            elif isinstance(expr, pe.BinaryOpExpr):
                total = _COST.get(kind, 2 * _STEP) + self.cost(expr.a) + self.cost(expr.b)
                if kind is pe.Mul and type(expr.a) is IntImm:
                    total += 1
            else:
                total = _COST.get(kind, 2 * _STEP) + sum(map(self.cost, expr.children()))
            found = (expr, total)
            self._costs[id(expr)] = found
        return found[1]

    # Filled by the other parts of the analyzer.

    def poly_bound(self, p: Poly) -> tuple[float, float]:
        """Least and greatest value of p."""
        raise NotImplementedError

    def nonneg(self, p: Poly, effort: int = 3) -> bool:
        """Whether p is proven to be >= 0."""
        raise NotImplementedError


def times_atom(m: Any, a: int) -> Any:
    """The monomial m times one atom."""
    return P.times(m, (a,))


def _lead(d: Poly) -> tuple[Any, int]:
    """The first term of a divisor that is no number, if it has one."""
    return next(((m, f) for m, f in d.items() if m), None) or (ONE, d[ONE])


def _untidy(e: Any) -> int:
    """1 for a sum with a literal on the left, or that adds a negative multiple."""
    if type(e.a) is IntImm:
        return 1
    factor = e.b.b if type(e.b) is pe.Mul else e.b
    return int(type(factor) is IntImm and factor.value < 0)


def _repeatable(call: Any) -> bool:
    """Whether a second evaluation gives the same value."""
    return isinstance(call.op, Op) and call.op.get_attr("effect", "opaque") in ("pure", "read")


P_INF = float("inf")
_CHAIN = frozenset((pe.Add, pe.Sub))
_STEP = 16  # the cost of half an addition, in units of a variable
_LEAF = {Var: 1, pe.SizeVar: 1, IntImm: 0, pe.FloatImm: 0, pe.StringImm: 0}
_COST = dict.fromkeys((pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod), 5 * _STEP)
_COST |= {pe.Cast: _STEP, pe.Broadcast: _STEP}
Forms._to_poly = {
    pe.Add: Forms._poly_sum,
    pe.Sub: Forms._poly_sum,
    pe.Mul: Forms._poly_mul,
    pe.FloorDiv: Forms._poly_floordiv,
    pe.FloorMod: Forms._poly_floormod,
    pe.Div: Forms._poly_div,
    pe.Mod: Forms._poly_mod,
    pe.Cast: Forms._poly_cast,
    pe.Min: Forms._poly_min,
    pe.Max: Forms._poly_max,
}
