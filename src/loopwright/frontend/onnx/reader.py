"""ONNX files as plain Python: reads, checks and orders what a protobuf holds.

Nothing of the `onnx` package is seen outside this file and `tensors.py`.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.span import Span
from ...ir import trace
from ...ir.trace import ModelNode
from ...runtime.tensor import Tensor
from .stored import Stored, without_weights
from .tensors import STRING, array_of, dtype_of, stored_tensor

# The newest opset of the standard domain whose operators the converters know.
NEWEST_OPSET = 28
_STANDARD = ("", "ai.onnx")
_VERSION = "loopwright.opset"  # in the metadata of a node: its function's version of its domain
_OVERRIDABLE = 4  # the IR version from which an initializer that is an input is its default; before, all had to be inputs
_MISSING = object()


def name_of(text: str | bytes) -> str:
    """A name of the file; protobuf gives bytes for one that is not UTF-8."""
    return text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")


def domain_name(domain: str | bytes) -> str:
    """A domain as it is kept: the standard one is ""."""
    return "" if domain in _STANDARD else name_of(domain)


@dataclass(eq=False)
class Node:
    """An operator of the graph. Attributes are read through `integer`, `integers`, ... which check
    them; one that no converter reads is an error."""

    op_type: str
    domain: str
    name: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    opset: int = 1
    proto: Any = None
    captured: list[str] = field(default_factory=list)  # what its graphs read from outside
    read: set[str] = field(default_factory=set)

    @property
    def title(self) -> str:
        """The name in spans and messages: `onnx:/fc1/Gemm`."""
        if self.name:
            return f"onnx:{self.name}"
        first = next((o for o in self.outputs if o), "")
        return f"onnx:{self.op_type}:{first}"

    @property
    def span(self) -> Span:
        return Span(self.title)

    @property
    def reads(self) -> list[str]:
        """The values that must be there before this node."""
        return [name for name in (*self.inputs, *self.captured) if name]

    def _get(self, name: str, kind: type | tuple[type, ...], word: str, default: Any) -> Any:
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

    def has(self, name: str) -> bool:
        """Whether an attribute is given."""
        return name in self.attributes

    def skip(self, *names: str) -> None:
        """Say that attributes change nothing here."""
        self.read.update(names)

    def integer(self, name: str, default: Any = _MISSING) -> Any:
        return self._get(name, int, "an integer", default)

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise ValueError(explain(f"attribute {name} must be 0 or 1", got=value))
        return bool(value)

    def real(self, name: str, default: Any = _MISSING) -> Any:
        return self._get(name, float, "a float", default)

    def text(self, name: str, default: Any = _MISSING) -> Any:
        return self._get(name, str, "a string", default)

    def tensor(self, name: str, default: Any = _MISSING) -> Any:
        return self._get(name, np.ndarray, "a tensor", default)

    def graph(self, name: str) -> Any:
        value = self._get(name, object, "a graph", _MISSING)
        if not hasattr(value, "initializer"):
            raise TypeError(explain(f"attribute {name} must be a graph", got=_short(value)))
        return value

    def integers(self, name: str, default: Any = _MISSING) -> Any:
        return self._list(name, int, "a list of integers", default)

    def reals(self, name: str, default: Any = _MISSING) -> Any:
        return self._list(name, float, "a list of floats", default)

    def texts(self, name: str, default: Any = _MISSING) -> Any:
        return self._list(name, str, "a list of strings", default)

    def _list(self, name: str, kind: type, word: str, default: Any) -> Any:
        value = self._get(name, list, word, default)
        if value is not default and not all(isinstance(v, kind) for v in value):
            raise TypeError(explain(f"attribute {name} must be {word}", got=_short(value)))
        return value


@dataclass
class Port:
    """A graph input or output. `dims`: None for no shape, else ints, names, or None each. kind: the
    TypeProto of what is no tensor of numbers."""

    name: str
    dtype: str
    dims: list[int | str | None] | None
    kind: Any = None


@dataclass
class Model:
    """A model whose nodes stand in an order in which they can run."""

    nodes: list[Node]
    inputs: list[Port]
    outputs: list[Port]
    initializers: dict[str, Any]
    opsets: dict[str, int]
    folder: Path | None
    stored: dict[str, Stored] = field(default_factory=dict)
    titles: set[str] = field(default_factory=set)  # of all nodes that have been read
    # Initializers that the graph lists as inputs, too: a run may give others (from IR version 4 on).
    overridable: list[Port] = field(default_factory=list)

    def holds_texts(self, name: str) -> bool:
        """Whether the elements of an initializer are texts."""
        return self.initializers[name].data_type == STRING

    def initializer_dtype(self, name: str) -> str:
        """The dtype of an initializer."""
        try:
            return dtype_of(self.initializers[name].data_type)
        except ValueError as error:
            raise LoopwrightError(f"initializer {name}: {error}") from error

    def initializer(self, name: str) -> np.ndarray:
        """The array of an initializer."""
        try:
            return array_of(self.initializers[name], self.folder, self.stored.get(name))
        except (ValueError, TypeError, LoopwrightError, OSError) as error:
            raise LoopwrightError(f"initializer {name}: {error}") from error

    def stored_initializer(self, name: str) -> Tensor | None:
        """An initializer that stays in the file until it is used; None where it was read already."""
        stored = self.stored.get(name)
        return None if stored is None else stored_tensor(self.initializers[name], stored)


# ---------------------------------------------------------------- files


class Loaded(NamedTuple):
    """A ModelProto, the folder of its external data, and its weights that were left in the file."""

    proto: Any
    folder: Path | None = None
    stored: Mapping[str, Stored] = {}


def load(model: Any) -> Loaded:
    """What a path, bytes or a ModelProto hold.

    Raises FileNotFoundError for a path without a file, TypeError for another kind of object, and
    LoopwrightError for bytes that are not an ONNX model.
    """
    onnx = _onnx()
    if isinstance(model, onnx.ModelProto):
        return Loaded(model)
    if isinstance(model, (bytes, bytearray, memoryview)):
        return Loaded(_parse(bytes(model), "these bytes", onnx))
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if path.is_dir():
            what = "an ONNX model is one file"
            raise IsADirectoryError(explain(what, got=f"the folder {path}"))
        if not path.is_file():
            what = "there is no such ONNX file"
            raise FileNotFoundError(explain(what, got=path, instead=f"looked from {Path.cwd()}"))
        data, stored = without_weights(path)
        return Loaded(_parse(data, str(path), onnx), path.parent, stored)
    what = "an ONNX model is a path, bytes or an onnx.ModelProto"
    raise TypeError(explain(what, got=type(model).__name__))


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        what = "reading ONNX models needs the package onnx"
        hint = "pip install 'loopwright[onnx]'"
        raise LoopwrightError(explain(what, instead=hint)) from error
    return onnx


def _parse(data: bytes, name: str, onnx: Any) -> Any:
    hint = "export or fetch the file again; a whole one passes onnx.checker.check_model"
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # protobuf's own class differs from one implementation to another
        what = f"{name}: no ONNX model, or only a part of one"
        got = f"{len(data)} bytes that are not a whole protobuf message"
        raise LoopwrightError(explain(what, got=got, instead=hint)) from error
    if not proto.HasField("graph"):
        what = f"{name}: no ONNX model, or only a part of one"
        got = f"{len(data)} bytes without a graph"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    return proto


# ---------------------------------------------------------------- from protobuf


def read(loaded: Loaded, opset: int | None = None, nodes: Iterable[Any] | None = None) -> Model:
    """Read a ModelProto. `opset` replaces the version of the standard domain; nodes: those of the graph
    with its functions expanded."""
    proto, folder, stored = loaded
    opsets = _opsets(proto, opset)
    graph = proto.graph
    if graph.sparse_initializer:
        what = "sparse initializers are not supported"
        got = ", ".join(s.values.name for s in graph.sparse_initializer)
        raise LoopwrightError(explain(what, got=got, instead="make them dense"))
    initializers = {name_of(t.name): t for t in graph.initializer}
    if len(initializers) != len(graph.initializer):
        _refuse_double("initializers", [name_of(t.name) for t in graph.initializer])
    ports = [_port(v, "input") for v in graph.input]
    inputs = [p for p in ports if p.name not in initializers]
    both = [p for p in ports if p.name in initializers and p.kind is None]
    both = both if proto.ir_version >= _OVERRIDABLE else []
    outputs = [_port(v, "output") for v in graph.output]
    _refuse_double("inputs", [p.name for p in inputs])
    if not outputs:
        raise LoopwrightError(explain("this ONNX graph has no outputs", got=graph.name))
    nodes = [node_of(n, opsets, folder) for n in (graph.node if nodes is None else nodes)]
    titles: set[str] = set()
    remember(nodes, titles)
    known = {*initializers, *(p.name for p in inputs)}
    live = ordered(nodes, known, [p.name for p in outputs])
    return Model(live, inputs, outputs, initializers, opsets, folder, dict(stored), titles, both)


def _refuse_double(kind: str, names: Iterable[str]) -> None:
    double = [name for name, count in Counter(names).items() if count > 1]
    if double:
        raise LoopwrightError(explain(f"{kind} of the same name", got=", ".join(double)))


def versions_of(proto: Any) -> dict[str, int]:
    """The versions of domains that a model or a function of it asks for."""
    return {domain_name(o.domain): o.version for o in proto.opset_import}


def _opsets(proto: Any, opset: int | None) -> dict[str, int]:
    versions = versions_of(proto)
    if opset is not None:
        versions[""] = opset
    if versions.get("") is None and any(domain_name(n.domain) == "" for n in proto.graph.node):
        what = "the model does not say its opset"
        hint = "give it: from_onnx(model, opset=13)"
        raise LoopwrightError(explain(what, got="no opset_import of ai.onnx", instead=hint))
    check_versions(versions)
    return versions


def check_versions(versions: Mapping[str, int]) -> None:
    """Raise LoopwrightError for versions of domains that there are not."""
    standard = versions.get("")
    if standard is not None and not 1 <= standard <= NEWEST_OPSET:
        what = f"the opset must lie between 1 and {NEWEST_OPSET}"
        hint = "onnx.version_converter.convert_version, or from_onnx(model, opset=...)"
        raise LoopwrightError(explain(what, got=standard, instead=hint))
    for domain, version in versions.items():
        if not 0 <= version < 2**31:
            what = f"no version of the domain {domain!r}"
            raise LoopwrightError(explain(what, got=version, instead="a small number"))


def stamp(proto: Any, version: int) -> None:
    """Say of a NodeProto which version of its domain it is of, where that is not the model's."""
    proto.metadata_props.add(key=_VERSION, value=str(version))


def _stamped(proto: Any) -> int | None:
    found = [p.value for p in proto.metadata_props if p.key == _VERSION]
    return int(found[0]) if found and found[0].isdecimal() and len(found[0]) < 10 else None


def _port(value: Any, kind: str) -> Port:
    if not value.name:
        raise LoopwrightError(explain(f"an {kind} of the graph has no name"))
    name = name_of(value.name)
    which = value.type.WhichOneof("value")
    sparse = which == "sparse_tensor_type"
    if sparse and kind != "input":
        what = f"{kind} {name} is a sparse tensor"
        raise LoopwrightError(explain(what, instead="make it dense"))
    # What is sparse for onnxruntime is given dense.
    tensor = value.type.sparse_tensor_type if sparse else value.type.tensor_type
    if not (sparse or which in (None, "tensor_type")) or tensor.elem_type == STRING:
        return Port(name, "object", None, value.type)
    dtype = ""
    if tensor.elem_type:
        try:
            dtype = dtype_of(tensor.elem_type)
        except (ValueError, TypeError) as error:
            raise LoopwrightError(f"{kind} {name}: {error}") from error
    dims = [dim_of(d) for d in tensor.shape.dim] if tensor.HasField("shape") else None
    return Port(name, dtype, dims)


def dim_of(dim: Any) -> int | str | None:
    """A dimension of a TensorShapeProto."""
    which = dim.WhichOneof("value")
    if which == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None
    return name_of(dim.dim_param) or None if which == "dim_param" else None


def node_of(proto: Any, opsets: dict[str, int], folder: Path | None) -> Node:
    """A Node of a NodeProto."""
    domain = domain_name(proto.domain)
    node = Node(
        name_of(proto.op_type),
        domain,
        name_of(proto.name),
        [name_of(n) for n in proto.input],
        [name_of(n) for n in proto.output],
        {},
        _stamped(proto) or opsets.get(domain, 1),
        proto,
    )
    for attribute in proto.attribute:
        name = name_of(attribute.name)
        try:
            node.attributes[name] = _attribute(attribute, folder)
            node.captured += _free_names(graphs_of(attribute))
        except (ValueError, TypeError, LoopwrightError, OSError) as error:
            text = f"attribute {name}: {error}\n{node.span.render()}"
            raise LoopwrightError(text) from error
    return node


def graphs_of(attribute: Any) -> list[Any]:
    """The graphs that an attribute holds."""
    return [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]


def _free_names(graphs: list[Any]) -> list[str]:
    """The names that graphs use and do not define, in order."""
    free: dict[str, None] = {}
    for graph in graphs:
        own = {name_of(t.name) for t in (*graph.initializer, *graph.input)}
        own |= {name_of(name) for n in graph.node for name in n.output}
        names = [name_of(name) for n in graph.node for name in n.input]
        for n in graph.node:
            for a in n.attribute:
                names += _free_names(graphs_of(a))
        names += [name_of(value.name) for value in graph.output]
        free.update((name, None) for name in names if name and name not in own)
    return list(free)


def _attribute(a: Any, folder: Path | None) -> Any:
    if a.ref_attr_name:
        what = "it refers to an attribute of a function, and is in none"
        raise ValueError(explain(what, got=a.ref_attr_name, instead="a value"))
    # The numbers are AttributeProto.AttributeType's. Old files leave the type out.
    reader = _ATTRIBUTES.get(a.type)
    if a.type == 0:
        filled = [f.name for f, _ in a.ListFields() if f.name not in ("name", "doc_string")]
        reader = next((r for k, r in _ATTRIBUTES.items() if _FIELDS[k] in filled), None)
    if reader is None:
        raise ValueError(explain("unknown kind of attribute", got=a.type))
    return reader(a, folder)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_FIELDS = {1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings"}
_FIELDS |= {9: "tensors", 10: "graphs", 11: "sparse_tensor", 12: "sparse_tensors", 13: "tp"}
_ATTRIBUTES: dict[int, Any] = {
    1: lambda a, _: float(a.f),
    2: lambda a, _: int(a.i),
    3: lambda a, _: _text(a.s),
    4: lambda a, folder: array_of(a.t, folder),
    5: lambda a, _: a.g,
    6: lambda a, _: [float(v) for v in a.floats],
    7: lambda a, _: [int(v) for v in a.ints],
    8: lambda a, _: [_text(v) for v in a.strings],
    9: lambda a, folder: [array_of(t, folder) for t in a.tensors],
    10: lambda a, _: list(a.graphs),
    11: lambda a, _: a.sparse_tensor,
    12: lambda a, _: list(a.sparse_tensors),
    13: lambda a, _: a.tp,
}


def _short(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---------------------------------------------------------------- order


def remember(nodes: list[Node], titles: set[str]) -> None:
    """Tell the active trace of the nodes of a graph, also of those that nothing needs. Names that
    occur again in the model, whose `titles` are known, are completed by an output and a number."""
    for node in nodes:
        if node.title in titles:
            name = f"{node.name or node.op_type}:{next(filter(None, node.outputs), '')}"
            more = (f"{name}:{k}" if k > 1 else name for k in itertools.count(1))
            node.name = next(name for name in more if f"onnx:{name}" not in titles)
        titles.add(node.title)
    recording = trace.active()
    if recording is None:
        return
    for node in nodes:
        made = ModelNode(node.title, node.op_type, tuple(node.reads), tuple(node.outputs))
        recording.nodes.setdefault(node.title, made)


def ordered(nodes: list[Node], known: set[str], wanted: list[str]) -> list[Node]:
    """The nodes that `wanted` needs, each after those that give its inputs."""
    giver: dict[str, Node] = {}
    for node in nodes:
        for name in node.outputs:
            if not name:
                continue
            if name in giver or name in known:
                first = giver[name].title if name in giver else "an input or initializer"
                what = f"two nodes give the value {name}"
                got = f"{first} and {node.title}"
                raise LoopwrightError(explain(what, got=got, instead="each name is given once"))
            giver[name] = node
    for name in wanted:
        if name not in giver and name not in known:
            what = f"no node gives the output {name}"
            raise LoopwrightError(explain(what, got=_short(sorted(giver))))
    order: list[Node] = []
    state: dict[int, int] = {}  # 1: on the way, 2: done
    # Depth first without recursion: graphs may be thousands of nodes deep.
    for name in wanted:
        stack = [(giver[name], iter(giver[name].reads))] if name in giver else []
        while stack:
            node, rest = stack[-1]
            if state.get(id(node)) == 2:
                stack.pop()
                continue
            state[id(node)] = 1
            before = next((n for n in rest if n not in known), None)
            if before is None:
                state[id(node)] = 2
                order.append(node)
                stack.pop()
                continue
            source = giver.get(before)
            if source is None:
                what = f"{node.op_type} reads a value that nothing gives"
                raise LoopwrightError(explain(what, got=before, span=node.span))
            if state.get(id(source)) == 1:
                path = [n for n, _ in stack]
                loop = path[path.index(source) :]
                got = " -> ".join(n.title for n in [*loop, source])
                raise LoopwrightError(explain("the graph's nodes form a cycle", got=got))
            if state.get(id(source)) is None:
                stack.append((source, iter(source.reads)))
    at = {id(n): k for k, n in enumerate(nodes)}
    if all(_is_sorted(n, giver, at) for n in order):
        order.sort(key=lambda n: at[id(n)])  # the file's own order reads best
    return order


def _is_sorted(node: Node, giver: dict[str, Node], at: dict[int, int]) -> bool:
    return all(n not in giver or at[id(giver[n])] < at[id(node)] for n in node.reads)
