"""Converts polynomials to expressions."""

from __future__ import annotations

from typing import Any

from ..ir import prim_expr as pe
from ..ir.prim_expr import IntImm, PrimExpr
from . import poly as P
from .atoms import DIV, INT32, INT64, MAX, MIN, TRUNC, Atom
from .bounds import atom_bound, dtype_bounds, within
from .context import Context
from .division import paired
from .poly import ONE, Monomial, Poly
from .proof import quotients_of, single_quotient


def build(ctx: Context, p: Poly, dtype: str) -> PrimExpr:
    """The expression of a polynomial. Raises ValueError if a literal does not fit."""
    pairing = paired(ctx, p)
    plus: list[PrimExpr] = []
    minus: list[PrimExpr] = []
    terms = [(f, _product(ctx, m, dtype)) for m, f in pairing.rest.items() if m]
    mods = zip(pairing.mods, pairing.positions, strict=True)
    for n, ((scale, factor, value, divisor, division), position) in enumerate(mods):
        kind = INT64 if dtype is INT32 and _needs_64_bits(ctx, value) else dtype
        mod = _remainder(ctx, value, divisor, kind, division)
        mod = mod if kind is dtype else pe.Cast._make(dtype, mod)
        if factor:
            mod = pe.Mul._make(_product(ctx, factor, dtype), mod)
        terms.insert(position + n, (scale, mod))
    for f, item in terms:
        _term(ctx, plus, minus, f, item, dtype)
    offset = pairing.rest.get(ONE, 0)
    if not plus:
        total: PrimExpr = number(ctx, offset, dtype)
        if not minus:
            return total
        if offset == 0:
            # -x - y: TVM's spelling of a negation is x * -1
            first = minus.pop(0)
            total = _negated(ctx, first, dtype)
    else:
        total = plus[0]
        for item in plus[1:]:
            total = pe.Add._make(total, item)
        if offset > 0:  # before the subtracted terms, as TVM writes it
            total = pe.Add._make(total, number(ctx, offset, dtype))
    for item in minus:
        total = pe.Sub._make(total, item)
    if plus and offset < 0:
        total = pe.Sub._make(total, number(ctx, -offset, dtype))
    return total


def _needs_64_bits(ctx: Context, p: Poly) -> bool:
    """Whether something in p may not fit into 32 bits, so that no remainder of it is one of them."""
    wide = (atom for m in p for a in m if (atom := ctx.atoms.all[a]).dtype is INT64)
    return any(
        within(bound := atom_bound(ctx, atom), dtype_bounds(INT32)) != bound for atom in wide
    )


def _remainder(ctx: Context, value: Poly, divisor: Poly, dtype: str, division: int) -> PrimExpr:
    """value % divisor; x // 3 % 4 as TVM writes it, x % 12 // 3."""
    inner = single_quotient(ctx, value, division)
    size = None if inner is None else P.constant_value(inner[1])
    quotient, rest = (pe.FloorDiv, pe.FloorMod) if division == DIV else (pe.Div, pe.Mod)
    if inner is None or size is None or P.constant_value(divisor) is None:
        return rest._make(build(ctx, value, dtype), build(ctx, divisor, dtype))
    whole = rest._make(build(ctx, inner[0], dtype), build(ctx, P.scaled(divisor, size), dtype))
    return quotient._make(whole, number(ctx, size, dtype))


def _negated(ctx: Context, item: PrimExpr, dtype: str) -> PrimExpr:
    if type(item) is pe.Mul and type(item.b) is IntImm:
        return pe.Mul._make(item.a, number(ctx, -item.b.value, dtype))
    return pe.Mul._make(item, number(ctx, -1, dtype))


def number(ctx: Context, value: int, dtype: str) -> IntImm:
    """A literal; one object for each value."""
    literal = ctx.literals.get((dtype, value))
    if literal is None:
        literal = ctx.literals[dtype, value] = IntImm(dtype, int(value))
    return literal


def _term(
    ctx: Context, plus: list[Any], minus: list[Any], f: int, item: PrimExpr, dtype: str
) -> None:
    size = abs(f)
    if size != 1:
        item = pe.Mul._make(item, number(ctx, size, dtype))
    (plus if f > 0 else minus).append(item)


def _product(ctx: Context, m: Monomial, dtype: str) -> PrimExpr:
    product = atom_expr(ctx, ctx.atoms.all[m[0]], dtype)
    for a in m[1:]:
        product = pe.Mul._make(product, atom_expr(ctx, ctx.atoms.all[a], dtype))
    return product


def atom_expr(ctx: Context, atom: Atom, dtype: str) -> PrimExpr:
    """The expression of an atom, cast to `dtype` if it has another type."""
    if atom.expr is None:
        parts = (
            quotients_of(ctx, atom)[1:2] if atom.kind == DIV else ()
        )  # x // (m * 4), not x // m // 4
        a, b = (build(ctx, part, atom.dtype) for part in (parts[0] if parts else atom.data))
        kind = {DIV: pe.FloorDiv, TRUNC: pe.Div, MIN: pe.Min, MAX: pe.Max}[atom.kind]
        atom.expr = kind._make(a, b)
    expr = atom.expr
    return expr if expr.dtype is dtype else pe.Cast._make(dtype, expr)
