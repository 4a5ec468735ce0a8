"""Facts implied by a condition known to hold, or by the range or value of a variable."""

from __future__ import annotations

from ..ir import prim_expr as pe
from ..ir.op import Op
from ..ir.prim_expr import PrimExpr, Range, Var
from . import poly as P
from .atoms import is_index
from .bounds import natural_bound, poly_bound, within
from .context import Assumptions, Cache, Context
from .convert import poly, var_poly
from .division import paired
from .modular import ANY, both
from .normal import is_zero, reduced, tightened
from .poly import ONE, Monomial, Poly


class ConstraintScope:
    """`with analyzer.constraint_scope(cond): ...`; `cond` is assumed inside."""

    __slots__ = ("_condition", "_ctx", "_saved")

    def __init__(self, ctx: Context, condition: PrimExpr) -> None:
        self._ctx = ctx
        self._condition = condition

    def __enter__(self) -> ConstraintScope:
        ctx = self._ctx
        self._saved: tuple[Assumptions, Cache, int, int] = (
            ctx.assumed,
            ctx.cache,
            len(ctx.facts),
            len(ctx.examples.claims),
        )
        ctx.counts.entered += 1
        ctx.assumed = ctx.assumed.copy()
        assume(ctx, self._condition)
        return self

    def __exit__(self, *exc: object) -> None:
        ctx = self._ctx
        ctx.assumed, ctx.cache, facts, claims = self._saved
        ctx.facts.drop(facts)
        ctx.examples.drop_claims(claims)


def assume(ctx: Context, condition: PrimExpr) -> None:
    """Assume a condition from here on."""
    inequalities: list[Poly] = []
    _collect(ctx, condition, True, inequalities)
    ctx.cache = Cache()
    for p in inequalities:
        learn(ctx, p)
    ctx.cache = Cache()


def _collect(ctx: Context, condition: PrimExpr, holds: bool, inequalities: list[Poly]) -> None:
    """Collect the inequalities p >= 0 implied by a condition."""
    kind = type(condition)
    if kind is pe.Not:
        _collect(ctx, condition.a, not holds, inequalities)
    elif (kind is pe.And and holds) or (kind is pe.Or and not holds):
        _collect(ctx, condition.a, holds, inequalities)
        _collect(ctx, condition.b, holds, inequalities)
    elif kind is pe.Call and isinstance(condition.op, Op) and condition.op.name == "tir.likely":
        _collect(ctx, condition.args[0], holds, inequalities)
    elif isinstance(condition, pe.CmpExpr) and is_index(condition.a.dtype):
        diff = P.add(poly(ctx, condition.a), poly(ctx, condition.b), -1)  # a - b
        opposite = P.scaled(diff, -1)
        kind = kind if holds else _NEGATION[kind]
        if kind is pe.EQ:
            inequalities += [diff, opposite]
            _learn_modular(ctx, diff)
        elif kind is pe.LT or kind is pe.LE:
            inequalities.append(P.shift(opposite, -1) if kind is pe.LT else opposite)
        elif kind is pe.GT or kind is pe.GE:
            inequalities.append(P.shift(diff, -1) if kind is pe.GT else diff)
        else:
            low, high = poly_bound(ctx, diff)
            if low == 0:
                inequalities.append(P.shift(diff, -1))
            elif high == 0:
                inequalities.append(P.shift(opposite, -1))
            elif P.terms(diff):
                ctx.assumed.nonzero += (reduced(diff),)
    elif isinstance(condition, PrimExpr) and condition.dtype.is_bool:
        ctx.assumed.truths.add((ctx.keys.of(ctx.simplified(condition)), holds))


def learn(ctx: Context, p: Poly) -> None:
    """Record p >= 0: as a bound if it concerns one atom, else as a fact."""
    if ctx.assumed.nonzero and is_zero(ctx, p) is False:
        p = P.shift(p, -1)
    ctx.examples.claims.append(p)
    p = tightened(ctx, p)
    bounds = ctx.assumed.bounds
    pairs = [(m, f) for m, f in p.items() if m != ONE]
    if len(pairs) == 1 and len(pairs[0][0]) == 1:
        (m, f), k = pairs[0], p.get(ONE, 0)
        low, high = bounds.get(m[0]) or natural_bound(ctx, ctx.atoms.all[m[0]])
        if f > 0:  # f x + k >= 0: x >= ceil(-k / f)
            low = max(low, -(k // f))
        else:
            high = min(high, k // -f)
        bounds[m[0]] = (low, high)
        return
    if len(pairs) == 1 and pairs[0][1] > 0 and p.get(ONE, 0) < 0:
        _learn_factors(ctx, pairs[0][0])
    ctx.facts.add(p)


def _learn_factors(ctx: Context, product: Monomial) -> None:
    """If a product of non-negative factors is positive, so is each factor."""
    if all(poly_bound(ctx, {(a,): 1})[0] >= 0 for a in product):
        bounds = ctx.assumed.bounds
        for a in product:
            low, high = bounds.get(a) or natural_bound(ctx, ctx.atoms.all[a])
            bounds[a] = (max(low, 1), high)


def _learn_modular(ctx: Context, diff: Poly) -> None:
    """From x - c * (x // c) == b, or truncmod(x, c) == b: x is c * k + b."""
    residue = _remainder_of(ctx, diff)
    if residue is None:
        return
    value, c, rest = residue
    if P.terms(value) != 1:
        return
    ((m, f),) = [(m, f) for m, f in value.items() if m]
    if f in (1, -1) and len(m) == 1:
        residues = ctx.assumed.modular
        new = (c, (rest - value.get(ONE, 0)) * f % c)
        # Residues that exclude each other are of unreachable code.
        residues[m[0]] = both(residues.get(m[0], ANY), new) or new


def _remainder_of(ctx: Context, diff: Poly) -> tuple[Poly, int, int] | None:
    """(x, c, b), where diff == 0 says that x leaves b if it is divided by c."""
    pairing = paired(ctx, diff)
    rest = pairing.rest.get(ONE, 0)
    if len(pairing.mods) != 1 or P.terms(pairing.rest):
        return None
    # x leaves the same of either division where that is not negative, else c less
    scale, factor, value, divisor, _ = pairing.mods[0]
    c = P.constant_value(divisor)
    return None if factor or c is None or rest % scale else (value, c, -rest // scale)


# ------------------------------------------------------------------ variables


def bind_value(ctx: Context, var: Var, value: PrimExpr, seen: bool) -> None:
    """Put a value in the place of a variable; `seen`: the variable had another value."""
    p = poly(ctx, value)
    number = ctx.atoms.of_var(var)
    if any(number in m for m in p):
        return  # the value speaks of the variable itself
    if seen:
        ctx.examples.renew()
    ctx.assumed.values[var] = p


def bind_range(ctx: Context, var: Var, dom: Range, seen: bool) -> None:
    """Let a variable run over a range; `seen`: it was bound before."""
    number = ctx.atoms.of_var(var)
    p: Poly = {(number,): 1}
    ctx.assumed.values[var] = p
    if seen:
        ctx.facts.forget(number)
        ctx.examples.renew()
    low, extent = poly(ctx, dom.min), poly(ctx, dom.extent)
    last = P.shift(P.add(low, extent), -1)
    lowest, highest = poly_bound(ctx, low)[0], poly_bound(ctx, last)[1]
    natural = natural_bound(ctx, ctx.atoms.all[number])
    ctx.assumed.bounds[number] = within((lowest, max(highest, lowest)), natural)
    ctx.cache.products.pop((number,), None)
    ctx.examples.ranges[number] = (low, last)
    ctx.examples.claims.append(P.add(last, low, -1))
    if P.terms(low):
        ctx.facts.add(P.add(p, low, -1))
    if P.terms(last):
        ctx.facts.add(P.add(last, p, -1))


def bind_value_bounds(ctx: Context, var: Var, value: PrimExpr) -> None:
    """Let `var` have the bounds and residues of `value`, without replacing it."""
    if not is_index(var.dtype):
        return
    (m,) = var_poly(ctx, var)
    p = poly(ctx, value)
    ctx.assumed.bounds[m[0]] = within(poly_bound(ctx, p), natural_bound(ctx, ctx.atoms.all[m[0]]))
    ctx.cache.products.pop(m, None)
    ctx.assumed.modular[m[0]] = ctx.modular(p)
    if ctx.atoms.is_data(p):
        ctx.atoms.read.update(m)
    ctx.examples.define(m[0], p)


_NEGATION = {pe.LT: pe.GE, pe.GE: pe.LT, pe.GT: pe.LE, pe.LE: pe.GT, pe.EQ: pe.NE, pe.NE: pe.EQ}
