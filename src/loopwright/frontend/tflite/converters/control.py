"""Control flow: operators whose bodies are other graphs of the file."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ...graph.branches import chosen
from ...graph.values import Value
from ..context import TFLiteContext as Context
from ..importer import Part
from ..reader import Operator, TFLiteModel
from .base import operator


def _graph(cx: Context, node: Operator, option: str, count: int) -> TFLiteModel:
    number = node.option(option)
    if not 0 < number < len(cx.graphs):
        raise ValueError(
            explain(f"the model does not have a graph {number}", got=f"{len(cx.graphs)} graphs")
        )
    graph = cx.graphs[number]
    if len(graph.inputs) != count:
        raise ValueError(explain(f"graph {number} takes {len(graph.inputs)} inputs", got=count))
    return graph


@operator("IF")
def branch(cx: Context, node: Operator, condition: Value, *inputs: Value) -> Any:
    names = node.inputs[1:]
    options = ("ThenSubgraphIndex", "ElseSubgraphIndex")
    then, other = (Part(_graph(cx, node, o, len(names)), names) for o in options)
    return chosen(cx, condition, then, other)


@operator("WHILE")
def loop(cx: Context, node: Operator, *state: Value) -> Any:
    options = ("CondSubgraphIndex", "BodySubgraphIndex")
    condition, body = (_graph(cx, node, o, len(state)) for o in options)
    if len(body.outputs) != len(state) or len(condition.outputs) != 1:
        raise ValueError(explain("a loop's body must return its state", got=f"{len(body.outputs)}"))
    (first,) = cx.walk.subgraph(Part(condition, node.inputs))
    fed = lambda graph, values: dict(zip((p.name for p in graph.inputs), values, strict=True))  # noqa: E731

    def turn(args: list[Value]) -> list[Value]:
        _, _, *before = args
        after = cx.walk.subgraph(body, fed(body, before))
        return [*cx.walk.subgraph(condition, fed(condition, after)), *after]

    return cx.walk.loop(turn, None, first, list(state), 0)
