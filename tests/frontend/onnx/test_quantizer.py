"""What onnxruntime's quantizer makes of small networks: equal to onnxruntime without optimizations."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.expr import Call

from .support import close, floats, graph, interpreted, node, reference, value

oq = pytest.importorskip("onnxruntime.quantization")


def network():
    """Convolutions, a residual, pooling, a fully connected layer."""
    weights = {
        "w0": floats(8, 3, 3, 3, low=-0.5, high=0.5),
        "b0": floats(8),
        "w1": floats(8, 8, 3, 3, low=-0.3, high=0.3, seed=1),
        "b1": floats(8, seed=1),
        "w2": floats(5, 8, seed=2),
        "b2": floats(5, seed=3),
    }
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], "c0", pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c0"], ["r0"], "r0"),
        node("Conv", ["r0", "w1", "b1"], ["c1"], "c1", pads=[1] * 4),
        node("Add", ["c1", "r0"], ["a"], "a"),
        node("MaxPool", ["a"], ["m"], "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", ["m"], ["g"], "g"),
        node("Flatten", ["g"], ["f"], "f"),
        node("Gemm", ["f", "w2", "b2"], ["y"], "y", transB=1),
    ]
    ports = [value("x", ["n", 3, 9, 13])], [value("y", ["n", 5])]
    return graph(nodes, *ports, weights), floats(2, 3, 9, 13)


def block():
    """Matrix products with a bias, a softmax, a layer normalization."""
    weights = {"w0": floats(8, 20, low=-0.5, high=0.5), "b0": floats(20)}
    weights |= {"w1": floats(20, 8, low=-0.5, high=0.5, seed=1), "g": floats(8), "e": floats(8)}
    nodes = [
        node("MatMul", ["x", "w0"], ["m0"], "m0"),
        node("Add", ["m0", "b0"], ["a0"], "a0"),
        node("Softmax", ["a0"], ["s"], "s", axis=-1),
        node("MatMul", ["s", "w1"], ["m1"], "m1"),
        node("Add", ["m1", "x"], ["r"], "r"),
        node("LayerNormalization", ["r", "g", "e"], ["y"], "y", axis=-1),
    ]
    ports = [value("x", ["n", 6, 8])], [value("y", ["n", 6, 8])]
    return graph(nodes, *ports, weights), floats(2, 6, 8)


class Rows(oq.CalibrationDataReader):
    def __init__(self, x):
        self.rest = [x, x * 0.5]

    def get_next(self):
        return {"x": self.rest.pop()} if self.rest else None


# On processors without VNNI onnxruntime's sums of products of uint8 and int8 saturate with more.
SEVEN_BITS = {"reduce_range": True}
STATIC = [
    (form, channels, short)
    for form in (oq.QuantFormat.QDQ, oq.QuantFormat.QOperator)
    for channels in (False, True)
    for short in (oq.QuantType.QUInt8, oq.QuantType.QInt8)
]


def agree(model, x, compiled):
    """Within a step of the output, which is quantized too."""
    (expected,) = reference(model, {"x": x})
    mod = from_onnx(model)
    (got,) = [compile(mod)["main"](x).numpy()] if compiled else interpreted(mod, {"x": x})
    step = np.ptp(expected) / 250
    assert np.abs(got - expected).max() <= 1.01 * step
    assert np.abs(got - expected).mean() <= 0.05 * step


@pytest.mark.sample(3)
@pytest.mark.parametrize("build", [network, block])
@pytest.mark.parametrize("row", STATIC, ids=[f"{f.name}-{c}-{s.name}" for f, c, s in STATIC])
def test_static(row, build, tmp_path):
    form, channels, short = row
    model, x = build()
    onnx.save(model, tmp_path / "in.onnx")
    oq.quantize_static(
        tmp_path / "in.onnx",
        tmp_path / "out.onnx",
        Rows(x),
        quant_format=form,
        per_channel=channels,
        activation_type=short,
        weight_type=oq.QuantType.QInt8,
        **SEVEN_BITS,
    )
    agree(onnx.load(tmp_path / "out.onnx"), x, compiled=channels)


@pytest.mark.sample(2)
@pytest.mark.parametrize("build", [network, block])
@pytest.mark.parametrize("channels", [False, True])
def test_dynamic(channels, build, tmp_path):
    model, x = build()
    onnx.save(model, tmp_path / "in.onnx")
    oq.quantize_dynamic(
        tmp_path / "in.onnx", tmp_path / "out.onnx", per_channel=channels, **SEVEN_BITS
    )
    agree(onnx.load(tmp_path / "out.onnx"), x, compiled=channels)


def test_a_dynamic_range_scale_and_zero_point_are_an_operator_each():
    nodes = [node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"], "q")]
    byte = np.uint8
    outputs = [value("y", [3, 5], byte), value("scale", []), value("zero", [], byte)]
    model = graph(nodes, [value("x", [3, 5])], outputs)
    found = [
        b.value.op.name
        for b in from_onnx(model)["main"].body.blocks[0].bindings
        if isinstance(b.value, Call)
    ]
    steps = ["range", "scale", "zero_point"]
    assert found == [*(f"relax.quantize_{step}" for step in steps), "relax.quantize"]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kind", "rows", "size", "middle"),
    [("int4", 64, 16, False), ("int4", 80, 32, True), ("uint4", 70, 32, True), ("uint4", 48, 16, False),
     ("int8", 64, 16, True), ("uint8", 50, 16, True)],
)  # fmt: skip
def test_weights_in_blocks_stay_of_few_bits(kind, rows, size, middle, tmp_path):
    columns, blocks, rng = 70, -(-rows // size), np.random.default_rng(0)
    low, high = {"int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255)}[kind]

    def drawn(*shape):
        return rng.integers(low, high, shape, endpoint=True).astype(getattr(ml_dtypes, kind, kind))

    weights = {"w": drawn(rows, columns), "s": floats(blocks, columns, low=0.01, high=0.1)}
    weights |= {"z": drawn(blocks, columns)} if middle else {}
    nodes = [
        node("DequantizeLinear", [*weights], ["d"], "d", axis=0, block_size=size),
        node("MatMul", ["x", "d"], ["y"], "m"),
    ]
    ports = [value("x", ["n", 3, rows])], [value("y", ["n", 3, columns])]
    model, feeds = graph(nodes, *ports, weights, opset=21), {"x": floats(2, 3, rows)}
    expected = reference(model, feeds)
    close(interpreted(from_onnx(model), feeds), expected, 1e-4)
    onnx.save(model, tmp_path / "m.onnx")
    exe = compile(tmp_path / "m.onnx", "llvm")
    close([v.numpy() for v in exe.run(feeds).values()], expected, 1e-4)
    size_of_numbers = 128 * 96 * (1 if "8" in kind else 0.5)
    assert (
        sum(c.nbytes for c in exe.program.constants.values()) <= size_of_numbers + 2 * 4 * 128 * 6
    )
