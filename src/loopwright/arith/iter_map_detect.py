"""Detection of iteration maps: polynomials as sums of splits, see `iter_affine_map`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.literals import conjuncts
from ..ir.prim_expr import PrimExpr, Range, Var
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


class Mark:
    """A mark during detection: a variable minus its start, or a fusion of splits."""

    __slots__ = ("extent", "node", "parts", "value")

    def __init__(self, value: Poly, extent: Poly, parts: list[Split] | None) -> None:
        self.value = value
        self.extent = extent
        self.parts = parts
        self.node: IterMark | None = None


class Split:
    """scale * ((mark // lower) % extent)"""

    __slots__ = ("extent", "lower", "mark", "scale")

    def __init__(self, mark: Mark, lower: Poly, extent: Poly, scale: Poly) -> None:
        self.mark = mark
        self.lower = lower
        self.extent = extent
        self.scale = scale

    def scaled(self, by: Poly) -> Split:
        return Split(self.mark, self.lower, self.extent, P.multiply(self.scale, by))


_ONE: Poly = P.constant(1)


class Detector:
    """Rewrites indices over `iters` as sums of splits, where `predicate` holds."""

    def __init__(self, iters: Mapping[Var, Range], predicate: Any, dtype: Any) -> None:
        self.ana = Analyzer()
        self.dtype = dtype
        self.marks: dict[int, tuple[Mark, Poly]] = {}  # by atom: the mark and its start
        self.fused: dict[Any, Mark] = {}
        self.bounds: dict[Any, Poly] = {}
        for var, dom in iters.items():
            self.ana.bind(var, dom)
            number = self.ana.atoms.of_var(var)
            start, extent = self.ana.poly(dom.min), self.ana.poly(dom.extent)
            mark = Mark(P.add({(number,): 1}, start, -1), extent, None)
            if P.constant_value(extent) != 1:
                self.marks[number] = (mark, start)
        self.involved = Evaluator(self.ana, dict(iters)).involved
        for part in conjuncts(po.convert(predicate)):
            self.limit(part)
        for number, (mark, start) in self.marks.items():
            bound = self.bounds.pop(P.key_of({(number,): 1}), None)
            if bound is not None:
                mark.extent = P.add(bound, start, -1)
        self.unused = set(self.bounds)  # predicates not yet used as bounds

    def limit(self, condition: PrimExpr) -> None:
        """Record a condition `sum < bound` on a fusion."""
        if not isinstance(condition, (pe.LT, pe.LE, pe.GT, pe.GE)):
            raise NotAffine(f"the predicate {condition} does not bound an iterator")
        a, b = self.ana.poly(condition.a), self.ana.poly(condition.b)
        kind = type(condition)
        room = P.add(b, a, -1) if kind in (pe.LT, pe.LE) else P.add(a, b, -1)
        room = P.shift(room, -1) if kind in (pe.LT, pe.GT) else room
        if self.ana.nonneg(room):
            return
        inner = {m: -f for m, f in room.items() if self.involved({m: 1})}
        if not inner:
            raise NotAffine(f"the predicate {condition} does not bound an iterator")
        bound = P.shift({m: f for m, f in room.items() if not self.involved({m: 1})}, 1)
        self.bounds[P.key_of(inner)] = bound  # inner < bound

    def bounded(self, p: Poly, splits: list[Split]) -> list[Split]:
        """The splits of an index without its base, fused where a condition bounds their sum or a
        part of each."""
        size = gcd(*p.values()) if p else 1
        p = {m: f // size for m, f in p.items()}
        if P.key_of(p) not in self.bounds:
            return splits
        for split in splits:
            split.scale = {m: f // size for m, f in split.scale.items()}
        return [self.fuse(splits).scaled(P.constant(size))]

    # ------------------------------------------------------------------ sums

    def sum_of(self, p: Poly) -> tuple[list[Split], Poly]:
        """(splits, base) of an index. Raises NotAffine."""
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
            part, start = self.of_atom(moving[0])
            splits.append(part.scaled(scale))
            base = P.add(base, P.multiply(start, scale))
        for scale_number, factor, value, divisor in pairing.mods:
            scale = {factor: scale_number}
            if not self.involved(value):
                kept = remainder(self.ana, value, divisor, self.dtype)
                base = P.add(base, P.multiply(kept, scale))
                continue
            splits.append(self.remainder(value, divisor).scaled(scale))
        return self.disjoint(splits), base

    def disjoint(self, splits: list[Split]) -> list[Split]:
        """The splits of a sum rewritten to have no digit in common: a polynomial writes
        v % 2 * 12 + v // 2 * 4 as v % 2 * 10 + v * 2, whose v is split at 2 again."""
        marks = [s.mark for s in splits]
        if len(set(map(id, marks))) == len(marks):
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

    def of_atom(self, number: int) -> tuple[Split, Poly]:
        entry = self.marks.get(number)
        if entry is not None:
            mark, start = entry
            return Split(mark, _ONE, mark.extent, _ONE), start
        atom = self.ana.atoms.all[number]
        if atom.kind != DIV:
            atom_text = atom_expr(self.ana, atom, atom.dtype)
            raise NotAffine(f"{atom_text} is not a split of an iterator")
        value, divisor = atom.data
        if self.involved(divisor):
            raise NotAffine("a division by an iterator")
        whole, start = self.whole(value)
        quotient = self.divided(start, divisor)
        extent = self.divided(whole.extent, divisor)
        lower = P.multiply(whole.lower, divisor)
        return Split(whole.mark, lower, extent, _ONE), quotient

    def divided(self, p: Poly, divisor: Poly) -> Poly:
        """p / divisor, which must be exact."""
        quotient = self.ana.poly_div(p, divisor, self.dtype)
        if quotient is None or not self.equal(P.multiply(quotient, divisor), p):
            what = self.ana.build(p, self.dtype), self.ana.build(divisor, self.dtype)
            raise NotAffine(f"{what[0]} is not known to be divisible by {what[1]}")
        return quotient

    def equal(self, a: Poly, b: Poly) -> bool:
        return self.ana.is_zero(P.add(a, b, -1)) is True

    def remainder(self, value: Poly, divisor: Poly) -> Split:
        if self.involved(divisor):
            raise NotAffine("a remainder by an iterator")
        whole, start = self.whole(value)
        self.divided(start, divisor)
        self.divided(whole.extent, divisor)
        return Split(whole.mark, whole.lower, divisor, _ONE)

    def whole(self, value: Poly) -> tuple[Split, Poly]:
        """A value as one split of scale 1 of a mark, and its start."""
        splits, base = self.sum_of(value)
        return self.fuse(splits), base

    def fuse(self, splits: list[Split]) -> Split:
        """A compact sum of splits as one iterator."""
        if len(splits) == 1 and self.equal(splits[0].scale, _ONE):
            return splits[0]
        ordered = self.compact(splits, _ONE)
        total: Poly = {}
        for s in splits:
            total = P.add(total, P.multiply(s.scale, self.split_value(s)))
        key = P.key_of(total)
        mark = self.fused.get(key)
        if mark is None:
            extent = P.multiply(ordered[-1].scale, ordered[-1].extent)
            bound = self.bounds.get(key)
            self.unused.discard(key)
            mark = Mark(total, extent if bound is None else bound, ordered)
            self.fused[key] = mark
        return Split(mark, _ONE, mark.extent, _ONE)

    def split_value(self, s: Split) -> Poly:
        """The value of a split without its scale."""
        value = self.ana.poly_div(s.mark.value, s.lower, self.dtype)
        assert value is not None
        if self.equal(P.multiply(s.lower, s.extent), s.mark.extent):
            return value
        return remainder(self.ana, value, s.extent, self.dtype)

    def compact(self, splits: list[Split], first: Poly | None) -> list[Split]:
        """The splits by increasing scale, each scale the product of the extents before it."""
        left, ordered = list(splits), []
        want = first
        while left:
            if want is None:
                following = self.least(left, lambda s: s.scale)
            else:
                following = next((s for s in left if self.equal(s.scale, want)), None)
            if following is None:
                raise NotAffine("the terms of a sum overlap or leave gaps")
            left.remove(following)
            ordered.append(following)
            want = P.multiply(following.scale, following.extent)
        return ordered

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
                if id(mark) not in used:
                    raise NotAffine("an iterator is not used")

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
        whole = self.equal(reached, mark.extent)
        if level == IterMapLevel.Bijective and not whole:
            raise NotAffine("a part of an iterator is not used")

    # ------------------------------------------------------------------ results

    def mark_node(self, mark: Mark) -> IterMark:
        if mark.node is None:
            source: PrimExpr
            if mark.parts is None:
                source = self.ana.build(mark.value, self.dtype)
            else:
                zero = po.const(0, self.dtype)
                source = IterSumExpr(tuple(self.nodes(mark.parts)), zero)
            mark.node = IterMark(source, self.ana.build(mark.extent, self.dtype))
        return mark.node

    def nodes(self, splits: list[Split]) -> list[IterSplitExpr]:
        """The splits with the largest scale first, as TVM writes them."""
        exprs = []
        for s in reversed(splits):
            parts = (self.ana.build(p, self.dtype) for p in (s.lower, s.extent, s.scale))
            exprs.append(IterSplitExpr(self.mark_node(s.mark), *parts))
        return exprs

    def node(self, splits: list[Split], base: Poly) -> IterSumExpr:
        return IterSumExpr(tuple(self.nodes(splits)), self.ana.build(base, self.dtype))
