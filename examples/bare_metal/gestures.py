"""A model of gestures, from 64 samples of an accelerometer's three axes, in float32 and in int8.

Filters are drawn; the last product is fitted (ridge regression) to gestures of `motion`. In int8, every
tensor has the scale of the largest number that it takes in 40 motions, and weights one for each channel.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

import loopwright as lw

GESTURES = ("still", "shake", "circle", "tap")
TEXT = """<ir_version: 8, opset_import: ["": 17]>
gesture (float[1, 3, 1, 64] x) => (float[1, 4] y) {
  a = Conv <strides = [1, 2], pads = [0, 2, 0, 2]> (x, w0)
  b = Relu (a)
  c = Conv <group = 16, pads = [0, 2, 0, 2]> (b, w1)
  d = Relu (c)
  e = Conv (d, w2)
  f = Relu (e)
  g = GlobalAveragePool (f)
  h = Flatten (g)
  i = Gemm <transB = 1> (h, w3)
  y = Softmax (i)
}"""
FILTERS = {"w0": (16, 3, 1, 5), "w1": (16, 1, 1, 5), "w2": (32, 16, 1, 1)}
ROUNDED = "xbdfgiy"  # the tensors that are int8


def motion(gesture: int, rng: np.random.Generator) -> np.ndarray:
    """The accelerations of a gesture, in g: (1, 3, 1, 64)."""
    at = np.arange(64)
    t, none = at / 64 * 2 * np.pi * rng.uniform(2, 4) + rng.uniform(0, 6), np.zeros(64)
    axes = [
        (none, none, none),
        (np.sign(np.sin(2 * t)), none, none),
        (np.sin(t), np.cos(t), none),
        (none, none, 3 * np.exp(-((at - rng.uniform(15, 50)) ** 2) / 8)),
    ][gesture]
    moved = rng.uniform(0.6, 1.4) * np.stack(axes) + rng.normal(0, 0.05, (3, 64))
    moved[2] += 1  # gravity
    return moved.astype("float32").reshape(1, 3, 1, 64)


def motions(count: int, seed: int) -> list[tuple[int, np.ndarray]]:
    """(gesture, accelerations), `count` of each."""
    rng = np.random.default_rng(seed)
    return [
        (k % len(GESTURES), motion(k % len(GESTURES), rng)) for k in range(count * len(GESTURES))
    ]


def fitted() -> onnx.ModelProto:
    """The model in float32."""
    rng = np.random.default_rng(1)
    weights = {
        name: rng.normal(0, 1.5 / np.sqrt(np.prod(shape[1:])), shape).astype("float32")
        for name, shape in FILTERS.items()
    }
    examples = motions(40, seed=2)
    features = lw.compile(_model(weights | {"w3": np.zeros((4, 32), "float32")}, "h"))["main"]
    seen = np.concatenate([features(x).numpy() for _, x in examples])
    right = 8 * np.eye(4)[[gesture for gesture, _ in examples]] - 4
    solved = np.linalg.solve(seen.T @ seen + 1e-3 * np.eye(32), seen.T @ right)
    return _model(weights | {"w3": np.ascontiguousarray(solved.T).astype("float32")}, "y")


def quantized(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in int8, its input and output, too."""
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    inner = lw.compile(_model(weights, *ROUNDED[1:]))["main"]
    runs = [[x, *(t.numpy() for t in inner(x))] for _, x in motions(10, seed=3)]
    most = [max(float(np.abs(run[k]).max()) for run in runs) for k in range(len(ROUNDED))]
    stored, nodes = {}, []
    for name, weight in weights.items():
        scale = np.abs(weight).reshape(len(weight), -1).max(1) / 127
        stored[f"{name}_scale"] = scale.astype("float32")
        whole = np.rint(weight / scale.reshape(-1, *[1] * (weight.ndim - 1)))
        stored[f"{name}_q"] = whole.astype("int8")
        nodes.append(_node("DequantizeLinear", [f"{name}_q", f"{name}_scale"], name, axis=0))
    for name, limit in zip(ROUNDED, most, strict=True):
        stored |= {f"{name}_scale": np.float32(limit / 127), f"{name}_zero": np.int8(0)}
    for name, node in [("x", None), *((n.output[0], n) for n in model.graph.node)]:
        if node is not None:
            inputs = [f"{i}_real" if i in ROUNDED else i for i in node.input]
            nodes.append(helper.make_node(node.op_type, inputs, node.output))
            nodes[-1].attribute.extend(node.attribute)
        parts = [f"{name}_scale", f"{name}_zero"]
        if name in ROUNDED and name != "x":
            nodes.append(_node("QuantizeLinear", [name, *parts], f"{name}_q"))
        if name in ROUNDED and name != "y":
            byte = "x" if name == "x" else f"{name}_q"
            nodes.append(_node("DequantizeLinear", [byte, *parts], f"{name}_real"))
    ports = [("x", (1, 3, 1, 64)), ("y_q", (1, 4))]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.INT8, s) for n, s in ports)
    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in stored.items()]
    graph = helper.make_graph(nodes, "gesture", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)


def _node(op: str, inputs: list[str], output: str, **attributes: int) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], **attributes)


def _model(weights: dict[str, np.ndarray], *outputs: str) -> onnx.ModelProto:
    """The model of `TEXT` with weights, and other outputs."""
    model = onnx.parser.parse_model(TEXT)
    model.graph.initializer.extend(numpy_helper.from_array(w, n) for n, w in weights.items())
    if outputs != ("y",):
        del model.graph.output[:]
        model.graph.output.extend(helper.make_tensor_value_info(n, 1, None) for n in outputs)
    return model


def scale_of(model: onnx.ModelProto, name: str) -> float:
    """The scale of a tensor of the quantized model."""
    stored = next(t for t in model.graph.initializer if t.name == f"{name}_scale")
    return float(numpy_helper.to_array(stored))
