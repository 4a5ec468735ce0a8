"""Results of a graph that are views of its inputs, or of other results: torch makes these from the real tensors.

AotAutograd makes such a result again from what it is a view of, by the strides of the tensor that the graph returns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from .model import output_nodes

Split = tuple[fx.GraphModule, dict[str, int], fx.GraphModule | None]


def without_views(gm: fx.GraphModule) -> Split:
    """A graph without the results that are views; the numbers of these by name; and their graph, a function of
    the inputs and the other results, each once."""
    inputs = [n for n in gm.graph.nodes if n.op == "placeholder"]
    results, roots = output_nodes(gm.graph), set(inputs)
    views: dict[fx.Node, set[fx.Node]] = {}
    for node in gm.graph.nodes:
        if node in results and node not in roots:
            steps = _steps(node, roots)
            if steps is None:
                roots.add(node)
            else:
                views[node] = steps
    if not views:
        return gm, {}, None
    rest, graph = fx.Graph(), fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    rest.graph_copy(gm.graph, copies)
    rest.output([copies[n] for n in results if n not in views])
    sources = dict.fromkeys([*inputs, *(n for n in results if n not in views)])
    copies = {n: graph.placeholder(n.name) for n in sources}
    for node in gm.graph.nodes:
        if any(node in steps for steps in views.values()):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[n] for n in views))
    numbers = {n.name: k for k, n in enumerate(views)}
    return fx.GraphModule(gm, rest), numbers, fx.GraphModule(gm, graph)


def _steps(result: fx.Node, roots: Collection[fx.Node]) -> set[fx.Node] | None:
    """The nodes between a result and the roots that it is a view of; None if it is not one. Sizes may be read
    from all roots."""
    memory, steps, left = _memory(result), set(), [result]
    while left:
        node = left.pop()
        own = _memory(node)
        if node in steps or (node in roots and own in (memory, "")):
            continue
        if node.op != "call_function" or own not in (memory, ""):
            return None
        steps.add(node)
        left += [n for n in node.all_input_nodes if own != "" or n not in roots]
    return steps if memory is not None else None


def _memory(node: fx.Node) -> Any:
    """The identity of the memory of a (fake) value; "" for a number, None for memory without strides."""
    fakes = [v for v in tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
    if any(f.layout != torch.strided for f in fakes) or "val" not in node.meta:
        return None
    first, *others = [f.untyped_storage()._cdata for f in fakes] or [""]
    return None if set(others) - {first} else first
