"""Floor division of polynomials, and recovery of remainders."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from math import gcd, inf
from typing import Any

from . import poly as P
from .atoms import DIV, TRUNC
from .bounds import poly_bound
from .context import Context, Pairing
from .poly import ONE, Monomial, Poly
from .proof import nonneg, quotients_of, single_quotient

# ------------------------------------------------------------------ floor division


def poly_div(ctx: Context, n: Poly, d: Poly, dtype: str) -> Poly | None:
    """floor(n / d), or None for a division by 0."""
    c = P.constant_value(d)
    if c is None:
        return _div_symbolic(ctx, n, d, dtype)
    if c == 0:
        return None
    if c < 0:
        n, c = P.scaled(n, -1), -c
    return _div_const(ctx, n, c, dtype)


def _div_const(ctx: Context, n: Poly, c: int, dtype: str) -> Poly:
    if c == 1:
        return n
    low, high = poly_bound(ctx, n)
    if low > -inf and high < inf and low // c == high // c:
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
    least = {m: f % c for m, f in rest.items()}
    if least != rest and poly_bound(ctx, least)[0] >= 0 and poly_bound(ctx, least)[1] < c:
        return {m: f // c for m, f in n.items() if f // c}
    if any(ctx.atoms.all[a].kind == DIV for m in whole for a in m):
        # A remainder was split up: keep it whole, unless it is all there is.
        partial = _keep_remainders(ctx, n, c, dtype)
        if partial is not None:
            return partial
    quotient = _div_rest(ctx, rest, c, dtype)
    return P.add(whole, quotient) if whole else quotient


def _keep_remainders(ctx: Context, n: Poly, c: int, dtype: str) -> Poly | None:
    pairing = paired(ctx, n)
    torn = [m for m in pairing.mods if m[0] % c]
    if not torn:
        return None
    rest_terms = [m for m, f in pairing.rest.items() if f % c]
    if len(torn) == 1 and not rest_terms:
        scale, factor, value, divisor, _ = torn[0]
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
    for scale, factor, value, divisor, kind in pairing.mods:
        unit = P.multiply({factor: scale}, remainder(ctx, value, divisor, dtype, kind))
        if scale % c == 0:
            whole = P.add(whole, {m: f // c for m, f in unit.items()})
        else:
            rest = P.add(rest, unit)
    return P.add(whole, _div_rest(ctx, rest, c, dtype))


def without_remainders(ctx: Context, p: Poly) -> Poly | None:
    """p with quotients of remainders in parts, (x % 12) // 4 as x // 4 - 3 * (x // 12), where two
    quotients may meet then; None where nothing changes."""
    if not ctx.atoms.divisions:
        return None
    whole = p
    for m, f in p.items():
        for a in m:
            atom = ctx.atoms.all[a]
            c = P.constant_value(atom.data[1]) if atom.kind == DIV else None
            parts = {} if c is None else {t: k // c for t, k in atom.data[0].items() if k % c == 0}
            if not parts or not _has_division(ctx, parts):
                continue
            rest = {t: k for t, k in atom.data[0].items() if t not in parts}
            parts = P.add(parts, ctx.atoms.division(rest, atom.data[1], atom.dtype))
            factor = P.divides((a,), m)
            assert factor is not None
            whole = P.add(P.add(whole, {m: f}, -1), P.multiply({factor: f}, parts))
            break
    return None if whole is p else whole


def remainder(ctx: Context, value: Poly, divisor: Poly, dtype: str, kind: int = DIV) -> Poly:
    """value % divisor, of a floor or a truncated division."""
    if kind == TRUNC:
        rounded = trunc_div(ctx, value, divisor, dtype)
        assert rounded is not None
        return P.add(value, P.multiply(divisor, rounded), -1)
    value = without_multiples(ctx, value, divisor)
    quotient = poly_div(ctx, value, divisor, dtype)
    assert quotient is not None
    return P.add(value, P.multiply(divisor, quotient), -1)


def without_multiples(ctx: Context, value: Poly, divisor: Poly) -> Poly:
    """A sum with the same remainder: without multiples of the divisor, such as the quotient in
    4 * (x % 6) % 3, unless the sum is the remainder up to a constant."""
    c = P.constant_value(divisor)
    if not c or not _has_division(ctx, value):
        return value
    low, high = poly_bound(ctx, value)
    if low > -inf and high < inf and low // c == high // c:
        return value
    return {m: f for m, f in value.items() if f % c}


def _div_rest(ctx: Context, rest: Poly, c: int, dtype: str) -> Poly:
    """floor(rest / c) if no multiple of c can be factored out."""
    low, high = poly_bound(ctx, rest)
    if low > -inf and high < inf and low // c == high // c:
        return P.constant(int(low // c))
    for g in sorted({gcd(c, f) for m, f in rest.items() if m} - {1}, reverse=True):
        main = {m: f // g for m, f in rest.items() if f % g == 0 and m}
        small = {m: f for m, f in rest.items() if f % g or not m}
        low, high = poly_bound(ctx, small)
        if low > -inf and high < inf and low // g == high // g:
            return _div_const(ctx, P.shift(main, int(low // g)), c // g, dtype)
    if P.terms(rest) == 1:
        nested = _div_nested(ctx, rest, c, dtype)
        if nested is not None:
            return nested
    elif ONE not in rest:
        inner = _inner_remainder(ctx, rest, DIV)
        if inner is not None:
            value, size, period = inner
            whole = remainder(ctx, value, P.constant(period * size), dtype)
            return ctx.atoms.division(whole, P.constant(c * size), dtype)
    return ctx.atoms.division(rest, P.constant(c), dtype)


def _div_nested(ctx: Context, rest: Poly, c: int, dtype: str) -> Poly | None:
    """(x // a + k) // c is (x + k * a) // (a * c)."""
    for m, f in rest.items():
        if f != 1 or len(m) != 1:
            continue
        inner = ctx.atoms.all[m[0]]
        if inner.kind == DIV:
            a = P.constant_value(inner.data[1])
            if a is not None:
                n = P.shift(inner.data[0], rest.get(ONE, 0) * a)
                return _div_const(ctx, n, a * c, dtype)
            size = gcd(*inner.data[0].values(), c)
            if size > 1 and ONE not in rest:  # 2 * x // m // 4 is x // (2 * m)
                n = {t: k // size for t, k in inner.data[0].items()}
                return _div_symbolic(ctx, n, P.scaled(inner.data[1], c // size), dtype)
    return None


def _div_symbolic(ctx: Context, n: Poly, d: Poly, dtype: str) -> Poly:
    if not n:
        return P.ZERO
    n, d = _without_common(n, d)
    if P.terms(d) == 0:
        quotient = poly_div(ctx, n, d, dtype)
        assert quotient is not None
        return quotient
    if all(f < 0 for f in d.values()):  # n // -d is -n // d
        n, d = P.scaled(n, -1), P.scaled(d, -1)
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
    if nonneg(ctx, rest) and nonneg(ctx, P.shift(P.add(d, rest, -1), -1)):
        return whole
    if len(d) == 1 and dc > 1:  # x // (12 * m) is x // m // 12: one form for both
        inner = _div_symbolic(ctx, rest, {dm: 1}, dtype)
        return P.add(whole, _div_const(ctx, inner, dc, dtype))
    if len(d) == 1 and dc == 1 and len(dm) > 1:  # so is x // (m * n) for n >= 0
        *first, last = dm
        if poly_bound(ctx, {(last,): 1})[0] >= 0:
            inner = _div_symbolic(ctx, rest, {tuple(first): 1}, dtype)
            return P.add(whole, _div_symbolic(ctx, inner, {(last,): 1}, dtype))
    swapped = _in_order(ctx, rest, d, dtype)
    return P.add(whole, ctx.atoms.division(rest, d, dtype) if swapped is None else swapped)


def _in_order(ctx: Context, n: Poly, d: Poly, dtype: str) -> Poly | None:
    """x // 12 // m as x // m // 12, and x // n // m as x // m // n where m comes first; only
    for divisors that are not negative."""
    inner = single_quotient(ctx, n)
    if inner is None or len(d) != 1 or poly_bound(ctx, d)[0] < 0:
        return None
    x, other = inner
    c = P.constant_value(other)
    if c is None and (len(other) != 1 or next(iter(other)) <= next(iter(d))):
        return None
    if poly_bound(ctx, other)[0] < 0:
        return None
    first = _div_symbolic(ctx, x, d, dtype)
    return poly_div(ctx, first, other, dtype)


# ------------------------------------------------------------------ truncated division


def trunc_div(ctx: Context, n: Poly, d: Poly, dtype: str) -> Poly | None:
    """n / d rounded toward zero, or None for a division by 0."""
    if not d:
        return None
    n, d = _without_common(n, d)
    sign = 1
    if all(f < 0 for f in d.values()):
        sign, d = -sign, P.scaled(d, -1)
    if n and _begins_negative(ctx, n):  # one form for x / 3 and -x / 3
        sign, n = -sign, P.scaled(n, -1)
    return P.scaled(_trunc_div(ctx, n, d, dtype), sign)


def _begins_negative(ctx: Context, n: Poly) -> bool:
    """Whether n is a negative multiple of a remainder, or has a negative first term."""
    pairing = paired(ctx, n)
    if len(pairing.mods) == 1 and not pairing.rest:
        return pairing.mods[0][0] < 0
    return n[min(n, key=lambda m: (not m, m))] < 0


def _trunc_div(ctx: Context, n: Poly, d: Poly, dtype: str) -> Poly:
    """n / d rounded toward zero, where no factor divides both."""
    c = P.constant_value(d)
    if c == 1 or not n:
        return n
    low, high = poly_bound(ctx, n)
    if poly_bound(ctx, d)[0] > 0 and (low >= 0 or high <= 0):
        down = poly_div(ctx, n if low >= 0 else P.scaled(n, -1), d, dtype)
        assert down is not None
        return down if low >= 0 else P.scaled(down, -1)
    if c is not None and -c < low and high < c:
        return P.ZERO
    inner = single_quotient(ctx, n, TRUNC)
    if inner is not None:  # (x / a) / b is x / (a * b)
        whole = trunc_div(ctx, inner[0], P.multiply(inner[1], d), dtype)
        assert whole is not None
        return whole
    parts = _trunc_parts(ctx, n, c, dtype) if c is not None else None
    return ctx.atoms.division(n, d, dtype, TRUNC) if parts is None else parts


def _inner_remainder(ctx: Context, n: Poly, kind: int) -> tuple[Poly, int, int] | None:
    """(x, size, period) where n is x // size % period: (x // 2 % 8) // 3 is (x % 16) // 6."""
    pairing = paired(ctx, n)
    if len(pairing.mods) != 1 or pairing.rest:
        return None
    scale, factor, value, divisor, division = pairing.mods[0]
    period, inner = P.constant_value(divisor), single_quotient(ctx, value, kind)
    size = None if inner is None else P.constant_value(inner[1])
    if division != kind or scale != 1 or factor or period is None or inner is None or size is None:
        return None
    return inner[0], size, period


def _trunc_parts(ctx: Context, n: Poly, c: int, dtype: str) -> Poly | None:
    """(x rem 12) / 4 as x / 4 - 3 * (x / 12), since both parts of x have its sign, and (x / 2 rem 8) / 3
    as (x rem 16) / 6. None for other sums."""
    pairing = paired(ctx, n)
    if len(pairing.mods) != 1 or pairing.rest:
        return None
    scale, factor, value, divisor, kind = pairing.mods[0]
    period = P.constant_value(divisor)
    if kind != TRUNC or scale != 1 or factor or period is None:
        return None
    if period % c:
        inner = _inner_remainder(ctx, n, TRUNC)
        if inner is None:
            return None
        value, size, period = inner
        whole = remainder(ctx, value, P.constant(period * size), dtype, TRUNC)
        return ctx.atoms.division(whole, P.constant(c * size), dtype, TRUNC)
    quotient, turns = (trunc_div(ctx, value, P.constant(k), dtype) for k in (c, period))
    assert quotient is not None and turns is not None
    return P.add(quotient, turns, -(period // c))


def _without_common(n: Poly, d: Poly) -> tuple[Poly, Poly]:
    """n and d without the factors that all their terms have: a quotient is the same without them."""
    size = gcd(*n.values(), *d.values())
    common: Monomial = next(iter(d))
    for m in (*d, *n):
        common = tuple(a for i, a in enumerate(common) if common[:i].count(a) < m.count(a))
    if size == 1 and not common:
        return n, d
    n, d = ({P.divides(common, m) or ONE: f // size for m, f in side.items()} for side in (n, d))
    return n, d


# ------------------------------------------------------------------ remainders


def _has_division(ctx: Context, p: Iterable[Monomial]) -> bool:
    """Whether some term of p is a multiple of a division."""
    divisions = ctx.atoms.divisions
    return bool(divisions) and not all(map(divisions.isdisjoint, p))


def paired(ctx: Context, p: Poly) -> Pairing:
    """p with terms like x - 8 * (x // 8) written as remainders."""
    if not _has_division(ctx, p):
        return Pairing(p, [], [])
    key = tuple(p.items())
    pairing = ctx.cache.pairings.get(key)
    if pairing is None:
        pairing = ctx.cache.pairings[key] = _paired(ctx, p)
    return pairing


def _paired(ctx: Context, p: Poly) -> Pairing:
    mods: list[Any] = []
    positions = {m: i for i, m in enumerate(p)}
    order: list[int] = []  # position in p of each remainder, where its first term was
    again = True
    while again:
        again = False
        divided = [m for m in p if _has_division(ctx, (m,))]
        if len(divided) > 1:  # longest numerators first: they contain the others' remainders
            divided.sort(key=partial(_numerator_size, ctx), reverse=True)
        for m in divided:
            step = _find_remainder(ctx, p, m)
            if step is not None:
                p, mod = step
                mods.append(mod)
                terms = (m, *(P.times(mod[1], term) for term in mod[2]))
                order.append(min(positions.get(term, len(positions)) for term in terms))
                again = True
                break
    rest = [positions.get(m, len(positions)) for m in p if m]
    ordered = sorted(range(len(mods)), key=order.__getitem__)
    before = [sum(position < order[i] for position in rest) for i in ordered]
    return Pairing(p, [mods[i] for i in ordered], before)


def _numerator_size(ctx: Context, m: Monomial) -> int:
    atoms = ctx.atoms.all
    return max((len(atoms[a].data[0]) for a in m if a in ctx.atoms.divisions), default=0)


def _find_remainder(ctx: Context, p: Poly, m: Monomial) -> Any:
    f = p[m]
    for q in reversed(m):  # later atoms first: their divisors may hold the earlier ones
        if q not in ctx.atoms.divisions:
            continue
        atom = ctx.atoms.all[q]
        kind = atom.kind
        without = P.divides((q,), m)
        if without is None:
            continue
        for n, d in quotients_of(ctx, atom) if kind == DIV else (atom.data,):
            lead, lead_coef = _lead(d)
            factor = P.divides(lead, without)
            if factor is None:
                continue
            c = P.constant_value(d)
            steps = [1] if c is None else _inner_divisors(ctx, p, c, kind)
            for step in steps:
                divisor = d if c is None else P.constant(c // step)
                size = lead_coef if c is None else c // step
                if f % size:
                    continue
                scale = -f // size
                value = n if step == 1 else _divided(ctx, n, step, atom.dtype, kind)
                left = P.add(p, P.multiply({factor: scale}, value), -1)
                left = P.add(left, P.multiply({P.times(factor, (q,)): scale}, divisor))
                if _worth(p, left, value, factor, scale):
                    return left, (scale, factor, value, divisor, kind)
    return None


def _divided(ctx: Context, n: Poly, c: int, dtype: str, kind: int) -> Poly:
    quotient = (poly_div if kind == DIV else trunc_div)(ctx, n, P.constant(c), dtype)
    assert quotient is not None
    return quotient


def _inner_divisors(ctx: Context, p: Poly, c: int, kind: int) -> list[int]:
    """Divisors s of c such that x // s occurs in p, and so x // s % (c // s) may."""
    steps = [1]
    for m in p:
        for a in m:
            atom = ctx.atoms.all[a]
            if atom.kind == kind:
                s = P.constant_value(atom.data[1])
                if s is not None and 1 < s < c and c % s == 0 and s not in steps:
                    steps.append(s)
    return sorted(steps, reverse=True)


def _worth(p: Poly, left: Poly, value: Poly, factor: Monomial, scale: int) -> bool:
    """Whether p is better written as `left` plus a remainder of `value`."""
    if P.terms(left) + 1 > P.terms(p):
        return False
    for m, f in value.items():
        mono = P.times(m, factor)
        if m and abs(left.get(mono, 0)) > abs(p.get(mono, 0)):
            return False
        if m and mono in p and (p[mono] > 0) != (scale * f > 0):
            return False
    return True


def _lead(d: Poly) -> tuple[Monomial, int]:
    """The first non-constant term of a divisor, if any."""
    return next(((m, f) for m, f in d.items() if m), None) or (ONE, d[ONE])
