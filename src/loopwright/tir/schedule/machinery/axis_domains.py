"""Which values of a block's axes produce a box of a buffer, or can be computed from it."""

from __future__ import annotations

from ....arith import Analyzer
from ....arith.int_set import hull
from ....ir.literals import int_value, is_one
from ....ir.prim_expr import FloorDiv, IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, cast, const, floordiv, maximum, minimum, multiply, subtract
from ....ir.variables import vars_in
from ...buffer import BufferRegion
from .axis_bindings import linear_terms
from .regions import Box

Span = tuple[PrimExpr, PrimExpr]  # least and greatest value, both included


def solve_axes(
    ana: Analyzer, region: BufferRegion, box: Box, axes: set[Var], *, touching: bool
) -> dict[Var, Span]:
    """For axes that alone index a dimension of `region`: the values for which that dimension
    touches the box (or, not `touching`, lies inside it). Other axes are left out."""
    spans: dict[Var, Span] = {}
    for r, (low, high) in zip(region.region, box, strict=True):
        solved = _solve(r, low, high, axes, touching)
        if solved is None:
            continue
        var, least, most = solved
        if var in spans:
            least = maximum(least, spans[var][0])
            most = minimum(most, spans[var][1])
        spans[var] = (least, most)
    return {v: (ana.simplify(a), ana.simplify(b)) for v, (a, b) in spans.items()}


def _solve(
    r: Range, low: PrimExpr, high: PrimExpr, axes: set[Var], touching: bool
) -> tuple[Var, PrimExpr, PrimExpr] | None:
    """The range of an axis v where r = [a v + c, a v + c + extent) meets low..high."""
    begin, extent = r.min, r.extent
    if isinstance(begin, FloorDiv) and isinstance(begin.b, IntImm) and isinstance(begin.a, Var):
        if begin.a in axes and begin.b.value > 0:  # v // c in low..high
            c = begin.b
            return begin.a, multiply(low, c), add(multiply(high, c), c.value - 1)
        return None
    moving = vars_in(begin) & axes
    if len(moving) != 1 or vars_in(extent) & axes:
        return None
    (var,) = moving
    terms = linear_terms(begin)
    if terms is None:
        return None
    mine = [f for atom, f in terms if atom is var]
    if len(mine) != 1 or any(atom is not var and var in vars_in(atom) for atom, _ in terms):
        return None
    a = mine[0]
    if a <= 0:
        return None
    rest = subtract(begin, multiply(var, a)) if a != 1 or begin is not var else const(0, var.dtype)
    last = subtract(extent, 1)
    least, most = subtract(low, rest), subtract(high, rest)
    if touching:
        least = subtract(least, last)
    else:
        most = subtract(most, last)
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
    ana: Analyzer, axis: IterVar, span: Span | None, name: str, keep_unit: bool
) -> AxisLoop:
    """The loop for an axis that takes the values of `span` (None: its whole domain)."""
    dom = axis.dom
    dtype = axis.var.dtype
    low, extent = dom.min, dom.extent
    clipped = True
    if span is not None:
        first, last = (cast(dtype, e) for e in span)
        size = ana.simplify(subtract(add(last, 1), first))
        size = _tidy_extent(ana, size, dom.extent)
        if size is not None:
            low, extent, clipped = first, size, False
    unit = is_one(extent)
    if unit and not keep_unit:
        var, value = None, low
    else:
        var = Var(name, dtype)
        value = ana.simplify(add(low, var)) if int_value(low) != 0 else var
    tests: list[PrimExpr] = []
    if not clipped:
        end = add(dom.min, dom.extent)
        if not ana.can_prove(low >= dom.min):
            tests.append(dom.min <= value)
        if not ana.can_prove(add(low, extent) <= end):
            tests.append(value < end)
    return AxisLoop(var, extent, value, tests)


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
