"""Integer sets: intervals of expressions over ranges of variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir import prim_op as po
from ..ir.literals import is_true
from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from . import poly as P
from .analyzer import Analyzer, IntervalSet, interval_set
from .interval import Evaluator, is_infinite
from .iter_affine_map import detect_iter_map


def eval_set(expr: PrimExpr, domain: Mapping[Var, Any], ana: Analyzer | None = None) -> IntervalSet:
    """The interval of `expr` where each variable of `domain` (a Range, an IntervalSet or one
    value) ranges over its set; other variables are kept symbolic."""
    return (ana or Analyzer()).int_set(expr, domain)


def eval_ranges(
    ranges: Iterable[Range], domain: Mapping[Var, Any], ana: Analyzer | None = None
) -> list[IntervalSet]:
    """For each range (begin and extent may depend on the domain): the interval of its union."""
    ana = ana or Analyzer()
    evaluator = Evaluator(ana, domain)
    intervals = []
    for rng in ranges:
        dtype = evaluator.dtype = rng.min.dtype
        first = ana.poly(rng.min)
        low = evaluator.ends(first)[0]
        last = P.shift(P.add(first, ana.poly(rng.extent)), -1)
        intervals.append(interval_set(ana, low, evaluator.ends(last)[1], dtype))
    return intervals


def hull(
    ana: Analyzer, a: tuple[PrimExpr, PrimExpr], b: tuple[PrimExpr, PrimExpr]
) -> tuple[PrimExpr, PrimExpr]:
    """(least, greatest) value of the shortest interval that contains both, given as such."""
    return _extreme(ana, po.minimum, a[0], b[0]), _extreme(ana, po.maximum, a[1], b[1])


def _extreme(ana: Analyzer, pick: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_infinite(a) or is_infinite(b):
        return a if is_infinite(a) else b
    return a if not P.add(ana.poly(a), ana.poly(b), -1) else ana.simplify(pick(a, b))


def union_interval(ana: Analyzer, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The shortest interval that contains both."""
    return IntervalSet(*hull(ana, (a.min_value, a.max_value), (b.min_value, b.max_value)))


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet | None:
    """The union of intervals that touch or overlap; disjoint ones are left out."""
    ana = Analyzer()
    total: IntervalSet | None = None
    for one in sets:
        if total is None:
            total = one
        elif ana.can_prove(one.min_value <= total.max_value + 1) and ana.can_prove(
            total.min_value <= one.max_value + 1
        ):
            total = union_interval(ana, total, one)
    return total


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet]:
    """For each dimension an interval that contains all points of `region` while the variables
    range over `var_dom` and `predicate` holds."""
    ana = Analyzer(_without_points(var_dom))
    return eval_ranges(region, var_dom, ana)


def _without_points(var_dom: Mapping[Var, Range]) -> dict[Var, Range]:
    """Variables with a single value are kept symbolic."""
    return {
        v: r for v, r in var_dom.items() if not isinstance(r.extent, IntImm) or r.extent.value != 1
    }


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Like `estimate_region_upper_bound`, but None unless the intervals contain exactly the
    accessed
    points: each dimension is dense over variables of its own."""
    ana = Analyzer(_without_points(var_dom))
    always = po.convert(predicate)
    if not is_true(always):
        return None
    used: set[int] = set()
    for rng in region:
        if not _dense(ana, rng, var_dom, used):
            return None
    return eval_ranges(region, var_dom, ana)


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Intervals whose points are all accessed, or None if none are known."""
    exact = estimate_region_strict_bound(region, var_dom, predicate)
    return _by_iter_map(region, var_dom, predicate) if exact is None else exact


def _by_iter_map(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any
) -> list[IntervalSet] | None:
    """The interval of each dimension, whose least indices run over splits of iterators that no other
    dimension uses; its extent bridges the smallest scale."""
    found = detect_iter_map([r.min for r in region], var_dom, predicate)
    if found.errors:
        return None
    ana = Analyzer(_without_points(var_dom))
    sets = []
    for rng, index in zip(region, found.indices, strict=True):
        first, reach = ana.poly(index.base), ana.poly(rng.extent)
        for split in reversed(index.args):
            scale = ana.poly(split.scale)
            if not ana.nonneg(P.add(reach, scale, -1)) or not ana.nonneg(scale):
                return None
            reach = P.add(reach, P.multiply(scale, P.shift(ana.poly(split.extent), -1)))
        if Evaluator(ana, var_dom).involved(reach):
            return None
        last = P.shift(P.add(first, reach), -1)
        sets.append(interval_set(ana, first, last, rng.min.dtype))
    return sets


def _dense(ana: Analyzer, rng: Range, var_dom: Mapping[Var, Range], used: set[int]) -> bool:
    """Whether begin + 0 .. extent covers every value between its ends."""
    numbers = {ana.atoms.of_var(v): v for v in var_dom}
    reach = ana.poly(rng.extent)  # length covered without a gap so far
    evaluator = Evaluator(ana, var_dom)
    if evaluator.involved(reach):
        return False
    steps = []
    for m, f in ana.poly(rng.min).items():
        inside = [a for a in m if a in numbers]
        if not inside:
            if evaluator.involved({m: f}):
                return False
            continue
        if len(m) != 1 or m[0] in used:
            return False
        used.add(m[0])
        steps.append((abs(f), ana.poly(var_dom[numbers[m[0]]].extent)))
    for step, extent in sorted(steps, key=lambda s: s[0]):
        if not ana.nonneg(P.shift(reach, -step)):
            return False
        reach = P.add(reach, P.shift(extent, -1), step)
    return True
