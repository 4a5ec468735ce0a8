"""The values that axes take: which loops drive an axis, and whether loops and axes correspond one
to one."""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import Add, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Sub, Var
from .rewrite import vars_in
from .state import Ref


def one_to_one(sch: Any, block: Ref, var: Var) -> bool:
    """Whether two iterations of the loop `var` never give a block the same point, as far as that
    is seen from each axis alone: var takes part in an axis as a digit of a mixed radix number."""
    loops = {ref.stmt.loop_var: ref.stmt.extent for ref in block.loops()}
    for value in block.realize.iter_values:
        if var in vars_in(value) and _is_digit(sch.state.analyzer(block), value, var, loops):
            return True
    return False


def _is_digit(ana: Any, value: PrimExpr, var: Var, loops: dict[Var, PrimExpr]) -> bool:
    if isinstance(value, (FloorDiv, FloorMod)):
        # a digit of a fused loop: its other digits are in other axes
        return isinstance(value.b, IntImm) or not vars_in(value.b) & set(loops)
    split = linear_terms(value)
    if split is None:
        return False
    mine = [factor for atom, factor in split if atom is var]
    if len(mine) != 1:
        return any(
            isinstance(atom, (FloorDiv, FloorMod)) and var in vars_in(atom) for atom, _ in split
        )
    # The terms with smaller factors stay below one step of this one.
    reach = 0
    for atom, factor in split:
        if atom is var:
            continue
        bound = ana.const_int_bound(atom)
        size = abs(factor) * (bound.max_value - bound.min_value)
        if abs(factor) < abs(mine[0]):
            reach += size
        elif abs(factor) == abs(mine[0]):
            return False
        else:
            extent = loops[var]
            if not isinstance(extent, IntImm):
                return False
            reach += 0 if abs(factor) >= abs(mine[0]) * extent.value else size
    return reach < abs(mine[0])


def linear_terms(expr: PrimExpr) -> list[tuple[PrimExpr, int]] | None:
    """(atom, factor) pairs of a sum with constant factors, without the constant; None where a
    product of two unknowns occurs."""
    if isinstance(expr, IntImm):
        return []
    if isinstance(expr, (Add, Sub)):
        a, b = linear_terms(expr.a), linear_terms(expr.b)
        if a is None or b is None:
            return None
        sign = 1 if isinstance(expr, Add) else -1
        return a + [(atom, sign * factor) for atom, factor in b]
    if isinstance(expr, Mul):
        for a, b in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(b, IntImm):
                inner = linear_terms(a)
                return None if inner is None else [(x, f * b.value) for x, f in inner]
        return None
    return [(expr, 1)]


def axis_kinds(block: Ref, var: Var) -> set[int]:
    """The kinds of axes that a loop drives."""
    return {
        axis.iter_type
        for axis, value in zip(block.stmt.iter_vars, block.realize.iter_values, strict=True)
        if var in vars_in(value)
    }
