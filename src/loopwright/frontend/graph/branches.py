"""Branches: one of two graphs, chosen by a condition."""

from __future__ import annotations

from typing import Any

from ...ir.prim_expr import PrimExpr
from ...relax import op
from ...relax.expr import ShapeExpr
from .context import Context
from .values import Value, literal


def chosen(cx: Context, condition: Value, then: Any, other: Any) -> Any:
    """The outputs of one of two graphs; only the chosen one is converted where the condition follows from
    shapes and constants."""
    elements = condition.elements
    if elements is not None and elements.size == 1:
        holds = literal(elements.reshape(-1)[0])
        if not isinstance(holds, PrimExpr):
            return cx.walk.inline(then if holds else other)
    if condition.ndim:
        condition = cx.value(op.reshape(condition.expr, ShapeExpr([])))
    return cx.walk.choice(condition, then, other)
