"""Bounds of index expressions over inner loops, in terms of outer variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import prim_expr as pe
from ...ir.op import Op
from ...ir.prim_op import add, cast, const, floordiv, maximum, minimum, multiply, subtract
from ...ir.structural import StructuralKey
from ...ir.variables import uses_any

Bound = tuple[pe.PrimExpr, pe.PrimExpr] | None
Rule = Callable[[Any, dict[pe.Var, Bound]], Bound]


def bounds_of(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
    """(least, greatest) value of `expr` while the `loops` run, or None where it is not known.

    The bounds are expressions of the other variables; both are `expr` itself when no loop
    variable occurs in it.
    """
    kind = type(expr)
    if kind is pe.Ramp:
        return _ramp(expr, loops)
    if kind is pe.Broadcast:
        return bounds_of(expr.value, loops)
    if kind is pe.IntImm or not loops or not uses_any(expr, loops):
        return (expr, expr)
    if kind in pe.Var.__kinds__:
        return loops[expr]
    rule = _RULES.get(kind)
    return None if rule is None else rule(expr, loops)


def _ramp(expr: pe.Ramp, loops: dict[pe.Var, Bound]) -> Bound:
    base = bounds_of(expr.base, loops)
    if base is None or not isinstance(expr.stride, pe.IntImm):
        return None
    last = expr.stride.value * (expr.lanes - 1)
    return (add(base[0], min(last, 0)), add(base[1], max(last, 0)))


def _both(expr: pe.PrimExpr, loops: dict[pe.Var, Bound]) -> tuple[Bound, Bound]:
    return bounds_of(expr.a, loops), bounds_of(expr.b, loops)


def _ends(build: Callable[[Any, Any], Any], crossed: bool = False) -> Rule:
    """The rule of what grows with both operands; `crossed`: and falls with the second."""

    def rule(expr: pe.PrimExpr, loops: dict[pe.Var, Bound]) -> Bound:
        a, b = _both(expr, loops)
        if a is None or b is None:
            return None
        return (build(a[0], b[crossed]), build(a[1], b[not crossed]))

    return rule


def _mul(expr: pe.BinaryOpExpr, loops: dict[pe.Var, Bound]) -> Bound:
    a, b = _both(expr, loops)
    if a is None or b is None:
        return None
    if not isinstance(expr.b, pe.IntImm):
        if not isinstance(expr.a, pe.IntImm):
            return _mul_by_extent(expr, a, b, loops)
        a, b = b, a
    factor = b[0]
    low, high = multiply(a[0], factor), multiply(a[1], factor)
    return (low, high) if factor.value >= 0 else (high, low)


def _mul_by_extent(
    expr: pe.BinaryOpExpr,
    a: Sequence[pe.PrimExpr],
    b: Sequence[pe.PrimExpr],
    loops: dict[pe.Var, Bound],
) -> Bound:
    """A product with an expression that no loop changes: a shape, taken to be positive."""
    if not uses_any(expr.b, loops):
        return (multiply(a[0], expr.b), multiply(a[1], expr.b))
    if not uses_any(expr.a, loops):
        return (multiply(expr.a, b[0]), multiply(expr.a, b[1]))
    return None


def _floordiv(expr: pe.BinaryOpExpr, loops: dict[pe.Var, Bound]) -> Bound:
    a = bounds_of(expr.a, loops)
    if a is None or not isinstance(expr.b, pe.IntImm) or expr.b.value <= 0:
        return None
    return (floordiv(a[0], expr.b), floordiv(a[1], expr.b))


def _floormod(expr: pe.BinaryOpExpr, loops: dict[pe.Var, Bound]) -> Bound:
    if uses_any(expr.b, loops):
        return None
    a = bounds_of(expr.a, loops)
    modulus = expr.b.value if isinstance(expr.b, pe.IntImm) else None
    if a is not None and modulus is not None and modulus > 0:
        low, high = a
        if isinstance(low, pe.IntImm) and isinstance(high, pe.IntImm):
            start = low.value // modulus * modulus
            if high.value < start + modulus:
                return (const(low.value - start, low.dtype), const(high.value - start, low.dtype))
    return (const(0, expr.dtype), subtract(expr.b, 1))


def _cast(expr: pe.Cast, loops: dict[pe.Var, Bound]) -> Bound:
    a = bounds_of(expr.value, loops) if expr.dtype.is_integer else None
    return None if a is None else (cast(expr.dtype, a[0]), cast(expr.dtype, a[1]))


def _either(left: pe.PrimExpr, right: pe.PrimExpr, loops: dict[pe.Var, Bound]) -> Bound:
    a, b = bounds_of(left, loops), bounds_of(right, loops)
    return None if a is None or b is None else (minimum(a[0], b[0]), maximum(a[1], b[1]))


def _select(expr: pe.Select, loops: dict[pe.Var, Bound]) -> Bound:
    return _either(expr.true_value, expr.false_value, loops)


def _call(expr: pe.Call, loops: dict[pe.Var, Bound]) -> Bound:
    if isinstance(expr.op, Op) and expr.op.name == "tir.if_then_else":
        return _either(expr.args[1], expr.args[2], loops)
    return None


_RULES: dict[type, Rule] = {
    pe.Add: _ends(add),
    pe.Sub: _ends(subtract, crossed=True),
    pe.Mul: _mul,
    pe.FloorDiv: _floordiv,
    pe.FloorMod: _floormod,
    pe.Min: _ends(minimum),
    pe.Max: _ends(maximum),
    pe.Cast: _cast,
    pe.Select: _select,
    pe.Call: _call,
}


class Sum:
    """A sum of integers as `factor * atom` for each atom, in the order of the text, and a constant."""

    def __init__(self, expr: pe.PrimExpr) -> None:
        self.constant = 0
        self._terms: dict[Any, tuple[pe.PrimExpr, int]] = {}
        self.add(expr)

    def add(self, expr: pe.PrimExpr, scale: int = 1) -> Sum:
        """Add `scale * expr`."""
        kind = type(expr)
        if kind is pe.IntImm:
            self.constant += scale * expr.value
        elif kind is pe.Add or kind is pe.Sub:
            self.add(expr.a, scale)
            self.add(expr.b, scale if kind is pe.Add else -scale)
        elif kind is pe.Mul and type(expr.b) is pe.IntImm:
            self.add(expr.a, scale * expr.b.value)
        elif kind is pe.Mul and type(expr.a) is pe.IntImm:
            self.add(expr.b, scale * expr.a.value)
        else:
            key = expr if kind in pe.Var.__kinds__ else StructuralKey(expr, map_free_vars=False)
            self._terms[key] = (expr, self.factor(key) + scale)
        return self

    def factor(self, key: StructuralKey | pe.PrimExpr) -> int:
        """The factor of the atom of a key."""
        return self._terms.get(key, (None, 0))[1]

    @property
    def terms(self) -> dict[Any, tuple[pe.PrimExpr, int]]:
        """(atom, factor) by the atom's key, those of factor 0 left out."""
        return {key: term for key, term in self._terms.items() if term[1]}

    def build(self) -> pe.PrimExpr:
        """The sum of one term at least, added terms before subtracted ones."""
        (atom, factor), *more = sorted(self.terms.values(), key=lambda term: term[1] < 0)
        total = multiply(atom, factor)
        for atom, factor in more:
            if factor < 0:
                total = subtract(total, multiply(atom, -factor))
            else:
                total = add(total, multiply(atom, factor))
        return total + self.constant if self.constant >= 0 else total - -self.constant


def difference(a: pe.PrimExpr, b: pe.PrimExpr) -> int | pe.PrimExpr | None:
    """a - b: an int where it is a constant, else an expression with like terms collected."""
    if a is b:
        return 0
    rest = Sum(a).add(b, -1)
    if len(rest.terms) > 4:
        return None
    return rest.build() if rest.terms else rest.constant
