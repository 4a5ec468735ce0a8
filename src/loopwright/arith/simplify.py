"""Simplification of expressions: integers by their canonical form, the rest by rules.

An expression comes back as the same object when no cheaper form of it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from math import gcd
from typing import Any, ClassVar

from ..ir import prim_expr as pe
from ..ir import prim_op as po
from ..ir.node import Node
from ..ir.op import Op
from ..ir.prim_expr import FloatImm, IntImm, PrimExpr, Var
from . import poly as P
from .forms import _STEP, is_index
from .poly import ONE, Poly
from .prove import Prover

# What may fail in an expression: a division by a variable that may be 0, a division by an
# expression that a condition could make a different one, a load.
ZERO, CHANGES, LOADS = 1, 2, 4
_DIVISIONS = (pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod)
_SHIFTS = ("tir.shift_left", "tir.shift_right")
TRUE, FALSE = IntImm("bool", 1), IntImm("bool", 0)


class Simplifier(Prover):
    """The part of the analyzer that rewrites expressions."""

    _rules: ClassVar[dict[type, Callable[..., Any]]] = {}

    def __init__(self) -> None:
        super().__init__()
        self._visited = self._entered = self._rewritten = 0

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """An equal expression that costs no more; the same object if there is no better.

        Integers of type int32 and int64 are taken not to overflow. Python numbers are converted.
        """
        expr = po.convert(expr)
        if not isinstance(expr, PrimExpr):
            return expr
        for _ in range(4):
            made = self._simplified(expr)
            if made is expr:
                break
            expr = made
        return expr

    def _simplified(self, expr: Any) -> Any:
        kind = type(expr)
        if kind is IntImm or kind is FloatImm or kind is pe.StringImm:
            return expr
        if kind is Var or kind is pe.SizeVar:
            known = self._by_var.get(expr)
            if known is None or not is_index(expr.dtype):
                return expr
            value = self._built(known, expr.dtype)
            return expr if value is None else value
        found = self._simple.get(id(expr))
        if found is not None:
            return found[1]
        self._visited += 1
        if is_index(expr.dtype) and kind in self._to_poly:
            made = self._best_integer(expr)
        else:
            made = self._rebuilt(expr)
        if made is not expr and expr.span is not None and made.span is None:
            if not isinstance(made, (IntImm, Var)):
                made = made.with_span(expr.span)
        self._simple[id(expr)] = (expr, made)
        if made is not expr:  # what has been simplified is simple
            self._rewritten += 1
            self._simple[id(made)] = (made, made)
        return made

    def _best_integer(self, expr: Any) -> Any:
        built = self._built(self.poly(expr), expr.dtype)
        kept = self._rebuilt(expr)
        if built is None or self.cost(kept) <= self.cost(built):
            return kept
        return built

    def expand(self, expr: Any) -> Any:
        """An integer as a sum of products, where that costs about the same: sums that differ in
        one term then share the others."""
        made = self.simplify(expr)
        if not is_index(made.dtype):
            return made
        built = self._built(self.poly(made), made.dtype)
        return made if built is None or self.cost(built) > self.cost(made) + 3 * _STEP else built

    def _built(self, p: Poly, dtype: Any) -> Any:
        try:
            return self.build(p, dtype)
        except ValueError:  # a literal that the type does not hold
            return None

    # ------------------------------------------------------------------ by node type

    def _rebuilt(self, expr: PrimExpr) -> PrimExpr:
        rule = self._rules.get(type(expr))
        return self._default(expr) if rule is None else rule(self, expr)

    def _default(self, expr: Any) -> Any:
        if isinstance(expr, pe.BinaryOpExpr):
            return self._binary(expr)
        values, changed = [], False
        for f in expr.__fields__:
            old = getattr(expr, f.name)
            new = self._operand(old)
            changed = changed or new is not old
            values.append(new)
        return expr._make(*values, span=expr.span) if changed else expr

    def _operand(self, value: Any) -> Any:
        if isinstance(value, PrimExpr) and not isinstance(value, pe.IterVar):
            return self._simplified(value)
        if isinstance(value, (tuple, list)):
            made = [self._operand(item) for item in value]
            if any(a is not b for a, b in zip(made, value, strict=True)):
                return type(value)(made)
        elif isinstance(value, pe.Range):
            return value.replace(
                min=self._simplified(value.min), extent=self._simplified(value.extent)
            )
        return value

    def _sum(self, expr: Any) -> Any:
        """A + and - chain with its terms simplified; the sums within are not looked at alone."""
        if not is_index(expr.dtype):
            return self._binary(expr)
        chain = [expr]
        while type(chain[-1].a) in (pe.Add, pe.Sub):
            chain.append(chain[-1].a)
        made = self._simplified(chain[-1].a)
        for node in reversed(chain):
            b = self._simplified(node.b)
            if made is node.a and b is node.b:
                made = node
                continue
            folded = po.fold_binary(type(node), made, b)
            made = type(node)._make(made, b, span=node.span) if folded is None else folded
        return made

    def _binary(self, expr: Any) -> Any:
        a, b = self._simplified(expr.a), self._simplified(expr.b)
        kind = type(expr)
        if kind is pe.Mul and type(a) is IntImm and type(b) is not IntImm:
            a, b = b, a
        folded = po.fold_binary(kind, a, b)
        if folded is not None:
            return folded
        if expr.dtype.lanes > 1:
            made = self._vector(kind, a, b)
            if made is not None:
                return made
        return expr if a is expr.a and b is expr.b else kind._make(a, b, span=expr.span)

    # ------------------------------------------------------------------ vectors

    def _vector(self, kind: Any, a: Any, b: Any) -> Any:
        """Broadcasts and ramps moved outwards."""
        ta, tb = type(a), type(b)
        if ta is pe.Broadcast and tb is pe.Broadcast and a.value.dtype == b.value.dtype:
            return pe.Broadcast._make(self._scalar(kind, a.value, b.value), a.lanes)
        integer = a.dtype.element in ("int32", "int64")
        if not integer or not {ta, tb} <= {pe.Ramp, pe.Broadcast}:
            return None
        if (ta is pe.Ramp and a.base.dtype.lanes > 1) or (tb is pe.Ramp and b.base.dtype.lanes > 1):
            return None
        lanes = (a if ta is pe.Ramp else b).lanes
        if lanes != a.dtype.lanes:
            return None
        if kind is pe.Add or kind is pe.Sub:
            (ab, as_), (bb, bs) = _line(a), _line(b)
            base = self._scalar(kind, ab, bb)
            stride = self._scalar(kind, as_, bs)
            if isinstance(stride, IntImm) and stride.value == 0:
                return pe.Broadcast._make(base, lanes)
            return pe.Ramp._make(base, stride, lanes)
        if kind is pe.Mul and (ta is pe.Broadcast or tb is pe.Broadcast):
            ramp, factor = (a, b.value) if ta is pe.Ramp else (b, a.value)
            if isinstance(factor, IntImm) and factor.value == 0:
                return pe.Broadcast._make(factor, lanes)
            scale = [self._scalar(kind, part, factor) for part in (ramp.base, ramp.stride)]
            return pe.Ramp._make(*scale, lanes)
        if ta is pe.Ramp and tb is pe.Broadcast:
            if kind is pe.FloorDiv or kind is pe.FloorMod:
                return self._ramp_division(kind, a, b.value)
        if issubclass(kind, pe.CmpExpr):
            return self._vector_compare(kind, a, b)
        return None

    def _scalar(self, kind: Any, a: Any, b: Any) -> Any:
        folded = po.fold_binary(kind, a, b)
        return self._simplified(kind._make(a, b) if folded is None else folded)

    def _ramp_division(self, kind: Any, ramp: Any, divisor: Any) -> Any:
        c, s = _int(divisor), _int(ramp.stride)
        if c is None or s is None or c <= 0:
            return None
        if s % c == 0:
            base = self._scalar(kind, ramp.base, divisor)
            if kind is pe.FloorMod:
                return pe.Broadcast._make(base, ramp.lanes)
            return pe.Ramp._make(base, IntImm(divisor.dtype, s // c), ramp.lanes)
        rest = self.poly(pe.FloorMod._make(ramp.base, divisor))
        low, high = self.poly_bound(rest)
        ends = s * (ramp.lanes - 1)
        if low + min(ends, 0) >= 0 and high + max(ends, 0) < c:
            base = self._scalar(kind, ramp.base, divisor)
            if kind is pe.FloorDiv:
                return pe.Broadcast._make(base, ramp.lanes)
            return pe.Ramp._make(base, ramp.stride, ramp.lanes)
        return None

    def _vector_compare(self, kind: Any, a: Any, b: Any) -> Any:
        """A comparison that comes out the same in all lanes of a ramp and a broadcast."""
        (ab, as_), (bb, bs) = _line(a), _line(b)
        stride = P.constant_value(P.add(self.poly(as_), self.poly(bs), -1))
        if stride is None or kind in (pe.EQ, pe.NE):
            return None
        lanes = a.dtype.lanes
        last = stride * (lanes - 1)
        base = P.add(self.poly(ab), self.poly(bb), -1)
        least, most = P.shift(base, min(last, 0)), P.shift(base, max(last, 0))
        if kind is pe.LT or kind is pe.LE:  # base + ... < 0
            slack = 1 if kind is pe.LT else 0
            always = self.nonneg(P.shift(P.scaled(most, -1), -slack))
            never = self.nonneg(P.shift(least, slack - 1))
        else:
            slack = 1 if kind is pe.GT else 0
            always = self.nonneg(P.shift(least, -slack))
            never = self.nonneg(P.shift(P.scaled(most, -1), slack - 1))
        if always or never:
            return pe.Broadcast._make(TRUE if always else FALSE, lanes)
        return None

    # ------------------------------------------------------------------ comparisons

    def _compare(self, expr: Any) -> Any:
        if not is_index(expr.a.dtype):
            made = self._binary(expr)
            if type(expr) in (pe.EQ, pe.NE) and type(made) is type(expr):
                return self._same_operands(made)
            return made
        truth, normal = self._normal(type(expr), self.poly(expr.a), self.poly(expr.b))
        if truth is not None:
            return TRUE if truth else FALSE
        kept = self._binary(expr)
        try:
            built = self._compare_built(type(expr), normal, expr.a.dtype)
        except ValueError:
            return kept
        return built if self.cost(built) < self.cost(kept) else kept

    def _same_operands(self, expr: Any) -> Any:
        if not expr.a.dtype.is_integer or expr.dtype.lanes != 1:
            return expr
        if self.key(expr.a) == self.key(expr.b):
            return TRUE if type(expr) is pe.EQ else FALSE
        if expr.a.dtype.is_bool and isinstance(expr.b, IntImm):
            positive = bool(expr.b.value) == (type(expr) is pe.EQ)
            return expr.a if positive else self._simplified(pe.Not._make(expr.a))
        return expr

    def _normal(self, kind: Any, a: Poly, b: Poly) -> tuple[bool | None, Poly]:
        """(known truth or None, p): for an order, p >= 0 says the same; for EQ and NE, p == 0."""
        if kind is pe.EQ or kind is pe.NE:
            p = P.add(a, b, -1)
            equal = self._is_zero(p)
            if equal is not None:
                return (equal if kind is pe.EQ else not equal), p
            return None, _reduced(p)
        if kind is pe.LT or kind is pe.LE:
            p = P.add(b, a, -1)
        else:
            p = P.add(a, b, -1)
        if kind is pe.LT or kind is pe.GT:
            p = P.shift(p, -1)
        p = self._tightened(p)
        if self.nonneg(p):
            return True, p
        if self.nonneg(P.shift(P.scaled(p, -1), -1)):
            return False, p
        return None, p

    def _is_zero(self, p: Poly) -> bool | None:
        """Whether p is always 0 (True), never (False), or neither is known."""
        if not p:
            return True
        low, high = self.poly_bound(p)
        if low > 0 or high < 0:
            return False
        if low == high == 0:
            return True
        c, b = self.modular(p)
        if c and b % c:
            return False
        if c == 0 and b != 0:
            return False
        negative = P.scaled(p, -1)
        if self.nonneg(P.shift(p, -1)) or self.nonneg(P.shift(negative, -1)):
            return False
        if self.nonneg(p) and self.nonneg(negative):
            return True
        return None

    def _tightened(self, p: Poly) -> Poly:
        """g * s + r >= 0 is s + floor(r / g) >= 0 where that floor is one number."""
        for g in sorted({abs(f) for m, f in p.items() if m} - {1}, reverse=True):
            main = {m: f // g for m, f in p.items() if f % g == 0 and m}
            small = {m: f for m, f in p.items() if f % g or not m}
            low, high = self.poly_bound(small)
            if -float("inf") < low and high < float("inf") and low // g == high // g:
                return self._tightened(P.shift(main, int(low // g)))
        return p

    def _compare_built(self, kind: Any, p: Poly, dtype: Any) -> Any:
        if kind is pe.EQ or kind is pe.NE:
            plus, minus = _sides(p, p.get(ONE, 0))
            return kind._make(self.build(plus, dtype), self.build(minus, dtype))
        k = p.get(ONE, 0)
        plus = {m: f for m, f in p.items() if m and f > 0}
        minus = {m: -f for m, f in p.items() if m and f < 0}
        if not minus:  # plus >= -k
            return pe.GE._make(self.build(plus, dtype), self.number(-k, dtype))
        if k == 0:
            parts = (pe.LE, minus, plus)
        elif k == -1:
            parts = (pe.LT, minus, plus)
        elif (k > 0 or not plus) and kind in (pe.LE, pe.GE):
            parts = (pe.LE, minus, P.shift(plus, k))
        elif k > 0 or not plus:
            parts = (pe.LT, minus, P.shift(plus, k + 1))
        else:
            parts = (pe.LT, P.shift(minus, -k - 1), plus)
        return parts[0]._make(self.build(parts[1], dtype), self.build(parts[2], dtype))

    # ------------------------------------------------------------------ logic

    def _and(self, expr: Any) -> Any:
        if expr.dtype.lanes > 1:
            return self._binary(expr)
        a = self._simplified(expr.a)
        b = self._side(a, True, expr.b)
        if isinstance(a, IntImm):
            return b if a.value else a
        if isinstance(b, IntImm):
            return a if b.value else b
        if self.key(a) == self.key(b) or (not self._risk(b) and self.implies(b, a)):
            return b
        return expr if a is expr.a and b is expr.b else pe.And._make(a, b, span=expr.span)

    def _or(self, expr: Any) -> Any:
        if expr.dtype.lanes > 1:
            return self._binary(expr)
        a = self._simplified(expr.a)
        b = self._side(a, False, expr.b)
        if isinstance(a, IntImm):
            return a if a.value else b
        if isinstance(b, IntImm):
            return b if b.value else a
        return expr if a is expr.a and b is expr.b else pe.Or._make(a, b, span=expr.span)

    def implies(self, condition: Any, conclusion: Any) -> bool:
        """Whether `conclusion` holds wherever `condition` does."""
        if not isinstance(condition, pe.CmpExpr) or not is_index(condition.a.dtype):
            return False
        with self.constraint_scope(condition):
            return self._holds(conclusion)

    def _holds(self, conclusion: Any) -> bool:
        """Whether a condition is known to hold. Its parts are looked at one by one: to simplify
        the whole would ask again, for each `and` inside, what its operands imply."""
        if isinstance(conclusion, pe.And):
            return self._holds(conclusion.b) and self._holds(conclusion.a)
        if isinstance(conclusion, pe.Or):
            return self._holds(conclusion.b) or self._holds(conclusion.a)
        made = self._simplified(conclusion)
        return isinstance(made, IntImm) and bool(made.value)

    def _under(self, condition: Any, holds: bool, expr: Any) -> Any:
        """`expr` simplified where `condition` is known to hold, or not to."""
        if not _plain_condition(condition) or not _worth_it(expr):
            return self._simplified(expr)
        known = condition if holds else pe.Not._make(condition)
        with self.constraint_scope(known):
            return self._simplified(expr)

    def _side(self, condition: Any, holds: bool, expr: Any) -> Any:
        """Like `_under`, for a side of a Select or a right operand of `and`. Those are evaluated
        even where they are not needed, and must not fail there: they keep the Select or minimum
        that makes a divisor or an address valid."""
        risk = self._risk(expr)
        if risk & CHANGES or (risk & LOADS and self._risk(condition) & LOADS):
            made = self._simplified(expr)
            return made if made is expr else self._side(condition, holds, made)
        return self._under(condition, holds, expr)

    def _risk(self, expr: Any) -> int:
        """What in `expr` may fail: flags ZERO, CHANGES, LOADS."""
        kind = type(expr)
        if kind is Var or kind is IntImm or kind is FloatImm:
            return 0
        found = self._risks.get(id(expr))
        if found is None:
            total = 0
            if kind in _DIVISIONS:
                total = self._risk_of_divisor(expr.b)
            elif kind is pe.Call:
                name = expr.op.name if isinstance(expr.op, Op) else ""
                if name in _SHIFTS:
                    total = 0 if isinstance(expr.args[1], IntImm) else CHANGES
            elif not kind.__module__.endswith("prim_expr"):
                total = LOADS
            for child in expr.args if kind is pe.Call else expr.children():
                if isinstance(child, PrimExpr):
                    total |= self._risk(child)
            found = self._risks[id(expr)] = (expr, total)
        return found[1]

    def _risk_of_divisor(self, divisor: Any) -> int:
        if isinstance(divisor, IntImm) or not divisor.dtype.is_integer:
            return 0
        if _worth_it(divisor):
            return CHANGES
        return 0 if self.any_bound(divisor)[0] > 0 else ZERO

    def constraint_scope(self, constraint: Any) -> Any:
        """See `Analyzer.constraint_scope`."""
        raise NotImplementedError

    def _not(self, expr: Any) -> Any:
        a = self._simplified(expr.a)
        kind = type(a)
        if kind is IntImm:
            return FALSE if a.value else TRUE
        if kind is pe.Not:
            return a.a
        if kind is pe.EQ or kind is pe.NE:
            return (pe.NE if kind is pe.EQ else pe.EQ)._make(a.a, a.b, span=expr.span)
        if (kind is pe.And or kind is pe.Or) and expr.dtype.lanes == 1:
            sides = (self._simplified(pe.Not._make(side)) for side in (a.a, a.b))
            made = (pe.Or if kind is pe.And else pe.And)._make(*sides, span=expr.span)
            return self._simplified(made)
        if kind in _NEGATED and a.a.dtype.is_integer:
            return _NEGATED[kind]._make(a.a, a.b, span=expr.span)
        if kind is pe.Broadcast:
            return pe.Broadcast._make(self._simplified(pe.Not._make(a.value)), a.lanes)
        return expr if a is expr.a else pe.Not._make(a, span=expr.span)

    # ------------------------------------------------------------------ choices, calls, vectors

    def _select(self, expr: Any) -> Any:
        c = self._simplified(expr.condition)
        if isinstance(c, IntImm):
            return self._simplified(expr.true_value if c.value else expr.false_value)
        if type(c) is pe.Broadcast and isinstance(c.value, IntImm):
            return self._simplified(expr.true_value if c.value.value else expr.false_value)
        t, f = self._side(c, True, expr.true_value), self._side(c, False, expr.false_value)
        if t is f or (type(t) is IntImm and self.key(t) == self.key(f)):
            return t
        if c is expr.condition and t is expr.true_value and f is expr.false_value:
            return expr
        return pe.Select._make(c, t, f, span=expr.span)

    def _call(self, expr: Any) -> Any:
        name = expr.op.name if isinstance(expr.op, Op) else ""
        if name == "tir.if_then_else":
            c, t, f = expr.args
            c = self._simplified(c)
            if isinstance(c, IntImm):
                return self._simplified(t if c.value else f)
            t, f = self._under(c, True, t), self._under(c, False, f)
            return _with_args(expr, (c, t, f))
        if name == "tir.likely":
            c = self._simplified(expr.args[0])
            return c if isinstance(c, IntImm) else _with_args(expr, (c,))
        made = _with_args(expr, tuple(self._operand(a) for a in expr.args))
        fold = _FOLDS.get(name)
        if fold is not None and all(type(a) is IntImm for a in made.args):
            with suppress(ValueError):  # a shift out of the type, in code that never runs
                return fold(*made.args)
        return made

    def _cast(self, expr: Any) -> Any:
        value = self._simplified(expr.value)
        if isinstance(value, (IntImm, FloatImm)) or value.dtype == expr.dtype:
            return po.cast(expr.dtype, value)
        if type(value) is pe.Broadcast:
            inner = self._simplified(pe.Cast._make(expr.dtype.element, value.value))
            return pe.Broadcast._make(inner, value.lanes)
        return expr if value is expr.value else pe.Cast._make(expr.dtype, value, span=expr.span)

    def _let(self, expr: Any) -> Any:
        value = self._simplified(expr.value)
        self.bind_value_bounds(expr.var, value)
        body = self._simplified(expr.body)
        if value is expr.value and body is expr.body:
            return expr
        return pe.Let._make(expr.var, value, body, span=expr.span)

    def bind_value_bounds(self, var: Var, value: PrimExpr) -> None:
        """Take over what is known of `value`, without putting it in the place of `var`."""
        if not is_index(var.dtype):
            return
        (key,) = self._var(var)
        p = self.poly(value)
        self._known[key[0]] = self.poly_bound(p)
        self._products.pop(key, None)
        self._modular[key[0]] = self.modular(p)
        self._define(key[0], p)


def _line(v: Any) -> tuple[Any, Any]:
    """(base, stride) of a ramp; a broadcast has stride 0."""
    if type(v) is pe.Ramp:
        return v.base, v.stride
    return v.value, IntImm(v.value.dtype, 0)


def _int(e: Any) -> int | None:
    return e.value if type(e) is IntImm else None


def _with_args(expr: Any, args: tuple[Any, ...]) -> Any:
    if all(a is b for a, b in zip(args, expr.args, strict=True)):
        return expr
    return pe.Call._make(expr.dtype, expr.op, args, span=expr.span)


def _reduced(p: Poly) -> Poly:
    g = 0
    for f in p.values():
        g = gcd(g, f)
    return {m: f // g for m, f in p.items()} if g > 1 else p


def _sides(p: Poly, k: int) -> tuple[Poly, Poly]:
    """p == 0 as (left, right) with positive terms on both sides where possible."""
    plus = {m: f for m, f in p.items() if m and f > 0}
    minus = {m: -f for m, f in p.items() if m and f < 0}
    if not plus:
        plus, minus, k = minus, plus, -k
    if not minus:
        return plus, P.constant(-k)
    return (P.shift(plus, k), minus) if k > 0 else (plus, P.shift(minus, -k))


def _plain_condition(c: Any) -> bool:
    """Whether a condition is worth remembering: comparisons of integers and their `and`."""
    if isinstance(c, pe.And):
        return _plain_condition(c.a) or _plain_condition(c.b)
    if isinstance(c, pe.Not):
        return _plain_condition(c.a)
    if isinstance(c, pe.Call) and isinstance(c.op, Op) and c.op.name == "tir.likely":
        return _plain_condition(c.args[0])
    return isinstance(c, pe.CmpExpr) and is_index(c.a.dtype)


def _worth_it(e: Any) -> bool:
    """Whether anything in `e` could become simpler by knowing a condition."""
    if isinstance(e, (Var, IntImm, FloatImm)):
        return False
    if isinstance(e, _CONDITIONAL):
        return True
    if isinstance(e, Node) and not getattr(e, "bound_by_identity", False):
        return any(_worth_it(child) for child in e.children())
    return False


# Nodes that may come out simpler where a condition is known.
_CONDITIONAL = (pe.CmpExpr, *_DIVISIONS, pe.Min, pe.Max, pe.Select)
_NEGATED = {pe.LT: pe.GE, pe.GE: pe.LT, pe.GT: pe.LE, pe.LE: pe.GT}
_FOLDS = {
    f"tir.{fn.__name__}": fn
    for fn in (
        po.shift_left,
        po.shift_right,
        po.bitwise_and,
        po.bitwise_or,
        po.bitwise_xor,
        po.bitwise_not,
    )
}
Simplifier._rules = {
    pe.Add: Simplifier._sum,
    pe.Sub: Simplifier._sum,
    pe.Select: Simplifier._select,
    pe.Call: Simplifier._call,
    pe.Cast: Simplifier._cast,
    pe.Let: Simplifier._let,
    pe.And: Simplifier._and,
    pe.Or: Simplifier._or,
    pe.Not: Simplifier._not,
    **dict.fromkeys((pe.EQ, pe.NE, pe.LT, pe.LE, pe.GT, pe.GE), Simplifier._compare),
}
