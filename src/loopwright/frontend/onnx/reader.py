"""ONNX files as plain Python: reads, checks and orders a protobuf's contents.

Nothing of the `onnx` package is seen outside this file and `tensors.py`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...runtime.tensor import Tensor
from ..graph import model as base
from ..graph.model import Port, ordered, remember
from .stored import Stored, without_weights
from .tensors import STRING, array_of, dtype_of, stored_tensor

# The newest opset of the standard domain whose operators the converters know.
NEWEST_OPSET = 28
# The key in a node's metadata of the version of its domain, where its function requires another than the model.
_VERSION = "loopwright.opset"
# From this IR version on, an initializer with the name of an input is its default value; before, every
# initializer had to be an input, too.
_OVERRIDABLE = 4


def name_of(text: str | bytes) -> str:
    """A name of the file; protobuf returns bytes for one that is not UTF-8."""
    return text if isinstance(text, str) else text.decode("utf-8", "backslashreplace")


def domain_name(domain: str | bytes) -> str:
    """A domain in its canonical form: the standard one, also called "ai.onnx", is ""."""
    return "" if domain in ("", "ai.onnx") else name_of(domain)


@dataclass(eq=False)
class Node(base.Node):
    """An operator of an ONNX graph; `source` is its NodeProto. A converter reads attributes by their kind.

    >>> from loopwright.frontend import onnx
    >>> def scaled(cx, node, x):
    ...     return relax.op.multiply(x.expr, relax.const(node.real("scale", 1.0), "float32"))
    >>> onnx.register_converter("Scaled", 1, scaled, domain="my.domain") is scaled
    True
    """

    dialect: ClassVar[str] = "onnx"

    @property
    def version(self) -> str:
        """Its domain and opset."""
        return f"domain {self.domain or 'ai.onnx'}, opset {self.opset}"

    @property
    def registration(self) -> str:
        """How a converter for it is registered."""
        domain = f', domain="{self.domain}"' if self.domain else ""
        call = f'register_converter("{self.op_type}", 1, convert{domain})'
        return f"{call} of loopwright.frontend.onnx"

    @property
    def proto(self) -> Any:
        """Its NodeProto; None for a node that is not from a file."""
        return self.source


@dataclass
class Model(base.Model):
    """An ONNX model; its initializers are TensorProtos. opsets: the version of each domain. folder: of its
    external data. stored: weights that were left in the file."""

    opsets: dict[str, int] = field(default_factory=dict)
    folder: Path | None = None
    stored: dict[str, Stored] = field(default_factory=dict)

    def holds_texts(self, name: str) -> bool:
        """Whether the elements of an initializer are strings."""
        return self.initializers[name].data_type == STRING

    def initializer_dtype(self, name: str) -> str:
        """The dtype of an initializer. Raises LoopwrightError for a type that is not supported."""
        try:
            return dtype_of(self.initializers[name].data_type)
        except ValueError as error:
            raise LoopwrightError(f"initializer {name}: {error}") from error

    def initializer(self, name: str) -> np.ndarray:
        """The array of an initializer. Raises LoopwrightError if its data cannot be read."""
        try:
            return array_of(self.initializers[name], self.folder, self.stored.get(name))
        except (ValueError, TypeError, LoopwrightError, OSError) as error:
            raise LoopwrightError(f"initializer {name}: {error}") from error

    def stored_initializer(self, name: str) -> Tensor | None:
        """An initializer that stays in the file until it is used; None where it is in memory already."""
        stored = self.stored.get(name)
        return None if stored is None else stored_tensor(self.initializers[name], stored)


# ---------------------------------------------------------------- files


class Loaded(NamedTuple):
    """A ModelProto, the folder of its external data, and its weights that were left in the file."""

    proto: Any
    folder: Path | None = None
    stored: Mapping[str, Stored] = {}


def load(model: object) -> Loaded:
    """The contents of a path, bytes or a ModelProto.

    Raises FileNotFoundError for a path without a file, IsADirectoryError for a folder, TypeError for another kind of object, and
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
            raise IsADirectoryError(explain("an ONNX model is one file", got=f"the folder {path}"))
        if not path.is_file():
            what = "the ONNX file does not exist"
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
        raise LoopwrightError(explain(what, instead="pip install 'loopwright[onnx]'")) from error
    return onnx


def _parse(data: bytes, name: str, onnx: Any) -> Any:
    hint = "export or download the file again; a complete one passes onnx.checker.check_model"
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # its class differs between implementations of protobuf
        what = f"{name}: no ONNX model, or only a part of one"
        got = f"{len(data)} bytes that are not a complete protobuf message"
        raise LoopwrightError(explain(what, got=got, instead=hint)) from error
    if not proto.HasField("graph"):
        what = f"{name}: no ONNX model, or only a part of one"
        got = f"{len(data)} bytes without a graph"
        raise LoopwrightError(explain(what, got=got, instead=hint))
    return proto


# ---------------------------------------------------------------- from protobuf


def read(loaded: Loaded, opset: int | None = None, nodes: Iterable[Any] | None = None) -> Model:
    """The `Model` of a ModelProto. opset: instead of the version of the standard domain; nodes: instead of
    the graph's, with calls of the model's functions expanded.

    Raises LoopwrightError for a graph without outputs, names that are defined twice, sparse
    initializers, and opsets that do not exist.
    """
    proto, folder, stored = loaded
    opsets = _opsets(proto, opset)
    graph = proto.graph
    if graph.sparse_initializer:
        what = "sparse initializers are not supported"
        got = ", ".join(s.values.name for s in graph.sparse_initializer)
        raise LoopwrightError(explain(what, got=got, instead="make them dense"))
    initializers = {name_of(t.name): t for t in graph.initializer}
    if len(initializers) != len(graph.initializer):
        _refuse_duplicates("initializers", [name_of(t.name) for t in graph.initializer])
    ports = [_port(v, "input") for v in graph.input]
    inputs = [p for p in ports if p.name not in initializers]
    both: list[Port] = []
    if proto.ir_version >= _OVERRIDABLE:
        both = [p for p in ports if p.name in initializers and p.kind is None]
    outputs = [_port(v, "output") for v in graph.output]
    _refuse_duplicates("inputs", [p.name for p in inputs])
    if not outputs:
        raise LoopwrightError(explain("this ONNX graph has no outputs", got=graph.name))
    nodes = [node_of(n, opsets, folder) for n in (graph.node if nodes is None else nodes)]
    titles: set[str] = set()
    remember(nodes, titles)
    defined = {*initializers, *(p.name for p in inputs)}
    live = ordered(nodes, defined, [p.name for p in outputs])
    return Model(
        live, inputs, outputs, initializers, titles, both, opsets, folder, dict(stored)
    )  # fmt: skip


def _refuse_duplicates(kind: str, names: Iterable[str]) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates:
        raise LoopwrightError(explain(f"{kind} of the same name", got=", ".join(duplicates)))


def versions_of(proto: Any) -> dict[str, int]:
    """The versions of domains that a model or a function of it requires."""
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
    """Raise LoopwrightError for a version that does not exist of the standard domain, or of any."""
    standard = versions.get("")
    if standard is not None and not 1 <= standard <= NEWEST_OPSET:
        what = f"the opset must be between 1 and {NEWEST_OPSET}"
        hint = "onnx.version_converter.convert_version, or from_onnx(model, opset=...)"
        raise LoopwrightError(explain(what, got=standard, instead=hint))
    for domain, version in versions.items():
        if not 0 <= version < 2**31:
            what = f"no version of the domain {domain!r}"
            raise LoopwrightError(explain(what, got=version, instead="a small number"))


def stamp(proto: Any, version: int) -> None:
    """Record in a NodeProto the version of its domain, where that is not the model's."""
    proto.metadata_props.add(key=_VERSION, value=str(version))


def _stamped(proto: Any) -> int | None:
    """The version that `stamp` recorded, or None; a file may have any text under the key."""
    version = next((p.value for p in proto.metadata_props if p.key == _VERSION), "")
    return int(version) if version.isdecimal() and len(version) < 10 else None


def _port(value: Any, kind: str) -> Port:
    if not value.name:
        raise LoopwrightError(explain(f"an {kind} of the graph has no name"))
    name = name_of(value.name)
    which = value.type.WhichOneof("value")
    sparse = which == "sparse_tensor_type"
    if sparse and kind != "input":
        raise LoopwrightError(explain(f"{kind} {name} is a sparse tensor", instead="make it dense"))
    # Sparse weights of onnxruntime are converted to dense ones.
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
    """A dimension of a TensorShapeProto: its extent, its name, or None where it has neither."""
    which = dim.WhichOneof("value")
    if which == "dim_value":
        return dim.dim_value if dim.dim_value >= 0 else None
    return name_of(dim.dim_param) or None if which == "dim_param" else None


def node_of(proto: Any, opsets: dict[str, int], folder: Path | None) -> Node:
    """The Node of a NodeProto. Raises LoopwrightError for an attribute that cannot be read."""
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
            raise LoopwrightError(f"attribute {name}: {error}\n{node.span.render()}") from error
    return node


def graphs_of(attribute: Any) -> list[Any]:
    """The graphs in an attribute."""
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
        what = "it refers to an attribute of a function, but its node is not in one"
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
