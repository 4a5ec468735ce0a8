"""The expansion of a file's functions, and its size, which is counted before the expansion."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...base import budget
from ...base.errors import LoopwrightError, explain
from ...base.names import free_name
from ...base.span import Span
from ..graph.model import PORT
from .reader import check_versions, domain_name, graphs_of, name_of, stamp, versions_of
from .tensors import EXTERNAL

Key = tuple[str, str, str]
Cost = tuple[int, int, int]  # nodes, their weights, bytes


def own_size(model: Any, proto: Any, folder: Path | None) -> int:
    """The bytes of a model: its message, and the files in its folder that hold its weights. `model` is
    the file that the message was read from: counting a message's bytes takes as long as writing them."""
    sites = {
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
    for site in sites:
        path = os.path.normpath(site)
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
    free_inputs = sum(port.name not in weights for port in graph.input)
    total = len(graph.node)
    budget.spend(nodes=total + PORT * (free_inputs + len(graph.output)))
    for node in graph.node:
        for callee in _called([node], functions):
            _measure(callee, functions, costs)
        count, weight, size = _cost([node], costs)
        total += count - 1
        budget.spend(nodes=weight - 1, size=size, at=_span_of(node))
    return total


def inlined(proto: Any) -> list[Any]:
    """The nodes of a model's graph, in place of calls of its functions those of their bodies.

    An attribute that a body refers to is the call's, else the function's default, else left out. A value that a
    function names by `x` is `x__3` in its third call. Raises LoopwrightError for a call that passes more
    than its function takes; `count_nodes` has refused functions that call themselves.
    """
    if not proto.functions:
        return list(proto.graph.node)
    try:
        return _Inliner(proto).nodes(proto.graph.node)
    except LoopwrightError:
        raise
    except Exception as error:  # RecursionError, or protobuf's for messages over 100 levels deep
        what = "the model's functions cannot be expanded: their graphs nest too deep"
        raise LoopwrightError(explain(what, got=f"{type(error).__name__}: {error}")) from error


class _Inliner:
    def __init__(self, proto: Any) -> None:
        self.functions = {
            (domain_name(f.domain), name_of(f.name), name_of(f.overload)): f
            for f in proto.functions
        }
        self.versions = versions_of(proto)
        graph = proto.graph
        self.used = {name_of(v.name) for v in (*graph.input, *graph.initializer)}
        self.used |= {name_of(n) for node in _all(graph.node) for n in (*node.input, *node.output)}
        self.calls = 0

    def nodes(self, nodes: Iterable[Any]) -> list[Any]:
        """The nodes without calls, in the graphs that they hold too. Without recursion: functions may be
        thousands of calls deep."""
        inlined: list[Any] = []
        bodies = [iter(nodes)]
        while bodies:
            node = next(bodies[-1], None)
            if node is None:
                bodies.pop()
            elif _key(node) in self.functions:
                bodies.append(iter(self.body(self.functions[_key(node)], node)))
            else:
                inlined.append(self.opened(node))
        return inlined

    def opened(self, node: Any) -> Any:
        """A node with the calls in its graphs expanded; the file's own stays unchanged."""
        if not any(_called([node], self.functions)):
            return node
        copy = type(node)()
        copy.CopyFrom(node)
        for graph in (g for a in copy.attribute for g in graphs_of(a)):
            nodes = self.nodes(list(graph.node))
            del graph.node[:]
            graph.node.extend(nodes)
        return copy

    def body(self, function: Any, call: Any) -> list[Any]:
        """The nodes of a function for one call of it."""
        _check_call(function, call)
        self.calls += 1
        names = _Names(f"__{self.calls}", self.used)
        names |= {name_of(n): "" for n in function.input}
        names |= {name_of(f): name_of(n) for f, n in zip(function.input, call.input)}
        passed = []  # an output that is an input, or another output once more
        for formal, actual in zip(map(name_of, function.output), map(name_of, call.output)):
            if formal in names and actual:
                passed.append((formal, actual))
            elif actual:
                names[formal] = actual
        versions = {**self.versions, **versions_of(function)}
        check_versions(versions)
        others = {d: v for d, v in versions.items() if self.versions.get(d) != v}
        nodes = _renamed(function.node, names, others)
        attributes = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
        for node in nodes:
            bind(node, attributes)
        copied = type(call)
        nodes += [copied(op_type="Identity", input=[names[f]], output=[g]) for f, g in passed]
        return nodes


class _Names(dict[str, str]):
    """A body's names in the model: new ones, except those of the call."""

    def __init__(self, suffix: str, used: set[str], names: Mapping[str, str] = {"": ""}) -> None:
        super().__init__(names)
        self.suffix, self.used = suffix, used

    def __missing__(self, name: str) -> str:
        self[name] = free_name(f"{name}{self.suffix}", self.used)
        self.used.add(self[name])
        return self[name]


def _renamed(nodes: Iterable[Any], names: _Names, versions: dict[str, int]) -> list[Any]:
    """Copies of nodes under the model's names. versions: of domains whose version is not the model's."""
    nodes_out = []
    for node in nodes:
        copy = type(node)()
        copy.CopyFrom(node)
        copy.name = f"{name_of(node.name)}{names.suffix}" if node.name else ""
        for values in (copy.input, copy.output):
            values[:] = [names[name_of(n)] for n in values]
        if domain_name(node.domain) in versions:
            stamp(copy, versions[domain_name(node.domain)])
        for graph in (g for a in copy.attribute for g in graphs_of(a)):
            own = [v.name for v in (*graph.input, *graph.initializer)]
            own += [name for n in graph.node for name in n.output if name]
            # A name defined in the graph hides that of the body around it.
            around = {n: new for n, new in names.items() if n not in {*map(name_of, own)}}
            inner = _Names(names.suffix, names.used, around)
            for value in (*graph.input, *graph.initializer, *graph.output):
                value.name = inner[name_of(value.name)]
            renamed = _renamed(graph.node, inner, versions)
            del graph.node[:]
            graph.node.extend(renamed)
        nodes_out.append(copy)
    return nodes_out


def bind(node: Any, values: Mapping[str, Any]) -> None:
    """Fill in the attributes that a node of a definition, and its graphs, refer to by name; a
    reference to one that is not given is left out."""
    for k in reversed(range(len(node.attribute))):
        attribute = node.attribute[k]
        name, parameter = attribute.name, attribute.ref_attr_name
        if not parameter:
            for inner in (n for graph in graphs_of(attribute) for n in graph.node):
                bind(inner, values)
        elif parameter in values:
            attribute.CopyFrom(values[parameter])
            attribute.name = name
        else:
            del node.attribute[k]


def _check_call(function: Any, call: Any) -> None:
    """Raise LoopwrightError for a call that passes more than its function has."""
    declared = {*function.attribute, *(a.name for a in function.attribute_proto)}
    sides = (("input", function.input, call.input), ("output", function.output, call.output))
    extra = [f"attribute {a.name}" for a in call.attribute if a.name not in declared]
    extra += [f"{side} {n}" for side, formal, actual in sides for n in actual[len(formal) :]]
    if extra:
        what = f"{_shown(_key(call))}: a call passes more than the model's function has"
        raise LoopwrightError(explain(what, got=", ".join(extra), span=_span_of(call)))


def _measure(function_key: Key, functions: dict[Key, Any], costs: dict[Key, Cost]) -> None:
    """Find the cost of a function after those that it calls, without recursion."""
    path: dict[Key, Iterator[Key]] = {}
    callee: Key | None = function_key
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
    """The number of nodes after expansion, and the bytes of the bodies that are copied."""
    count = weight = size = 0
    for node in _all(nodes):
        more, heavier, larger = costs.get(_key(node)) or (1, _weight(node), 0)
        count, weight, size = count + more, weight + heavier, size + larger
    return count, weight, size


def _weight(node: Any) -> int:
    """The cost to lower a node: it has kernel arguments and results, some of them bound."""
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


def _span_of(node: Any) -> Span:
    outputs = map(name_of, node.output)
    name = name_of(node.name) or f"{name_of(node.op_type)}:{next(outputs, '')}"
    return Span(f"onnx:{name[:200]}")
