"""Small ONNX models, and what onnxruntime and the Relax interpreter make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from loopwright.frontend.onnx import from_onnx
from loopwright.ir.module import IRModule
from loopwright.relax.analysis import assert_well_formed
from loopwright.relax.interpreter import Interpreter

Dims = Sequence[Any]
node = helper.make_node
_RNG = np.random.default_rng


def value(name: str, shape: Dims | None, dtype: Any = np.float32) -> Any:
    """A graph input or output."""
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: list[NodeProto],
    inputs: list[Any],
    outputs: list[Any],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    domains: dict[str, int] | None = None,
) -> ModelProto:
    """A model of one graph."""
    initializers = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    made = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(d, v) for d, v in (domains or {}).items()]
    return helper.make_model(made, opset_imports=imports, ir_version=10)


def chain(*nodes: NodeProto, shape: Dims, dtype: Any = np.float32, **options: Any) -> ModelProto:
    """A model from the input x to the last node's first output, of unknown shape."""
    last = nodes[-1].output[0]
    out = helper.make_tensor_value_info(last, TensorProto.UNDEFINED, None)
    out.type.Clear()
    out.type.tensor_type.elem_type = options.pop("out", TensorProto.FLOAT)
    return graph(list(nodes), [value("x", shape, dtype)], [out], **options)


def operator(
    op_type: str,
    *inputs: np.ndarray | None,
    fed: int | None = None,
    symbolic: bool = False,
    opset: int = 17,
    domain: str = "",
    outputs: int = 1,
    **attributes: Any,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node and the feeds of its first `fed` inputs (all); the others are weights.

    symbolic: the dimensions of the inputs that are fed are symbolic, equal numbers equal symbols.
    """
    count = len(inputs) if fed is None else fed
    names = [f"x{k}" if a is not None else "" for k, a in enumerate(inputs)]
    feeds = {n: a for n, a in zip(names[:count], inputs, strict=False) if a is not None}
    weights = {n: a for n, a in zip(names[count:], inputs[count:], strict=True) if a is not None}
    node = helper.make_node(
        op_type, names, [f"y{k}" for k in range(outputs)], "node", domain=domain, **attributes
    )
    ports = [value(n, _dims(a.shape, symbolic), a.dtype) for n, a in feeds.items()]
    results = [helper.make_empty_tensor_value_info(n) for n in node.output]
    domains = {domain: 1} if domain else None
    return graph([node], ports, results, weights, opset, domains), feeds


def _dims(shape: tuple[int, ...], symbolic: bool) -> list[Any]:
    return [f"d{n}" if symbolic and n != 1 else n for n in shape]


def reference(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """onnxruntime's outputs, its graph optimizations off; without it the test is skipped."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def interpreted(mod: IRModule, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a module in the Relax interpreter."""
    names = mod.attrs["input_names"]
    result = Interpreter(mod)["main"](*[feeds[n] for n in names])
    return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]


def check(model: ModelProto, feeds: dict[str, np.ndarray], tolerance: float = 1e-5) -> IRModule:
    """Import a model, run it, and compare with onnxruntime. Returns the module."""
    mod = from_onnx(model)
    assert_well_formed(mod)
    expected = reference(model, feeds)
    close(interpreted(mod, feeds), expected, tolerance)
    return mod


def close(got: list[np.ndarray], expected: list[np.ndarray], tolerance: float = 1e-5) -> None:
    """Same count, shapes, dtypes and, within a tolerance, values."""
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def floats(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Random float32 numbers."""
    return _RNG(seed).uniform(low, high, shape).astype(np.float32)


def integers(*shape: int, low: int = -5, high: int = 6, dtype: Any = np.int64) -> np.ndarray:
    """Random integers in [low, high)."""
    return _RNG(1).integers(low, high, shape).astype(dtype)


def bools(*shape: int) -> np.ndarray:
    """Random truth values."""
    return _RNG(2).uniform(size=shape) < 0.5


def ints(*values: int) -> np.ndarray:
    """A vector of int64."""
    return np.asarray(values, np.int64)
