"""A graph of torch.fx as the walk reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from ...runtime.tensor import Tensor, from_dlpack
from ...runtime.weights import Weight
from ..graph.model import Model, Node, Port, ordered, remember
from .dtypes import dtype_of

DOMAIN = "torch"
GETITEM = "<built-in function getitem>"


class TorchNode(Node):
    """An operator of a graph; `source` is its fx node."""

    dialect = DOMAIN

    @property
    def value(self) -> Any:
        """The (fake) result, with its dtype and shape."""
        return self.source.meta.get("val")

    @property
    def dtype(self) -> str:
        """The dtype of the result, or of the first one."""
        value = self.value
        return dtype_of((value[0] if isinstance(value, (list, tuple)) else value).dtype)

    @property
    def is_complex(self) -> bool:
        """Whether the result is of complex numbers."""
        return isinstance(self.value, torch.Tensor) and self.value.is_complex()

    @property
    def location(self) -> str:
        """The node and the line of the model; its span is the title alone, by which the trace knows it."""
        line = python_line(self.source)
        return f"{super().location} at {line}" if line else super().location

    @property
    def registration(self) -> str:
        return f'register_converter("{self.op_type}", convert=convert, domain="{DOMAIN}")'


@dataclass
class TorchModel(Model):
    """A graph; its constants are tensors of torch."""

    def initializer_dtype(self, name: str) -> str:
        kind = self.initializers[name].dtype
        return kind if isinstance(kind, str) else dtype_of(kind)  # of a weight, or torch's

    def initializer(self, name: str) -> Any:
        """The tensor, on torch's memory where that is contiguous."""
        value = self.initializers[name]
        return value if isinstance(value, Weight) else as_tensor(value)


def as_tensor(value: torch.Tensor) -> Tensor | np.ndarray:
    """A tensor on the memory of a torch tensor, which is copied only where it is not contiguous."""
    return from_dlpack(value.detach().contiguous())


def read(
    graph: fx.Graph, ports: Sequence[Port], constants: Mapping[str, torch.Tensor]
) -> TorchModel:
    """The model of a graph. ports: its inputs, by the names of their placeholders; constants: the other
    placeholders, and attributes, by the names of their nodes."""
    nodes: list[TorchNode] = []
    titles: set[str] = set()
    for node in graph.nodes:
        if node.op == "call_function" and str(node.target) != GETITEM and is_tensor(node):
            nodes.append(_node(node))
    remember(nodes, titles)
    results = dict.fromkeys(result_of(n) for n in output_nodes(graph) if is_tensor(n))
    outputs = [Port(name, "", None) for name in results]
    available = {*constants, *(p.name for p in ports)}
    live = ordered(nodes, available, [p.name for p in outputs])
    return TorchModel(cast(list[Node], live), list(ports), outputs, dict(constants), titles)


def output_nodes(graph: fx.Graph) -> list[fx.Node]:
    """The nodes of the outputs, in order, as often as they are results; constants are none."""
    return [n for n in tree_leaves(graph.output_node().args) if isinstance(n, fx.Node)]


def output_values(graph: fx.Graph) -> list[Any]:
    """The nodes and the numbers among the outputs."""
    leaves = tree_leaves(graph.output_node().args)
    return [v for v in leaves if isinstance(v, (fx.Node, bool, int, float))]


def is_tensor(node: fx.Node) -> bool:
    """Whether a node has tensors as its results, or has effects only."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, torch.Tensor) for v in value)
    return isinstance(value, torch.Tensor) or is_read(node)


def is_read(node: fx.Node) -> bool:
    """Whether a node reads a number from a tensor."""
    return str(node.target) == "aten._local_scalar_dense.default"


def result_of(node: fx.Node) -> str:
    """The name of the value of a node: an element of a tuple belongs to the node of the tuple."""
    if str(node.target) == GETITEM:
        source, index = node.args
        return f"{result_of(cast(fx.Node, source))}#{index}"
    return node.name


def _node(node: fx.Node) -> TorchNode:
    value, name = node.meta.get("val"), node.name
    outputs = [name]
    if isinstance(value, (list, tuple)):
        used = {cast(int, u.args[1]) for u in node.users if u.users and str(u.target) == GETITEM}
        outputs = [f"{name}#{k}" if k in used else "" for k in range(len(value))]
    inputs = list(dict.fromkeys(result_of(n) for n in tensors_of(node)))
    path = next(reversed((node.meta.get("nn_module_stack") or {"": ("",)}).values()))[0]
    path = str(path).removeprefix("L['self'].").replace("L['self']", "")
    title = f"{path}/{name}" if path else name
    return TorchNode(str(node.target), DOMAIN, title, inputs, outputs, {}, source=node)


def tensors_of(node: fx.Node) -> list[fx.Node]:
    """The arguments of a node that are tensors."""
    return [n for n in node.all_input_nodes if is_tensor(n)]


def overload_of(name: str) -> Any:
    """The operator of torch with a name such as "aten.add.Tensor", or None."""
    value: Any = torch.ops
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def python_line(node: fx.Node) -> str:
    """The line of the model's source that a node comes from, "" if it is not known."""
    lines = [x for x in (node.meta.get("stack_trace") or "").splitlines() if x.strip()]
    frame = next((x for x in reversed(lines) if x.lstrip().startswith("File ")), "")
    parts = frame.split('"')
    return f"{parts[1]}:{parts[2].split('line ')[1].split(',')[0]}" if len(parts) > 2 else ""
