"""What files become: inputs, symbols, layouts, control flow, custom operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

import tflite

import loopwright as lw
from loopwright import relay
from loopwright.base.errors import LoopwrightError
from loopwright.driver.sizes import resolved
from loopwright.frontend.graph.registry import CONVERTERS
from loopwright.frontend.onnx import register_converter
from loopwright.frontend.tflite import from_tflite
from tools.make_tflite import PAGE, page

from .cases import convolved, lstm_steps, real
from .support import Graph, interpreted, model
from .test_operators import compare, run

F = np.float32
CONV = {"Padding": 0, "StrideH": 1, "StrideW": 1}


def test_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tools.make_tflite"


def two_convolutions(
    rng: np.random.Generator, signature: Any = None
) -> tuple[bytes, list[np.ndarray]]:
    g = Graph()
    x = g.input((1, 8, 8, 3), signature=signature, name="serving_default_image:0")
    weights = [real(rng, 6, 3, 3, 3), real(rng, 4, 1, 1, 6)]
    pads = g.constant(np.array([[0, 0], [1, 0], [0, 1], [0, 0]], np.int32))
    y = g.op("CONV_2D", [x, g.constant(weights[0]), g.constant(np.zeros(6, F))],
             {"shape": (1, 8, 8, 6)}, "Conv2D", FusedActivationFunction=1, **CONV)  # fmt: skip
    y = g.op("PAD", [y, pads], {"shape": (1, 9, 9, 6)})
    y = g.op("ADD", [y, g.constant(real(rng, 6))], {"shape": (1, 9, 9, 6)}, "Add")
    y = g.op("CONV_2D", [y, g.constant(weights[1]), g.constant(np.zeros(4, F))],
             {"shape": (1, 9, 9, 4)}, "Conv2D", **CONV)  # fmt: skip
    g.outputs = [y]
    return model(g), [*weights, g.tensors[6].data]


def test_dynamic_batch_and_names(rng):
    data, (first, second, added) = two_convolutions(rng, (-1, 8, 8, 3))
    exe = lw.compile(from_tflite(data))
    assert exe.inputs() == [
        ("serving_default_image_0", "float32", ("serving_default_image_0_dim0", 8, 8, 3))
    ]
    for batch in (1, 3):
        x = real(rng, batch, 8, 8, 3)
        y = np.maximum(convolved(x, first, np.zeros(6, F), (1, 1), True), 0)
        y = np.pad(y, [(0, 0), (1, 0), (0, 1), (0, 0)]) + added
        compare([np.asarray(exe(x))], [convolved(y, second, np.zeros(4, F), (1, 1), True)], 1e-5)


def test_shapes_and_dtypes_are_given(rng):
    data, _ = two_convolutions(rng)
    mod = from_tflite(data, shape_dict={"serving_default_image:0": ["n", 8, "w", 3]})
    assert str(mod["main"].params[0].struct_info.shape) == "R.shape([n, 8, w, 3])"
    assert list(mod.attrs["input_names"]) == ["serving_default_image:0"]


def test_images_stay_channels_first(rng):
    data, _ = two_convolutions(rng)
    text = from_tflite(data).script()
    of_images = [
        line for line in text.splitlines() if "permute_dims(" in line and "Constant" not in line
    ]
    assert len(of_images) == 2, text  # of the input and of the output


def test_files_and_commands(rng, tmp_path):
    data, _ = two_convolutions(rng)
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    x = real(rng, 1, 8, 8, 3)
    wanted = run(data, [x])
    for _ in range(2):  # the second comes from the cache
        compare([np.asarray(lw.compile(path)(x))], wanted)
    assert len(lw.lower(str(path))) > 10


def test_relay():
    mod, params = relay.frontend.from_tflite(doubling())
    assert not params and "less" in str(mod)


def test_branches_at_run_time(rng):
    then, other, g = Graph(), Graph(), Graph()
    for branch, kind in ((then, "ADD"), (other, "MUL")):
        a, b = branch.input((2, 3)), branch.input((2, 3))
        branch.outputs = [branch.op(kind, [a, b], {"shape": (2, 3)}, kind.title())]
    inputs = [g.input((), "bool"), g.input((2, 3)), g.input((2, 3))]
    numbers = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2}
    g.outputs = [g.op("IF", inputs, {"shape": (2, 3)}, "If", **numbers)]
    data = model(g, then, other)
    a, b = real(rng, 2, 3), real(rng, 2, 3)
    compare(run(data, [np.array(True), a, b]), [a + b])
    compare(run(data, [np.array(False), a, b]), [a * b])


def doubling(condition: str = "LESS") -> bytes:
    """while total < limit: total = total * 2"""
    cond, body, g = Graph(), Graph(), Graph()
    total, limit = cond.input((1,)), cond.input((1,))
    cond.outputs = [cond.op(condition, [total, limit], {"shape": (1,), "dtype": "bool"})]
    total, limit = body.input((1,)), body.input((1,))
    double = body.op("MUL", [total, body.constant(np.array([2], F))], {"shape": (1,)}, "Mul")
    body.outputs = [double, limit]
    inputs, outs = [g.input((1,)), g.input((1,))], [g.tensor((1,)), g.tensor((1,))]
    g.op("WHILE", inputs, outs, "While", CondSubgraphIndex=1, BodySubgraphIndex=2)
    g.outputs = outs[:1]
    return model(g, cond, body)


@pytest.mark.parametrize("limit, wanted", [(100, 192), (3, 3), (4, 6)])
def test_loops(limit: float, wanted: float):
    compare(run(doubling(), [np.array([3], F), np.array([limit], F)]), [np.array([wanted], F)])


def lstm_model(rng: np.random.Generator, coupled: bool, clip: float) -> tuple[bytes, list[Any]]:
    g, units, depth = Graph(), 4, 3
    x = g.input((2, 5, depth))
    arrays: list[Any] = [None] * 24
    for k in range(4):
        arrays[1 + k], arrays[5 + k] = real(rng, units, depth), real(rng, units, units)
        arrays[12 + k] = real(rng, units)
    if coupled:
        arrays[1] = arrays[5] = arrays[12] = None
    arrays[18] = arrays[19] = np.zeros((2, units), F)
    numbers = [x, *(-1 if a is None else g.constant(a) for a in arrays[1:18])]
    numbers += [g.tensor((2, units), variable=True) for _ in range(2)] + [-1] * 4
    g.outputs = [
        g.op(
            "UNIDIRECTIONAL_SEQUENCE_LSTM", numbers, {"shape": (2, 5, units)},
            "UnidirectionalSequenceLSTM", FusedActivationFunction=4, CellClip=clip, ProjClip=0.0,
            TimeMajor=False,
        )
    ]  # fmt: skip
    return model(g), arrays


@pytest.mark.sample(2)
@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_lstm(rng: np.random.Generator, coupled: bool, clip: float):
    data, arrays = lstm_model(rng, coupled, clip)
    x = real(rng, 2, 5, 3)
    compare(run(data, [x]), [lstm_steps(x, *arrays[1:], clip=clip)], 1e-5)


def test_svdf(rng):
    g = Graph()
    x = g.input((2, 3))
    features, times, bias = real(rng, 8, 3), real(rng, 8, 5), real(rng, 4)
    state = g.tensor((2, 40), variable=True)
    inputs = [x, *map(g.constant, (features, times, bias)), state]
    out = {"shape": (2, 4)}
    g.outputs = [g.op("SVDF", inputs, out, "SVDF", Rank=2, FusedActivationFunction=1)]
    value = real(rng, 2, 3)
    last = (value @ features.T) * times[:, -1]
    compare(run(model(g), [value]), [np.maximum(last.reshape(2, 4, 2).sum(2) + bias, 0)], 1e-5)


def detection(regular: bool) -> tuple[bytes, list[np.ndarray], np.ndarray]:
    from flatbuffers import flexbuffers

    options = {"max_detections": 5, "max_classes_per_detection": 1, "detections_per_class": 4, "num_classes": 3,
                   "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4, "y_scale": 10.0, "x_scale": 10.0,
                   "h_scale": 5.0, "w_scale": 5.0, "use_regular_nms": regular}  # fmt: skip
    b = flexbuffers.Builder()
    with b.Map():
        for name, value in options.items():
            b.Key(name)
            (b.Bool if isinstance(value, bool) else b.Int if isinstance(value, int) else b.Float)(
                value
            )
    g = Graph()
    rng = np.random.default_rng(11)
    anchors = rng.uniform(0.2, 0.8, (20, 4)).astype(F)
    inputs = [g.input((1, 20, 4)), g.input((1, 20, 4)), g.constant(anchors)]
    outs = [g.tensor(s) for s in ((1, 5, 4), (1, 5), (1, 5), (1,))]
    g.op("TFLite_Detection_PostProcess", inputs, outs, custom=bytes(b.Finish()))
    g.outputs = outs
    feeds = [rng.uniform(-1, 1, (1, 20, 4)).astype(F), rng.uniform(0, 1, (1, 20, 4)).astype(F)]
    return model(g), feeds, anchors


@pytest.mark.parametrize("regular", [False, True])
def test_detections_as_the_interpreter(regular: bool):
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    data, feeds, _ = detection(regular)
    got, wanted = run(data, feeds), interpreted(data, feeds)
    count = int(wanted[3][0])
    assert count > 1 and got[3][0] == count
    for g, w in zip(got[:3], wanted[:3], strict=True):
        np.testing.assert_allclose(g[:, :count], w[:, :count], rtol=1e-5, atol=1e-6)


def test_detections_by_score():
    data, feeds, anchors = detection(False)
    boxes, classes, scores, count = run(data, feeds)
    n = int(count[0])
    assert np.all(np.diff(scores[0, :n]) <= 0) and np.all(scores[0, :n] >= 0.3)
    best = feeds[1][0, :, 1:].max(1).argmax()
    code, anchor = feeds[0][0, best] / [10, 10, 5, 5], anchors[best]
    middle = code[:2] * anchor[2:] + anchor[:2]
    half = np.exp(code[2:]) * anchor[2:] / 2
    np.testing.assert_allclose(boxes[0, 0], np.r_[middle - half, middle + half], rtol=1e-5)
    assert classes[0, 0] == feeds[1][0, best, 1:].argmax()


def custom(kind: str) -> bytes:
    g = Graph()
    g.outputs = [g.op(kind, [g.input((2, 3))], {"shape": (2, 3)}, custom=b"\1\2\3")]
    return model(g)


@pytest.mark.parametrize("kind", ["MyOwn", "FlexErf"])
def test_custom_operators_are_refused_by_name(kind: str):
    with pytest.raises(LoopwrightError, match=rf"no converter\n.*1 node\n +{kind} \(domain tflite"):
        from_tflite(custom(kind))


def test_custom_operators_of_users(rng):
    register_converter(
        "MyOwn", 1, lambda cx, node, x: cx.ops.add(x, float(node.custom[1])), "tflite"
    )
    try:
        x = real(rng, 2, 3)
        compare(run(custom("MyOwn"), [x]), [x + 2])
    finally:
        CONVERTERS.remove(("tflite", "MyOwn", 1))


def test_numbers_of_operators_in_the_newer_field_only():
    """As Google's quantizer writes those that it adds."""
    g = Graph()
    x = g.input((2, 3))
    g.outputs = [g.op("FLOOR", [x], {"shape": (2, 3)})]
    data = bytearray(model(g))
    code = tflite.Model.GetRootAs(data, 0).OperatorCodes(0)
    data[code._tab.Offset(4) + code._tab.Pos] = 0
    assert code.DeprecatedBuiltinCode() == 0
    values = np.array([[0.5, -0.5, 2], [3.75, -4, 9]], np.float32)
    np.testing.assert_array_equal(run(bytes(data), [values])[0], np.floor(values))


def test_batches_that_only_the_run_compares(rng):
    """Two inputs of a free batch are added where one has a batch of 1, and refused where they disagree."""
    g = Graph()
    x, y = (g.input((1, 3), signature=(-1, 3)) for _ in range(2))
    g.outputs = [g.op("ADD", [x, y], {"shape": (1, 3)}, "Add")]
    exe = lw.compile(from_tflite(model(g)))
    for sizes in ((2, 2), (2, 1), (1, 2), (0, 1)):
        a, b = (real(rng, n, 3) for n in sizes)
        compare([np.asarray(exe(a, b))], [a + b])
    with pytest.raises(ValueError, match="another extent than expected"):
        exe(real(rng, 2, 3), real(rng, 3, 3))


def test_sizes_that_a_file_states_are_the_default(tmp_path):
    """Beside a signature that leaves them open; a 1 may stand for any size but a batch."""
    graph, signature = Graph(), (-1, -1, -1, 3)
    x = graph.input((1, 1, 48, 3), signature=signature)
    graph.outputs = [graph.op("RELU", [x], {"shape": (1, 1, 48, 3), "signature": signature})]
    path = tmp_path / "model.tflite"
    path.write_bytes(model(graph))
    exe = lw.compile(str(path))
    sizes = resolved(exe.inputs(), model=path)
    assert [str(size) for size in sizes.values()] == [
        "1 (the file's shape)",
        "224 (default of image axes)",
        "48 (the file's shape)",
    ]
    (name,) = exe.input_names()
    given = resolved(exe.inputs(), [f"{name}=2,5,7,3"], model=path)
    assert [size.value for size in given.values()] == [2, 5, 7]
