"""How loops of a stage come from others: splits, fusions, changes of the first value, new loops and
layouts. Each relation passes ranges and indices down, from `sources` to `results`, and indices, sets
and marks up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ...arith import Analyzer, IntervalSet, is_neg_inf, is_pos_inf
from ...ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ...ir.prim_op import add, cast, const, equal, floordiv, floormod, less, multiply, subtract
from ...ir.variables import substitute
from ...tir.index_map import IndexMap

if TYPE_CHECKING:
    from .stage import Stage

Ranges = dict[IterVar, Range]
Values = dict[IterVar, PrimExpr]
Sets = dict[IterVar, IntervalSet]


def is_const(expr: PrimExpr, value: int) -> bool:
    """Whether an expression is this literal."""
    return isinstance(expr, IntImm) and expr.value == value


def point(value: PrimExpr) -> IntervalSet:
    """The set of one value."""
    return IntervalSet(value, value)


def whole(rng: Range) -> IntervalSet:
    """The values of a range."""
    return IntervalSet(rng.min, rng.last)


def shifted(value: PrimExpr, low: PrimExpr) -> PrimExpr:
    """value + low"""
    return value if is_const(low, 0) else add(value, low)


def upto(var: Var, extent: PrimExpr) -> Range:
    """0 .. extent, of the type of a variable."""
    return Range.from_min_extent(const(0, var.dtype), cast(var.dtype, extent))


def _over(ana: Analyzer, value: PrimExpr, sets: dict[Var, IntervalSet]) -> IntervalSet:
    """The values of an expression; variables with one value are replaced."""
    points = {v: s.min_value for v, s in sets.items() if s.min_value is s.max_value}
    rest = {v: s for v, s in sets.items() if v not in points}
    return ana.int_set(substitute(value, points), rest)


def matches(ana: Analyzer, values: IntervalSet, rng: Range) -> bool:
    """Whether a set is known to be all of a range."""
    if not (values.has_lower_bound() and values.has_upper_bound()):
        return False
    low, high = values.min_value, values.max_value
    return ana.can_prove_equal(low, rng.min) and ana.can_prove_equal(high, rng.last)


@dataclass(eq=False)
class Relation:
    """Base class of relations between loops."""

    # The fields that are loops: those that are replaced, and those that replace them.
    of: ClassVar[tuple[str, ...]] = ()
    into: ClassVar[tuple[str, ...]] = ()

    @property
    def sources(self) -> tuple[IterVar, ...]:
        """The loops that are replaced."""
        return tuple(getattr(self, name) for name in self.of)

    @property
    def results(self) -> tuple[IterVar, ...]:
        """The loops that replace them."""
        return tuple(getattr(self, name) for name in self.into)

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        """The ranges of the results; `tight` says whether a loop may be shortened."""
        raise NotImplementedError

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        """The sources' values."""
        raise NotImplementedError

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        """The results' values."""
        raise NotImplementedError

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        """The values of the sources, where the results are in sets."""
        raise NotImplementedError

    def leaves_gaps(self, doms: Mapping[IterVar, Range], ana: Analyzer) -> bool:
        """Whether the results run beyond their sources' ends."""
        return False


@dataclass(eq=False)
class Split(Relation):
    """parent = outer * (extent of inner) + inner."""

    of, into = ("parent",), ("outer", "inner")
    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: PrimExpr | None
    nparts: PrimExpr | None
    disable_predication: bool = False

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        size = doms[self.parent].extent
        part = self.factor if self.nparts is None else self.nparts
        assert part is not None
        part = cast(size.dtype, part)
        iv, other = (self.inner, self.outer) if self.nparts is None else (self.outer, self.inner)
        extent = part
        if tight(iv) and not is_const(size, 0) and ana.can_prove(less(size, part)):
            extent = ana.simplify(size)
        rounds = ana.simplify(floordiv(add(size, subtract(part, const(1, part.dtype))), part))
        if ana.can_prove(equal(floormod(size, part), const(0, size.dtype))):
            rounds = ana.simplify(floordiv(size, part))
        extents = {iv: extent, other: rounds}
        return [upto(r.var, extents[r]) for r in self.results]

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        value = add(multiply(values[self.outer], doms[self.inner].extent), values[self.inner])
        return [shifted(value, doms[self.parent].min)]

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        factor = doms[self.inner].extent
        value = values[self.parent]
        return [floordiv(value, factor), floormod(value, factor)]

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        ana = Analyzer()
        if all(matches(ana, sets[r], doms[r]) for r in self.results):
            return [whole(doms[self.parent])]
        value = self.up({r: r.var for r in self.results}, doms)[0]
        return [_over(ana, value, {r.var: sets[r] for r in self.results})]

    def leaves_gaps(self, doms: Mapping[IterVar, Range], ana: Analyzer) -> bool:
        product = multiply(doms[self.outer].extent, doms[self.inner].extent)
        exact = ana.can_prove(equal(product, doms[self.parent].extent))
        return not exact and not self.disable_predication


@dataclass(eq=False)
class Fuse(Relation):
    """fused = outer * (extent of inner) + inner."""

    of, into = ("outer", "inner"), ("fused",)
    outer: IterVar
    inner: IterVar
    fused: IterVar

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        return [upto(self.fused.var, multiply(doms[self.outer].extent, doms[self.inner].extent))]

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        factor = doms[self.inner].extent
        value = cast(factor.dtype, values[self.fused])
        parts = [floordiv(value, factor), floormod(value, factor)]
        return [
            cast(v.var.dtype, shifted(part, doms[v].min))
            for v, part in zip(self.sources, parts, strict=True)
        ]

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return [add(multiply(values[self.outer], doms[self.inner].extent), values[self.inner])]

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        ana = Analyzer()
        fused, inner = sets[self.fused], doms[self.inner]
        low, high = fused.min_value, fused.max_value
        if matches(ana, fused, doms[self.fused]) or is_neg_inf(low) or is_pos_inf(high):
            return [whole(doms[v]) for v in self.sources]
        if low is high or ana.can_prove_equal(low, high):
            return [point(e) for e in self.up({self.fused: low}, doms)]
        firsts, lasts = (self.up({self.fused: end}, doms) for end in (low, high))
        size = ana.simplify(add(subtract(high, low), const(1, high.dtype)))
        zero = const(0, size.dtype)
        in_row = ana.can_prove(equal(floormod(inner.extent, size), zero)) and ana.can_prove(
            equal(floormod(low, size), zero)
        )
        # Within one row the inner index is a range of its own; else it takes all values.
        across = IntervalSet(firsts[1], lasts[1]) if in_row else whole(inner)
        return [IntervalSet(firsts[0], lasts[0]), across]


@dataclass(eq=False)
class Rebase(Relation):
    """parent = rebased + (first value of parent)."""

    of, into = ("parent",), ("rebased",)
    parent: IterVar
    rebased: IterVar

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        return [upto(self.rebased.var, doms[self.parent].extent)]

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return [shifted(values[self.rebased], doms[self.parent].min)]

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return [subtract(values[self.parent], doms[self.parent].min)]

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        ana = Analyzer()
        if matches(ana, sets[self.rebased], doms[self.rebased]):
            return [whole(doms[self.parent])]
        low = doms[self.parent].min
        values = {self.rebased.var: sets[self.rebased]}
        return [_over(ana, shifted(self.rebased.var, low), values)]


@dataclass(eq=False)
class Singleton(Relation):
    """A loop of one iteration, for a result without axes."""

    into = ("iter",)
    iter: IterVar

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        return [upto(self.iter.var, const(1, self.iter.var.dtype))]

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return []

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return [const(0, self.iter.var.dtype)]

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        return []


@dataclass(eq=False)
class Transform(Relation):
    """The loops of a tensor in another layout."""

    original_variables: tuple[IterVar, ...]
    transformed_variables: tuple[IterVar, ...]
    forward_transformation: IndexMap
    inverse_transformation: IndexMap

    @property
    def sources(self) -> tuple[IterVar, ...]:
        return self.original_variables

    @property
    def results(self) -> tuple[IterVar, ...]:
        return self.transformed_variables

    def ranges(self, doms: Ranges, ana: Analyzer, tight: Callable[[IterVar], bool]) -> list[Range]:
        mapped = self.forward_transformation.map_ranges([doms[v] for v in self.sources])
        return [
            Range.from_min_extent(cast(v.var.dtype, r.min), cast(v.var.dtype, r.extent))
            for v, r in zip(self.results, mapped, strict=True)
        ]

    def up(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return self.inverse_transformation.map_indices([values[v] for v in self.results])

    def down(self, values: Values, doms: Mapping[IterVar, Range]) -> list[PrimExpr]:
        return self.forward_transformation.map_indices([values[v] for v in self.sources])

    def up_sets(self, sets: Sets, doms: Ranges) -> list[IntervalSet]:
        ana = Analyzer()
        indices = self.up({v: v.var for v in self.results}, doms)
        inside = {v.var: sets[v] for v in self.results}
        return [_over(ana, e, inside) for e in indices]


# -- along all relations of a stage ---------------------------------------------------------------


def any_up(stage: Stage, marks: dict[IterVar, bool]) -> None:
    """Mark the loops that a marked one was split, fused or rebased from."""
    for relation in reversed(stage.relations):
        marked = any(marks.get(r, False) for r in relation.results)
        for source in relation.sources:
            marks[source] = marks.get(source, False) or marked


def or_up(stage: Stage, flags: dict[IterVar, int]) -> None:
    """Or the flags of the results into those of the sources; loops without any stay out."""
    for relation in reversed(stage.relations):
        present = [flags[r] for r in relation.results if r in flags]
        for source in relation.sources if present else ():
            for flag in present:
                flags[source] = flags.get(source, 0) | flag


def or_down(stage: Stage, flags: dict[IterVar, int]) -> None:
    """Or the flags of the sources into those of the results; loops without any stay out."""
    for relation in stage.relations:
        present = [flags[s] for s in relation.sources if s in flags]
        if isinstance(relation, Singleton):
            present = [0]
        for result in relation.results if present else ():
            for flag in present:
                flags[result] = flags.get(result, 0) | flag


def pass_down_ranges(stage: Stage, doms: Ranges, ana: Analyzer, some: bool = False) -> None:
    """Set the ranges of all loops of a stage in `doms`, from those of its operation, and bind them in `ana`. some:
    `doms` has some of the operation's; only loops that come from these are set, at the lengths of their factors."""
    threads = {v: v in stage.binds for v in stage.leaf_iter_vars}
    any_up(stage, threads)
    for relation in stage.relations:
        if some and not all(s in doms for s in relation.sources):
            continue
        ranges = relation.ranges(doms, ana, lambda v: not some and not threads.get(v, False))
        for result, rng in zip(relation.results, ranges, strict=True):
            doms[result] = rng
            ana.bind(result.var, rng)


def pass_up_values(
    stage: Stage, doms: Mapping[IterVar, Range], values: Values, some: bool = False
) -> None:
    """Set the values of all loops in `values`, from those of the leaves. some: only where these are known."""
    for relation in reversed(stage.relations):
        if some and not all(r in values for r in relation.results):
            continue
        values.update(zip(relation.sources, relation.up(values, doms), strict=True))


def pass_down_values(stage: Stage, doms: Mapping[IterVar, Range], values: Values) -> None:
    """Set the values of all loops in `values`, from those of the operation's axes."""
    for relation in stage.relations:
        values.update(zip(relation.results, relation.down(values, doms), strict=True))


def pass_up_sets(stage: Stage, doms: Ranges, sets: Sets) -> None:
    """Set the sets of values of all loops in `sets`, from those of the leaves."""
    for relation in reversed(stage.relations):
        sets.update(zip(relation.sources, relation.up_sets(sets, doms), strict=True))


def bound_checks(
    stage: Stage,
    doms: Mapping[IterVar, Range],
    values: Values,
    whole_result: bool,
    skip: Iterable[IterVar] = (),
) -> list[PrimExpr]:
    """The conditions under which `values` are inside of the required region and, unless
    `whole_result`, of the tensor."""
    ana = Analyzer()
    sets: dict[Var, Any] = {}
    for iv, rng in doms.items():
        ana.bind(iv.var, rng)
        sets[iv.var] = rng
    beyond = dict.fromkeys(stage.leaf_iter_vars, False)
    for relation in reversed(stage.relations):
        gaps = any(beyond[r] for r in relation.results)
        if not gaps and all(v in doms for v in (*relation.sources, *relation.results)):
            gaps = relation.leaves_gaps(doms, ana)
        beyond.update(dict.fromkeys(relation.sources, gaps))
    left_out = {*skip}
    tests: list[PrimExpr] = []

    def add_end(value: PrimExpr, extent: PrimExpr) -> None:
        high = ana.int_set(value, sets).max_value
        if is_pos_inf(high) or not ana.can_prove(less(high, extent)):
            tests.append(less(value, extent))

    def add_start(value: PrimExpr) -> None:
        low = ana.int_set(value, sets).min_value
        zero = const(0, value.dtype)
        if is_neg_inf(low) or not ana.can_prove(low >= zero):
            tests.append(value >= zero)

    for iv in stage.all_iter_vars:
        if iv not in left_out and iv.iter_type != IterVar.Opaque and beyond.get(iv, False):
            add_end(subtract(values[iv], doms[iv].min), doms[iv].extent)
    for iv in () if whole_result else stage.op.root_iter_vars:
        if iv in left_out or iv.iter_type == IterVar.Opaque or _same(ana, iv.dom, doms[iv]):
            continue
        value = subtract(values[iv], iv.dom.min)
        add_start(value)
        add_end(value, iv.dom.extent)
    return tests


def _same(ana: Analyzer, a: Range, b: Range) -> bool:
    return ana.can_prove_equal(a.min, b.min) and ana.can_prove_equal(a.extent, b.extent)
