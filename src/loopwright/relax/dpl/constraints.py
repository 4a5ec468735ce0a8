"""Use edges between patterns, collected by an open PatternContext."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.errors import explain

if TYPE_CHECKING:
    from .nodes import DFPattern, SameShapeConstraint


@dataclass(frozen=True)
class Edge:
    """`producer` is used by `consumer`.

    only: the producer has no other user. index: of the operand, -1 for any. stated: written by the
    user, so a match must have it; edges implied by calls only guide the search.
    """

    producer: DFPattern
    consumer: DFPattern
    only: bool = False
    index: int = -1
    stated: bool = True


class ConstraintGraph:
    """Patterns, the edges between them, and further conditions.

    incremental: start with the contents of the innermost open context.
    """

    def __init__(self, incremental: bool = False) -> None:
        outer = current_graph() if incremental else None
        self.parents: tuple[ConstraintGraph, ...] = () if outer is None else (outer,)
        self.nodes: dict[DFPattern, None] = {} if outer is None else dict(outer.nodes)
        self.edges: list[Edge] = [] if outer is None else list(outer.edges)
        self.conditions: list[SameShapeConstraint] = [] if outer is None else list(outer.conditions)

    def add_node(self, pattern: DFPattern) -> None:
        """Make a pattern part of this graph.

        Raises ValueError if it belongs to another context that this one does not continue.
        """
        owner = getattr(pattern, "_owner", None)
        if owner is None:
            pattern._owner = owner = self
        if owner is not self and owner not in self.ancestors():
            what = "a pattern of one PatternContext cannot be used in another"
            hint = "use pattern.dup() here, or PatternContext(incremental=True) inside the first"
            raise ValueError(explain(what, got=str(pattern), instead=hint))
        self.nodes[pattern] = None

    def ancestors(self) -> list[ConstraintGraph]:
        """The contexts that this one continues."""
        return [g for parent in self.parents for g in (parent, *parent.ancestors())]

    def add_edge(self, edge: Edge) -> None:
        """Add an edge and its endpoints."""
        self.add_node(edge.producer)
        self.add_node(edge.consumer)
        if edge not in self.edges:
            self.edges.append(edge)

    def add_condition(self, condition: SameShapeConstraint) -> None:
        """Add a condition on several patterns (`SameShapeConstraint`)."""
        for pattern in condition.args:
            self.add_node(pattern)
        self.conditions.append(condition)


_OPEN: ContextVar[tuple[ConstraintGraph, ...]] = ContextVar("pattern_contexts", default=())


def current_graph() -> ConstraintGraph | None:
    """The graph of the innermost open PatternContext, or None."""
    stack = _OPEN.get()
    return stack[-1] if stack else None


def open_graph(graph: ConstraintGraph) -> None:
    """Make `graph` the current one."""
    _OPEN.set((*_OPEN.get(), graph))


def close_graph() -> None:
    """Make the graph that was current before the last `open_graph` current again."""
    _OPEN.set(_OPEN.get()[:-1])
