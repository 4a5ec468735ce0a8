"""The last value that an attribute may have, the first one that is refused, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import chain, floats, graph, interpreted, ints, operator, value

MS, ML, TRAINING = "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"
X = floats(2, 3)
node = helper.make_node


def row(text, op_type, *inputs, **options):
    return (text, op_type, inputs, options)


def body(inputs, outputs):
    """A graph whose outputs are its first inputs."""
    ports = [value(f"in{k}", None) for k in range(inputs)]
    nodes = [node("Identity", [f"in{k % inputs}"], [f"out{k}"]) for k in range(outputs)]
    results = [value(f"out{k}", None) for k in range(outputs)]
    return helper.make_graph(nodes, "body", ports, results)


REFUSED = [
    *[row(f"axis is out of range\n  got: {a} for rank 2", "Gather", X, ints(0), axis=a) for a in (-3, 2)],
    *[row("axis is out of range", "GatherElements", X, ints(0).reshape(1, 1), axis=a) for a in (-3, 2)],
    *[row(f"axis is out of range\n  got: {a} for rank 3", "OneHot", ints(1, 2).reshape(1, 2), ints(3), ints(0, 1), fed=1, axis=a) for a in (-4, 3)],
    *[row("axis is out of range", "CumSum", X, np.array(a), fed=1) for a in (-3, 2)],
    *[row("axis is out of range", "ScatterElements", X, ints(0).reshape(1, 1), X[:1, :1], axis=a) for a in (-3, 2)],
    *[row("axis is out of range", "TopK", X, ints(1), fed=1, outputs=2, axis=a) for a in (-3, 2)],
    *[row("axis is out of range", "Flatten", X, axis=a) for a in (-3, 3)],
    *[row("axis", "Tile", X, np.float32(2), np.float32(a), fed=1, opset=5) for a in (-3, 2)],
    row("must be constants of one element before opset 6", "Tile", X, np.float32(2), np.float32(0), opset=5),
    row("repeats must hold a count for each axis", "Tile", X, ints(1), fed=1),
    row("a size may not be negative", "Tile", X, ints(1, -1), fed=1),
    row("attribute mode must be constant, reflect, edge or wrap", "Pad", X, ints(0, 0, 0, 1), fed=1, mode="odd"),
    row("copies a dimension that the input has not", "Reshape", X, ints(1, 2, 0), fed=1),
    row("num_outputs must be the number of outputs\n  got: 3 for 2 outputs", "Split", X, outputs=2, num_outputs=3, opset=18),
    row("softplus needs a tensor of floats\n  got: uint8", "Softplus", np.uint8([1])),
    row("attribute interleaved must be 0 or 1\n  got: 3", "RotaryEmbedding", floats(1, 1, 2, 4), floats(3, 2), floats(3, 2), ints(0, 1).reshape(1, 2), opset=23, interleaved=3),
    row("a scale and no zero point", "QGemm", np.uint8([[1, 2]]), np.float32(0.5), np.uint8(3), np.int8([[1], [2]]), np.float32(0.5), np.int8(0), ints(1).astype(np.int32), np.float32(2), domain=MS),
    row("needs tensors of rank 1 or more", "MatMul", np.float32(2), X),
    row("approximate must be one of none, tanh\n  got: sigmoid", "Gelu", X, opset=20, approximate="sigmoid"),
    row("auto_pad must be one of", "MaxPool", floats(1, 1, 4, 4), kernel_shape=[2, 2], auto_pad="SAME"),
    row("auto_pad must be one of", "ConvTranspose", floats(1, 1, 4, 4), floats(1, 1, 2, 2), auto_pad="SAME"),
    row("attribute direction must be one of forward", "RNN", floats(2, 1, 3), floats(1, 4, 3), floats(1, 4, 4), hidden_size=4, direction="back"),
    row("coordinate_transformation_mode must be one of half_pixel", "RoiAlign", floats(1, 1, 4, 4), floats(1, 4), ints(0), coordinate_transformation_mode="odd"),
    *[row(f"attribute {name} must be one of", "Resize", floats(1, 1, 4, 4), None, np.float32([1, 1, 2, 2]), fed=1, **{name: "odd"})
      for name in ("mode", "coordinate_transformation_mode", "nearest_mode")],
    row("no elements along axis 3", "Resize", floats(1, 1, 4, 4), None, np.float32([1, 1, 2, 0.2]), fed=1),
    *[row("batch_axis and time_axis are 0 and 1", "ReverseSequence", X, ints(1, 1), batch_axis=b, time_axis=t)
      for b, t in ((0, 0), (1, 1), (1, 2))],
    *[row(f"q_num_heads must be a multiple of kv_num_heads\n  got: {q} and {k}", "LinearAttention", *[floats(1, 2, 6)] * 3,
          opset=26, q_num_heads=q, kv_num_heads=k) for q, k in ((3, 2), (0, 1), (1, 0))],
    row("pixel_format must be one of RGB, BGR, Grayscale", "ImageDecoder", np.uint8([1]), opset=20, pixel_format="CMYK"),
    row("num_scan_inputs must be between 1 and the number of inputs", "Scan", X, body=body(1, 1), num_scan_inputs=0),
    row("num_scan_inputs must be between 1 and the number of inputs", "Scan", X, body=body(1, 1), num_scan_inputs=2),
    row("must give 2 carried values\n  got: outputs: 1", "Scan", X, X, X, body=body(3, 1), num_scan_inputs=1),
    row("scan_input_axes must have 1 numbers", "Scan", X, body=body(1, 1), num_scan_inputs=1, scan_input_axes=[0, 0]),
    row("scan_output_directions must have 1 numbers", "Scan", X, body=body(1, 1), num_scan_inputs=1, scan_output_directions=[0, 0]),
    row("heads of Q must be a multiple", "FlexAttention", floats(1, 3, 2, 4), floats(1, 2, 2, 4), floats(1, 2, 2, 4), domain="ai.onnx.preview"),
    row("score_mod has one input and one output\n  got: 2 and 1", "FlexAttention", *[floats(1, 2, 2, 4)] * 3, domain="ai.onnx.preview", score_mod=body(2, 1)),
    row("mode is standard or nesterov", "Momentum", np.float32(0.1), ints(1)[0], X, X, X, domain=TRAINING, outputs=2, alpha=0.9, beta=1.0, mode="odd", norm_coefficient=0.0),
    *[row("an extent must be a multiple of what blocksize takes of it\n  got: 4 for " + got, op, floats(1, 4, 4, 4), blocksize=b)
      for op, b, got in (("SpaceToDepth", 3, "3"), ("SpaceToDepth", 100, "100"), ("DepthToSpace", 3, "9"))],
    row("attribute blocksize must be 1 or more\n  got: 0", "DepthToSpace", floats(1, 4, 4, 4), blocksize=0),
    row('dtype="float32"), group=0\n', "ConvTranspose", floats(1, 4, 4, 4, 4), floats(4, 1, 2, 2, 2), group=0),
    row("that is 0\n  got: inputs R.Tensor((2, 0), ", "Resize", X[:, :0], None, None, ints(2, 3), fed=1),
    *[row("an input is not a tensor\n  got: R.Object", kind, floats(2, 1, 3), floats(1, n, 3), floats(1, n, 4), np.array([["a"] * 2 * n], object), hidden_size=4)
      for kind, n in (("RNN", 4), ("GRU", 12), ("LSTM", 16))],
    row("a number does not fit the type that is computed in\n  got: -1.0 as uint8", "Clip", np.uint8([1]), opset=6, min=-1.0),
    row("a number does not fit the type that is computed in\n  got: nan as int32", "Clip", np.int32([1]), opset=6, max=float("nan")),
    *[row(f"axis is out of range\n  got: {a}\n  instead: use -3 to 2", "Unsqueeze", ints(1, 2).reshape(1, 2), ints(a), fed=0, opset=13) for a in (3, 2**63 - 1)],
    row("an input needs 1 dimensions or more\n  got: the shape ()", "MatMulBnb4", X, np.array(3, np.uint8), floats(1), domain=MS, block_size=16, K=3, N=2, quant_type=1),
    row("attribute block_size must be 1 or more\n  got: 0", "MatMulBnb4", floats(1, 4), np.zeros(8, np.uint8), floats(1), domain=MS, block_size=0, K=4, N=4, quant_type=0),
    *[row("the skipped tensor is larger than the input\n  got: R.Tensor((2, 2, 4)", kind, floats(1, 2, 4), floats(2, 2, 4), floats(4), domain=MS)
      for kind in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")],
    row("it takes 18 inputs: the ids", "QEmbedLayerNormalization", ints(1).astype("int32"), ints(1).astype("int32"), domain=MS),
    row("a number does not fit the type that is computed in\n  got: -10000.0 as uint8", "MultiHeadAttention", *[np.ones((1, 2, 4), np.uint8)] * 3, None, ints(2).astype("int32"), domain=MS, num_heads=2),
    row("of MatMulFpQ4 is a weight of the model, its kind 0 or 1\n  got: kind 2", "MatMulFpQ4", floats(2, 32), np.zeros(40, np.uint8), ints(32, 2), fed=1, domain=MS, blk_quant_type=2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "op_type", "inputs", "options"), REFUSED)
@pytest.mark.no_roundtrip
def test_refused(text, op_type, inputs, options):
    model, _ = operator(op_type, *inputs, **options)
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(model)
    assert text in str(caught.value)


def sparse():
    model = chain(node("Relu", ["x"], ["y"]), shape=[2])
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("p", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    return model


def untyped():
    model = chain(node("Relu", ["x"], ["y"]), shape=[2])
    model.graph.input[0].type.tensor_type.elem_type = 0
    return model


def texts_too_few():
    tensor = helper.make_tensor("t", TensorProto.STRING, [2], ["a", "b"])
    del tensor.string_data[1]
    made = node("Constant", [], ["y"], value=tensor)
    return graph([made], [], [helper.make_tensor_value_info("y", TensorProto.STRING, [2])])


@pytest.mark.parametrize(
    ("model", "options", "text"),
    [
        (sparse(), {}, "sparse initializers are not supported\n  got: w\n"),
        (untyped(), {"dtype_dict": {}}, "the element type of input x is not known"),
        (texts_too_few(), {}, "does not fill its shape\n  got: 1 strings for [2]"),
    ],
)
def test_refused_models(model, options, text):
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(model, **options)
    assert text in str(caught.value)


def test_the_opset_that_a_call_gives():
    """Clip takes its bounds as attributes up to opset 10, as inputs after that."""
    model = chain(node("Clip", ["x"], ["y"], min=0.5), shape=[3], opset=17)
    (found,) = interpreted(from_onnx(model, opset=6), {"x": np.float32([0, 0.5, 2])})
    np.testing.assert_array_equal(found, np.float32([0.5, 0.5, 2]))
    assert model.opset_import[0].version == 17


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


BYTES = np.uint8([[0, 127, 200], [255, 1, 128]])
SHRUNK = np.trunc(np.where(BYTES > 1.5, BYTES - 0.5, 0))
SOFT = np.exp(BYTES / 10.0)
VALUES = [
    *[("Swish", [X], {"opset": 24, "alpha": a}, X * sigmoid(a * X)) for a in (1.0, 2.0, 0.5)],
    ("Swish", [X], {"opset": 24}, X * sigmoid(X)),
    *[("Shrink", [BYTES.astype(t)], {"lambd": 1.5, "bias": 0.5}, SHRUNK.astype(t)) for t in ("uint8", "int64")],
    ("Cast", [X], {"opset": 1, "to": "DOUBLE"}, X.astype(np.float64)),
    ("Cast", [X], {"opset": 1, "to": "INT32"}, X.astype(np.int32)),
    ("Pow", [abs(X), X[0]], {"opset": 1, "broadcast": 1}, abs(X) ** X[0]),
    ("Pow", [abs(X), X[:, 0]], {"opset": 1, "broadcast": 1, "axis": 0}, abs(X) ** X[:, :1]),
    ("Add", [X, np.float32(2)], {"opset": 1, "broadcast": 1}, X + 2),
    ("Concat", [X, X], {"opset": 1}, np.concatenate([X, X], 1)),
    ("BitCast", [np.uint8([0, 1])], {"opset": 26, "to": TensorProto.BOOL}, np.array([False, True])),
    ("BitCast", [np.array([False, True])], {"opset": 26, "to": TensorProto.INT8}, np.int8([0, 1])),
    ("OneHot", [np.float32([0, 2, -1]), ints(3), ints(5, 7)], {"fed": 1}, np.where(np.eye(3)[[0, 2, 2]], 7, 5)),
    ("DequantizeLinear", [BYTES, np.float16(0.5), np.uint8(100)], {"opset": 23}, ((BYTES - 100.0) * 0.5).astype(np.float16)),
    ("QuantizeLinear", [np.int32([1, 3, 5, -100, 600]), np.float32(2), np.uint8(3)], {"opset": 19}, np.uint8([3, 5, 5, 0, 255])),
    ("Cast", [np.float32([1, -500, 1e6])], {"opset": 19, "to": TensorProto.FLOAT8E4M3FN}, np.float32([1, -448, 448])),
    ("DequantizeLinear", [BYTES, np.float32([1, 2, 4]), np.uint8([0, 1, 2])], {}, (BYTES - np.float32([0, 1, 2])) * np.float32([1, 2, 4])),
    ("QuantizeLinear", [np.float32([[1, 2, 9], [-4, 7, 0]]), np.float32([1, 2, 4]), np.uint8([0, 1, 2])], {}, np.uint8([[1, 2, 4], [0, 5, 2]])),
    ("Div", [ints(7, -7, 7, -7, 0), ints(2, 2, -2, -2, -3)], {"fed": 0}, ints(3, -3, -3, 3, 0)),
    ("Mod", [ints(7, -7, 7, -7, 0), ints(2, 2, -2, -2, -3)], {"fed": 0}, ints(1, 1, -1, -1, 0)),
    ("Cast", [np.float32([1, -1e6])], {"to": TensorProto.FLOAT16}, np.float16([1, -np.inf])),
    ("Split", [X], {"outputs": 1, "opset": 13}, X),
    ("OneHotEncoder", [ints(3, 1, 4)], {"domain": ML, "cats_int64s": [1, 3]}, np.float32([[0, 1], [1, 0], [0, 0]])),
    ("Add", [ints(1 << 62), ints(1 << 62)], {"fed": 0}, ints(-(1 << 63))),
    ("Add", [ints(1 << 62), ints((1 << 62) - 1)], {"fed": 0}, ints((1 << 63) - 1)),
    ("Sub", [ints(-(1 << 62)), ints(1 << 62)], {"fed": 0}, ints(-(1 << 63))),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "inputs", "options", "wanted"), VALUES)
def test_values(op_type, inputs, options, wanted):
    model, feeds = operator(op_type, *inputs, **options)
    (found,) = interpreted(from_onnx(model), feeds)
    if options.get("to") == TensorProto.FLOAT8E4M3FN:
        assert found.dtype == "float8_e4m3fn"
        found = found.astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert found.dtype == wanted.dtype


@pytest.mark.parametrize(("length", "shown"), [(60, "a" * 60), (61, "a" * 57 + "...")])
@pytest.mark.no_roundtrip
def test_long_texts_of_attributes_are_cut(length, shown):
    model, _ = operator("Gather", X, ints(0), axis="a" * length)
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(model)
    assert f" {shown}\n" in str(caught.value)
