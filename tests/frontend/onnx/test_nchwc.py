"""Models as onnxruntime saves them after its layout optimization."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import close, floats, graph, interpreted, node, reference, value

DOMAIN = "com.microsoft.nchwc"
CORNERS = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
DOUBLED = np.float32([1, 1, 2, 2])
MODELS = {
    "image": ([node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], (1, 3, 8, 8), (32, 3, 3, 3)),
    "whole blocks": ([node("Conv", ["x", "w", "b"], ["y"])], (2, 32, 5, 4), (16, 32, 3, 3)),
    "parts of blocks": (
        [node("Conv", ["x", "w", "b"], ["t"]), node("Relu", ["t"], ["y"])],
        (2, 20, 5, 4), (20, 20, 1, 1)),
    "one by one": (
        [node("Conv", ["x", "w"], ["t"], group=20), node("Clip", ["t", "", "high"], ["y"])],
        (2, 20, 5, 4), (20, 1, 3, 3)),
    "groups": ([node("Conv", ["x", "w"], ["y"], group=2)], (1, 32, 5, 4), (64, 16, 3, 3)),
    "sum": (
        [node("Conv", ["x", "w"], ["t"]), node("Conv", ["t", "v"], ["u"]),
         node("Add", ["u", "t"], ["s"]), node("Relu", ["s"], ["y"])],
        (1, 32, 5, 4), (32, 32, 1, 1)),
    "gate": (
        [node("Conv", ["x", "w"], ["t"]), node("Sigmoid", ["t"], ["s"]), node("Mul", ["t", "s"], ["y"])],
        (1, 32, 5, 4), (32, 32, 1, 1)),
    "pools": (
        [node("Conv", ["x", "w"], ["t"]),
         node("MaxPool", ["t"], ["p"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
         node("AveragePool", ["p"], ["q"], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1),
         node("GlobalAveragePool", ["q"], ["a"]), node("GlobalMaxPool", ["q"], ["m"]),
         node("Concat", ["a", "m"], ["y"], axis=1)],
        (1, 3, 8, 8), (32, 3, 3, 3)),
    "larger": (
        [node("Conv", ["x", "w"], ["t"]), node("Resize", ["t", "", "twice"], ["y"], **CORNERS)],
        (1, 3, 4, 5), (32, 3, 3, 3)),
    "repeated": (
        [node("Conv", ["x", "w"], ["t"]), node("Resize", ["t", "", "twice"], ["y"], mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        (1, 3, 4, 5), (32, 3, 3, 3)),
    "channels last": (
        [node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]), node("Conv", ["t", "w"], ["u"]),
         node("Transpose", ["u"], ["y"], perm=[0, 2, 3, 1])],
        (1, 5, 4, 20), (20, 20, 3, 3)),
}  # fmt: skip


@pytest.mark.parametrize("nodes, shape, weight", MODELS.values(), ids=MODELS)
def test_as_saved(nodes, shape, weight, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    weights = {"w": floats(*weight, seed=1), "v": floats(*weight, seed=2), "b": floats(weight[0])}
    weights |= {"high": np.array(1, np.float32), "twice": DOUBLED}
    plain = graph(nodes, [value("x", shape)], [value("y", None)], weights)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "saved.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(plain.SerializeToString(), options, providers=["CPUExecutionProvider"])
    saved = onnx.load(options.optimized_model_filepath)
    if not any(n.domain == DOMAIN for n in saved.graph.node):
        pytest.skip("onnxruntime has no blocked layout on this machine")
    feeds = {"x": floats(*shape)}
    close(interpreted(from_onnx(saved), feeds), reference(plain, feeds), 1e-4)


def stored(weight, block):
    """A weight in blocks, element by element."""
    outs, ins, high, wide = weight.shape
    flat = []
    for o in range(0, outs, block):
        for i in range(0, ins, block):
            for at in np.ndindex(high, wide):
                flat += [weight[o + b, i + a, *at] for a in range(block) for b in range(block)]
    return np.reshape(np.float32(flat), weight.shape)


@pytest.mark.parametrize("block", [8, 16])
def test_the_block_is_the_one_that_the_weights_allow(block):
    """Saved by another machine: 20 channels are 24 or 32 in whole blocks."""
    x, weight, more = floats(1, 20, 3, 4), floats(20, 20, 2, 2, seed=1), -20 % block
    whole = np.pad(weight, [(0, more), (0, more), (0, 0), (0, 0)])
    nodes = [
        node("ReorderInput", ["x"], ["t"], domain=DOMAIN, channels_last=0),
        node("Conv", ["t", "w"], ["u"], domain=DOMAIN, activation="Relu"),
        node("ReorderOutput", ["u"], ["y"], domain=DOMAIN, channels=20, channels_last=0),
    ]
    ports = [value("x", x.shape)], [value("y", None)]
    model = graph(nodes, *ports, {"w": stored(whole, block)}, domains={DOMAIN: 1})
    conv = [node("Conv", ["x", "w"], ["t"]), node("Relu", ["t"], ["y"])]
    expected = reference(graph(conv, *ports, {"w": weight}), {"x": x})
    close(interpreted(from_onnx(model), {"x": x}), expected, 1e-4)


def test_what_has_no_blocks():
    conv = node("Conv", ["x", "w"], ["y"], domain=DOMAIN)
    ports = [value("x", [1, 3, 4, 4])], [value("y", None)]
    odd = graph([conv], *ports, {"w": floats(12, 3, 1, 1)}, domains={DOMAIN: 1})
    with pytest.raises(
        LoopwrightError, match=r"whole blocks of channels\n  got: \(12, 3, 1, 1\) in blocks of 8"
    ):
        from_onnx(odd)
    free = graph([conv], [ports[0][0], value("w", [16, 3, 1, 1])], ports[1], domains={DOMAIN: 1})
    with pytest.raises(LoopwrightError, match="weight of a blocked convolution is a constant"):
        from_onnx(free)
