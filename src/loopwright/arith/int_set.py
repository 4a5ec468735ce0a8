"""Integer sets: intervals of expressions over ranges of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir import prim_op as po
from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from . import poly as P
from .analyzer import Analyzer, IntervalSet, interval_set
from .interval import Evaluator, is_infinite
from .iter_affine_map import detect_iter_map
from .iter_map_node import IterSumExpr


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
        first = ana.ring(rng.min)
        low = evaluator.ends(first)[0]
        last = P.shift(P.add(first, ana.ring(rng.extent)), -1)
        intervals.append(interval_set(ana, low, evaluator.ends(last)[1], dtype))
    return intervals


def hull(
    ana: Analyzer, a: tuple[PrimExpr, PrimExpr], b: tuple[PrimExpr, PrimExpr]
) -> tuple[PrimExpr, PrimExpr]:
    """(least, greatest) value of the shortest interval that contains both, given as such."""
    return _extreme(ana, po.minimum, a[0], b[0]), _extreme(ana, po.maximum, a[1], b[1])


def _extreme(ana: Analyzer, pick: Callable[..., Any], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if is_infinite(a) or is_infinite(b):
        return a if is_infinite(a) else b
    return a if not P.add(ana.ring(a), ana.ring(b), -1) else ana.simplify(pick(a, b))


def union_interval(ana: Analyzer, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The shortest interval that contains both."""
    return IntervalSet(*hull(ana, (a.min_value, a.max_value), (b.min_value, b.max_value)))


def without_points(var_dom: Mapping[Var, Range]) -> dict[Var, Range]:
    """Variables with a single value are kept symbolic."""
    return {
        v: r for v, r in var_dom.items() if not isinstance(r.extent, IntImm) or r.extent.value != 1
    }


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntervalSet] | None:
    """Like `estimate_region_upper_bound`, but None unless the intervals contain exactly the
    accessed points: each dimension is dense over parts of the iterators of its own."""
    iters = without_points(var_dom)
    detected = detect_iter_map([rng.min for rng in region], iters, predicate)
    if detected.errors:
        return None
    ana = Analyzer(iters)
    intervals = [_dense(ana, rng, sums) for rng, sums in zip(region, detected.indices, strict=True)]
    return None if None in intervals else [i for i in intervals if i is not None]


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: PrimExpr | bool = True
) -> list[IntervalSet] | None:
    """Intervals whose points are all accessed, or None if none are known."""
    return estimate_region_strict_bound(region, var_dom, predicate)


def _dense(ana: Analyzer, rng: Range, sums: IterSumExpr) -> IntervalSet | None:
    """The interval of a sum of splits plus 0 .. extent, None where it has gaps."""
    covered = ana.ring(rng.extent)  # length covered without a gap so far
    if Evaluator(ana, dict.fromkeys(ana.assumed.values, 0)).involved(covered):
        return None
    low = ana.ring(sums.base)
    for split in reversed(sums.args):  # the largest scale comes first
        scale, extent = ana.ring(split.scale), ana.ring(split.extent)
        last = P.multiply(scale, P.shift(extent, -1))
        if not ana.nonneg(scale):
            low = P.add(low, last)
            scale, last = P.scaled(scale, -1), P.scaled(last, -1)
        if not ana.nonneg(scale) or not ana.nonneg(P.add(covered, scale, -1)):
            return None
        covered = P.add(covered, last)
    return interval_set(ana, low, P.shift(P.add(low, covered), -1), rng.min.dtype)
