"""Bounds of the union of intervals and of regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...arith.analyzer import Analyzer, IntervalSet
from ...arith.int_set import eval_ranges, union_interval, without_points
from ...arith.interval import is_infinite, is_neg_inf, is_pos_inf
from ...ir import prim_op as po
from ...ir.prim_expr import IntImm, PrimExpr, Range, Var


def _reaches(ana: Analyzer, low: PrimExpr, high: PrimExpr) -> bool:
    """Whether an interval that begins at `low` follows one that ends at `high` without a gap."""
    if is_neg_inf(low) or is_pos_inf(high):
        return True
    return not is_infinite(low) and not is_infinite(high) and ana.can_prove(low <= high + 1)


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet | None:
    """The union of intervals that touch or overlap; disjoint ones are left out."""
    ana = Analyzer()
    total: IntervalSet | None = None
    for one in sets:
        if one.is_nothing():
            total = total or one
        elif total is None or total.is_nothing():
            total = one
        elif _reaches(ana, one.min_value, total.max_value) and _reaches(
            ana, total.min_value, one.max_value
        ):
            total = union_interval(ana, total, one)
    return total


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntervalSet]:
    """For each dimension an interval that contains all points of `region` while the variables
    range over `var_dom` and `predicate` holds."""
    ana = Analyzer(without_points(var_dom))
    with ana.constraint_scope(predicate):
        return [
            _within_bounds(ana, rng, interval)
            for rng, interval in zip(region, eval_ranges(region, var_dom, ana), strict=True)
        ]


def _within_bounds(ana: Analyzer, rng: Range, interval: IntervalSet) -> IntervalSet:
    """The interval of a range within its constant bounds, which respect the assumptions."""
    ends = (rng.min, rng.min + rng.extent - 1)
    bounds = [ana.any_bound(end) for end in ends]
    low, high = interval.min_value, interval.max_value
    if isinstance(low, IntImm) and low.value < bounds[0][0]:
        low = po.const(int(bounds[0][0]), low.dtype)
    if isinstance(high, IntImm) and bounds[1][1] < high.value:
        high = po.const(int(bounds[1][1]), high.dtype)
    return IntervalSet(low, high)
