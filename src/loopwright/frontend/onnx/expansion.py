"""What a file holds, and what becomes of it once its functions are expanded, counted before that."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...base import budget
from ...base.errors import LoopwrightError, explain
from ...base.span import Span
from .reader import domain_name, graphs_of, name_of
from .tensors import EXTERNAL

Key = tuple[str, str, str]
Cost = tuple[int, int, int]  # nodes, their weights, bytes
PORT = 5  # nodes that an input or output of the model costs: its entry checks or allocates it


def own_size(model: Any, proto: Any, folder: Path | None) -> int:
    """The bytes of a model: its message, and the files in its folder that hold its weights. `model` is
    what the message was read from: counting a message's bytes takes as long as writing them."""
    places = {
        name_of(entry.value)
        for tensor in proto.graph.initializer
        if tensor.data_location == EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    if isinstance(model, (str, os.PathLike)):
        size = os.stat(model).st_size
    else:
        size = proto.ByteSize() if model is proto else len(model)
    for place in places:
        path = os.path.normpath(place)
        if folder is not None and path == os.path.basename(path) and "\0" not in path:
            file = folder / path
            size += file.stat().st_size if file.is_file() else 0
    return size


def count_nodes(proto: Any) -> int:
    """The nodes of a model's graphs once its functions are expanded; counts them, and the bytes of
    the functions that are copied, as made. Inputs and outputs of the model, and nodes of many, count
    as several.

    Raises BudgetError for more than the budget has, LoopwrightError for functions that call each
    other in a circle or have one name.
    """
    functions: dict[Key, Any] = {}
    for f in proto.functions:
        key = (domain_name(f.domain), name_of(f.name), name_of(f.overload))
        if key in functions:
            raise LoopwrightError(explain("two functions of one name", got=_shown(key)))
        functions[key] = f
    costs: dict[Key, Cost] = {}
    graph, weights = proto.graph, {t.name for t in proto.graph.initializer}
    given = sum(port.name not in weights for port in graph.input)
    total = len(graph.node)
    budget.spend(nodes=total + PORT * (given + len(graph.output)))
    for node in graph.node:
        for callee in _called([node], functions):
            _measure(callee, functions, costs)
        count, weight, size = _cost([node], costs)
        total += count - 1
        budget.spend(nodes=weight - 1, size=size, at=_place(node))
    return total


def _measure(wanted: Key, functions: dict[Key, Any], costs: dict[Key, Cost]) -> None:
    """Find the cost of a function after those that it calls, without recursion."""
    path: dict[Key, Iterator[Key]] = {}
    callee: Key | None = wanted
    while True:
        if callee in path:
            what = "functions of the model call each other in a circle"
            circle = [*list(path)[list(path).index(callee) :], callee]
            got = " -> ".join(map(_shown, circle))
            raise LoopwrightError(explain(what, got=got, instead="a function may not call itself"))
        if callee is not None and callee not in costs:
            path[callee] = _called(functions[callee].node, functions)
        if not path:
            return
        key, rest = next(reversed(path.items()))
        callee = next(rest, None)
        if callee is None:
            count, weight, size = _cost(functions[key].node, costs)
            costs[key] = count, weight, size + functions[key].ByteSize()
            del path[key]


def _cost(nodes: Iterable[Any], costs: dict[Key, Cost]) -> Cost:
    """What these become, and the bytes of the bodies that they copy."""
    count = weight = size = 0
    for node in _all(nodes):
        more, heavier, larger = costs.get(_key(node)) or (1, _weight(node), 0)
        count, weight, size = count + more, weight + heavier, size + larger
    return count, weight, size


def _weight(node: Any) -> int:
    """What a node costs to lower: it has kernel arguments and results, some of them bound."""
    return max(1, len(node.output)) + len(node.input) // 8


def _called(nodes: Iterable[Any], functions: dict[Key, Any]) -> Iterator[Key]:
    return (_key(n) for n in _all(nodes) if _key(n) in functions)


def _all(nodes: Iterable[Any]) -> Iterator[Any]:
    """The nodes and those of their graphs; a file's messages nest 100 deep at most."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in graphs_of(attribute):
                yield from _all(graph.node)


def _key(node: Any) -> Key:
    return domain_name(node.domain), name_of(node.op_type), name_of(node.overload)


def _shown(key: Key) -> str:
    return "::".join(filter(None, key))[:200]


def _place(node: Any) -> Span:
    outputs = map(name_of, node.output)
    name = name_of(node.name) or f"{name_of(node.op_type)}:{next(outputs, '')}"
    return Span(f"onnx:{name[:200]}")


__all__ = ["count_nodes", "own_size"]
