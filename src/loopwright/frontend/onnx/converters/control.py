"""Control flow."""

from __future__ import annotations

from typing import Any

from ....ir.prim_expr import PrimExpr
from ....relax import op
from ....relax.expr import ShapeExpr
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..values import Value, literal


@converter("If")
def branch(cx: Context, node: Node, condition: Value) -> Any:
    """Only the branch that is taken, where the condition follows from shapes and constants."""
    node.skip("then_branch", "else_branch")
    then, other = node.graph("then_branch"), node.graph("else_branch")
    elements = condition.elements
    if elements is not None and elements.size == 1:
        holds = literal(elements.reshape(-1)[0])
        if not isinstance(holds, PrimExpr):
            return cx.subgraph(then if holds else other)
    if condition.ndim:
        condition = cx.value(op.reshape(condition.expr, ShapeExpr([])))
    return cx.choice(condition, then, other)


@converter("Loop")
def loop(
    cx: Context, node: Node, limit: Value | None = None, go: Value | None = None, *state: Value
) -> Any:
    return cx.loop(node.graph("body"), limit, go, list(state))
