"""TFLite models written on the spot, and the interpreter beside which they are run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import flatbuffers
import numpy as np
import tflite

KINDS = {
    name: getattr(tflite.TensorType, theirs)
    for name, theirs in (
        ("float32", "FLOAT32"), ("float16", "FLOAT16"), ("int32", "INT32"), ("uint8", "UINT8"),
        ("int64", "INT64"), ("bool", "BOOL"), ("int16", "INT16"), ("int8", "INT8"),
    )
}  # fmt: skip


@dataclass
class Tensor:
    """A tensor of a graph being written."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    data: np.ndarray | None = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    signature: tuple[int, ...] | None = None
    variable: bool = False
    name: str = ""
    sparsity: Any = None


@dataclass
class Graph:
    """A graph being written: its tensors by number, and its operators."""

    tensors: list[Tensor] = field(default_factory=list)
    operators: list[Any] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def tensor(self, shape: Any, dtype: str = "float32", **more: Any) -> int:
        self.tensors.append(Tensor(tuple(shape), dtype, **more))
        return len(self.tensors) - 1

    def input(self, shape: Any, dtype: str = "float32", **more: Any) -> int:
        number = self.tensor(shape, dtype, **more)
        self.tensors[number].name = self.tensors[number].name or f"x{len(self.inputs)}"
        self.inputs.append(number)
        return number

    def constant(self, array: Any, **more: Any) -> int:
        array = np.array(array, order="C")
        return self.tensor(array.shape, array.dtype.name, data=array, **more)

    def op(
        self,
        kind: str,
        inputs: Any,
        outputs: Any,
        options: str = "",
        custom: Any = None,
        **values: Any,
    ) -> int:
        """An operator; `options` is the name of their table, without "Options". outputs: tensors by
        number, or a shape and more of the only one."""
        if not isinstance(outputs, list):
            outputs = [self.tensor(**outputs) if isinstance(outputs, dict) else outputs]
        self.operators.append((kind, list(inputs), outputs, options, values, custom))
        return outputs[0]


def model(*graphs: Graph) -> bytes:
    """The file of some graphs."""
    return _Writer().model(graphs)


_VERSIONS = {"BROADCAST_TO": 2}


class _Writer:
    def __init__(self) -> None:
        self.b = flatbuffers.Builder(1024)
        self.codes: dict[str, int] = {}
        self.buffers: list[bytes] = [b""]

    def table(self, kind: str, **values: Any) -> int:
        """A table of the schema; vectors and strings become offsets first."""
        made = {name: self.value(v) for name, v in values.items() if v is not None}
        getattr(tflite, f"{kind}Start")(self.b)
        for name, value in made.items():
            getattr(tflite, f"{kind}Add{name}")(self.b, value)
        return getattr(tflite, f"{kind}End")(self.b)

    def value(self, v: Any) -> Any:
        if isinstance(v, str):
            return self.b.CreateString(v)
        if isinstance(v, bytes):
            return self.b.CreateByteVector(v)
        if isinstance(v, np.ndarray):
            return self.b.CreateNumpyVector(v)
        if isinstance(v, _Offsets):
            self.b.StartVector(4, len(v.items), 4)
            for item in reversed(v.items):
                self.b.PrependUOffsetTRelative(item)
            return self.b.EndVector()
        if isinstance(v, (list, tuple)):
            return self.b.CreateNumpyVector(np.asarray(v, np.int32))
        return v

    def model(self, graphs: Any) -> bytes:
        written = _Offsets([self.graph(g) for g in graphs])
        codes = _Offsets([self.code(c) for c in self.codes])
        buffers = _Offsets([self.table("Buffer", Data=b or None) for b in self.buffers])
        root = self.table(
            "Model", Version=3, OperatorCodes=codes, Subgraphs=written, Description="test",
            Buffers=buffers,
        )  # fmt: skip
        self.b.Finish(root, b"TFL3")
        return bytes(self.b.Output())

    def code(self, name: str) -> int:
        number = getattr(tflite.BuiltinOperator, name, None)
        custom = name if number is None else None
        number = tflite.BuiltinOperator.CUSTOM if number is None else number
        return self.table(
            "OperatorCode", DeprecatedBuiltinCode=min(number, 127), BuiltinCode=number, Version=_VERSIONS.get(name, 1),
            CustomCode=custom,
        )  # fmt: skip

    def graph(self, graph: Graph) -> int:
        tensors = _Offsets([self.tensor(t) for t in graph.tensors])
        operators = _Offsets([self.operator(*o) for o in graph.operators])
        return self.table(
            "SubGraph", Tensors=tensors, Inputs=graph.inputs, Outputs=graph.outputs,
            Operators=operators,
        )  # fmt: skip

    def tensor(self, t: Tensor) -> int:
        number, quantization = 0, None
        if t.data is not None:
            number = len(self.buffers)
            self.buffers.append(t.data.tobytes())
        if t.scale is not None:
            scale = np.asarray(t.scale, np.float32).reshape(-1)
            zero = np.broadcast_to(np.asarray(t.zero, np.int64), scale.shape)
            quantization = self.table(
                "QuantizationParameters", Scale=scale, ZeroPoint=zero, QuantizedDimension=t.axis
            )
        return self.table(
            "Tensor", Shape=t.shape, Type=KINDS[t.dtype], Buffer=number, Name=t.name,
            Quantization=quantization, IsVariable=t.variable, ShapeSignature=t.signature,
            Sparsity=None if t.sparsity is None else t.sparsity(self),
        )  # fmt: skip

    def operator(
        self, kind: str, inputs: Any, outputs: Any, options: str, values: Any, custom: Any
    ) -> int:
        index = self.codes.setdefault(kind, len(self.codes))
        more: dict[str, Any] = {}
        if options:
            name = f"{options}Options"
            suffix = "" if hasattr(tflite.BuiltinOptions, name) else "2"
            union = getattr(tflite, f"BuiltinOptions{suffix}")
            more[f"BuiltinOptions{suffix}Type"] = getattr(union, name)
            more[f"BuiltinOptions{suffix}"] = self.table(name, **values)
        return self.table(
            "Operator", OpcodeIndex=index, Inputs=inputs, Outputs=outputs, CustomOptions=custom,
            **more,
        )  # fmt: skip


@dataclass
class _Offsets:
    items: list[int]


def interpreted(data: bytes, feeds: list[np.ndarray], reference: bool = False) -> list[np.ndarray]:
    """The outputs by TFLite's interpreter: its default kernels or, for the arithmetic of integers, its
    reference kernels."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kernels = OpResolverType.BUILTIN_REF if reference else kernels
    run = Interpreter(model_content=data, experimental_op_resolver_type=kernels)
    for detail, feed in zip(run.get_input_details(), feeds, strict=True):
        run.resize_tensor_input(detail["index"], feed.shape)
    run.allocate_tensors()
    for detail, feed in zip(run.get_input_details(), feeds, strict=True):
        run.set_tensor(detail["index"], feed)
    run.invoke()
    return [run.get_tensor(d["index"]) for d in run.get_output_details()]
