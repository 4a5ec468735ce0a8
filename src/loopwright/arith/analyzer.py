"""`Analyzer`: known facts about integer expressions, and questions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from math import inf
from typing import Any, ClassVar

from ..base.errors import explain
from ..base.late import Slot
from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.literals import is_true
from ..ir.node import Node, field
from ..ir.prim_expr import IntImm, PrimExpr, Range, ScalarLike, Var
from . import bounds, build, constraints, convert, division, modular, normal, proof
from . import poly as P
from . import simplify as simplification
from .atoms import Atoms, is_index
from .constraints import ConstraintScope
from .context import Assumptions, Cache, Context, Counts, Extension
from .cost import Costs
from .examples import Examples
from .facts import Facts
from .interval import NEG_INF, POS_INF, Evaluator, is_infinite, is_neg_inf, is_pos_inf
from .keys import Keys
from .poly import Poly

_REWRITE: Slot[Callable[[Context, ScalarLike], Any]] = Slot("arith.rewrite_simplify")


class ProofStrength(IntEnum):
    """How hard a proof may try; TVM's names. Both levels are the same here."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class ModularSet(Node):
    """The values coeff * k + base."""

    coeff: int
    base: int


class ConstIntBound(Node):
    """Least and greatest value; POS_INF or NEG_INF if unbounded."""

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -((1 << 63) - 1)

    min_value: int
    max_value: int


class RewriteSimplifyStats(Node):
    """Counts of expressions visited, scopes entered and expressions rewritten."""

    nodes_visited: int
    constraints_entered: int
    rewrites_performed: int


class IntSet(Node):
    """Base class of integer sets."""

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty."""
        raise NotImplementedError

    def is_everything(self) -> bool:
        """Whether the set is unbounded."""
        raise NotImplementedError

    @staticmethod
    def single_point(point: ScalarLike) -> IntervalSet:
        """The set of one value."""
        point = po.convert(point)
        return IntervalSet(point, point)

    @staticmethod
    def vector(vec: pe.Ramp) -> IntervalSet:
        """The values of a ramp."""
        if vec.dtype.is_scalable:
            return IntervalSet(vec.base, POS_INF)
        last = vec.base + vec.stride * (vec.lanes - 1)
        return IntervalSet(po.minimum(vec.base, last), po.maximum(vec.base, last))


class IntervalSet(IntSet):
    """min_value .. max_value, both inclusive; an end may be `pos_inf()` or `neg_inf()`."""

    min_value: PrimExpr = field(converter=po.convert)
    max_value: PrimExpr = field(converter=po.convert)

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
        """The range of the interval; `max_range` if it is unbounded."""
        if not self._finite():
            if max_range is None:
                raise ValueError("an unbounded set has no range; give max_range")
            return max_range
        ana = Analyzer()
        extent = ana.simplify(self.max_value - self.min_value + 1)
        return Range.from_min_extent(self.min_value, extent)


def nothing() -> IntervalSet:
    """The empty set."""
    return IntervalSet(POS_INF, NEG_INF)


class Analyzer:
    """Simplifies integer expressions and proves facts about them.

    Variables are bound to ranges or values with `bind` (or as `Analyzer(ranges)`); conditions hold
    inside a `constraint_scope`. Indices, of type int32 and int64, are assumed not to overflow;
    values computed from loads wrap around.

    >>> ana = Analyzer()
    >>> i = Var("i"); ana.bind(i, Range(0, 8))
    >>> ana.can_prove(i // 8 == 0)
    True
    """

    def __init__(self, ranges: Mapping[Var, Any] | None = None) -> None:
        self.atoms = Atoms()
        self.keys = Keys()
        self.costs = Costs()
        self.facts = Facts()
        self.examples = Examples(self.atoms)
        self.assumed = Assumptions({}, {}, set(), {})
        self.cache = Cache()
        self.counts = Counts()
        self.enabled_extensions = Extension.NoExtensions
        self.literals: dict[tuple[Any, int], IntImm] = {}
        for var, dom in (ranges or {}).items():
            self.bind(var, dom)

    # The components, see `context`: canonical forms, known facts, rewriting.
    poly = convert.poly
    ring = convert.ring
    poly_div = division.poly_div
    paired = division.paired
    build = build.build
    poly_bound = bounds.poly_bound
    any_bound = bounds.any_bound
    modular = modular.modular
    nonneg = proof.nonneg
    refuted = proof.refuted
    is_zero = normal.is_zero
    simplified = simplification.simplified
    rebuilt = simplification.rebuilt
    expand = simplification.expand
    simplify = simplification.simplify
    canonical_simplify = simplify
    bind_value_bounds = constraints.bind_value_bounds

    def rewrite_simplify(self, expr: ScalarLike) -> Any:
        """An equal expression in the form of TVM's rules, as its scripts expect.

        Raises DivisionByZero for a division by the literal 0, which `simplify` leaves as it is.
        """
        return _REWRITE.get()(self, expr)

    def key(self, expr: PrimExpr | Sequence[PrimExpr]) -> Any:
        """A hashable value, equal only for expressions that always have equal values."""
        return self.keys.of(expr)

    # ------------------------------------------------------------------ assumptions

    def bind(self, var: Var, expr: Range | PrimExpr, allow_override: bool = True) -> None:
        """Bind `var` to a Range or to the value of an expression."""
        expr = po.convert(expr) if not isinstance(expr, (Range, PrimExpr)) else expr
        if not is_index(var.dtype):
            return
        seen = var in self.assumed.values
        if not isinstance(expr, Range):
            constraints.bind_value(self, var, expr, seen)
        elif self.is_one(expr.extent):
            constraints.bind_value(self, var, expr.min, seen)
        else:
            constraints.bind_range(self, var, expr, seen)
        if seen:
            self.cache = Cache()

    def is_one(self, expr: PrimExpr) -> bool:
        """Whether an extent is equal to 1."""
        return P.constant_value(self.poly(expr)) == 1

    @contextmanager
    def loop_scope(self, var: Var, dom: Range) -> Iterator[None]:
        """A `with` scope in which `var` runs over `dom`.

        Unlike after `bind`, `dom` is not assumed to be non-empty outside of the scope.
        """
        facts, claims = len(self.facts), len(self.examples.claims)
        self.bind(var, dom)
        try:
            yield
        finally:
            self.examples.drop_claims(claims)
            if len(self.facts) > facts:
                self.facts.drop(facts)
                self.cache = Cache()

    def update(self, var: Var, info: Node | int, override: bool = False) -> None:
        """Set the known facts of a variable: a `ConstIntBound`, a `ModularSet` or an interval."""
        number = self.atoms.of_var(var)
        ends = (getattr(info, "min_value", None), getattr(info, "max_value", None))
        if all(isinstance(e, (int, PrimExpr)) for e in ends):
            low, high = self._end(ends[0])[0], self._end(ends[1])[1]
            bounds = self.assumed.bounds.get(number)
            if bounds is not None and not override:
                low, high = max(low, bounds[0]), min(high, bounds[1])
            self.assumed.bounds[number] = (low, high)
            if -inf < low <= high < inf:
                self.examples.ranges[number] = (P.constant(int(low)), P.constant(int(high)))
            if self.examples.mention(number):
                self.examples.renew()
        elif isinstance(info, ModularSet):
            self.assumed.modular[number] = (info.coeff, info.base)
            self.examples.give_up()
        else:
            what = "update takes a ConstIntBound, a ModularSet or an IntervalSet"
            raise TypeError(explain(what, got=type(info).__name__, instead="use bind"))
        self.cache = Cache()

    def _end(self, value: Any) -> Any:
        """Bounds of an interval's end; an infinite one is a handle."""
        if isinstance(value, int):
            return (_to_inf(value),) * 2
        return self.any_bound(value) if value.dtype.is_integer else (-inf, inf)

    def assume_nonnegative(self, expr: PrimExpr) -> None:
        """Assume that a variable or another integer is not negative, for the analyzer's lifetime."""
        if is_index(expr.dtype):
            constraints.learn(self, self.poly(expr))
            self.cache = Cache()

    def constraint_scope(self, constraint: ScalarLike) -> ConstraintScope:
        """A `with` scope in which a condition is assumed to hold."""
        return ConstraintScope(self, po.convert(constraint))

    # ------------------------------------------------------------------ questions

    def int_set(self, expr: PrimExpr, dom_map: Mapping[Var, Any] | None = None) -> IntervalSet:
        """The interval of an expression over `dom_map`, see `eval_set`; without it, from the known
        facts about the variables."""
        expr = po.convert(expr)
        if dom_map is not None:
            evaluator = Evaluator(self, dom_map, expr.dtype)
            return interval_set(self, *evaluator.ends(self.ring(expr)), expr.dtype)
        low, high = self.any_bound(expr)
        return IntervalSet(
            NEG_INF if low == -inf else po.const(int(low), expr.dtype),
            POS_INF if high == inf else po.const(int(high), expr.dtype),
        )

    @property
    def rewrite_simplify_stats(self) -> RewriteSimplifyStats:
        """Counts of simplifications since the analyzer was created, or since the last reset."""
        counts = self.counts
        return RewriteSimplifyStats(counts.visited, counts.entered, counts.rewritten)

    def reset_rewrite_simplify_stats(self) -> None:
        """Reset the counts to 0."""
        self.counts = Counts()

    def const_int_bound(self, expr: ScalarLike) -> ConstIntBound:
        """Least and greatest value of an integer expression."""
        low, high = self.any_bound(po.convert(expr))
        return ConstIntBound(_from_inf(low), _from_inf(high))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether bounds of a variable were given."""
        atom = self.atoms.by_key.get(var)
        return atom is not None and atom.number in self.assumed.bounds

    def modular_set(self, expr: ScalarLike) -> ModularSet:
        """(coeff, base): the value is coeff * k + base for some k."""
        return ModularSet(*self.modular(self.poly(po.convert(expr))))

    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether a condition can be proved."""
        if isinstance(expr, bool):
            return expr
        kind = type(expr)
        if kind is pe.And:
            if expr.dtype.lanes == 1 and self.can_prove(expr.a):
                with self.constraint_scope(expr.a):
                    return self.can_prove(expr.b)
            return False
        if isinstance(expr, pe.CmpExpr) and is_index(expr.a.dtype):
            return normal.normal(self, kind, self.poly(expr.a), self.poly(expr.b))[0] is True
        simple = self.simplify(expr)
        if type(simple) is pe.Broadcast:
            simple = simple.value
        return is_true(simple)

    def can_prove_equal(self, lhs: ScalarLike, rhs: ScalarLike) -> bool:
        """Whether two expressions can be proved equal."""
        lhs, rhs = po.convert_pair(lhs, rhs)
        if lhs is rhs:
            return True
        if is_index(lhs.dtype) and is_index(rhs.dtype):
            return self.is_zero(P.add(self.poly(lhs), self.poly(rhs), -1)) is True
        return self.key(self.simplify(lhs)) == self.key(self.simplify(rhs))

    def can_prove_greater_equal(self, expr: ScalarLike, lower_bound: ScalarLike) -> bool:
        """Whether expr >= lower_bound can be proved."""
        return self.nonneg(
            P.add(self.poly(po.convert(expr)), self.poly(po.convert(lower_bound)), -1)
        )

    def can_prove_less(self, expr: ScalarLike, upper_bound: ScalarLike) -> bool:
        """Whether expr < upper_bound can be proved."""
        diff = P.add(self.poly(po.convert(upper_bound)), self.poly(po.convert(expr)), -1)
        return self.nonneg(P.shift(diff, -1))


def interval_set(ctx: Context, low: Poly | None, high: Poly | None, dtype: str) -> IntervalSet:
    """The interval with these ends; None, or an end that the type cannot represent, is infinite."""
    return IntervalSet(_end(ctx, low, dtype, NEG_INF), _end(ctx, high, dtype, POS_INF))


def _end(ctx: Context, p: Poly | None, dtype: str, unbounded: PrimExpr) -> PrimExpr:
    if p is None:
        return unbounded
    try:
        return build.build(ctx, p, dtype)
    except ValueError:
        return unbounded


def _to_inf(value: int) -> float:
    if value >= ConstIntBound.POS_INF:
        return inf
    return -inf if value <= ConstIntBound.NEG_INF else value


def _from_inf(value: float) -> int:
    return int(max(ConstIntBound.NEG_INF, min(ConstIntBound.POS_INF, value)))
