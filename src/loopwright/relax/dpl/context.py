"""Patterns that form a graph: a context collects them and finds them in a dataflow block.

with PatternContext() as ctx:
    conv = is_call_dps_packed("conv1x1")
    relu = is_call_dps_packed("my_relu")
    conv >> relu
    match = ctx.match_dfb(block)     # {conv: a variable, relu: a variable} or None
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...base.errors import explain
from ..analysis.variables import used_vars
from ..expr import Call, DataflowBlock, DataflowVar, Expr, Tuple, TupleGetItem, Var
from ..relations import can_prove_shape_equal
from ..struct_info import TensorStructInfo
from .constraints import ConstraintGraph, Edge, close_graph, current_graph, open_graph
from .matcher import FAIL, Matcher, Plan, match_goal
from .pattern import DFPattern, SameShapeConstraint, WildcardPattern


class PatternContext(ConstraintGraph):
    """Collects the patterns created while it is open, and how they use each other.

    Calls inside it (`is_op(...)(x, y)`) belong to it with their arguments; `used_by`,
    `only_used_by` and `same_shape_as` add edges that the calls do not imply. Different patterns
    match different variables. incremental: continue the context that is open.
    """

    def __enter__(self) -> PatternContext:
        open_graph(self)
        return self

    def __exit__(self, *_: object) -> None:
        close_graph()

    @staticmethod
    def current() -> PatternContext:
        """The innermost open context. Raises ValueError outside of all contexts."""
        graph = current_graph()
        if not isinstance(graph, PatternContext):
            hint = "write it inside `with PatternContext() as ctx:`"
            raise ValueError(explain("no PatternContext is open", instead=hint))
        return graph

    def match_dfb(self, dfb: DataflowBlock) -> dict[DFPattern, Any] | None:
        """The first match in the block of all patterns of the context, in program order: the
        variable of each pattern (its expression, if it has no variable)."""
        if not isinstance(dfb, DataflowBlock):
            what = "match_dfb looks in a dataflow block"
            hint = "give func.body.blocks[i], written as `with R.dataflow():`"
            raise TypeError(explain(what, got=type(dfb).__name__, instead=hint))
        values = {b.var: b.value for b in dfb.bindings}
        return next(GraphSearch(self, values).matches(), None)


class GraphSearch:
    """The matches of a graph of patterns in some bindings.

    values: variable -> value, in program order. done: variables that patterns may no longer match;
    it may grow between matches.
    """

    def __init__(self, graph: ConstraintGraph, values: Mapping[Var, Any]) -> None:
        self.graph = graph
        self.values = values
        self.done: set[Var] = set()
        self.operands = {var: list(_operands(value)) for var, value in values.items()}
        self.users: dict[Var, dict[Var, None]] = {}
        for var, value in values.items():
            for used in used_vars(value):
                self.users.setdefault(used, {})[var] = None
        inputs = [v for v in self.users if v not in values]
        self.vars = [*inputs, *values]
        self.order = _order(graph)

    def matches(self) -> Iterator[dict[DFPattern, Any]]:
        """All matches in program order: the variable or expression of each pattern."""
        for env in self.placements():
            yield {
                pattern: at[1] if isinstance(at[1], Var) else at[0]
                for pattern, at in env.items()
                if isinstance(pattern, DFPattern)
            }

    def placements(self) -> Iterator[dict[Any, Any]]:
        """`matches` in the matcher's form: (value, original expression)."""
        if self.order:
            matcher = Matcher(Plan(list(self.graph.nodes)), self.values)
            yield from matcher.solutions((self._match_next, 0, None, None))

    def _match_next(self, m: Matcher, number: int, _: Any, rest: Any) -> Any:
        """Choose a variable for the next pattern, unless an enclosing call fixed it."""
        if number == len(self.order):
            return rest if self._final(m) else FAIL
        pattern = self.order[number]
        if pattern in m.env:
            return (self._settle, number, None, rest)
        choices = [
            (match_goal, pattern, var, (self._settle, number, None, rest))
            for var in self._candidates(m, pattern)
        ]
        if not choices:
            return FAIL
        for choice in reversed(choices[1:]):
            m.choose(choice)
        return choices[0]

    def _candidates(self, m: Matcher, pattern: DFPattern) -> list[Var]:
        """The candidate variables of a pattern: adjacent to an already matched pattern's variable."""
        for edge in self.graph.edges:
            if edge.producer is pattern and edge.consumer in m.env:
                users = self.operands.get(m.env[edge.consumer][1], ())
                return [v for v in dict.fromkeys(users) if isinstance(v, Var)]
            if edge.consumer is pattern and edge.producer in m.env:
                at = m.env[edge.producer][1]
                if isinstance(at, Var):
                    return list(self.users.get(at, ()))
        return [v for v in self.vars if ("taken", v) not in m.env]

    def _settle(self, m: Matcher, number: int, _: Any, rest: Any) -> Any:
        """Check the edges of a pattern that has been placed."""
        pattern = self.order[number]
        at = m.env[pattern][1]
        if isinstance(at, Var):
            if ("taken", at) in m.env or at in self.done:
                return FAIL
            m.bind(("taken", at), pattern)
        for edge in self.graph.edges:
            if edge.stated and pattern in (edge.producer, edge.consumer):
                both = edge.producer in m.env and edge.consumer in m.env
                if both and not self._holds(m, edge):
                    return FAIL
        return (self._match_next, number + 1, None, rest)

    def _holds(self, m: Matcher, edge: Edge) -> bool:
        producer, consumer = m.env[edge.producer][1], m.env[edge.consumer][1]
        operands = self.operands.get(consumer, ()) if isinstance(consumer, Var) else ()
        if edge.index >= 0:
            return edge.index < len(operands) and operands[edge.index] is producer
        return any(operand is producer for operand in operands)

    def _final(self, m: Matcher) -> bool:
        """Check the conditions that need all patterns to be placed."""
        for edge in self.graph.edges:
            if edge.only and not self._used_only_there(m, edge):
                return False
        return all(self._condition(m, c) for c in self.graph.conditions)

    def _used_only_there(self, m: Matcher, edge: Edge) -> bool:
        at = m.env[edge.producer][1]
        if at in self.values and not isinstance(at, DataflowVar):
            return False  # visible outside the block
        return {m.env[edge.consumer][1]}.issuperset(self.users.get(at, ()))

    def _condition(self, m: Matcher, condition: SameShapeConstraint) -> bool:
        assert isinstance(condition, SameShapeConstraint)
        infos = [m.env[p][0].struct_info for p in condition.args]
        if not all(isinstance(i, TensorStructInfo) for i in infos):
            return False
        return all(can_prove_shape_equal(infos[0].shape, i.shape) for i in infos[1:])


def _operands(value: Expr) -> Iterator[Any]:
    """The operands of a value, with tuple arguments flattened."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, (Call, Tuple)):
        parts = value.args if isinstance(value, Call) else value.fields
        if isinstance(value, Call) and isinstance(value.op, Var):
            yield value.op
        named = isinstance(value, Call) and getattr(value.op, "name", "") in _DPS
        for part in parts[1:] if named else parts:
            if isinstance(part, Tuple):
                yield from _operands(part)
            else:
                yield part
    elif isinstance(value, TupleGetItem):
        yield value.tuple_value
    else:
        yield from used_vars(value)


# Their first argument is the callee, not an operand.
_DPS = frozenset(("relax.call_tir", "relax.call_dps_packed", "relax.call_tir_inplace"))


def _order(graph: ConstraintGraph) -> list[DFPattern]:
    """The patterns in an order in which each one but the first is adjacent to one before it, if
    possible; the most selective ones first."""
    around: dict[DFPattern, list[DFPattern]] = {node: [] for node in graph.nodes}
    for edge in graph.edges:
        around[edge.producer].append(edge.consumer)
        around[edge.consumer].append(edge.producer)
    left = sorted(graph.nodes, key=lambda p: isinstance(p, WildcardPattern))
    order: dict[DFPattern, None] = {}
    for start in left:
        work = [start]
        while work:
            pattern = work.pop(0)
            if pattern in order:
                continue
            order[pattern] = None
            work += [p for p in around[pattern] if p not in order]
            work.sort(key=lambda p: isinstance(p, WildcardPattern))
    return list(order)
