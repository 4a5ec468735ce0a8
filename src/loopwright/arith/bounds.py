"""Constant bounds of polynomials and other expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd, inf
from typing import Any

import numpy as np

from ..ir import prim_expr as pe
from ..ir.dtype import numpy_dtype
from ..ir.op import Op
from ..ir.prim_expr import IntImm
from . import poly as P
from .atoms import DIV, INT64, MAX, MIN, OF_PARTS, TRUNC, VAR, WRAPPED, Atom, is_index
from .context import Bound, Context
from .poly import ONE, Monomial, Poly

EVERYTHING: Bound = (-inf, inf)
_TERMS, _FACTORS = 6, 3  # of a polynomial whose products are bounded together
_CASES = 4  # minima and maxima that are taken apart within each other


def _times(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def mul_bounds(a: Bound, b: Bound) -> Bound:
    """Bounds of a product."""
    if a[0] == a[1] and a[0] not in (inf, -inf):
        f = a[0]
        return (_times(f, b[0]), _times(f, b[1])) if f >= 0 else (_times(f, b[1]), _times(f, b[0]))
    corners = [_times(x, y) for x in a for y in b]
    return (min(corners), max(corners))


def _floor(a: float, b: float) -> float:
    """a // b for b > 0, with infinities."""
    if a in (inf, -inf):
        return a
    if b == inf:
        return 0 if a >= 0 else -1
    return a // b


def div_bounds(n: Bound, d: Bound) -> Bound:
    """Bounds of n // d."""
    # A division by 0 is never executed.
    if d[0] >= 0:
        corners = [_floor(x, y) for x in n for y in (max(d[0], 1), max(d[1], 1))]
        return (min(corners), max(corners))
    if d[1] <= 0:
        return div_bounds((-n[1], -n[0]), (-d[1], -d[0]))
    # |n // d| <= |n| for whole numbers.
    size = max(abs(n[0]), abs(n[1]))
    return (-size, size)


def _toward_zero(a: float, b: float) -> float:
    """a / b rounded toward zero, with infinities."""
    if abs(b) == inf:
        return 0
    return a * b if abs(a) == inf else int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _divisors(bound: Bound) -> list[float]:
    """The ends of what divides, without 0, by which nothing is ever divided."""
    low, high = bound
    ends: list[float] = []
    if low < 0:
        ends += [low, min(high, -1)]
    if high > 0:
        ends += [max(low, 1), high]
    return ends


def truncdiv_bounds(n: Bound, d: Bound) -> Bound | None:
    """Bounds of n / d rounded toward zero; None where d is 0."""
    corners = [_toward_zero(x, y) for x in n for y in _divisors(d)]
    return (min(corners), max(corners)) if corners else None


def truncmod_bounds(n: Bound, d: Bound) -> Bound:
    """Bounds of what n / d, rounded toward zero, leaves."""
    most = max(map(abs, _divisors(d)), default=inf) - 1
    return (max(min(n[0], 0), -most), min(max(n[1], 0), most))


def dtype_bounds(dtype: Any) -> Bound:
    """The range of a type; int64 and wider count as unbounded."""
    if not dtype.is_integer or dtype is INT64 or dtype.bits >= 64 or dtype.lanes != 1:
        return (0, inf) if dtype.is_uint else EVERYTHING
    return (pe.int_min(dtype), pe.int_max(dtype))


# ------------------------------------------------------------------ constant bounds


def poly_bound(ctx: Context, p: Poly) -> Bound:
    """Least and greatest value of p."""
    if not p:
        return (0, 0)
    if len(p) == 1:
        ((m, f),) = p.items()
        if m == ONE:
            return (f, f)
        if len(m) == 1:
            low, high = atom_bound(ctx, ctx.atoms.all[m[0]])
            return (f * low, f * high) if f > 0 else (f * high, f * low)
    key = P.key_of(p)
    bound = ctx.cache.bounds.get(key)
    if bound is None:
        bound = ctx.cache.bounds[key] = _sum_bound(ctx, p)
    return bound


def _sum_bound(ctx: Context, p: Poly) -> Bound:
    pairing = ctx.paired(p)
    low: float = 0
    high: float = 0
    for m, f in pairing.rest.items():
        a, b = mul_bounds((f, f), monomial_bound(ctx, m))
        low, high = low + a, high + b
    for scale, factor, value, divisor, kind in pairing.mods:
        left = _mod_bound(ctx, value, divisor) if kind == DIV else _rest_bound(ctx, value, divisor)
        bound = mul_bounds(monomial_bound(ctx, factor), left)
        a, b = mul_bounds((scale, scale), bound)
        low, high = low + a, high + b
    atoms = ctx.atoms.all
    for m, f in p.items():
        if len(m) == 1 and atoms[m[0]].kind in (MIN, MAX) and P.terms(p) > 1:
            if ctx.cache.cases == _CASES:
                break
            side_low, side_high = _cases(ctx, p, m, f)
            low, high = max(low, side_low), min(high, side_high)
    if 1 < P.terms(p) <= _TERMS and any(len(m) > 1 for m in p):
        low, high = within((low, high), _corners(ctx, p, _FACTORS))
    return _known_bound(ctx, p, (low, high)) if len(ctx.facts) else (low, high)


def _corners(ctx: Context, p: Poly, most: int) -> Bound:
    """Bounds of p, linear in each atom, at the ends of the atoms of products, `most` of them."""
    product = next((m for m in p if len(m) > 1), ONE)
    shared = [a for a in product if sum(a in m for m in p) > 1]
    if not shared or not most:
        ends = [mul_bounds((f, f), monomial_bound(ctx, m)) for m, f in p.items()]
        return (sum(low for low, _ in ends), sum(high for _, high in ends))
    a = shared[0]
    if any(m.count(a) > 1 for m in p):
        return EVERYTHING
    factor = {P.divides((a,), m) or ONE: f for m, f in p.items() if a in m}
    rest = {m: f for m, f in p.items() if a not in m}
    corners = []
    for end, away in zip(atom_bound(ctx, ctx.atoms.all[a]), (-inf, inf), strict=True):
        if end in (-inf, inf):  # the sign of the factor decides which end of p is unbounded
            least, greatest = mul_bounds((away, away), _corners(ctx, factor, most - 1))
            corners.append((min(least, inf), greatest))
        else:
            corners.append(_corners(ctx, P.add(rest, factor, int(end)), most - 1))
    return (min(low for low, _ in corners), max(high for _, high in corners))


def _known_bound(ctx: Context, p: Poly, bound: Bound) -> Bound:
    """Bounds within those of the facts about the terms of p, or about a part of them all."""
    main = {m: f for m, f in p.items() if m}
    size, offset = gcd(*main.values()), p.get(ONE, 0)
    main = {m: f // size for m, f in main.items()}
    low, high = bound
    for fact in ctx.facts.with_term(next(iter(main))):
        if P.terms(fact) == len(main):
            more, less = (P.constant_value(P.add(main, fact, sign)) for sign in (-1, 1))
            low = low if more is None else max(low, more * size + offset)
            high = high if less is None else min(high, less * size + offset)
    return (low, high) if low <= high else bound


def _cases(ctx: Context, p: Poly, m: Monomial, f: int) -> Bound:
    """Bounds of p = f * min(a, b) + rest from those of f * a + rest and f * b + rest."""
    atom = ctx.atoms.all[m[0]]
    rest = {n: c for n, c in p.items() if n != m}
    ctx.cache.cases += 1
    try:
        (a0, a1), (b0, b1) = (poly_bound(ctx, P.add(rest, side, f)) for side in atom.data)
    finally:
        ctx.cache.cases -= 1
    if (atom.kind == MIN) == (f > 0):
        return (min(a0, b0), min(a1, b1))
    return (max(a0, b0), max(a1, b1))


def monomial_bound(ctx: Context, m: Monomial) -> Bound:
    """Bounds of a product of atoms."""
    bound = ctx.cache.products.get(m)
    if bound is None:
        bound = ctx.cache.products[m] = _product_bound(ctx, m)
    return bound


def _product_bound(ctx: Context, m: Monomial) -> Bound:
    atoms = ctx.atoms.all
    if len(m) == 1:
        return atom_bound(ctx, atoms[m[0]])
    total: Bound = (1, 1)
    i = 0
    while i < len(m):
        power = m.count(m[i])
        bound = atom_bound(ctx, atoms[m[i]])
        for _ in range(power):
            total = mul_bounds(total, bound)
        if power == len(m) and power % 2 == 0:
            total = (max(total[0], 0), total[1])
        i += power
    return total


def _mod_bound(ctx: Context, value: Poly, divisor: Poly) -> Bound:
    d0, d1 = poly_bound(ctx, divisor)
    low, high = poly_bound(ctx, value)
    if d0 == d1 and d0 > 0:
        d = int(d0)
        if low > -inf and high < inf and low // d == high // d:
            return (low % d, high % d)
        c, b = ctx.modular(value)
        g = gcd(c, d)
        return (b % g, d - g + b % g)
    if d0 >= 0:  # nothing is ever divided by 0
        return (0, min(d1 - 1, high) if low >= 0 else d1 - 1)
    return (min(d0 + 1, 0), max(d1 - 1, 0))


def _rest_bound(ctx: Context, value: Poly, divisor: Poly) -> Bound:
    """Bounds of the remainder of a truncated division."""
    return truncmod_bounds(poly_bound(ctx, value), poly_bound(ctx, divisor))


def atom_bound(ctx: Context, atom: Atom) -> Bound:
    """Bounds of an atom: the known ones, within those of its form."""
    bounds = ctx.assumed.bounds.get(atom.number)
    if atom.kind == VAR and bounds is not None and bounds[0] <= bounds[1]:
        return bounds
    natural = natural_bound(ctx, atom)
    if bounds is None:
        return natural
    low, high = within(bounds, natural)
    # Contradictory constraints: the code is unreachable, and nothing is concluded.
    return (low, high) if low <= high else natural


def within(a: Bound, b: Bound) -> Bound:
    """The bounds that both give."""
    return (max(a[0], b[0]), min(a[1], b[1]))


def natural_bound(ctx: Context, atom: Atom) -> Bound:
    """Bounds of an atom by its form or type."""
    if atom.kind == VAR:
        return (0, inf) if type(atom.expr) is pe.SizeVar else dtype_bounds(atom.dtype)
    if atom.kind == DIV:
        return div_bounds(poly_bound(ctx, atom.data[0]), poly_bound(ctx, atom.data[1]))
    if atom.kind == TRUNC:
        n, d = (poly_bound(ctx, part) for part in atom.data)
        return truncdiv_bounds(n, d) or EVERYTHING
    if atom.kind in (MIN, MAX):
        (a0, a1), (b0, b1) = (poly_bound(ctx, side) for side in atom.data)
        pick = min if atom.kind == MIN else max
        return (pick(a0, b0), pick(a1, b1))
    if atom.kind == WRAPPED:
        return dtype_bounds(atom.dtype)
    return of_parts(ctx, atom, expr_bound, dtype_bounds(atom.dtype))


def may_wrap(ctx: Context, p: Poly, dtype: Any) -> bool:
    """Whether a sum of products with data in it may leave the range of its type, and wrap around."""
    if not ctx.atoms.is_data(p):
        return False
    all_values = (pe.int_min(dtype), pe.int_max(dtype))
    low: float = 0
    high: float = 0
    for m, f in p.items():
        bound: Bound = (f, f)
        for a in m:
            bound = mul_bounds(bound, within(atom_bound(ctx, ctx.atoms.all[a]), all_values))
        low, high = low + bound[0], high + bound[1]
    bounds = within((low, high), poly_bound(ctx, p))
    return within(bounds, all_values) != bounds


def writable(ctx: Context, p: Poly) -> bool:
    """Whether the operands of divisions and comparisons in p do not wrap around when they are built
    as expressions: the -x of -x // 2, which is x // -2, does."""
    return not ctx.atoms.read or all(
        not may_wrap(ctx, part, atom.dtype) and writable(ctx, part)
        for atom in (ctx.atoms.all[a] for m in p for a in m if a in ctx.atoms.read)
        if atom.kind in OF_PARTS
        for part in atom.data
    )


def of_parts(
    ctx: Context, atom: Atom, find: Callable[[Context, Any], Any], unknown: Sequence[float]
) -> Any:
    """The result of `find` for an opaque atom's expression; `unknown` while that is being sought,
    since simplifying its own parts compares them with the facts about it."""
    busy = ctx.atoms.being_sought
    if atom.number in busy:
        return unknown
    busy.add(atom.number)
    try:
        return find(ctx, atom.expr)
    finally:
        busy.discard(atom.number)


def any_bound(ctx: Context, e: Any) -> Bound:
    """Bounds of an integer expression of any type; of a vector, those of all its lanes."""
    if e.dtype.lanes != 1:
        return _vector_bound(ctx, e)
    if type(e) is IntImm:
        return (e.value, e.value)
    return poly_bound(ctx, ctx.poly(e)) if e.dtype.is_integer else EVERYTHING


def _vector_bound(ctx: Context, e: Any) -> Bound:
    if type(e) is pe.Broadcast:
        return any_bound(ctx, e.value)
    if type(e) is pe.Ramp and isinstance(e.lanes, int):
        last = mul_bounds((e.lanes - 1, e.lanes - 1), any_bound(ctx, e.stride))
        low, high = any_bound(ctx, e.base)
        return (low + min(last[0], 0), high + max(last[1], 0))
    simple = ctx.simplified(e)
    return EVERYTHING if type(simple) is type(e) else any_bound(ctx, simple)


# ------------------------------------------------------------------ opaque expressions


def expr_bound(ctx: Context, e: pe.PrimExpr) -> Bound:
    """Bounds of an expression that is opaque to the algebra."""
    natural = dtype_bounds(e.dtype)
    if type(e) is pe.Call:
        rule = _CALL_BOUNDS.get(e.op.name) if isinstance(e.op, Op) else None
    else:
        rule = _EXPR_BOUNDS.get(type(e))
    return natural if rule is None else rule(ctx, e, natural)


def scaled_bound(e: pe.Cast, bound_of: Callable[[Any], Bound]) -> Bound | None:
    """Bounds of n * scale cast to a whole number, of which Resize makes extents: n, an integer, in
    the type of `scale`, a positive number. Every step keeps the order, so the ends of n give them;
    `bound_of` returns these. None for another expression."""
    product = e.value
    if type(product) is not pe.Mul or type(product.a) is not pe.Cast:
        return None
    whole, scale = product.a.value, product.b
    if not (type(scale) is pe.FloatImm and 0 < scale.value < inf and whole.dtype.is_integer):
        return None
    kind = numpy_dtype(scale.dtype)
    with np.errstate(over="ignore"):
        ends = [float(kind.type(end) * kind.type(scale.value)) for end in bound_of(whole)]
    low, high = (end if abs(end) == inf else int(end) for end in ends)
    return (low, high)


def whole_in_float(ctx: Context, e: pe.Cast) -> Any:
    """n, where an expression is an integer n cast to a type of floats that holds all its values;
    None for another expression."""
    inner = e.value
    if type(inner) is not pe.Cast or not inner.value.dtype.is_integer or inner.dtype.lanes != 1:
        return None
    digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}.get(str(inner.dtype), 0)
    low, high = any_bound(ctx, inner.value)
    return inner.value if max(-low, high) <= 1 << digits else None


def ceil_log2_of(e: pe.Cast) -> Any:
    """x, where an expression is ceil(log2(x)) of float64 cast to a whole number; else None."""
    x = e.value
    for name in ("tir.ceil", "tir.log2"):
        if type(x) is not pe.Call or not isinstance(x.op, Op) or x.op.name != name:
            return None
        x = x.args[0]
    return x if str(x.dtype) == "float64" else None


def _ceil_log2_bound(ctx: Context, x: pe.PrimExpr, natural: Bound) -> Bound:
    """Bounds of ceil(log2(x)) of a whole number. Below 2 ** 40, the logarithm of a number that is
    no power of two is farther from whole numbers than float64's rounding."""
    if type(x) is pe.FloatImm and x.value.is_integer():
        low = high = x.value
    elif type(x) is pe.Cast and x.value.dtype.is_integer:
        low, high = any_bound(ctx, x.value)
    else:
        return natural
    if not 1 <= low <= high < 1 << 40:
        return natural
    return ((int(low) - 1).bit_length(), (int(high) - 1).bit_length())


def _cast_bound(ctx: Context, e: pe.Cast, natural: Bound) -> Bound:
    if (power := ceil_log2_of(e)) is not None:
        return _ceil_log2_bound(ctx, power, natural)
    if e.value.dtype.is_integer:
        low, high = any_bound(ctx, e.value)
    elif (whole := whole_in_float(ctx, e)) is not None:
        low, high = any_bound(ctx, whole)
    else:
        low, high = scaled_bound(e, lambda n: any_bound(ctx, n)) or natural
    if high == inf and e.value.dtype.is_uint:
        return natural  # the upper half of uint64 becomes negative
    return (low, high) if natural[0] <= low and high <= natural[1] else natural


def _mul_bound(ctx: Context, e: pe.BinaryOpExpr, natural: Bound) -> Bound:
    if not e.dtype.is_int:
        return natural
    low, high = mul_bounds(any_bound(ctx, e.a), any_bound(ctx, e.b))
    fits = natural[0] <= low and high <= natural[1]
    if not fits and is_index(e.dtype) and not ctx.keys.reads(e):
        return (max(natural[0], low), min(natural[1], high))
    return (low, high) if fits else natural  # a narrow product wraps around


def _floordiv_bound(ctx: Context, e: pe.BinaryOpExpr, natural: Bound) -> Bound:
    low, high = div_bounds(any_bound(ctx, e.a), any_bound(ctx, e.b))
    return (low, high) if natural[0] <= low and high <= natural[1] else natural


def _floormod_bound(ctx: Context, e: pe.BinaryOpExpr, natural: Bound) -> Bound:
    low, high = any_bound(ctx, e.b)
    return (0, high - 1) if low >= 1 else natural


def _truncdiv_bound(ctx: Context, e: pe.BinaryOpExpr, natural: Bound) -> Bound:
    bound = truncdiv_bounds(any_bound(ctx, e.a), any_bound(ctx, e.b)) if e.dtype.is_int else None
    return bound or natural


def _truncmod_bound(ctx: Context, e: pe.BinaryOpExpr, natural: Bound) -> Bound:
    return truncmod_bounds(any_bound(ctx, e.a), any_bound(ctx, e.b)) if e.dtype.is_int else natural


def _let_bound(ctx: Context, e: pe.Let, natural: Bound) -> Bound:
    ctx.bind_value_bounds(e.var, e.value)
    return any_bound(ctx, e.body)


def _and_bound(ctx: Context, e: pe.Call, natural: Bound) -> Bound:
    limits = [high for low, high in (any_bound(ctx, a) for a in e.args) if low >= 0]
    return (0, min(limits)) if limits else natural


def _shift_bound(ctx: Context, e: pe.Call, natural: Bound) -> Bound:
    ends, (least, most) = any_bound(ctx, e.args[0]), any_bound(ctx, e.args[1])
    if not 0 <= least <= most < 64:  # a shift by the width or more has no value
        return natural
    corners = [_floor(end, 1 << int(by)) for end in ends for by in (least, most)]
    return (min(corners), max(corners))


def _shift_left_bound(ctx: Context, e: pe.Call, natural: Bound) -> Bound:
    (low, high), (least, most) = any_bound(ctx, e.args[0]), any_bound(ctx, e.args[1])
    if low < 0 or not 0 <= least <= most < e.dtype.bits or high * 2**most > natural[1]:
        return natural
    return (low * 2**least, high * 2**most)


def _bit_count_bound(ctx: Context, e: pe.Call, natural: Bound) -> Bound:
    return (0, e.args[0].dtype.bits)


def _union(ctx: Context, a: pe.PrimExpr, b: pe.PrimExpr) -> Bound:
    (a0, a1), (b0, b1) = any_bound(ctx, a), any_bound(ctx, b)
    return (min(a0, b0), max(a1, b1))


_Rule = Callable[[Context, Any, Bound], Bound]
_EXPR_BOUNDS: dict[type, _Rule] = {
    pe.Cast: _cast_bound,
    pe.Select: lambda ctx, e, natural: _union(ctx, e.true_value, e.false_value),
    pe.Mul: _mul_bound,
    pe.FloorDiv: _floordiv_bound,
    pe.FloorMod: _floormod_bound,
    pe.Div: _truncdiv_bound,
    pe.Let: _let_bound,
    pe.Mod: _truncmod_bound,
}
_CALL_BOUNDS: dict[str, _Rule] = {
    "tir.if_then_else": lambda ctx, e, natural: _union(ctx, e.args[1], e.args[2]),
    "tir.bitwise_and": _and_bound,
    "tir.shift_right": _shift_bound,
    "tir.shift_left": _shift_left_bound,
    "tir.clz": _bit_count_bound,
    "tir.popcount": _bit_count_bound,
    "tir.vscale": lambda ctx, e, natural: (1, natural[1]),
}
