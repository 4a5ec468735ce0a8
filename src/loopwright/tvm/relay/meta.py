"""The metadata of a text: what it names by `meta[relay.Constant][0]`, in the JSON of TVM v0.18.

Nodes are numbered and refer to each other by number; 0 is nothing. Tensors are in base64, with TVM's
header. What TVM has no layout for here (a kernel of TensorIR, a target) is a node with the text of
`ir.save_json`.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir import prim_expr
from ...ir.dtype import DataType
from ...ir.expr import Attrs, DictAttrs, GlobalVar
from ...ir.node import Node
from ...ir.op import Op
from ...ir.prim_expr import PrimExpr
from ...ir.serialize import load_json, save_json
from ...runtime.tensor import Tensor, tensor
from .expr import Constant
from .types import Any as AnyDim
from .types import IncompleteType

_MAGIC = 0xDD5E40F096B4A13F
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 1}
# Scalar expressions by TVM's name of their class.
_SCALARS: dict[str, type[Any]] = {
    (name if name in ("IntImm", "FloatImm") else f"tir.{name}"): cls
    for name, cls in vars(prim_expr).items()
    if isinstance(cls, type) and issubclass(cls, PrimExpr) and cls.__name__ == name
} | {"tir.Any": AnyDim}
_SCALAR_KEYS = {cls: key for key, cls in _SCALARS.items()}


def type_key(value: Any) -> str:
    """TVM's name of a value's class."""
    if isinstance(value, Constant):
        return "relay.Constant"
    if isinstance(value, dict):
        return "Map"
    if isinstance(value, (list, tuple)):
        return "Array"
    if isinstance(value, Attrs):
        return value.key
    if isinstance(value, (GlobalVar, Op)):
        return type(value).__name__
    key = _SCALAR_KEYS.get(type(value))
    return key or getattr(type(value), "node_key", type(value).__name__)


class MetaTable:
    """The objects that a text being printed refers to."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.texts: dict[int, str] = {}
        self.keep: list[Any] = []  # keeps the objects alive whose identities are keys

    def __bool__(self) -> bool:
        return bool(self.values)

    def ref(self, value: Any) -> str:
        """The name of a value, which is kept."""
        text = self.texts.get(id(value))
        if text is None:
            key = type_key(value)
            others = self.values.setdefault(key, [])
            text = self.texts[id(value)] = f"meta[{key}][{len(others)}]"
            others.append(value)
        return text

    def json(self) -> str:
        """The section of the text."""
        return Writer().write(self.values)


# ---------------------------------------------------------------------- tensors


def tensor_text(value: Tensor) -> str:
    """A tensor as TVM saves it, in base64."""
    array = value.numpy()
    kind = DataType(value.dtype)
    code = _CODES.get(kind.code, kind.type_code)
    bits = 1 if kind.is_bool else kind.bits
    shape = struct.pack(f"<{array.ndim}q", *array.shape)
    head = struct.pack("<QQiiiBBH", _MAGIC, 0, 1, 0, array.ndim, code, bits, 1)
    data = array.tobytes()
    whole = head + shape + struct.pack("<q", len(data)) + data
    return base64.b64encode(whole).decode("ascii")


def read_tensor(text: str) -> Tensor:
    """What `tensor_text` gave. Raises ValueError."""
    data = base64.b64decode("".join(text.split()), validate=True)
    head = struct.calcsize("<QQiiiBBH")
    magic, _, _, _, ndim, code, bits, lanes = struct.unpack_from("<QQiiiBBH", data)
    if magic != _MAGIC or not 0 <= ndim <= 32 or lanes != 1:
        raise ValueError("this is not a tensor in TVM's file format")
    shape = struct.unpack_from(f"<{ndim}q", data, head)
    dtype = _dtype(code, bits)
    start = head + 8 * ndim + 8
    if min(shape, default=0) < 0:
        raise ValueError("a tensor's extents are not negative")
    body = np.frombuffer(data, dtype.numpy(), offset=min(start, len(data)))
    return tensor(body.reshape(shape), dtype=str(dtype))


def _dtype(code: int, bits: int) -> DataType:
    if (code, bits) == (1, 1):
        return DataType("bool")
    names = {number: name for name, number in _CODES.items() if name != "bool"}
    if code not in names:
        raise ValueError(f"a tensor of type code {code} is not known")
    return DataType(f"{names[code]}{bits}")


# ---------------------------------------------------------------------- writing


class Writer:
    """Numbers nodes, what they refer to first."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = [{"type_key": ""}]
        self.tensors: list[str] = []
        self.index: dict[int, int] = {}
        self.keep: list[Any] = []

    def write(self, values: dict[str, list[Any]]) -> str:
        """The JSON of a table of metadata."""
        root = self.add(values)
        whole = {
            "root": root,
            "nodes": self.nodes,
            "b64ndarrays": self.tensors,
            "attrs": {"tvm_version": "0.18.0"},
        }
        return json.dumps(whole, indent=2)

    def add(self, value: object) -> int:
        """The number of a value."""
        if value is None:
            return 0
        index = self.index.get(id(value))
        if index is not None:
            return index
        entry = self.entry(value)
        self.nodes.append(entry)
        self.keep.append(value)
        self.index[id(value)] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def entry(self, value: Any) -> dict[str, Any]:
        """The node of a value."""
        boxed = _BOXES.get(type(value))
        if boxed is not None:
            text = str(int(value)) if isinstance(value, bool) else repr(value)
            return {"type_key": boxed, "attrs": {"value": text}}
        if isinstance(value, str):
            return {"type_key": "runtime.String", "repr_str": str(value)}
        if isinstance(value, Op):
            return {"type_key": "Op", "repr_str": value.name}
        if isinstance(value, (list, tuple)):
            return {"type_key": "Array", "data": [self.add(v) for v in value]}
        if isinstance(value, dict):
            return self.map(value)
        key, fields = type_key(value), list(_fields(value))
        if not fields and not isinstance(value, (AnyDim, IncompleteType, Attrs)):
            return {"type_key": key, "loopwright": json.loads(save_json(value))}
        return {"type_key": key, "attrs": {n: self.field(v, plain) for n, v, plain in fields}}

    def map(self, value: dict[Any, Any]) -> dict[str, Any]:
        """A map; keys that are strings are stored in it directly."""
        if all(isinstance(k, str) for k in value):
            data = [self.add(v) for v in value.values()]
            return {"type_key": "Map", "keys": [str(k) for k in value], "data": data}
        return {"type_key": "Map", "data": [self.add(x) for pair in value.items() for x in pair]}

    def field(self, value: object, plain: bool) -> str:
        """The text of a field: a plain value, or a number."""
        if isinstance(value, Tensor):
            self.tensors.append(tensor_text(value))
            return str(len(self.tensors) - 1)
        return str(value) if plain else str(self.add(value))


_BOXES: dict[type, str] = {
    bool: "runtime.BoxBool",
    int: "runtime.BoxInt",
    float: "runtime.BoxFloat",
}


def _fields(value: Any) -> Iterator[tuple[str, Any, bool]]:
    """The fields of a node in TVM's layout, each with whether its text is the value; none for a
    node that TVM has no layout for here."""
    if isinstance(value, Constant):
        yield "data", value.data, False
    elif isinstance(value, GlobalVar):
        yield "name_hint", value.name_hint, False
    elif isinstance(value, Attrs):
        for name, item in value.items():
            yield name, item, False
    elif type(value) in _SCALAR_KEYS:
        for field in value.__fields__:
            item = getattr(value, field.name)
            yield field.name, item, isinstance(item, (DataType, int, float))


# ---------------------------------------------------------------------- reading


def read(text: str) -> dict[str, list[Any]]:
    """A table of metadata from its JSON. Raises ValueError."""
    try:
        whole = json.loads(text)
        table = Reader(whole).value(whole["root"])
        if not isinstance(table, dict):
            raise TypeError("the root is not a map")
        return {str(key): list(values) for key, values in table.items()}
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
        binascii.Error, struct.error,
    ) as error:  # fmt: skip
        what = "the metadata are not JSON as astext writes it"
        raise ValueError(explain(what, got=f"{type(error).__name__}: {error}"[:300])) from error


class Reader:
    """Reads nodes on demand; a node may come before or after those it refers to."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.nodes = whole["nodes"]
        self.tensors = whole.get("b64ndarrays", [])
        self.built: dict[int, Any] = {0: None}
        self.open: set[int] = set()

    def value(self, number: int) -> Any:
        """A node of the table."""
        number = int(number)
        if number not in self.built:
            if number in self.open or not 0 <= number < len(self.nodes):
                raise ValueError(f"node {number} is not there, or refers to itself")
            self.open.add(number)
            self.built[number] = self.node(self.nodes[number])
            self.open.discard(number)
        return self.built[number]

    def node(self, entry: dict[str, Any]) -> Any:
        key, attrs = entry["type_key"], entry.get("attrs", {})
        if "loopwright" in entry:
            return load_json(json.dumps(entry["loopwright"]))
        if key in ("runtime.String", "StringObj", "String"):
            packed = entry.get("repr_b64")
            text = entry.get("repr_str", "")
            return base64.b64decode(packed).decode() if packed else text
        if key == "Array":
            return tuple(self.value(i) for i in entry.get("data", ()))
        if key in ("Map", "StrMap"):
            return self.map(entry)
        if key in _UNBOXES:
            return _UNBOXES[key](attrs["value"])
        if key == "relay.Constant":
            return Constant(read_tensor(self.tensors[int(attrs["data"])]))
        if key == "GlobalVar":
            return GlobalVar(self.value(attrs["name_hint"]))
        if key == "Op":
            return Op.get(entry["repr_str"])
        if key in ("IncompleteType", "relay.IncompleteType"):
            return IncompleteType()
        if key in _SCALARS:
            return self.scalar(_SCALARS[key], attrs)
        if key == "DictAttrs":
            return DictAttrs({name: self.value(v) for name, v in attrs.items()})
        if key.startswith("relay.attrs."):
            return Attrs(key, {name: self.value(v) for name, v in attrs.items()})
        raise ValueError(f"a node of the class {key!r} is not known here")

    def map(self, entry: dict[str, Any]) -> dict[Any, Any]:
        items = [self.value(i) for i in entry.get("data", ())]
        if "keys" in entry:
            return dict(zip(entry["keys"], items, strict=True))
        return dict(zip(items[::2], items[1::2], strict=True))

    def scalar(self, cls: type[Node], attrs: dict[str, str]) -> Node:
        """A scalar expression; a field that is plain is its text, others are numbers of nodes."""
        values: dict[str, Any] = {}
        for field in cls.__fields__:
            text = attrs[field.name] if not field.optional else attrs.get(field.name, "0")
            if field.name == "dtype":
                values["dtype"] = DataType(text)
            elif field.plain and field.name != "name":
                values[field.name] = _PLAIN[_annotation(cls, field.name)](text, self)
            else:
                values[field.name] = self.value(int(text))
        return cls(**values) if values else cls()


_UNBOXES: dict[str, Any] = {
    "runtime.BoxBool": lambda text: bool(int(text)),
    "runtime.BoxInt": int,
    "runtime.BoxFloat": float,
}
_PLAIN: dict[str, Any] = {
    "int": lambda text, reader: int(text),
    "float": lambda text, reader: float(text),
    "bool": lambda text, reader: bool(int(text)),
    "str": lambda text, reader: reader.value(int(text)),
}


def _annotation(cls: type, name: str) -> str:
    return next(
        k.__annotations__[name] for k in cls.__mro__ if name in vars(k).get("__annotations__", {})
    )
