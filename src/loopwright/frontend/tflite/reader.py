"""TFLite files as plain Python: reads and checks a flatbuffer's contents.

Nothing of the packages `tflite` (the schema) and `flatbuffers` is seen outside this file, except the
options of an operator, which `Operator.option` reads. A flatbuffer's offsets are followed by Python
code and its vectors are views made by numpy, both of which refuse to leave the file; left to
this file is that nothing is read more often than a file of its size can hold.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...base.names import free_name
from ...ir.dtype import numpy_dtype
from ..graph.model import Model as Graph
from ..graph.model import Node, Port
from .sparse import Level, Sparsity

DOMAIN = "tflite"
_IDENTIFIER = b"TFL3"
_BROKEN = (struct.error, ValueError, TypeError, LookupError, OverflowError, AttributeError)
_MISSING = object()


@dataclass(frozen=True)
class Quantization:
    """q represents (q - zero) * scale: one of each, or one for each index of `axis`."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def one_scale(self) -> float:
        """The only scale, as a double. Raises ValueError for a tensor with several."""
        return float(self._one(self.scale, "scale"))

    @property
    def one_zero(self) -> int:
        """The only zero point. Raises ValueError for a tensor with several."""
        return int(self._one(self.zero, "zero point"))

    def _one(self, values: np.ndarray, what: str) -> Any:
        if values.size != 1:
            raise ValueError(explain(f"a tensor must have one {what} here", got=values.size))
        return values[0]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a graph. dims: -1 where known only at run time. data: its bytes, for a constant."""

    name: str
    dtype: str
    dims: tuple[int, ...]
    quantization: Quantization | None
    data: np.ndarray | None
    is_variable: bool
    sparsity: Sparsity | None = None

    @property
    def is_quantized(self) -> bool:
        """Whether its integers represent real numbers."""
        return self.quantization is not None and self.dtype in ("int8", "uint8", "int16", "int4")

    def array(self) -> np.ndarray:
        """The elements of a constant or of a variable, which is zero at first; int4 as int8.
        Raises LoopwrightError where its bytes do not fill its shape."""
        kind, count = numpy_dtype(self.dtype), prod(self.dims)
        if min(self.dims, default=0) < 0:
            raise _misfit(self, 0 if self.data is None else self.data.size)
        if self.data is None:
            return np.broadcast_to(np.zeros((), kind), self.dims)
        if self.dtype == "int4":
            if self.data.size != (count + 1) // 2:
                raise _misfit(self, self.data.size)
            halves = np.stack([self.data << 4, self.data & 0xF0], -1).view(np.int8) >> 4
            return halves.reshape(-1)[:count].reshape(self.dims)
        if self.sparsity is not None and self.data.size % kind.itemsize == 0:
            return self.sparsity.dense(self.data.view(kind), self.dims)
        if self.data.size != count * kind.itemsize:
            raise _misfit(self, self.data.size)
        return self.data.view(kind).reshape(self.dims)


def _misfit(tensor: Tensor, size: int) -> LoopwrightError:
    got = f"{size} bytes for {list(tensor.dims)} of {tensor.dtype}"
    return LoopwrightError(
        explain(f"tensor {tensor.name}: its data does not fill its shape", got=got)
    )


@dataclass(eq=False)
class Operator(Node):
    """An operator of a graph; `input_tensors`, None for an input left out, and `output_tensors`."""

    dialect: ClassVar[str] = DOMAIN
    input_tensors: list[Tensor | None] = field(default_factory=list)
    output_tensors: list[Tensor] = field(default_factory=list)
    options: Any = None
    custom: bytes = b""

    def operand(self, index: int) -> Tensor:
        """An input that is not left out."""
        tensor = self.input_tensors[index]
        assert tensor is not None
        return tensor

    def option(self, name: str, default: object = _MISSING) -> Any:
        """An option by its name in the schema in camel case; `default` for an operator of a file
        without it. Raises ValueError if it is missing."""
        getter = getattr(self.options, name, None)
        if getter is not None:
            return getter()
        if default is _MISSING:
            raise ValueError(explain(f"the options of the operator are missing: {name}"))
        return default

    def numbers(self, name: str) -> list[int]:
        """An option that is a vector of integers."""
        return _integers(self.options, name) if self.options is not None else []


class TFLiteModel(Graph):
    """A graph of a file in the form of the importer; its constants are Tensors."""

    def initializer_dtype(self, name: str) -> str:
        return self.initializers[name].dtype

    def initializer(self, name: str) -> np.ndarray:
        try:
            return self.initializers[name].array()
        except _BROKEN as error:
            raise LoopwrightError(f"tensor {name}: {error}") from error


# ---------------------------------------------------------------- files


def load(model: object) -> memoryview:
    """The bytes of a path or of bytes. Raises FileNotFoundError for a path without a file, TypeError
    for another kind of object, LoopwrightError for bytes that are not a TFLite model."""
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if not path.is_file():
            what = "the TFLite file does not exist"
            raise FileNotFoundError(explain(what, got=path, instead=f"looked from {Path.cwd()}"))
        data, name = memoryview(path.read_bytes()), str(path)
    elif isinstance(model, (bytes, bytearray, memoryview)):
        data, name = memoryview(model).cast("B"), "these bytes"
    else:
        raise TypeError(explain("a TFLite model is a path or bytes", got=type(model).__name__))
    if len(data) < 8 or data[4:8] != _IDENTIFIER:
        raise LoopwrightError(
            explain(
                f"{name}: no TFLite model, or only a part of one",
                got=f"{len(data)} bytes, without the mark {_IDENTIFIER.decode()} of the format",
                instead="export or fetch the file again",
            )
        )
    return data


@cache
def schema() -> Any:
    """The package with the schema. Raises LoopwrightError if it is not installed."""
    try:
        import tflite
    except ImportError as error:
        what = "reading TFLite models needs the package tflite"
        hint = "pip install 'loopwright[tflite]'"
        raise LoopwrightError(explain(what, instead=hint)) from error
    return tflite


@cache
def names_of(enum: str) -> dict[int, str]:
    """{number: name} of an enumeration of the schema."""
    members = vars(getattr(schema(), enum)).items()
    return {number: name for name, number in members if isinstance(number, int)}


def read(data: memoryview) -> list[TFLiteModel]:
    """The graphs of a file; the first one is the model. Raises LoopwrightError for a broken file."""
    try:
        return _Reader(data).graphs()
    except _BROKEN as error:
        what = "no TFLite model, or only a part of one"
        got = f"{len(data)} bytes that are not a whole flatbuffer: {error}"
        hint = "export or fetch the file again"
        raise LoopwrightError(explain(what, got=got, instead=hint)) from error


def stated_shapes(model: object) -> list[tuple[int, ...]]:
    """The shape that a file states of each input, also where its signature leaves sizes open: that of
    the run it was converted with, or 1 for a size without a number."""
    reader = _Reader(load(model))
    graph = reader.model.Subgraphs(0)
    numbers = (k for k in reader.integers(graph, "Inputs") if k >= 0)
    return [tuple(reader.integers(graph.Tensors(k), "Shape")) for k in numbers]


def _integers(table: Any, name: str) -> list[int]:
    """A vector of integers; [] where it is missing."""
    return [int(v) for v in _array(table, name)]


def _array(table: object, name: str) -> np.ndarray:
    """A vector of numbers, a view of the file."""
    array = getattr(table, f"{name}AsNumpy")()
    return array if isinstance(array, np.ndarray) else np.zeros(0, np.int64)


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.left = 2 * len(data) + 1024
        self.model = schema().Model.GetRootAs(data, 0)

    def spend(self, count: int) -> int:
        """Count the bytes read: each byte of a file is read about once."""
        self.left -= count
        if count < 0 or self.left < 0:
            raise ValueError(explain("its tables hold more than its bytes can"))
        return count

    def vector(self, table: object, name: str) -> Iterator[Any]:
        """The tables of a vector."""
        count = self.spend(getattr(table, f"{name}Length")())
        return (getattr(table, name)(k) for k in range(count))

    def integers(self, table: object, name: str) -> list[int]:
        """A short vector of integers."""
        self.spend(4 * getattr(table, f"{name}Length")())
        return _integers(table, name)

    def text(self, value: bytes | None) -> str:
        self.spend(len(value or b""))
        return (value or b"").decode("utf-8", "backslashreplace")

    def graphs(self) -> list[TFLiteModel]:
        version = self.model.Version()
        if version != 3:
            raise ValueError(explain(f"version {version} of the format, which is 3"))
        codes = [self.code(c) for c in self.vector(self.model, "OperatorCodes")]
        self.buffers = [self.buffer(b) for b in self.vector(self.model, "Buffers")]
        graphs = [self.graph(g, codes) for g in self.vector(self.model, "Subgraphs")]
        if not graphs:
            raise ValueError(explain("it has no graph"))
        return graphs

    def code(self, code: Any) -> str:
        """The name of an operator; a custom one's own."""
        at = code._tab.Offset(10)  # `BuiltinCode()` passes over numbers below 127
        whole = int.from_bytes(code._tab.Bytes[code._tab.Pos + at :][:4], "little") if at else 0
        number = max(code.DeprecatedBuiltinCode(), whole)
        name = names_of("BuiltinOperator").get(number, f"BUILTIN_{number}")
        return self.text(code.CustomCode()) if name == "CUSTOM" else name

    def buffer(self, buffer: Any) -> np.ndarray:
        """The bytes of a buffer, in the flatbuffer or behind it."""
        if buffer.Offset() > 1:
            start, size = buffer.Offset(), buffer.Size()
            if start + size > len(self.data):
                raise ValueError(explain(f"a buffer of {size} bytes at {start}"))
            return np.frombuffer(self.data[start : start + size], np.uint8)
        return _array(buffer, "Data").view(np.uint8)

    def graph(self, graph: Any, codes: list[str]) -> TFLiteModel:
        used: set[str] = set()
        tensors = [self.tensor(t, k, used) for k, t in enumerate(self.vector(graph, "Tensors"))]
        vector = self.vector(graph, "Operators")
        operators: list[Node] = [self.operator(o, codes, tensors) for o in vector]
        results = {name for node in operators for name in node.outputs}
        inputs = [self.pick(tensors, k) for k in self.integers(graph, "Inputs")]
        outputs = [self.pick(tensors, k) for k in self.integers(graph, "Outputs")]
        defined = {t.name for t in inputs if t is not None} | results
        constants = {
            t.name: t
            for t in tensors
            if t.name not in defined and (t.data is not None or t.is_variable or 0 in t.dims)
        }
        return TFLiteModel(
            operators,
            [Port(t.name, t.dtype, _dims(t)) for t in inputs if t is not None],
            [Port(t.name, t.dtype, None) for t in outputs if t is not None],
            constants,
        )

    def pick(self, tensors: list[Tensor], index: int) -> Tensor | None:
        if index == -1:
            return None
        if not 0 <= index < len(tensors):
            raise ValueError(explain(f"tensor {index} of {len(tensors)}"))
        return tensors[index]

    def tensor(self, tensor: Any, index: int, used: set[str]) -> Tensor:
        name = free_name(self.text(tensor.Name()) or f"tensor{index}", used)
        used.add(name)
        kind = tensor.Type()
        dims = self.integers(tensor, "Shape")
        signature = self.integers(tensor, "ShapeSignature")
        number = tensor.Buffer()
        if number >= len(self.buffers) and number > 0:
            raise ValueError(explain(f"buffer {number} of {len(self.buffers)}"))
        data = self.buffers[number] if number < len(self.buffers) else np.zeros(0, np.uint8)
        return Tensor(
            name,
            names_of("TensorType").get(kind, f"type {kind}").lower(),  # two int4 share a byte
            tuple(signature if len(signature) == len(dims) and not data.size else dims),
            self.quantization(tensor.Quantization()),
            data if data.size else None,
            bool(tensor.IsVariable()),
            self.sparsity(tensor.Sparsity()),
        )

    def sparsity(self, table: Any) -> Sparsity | None:
        if table is None:
            return None
        order, blocks = (self.integers(table, name) for name in ("TraversalOrder", "BlockMap"))
        return Sparsity(order, blocks, [self.level(m) for m in self.vector(table, "DimMetadata")])

    def level(self, level: Any) -> Level:
        if level.Format() == schema().DimensionType.DENSE:
            return Level(level.DenseSize())
        parts = []
        for name in ("ArraySegments", "ArrayIndices"):
            kind = names_of("SparseIndexVector")[getattr(level, f"{name}Type")()]
            vector = getattr(schema(), kind)()
            table = getattr(level, name)()
            vector.Init(table.Bytes, table.Pos)
            parts.append(_array(vector, "Values"))
            self.spend(parts[-1].nbytes)
        return Level(0, *parts)

    def quantization(self, q: Any) -> Quantization | None:
        if q is None or not q.ScaleLength():
            return None
        self.spend(q.ScaleLength() + q.ZeroPointLength())
        scale, zero = _array(q, "Scale"), _array(q, "ZeroPoint")
        if not np.all(np.isfinite(scale) & (scale > 0)):
            return None
        zero = zero if zero.size else np.zeros(1, np.int64)
        zero = np.broadcast_to(zero, scale.shape) if zero.size == 1 else zero
        if zero.size != scale.size:
            raise ValueError(explain(f"{zero.size} zero points for {scale.size} scales"))
        return Quantization(scale, zero, q.QuantizedDimension())

    def operator(self, op: Any, codes: list[str], tensors: list[Tensor]) -> Operator:
        number = op.OpcodeIndex()
        if number >= len(codes):
            raise ValueError(explain(f"operator code {number} of {len(codes)}"))
        inputs = [self.pick(tensors, k) for k in self.integers(op, "Inputs")]
        outputs = [self.pick(tensors, k) for k in self.integers(op, "Outputs")]
        return Operator(
            codes[number],
            DOMAIN,
            "",
            ["" if t is None else t.name for t in inputs],
            ["" if t is None else t.name for t in outputs],
            {},
            input_tensors=inputs,
            output_tensors=[t for t in outputs if t is not None],
            options=self.options(op),
            custom=_array(op, "CustomOptions").tobytes() if op.CustomOptionsLength() else b"",
        )

    def options(self, op: object) -> Any:
        """The table of an operator's options, or None."""
        for suffix in ("", "2"):
            kind = getattr(op, f"BuiltinOptions{suffix}Type", lambda: 0)()
            table = getattr(op, f"BuiltinOptions{suffix}", lambda: None)() if kind else None
            instance = getattr(schema(), names_of(f"BuiltinOptions{suffix}").get(kind, ""), None)
            if table is not None and instance is not None:
                options = instance()
                options.Init(table.Bytes, table.Pos)
                return options
        return None


def _dims(tensor: Tensor) -> list[int | str | None]:
    return [None if d < 0 else d for d in tensor.dims]
