"""The values that axes take: which loops drive an axis, and whether loops and axes correspond one
to one."""

from __future__ import annotations

from ....arith import Analyzer, IterMapLevel, detect_iter_map
from ....ir import prim_expr as pe
from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.variables import vars_in
from .refs import Ref
from .rewriting import substitute
from .state import ScheduleState


def one_to_one(state: ScheduleState, block: Ref, var: pe.Var) -> bool:
    """Whether two iterations of the loop `var` never give a block the same point, as far as each
    axis alone shows: var is a digit of the mixed-radix number that drives an axis."""
    loops = {ref.stmt.loop_var: ref for ref in block.loops()}
    extents = {v: ref.stmt.extent for v, ref in loops.items()}
    driven = [value for value in block.realize.iter_values if var in vars_in(value)]
    if not any(_is_digit(state.analyzer(block), value, var, extents) for value in driven):
        return False
    return len(driven) > 1 or injective(state, block, [loops[var]])  # one digit alone, of several?


def _is_digit(
    ana: Analyzer, value: pe.PrimExpr, var: pe.Var, loops: dict[pe.Var, pe.PrimExpr]
) -> bool:
    if isinstance(value, (pe.FloorDiv, pe.FloorMod)):
        # a digit of a fused loop: its other digits are in other axes
        return isinstance(value.b, pe.IntImm) or not vars_in(value.b) & set(loops)
    split = linear_terms(value)
    if split is None:
        return False
    factors = [factor for atom, factor in split if atom is var]
    if len(factors) != 1:
        return any(
            isinstance(atom, (pe.FloorDiv, pe.FloorMod)) and var in vars_in(atom)
            for atom, _ in split
        )
    # The terms with smaller factors stay below one step of this one.
    covered = 0
    for atom, factor in split:
        if atom is var:
            continue
        bound = ana.const_int_bound(atom)
        size = abs(factor) * (bound.max_value - bound.min_value)
        if abs(factor) < abs(factors[0]):
            covered += size
        elif abs(factor) == abs(factors[0]):
            return False
        else:
            extent = loops[var]
            if not isinstance(extent, pe.IntImm):
                return False
            covered += 0 if abs(factor) >= abs(factors[0]) * extent.value else size
    return covered < abs(factors[0])


def injective(state: ScheduleState, block: Ref, loops: list[Ref]) -> bool:
    """Whether no two iterations of `loops` (some of those around a block, the inner ones) give the
    block the same point, with the other loops fixed."""
    domain = {r.stmt.loop_var: r.stmt.range for r in loops if not is_one(r.stmt.extent)}
    values = list(block.realize.iter_values)
    if not domain or _plainly_injective(values, domain):
        return True
    moving = set(domain)
    tests = [p for p in conjuncts(block.realize.predicate) if vars_in(p) & moving]
    values = [v for v in values if vars_in(v) & moving]
    ana = state.analyzer(block)
    still = {  # outer loops are symbols; a unit loop is its start
        r.stmt.loop_var: r.stmt.min for r in block.loops() if is_one(r.stmt.extent)
    }
    values = [ana.simplify(substitute(v, still)) for v in values]
    tests = [substitute(t, still) for t in tests]
    return not detect_iter_map(values, domain, conjunction(tests), IterMapLevel.Bijective).errors


def _plainly_injective(values: list[pe.PrimExpr], domain: dict[pe.Var, pe.Range]) -> bool:
    """Whether each loop is one digit of one axis: a quick check that fails on fused loops."""
    seen: set[pe.Var] = set()
    for value in values:
        terms = linear_terms(value)
        if terms is None:
            return False
        digits = [(abs(f), a) for a, f in terms if isinstance(a, pe.Var) and a in domain]
        if any(atom not in domain and vars_in(atom) & set(domain) for atom, _ in terms):
            return False
        covered = 1
        for n, (factor, atom) in enumerate(sorted(digits, key=lambda item: item[0])):
            if atom in seen or factor < covered:
                return False
            seen.add(atom)
            extent = domain[atom].extent
            if isinstance(extent, pe.IntImm):
                covered += factor * (extent.value - 1)
            elif n + 1 < len(digits):
                return False
    return len(seen) == len(domain)


def linear_terms(expr: pe.PrimExpr) -> list[tuple[pe.PrimExpr, int]] | None:
    """(atom, factor) pairs of a sum with constant factors, without the constant; None where a
    product of two variables occurs."""
    if isinstance(expr, pe.IntImm):
        return []
    if isinstance(expr, (pe.Add, pe.Sub)):
        a, b = linear_terms(expr.a), linear_terms(expr.b)
        if a is None or b is None:
            return None
        sign = 1 if isinstance(expr, pe.Add) else -1
        return a + [(atom, sign * factor) for atom, factor in b]
    if isinstance(expr, pe.Mul):
        for a, b in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(b, pe.IntImm):
                inner = linear_terms(a)
                return None if inner is None else [(x, f * b.value) for x, f in inner]
        return None
    return [(expr, 1)]


def driven(block: Ref) -> tuple[set[pe.Var], set[pe.Var]]:
    """The loop variables that drive spatial axes, and those that drive others."""
    spatial: set[pe.Var] = set()
    other: set[pe.Var] = set()
    for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True):
        (spatial if axis.iter_type == pe.IterVar.DataPar else other).update(vars_in(value))
    return spatial, other
