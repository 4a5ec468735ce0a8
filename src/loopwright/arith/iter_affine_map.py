"""Iteration maps: index expressions as splits and fusions of the loops they run over.

A *mark* is an iterator 0 .. extent: a loop variable (less its start), or a fusion of splits. A
*split* is `scale * ((mark // lower_factor) % extent)`; an index is a sum of splits and a base.
`detect_iter_map` finds that form for all indices together, and checks that no part of a mark is
used twice, so that distinct indices are independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.node import Node
from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from . import poly as P
from .analyzer import Analyzer
from .int_set import Evaluator
from .poly import DIV, VAR, Poly


class IterMapLevel(IntEnum):
    """What a map must be. Bijective: every iterator is used in full. Surjective: the indices
    cover their ranges. NoCheck: the form alone."""

    Bijective = 0
    Surjective = 1
    Injective = 2
    NoCheck = 3

    @staticmethod
    def from_str(name: str) -> IterMapLevel:
        """The level of that name, in any case."""
        for level in IterMapLevel:
            if level.name.lower() == name.lower():
                return level
        raise ValueError(f"unknown level {name!r}; use one of {[x.name for x in IterMapLevel]}")


class IterMapExpr(PrimExpr):
    """Root of the expressions of iteration maps."""

    __slots__ = ()


class IterMark(Node):
    """An iterator from 0 to `extent`: an expression of one loop variable, or a fusion."""

    source: PrimExpr
    extent: PrimExpr


class IterSplitExpr(IterMapExpr):
    """scale * ((source // lower_factor) % extent)"""

    source: IterMark
    lower_factor: PrimExpr
    extent: PrimExpr
    scale: PrimExpr

    def __init__(
        self,
        source: IterMark,
        lower_factor: Any = None,
        extent: Any = None,
        scale: Any = None,
        span: Any = None,
    ) -> None:
        one = po.const(1, source.source.dtype)
        self._set(
            source,
            one if lower_factor is None else po.convert(lower_factor),
            source.extent if extent is None else po.convert(extent),
            one if scale is None else po.convert(scale),
            span,
        )

    def _derive(self) -> None:
        self.dtype = self.source.source.dtype


class IterSumExpr(IterMapExpr):
    """The sum of splits and a base."""

    args: tuple[IterSplitExpr, ...]
    base: PrimExpr

    def _derive(self) -> None:
        self.dtype = self.base.dtype


class IterMapResult:
    """What `detect_iter_map` found: `indices` as sums, or `errors` and no indices."""

    __slots__ = ("errors", "indices", "padding_predicate")

    def __init__(self, indices: Sequence[IterSumExpr], errors: Sequence[str]) -> None:
        self.indices = list(indices)
        self.errors = list(errors)
        self.padding_predicate = po.const(False, "bool")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, i: int) -> IterSumExpr:
        return self.indices[i]

    def __iter__(self) -> Any:
        return iter(self.indices)


class NotAffine(Exception):
    """An index is no sum of splits, for the reason given."""


class _Mark:
    """A mark while maps are found: a variable less its start, or a fusion of splits."""

    __slots__ = ("extent", "node", "parts", "value")

    def __init__(self, value: Poly, extent: Poly, parts: list[_Split] | None) -> None:
        self.value = value
        self.extent = extent
        self.parts = parts
        self.node: IterMark | None = None


class _Split:
    """scale * ((mark // lower) % extent)"""

    __slots__ = ("extent", "lower", "mark", "scale")

    def __init__(self, mark: _Mark, lower: Poly, extent: Poly, scale: Poly) -> None:
        self.mark = mark
        self.lower = lower
        self.extent = extent
        self.scale = scale

    def scaled(self, by: Poly) -> _Split:
        return _Split(self.mark, self.lower, self.extent, P.multiply(self.scale, by))


_ONE: Poly = P.constant(1)


class _Detector:
    """Finds the sums of splits for indices over `iters` where `predicate` holds."""

    def __init__(self, iters: Mapping[Var, Range], predicate: Any, dtype: Any) -> None:
        self.ana = Analyzer()
        self.dtype = dtype
        self.marks: dict[int, tuple[_Mark, Poly]] = {}  # by atom: the mark and where it starts
        self.fused: dict[Any, _Mark] = {}
        self.bounds: dict[Any, Poly] = {}
        for var, dom in iters.items():
            self.ana.bind(var, dom)
            ((number,),) = self.ana._atom(var, VAR, var.dtype, var)
            start, extent = self.ana.poly(dom.min), self.ana.poly(dom.extent)
            mark = _Mark(P.add({(number,): 1}, start, -1), extent, None)
            if P.constant_value(extent) != 1:
                self.marks[number] = (mark, start)
        self.involved = Evaluator(self.ana, dict(iters)).involved
        for part in conjuncts(po.convert(predicate)):
            self.limit(part)
        for number, (mark, start) in self.marks.items():
            bound = self.bounds.pop(P.key_of({(number,): 1}), None)
            if bound is not None:
                mark.extent = P.add(bound, start, -1)
        self.unused = set(self.bounds)  # predicates that bounded nothing yet

    def limit(self, condition: PrimExpr) -> None:
        """Remember a condition `sum < bound` on a fusion."""
        if isinstance(condition, IntImm) and condition.value:
            return
        if not isinstance(condition, (pe.LT, pe.LE, pe.GT, pe.GE)):
            raise NotAffine(f"the predicate {condition} is no bound of an iterator")
        a, b = self.ana.poly(condition.a), self.ana.poly(condition.b)
        kind = type(condition)
        room = P.add(b, a, -1) if kind in (pe.LT, pe.LE) else P.add(a, b, -1)
        room = P.shift(room, -1) if kind in (pe.LT, pe.GT) else room
        if self.ana.nonneg(room):
            return
        inner = {m: -f for m, f in room.items() if self.involved({m: 1})}
        bound = P.shift({m: f for m, f in room.items() if not self.involved({m: 1})}, 1)
        self.bounds[P.key_of(inner)] = bound  # inner < bound

    # ------------------------------------------------------------------ sums

    def sum_of(self, p: Poly) -> tuple[list[_Split], Poly]:
        """(splits, base) of an index. Raises NotAffine."""
        splits: list[_Split] = []
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
                kept = self.ana._remainder(value, divisor, self.dtype)
                base = P.add(base, P.multiply(kept, scale))
                continue
            splits.append(self.remainder(value, divisor).scaled(scale))
        return self.disjoint(splits), base

    def disjoint(self, splits: list[_Split]) -> list[_Split]:
        """The splits of a sum with no digit in two of them: a polynomial writes
        v % 2 * 12 + v // 2 * 4 as v % 2 * 10 + v * 2, whose v is cut at 2 again."""
        marks = [s.mark for s in splits]
        if len(set(map(id, marks))) == len(marks):
            return splits
        total: list[_Split] = []
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
                        total[n] = _Split(t.mark, t.lower, t.extent, P.add(t.scale, scale))
                        break
                else:
                    total.append(_Split(s.mark, first, size, scale))
                first, scale = after, P.multiply(scale, size)
        return [s for s in total if not self.equal(s.scale, {})]

    def end(self, s: _Split) -> Poly:
        """The place of the digit after a split."""
        return P.multiply(s.lower, s.extent)

    def less(self, a: Poly, b: Poly) -> bool:
        return self.ana.nonneg(P.shift(P.add(b, a, -1), -1))

    def of_atom(self, number: int) -> tuple[_Split, Poly]:
        found = self.marks.get(number)
        if found is not None:
            mark, start = found
            return _Split(mark, _ONE, mark.extent, _ONE), start
        atom = self.ana._atoms[number]
        if atom.kind != DIV:
            raise NotAffine(f"{self.ana.atom_expr(atom, atom.dtype)} is no split of an iterator")
        value, divisor = atom.data
        if self.involved(divisor):
            raise NotAffine("a division by an iterator")
        whole, start = self.whole(value)
        quotient = self.divided(start, divisor)
        extent = self.divided(whole.extent, divisor)
        lower = P.multiply(whole.lower, divisor)
        return _Split(whole.mark, lower, extent, _ONE), quotient

    def divided(self, p: Poly, divisor: Poly) -> Poly:
        """p / divisor, which must leave no rest."""
        quotient = self.ana.poly_div(p, divisor, self.dtype)
        if quotient is None or not self.equal(P.multiply(quotient, divisor), p):
            what = self.ana.build(p, self.dtype), self.ana.build(divisor, self.dtype)
            raise NotAffine(f"{what[0]} is not known to be divisible by {what[1]}")
        return quotient

    def equal(self, a: Poly, b: Poly) -> bool:
        return self.ana._is_zero(P.add(a, b, -1)) is True

    def remainder(self, value: Poly, divisor: Poly) -> _Split:
        if self.involved(divisor):
            raise NotAffine("a remainder by an iterator")
        whole, start = self.whole(value)
        self.divided(start, divisor)
        self.divided(whole.extent, divisor)
        return _Split(whole.mark, whole.lower, divisor, _ONE)

    def whole(self, value: Poly) -> tuple[_Split, Poly]:
        """A value as one split of scale 1 of a mark, and where it starts."""
        splits, base = self.sum_of(value)
        return self.fuse(splits), base

    def fuse(self, splits: list[_Split]) -> _Split:
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
            mark = _Mark(total, extent if bound is None else bound, ordered)
            self.fused[key] = mark
        return _Split(mark, _ONE, mark.extent, _ONE)

    def split_value(self, s: _Split) -> Poly:
        """What a split is without its scale."""
        value = self.ana.poly_div(s.mark.value, s.lower, self.dtype)
        assert value is not None
        if self.equal(P.multiply(s.lower, s.extent), s.mark.extent):
            return value
        return self.ana._remainder(value, s.extent, self.dtype)

    def compact(self, splits: list[_Split], first: Poly | None) -> list[_Split]:
        """The splits from the smallest scale up, each the product of those before it."""
        left, ordered = list(splits), []
        want = first
        while left:
            if want is None:
                found = self.smallest(left)
            else:
                found = next((s for s in left if self.equal(s.scale, want)), None)
            if found is None:
                raise NotAffine("the terms of a sum overlap or leave gaps")
            left.remove(found)
            ordered.append(found)
            want = P.multiply(found.scale, found.extent)
        return ordered

    def smallest(self, splits: list[_Split]) -> _Split:
        best = splits[0]
        for s in splits[1:]:
            if self.ana.nonneg(P.add(best.scale, s.scale, -1)):
                best = s
        return best

    # ------------------------------------------------------------------ checks

    def check(self, sums: list[list[_Split]], level: IterMapLevel) -> None:
        """No part of a mark is used twice; for Bijective, none is left out."""
        used: dict[int, tuple[_Mark, list[_Split]]] = {}
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

    def check_mark(self, mark: _Mark, splits: list[_Split], level: IterMapLevel) -> None:
        left, reached = list(splits), _ONE
        while left:
            following = next((s for s in left if self.equal(s.lower, reached)), None)
            if following is None:
                if level == IterMapLevel.Bijective:
                    raise NotAffine("a part of an iterator is not used")
                following = self.lowest(left)
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

    def lowest(self, splits: list[_Split]) -> _Split:
        best = splits[0]
        for s in splits[1:]:
            if self.ana.nonneg(P.add(best.lower, s.lower, -1)):
                best = s
        return best

    # ------------------------------------------------------------------ results

    def mark_node(self, mark: _Mark) -> IterMark:
        if mark.node is None:
            source: PrimExpr
            if mark.parts is None:
                source = self.ana.build(mark.value, self.dtype)
            else:
                zero = po.const(0, self.dtype)
                source = IterSumExpr(tuple(self.nodes(mark.parts)), zero)
            mark.node = IterMark(source, self.ana.build(mark.extent, self.dtype))
        return mark.node

    def nodes(self, splits: list[_Split]) -> list[IterSplitExpr]:
        """The splits with the largest scale first, as TVM writes them."""
        made = []
        for s in reversed(splits):
            parts = (self.ana.build(p, self.dtype) for p in (s.lower, s.extent, s.scale))
            made.append(IterSplitExpr(self.mark_node(s.mark), *parts))
        return made

    def node(self, splits: list[_Split], base: Poly) -> IterSumExpr:
        return IterSumExpr(tuple(self.nodes(splits)), self.ana.build(base, self.dtype))


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a conjunction."""
    if isinstance(condition, pe.And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [condition]


def _dtype(indices: Sequence[PrimExpr], iters: Mapping[Var, Range]) -> Any:
    for e in (*indices, *iters):
        return e.dtype
    return po.INT32


def detect_iter_map(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> IterMapResult:
    """The indices as sums of splits of the iterators. No indices, and errors, where they are not
    such sums, or the level of `check_level` is not met."""
    level = IterMapLevel.from_str(check_level) if isinstance(check_level, str) else check_level
    indices = [po.convert(i) for i in indices]
    try:
        worker = _Detector(input_iters, predicate, _dtype(indices, input_iters))
        sums, bases = [], []
        for index in indices:
            splits, base = worker.sum_of(worker.ana.poly(index))
            if P.key_of(P.add(worker.ana.poly(index), base, -1)) in worker.bounds:
                splits = [worker.fuse(splits)]
            sums.append(worker.compact(splits, None))
            bases.append(base)
        if worker.unused:
            raise NotAffine("the predicate bounds no iterator and no fusion of them")
        if level != IterMapLevel.NoCheck:
            worker.check(sums, IterMapLevel(level))
        return IterMapResult([worker.node(s, b) for s, b in zip(sums, bases, strict=True)], [])
    except NotAffine as why:
        return IterMapResult([], [str(why)])


def normalize_to_iter_sum(index: PrimExpr, input_iters: Mapping[Var, Range]) -> IterSumExpr:
    """One index as a sum of splits, largest scale first; the splits need not be compact.

    Raises ValueError where the index is no such sum.
    """
    worker = _Detector(input_iters, True, index.dtype)
    try:
        splits, base = worker.sum_of(worker.ana.poly(index))
    except NotAffine as why:
        raise ValueError(f"{index} is no sum of splits: {why}") from None
    ordered: list[_Split] = []
    while splits:
        ordered.append(worker.smallest(splits))
        splits.remove(ordered[-1])
    return worker.node(ordered, base)


def normalize_iter_map_to_expr(expr: Any) -> PrimExpr:
    """The plain expression of a sum, split or mark."""
    if isinstance(expr, IterSumExpr):
        total: PrimExpr = po.const(0, expr.dtype)
        for arg in expr.args:
            total = po.add(total, normalize_iter_map_to_expr(arg))
        return po.add(total, expr.base)
    if isinstance(expr, IterMark):
        return normalize_iter_map_to_expr(expr.source)
    if isinstance(expr, IterSplitExpr):
        value = normalize_iter_map_to_expr(expr.source.source)
        reach = po.multiply(expr.lower_factor, expr.extent)
        if not Analyzer().can_prove_equal(reach, expr.source.extent):
            value = po.floormod(value, reach)
        return po.multiply(po.floordiv(value, expr.lower_factor), expr.scale)
    return expr


def iter_map_simplify(
    indices: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[PrimExpr]:
    """The indices rewritten by their iteration map; simplified alone where they have none."""
    ana = Analyzer()
    for var, dom in input_iters.items():
        ana.bind(var, dom)
    found = detect_iter_map(indices, input_iters, predicate, check_level)
    if not found.indices:
        return [ana.simplify(i) for i in indices]
    return [ana.simplify(normalize_iter_map_to_expr(e)) for e in found.indices]


def inverse_affine_iter_map(
    iter_map: Sequence[IterSumExpr], outputs: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """The iterators' variables from the indices' values `outputs`, for a bijective map."""
    ana = Analyzer()
    values: dict[int, tuple[IterMark, PrimExpr]] = {}
    order: list[IterMark] = []

    def spread(sum_expr: IterSumExpr, value: PrimExpr) -> None:
        rest = po.subtract(value, sum_expr.base)
        for k, arg in enumerate(sum_expr.args):
            part = po.floordiv(rest, arg.scale)
            if k > 0:
                part = po.floormod(part, arg.extent)
            part = po.multiply(part, arg.lower_factor)
            mark = arg.source
            if id(mark) in values:
                values[id(mark)] = (mark, po.add(values[id(mark)][1], part))
            else:
                values[id(mark)] = (mark, part)
                order.append(mark)

    for sum_expr, value in zip(iter_map, outputs, strict=True):
        spread(sum_expr, po.convert(value))
    found: dict[Var, PrimExpr] = {}
    for mark in order:  # grows while fusions are taken apart
        value = ana.simplify(values[id(mark)][1])
        if isinstance(mark.source, IterSumExpr):
            spread(mark.source, value)
            continue
        p = ana.poly(mark.source)
        for m, f in p.items():
            atom = ana._atoms[m[0]] if len(m) == 1 else None
            if atom is not None and atom.kind == VAR and f == 1 and atom.expr not in found:
                start = P.scaled({n: c for n, c in p.items() if n != m}, -1)
                found[atom.expr] = ana.simplify(po.add(value, ana.build(start, value.dtype)))
                break
    return found


def subspace_divide(
    bindings: Sequence[PrimExpr],
    input_iters: Mapping[Var, Range],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    check_level: IterMapLevel | str = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Each binding as outer * inner.extent + inner, inner over `sub_iters` only: [outer, inner]
    marks, then those of the predicate. Empty where a binding does not divide so."""
    found = detect_iter_map(bindings, input_iters, predicate, check_level)
    if not found.indices and bindings:
        return []
    inside = set(sub_iters)
    ana = Analyzer()
    made: list[list[IterMark]] = []
    for sum_expr in found.indices:
        outer: list[IterSplitExpr] = []
        inner: list[IterSplitExpr] = []
        for arg in sum_expr.args:
            where = _side(arg, inside)
            if where is None or (where is False and inner):
                return []
            (inner if where else outer).append(arg)
        zero = po.const(0, sum_expr.dtype)
        extent = _extent(ana, inner, sum_expr.dtype)
        scaled = [a.replace(scale=ana.simplify(po.floordiv(a.scale, extent))) for a in outer]
        made.append(
            [
                IterMark(
                    IterSumExpr(tuple(scaled), sum_expr.base), _extent(ana, scaled, zero.dtype)
                ),
                IterMark(IterSumExpr(tuple(inner), zero), extent),
            ]
        )
    always = po.const(True, "bool")
    made.append([IterMark(always, always), IterMark(always, always)])
    return made


def _extent(ana: Analyzer, splits: Sequence[IterSplitExpr], dtype: Any) -> PrimExpr:
    if not splits:
        return po.const(1, dtype)
    return ana.simplify(po.multiply(splits[0].scale, splits[0].extent))


def _side(split: IterSplitExpr, inside: set[Var]) -> bool | None:
    """Whether a split runs over the inner iterators (True), the others (False), or both (None)."""
    found: set[bool] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Var):
            found.add(node in inside)
        elif isinstance(node, Node):
            for child in node.children():
                visit(child)

    visit(split.source.source)
    return found.pop() if len(found) == 1 else None
