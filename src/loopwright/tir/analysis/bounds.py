"""Bounds of index expressions over inner loops, in terms of outer variables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import prim_expr as pe
from ...ir.op import Op
from ...ir.prim_op import add, cast, const, floordiv, maximum, minimum, multiply, subtract
from ...ir.structural import structural_equal
from ...ir.variables import uses_any

Bound = tuple[pe.PrimExpr, pe.PrimExpr] | None
Rule = Callable[[Any, dict[pe.Var, Bound]], Bound]
Linear = list[tuple[pe.PrimExpr, int]]


def bounds_of(expr: pe.PrimExpr, loops: dict[pe.Var, Bound]) -> Bound:
    """(least, greatest) value of `expr` while the `loops` run, or None where it is not known.

    The bounds are expressions of the other variables; both are `expr` itself when no loop
    variable occurs in it.
    """
    if isinstance(expr, pe.Ramp):
        return _ramp(expr, loops)
    if isinstance(expr, pe.Broadcast):
        return bounds_of(expr.value, loops)
    if isinstance(expr, pe.IntImm) or not loops or not uses_any(expr, loops):
        return (expr, expr)
    if isinstance(expr, pe.Var):
        return loops[expr]
    rule = _RULES.get(type(expr))
    return None if rule is None else rule(expr, loops)


def _ramp(expr: pe.Ramp, loops: dict[pe.Var, Bound]) -> Bound:
    base = bounds_of(expr.base, loops)
    if base is None or not isinstance(expr.stride, pe.IntImm):
        return None
    reach = expr.stride.value * (expr.lanes - 1)
    return (add(base[0], min(reach, 0)), add(base[1], max(reach, 0)))


def _both(expr: Any, loops: dict[pe.Var, Bound]) -> tuple[Bound, Bound]:
    return bounds_of(expr.a, loops), bounds_of(expr.b, loops)


def _ends(build: Callable[[Any, Any], Any], crossed: bool = False) -> Rule:
    """The rule of what grows with both operands; `crossed`: and falls with the second."""

    def rule(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
        a, b = _both(expr, loops)
        if a is None or b is None:
            return None
        return (build(a[0], b[crossed]), build(a[1], b[not crossed]))

    return rule


def _mul(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
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


def _mul_by_extent(expr: Any, a: Any, b: Any, loops: dict[pe.Var, Bound]) -> Bound:
    """A product with an expression that no loop changes: a shape, taken to be positive."""
    if not uses_any(expr.b, loops):
        return (multiply(a[0], expr.b), multiply(a[1], expr.b))
    if not uses_any(expr.a, loops):
        return (multiply(expr.a, b[0]), multiply(expr.a, b[1]))
    return None


def _floordiv(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
    a = bounds_of(expr.a, loops)
    if a is None or not isinstance(expr.b, pe.IntImm) or expr.b.value <= 0:
        return None
    return (floordiv(a[0], expr.b), floordiv(a[1], expr.b))


def _floormod(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
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


def _cast(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
    a = bounds_of(expr.value, loops) if expr.dtype.is_integer else None
    return None if a is None else (cast(expr.dtype, a[0]), cast(expr.dtype, a[1]))


def _either(left: pe.PrimExpr, right: pe.PrimExpr, loops: dict[pe.Var, Bound]) -> Bound:
    a, b = bounds_of(left, loops), bounds_of(right, loops)
    return None if a is None or b is None else (minimum(a[0], b[0]), maximum(a[1], b[1]))


def _select(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
    return _either(expr.true_value, expr.false_value, loops)


def _call(expr: Any, loops: dict[pe.Var, Bound]) -> Bound:
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


def _linear(expr: pe.PrimExpr, scale: int, terms: Linear) -> int:
    """Add `scale * expr` to `terms`, (atom, factor) pairs; returns the constant part."""
    if isinstance(expr, pe.IntImm):
        return scale * expr.value
    if isinstance(expr, (pe.Add, pe.Sub)):
        left = _linear(expr.a, scale, terms)
        return left + _linear(expr.b, scale if isinstance(expr, pe.Add) else -scale, terms)
    if isinstance(expr, pe.Mul):
        for a, b in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(b, pe.IntImm):
                return _linear(a, scale * b.value, terms)
    for n, (atom, factor) in enumerate(terms):
        if atom is expr or (type(atom) is type(expr) and structural_equal(atom, expr)):
            terms[n] = (atom, factor + scale)
            return 0
    terms.append((expr, scale))
    return 0


def difference(a: pe.PrimExpr, b: pe.PrimExpr) -> int | pe.PrimExpr | None:
    """a - b: an int where it is a constant, else an expression with like terms collected."""
    if a is b:
        return 0
    terms: Linear = []
    constant = _linear(a, 1, terms) + _linear(b, -1, terms)
    rest = [(atom, factor) for atom, factor in terms if factor != 0]
    if not rest:
        return constant
    if len(rest) > 4:
        return None
    (atom, factor), *more = sorted(rest, key=lambda item: item[1] < 0)
    total = multiply(atom, factor)
    for atom, factor in more:
        if factor < 0:
            total = subtract(total, multiply(atom, -factor))
        else:
            total = add(total, multiply(atom, factor))
    return total + constant if constant >= 0 else total - -constant


__all__ = ["Bound", "bounds_of", "difference"]
