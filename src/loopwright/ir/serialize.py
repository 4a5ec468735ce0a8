"""Nodes as JSON, from the field table.

The identity of variables is preserved: the JSON is a table of nodes that refer to each other by
number. Arrays are stored as bytes in base64. A type that is not a node (a tensor), or one whose
slots are not fields, gets a codec from the layer it belongs to: `register_codec(Tensor, "tensor",
to_array, from_array)`.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np

from ..base.errors import explain
from ..base.registry import Registry
from ..base.span import SequentialSpan, Span
from .dtype import DataType
from .expr import Attrs, DictAttrs
from .node import NODE_TYPES, Node, _extra_slots
from .op import Op

FORMAT = 1
ENCODERS: Registry[type, tuple[str, Callable[[Any], Any]]] = Registry("encoder of values")
DECODERS: Registry[str, Callable[[Any], Any]] = Registry("decoder of values")


def register_codec(
    kind: type, tag: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]
) -> None:
    """Let nodes hold values of `kind`: `encode` returns plain values, arrays or nodes."""
    ENCODERS.register(kind, (tag, encode), override=True)
    DECODERS.register(tag, decode, override=True)


def encoded(value: object) -> Any:
    """The value as encoded by the codec of its type; the value itself if its type has no codec."""
    codec = ENCODERS.get(type(value))
    return value if codec is None else codec[1](value)


# ---------------------------------------------------------------------- JSON


class _Writer:
    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.index: dict[int, int] = {}
        self.keep: list[Any] = []  # values made by codecs live as long as their ids are used
        self.encoded: dict[int, Any] = {}

    def add(self, root: Node) -> int:
        """Store a node and all below it, children first; deep trees need no deep stack."""
        stack = [root]
        while stack:
            node = stack[-1]
            if id(node) in self.index:
                stack.pop()
                continue
            waiting = [child for child in self.below(node) if id(child) not in self.index]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            entry = self.entry(node)
            self.index[id(node)] = len(self.nodes)
            self.nodes.append(entry)
        return self.index[id(root)]

    def below(self, node: Node) -> Iterator[Node]:
        if isinstance(node, Op):
            return
        if type(node) in ENCODERS:
            yield from self.nodes_in(self.plain(node))
            return
        for value in (*node.field_values(), *node.extras().values()):
            yield from self.nodes_in(value)

    def nodes_in(self, value: object) -> Iterator[Node]:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (tuple, list)):
            for item in value:
                yield from self.nodes_in(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self.nodes_in(key)
                yield from self.nodes_in(item)
        elif type(value) in ENCODERS:
            yield from self.nodes_in(self.plain(value))

    def plain(self, value: object) -> Any:
        if id(value) not in self.encoded:
            self.encoded[id(value)] = ENCODERS[type(value)][1](value)
            self.keep.append(value)
        return self.encoded[id(value)]

    def entry(self, node: Node) -> dict[str, Any]:
        if isinstance(node, Op):
            return {"op": node.name}
        if type(node) in ENCODERS:
            return {
                "coded": self.value(self.plain(node), type(node).__name__),
                "by": ENCODERS[type(node)][0],
            }
        where = f"{type(node).__name__}"
        entry: dict[str, Any] = {"type": type(node).node_key}
        fields = zip(node.__fields__, node.field_values())
        entry["fields"] = {f.name: self.value(v, f"{where}.{f.name}") for f, v in fields}
        extras = node.extras()
        if extras:
            entry["extra"] = {k: self.value(v, f"{where}.{k}") for k, v in extras.items()}
        if node.span is not None:
            entry["span"] = _span_out(node.span)
        return entry

    def value(self, value: object, where: str) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, DataType):
            return {"dtype": str(value)}
        if isinstance(value, Node):
            return {"node": self.index[id(value)]}
        if isinstance(value, list):
            return [self.value(item, where) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.value(item, where) for item in value]}
        if isinstance(value, dict):
            return {
                "dict": [[self.value(k, where), self.value(v, where)] for k, v in value.items()]
            }
        if isinstance(value, np.ndarray):
            data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
            return {"array": [str(value.dtype), list(value.shape), data]}
        if isinstance(value, np.generic):
            return self.value(value.item(), where)
        if isinstance(value, Enum):
            return {"enum": [type(value).__module__, type(value).__qualname__, value.value]}
        if isinstance(value, Span):
            return {"span": _span_out(value)}
        if isinstance(value, str) and type(value) not in ENCODERS:  # the text of an error
            return str(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": repr(value)}
        if type(value) in ENCODERS:
            return {ENCODERS[type(value)][0]: self.value(self.plain(value), where)}
        what = f"{where} holds a value that JSON cannot keep"
        hint = "register_codec for its type, or keep the module in a pickle"
        raise TypeError(
            explain(what, got=f"{value!r} of type {type(value).__name__}", instead=hint)
        )


def save_json(node: Any) -> str:
    """A node (or a list, tuple or dict of nodes) as JSON text, which `load_json` reads.

    Raises TypeError naming the field that holds something JSON cannot keep.
    """
    writer = _Writer()
    for item in writer.nodes_in(node):
        writer.add(item)
    root = writer.value(node, "the value")
    return json.dumps({"loopwright": FORMAT, "root": root, "nodes": writer.nodes}, indent=1)


def load_json(json_str: str) -> Any:
    """The value that `save_json` wrote. Raises ValueError for any other text."""
    try:
        data = json.loads(json_str)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(explain("the text is not JSON", got=str(error))) from None
    if not isinstance(data, dict) or data.get("loopwright") != FORMAT:
        what = "the JSON holds no Loopwright nodes"
        raise ValueError(explain(what, instead="give what save_json wrote"))
    try:
        reader = _Reader(len(data["nodes"]))
        for entry in data["nodes"]:
            reader.add(entry)
        reader.size = 0
        return reader.value(data["root"])
    except (LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        what = "the JSON is not as save_json writes it"
        raise ValueError(explain(what, got=f"{type(error).__name__}: {error}"[:500])) from error


class _Reader:
    def __init__(self, count: int) -> None:
        self.nodes: list[Any] = []
        # How many nodes are below each, and below the one that is being read: nodes that share parts
        # all the way down would describe a tree of any size.
        self.sizes: list[int] = []
        self.size = 0
        self.most = 1_000_000 + 1_000 * count

    def add(self, entry: dict[str, Any]) -> None:
        """Read a node; those below it were read before."""
        self.size = 1
        if "by" in entry:
            self.nodes.append(DECODERS[entry["by"]](self.value(entry["coded"])))
        else:
            self.nodes.append(Op.get(entry["op"]) if "op" in entry else self.node(entry))
        self.sizes.append(self.size)

    def node(self, entry: dict[str, Any]) -> Node:
        cls = NODE_TYPES.get(entry["type"])
        if cls is None:
            what, hint = (
                "the JSON holds an unknown kind of node",
                "import the module that defines it",
            )
            raise ValueError(explain(what, got=entry["type"], instead=hint))
        stored, extra = entry["fields"], entry.get("extra", {})
        unknown = set(stored) ^ {f.name for f in cls.__fields__}
        unknown |= set(extra) - set(_extra_slots(cls))
        if unknown:
            what = f"the fields of {cls.__name__} differ from the stored ones"
            raise ValueError(explain(what, got=", ".join(sorted(unknown)), instead="save it again"))
        values = [self.value(stored[f.name]) for f in cls.__fields__]
        node = cls._make(*values, span=_span_in(entry.get("span")))
        for name, value in extra.items():
            setattr(node, name, self.value(value))
        return node

    def value(self, value: object) -> Any:
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        ((tag, inner),) = value.items()
        if tag == "node":
            return self.below(inner)
        if tag == "dtype":
            return DataType(inner)
        if tag == "tuple":
            return tuple(self.value(item) for item in inner)
        if tag == "dict":
            return {self.value(k): self.value(v) for k, v in inner}
        if tag == "float":
            return float(inner)
        if tag == "span":
            return _span_in(inner)
        if tag == "array":
            dtype, shape, data = inner
            flat = np.frombuffer(base64.b64decode(data), dtype=DataType(dtype).numpy())
            return flat.reshape(shape).copy()
        if tag == "enum":
            return _enum_in(*inner)
        if tag in DECODERS:
            return DECODERS[tag](self.value(inner))
        raise ValueError(explain("the JSON holds an unknown kind of value", got=tag))

    def below(self, number: int) -> Any:
        """A node that was read before."""
        self.size += self.sizes[number]
        if number < 0 or self.size > self.most:
            what = "the JSON holds nodes that share too many parts"
            raise ValueError(explain(what, got=f"more than {self.most} when expanded"))
        return self.nodes[number]


def _enum_in(module: str, name: str, value: int) -> Any:
    """An enumeration of a module that is loaded: reading JSON imports nothing."""
    kind = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    if not (isinstance(kind, type) and issubclass(kind, Enum)):
        raise ValueError(explain("the JSON names an unknown enumeration", got=f"{module}.{name}"))
    return kind(value)


def _span_out(span: Span) -> Any:
    if isinstance(span, SequentialSpan):
        return [_span_out(item) for item in span.spans]
    return {"source": span.source, "at": [span.line, span.end_line, span.column, span.end_column]}


def _span_in(data: Any) -> Span | None:
    if data is None:
        return None
    if isinstance(data, list):
        return SequentialSpan([Span(item["source"], *item["at"]) for item in data])
    return Span(data["source"], *data["at"])


def make_node(type_key: str, **kwargs: Any) -> Node:
    """A node of the class with that key ("ir.Range"), from its fields by name, unconverted; a key of
    attributes ("relay.attrs.DenseAttrs", "DictAttrs") says of which operator they are. A class that
    declares no fields ("te.Tensor") takes what its constructor takes."""
    if type_key in ("DictAttrs", "ir.DictAttrs"):
        return DictAttrs(kwargs)
    if type_key.startswith(("attrs.", "relay.attrs.")):
        return Attrs(type_key, kwargs)
    cls = NODE_TYPES.get(type_key)
    if cls is None:
        raise ValueError(explain("no node class has this key", got=type_key))
    if not cls.__fields__:
        return cls(**kwargs)
    missing = [f.name for f in cls.__fields__ if not f.optional and f.name not in kwargs]
    unknown = set(kwargs) - {f.name for f in cls.__fields__} - {"span"}
    if missing or unknown:
        what = f"{type_key} has the fields {', '.join(f.name for f in cls.__fields__)}"
        raise TypeError(explain(what, got=", ".join(kwargs) or "none"))
    node = cls.__new__(cls)
    node._set(**kwargs)
    return node
