"""Detection of iteration maps: polynomials as sums of splits, see `iter_affine_map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.literals import conjuncts
from ..ir.prim_expr import PrimExpr, Range, ScalarLike, Var
from . import constraints
from . import poly as P
from .analyzer import Analyzer
from .atoms import DIV
from .build import atom_expr
from .division import remainder
from .interval import Evaluator
from .iter_map_node import IterMapLevel, IterMark, IterSplitExpr, IterSumExpr
from .poly import Poly


class NotAffine(Exception):
    """An index is not a sum of splits; the message says why."""


def bind_iterator(ana: Analyzer, var: Var, dom: Range, units: bool) -> None:
    """Let a variable run over a range. units: one of one value stays a variable."""
    if units:
        constraints.bind_range(ana, var, dom, seen=False)
    else:
        ana.bind(var, dom)


class Mark:
    """A mark during detection: a variable minus its start, or a fusion of splits minus `first`."""

    __slots__ = ("extent", "first", "nodes", "parts", "value")

    def __init__(
        self, value: Poly, extent: Poly, parts: list[Split] | None, first: Poly = P.ZERO
    ) -> None:
        self.value = value
        self.extent = extent
        self.parts = parts
        self.first = first
        self.nodes: dict[Any, IterMark] = {}  # by pad and extent


class Split:
    """scale * (((mark + pad) // lower) % extent). ragged: where the first or the last of the values
    that have the same quotient are not all there."""

    __slots__ = ("extent", "lower", "mark", "pad", "ragged", "scale")

    def __init__(
        self,
        mark: Mark,
        lower: Poly,
        extent: Poly,
        scale: Poly,
        pad: Poly = P.ZERO,
        ragged: bool = False,
    ) -> None:
        self.mark = mark
        self.lower = lower
        self.extent = extent
        self.scale = scale
        self.pad = pad
        self.ragged = ragged

    def scaled(self, by: Poly) -> Split:
        """The split with its scale multiplied."""
        scale = P.multiply(self.scale, by)
        return Split(self.mark, self.lower, self.extent, scale, self.pad, self.ragged)


class Bound:
    """A predicate's bound of a sum of splits: low <= sum < high, where these are known. source: (a,
    b, f), where the sum is (a - b) / f up to terms without an iterator."""

    __slots__ = ("high", "low", "mark", "parts", "source", "sum", "used")

    def __init__(self, total: Poly, source: tuple[PrimExpr, PrimExpr, int]) -> None:
        self.sum = total
        self.source = source
        self.low: Poly | None = None
        self.high: Poly | None = None
        self.parts: list[Split] = []
        self.mark: Mark | None = None
        self.used = False


_ONE: Poly = P.constant(1)


class Detector:
    """Rewrites indices over `iters` as sums of splits, where `predicate` holds. loose: the values of
    an index must be all of a range, and may come more than once: the terms of a sum may overlap, and
    quotients may have incomplete ends. as_written: each sum below a division is one iterator, where a
    polynomial writes (x * 4 + y) // 2 as x * 2 + y // 2. units: iterators of one value are some, too."""

    def __init__(
        self, iters: Mapping[Var, Range], predicate: ScalarLike, dtype: Any, loose: bool = False, *,
        as_written: bool = False, units: bool = False,
    ) -> None:  # fmt: skip
        self.ana = Analyzer()
        self.dtype = dtype
        self.loose = loose
        self.as_written = as_written
        self.marks: dict[int, tuple[Mark, Poly]] = {}  # by atom: the mark and its start
        self.fused: dict[Any, tuple[Mark, Poly]] = {}
        self.bounds: list[Bound] = []
        for var, dom in iters.items():
            bind_iterator(self.ana, var, dom, units)
            number = self.ana.atoms.of_var(var)
            start, extent = self.ana.poly(dom.min), self.ana.poly(dom.extent)
            mark = Mark(P.add({(number,): 1}, start, -1), extent, None)
            if units or P.constant_value(extent) != 1:
                self.marks[number] = (mark, start)
        self.involved = Evaluator(self.ana, dict(iters)).involved
        bounds: dict[Any, Bound] = {}
        for part in conjuncts(po.convert(predicate)):
            self.limit(part, bounds)
        for bound in sorted(bounds.values(), key=lambda b: len(b.sum)):
            self.register(bound)

    def limit(self, condition: PrimExpr, bounds: dict[Any, Bound]) -> None:
        """Record a condition on a sum of iterators."""
        if not isinstance(condition, (pe.LT, pe.LE, pe.GT, pe.GE)):
            raise NotAffine(f"the predicate {condition} does not bound an iterator")
        a, b = self.ana.poly(condition.a), self.ana.poly(condition.b)
        kind = type(condition)
        room = P.add(b, a, -1) if kind in (pe.LT, pe.LE) else P.add(a, b, -1)
        room = P.shift(room, -1) if kind in (pe.LT, pe.GT) else room
        if self.ana.nonneg(room):
            return
        inner = {m: f for m, f in room.items() if self.involved({m: 1})}
        if not inner:
            return
        rest = {m: f for m, f in room.items() if m not in inner}
        size = gcd(*inner.values())
        pairing = self.ana.paired(inner)
        signs = {f > 0 for f in (*pairing.rest.values(), *(mod[0] for mod in pairing.mods))}
        if len(signs) > 1:
            raise NotAffine(f"the predicate {condition} bounds a difference")
        upper = False in signs
        total = {m: (-f if upper else f) // size for m, f in inner.items()}
        source = (condition.a, condition.b, -size if upper == (kind in (pe.GT, pe.GE)) else size)
        bound = bounds.setdefault(P.key_of(total), Bound(total, source))
        if upper:
            high = self.quotient(P.shift(rest, size), size)
            if bound.high is None or self.ana.nonneg(P.add(bound.high, high, -1)):
                bound.high = high
        else:
            low = P.scaled(self.quotient(rest, size), -1)
            if bound.low is None or self.ana.nonneg(P.add(low, bound.low, -1)):
                bound.low = low

    def quotient(self, p: Poly, size: int) -> Poly:
        """p // size"""
        quotient = self.ana.poly_div(p, P.constant(size), self.dtype)
        assert quotient is not None
        return quotient

    def register(self, bound: Bound) -> None:
        """Let the marks of bounded sums begin and end with the bounds."""
        splits, base = self.parts_of(bound) if self.as_written else self.sum_of(bound.sum)
        splits, more = self.merged(splits)
        base = P.add(base, more)
        alone = splits[0] if len(splits) == 1 else None
        mark = (
            alone.mark if alone and self.equal(alone.scale, _ONE) and self.whole_of(alone) else None
        )
        if mark is None:
            ordered, extent = self.compact(splits, _ONE)
            mark = bound.mark = Mark({}, extent, ordered)
            bound.parts = ordered
            self.bounds.append(bound)
        low = {} if bound.low is None else self.inside(bound.low, base, po.maximum, {})
        high = mark.extent
        if bound.high is not None:
            high = self.inside(bound.high, base, po.minimum, mark.extent)
        if mark is not bound.mark:
            for number, (other, start) in self.marks.items():
                if other is mark:
                    self.marks[number] = (mark, P.add(start, low))
            if mark.parts is not None:
                mark.first = P.add(mark.first, low)
            mark.value = P.add(mark.value, low, -1)
            bound.used = True
        else:
            mark.first = low
            mark.value = P.add(P.add(bound.sum, base, -1), low, -1)
        mark.extent = P.add(high, low, -1)

    def inside(self, end: Poly, base: Poly, of: Callable[[Any, Any], Any], own: Poly) -> Poly:
        """An end of a mark that follows from a predicate: `of` the predicate's end less the base
        and the mark's own end."""
        ends = (self.ana.build(p, self.dtype) for p in (P.add(end, base, -1), own))
        return self.ana.poly(of(*ends))

    def merged(self, splits: list[Split]) -> tuple[list[Split], Poly]:
        """The terms of a sum, those that a predicate bounds together as one, and the offset to
        add."""
        base: Poly = {}
        for bound in self.bounds:
            matched: list[Split] = []
            ratio: Poly | None = None
            for part in bound.parts:
                same = next((s for s in splits if self.is_digit(s, part)), None)
                by = None if same is None else self.try_divided(same.scale, part.scale)
                if same is None or by is None or (ratio is not None and not self.equal(by, ratio)):
                    break
                ratio = by
                matched.append(same)
            else:
                assert bound.mark is not None and ratio is not None
                splits = [s for s in splits if s not in matched]
                splits.append(Split(bound.mark, _ONE, bound.mark.extent, ratio))
                base = P.add(base, P.multiply(bound.mark.first, ratio))
                bound.used = True
        return splits, base

    def is_digit(self, s: Split, t: Split) -> bool:
        """Whether splits are the same up to the scale."""
        same = s.mark is t.mark and self.equal(s.lower, t.lower)
        return same and self.equal(s.extent, t.extent) and self.equal(s.pad, t.pad)

    def parts_of(self, bound: Bound) -> tuple[list[Split], Poly]:
        """The sum of a bound as the predicate writes it."""
        a, b, factor = bound.source
        splits, base = self.terms(pe.Sub._make(a, b))
        for s in splits:
            scale = self.try_divided(s.scale, P.constant(factor))
            if scale is None:
                raise NotAffine("the predicate bounds parts of multiples")
            s.scale = scale
        whole = P.add(self.ana.poly(a), self.ana.poly(b), -1)
        base = P.add(P.add(base, whole, -1), bound.sum, factor)
        exact = self.try_divided(base, P.constant(factor))
        if exact is None:
            raise NotAffine("the predicate bounds parts of multiples")
        return self.disjoint(splits), exact

    def index(self, e: PrimExpr) -> tuple[list[Split], Poly]:
        """An index as one split at most, and its base."""
        splits, base = self.terms(e) if self.as_written else self.sum_of(self.ana.ring(e))
        splits, more = self.merged(splits)
        base = P.add(base, more)
        if len(splits) > 1:
            unit, scales = self.in_units([s.scale for s in splits])
            for s, scale in zip(splits, scales, strict=True):
                s.scale = scale
            whole, more = self.fuse(splits)
            splits, base = [whole.scaled(unit)], P.add(base, P.multiply(more, unit))
        return splits, base

    def in_units(self, scales: list[Poly]) -> tuple[Poly, list[Poly]]:
        """The scale that divides all others, and these in its units."""
        for unit in scales:
            units = [scale for s in scales if (scale := self.try_divided(s, unit)) is not None]
            if len(units) == len(scales):
                return unit, units
        raise NotAffine("the terms of a sum overlap or leave gaps")

    # ------------------------------------------------------------------ sums

    def terms(self, e: PrimExpr) -> tuple[list[Split], Poly]:
        """(splits, base) of an expression as it is written."""
        kind = type(e)
        if not self.involved(self.ana.ring(e)):
            return [], self.ana.ring(e)
        if kind is pe.Add or kind is pe.Sub:
            (splits, base), (others, more) = self.terms(e.a), self.terms(e.b)
            sign = 1 if kind is pe.Add else -1
            splits = splits + [s.scaled(P.constant(sign)) for s in others]
            return self.disjoint(splits), P.add(base, more, sign)
        if kind is pe.Mul:
            for a, b in ((e.a, e.b), (e.b, e.a)):
                by = self.ana.ring(b)
                if not self.involved(by):
                    splits, base = self.terms(a)
                    return [s.scaled(by) for s in splits], P.multiply(base, by)
        if kind is pe.FloorDiv or kind is pe.FloorMod:
            splits, base = self.terms(e.a)
            whole, more = self.fuse(splits)
            start, divisor = P.add(base, more), self.ana.poly(e.b)
            if kind is pe.FloorMod:
                return [self.rest_of(whole, start, divisor)], {}
            part, quotient = self.quotient_of(whole, start, divisor)
            return [part], quotient
        return self.sum_of(self.ana.ring(e))

    def sum_of(self, p: Poly, *, partly: bool = False) -> tuple[list[Split], Poly]:
        """(splits, base) of an index. Raises NotAffine; partly: a term that is not a multiple of a
        split becomes part of the base."""
        splits: list[Split] = []
        base: Poly = {}
        pairing = self.ana.paired(p)
        for m, f in pairing.rest.items():
            moving = [a for a in m if self.involved({(a,): 1})]
            if not moving:
                base = P.add(base, {m: f})
                continue
            if len(moving) > 1:
                raise NotAffine("a product of two iterators")
            scale = {tuple(a for a in m if a != moving[0]): f}
            if partly and not self.is_split(moving[0]):
                base = P.add(base, {m: f})
                continue
            part, start = self.of_atom(moving[0])
            splits.append(part.scaled(scale))
            base = P.add(base, P.multiply(start, scale))
        for scale_number, factor, value, divisor, kind in pairing.mods:
            scale = {factor: scale_number}
            if kind != DIV and self.involved(value):
                raise NotAffine("a truncated division of what may be negative")
            if not self.involved(value):
                rest = remainder(self.ana, value, divisor, self.dtype, kind)
                base = P.add(base, P.multiply(rest, scale))
                continue
            splits.append(self.remainder(value, divisor).scaled(scale))
        return self.disjoint(splits), base

    def disjoint(self, splits: list[Split]) -> list[Split]:
        """The splits of a sum rewritten to have no digit in common: a polynomial writes
        v % 2 * 12 + v // 2 * 4 as v % 2 * 10 + v * 2, whose v is split at 2 again."""
        marks = [s.mark for s in splits]
        if len(set(map(id, marks))) == len(marks) or any(s.ragged for s in splits):
            return splits
        total: list[Split] = []
        for s in splits:
            ends = [e for t in splits if t.mark is s.mark for e in (t.lower, self.end(t))]
            first, last = s.lower, self.end(s)
            scale = s.scale
            while not self.equal(first, last):
                inside = [e for e in ends if self.less(first, e) and self.less(e, last)]
                after = last
                for e in inside:
                    after = e if self.less(e, after) else after
                size = self.ana.poly_div(after, first, self.dtype)
                if size is None or not self.equal(P.multiply(size, first), after):
                    return splits
                for n, t in enumerate(total):
                    if (
                        t.mark is s.mark
                        and self.equal(t.lower, first)
                        and self.equal(t.extent, size)
                    ):
                        total[n] = Split(t.mark, t.lower, t.extent, P.add(t.scale, scale))
                        break
                else:
                    total.append(Split(s.mark, first, size, scale))
                first, scale = after, P.multiply(scale, size)
        return [s for s in total if not self.equal(s.scale, {})]

    def end(self, s: Split) -> Poly:
        """The place of the digit after a split."""
        return P.multiply(s.lower, s.extent)

    def less(self, a: Poly, b: Poly) -> bool:
        return self.ana.nonneg(P.shift(P.add(b, a, -1), -1))

    def is_split(self, number: int) -> bool:
        """Whether an atom is an iterator or a quotient."""
        return number in self.marks or self.ana.atoms.all[number].kind == DIV

    def of_atom(self, number: int) -> tuple[Split, Poly]:
        entry = self.marks.get(number)
        if entry is not None:
            mark, start = entry
            return Split(mark, _ONE, mark.extent, _ONE), start
        atom = self.ana.atoms.all[number]
        if not self.is_split(number):
            atom_text = atom_expr(self.ana, atom, atom.dtype)
            raise NotAffine(f"{atom_text} is not a split of an iterator")
        value, divisor = atom.data
        return self.quotient_of(*self.whole(value), divisor)

    def quotient_of(self, whole: Split, start: Poly, divisor: Poly) -> tuple[Split, Poly]:
        """(whole + start) // divisor as a split, and its start."""
        if self.involved(divisor):
            raise NotAffine("a division by an iterator")
        quotient = self.ana.poly_div(start, divisor, self.dtype)
        assert quotient is not None
        pad = P.add(start, P.multiply(quotient, divisor), -1)
        lower = P.multiply(whole.lower, divisor)
        extent = self.try_divided(whole.extent, divisor)
        if not pad and extent is not None:
            return Split(whole.mark, lower, extent, _ONE, whole.pad, whole.ragged), quotient
        whole = self.opened(whole, divisor)
        lower = P.multiply(whole.lower, divisor)
        padded = P.shift(P.add(P.add(pad, whole.extent), divisor), -1)
        extent = self.ana.poly_div(padded, divisor, self.dtype)
        assert extent is not None
        pad = P.add(whole.pad, P.multiply(pad, whole.lower))
        return Split(whole.mark, lower, extent, _ONE, pad, True), quotient

    def opened(self, s: Split, divisor: Poly) -> Split:
        """The split, whose values do not begin again, for a division that leaves incomplete ends."""
        if not self.loose or not self.ana.nonneg(P.shift(divisor, -1)):
            what = self.ana.build(s.extent, self.dtype), self.ana.build(divisor, self.dtype)
            raise NotAffine(f"{what[0]} is not known to be divisible by {what[1]}")
        if self.whole_of(s):
            return s
        mark = Mark(self.split_value(s), s.extent, [s])
        return Split(mark, _ONE, mark.extent, _ONE)

    def whole_of(self, s: Split) -> bool:
        """Whether a split holds the highest digits of its mark."""
        return self.ana.nonneg(P.add(P.add(self.end(s), s.mark.extent, -1), s.pad, -1))

    def try_divided(self, p: Poly, divisor: Poly) -> Poly | None:
        """p / divisor; None unless that is exact."""
        quotient = self.ana.poly_div(p, divisor, self.dtype)
        if quotient is None or not self.equal(P.multiply(quotient, divisor), p):
            return None
        return quotient

    def equal(self, a: Poly, b: Poly) -> bool:
        """Whether two values are known to be equal."""
        return self.ana.is_zero(P.add(a, b, -1)) is True

    def remainder(self, value: Poly, divisor: Poly) -> Split:
        """value % divisor as a split"""
        return self.rest_of(*self.whole(value), divisor)

    def rest_of(self, whole: Split, start: Poly, divisor: Poly) -> Split:
        """(whole + start) % divisor as a split."""
        if self.involved(divisor):
            raise NotAffine("a remainder by an iterator")
        pad = remainder(self.ana, start, divisor, self.dtype)
        if not pad and self.try_divided(whole.extent, divisor) is not None:
            return Split(whole.mark, whole.lower, divisor, _ONE, whole.pad, whole.ragged)
        whole = self.opened(whole, divisor)
        pad = P.add(whole.pad, P.multiply(pad, whole.lower))
        return Split(whole.mark, whole.lower, divisor, _ONE, pad, True)

    def whole(self, value: Poly) -> tuple[Split, Poly]:
        """A value as one split of scale 1 of a mark, and its start."""
        splits, base = self.sum_of(value)
        whole, more = self.fuse(splits)
        return whole, P.add(base, more)

    def fuse(self, splits: list[Split]) -> tuple[Split, Poly]:
        """A compact sum of splits as one iterator, and the offset to add."""
        total: Poly = {}
        for s in splits:
            total = P.add(total, P.multiply(s.scale, self.split_value(s)))
        splits, base = self.merged(splits)
        if len(splits) == 1 and self.equal(splits[0].scale, _ONE):
            return splits[0], base
        key = P.key_of(total)
        if key not in self.fused:
            ordered, extent = self.compact(splits, _ONE)
            self.fused[key] = (Mark(P.add(total, base, -1), extent, ordered), base)
        mark, base = self.fused[key]
        return Split(mark, _ONE, mark.extent, _ONE), base

    def split_value(self, s: Split) -> Poly:
        """The value of a split without its scale."""
        value = self.ana.poly_div(P.add(s.mark.value, s.pad), s.lower, self.dtype)
        assert value is not None
        if self.whole_of(s):
            return value
        return remainder(self.ana, value, s.extent, self.dtype)

    def compact(self, splits: list[Split], want: Poly) -> tuple[list[Split], Poly]:
        """The splits by increasing scale, and how many values their sum has: all from 0, each once
        (or more often, where the detector is loose)."""
        left, ordered = list(splits), []
        while left:
            same = [s for s in reversed(left) if self.equal(s.scale, want)]
            # a split of extent 1 does not change the scale that is expected next
            following = next((s for s in same if self.equal(s.extent, _ONE)), *same[:1] or [None])
            if following is None and self.loose and ordered:
                smallest = self.least(left, lambda s: s.scale)
                room = P.add(want, smallest.scale, -1), P.shift(smallest.scale, -1)
                following = smallest if all(map(self.ana.nonneg, room)) else None
            if following is None:
                raise NotAffine("the terms of a sum overlap or leave gaps")
            left.remove(following)
            ordered.append(following)
            more = P.multiply(following.scale, P.shift(following.extent, -1))
            want = P.add(want, more)
        return ordered, want

    def least(self, splits: list[Split], of: Callable[[Split], Any]) -> Split:
        """The last split of which no other one has less of something."""
        best = splits[0]
        for s in splits[1:]:
            if self.ana.nonneg(P.add(of(best), of(s), -1)):
                best = s
        return best

    # ------------------------------------------------------------------ checks

    def check(self, sums: list[list[Split]], level: IterMapLevel) -> None:
        """Check that no part of a mark is used twice and, for Bijective, that none is left out."""
        used: dict[int, tuple[Mark, list[Split]]] = {}
        stack = [s for splits in sums for s in splits]
        done: set[int] = set()
        while stack:
            s = stack.pop()
            used.setdefault(id(s.mark), (s.mark, []))[1].append(s)
            if s.mark.parts is not None and id(s.mark) not in done:
                done.add(id(s.mark))
                stack += s.mark.parts
        for mark, splits in used.values():
            self.check_mark(mark, splits, level)
        if level == IterMapLevel.Bijective:
            for mark, _ in self.marks.values():
                if id(mark) not in used and not self.equal(mark.extent, _ONE):
                    raise NotAffine("an iterator is not used")

    def check_ragged(self, mark: Mark, splits: list[Split], reached: Poly) -> None:
        """Check that digits of a mark with incomplete ends, which end at `reached`, have all values
        together: those below take all their values once, or each value of the highest ones is
            there."""
        if self.ana.nonneg(P.add(mark.extent, reached, -1)):
            return
        first, pad = self.least(splits, lambda s: s.lower).lower, splits[0].pad
        if all(self.equal(s.pad, pad) for s in splits):
            count = self.ana.poly_div(P.shift(P.add(mark.extent, pad), -1), first, self.dtype)
            begun = self.ana.poly_div(pad, first, self.dtype)
            assert count is not None and begun is not None
            values = P.multiply(P.shift(P.add(count, begun, -1), 1), first)
            if self.ana.nonneg(P.add(values, reached, -1)):
                return
        raise NotAffine("a division leaves incomplete ends")

    def check_mark(self, mark: Mark, splits: list[Split], level: IterMapLevel) -> None:
        left, reached = list(splits), _ONE
        while left:
            following = next((s for s in left if self.equal(s.lower, reached)), None)
            if following is None:
                if level == IterMapLevel.Bijective:
                    raise NotAffine("a part of an iterator is not used")
                following = self.least(left, lambda s: s.lower)
                quotient = self.ana.poly_div(following.lower, reached, self.dtype)
                if quotient is None or not self.equal(
                    P.multiply(quotient, reached), following.lower
                ):
                    raise NotAffine("parts of an iterator overlap")
                if not self.ana.nonneg(P.add(following.lower, reached, -1)):
                    raise NotAffine("a part of an iterator is used twice")
            left.remove(following)
            reached = P.multiply(following.lower, following.extent)
        if any(s.ragged for s in splits):
            self.check_ragged(mark, splits, reached)
        whole = self.equal(reached, mark.extent)
        if level == IterMapLevel.Bijective and not whole:
            raise NotAffine("a part of an iterator is not used")

    # ------------------------------------------------------------------ results

    def mark_node(self, mark: Mark, pad: Poly = P.ZERO, extent: Poly | None = None) -> IterMark:
        """The node of a mark, with `pad` more values before it and `extent` in all."""
        key = None if extent is None else (P.key_of(pad), P.key_of(extent))
        node = mark.nodes.get(key)
        if node is None:
            source: PrimExpr
            if mark.parts is None:
                source = self.ana.build(P.add(mark.value, pad), self.dtype)
            elif extent is None:
                base = self.ana.build(P.scaled(mark.first, -1), self.dtype)
                source = IterSumExpr(tuple(self.nodes(mark.parts)), base)
            else:
                inner = IterSplitExpr(self.mark_node(mark))
                source = IterSumExpr((inner,), self.ana.build(pad, self.dtype))
            size = self.ana.build(mark.extent if extent is None else extent, self.dtype)
            node = mark.nodes[key] = IterMark(source, size)
        return node

    def nodes(self, splits: list[Split]) -> list[IterSplitExpr]:
        """The splits with the largest scale first, as TVM writes them."""
        exprs = []
        for s in reversed(splits):
            extent = None
            if s.pad:
                turn = self.end(s)
                padded = P.shift(P.add(P.add(s.pad, s.mark.extent), turn), -1)
                turns = self.ana.poly_div(padded, turn, self.dtype)
                assert turns is not None
                extent = P.multiply(turns, turn)
            parts = (self.ana.build(p, self.dtype) for p in (s.lower, s.extent, s.scale))
            exprs.append(IterSplitExpr(self.mark_node(s.mark, s.pad, extent), *parts))
        return exprs

    def node(self, splits: list[Split], base: Poly) -> IterSumExpr:
        return IterSumExpr(tuple(self.nodes(splits)), self.ana.build(base, self.dtype))
