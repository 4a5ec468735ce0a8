"""Predicates of blocks: what they require beyond the axes' domains, and where a block runs."""

from __future__ import annotations

from collections.abc import Container
from math import prod
from typing import Any

from ....arith.interval import Evaluator
from ....ir.literals import conjuncts
from ....ir.prim_expr import IntImm, PrimExpr, Range, Var
from ....ir.prim_op import const, logical_and
from ....ir.structural import structural_equal
from ....ir.variables import uses_any, vars_in
from .errors import ScheduleError
from .refs import Ref
from .regions import axis_values, interval, loop_domain, loops_between
from .state import ScheduleState


def own_tests(state: ScheduleState, ref: Ref) -> list[PrimExpr]:
    """The conditions of a block's predicate beyond its axes' domains."""
    parts = conjuncts(ref.realize.predicate)
    if not parts:
        return []
    ana = state.analyzer(ref)
    values = axis_values(ref)
    bounds: Any = const(True, "bool")
    for axis in ref.stmt.iter_vars:
        value, dom = values[axis.var], axis.dom
        bounds = logical_and(bounds, value >= dom.min)
        bounds = logical_and(bounds, value < dom.min + dom.extent)
    with ana.constraint_scope(bounds):
        return [part for part in parts if not ana.can_prove(part)]


def tests_around(users: list[Ref], at: Ref) -> list[PrimExpr]:
    """The conditions that the predicates of all the blocks put on `at` and the loops around it:
    where they do not hold none of the blocks runs, and neither may a block that is moved next to
    them (its inputs might not exist)."""
    if at.is_block:
        return []
    around = {at.stmt.loop_var, *(r.stmt.loop_var for r in at.loops())}
    inside = {r.stmt.loop_var for user in users for r in loops_between(user, at)}
    first, *others = [conjuncts(user.realize.predicate) for user in users]
    return [
        test
        for test in first
        if (vars_in(test) & around or not vars_in(test))  # False, of an empty part
        and not vars_in(test) & inside
        and all(any(structural_equal(test, t) for t in other) for other in others)
    ]


def check_runs_everywhere(state: ScheduleState, ref: Ref) -> None:
    """Raise ScheduleError where a block runs over only a part of its axes' domains."""
    if not runs_over(state, ref) or not covers_axes(state, ref):
        what = f"block {ref.stmt.name_hint!r} runs over only a part of its axes' domains"
        hint = "loops over the whole domain, no predicate of its own"
        raise ScheduleError(what, instead=hint, at=ref.node)


def covers_axes(state: ScheduleState, ref: Ref) -> bool:
    """Whether a block has a point for each value of its axes, where no two of its points are one
    and its loops reach both ends of the domains."""
    return not (own_tests(state, ref) or _fewer(ref))


def runs_over(state: ScheduleState, ref: Ref, without: Container[Var] = ()) -> bool:
    """Whether the loops of a block reach both ends of its axes' domains, `without` some axes, and are
    as long whatever the others are."""
    if _is_skewed(ref):
        return False
    loops = {r.stmt.loop_var: r.stmt for r in ref.loops()}
    ana = state.analyzer(ref)
    domain: Any = None
    whole = True
    for axis, value in zip(ref.stmt.iter_vars, ref.realize.iter_values, strict=True):
        dom = axis.dom
        if axis.var in without:
            continue
        loop = loops.get(value) if isinstance(value, Var) else None
        if loop is not None and ana.can_prove_equal(loop.extent, dom.extent):
            whole = whole and ana.can_prove_equal(loop.min, dom.min)
            continue
        if domain is None:
            domain = Evaluator(ana, loop_domain(ref.loops()))
        low, high = interval(
            domain, Range.from_min_extent(value, const(1, value.dtype)), dom.extent
        )
        whole = whole and ana.can_prove(low <= dom.min)
        whole = whole and ana.can_prove(high + 1 >= dom.min + dom.extent)
    return whole


def _is_skewed(ref: Ref) -> bool:
    """Whether how long a loop is depends on a loop that drives another axis."""
    axes = [vars_in(value) for value in ref.realize.iter_values]
    return any(
        uses_any(loop.stmt.range, axis) and loop.stmt.loop_var not in axis
        for loop in ref.loops()
        for axis in axes
    )


def _fewer(ref: Ref) -> bool:
    """Whether the loops that drive a block are known to have fewer iterations than its domain."""
    used = set().union(*map(vars_in, ref.realize.iter_values))
    loops = [r.stmt.extent for r in ref.loops() if r.stmt.loop_var in used]
    domain = [axis.dom.extent for axis in ref.stmt.iter_vars]
    if not all(isinstance(e, IntImm) for e in (*loops, *domain)):
        return False
    return prod(e.value for e in loops) < prod(e.value for e in domain)
