"""Where the values of a program flow: what each expression uses, who uses it, and where all ways from
it meet again (its post-dominator).

Reference: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...ir.op import Op
from .expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem
from .walk import children, post_order, values_first


@dataclass(eq=False)
class FlowNode:
    """An expression in the flow. Who uses it comes after it. parent: its post-dominator; depth: how
    many there are on the way to the end."""

    expr: Any
    index: int
    inputs: list[FlowNode] = field(default_factory=list)
    users: list[FlowNode] = field(default_factory=list)
    parent: FlowNode | None = None
    depth: int = 1


def _used(node: Op | Expr) -> tuple[Any, ...]:
    """What flows directly into an expression; into a variable that is bound flows its value."""
    kind = type(node)
    if kind is Function or kind is Let:
        return (node.body,)
    return children(node) if kind in (Call, Tuple, TupleGetItem, If) else ()


class Flow:
    """The nodes of an expression and of all its parts, operands first."""

    def __init__(self, root: Expr) -> None:
        order = enumerate(post_order(root, parts=values_first))
        self.nodes = [FlowNode(expr, i) for i, expr in order]
        self._by_id = {id(node.expr): node for node in self.nodes}
        for node in self.nodes:
            for expr in _used(node.expr):
                self._connect(expr, node)
            if type(node.expr) is Let:
                self._connect(node.expr.value, self.of(node.expr.var))
        for node in reversed(self.nodes[:-1]):
            node.parent = self._meeting(node.users)
            node.depth = 1 if node.parent is None else node.parent.depth + 1

    def _connect(self, expr: Op | Expr, user: FlowNode) -> None:
        node = self.of(expr)
        if node.index < user.index:  # not a recursive function's use of itself
            node.users.append(user)
            user.inputs.append(node)

    def _meeting(self, users: list[FlowNode]) -> FlowNode | None:
        meeting: Any = users[0] if users else None
        for user in users[1:]:
            other: Any = user
            while meeting is not other:
                if meeting is None or other is None:
                    return None
                if meeting.depth < other.depth:
                    other = other.parent
                elif other.depth < meeting.depth:
                    meeting = meeting.parent
                else:
                    meeting, other = meeting.parent, other.parent
        return meeting

    def of(self, expr: Op | Expr) -> FlowNode:
        """The place of an expression."""
        return self._by_id[id(expr)]

    def dominates(self, expr: Op | Expr, node: FlowNode) -> bool:
        """Whether all paths from a node lead through an expression after it."""
        at = node.parent
        goal = self.of(expr)
        while at is not None and at is not goal:
            at = at.parent
        return at is not None
