"""What the standard says of an output that is not the file's: nothing, where it is drawn; the exact
number, where the file's own is rounded more than ours; what onnxruntime and torch compute, where we do on
purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

_DRAWN = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"}
_DRAWN |= {"RandomUniformLike"}
_NARROW = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16}
_DOUBLE = onnx.TensorProto.DOUBLE


def verdict(
    model: Any, inputs: list[Any], expected: list[Any], outputs: list[Any], case: Any
) -> str:
    """What outputs are that differ from the expected ones: "drawn", "deliberate", "nearer" or "wrong"."""
    pairs = list(zip(expected, outputs, strict=True))
    if not all(isinstance(v, np.ndarray) for pair in pairs for v in pair):
        return "wrong"
    if any(a.dtype != b.dtype or a.shape != b.shape for a, b in pairs):
        return "wrong"
    if any(node.op_type in _DRAWN for node in model.graph.node):
        return "drawn"
    if [node.op_type for node in model.graph.node] == ["Resize"]:
        ours, theirs = outputs[0], _resized_to(model, inputs, outputs[0].shape)
        if np.allclose(ours, theirs, case.rtol, case.atol):
            return "deliberate"
    try:
        exact = _exact(model, inputs)
    except Exception:  # onnx's reference has not all types of all operators
        return "wrong"
    nearer = all(_is_nearer(*pair, true, case) for pair, true in zip(pairs, exact, strict=True))
    return "nearer" if nearer else "wrong"


def _resized_to(model: Any, inputs: list[Any], shape: tuple[int, ...]) -> Any:
    """A Resize by scales as one to the sizes that it gives. With align_corners the reference places elements by
    the extent before it is rounded down to one of these, onnxruntime, torch and we after."""
    by_size = onnx.ModelProto()
    by_size.CopyFrom(model)
    (node,) = by_size.graph.node
    node.input[:] = [node.input[0], "", "", "sizes"]
    by_size.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape), "sizes"))
    feeds = {model.graph.input[0].name: inputs[0]}
    return ReferenceEvaluator(by_size).run(None, feeds)[0]  # type: ignore[index]


def _is_nearer(expected: np.ndarray, output: np.ndarray, exact: Any, case: Any) -> bool:
    """Whether each element that is off is nearer to the exact one than what the file has."""
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, output))
    wide, ours = expected.astype(np.float64), output.astype(np.float64)
    off = ~np.isclose(ours, wide, case.rtol, case.atol, equal_nan=True)
    return bool((np.abs(ours - exact) < np.abs(wide - exact))[off].all())


def _exact(model: Any, inputs: list[Any]) -> list[Any]:
    """The outputs with every float32 and float16 a float64."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    for kind in _kinds(wide):
        if kind.elem_type in _NARROW:
            kind.elem_type = _DOUBLE
    for graph in _graphs(wide.graph):
        for tensor in graph.initializer:
            tensor.CopyFrom(_widened(tensor))
        for attribute in (a for node in graph.node for a in node.attribute):
            if attribute.name == "to" and attribute.i in _NARROW:
                attribute.i = _DOUBLE
            if attribute.HasField("t"):
                attribute.t.CopyFrom(_widened(attribute.t))
    names = [port.name for port in model.graph.input]
    feeds = {n: _double(v) for n, v in zip(names, inputs, strict=True)}
    return ReferenceEvaluator(wide).run(None, feeds)  # type: ignore[return-value]


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for attribute in (a for node in graph.node for a in node.attribute if a.HasField("g")):
        yield from _graphs(attribute.g)


def _kinds(model: Any) -> Iterator[Any]:
    for graph in _graphs(model.graph):
        for port in (*graph.input, *graph.output, *graph.value_info):
            yield port.type.tensor_type


def _widened(tensor: Any) -> Any:
    return onnx.numpy_helper.from_array(_double(onnx.numpy_helper.to_array(tensor)), tensor.name)


def _double(value: Any) -> Any:
    narrow = value is not None and value.dtype in (np.float32, np.float16)
    return value.astype(np.float64) if narrow else value
