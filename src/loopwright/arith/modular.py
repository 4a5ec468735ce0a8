"""Modular sets: every value of an expression is c * k + b."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from ..ir import prim_expr as pe
from ..ir.op import Op
from ..ir.prim_expr import IntImm
from . import poly as P
from .atoms import DIV, MAX, MIN, WRAPPED, Atom
from .bounds import any_bound, of_parts, whole_in_float
from .context import Context
from .poly import Poly

Residues = tuple[int, int]  # (c, b) for c * k + b; c is 0 for one value
ANY: Residues = (1, 0)


def modular(ctx: Context, p: Poly) -> Residues:
    """The residues of a polynomial."""
    coeff, base = 0, 0
    for m, f in p.items():
        c, b = 0, 1
        for a in m:
            c, b = _product((c, b), _of_atom(ctx, ctx.atoms.all[a]))
        coeff, base = gcd(coeff, c * f), base + b * f
    return _reduced(coeff, base)


def _reduced(c: int, b: int) -> Residues:
    return (c, b % c if c else b)


def _product(x: Residues, y: Residues) -> Residues:
    """(c k + b)(e l + f): multiples of c * e, c * f and b * e, plus b * f."""
    (c, b), (e, f) = x, y
    return gcd(c * e, c * f, b * e), b * f


def _either(x: Residues, y: Residues) -> Residues:
    """Of a value that is one of two."""
    (c, b), (e, f) = x, y
    return _reduced(gcd(c, e, b - f), b)


def both(x: Residues, y: Residues) -> Residues | None:
    """The residues of a value with both residues, by the Chinese remainder theorem; None if no
    value has both."""
    (c, b), (e, f) = x, y
    if not c or not e:
        return x if not c else y
    g = gcd(c, e)
    if (b - f) % g:
        return None
    steps = (f - b) // g * pow(c // g, -1, e // g) % (e // g) if e != g else 0
    return _reduced(c // g * e, b + c * steps)


def _quotient(x: Residues, d: int) -> Residues:
    """Of the values divided by d > 0, rounded down."""
    c, b = x
    return _reduced(c // d, b // d) if c % d == 0 else ANY


def _remainder(x: Residues, y: Residues) -> Residues:
    """The residues of x after multiples of y's values are subtracted."""
    c, b = x
    g = gcd(c, *y)
    return _reduced(g, b) if g else x


def _of_atom(ctx: Context, atom: Atom) -> Residues:
    residues = ctx.assumed.modular.get(atom.number)
    if residues is not None:
        return residues
    if atom.kind == DIV:
        d = P.constant_value(atom.data[1])
        return ANY if d is None or d <= 0 else _quotient(modular(ctx, atom.data[0]), d)
    if atom.kind in (MIN, MAX):
        return _either(*(modular(ctx, side) for side in atom.data))
    if atom.kind == WRAPPED:
        return _remainder(modular(ctx, atom.data[0]), (1 << atom.dtype.bits, 0))
    return of_parts(ctx, atom, _of_opaque, ANY)


def _of(ctx: Context, e: pe.PrimExpr) -> Residues:
    """The residues of an integer of any type."""
    return modular(ctx, ctx.poly(e))


def _of_opaque(ctx: Context, e: Any) -> Residues:
    """Of an expression that is opaque to the algebra."""
    if type(e) is pe.Call:
        rule = _CALLS.get(e.op.name) if isinstance(e.op, Op) else None
    else:
        rule = _EXPRESSIONS.get(type(e))
    return ANY if rule is None or not e.dtype.is_integer else rule(ctx, e)


def _cast(ctx: Context, e: pe.Cast) -> Residues:
    value = e.value if e.value.dtype.is_integer else whole_in_float(ctx, e)
    if value is None or e.dtype.is_bool:  # a bool is whether the value is 0
        return ANY
    low, high = any_bound(ctx, value)
    fits = pe.int_min(e.dtype) <= low and high <= pe.int_max(e.dtype)
    # A value that does not fit wraps around a power of two.
    return _of(ctx, value) if fits else _remainder(_of(ctx, value), (1 << e.dtype.bits, 0))


def _truncmod(ctx: Context, e: pe.BinaryOpExpr) -> Residues:
    return _remainder(_of(ctx, e.a), _of(ctx, e.b))


def _let(ctx: Context, e: pe.Let) -> Residues:
    ctx.bind_value_bounds(e.var, e.value)
    return _of(ctx, e.body)


def _and(ctx: Context, e: pe.Call) -> Residues:
    """`x & (2**n - 1)` is x % 2**n."""
    x, mask = e.args
    if isinstance(mask, IntImm) and mask.value >= 0 and not mask.value & (mask.value + 1):
        return _remainder(_of(ctx, x), (mask.value + 1, 0))
    return ANY


def _shift_right(ctx: Context, e: pe.Call) -> Residues:
    x, by = e.args
    if isinstance(by, IntImm) and 0 <= by.value < x.dtype.bits:
        return _quotient(_of(ctx, x), 1 << by.value)
    return ANY


_Rule = Callable[[Context, Any], Residues]
_EXPRESSIONS: dict[type, _Rule] = {
    pe.Cast: _cast,
    pe.Mod: _truncmod,
    pe.Select: lambda ctx, e: _either(_of(ctx, e.true_value), _of(ctx, e.false_value)),
    pe.Let: _let,
}
_CALLS: dict[str, _Rule] = {
    "tir.if_then_else": lambda ctx, e: _either(_of(ctx, e.args[1]), _of(ctx, e.args[2])),
    "tir.bitwise_and": _and,
    "tir.shift_right": _shift_right,
}
