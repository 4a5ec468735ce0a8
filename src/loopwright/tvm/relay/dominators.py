"""Where the values of a program flow: what each expression uses, who uses it, and where all ways from
it meet again (its post-dominator).

Reference: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .expr import Call, Function, If, Let, Tuple, TupleGetItem
from .walk import children, post_order, values_first


@dataclass(eq=False)
class Place:
    """An expression in the flow. Who uses it comes after it. parent: its post-dominator; depth: how
    many there are on the way to the end."""

    expr: Any
    index: int
    inputs: list[Place] = field(default_factory=list)
    users: list[Place] = field(default_factory=list)
    parent: Place | None = None
    depth: int = 1


def _used(node: Any) -> tuple[Any, ...]:
    """What flows directly into an expression; into a variable that is bound flows its value."""
    kind = type(node)
    if kind is Function or kind is Let:
        return (node.body,)
    return children(node) if kind in (Call, Tuple, TupleGetItem, If) else ()


class Flow:
    """The places of an expression and of all that is in it, what is used first."""

    def __init__(self, root: Any) -> None:
        order = enumerate(post_order(root, parts=values_first))
        self.places = [Place(expr, i) for i, expr in order]
        self._by_id = {id(place.expr): place for place in self.places}
        for place in self.places:
            for expr in _used(place.expr):
                self._connect(expr, place)
            if type(place.expr) is Let:
                self._connect(place.expr.value, self.of(place.expr.var))
        for place in reversed(self.places[:-1]):
            place.parent = self._meeting(place.users)
            place.depth = 1 if place.parent is None else place.parent.depth + 1

    def _connect(self, expr: Any, user: Place) -> None:
        place = self.of(expr)
        if place.index < user.index:  # not what a recursive function says of itself
            place.users.append(user)
            user.inputs.append(place)

    def _meeting(self, users: list[Place]) -> Place | None:
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

    def of(self, expr: Any) -> Place:
        """The place of an expression."""
        return self._by_id[id(expr)]

    def dominates(self, expr: Any, place: Place) -> bool:
        """Whether all ways from a place lead through an expression after it."""
        at = place.parent
        goal = self.of(expr)
        while at is not None and at is not goal:
            at = at.parent
        return at is not None
