"""`Analyzer`: what is known of integer expressions, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Flag, IntEnum
from typing import Any, ClassVar

from ..base.errors import explain
from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import IntImm, PrimExpr, Range, Var
from . import poly as P
from .forms import P_INF, is_index
from .poly import ONE, Poly
from .simplify import Simplifier


class ProofStrength(IntEnum):
    """How hard a proof may try; TVM's names. Here both are the same."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1


class Extension(Flag):
    """TVM's optional rewrites. All that are here are always on."""

    NoExtensions = 0
    TransitivelyProveInequalities = 1
    ConvertBooleanToAndOfOrs = 2
    ApplyConstraintsToBooleanBranches = 4
    ComparisonOfProductAndSum = 8


class ModularSet(Node):
    """The values coeff * k + base."""

    coeff: int
    base: int


class ConstIntBound(Node):
    """Least and greatest value; POS_INF and NEG_INF where there is none."""

    POS_INF: ClassVar[int] = (1 << 63) - 1
    NEG_INF: ClassVar[int] = -((1 << 63) - 1)

    min_value: int
    max_value: int


class RewriteSimplifyStats(Node):
    """Expressions looked at, scopes entered, expressions that became another."""

    nodes_visited: int
    constraints_entered: int
    rewrites_performed: int


class ConstraintScope:
    """`with analyzer.constraint_scope(cond): ...`; `cond` is known to hold inside."""

    __slots__ = ("_analyzer", "_condition", "_saved")

    def __init__(self, analyzer: Analyzer, condition: Any) -> None:
        self._analyzer = analyzer
        self._condition = condition
        self._saved: Any = None

    def __enter__(self) -> ConstraintScope:
        self._saved = self._analyzer._enter(self._condition)
        return self

    def __exit__(self, *exc: object) -> None:
        self._analyzer._leave(self._saved)


class Analyzer(Simplifier):
    """Simplifies integer expressions and proves facts about them.

    Variables are bound to ranges or values with `bind`; conditions hold inside a
    `constraint_scope`. int32 and int64 are taken not to overflow.

    >>> ana = Analyzer()
    >>> i = Var("i"); ana.bind(i, Range(0, 8))
    >>> ana.can_prove(i // 8 == 0)
    True
    """

    _set_of: ClassVar[Callable[..., Any]]  # filled by `int_set`, which is made of analyzers

    def __init__(self) -> None:
        super().__init__()
        self._truths: set[Any] = set()

    # ------------------------------------------------------------------ what is known

    def bind(self, var: Var, expr: Any, allow_override: bool = True) -> None:
        """Say that `var` lies in a Range, or has the value of an expression."""
        expr = po.convert(expr) if not isinstance(expr, (Range, PrimExpr)) else expr
        seen = var in self._by_var
        if not is_index(var.dtype):
            return
        if isinstance(expr, Range):
            if self.is_one(expr.extent):
                self._bind_value(var, expr.min, seen)
            else:
                self._bind_range(var, expr, seen)
        else:
            self._bind_value(var, expr, seen)
        if seen:
            self._new_caches()

    def is_one(self, expr: Any) -> bool:
        """Whether an extent is the number 1."""
        return P.constant_value(self.poly(expr)) == 1

    def _bind_value(self, var: Var, value: Any, seen: bool) -> None:
        p = self.poly(value)
        (m,) = self._atom(var, P.VAR, var.dtype, var)
        if any(m[0] in n for n in p):
            return  # the value speaks of the variable itself
        if seen:
            self._new_examples()
        self._by_var[var] = p

    def _bind_range(self, var: Var, dom: Range, seen: bool) -> None:
        p = self._atom(var, P.VAR, var.dtype, var)
        self._by_var[var] = p
        ((number,),) = p
        if seen:
            self._forget_facts(number)
            self._new_examples()
        low, extent = self.poly(dom.min), self.poly(dom.extent)
        last = P.shift(P.add(low, extent), -1)
        lowest, highest = self.poly_bound(low)[0], self.poly_bound(last)[1]
        self._known[number] = (lowest, max(highest, lowest))
        self._products.pop((number,), None)
        self._ranges[number] = (low, last)
        self._claims.append(P.add(last, low, -1))
        if P.terms(low):
            self._add_fact(P.add(p, low, -1))
        if P.terms(last):
            self._add_fact(P.add(last, p, -1))

    @contextmanager
    def loop_scope(self, var: Var, dom: Range) -> Iterator[None]:
        """A `with` scope in which `var` runs over `dom`.

        Outside it is not known that `dom` is not empty, which `bind` lets one conclude.
        """
        count, claims = len(self._facts), len(self._claims)
        self.bind(var, dom)
        try:
            yield
        finally:
            self._drop_claims(claims)
            if len(self._facts) > count:
                self._drop_facts(count)
                self._new_caches()

    def update(self, var: Var, info: Any, override: bool = False) -> None:
        """Set what is known of a variable: a `ConstIntBound`, a `ModularSet` or an interval."""
        ((number,),) = self._atom(var, P.VAR, var.dtype, var)
        ends = (getattr(info, "min_value", None), getattr(info, "max_value", None))
        if all(isinstance(e, (int, PrimExpr)) for e in ends):
            low, high = self._end(ends[0])[0], self._end(ends[1])[1]
            known = self._known.get(number)
            if known is not None and not override:
                low, high = max(low, known[0]), min(high, known[1])
            self._known[number] = (low, high)
            if -P_INF < low <= high < P_INF:
                self._ranges[number] = (P.constant(int(low)), P.constant(int(high)))
            if self._exemplified(number):
                self._new_examples()
        elif isinstance(info, ModularSet):
            self._modular[number] = (info.coeff, info.base)
            self._examples_from = ()  # they know nothing of remainders
            self._new_examples()
        else:
            what = "update takes a ConstIntBound, a ModularSet or an IntervalSet"
            raise TypeError(explain(what, got=type(info).__name__, instead="use bind"))
        self._new_caches()

    def _end(self, value: Any) -> Any:
        """Bounds of the end of an interval; an infinite one is a handle."""
        if isinstance(value, int):
            return (_to_inf(value),) * 2
        return self.any_bound(value) if value.dtype.is_integer else (-P_INF, P_INF)

    def assume_nonnegative(self, var: Var) -> None:
        """Say that a variable is never negative, for as long as the analyzer lives."""
        if is_index(var.dtype):
            self._learn(self._atom(var, P.VAR, var.dtype, var))
            self._new_caches()

    def constraint_scope(self, constraint: Any) -> ConstraintScope:
        """A `with` scope in which a condition is known to hold."""
        return ConstraintScope(self, po.convert(constraint))

    def _enter(self, condition: Any) -> Any:
        self._entered += 1
        saved = (
            len(self._facts),
            dict(self._known),
            dict(self._modular),
            self._truths,
            self._caches(),
            len(self._claims),
        )
        self._truths = set(self._truths)
        facts: list[Poly] = []
        self._collect(condition, True, facts)
        self._new_caches()
        for p in facts:
            self._learn(p)
        self._new_caches()
        return saved

    def _leave(self, saved: Any) -> None:
        count, self._known, self._modular, self._truths, caches, claims = saved
        self._drop_facts(count)
        self._drop_claims(claims)
        self._use_caches(caches)

    def _collect(self, condition: Any, holds: bool, facts: list[Poly]) -> None:
        """The inequalities p >= 0 that follow from a condition."""
        kind = type(condition)
        if kind is pe.Not:
            self._collect(condition.a, not holds, facts)
        elif (kind is pe.And and holds) or (kind is pe.Or and not holds):
            self._collect(condition.a, holds, facts)
            self._collect(condition.b, holds, facts)
        elif kind is pe.Call and isinstance(condition.op, Op) and condition.op.name == "tir.likely":
            self._collect(condition.args[0], holds, facts)
        elif isinstance(condition, pe.CmpExpr) and is_index(condition.a.dtype):
            a, b = self.poly(condition.a), self.poly(condition.b)
            if not holds:
                kind = _NOT[kind]
            diff = P.add(a, b, -1)  # a - b
            opposite = P.scaled(diff, -1)
            if kind is pe.EQ:
                facts += [diff, opposite]
                self._learn_modular(diff)
            elif kind is pe.LT or kind is pe.LE:
                facts.append(P.shift(opposite, -1) if kind is pe.LT else opposite)
            elif kind is pe.GT or kind is pe.GE:
                facts.append(P.shift(diff, -1) if kind is pe.GT else diff)
            else:
                self._learn_unequal(diff, facts)
        elif isinstance(condition, PrimExpr) and condition.dtype.is_bool:
            self._truths.add((self.key(self._simplified(condition)), holds))

    def _learn_unequal(self, diff: Poly, facts: list[Poly]) -> None:
        low, high = self.poly_bound(diff)
        if low == 0:
            facts.append(P.shift(diff, -1))
        elif high == 0:
            facts.append(P.shift(P.scaled(diff, -1), -1))

    def _learn(self, p: Poly) -> None:
        """Remember p >= 0: as a bound where it speaks of one atom, else as a fact."""
        self._claims.append(p)
        p = self._tightened(p)
        pairs = [(m, f) for m, f in p.items() if m != ONE]
        if len(pairs) == 1 and len(pairs[0][0]) == 1:
            (m, f), k = pairs[0], p.get(ONE, 0)
            low, high = self._known.get(m[0], (-P_INF, P_INF))
            if f > 0:  # f x + k >= 0: x >= ceil(-k / f)
                low = max(low, -(k // f))
            else:
                high = min(high, k // -f)
            self._known[m[0]] = (low, high)
            return
        if len(pairs) == 1 and pairs[0][1] > 0 and p.get(ONE, 0) < 0:
            self._learn_factors(pairs[0][0])
        self._add_fact(p)

    def _learn_factors(self, product: Any) -> None:
        """A product that is positive, of factors that are not negative: each is positive."""
        if all(self.poly_bound({(a,): 1})[0] >= 0 for a in product):
            for a in product:
                low, high = self._known.get(a, (-P_INF, P_INF))
                self._known[a] = (max(low, 1), high)

    def _learn_modular(self, diff: Poly) -> None:
        """From x - c * (x // c) == b: x is c * k + b."""
        pairing = self.paired(diff)
        if len(pairing.mods) != 1 or P.terms(pairing.rest):
            return
        scale, factor, value, divisor = pairing.mods[0]
        c = P.constant_value(divisor)
        rest = pairing.rest.get(ONE, 0)
        if factor or c is None or rest % scale or P.terms(value) != 1:
            return
        base = -rest // scale - value.get(ONE, 0)
        ((m, f),) = [(m, f) for m, f in value.items() if m]
        if f in (1, -1) and len(m) == 1:
            self._modular[m[0]] = (c, base * f % c)

    # ------------------------------------------------------------------ questions

    def rewrite_simplify(self, expr: Any) -> Any:
        """The same as `simplify`."""
        return self.simplify(expr)

    def canonical_simplify(self, expr: Any) -> Any:
        """The same as `simplify`."""
        return self.simplify(expr)

    def _rebuilt(self, expr: PrimExpr) -> PrimExpr:
        made = super()._rebuilt(expr)
        if self._truths and made.dtype.is_bool and not isinstance(made, IntImm):
            key = self.key(made)
            for holds in (True, False):
                if (key, holds) in self._truths:
                    return IntImm("bool", holds)
        return made

    def int_set(self, expr: Any, dom_map: Mapping[Var, Any] | None = None) -> Any:
        """The interval of an expression over `dom_map`, see `eval_set`; without it, from what is
        known of the variables."""
        return Analyzer._set_of(po.convert(expr), dom_map, self)

    @property
    def rewrite_simplify_stats(self) -> RewriteSimplifyStats:
        """How much was simplified since the analyzer was made, or since the last reset."""
        return RewriteSimplifyStats(self._visited, self._entered, self._rewritten)

    def reset_rewrite_simplify_stats(self) -> None:
        """Count from 0 again."""
        self._visited = self._entered = self._rewritten = 0

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Least and greatest value of an integer expression."""
        low, high = self.any_bound(po.convert(expr))
        return ConstIntBound(_from_inf(low), _from_inf(high))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether bounds of a variable were given."""
        found = self._by_key.get(var)
        return found is not None and found.number in self._known

    def modular_set(self, expr: Any) -> ModularSet:
        """(coeff, base): the value is coeff * k + base for some k."""
        expr = po.convert(expr)
        c, b = self.modular(self.poly(expr))
        return ModularSet(c, b)

    def can_prove(self, expr: Any, strength: ProofStrength = ProofStrength.DEFAULT) -> bool:
        """Whether a condition is proven to hold."""
        if isinstance(expr, bool):
            return expr
        kind = type(expr)
        if kind is pe.And:
            if expr.dtype.lanes == 1 and self.can_prove(expr.a):
                with self.constraint_scope(expr.a):
                    return self.can_prove(expr.b)
            return False
        if isinstance(expr, pe.CmpExpr) and is_index(expr.a.dtype):
            return self._normal(kind, self.poly(expr.a), self.poly(expr.b))[0] is True
        made = self.simplify(expr)
        if type(made) is pe.Broadcast:
            made = made.value
        return isinstance(made, IntImm) and bool(made.value)

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions are proven to have the same value."""
        lhs, rhs = po.convert_pair(lhs, rhs)
        if lhs is rhs:
            return True
        if is_index(lhs.dtype) and is_index(rhs.dtype):
            return self._is_zero(P.add(self.poly(lhs), self.poly(rhs), -1)) is True
        return self.key(self.simplify(lhs)) == self.key(self.simplify(rhs))

    def can_prove_greater_equal(self, expr: Any, lower_bound: Any) -> bool:
        """Whether expr >= lower_bound is proven."""
        return self.nonneg(
            P.add(self.poly(po.convert(expr)), self.poly(po.convert(lower_bound)), -1)
        )

    def can_prove_less(self, expr: Any, upper_bound: Any) -> bool:
        """Whether expr < upper_bound is proven."""
        diff = P.add(self.poly(po.convert(upper_bound)), self.poly(po.convert(expr)), -1)
        return self.nonneg(P.shift(diff, -1))

    @property
    def enabled_extensions(self) -> Extension:
        """TVM's switches; see `Extension`."""
        return Extension.NoExtensions

    @enabled_extensions.setter
    def enabled_extensions(self, flags: Extension) -> None:
        Extension(flags)


_NOT = {pe.LT: pe.GE, pe.GE: pe.LT, pe.GT: pe.LE, pe.LE: pe.GT, pe.EQ: pe.NE, pe.NE: pe.EQ}


def _to_inf(value: int) -> float:
    if value >= ConstIntBound.POS_INF:
        return P_INF
    return -P_INF if value <= ConstIntBound.NEG_INF else value


def _from_inf(value: float) -> int:
    return int(max(ConstIntBound.NEG_INF, min(ConstIntBound.POS_INF, value)))
