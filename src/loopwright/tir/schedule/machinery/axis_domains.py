"""Which values of a block's axes produce a box of a buffer, or can be computed from it."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer, IterMapLevel, detect_iter_map, eval_set, inverse_affine_iter_map
from ....arith.int_set import IntervalSet, hull
from ....arith.interval import is_infinite
from ....ir.literals import int_value, is_one
from ....ir.prim_expr import FloorDiv, IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, cast, const, floordiv, maximum, minimum, multiply, subtract
from ....ir.variables import vars_in
from ...buffer import BufferRegion
from ...stmt import Block
from .axis_bindings import linear_terms
from .regions import Box

Span = tuple[PrimExpr, PrimExpr]  # least and greatest value, both included


def solve_axes(
    ana: Analyzer, region: BufferRegion, box: Box, block: Block, *, touching: bool
) -> dict[Var, Span]:
    """The values of axes for which a region touches the box (or, not `touching`, is inside it): of
    axes that alone index a dimension, and of those that together are one to one with the
    dimensions. Other axes are left out."""
    spans: dict[Var, Span] = {}
    axes = {axis.var for axis in block.iter_vars}
    for r, (low, high) in zip(region.region, box, strict=True):
        solved = _solve(r, low, high, axes, touching)
        if solved is None:
            continue
        var, least, most = solved
        if var in spans:
            least = maximum(least, spans[var][0])
            most = minimum(most, spans[var][1])
        spans[var] = (least, most)
    moving = vars_in([r.min for r in region.region]) & axes
    if not moving <= set(spans) and all(is_one(r.extent) for r in region.region):
        doms = {axis.var: axis.dom for axis in block.iter_vars if axis.var in moving}
        for var, span in _inverse(ana, [r.min for r in region.region], box, doms).items():
            spans.setdefault(var, span)
    return {v: (ana.simplify(a), ana.simplify(b)) for v, (a, b) in spans.items()}


def _inverse(
    ana: Analyzer, indices: list[PrimExpr], box: Box, doms: dict[Var, Range]
) -> dict[Var, Span]:
    """The bounds of the axes for which indices that are one to one with them are in a box."""
    detected = detect_iter_map(indices, doms, check_level=IterMapLevel.Bijective)
    if detected.errors:
        return {}
    points = [Var(f"d{n}", index.dtype) for n, index in enumerate(indices)]
    ranges: dict[Var, Any] = {p: IntervalSet(*ends) for p, ends in zip(points, box, strict=True)}
    spans: dict[Var, Span] = {}
    for var, value in inverse_affine_iter_map(detected.indices, points).items():
        ends = eval_set(value, ranges, ana)
        if not (is_infinite(ends.min_value) or is_infinite(ends.max_value)):
            spans[var] = ends.min_value, ends.max_value
    return spans


def _solve(
    r: Range, low: PrimExpr, high: PrimExpr, axes: set[Var], touching: bool
) -> tuple[Var, PrimExpr, PrimExpr] | None:
    """The range of an axis v where r = [a v + c, a v + c + extent) meets low..high."""
    begin, extent = r.min, r.extent
    if vars_in(extent) & axes:
        return None
    last = subtract(extent, 1)
    low, high = (subtract(low, last), high) if touching else (low, subtract(high, last))
    if isinstance(begin, FloorDiv) and isinstance(begin.b, IntImm) and isinstance(begin.a, Var):
        if begin.a in axes and begin.b.value > 0:  # v // c in low..high
            c = begin.b
            return begin.a, multiply(low, c), add(multiply(high, c), c.value - 1)
        return None
    moving = vars_in(begin) & axes
    if len(moving) != 1:
        return None
    (var,) = moving
    terms = linear_terms(begin)
    if terms is None:
        return None
    factors = [f for atom, f in terms if atom is var]
    if len(factors) != 1 or any(atom is not var and var in vars_in(atom) for atom, _ in terms):
        return None
    a = factors[0]
    if a == 0:
        return None
    rest = subtract(begin, multiply(var, a)) if a != 1 or begin is not var else const(0, var.dtype)
    least, most = subtract(low, rest), subtract(high, rest)
    if a < 0:
        a, least, most = -a, subtract(0, most), subtract(0, least)
    if a == 1:
        return var, least, most
    return (
        var,
        floordiv(add(least, a - 1), const(a, var.dtype)),
        floordiv(most, const(a, var.dtype)),
    )


def union_spans(ana: Analyzer, a: dict[Var, Span] | None, b: dict[Var, Span]) -> dict[Var, Span]:
    """Spans that contain both; an axis that either leaves unrestricted is left out."""
    if a is None:
        return b
    return {v: hull(ana, a[v], b[v]) for v in a if v in b}


class AxisLoop:
    """The loop for an axis: its variable (None: the single value `low`), where it starts and
    its extent, and the tests that keep the axis in its domain."""

    __slots__ = ("extent", "tests", "value", "var")

    def __init__(
        self, var: Var | None, extent: PrimExpr, value: PrimExpr, tests: list[PrimExpr]
    ) -> None:
        self.var, self.extent, self.value, self.tests = var, extent, value, tests


def axis_loop(
    ana: Analyzer, axis: IterVar, span: Span | None, name: str, keep_unit: bool, exact: bool = False
) -> AxisLoop:
    """The loop for an axis that takes the values of `span` (None: its whole domain). exact: those
    only, even where a loop over the whole domain is shorter."""
    dom = axis.dom
    dtype = axis.var.dtype
    low, extent = dom.min, dom.extent
    end = ana.simplify(add(dom.min, dom.extent))
    clipped = True
    if span is not None:
        first, after = (cast(dtype, e) for e in (span[0], add(span[1], 1)))
        size: PrimExpr | None = ana.simplify(subtract(after, first))
        inner = dom.min if ana.can_prove(first <= dom.min) else first
        outer = end if ana.can_prove(after >= end) else after
        inside = ana.simplify(subtract(outer, inner))
        if isinstance(inside, IntImm) or not isinstance(size, IntImm):
            first, after, size = inner, outer, inside
        assert size is not None
        if not exact or (first is dom.min and after is end):
            size = _tidy_extent(ana, size, dom.extent)
        if size is not None:
            low, extent, clipped = first, size, False
    unit = is_one(extent)
    if unit and not keep_unit:
        var, value = None, low
    else:
        var = Var(name, dtype)
        begin = int_value(low)
        value = var if begin == 0 else add(low, var) if begin is None else add(var, begin)
    tests: list[PrimExpr] = []
    if not clipped:
        tested, offset = _without_constant(ana, ana.simplify(low) if unit else value)
        if not ana.can_prove(low >= dom.min):
            tests.append(ana.simplify(subtract(dom.min, offset)) <= tested)
        if not ana.can_prove(add(low, extent) <= end):
            tests.append(tested < ana.simplify(subtract(end, offset)))
    return AxisLoop(var, extent, value, tests)


def _without_constant(ana: Analyzer, value: PrimExpr) -> tuple[PrimExpr, int]:
    """(a sum without its constant, the constant)"""
    constant = ana.poly(value).get((), 0)
    return (ana.simplify(subtract(value, constant)), constant) if constant else (value, 0)


def _tidy_extent(ana: Analyzer, size: PrimExpr, whole: PrimExpr) -> PrimExpr | None:
    """The extent to loop over; None where the whole domain is not longer."""
    if isinstance(size, IntImm):
        if isinstance(whole, IntImm) and size.value >= whole.value:
            return None
        return size
    if ana.can_prove(size >= whole):
        return None
    bound = ana.const_int_bound(size)
    if isinstance(whole, IntImm):
        if bound.max_value >= whole.value:
            return None if bound.min_value >= whole.value else size
    if 0 < bound.max_value < (1 << 31) and vars_in(size):
        return const(bound.max_value, size.dtype)
    return size
