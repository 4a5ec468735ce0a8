"""Control flow that is decided while importing."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ..context import Context
from ..reader import Node
from ..registry import converter
from ..values import Value, literal


@converter("If")
def branch(cx: Context, node: Node, condition: Value) -> Any:
    """The branch of a condition that follows from shapes and constants."""
    node.skip("then_branch", "else_branch")
    elements = condition.elements
    if elements is None or elements.size != 1:
        what = "If needs a condition that is known while importing"
        hint = "give the shapes it depends on by shape_dict, or make the condition a constant"
        raise ValueError(explain(what, got=str(condition.info), instead=hint))
    holds = literal(elements.reshape(-1)[0])
    return cx.subgraph(node.graph("then_branch" if holds else "else_branch"))
