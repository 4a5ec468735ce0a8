"""Facts that an expression states itself: literals, conjunctions, extents that broadcast."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .prim_expr import EQ, TRUE, And, IntImm, PrimExpr, ScalarLike, Select
from .prim_op import logical_and
from .structural import structural_equal


def int_value(expr: ScalarLike | None) -> int | None:
    """The value of an integer literal, or None."""
    if isinstance(expr, IntImm):
        return expr.value
    return expr if isinstance(expr, int) else None


def is_zero(expr: ScalarLike | None) -> bool:
    """Whether an expression is the integer literal 0."""
    return isinstance(expr, IntImm) and expr.value == 0


def is_one(expr: PrimExpr | None) -> bool:
    """Whether an expression is the integer literal 1."""
    return isinstance(expr, IntImm) and expr.value == 1


def is_true(expr: PrimExpr | None) -> bool:
    """Whether a condition is the literal True."""
    return isinstance(expr, IntImm) and bool(expr.value)


def conjuncts(condition: PrimExpr) -> list[Any]:
    """The parts of a conjunction; none for True."""
    if isinstance(condition, And):
        return conjuncts(condition.a) + conjuncts(condition.b)
    return [] if is_true(condition) else [condition]


def conjunction(parts: Iterable[Any]) -> PrimExpr:
    """All of `parts`; True for none."""
    total: PrimExpr = TRUE
    for part in parts:
        total = logical_and(total, part)
    return total


def broadcast_parts(extent: PrimExpr) -> list[PrimExpr]:
    """The extents of which this one is the first that is not 1 (`ops.extents.broadcast_extent`): n and
    m of `Select(n == 1, m, n)`; of another extent, it alone."""
    parts = []
    while isinstance(extent, Select) and _is_unit(extent.condition, extent.false_value):
        parts.append(extent.false_value)
        extent = extent.true_value
    return [*parts, extent]


def _is_unit(condition: PrimExpr, dim: PrimExpr) -> bool:
    is_test = isinstance(condition, EQ) and is_one(condition.b)
    return is_test and structural_equal(condition.a, dim)
