"""A graph as importers walk it: nodes that name the values they read, ordered so that they can run.

A dialect's reader makes it of a file: `onnx.reader`, `tflite.reader`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.span import Span
from ...ir import trace
from ...ir.trace import ModelNode
from ...runtime.tensor import Tensor

_MISSING = object()
PORT = 5  # nodes that an input or output of a model costs: its entry checks or allocates it
N = TypeVar("N", bound="Node")


@dataclass(eq=False)
class Node:
    """An operator of the graph. Attributes are read through `integer`, `integers`, ... which check
    them; one that no converter reads is an error."""

    dialect: ClassVar[str] = ""  # the file format: "onnx"
    op_type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    opset: int = 1
    source: Any = None  # its message in the file
    captured: list[str] = field(default_factory=list)  # names that its graphs read from outside
    read: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """The name in spans and messages: `onnx:/fc1/Gemm`."""
        if self.name:
            return f"{self.dialect}:{self.name}"
        first = next((o for o in self.outputs if o), "")
        return f"{self.dialect}:{self.op_type}:{first}"

    @property
    def span(self) -> Span:
        return Span(self.title)

    @property
    def location(self) -> str:
        """Where it is, for errors."""
        return self.span.render()

    @property
    def reads(self) -> list[str]:
        """The names of the values that this node needs."""
        return [name for name in (*self.inputs, *self.captured) if name]

    def _get(self, name: str, kind: type | tuple[type, ...], word: str, default: object) -> Any:
        self.read.add(name)
        value = self.attributes.get(name)
        if value is None:
            if default is _MISSING:
                raise ValueError(explain(f"attribute {name} is missing", instead=f"give {word}"))
            return default
        if not isinstance(value, kind):
            what = f"attribute {name} must be {word}"
            raise TypeError(explain(what, got=f"{type(value).__name__} {_short(value)}"))
        return value

    @property
    def version(self) -> str:
        """The version of the operators that its converter is looked up by, for messages."""
        return f"domain {self.domain}, version {self.opset}"

    @property
    def registration(self) -> str:
        """How a converter for it is registered."""
        call = f'register_converter("{self.op_type}", 1, convert, domain="{self.domain}")'
        return f"{call} of loopwright.frontend.graph.registry"

    def check_attributes(self) -> None:
        """Raise ValueError for an attribute that its converter has not read."""
        unread = [name for name in self.attributes if name not in self.read]
        if unread:
            what = f"attributes that {self.op_type} has not at opset {self.opset}"
            raise ValueError(explain(what, got=", ".join(sorted(unread))))

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def skip(self, *names: str) -> None:
        """Mark attributes as read that have no effect here."""
        self.read.update(names)

    def integer(self, name: str, default: Any = _MISSING) -> Any:
        return self._get(name, int, "an integer", default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise ValueError(explain(f"attribute {name} must be 0 or 1", got=value))
        return bool(value)

    def real(self, name: str, default: object = _MISSING) -> Any:
        return self._get(name, float, "a float", default)

    def text(self, name: str, default: object = _MISSING) -> Any:
        return self._get(name, str, "a string", default)

    def choice(self, name: str, choices: Iterable[str], default: str | None = None) -> str:
        """A text that is one of `choices`, by default the first."""
        names = list(choices)
        value = self.text(name, names[0] if default is None else default)
        if value not in names:
            what = f"attribute {name} must be one of {', '.join(names)}"
            raise ValueError(explain(what, got=value))
        return value

    def tensor(self, name: str, default: object = _MISSING) -> Any:
        return self._get(name, np.ndarray, "a tensor", default)

    def graph(self, name: str) -> Any:
        value = self._get(name, object, "a graph", _MISSING)
        if not hasattr(value, "initializer"):
            raise TypeError(explain(f"attribute {name} must be a graph", got=_short(value)))
        return value

    def integers(self, name: str, default: object = _MISSING) -> Any:
        return self._list(name, int, "a list of integers", default)

    def reals(self, name: str, default: object = _MISSING) -> Any:
        return self._list(name, float, "a list of floats", default)

    def texts(self, name: str, default: object = _MISSING) -> Any:
        return self._list(name, str, "a list of strings", default)

    def _list(self, name: str, kind: type, word: str, default: object) -> Any:
        value = self._get(name, list, word, default)
        if value is not default and not all(isinstance(v, kind) for v in value):
            raise TypeError(explain(f"attribute {name} must be {word}", got=_short(value)))
        return value


@dataclass
class Port:
    """A graph input or output. `dims`: None for no shape, else ints, names, or None each. kind:
    the file's type of a value that is not a tensor of numbers."""

    name: str
    dtype: str
    dims: list[int | str | None] | None
    kind: Any = None


@dataclass
class Model:
    """A model whose nodes are in an order in which they can run. Its constants are arrays; a dialect with
    another representation overrides how they are read."""

    nodes: list[Node]
    inputs: list[Port]
    outputs: list[Port]
    initializers: dict[str, Any]  # its constants, as stored in the file
    titles: set[str] = field(default_factory=set)  # of all nodes that have been read
    # Initializers that are inputs, too: a run may override them.
    overridable: list[Port] = field(default_factory=list)

    def holds_texts(self, name: str) -> bool:
        """Whether the elements of an initializer are texts."""
        return False

    def initializer_dtype(self, name: str) -> str:
        """The dtype of an initializer."""
        return self.initializers[name].dtype.name

    def initializer(self, name: str) -> np.ndarray:
        """The array of an initializer. Raises LoopwrightError where the file does not hold it."""
        return self.initializers[name]

    def stored_initializer(self, name: str) -> Tensor | None:
        """An initializer that stays in the file until it is used; None where it was read already."""
        return None


def remember(nodes: Sequence[Node], titles: set[str]) -> None:
    """Report the nodes of a graph to the active trace, unused ones too. Names that
    occur again in the model, whose `titles` are known, are completed by an output and a number."""
    for node in nodes:
        if node.title in titles:
            name = f"{node.name or node.op_type}:{next(filter(None, node.outputs), '')}"
            more = (f"{name}:{k}" if k > 1 else name for k in itertools.count(1))
            node.name = next(name for name in more if f"{node.dialect}:{name}" not in titles)
        titles.add(node.title)
    recording = trace.active()
    if recording is None:
        return
    for node in nodes:
        record = ModelNode(node.title, node.op_type, tuple(node.reads), tuple(node.outputs))
        recording.nodes.setdefault(node.title, record)


def ordered(nodes: list[N], available: set[str], outputs: list[str]) -> list[N]:
    """The nodes needed for `outputs`, each after the producers of its inputs."""
    producer: dict[str, N] = {}
    for node in nodes:
        for name in node.outputs:
            if not name:
                continue
            if name in producer or name in available:
                first = producer[name].title if name in producer else "an input or initializer"
                what = f"two nodes compute the value {name}"
                got = f"{first} and {node.title}"
                raise LoopwrightError(
                    explain(what, got=got, instead="a unique name for each value")
                )
            producer[name] = node
    for name in outputs:
        if name not in producer and name not in available:
            what = f"no node computes the output {name}"
            raise LoopwrightError(explain(what, got=_short(sorted(producer))))
    order: list[N] = []
    state: dict[int, int] = {}  # 1: on the way, 2: done
    # Depth first without recursion: graphs may be thousands of nodes deep.
    for name in outputs:
        stack = [(producer[name], iter(producer[name].reads))] if name in producer else []
        while stack:
            node, rest = stack[-1]
            if state.get(id(node)) == 2:
                stack.pop()
                continue
            state[id(node)] = 1
            before = next((n for n in rest if n not in available), None)
            if before is None:
                state[id(node)] = 2
                order.append(node)
                stack.pop()
                continue
            source = producer.get(before)
            if source is None:
                what = f"{node.op_type} reads a value that no node computes"
                raise LoopwrightError(explain(what, got=before, span=node.span))
            if state.get(id(source)) == 1:
                path = [n for n, _ in stack]
                loop = path[path.index(source) :]
                got = " -> ".join(n.title for n in [*loop, source])
                raise LoopwrightError(explain("the graph's nodes form a cycle", got=got))
            if state.get(id(source)) is None:
                stack.append((source, iter(source.reads)))
    at = {id(n): k for k, n in enumerate(nodes)}
    if all(_is_sorted(n, producer, at) for n in order):
        order.sort(key=lambda n: at[id(n)])  # the file's own order reads best
    return order


def _is_sorted(node: Node, producer: Mapping[str, Node], at: dict[int, int]) -> bool:
    return all(n not in producer or at[id(producer[n])] < at[id(node)] for n in node.reads)


def _short(value: str | float | Sequence[str | int]) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."
