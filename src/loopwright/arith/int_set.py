"""Integer sets: intervals with symbolic ends, of expressions over ranges of variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..ir import prim_op as po
from ..ir.dtype import DataType
from ..ir.node import Node
from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from . import poly as P
from .analyzer import Analyzer
from .poly import DIV, MAX, MIN, VAR, Poly

Ends = tuple[Poly | None, Poly | None]  # None: no bound
_UNBOUNDED: Ends = (None, None)


class IntSet(Node):
    """Root of integer sets."""

    __slots__ = ()

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty."""
        return False

    def is_everything(self) -> bool:
        """Whether the set has no bound."""
        return False

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set of one value."""
        point = po.convert(point)
        return IntervalSet(point, point)

    @staticmethod
    def vector(vec: Any) -> IntervalSet:
        """The values of a ramp."""
        last = vec.base + vec.stride * (vec.lanes - 1)
        return IntervalSet(po.minimum(vec.base, last), po.maximum(vec.base, last))


class IntervalSet(IntSet):
    """min_value .. max_value, both included; an end may be `pos_inf()` or `neg_inf()`."""

    min_value: PrimExpr
    max_value: PrimExpr

    def __init__(self, min_value: Any, max_value: Any, span: Any = None) -> None:
        self._set(po.convert(min_value), po.convert(max_value), span)

    def is_nothing(self) -> bool:
        if not self._finite():
            return is_pos_inf(self.min_value) or is_neg_inf(self.max_value)
        return Analyzer().can_prove(self.max_value < self.min_value)

    def is_everything(self) -> bool:
        return is_neg_inf(self.min_value) and is_pos_inf(self.max_value)

    def _finite(self) -> bool:
        return not (is_infinite(self.min_value) or is_infinite(self.max_value))

    def has_lower_bound(self) -> bool:
        """Whether there is a least value."""
        return not is_infinite(self.min_value)

    def has_upper_bound(self) -> bool:
        """Whether there is a greatest value."""
        return not is_infinite(self.max_value)

    def cover_range(self, max_range: Range | None = None) -> Range:
        """The range of the interval; `max_range` where it is unbounded."""
        if not self._finite():
            if max_range is None:
                raise ValueError("an unbounded set has no range; give max_range")
            return max_range
        ana = Analyzer()
        extent = ana.simplify(self.max_value - self.min_value + 1)
        return Range.from_min_extent(self.min_value, extent)


_POS, _NEG = Var("pos_inf", "handle"), Var("neg_inf", "handle")


def pos_inf() -> PrimExpr:
    """The end of a set without a greatest value."""
    return _POS


def neg_inf() -> PrimExpr:
    """The end of a set without a least value."""
    return _NEG


def nothing() -> IntervalSet:
    """The empty set."""
    return IntervalSet(_POS, _NEG)


def is_pos_inf(e: Any) -> bool:
    """Whether `e` is `pos_inf()`."""
    return e is _POS


def is_neg_inf(e: Any) -> bool:
    """Whether `e` is `neg_inf()`."""
    return e is _NEG


def is_infinite(e: Any) -> bool:
    """Whether `e` is one of the infinities."""
    return e is _POS or e is _NEG


class Evaluator:
    """Intervals of polynomials: variables of `domain` run over their sets, others stand."""

    def __init__(self, ana: Analyzer, domain: Mapping[Var, Any]) -> None:
        self.ana = ana
        self.atoms: dict[int, Ends] = {}
        self.depends: dict[int, bool] = {}
        for var, dom in domain.items():
            ((number,),) = ana._atom(var, VAR, var.dtype, var)
            self.atoms[number] = self._domain(dom)

    def _domain(self, dom: Any) -> Ends:
        ana = self.ana
        if isinstance(dom, Range):
            low = ana.poly(dom.min)
            return low, P.shift(P.add(low, ana.poly(dom.extent)), -1)
        if isinstance(dom, IntervalSet):
            ends = (dom.min_value, dom.max_value)
            low, high = (None if is_infinite(e) else ana.poly(e) for e in ends)
            return low, high
        point = ana.poly(po.convert(dom))
        return point, point

    def involved(self, p: Poly) -> bool:
        """Whether p speaks of a variable of the domain."""
        return any(self._atom_involved(a) for m in p for a in m)

    def _atom_involved(self, number: int) -> bool:
        found = self.depends.get(number)
        if found is None:
            atom = self.ana._atoms[number]
            if number in self.atoms:
                found = True
            elif atom.kind in (DIV, MIN, MAX):
                found = any(map(self.involved, atom.data))
            elif atom.kind == VAR:
                found = False
            else:
                found = self._mentions(atom.expr)
            self.depends[number] = found
        return found

    def _mentions(self, e: Any) -> bool:
        if isinstance(e, Var):
            ((number,),) = self.ana._atom(e, VAR, e.dtype, e)
            return number in self.atoms
        return any(map(self._mentions, e.children())) if isinstance(e, Node) else False

    def ends(self, p: Poly) -> Ends:
        """(least, greatest) of p."""
        if not self.involved(p):
            return p, p
        pairing = self.ana.paired(p)
        low: Poly | None = P.ZERO
        high: Poly | None = P.ZERO
        for m, f in pairing.rest.items():
            low, high = _plus((low, high), self._scaled(self._product(m), P.constant(f)))
        for scale, factor, value, divisor in pairing.mods:
            part = self._remainder(value, divisor)
            if factor:
                if self.involved({factor: 1}) or part == _UNBOUNDED:
                    return self._constant_ends(p)
                part = self._scaled(part, {factor: 1})
            low, high = _plus((low, high), self._scaled(part, P.constant(scale)))
        if low is None or high is None:
            known = self._constant_ends(p)
            low = known[0] if low is None else low
            high = known[1] if high is None else high
        return low, high

    def _constant_ends(self, p: Poly) -> Ends:
        """From the bounds the analyzer knows; sound only for variables it was told of."""
        if any(self._unbound(a) for m in p for a in m):
            return _UNBOUNDED
        low, high = self.ana.poly_bound(p)
        inf = float("inf")
        return (
            None if low == -inf else P.constant(int(low)),
            None if high == inf else P.constant(int(high)),
        )

    def _unbound(self, number: int) -> bool:
        """Whether an atom stands on a domain variable the analyzer has no range for."""
        atom = self.ana._atoms[number]
        if number in self.atoms:
            return number not in self.ana._known
        if atom.kind in (DIV, MIN, MAX):
            return any(self._unbound(a) for p in atom.data for m in p for a in m)
        return self._atom_involved(number)

    def _product(self, m: Any) -> Ends:
        moving = [a for a in m if self._atom_involved(a)]
        still = tuple(a for a in m if a not in moving)
        if not moving:
            return {m: 1}, {m: 1}
        if len(moving) > 1:
            return _UNBOUNDED
        return self._scaled(self._atom_ends(moving[0]), {still: 1})

    def _scaled(self, ends: Ends, by: Poly) -> Ends:
        low, high = ends
        b0, b1 = self.ana.poly_bound(by)
        if b0 < 0 < b1:
            return _UNBOUNDED
        low, high = (None if e is None else P.multiply(e, by) for e in (low, high))
        return (low, high) if b0 >= 0 else (high, low)

    def _atom_ends(self, number: int) -> Ends:
        known = self.atoms.get(number)
        if known is not None:
            return known
        atom = self.ana._atoms[number]
        if atom.kind == DIV:
            return self._quotient(*atom.data, atom.dtype)
        if atom.kind in (MIN, MAX):
            (a0, a1), (b0, b1) = map(self.ends, atom.data)
            return self._extreme(atom.kind, a0, b0, True), self._extreme(atom.kind, a1, b1, False)
        low, high = self.ana.expr_bound(atom.expr) if not self._unbound(number) else (None, None)
        inf = float("inf")
        return (
            None if low is None or low == -inf else P.constant(int(low)),
            None if high is None or high == inf else P.constant(int(high)),
        )

    def _extreme(self, kind: int, a: Poly | None, b: Poly | None, lower: bool) -> Poly | None:
        if a is None or b is None:
            # min(a, b) <= b even where a is unknown; max(a, b) >= b.
            helps = (kind == MIN) != lower
            return (a if b is None else b) if helps else None
        return self.ana.poly_extreme(kind, a, b, self.dtype)

    dtype = DataType("int32")

    def _quotient(self, n: Poly, d: Poly, dtype: Any) -> Ends:
        if self.involved(d) or self.ana.poly_bound(d)[0] <= 0:
            return _UNBOUNDED
        low, high = self.ends(n)
        return (
            None if low is None else self.ana.poly_div(low, d, dtype),
            None if high is None else self.ana.poly_div(high, d, dtype),
        )

    def _remainder(self, value: Poly, divisor: Poly) -> Ends:
        if self.involved(divisor):
            return _UNBOUNDED
        low, high = self.ends(value)
        c = P.constant_value(divisor)
        if low is not None and high is not None:
            q0 = self.ana.poly_div(low, divisor, self.dtype)
            q1 = self.ana.poly_div(high, divisor, self.dtype)
            if q0 is not None and q1 is not None and not P.add(q0, q1, -1):
                back = P.multiply(divisor, q0)
                return P.add(low, back, -1), P.add(high, back, -1)
        if self.ana.poly_bound(divisor)[0] <= 0:
            return _UNBOUNDED
        last = P.shift(divisor, -1) if c is None else P.constant(c - 1)
        if low is not None and high is not None and self.ana.poly_bound(low)[0] >= 0:
            if self.ana.nonneg(P.add(last, high, -1)):
                last = high
        return P.ZERO, last


def _plus(a: Ends, b: Ends) -> Ends:
    low = None if a[0] is None or b[0] is None else P.add(a[0], b[0])
    high = None if a[1] is None or b[1] is None else P.add(a[1], b[1])
    return low, high


def eval_set(expr: PrimExpr, domain: Mapping[Var, Any], ana: Analyzer | None = None) -> IntervalSet:
    """The interval of `expr` where each variable of `domain` (a Range, an IntervalSet or one
    value) runs over its set; other variables stand for themselves."""
    ana = ana or Analyzer()
    evaluator = Evaluator(ana, domain)
    evaluator.dtype = expr.dtype
    low, high = evaluator.ends(ana.poly(expr))
    return IntervalSet(_end(ana, low, expr.dtype, _NEG), _end(ana, high, expr.dtype, _POS))


def _end(ana: Analyzer, p: Poly | None, dtype: Any, unbounded: PrimExpr) -> PrimExpr:
    if p is None:
        return unbounded
    try:
        return ana.build(p, dtype)
    except ValueError:  # a bound that the type does not hold is none
        return unbounded


def eval_ranges(
    ranges: Iterable[Range], domain: Mapping[Var, Any], ana: Analyzer | None = None
) -> list[IntervalSet]:
    """For each range (begin, extent may depend on the domain): the interval of its union."""
    ana = ana or Analyzer()
    evaluator = Evaluator(ana, domain)
    made = []
    for rng in ranges:
        dtype = evaluator.dtype = rng.min.dtype
        first = ana.poly(rng.min)
        low = evaluator.ends(first)[0]
        last = P.shift(P.add(first, ana.poly(rng.extent)), -1)
        high = evaluator.ends(last)[1]
        made.append(IntervalSet(_end(ana, low, dtype, _NEG), _end(ana, high, dtype, _POS)))
    return made


def union_interval(ana: Analyzer, a: IntervalSet, b: IntervalSet) -> IntervalSet:
    """The least interval that contains both."""
    low = _NEG if is_neg_inf(a.min_value) or is_neg_inf(b.min_value) else None
    high = _POS if is_pos_inf(a.max_value) or is_pos_inf(b.max_value) else None
    if low is None:
        low = _extreme(ana, po.minimum, a.min_value, b.min_value)
    if high is None:
        high = _extreme(ana, po.maximum, a.max_value, b.max_value)
    return IntervalSet(low, high)


def _extreme(ana: Analyzer, pick: Any, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a if not P.add(ana.poly(a), ana.poly(b), -1) else ana.simplify(pick(a, b))


def union_lower_bound(sets: Sequence[IntervalSet]) -> IntervalSet | None:
    """The union of intervals that touch or overlap; those that do not are left out."""
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


def _bound_analyzer(var_dom: Mapping[Var, Range], predicate: Any) -> Analyzer:
    ana = Analyzer()
    for var, dom in var_dom.items():
        ana.bind(var, dom)
    if predicate is not None:
        ana._enter(po.convert(predicate))
    return ana


def estimate_region_upper_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet]:
    """For each dimension an interval that contains all that `region` touches while the variables
    run over `var_dom` where `predicate` holds."""
    ana = _bound_analyzer(_without_points(var_dom), None)
    return eval_ranges(region, var_dom, ana)


def _without_points(var_dom: Mapping[Var, Range]) -> dict[Var, Range]:
    """Variables of one value stay themselves: their domain says what they are."""
    return {
        v: r for v, r in var_dom.items() if not isinstance(r.extent, IntImm) or r.extent.value != 1
    }


def estimate_region_strict_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Like `estimate_region_upper_bound`, but None unless the intervals hold exactly the points
    that are touched: each dimension runs densely over variables of its own."""
    ana = _bound_analyzer(_without_points(var_dom), None)
    always = po.convert(predicate)
    if not (isinstance(always, IntImm) and always.value):
        return None
    used: set[int] = set()
    for rng in region:
        if not _dense(ana, rng, var_dom, used):
            return None
    return eval_ranges(region, var_dom, ana)


def estimate_region_lower_bound(
    region: Sequence[Range], var_dom: Mapping[Var, Range], predicate: Any = True
) -> list[IntervalSet] | None:
    """Intervals all of whose points are touched, or None where none are known."""
    return estimate_region_strict_bound(region, var_dom, predicate)


def _dense(ana: Analyzer, rng: Range, var_dom: Mapping[Var, Range], used: set[int]) -> bool:
    """Whether begin + 0 .. extent runs over every value between its ends."""
    numbers = {next(iter(ana._atom(v, VAR, v.dtype, v)))[0]: v for v in var_dom}
    reach = ana.poly(rng.extent)  # values that are touched without a gap so far
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


def _set_of(expr: PrimExpr, domain: Mapping[Var, Any] | None, ana: Analyzer) -> IntervalSet:
    if domain is not None:
        return eval_set(expr, domain, ana)
    low, high = ana.any_bound(expr)
    inf = float("inf")
    return IntervalSet(
        _NEG if low == -inf else po.const(int(low), expr.dtype),
        _POS if high == inf else po.const(int(high), expr.dtype),
    )


Analyzer._set_of = _set_of
