"""Operators on images, signals and caches, training steps and random numbers, compiled: what
onnxruntime or onnx's reference gives, with static and with symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import loopwright

from .support import close, floats, integers, ints, operator, reference

F32 = np.float32
IMAGE, VOLUME = floats(2, 4, 6, 5), floats(1, 2, 3, 4, 5)
GRID, GRID_3D = floats(2, 3, 7, 2, low=-1.7, high=1.7), floats(1, 2, 3, 4, 3, low=-1.5, high=1.5)
ROIS = np.array([[1, 1, 9, 7], [0, 2, 5, 4], [3, 3, 3.5, 12]], F32)
BOXES = np.sort(floats(2, 12, 4, low=0, high=1).reshape(2, 12, 2, 2), 2).reshape(2, 12, 4)
LIMITS = ints(4), np.array([0.3], F32), np.array([0.2], F32)
STEP = np.array(0.1, F32), np.array(2, np.int64)
TENSORS = [floats(3, 4, seed=k, low=0.1) for k in range(4)]
TRAINING = "ai.onnx.preview.training"


def by_reference(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx's own evaluator gives, which computes steps of training in float64."""
    found = ReferenceEvaluator(model).run(None, feeds)
    return [v.astype(F32) if v.dtype == np.float64 else v for v in found]


def row(op_type: str, *inputs: Any, want: Callable[..., Any] = reference, **options: Any) -> Any:
    return pytest.param(op_type, inputs, options, want, id=op_type)


def samples() -> list[Any]:
    modes = [("linear", False), ("nearest", True), ("cubic", False), ("cubic", True)]
    found = []
    for mode, corners in modes:
        for padding in ("zeros", "border", "reflection"):
            how = {"mode": mode, "padding_mode": padding, "align_corners": int(corners)}
            found.append(row("GridSample", IMAGE, GRID, opset=20, **how))
            if mode != "cubic":
                found.append(row("GridSample", VOLUME, GRID_3D, opset=20, **how))
    return found


TAPS = {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 1]}
CASES = [
    *samples(),
    row("GridSample", IMAGE, GRID, opset=16, mode="bicubic"),
    row("AffineGrid", floats(2, 2, 3), ints(2, 3, 4, 5), fed=1, opset=20),
    row("AffineGrid", floats(2, 3, 4), ints(2, 3, 4, 3, 2), fed=1, opset=20, align_corners=1),
    row(
        "DeformConv", IMAGE, floats(6, 2, 3, 3), floats(2, 36, 6, 5), floats(6), floats(2, 18, 6, 5),
        want=by_reference, opset=19, group=2, offset_group=2, pads=[1, 1, 1, 1],
    ),
    row(
        "DeformConv", IMAGE, floats(3, 4, 2, 2), floats(2, 8, 3, 3), want=by_reference, opset=22,
        strides=[2, 2], pads=[1, 0, 0, 1],
    ),
    *(
        row("RoiAlign", IMAGE, ROIS, ints(1, 0, 1), opset=opset, mode=mode, output_height=2,
            output_width=3, spatial_scale=0.6, sampling_ratio=ratio)
        for opset, mode, ratio in ((10, "avg", 0), (16, "avg", 2), (16, "max", 2))
    ),
    row("MaxRoiPool", IMAGE, np.c_[np.array([1, 0.75, 1], F32), ROIS], pooled_shape=[2, 2],
        spatial_scale=0.5),
    row("NonMaxSuppression", BOXES, floats(2, 3, 12, low=0, high=1), *LIMITS),
    row("NonMaxSuppression", BOXES, floats(2, 3, 12), *LIMITS, fed=2, center_point_box=1),
    row("NonMaxSuppression", BOXES, floats(2, 1, 12), ints(20), fed=3),
    row("NonMaxSuppression", BOXES, floats(2, 1, 12)),
    row("Col2Im", floats(2, 12, 20), ints(5, 6), ints(2, 2), opset=18, symbolic=False),
    row("Col2Im", floats(2, 12, 24), ints(7, 6), ints(2, 2), opset=18, fed=1, strides=[2, 1],
        pads=[1, 0, 0, 1]),
    row("MaxUnpool", floats(1, 2, 2, 2), ints(1, 3, 9, 11, 16, 19, 26, 27).reshape(1, 2, 2, 2),
        kernel_shape=[2, 2], strides=[2, 2]),
    row("MaxPool", IMAGE, outputs=2, storage_order=1, **TAPS),
    row("MaxPool", IMAGE, outputs=2, **TAPS),
    row("DFT", floats(2, 9, 1), None, np.array(1), fed=1, opset=20),
    row("DFT", floats(2, 9, 3, 1), None, np.array(1), opset=20, onesided=1),
    row("DFT", floats(2, 9, 3, 2), None, np.array(-2), opset=20, inverse=1, symbolic=False),
    row("DFT", floats(2, 3, 8, 2), ints(6)[0], opset=17, axis=2, inverse=1, symbolic=False),
    row("DFT", floats(2, 8, 1), ints(10)[0], np.array(-2), fed=2, opset=20, onesided=1),
    row("STFT", floats(2, 40, 1), ints(5)[0], floats(16), opset=17, fed=1),
    row("STFT", floats(2, 40, 1), ints(5)[0], floats(16), ints(16)[0], opset=17, onesided=0),
    row("HannWindow", ints(9)[0], opset=17, periodic=0),
    row("HammingWindow", ints(8)[0], opset=17, periodic=0, output_datatype=11),
    row("BlackmanWindow", ints(8)[0], opset=17, fed=0, periodic=1),
    row("MelWeightMatrix", *ints(8, 32, 16000), F32(100), F32(7000), opset=17),
    row("MelWeightMatrix", *ints(8, 32, 16000), F32(100), F32(7000), opset=17, fed=0),
    row("BatchNormalization", IMAGE, *(floats(4, low=0.5, seed=k) for k in range(4)), opset=15,
        training_mode=1, outputs=3, momentum=0.7),
    row("BatchNormalization", floats(6, 4), *(floats(4, low=0.5, seed=k) for k in range(4)),
        opset=15, training_mode=1, epsilon=0.1, outputs=3),
    row("Det", floats(3, 3)),
    row("Det", floats(2, 1, 5, 5)),
    row("TensorScatter", floats(2, 3, 6, 2), floats(2, 3, 2, 2), ints(4, 1), opset=24),
    row("TensorScatter", floats(2, 6, 2), floats(2, 3, 2), ints(5, 0), opset=24, mode="circular"),
    row("BitCast", floats(2, 3), to=6, opset=26, want=by_reference),
    row("BitCast", integers(2, 3, dtype=np.int8), to=2, opset=26, want=by_reference),
    row("Adagrad", *STEP, *TENSORS[:3], domain=TRAINING, outputs=2, epsilon=1e-5,
        decay_factor=0.1, norm_coefficient=0.01, want=by_reference),
    row("Adam", *STEP, *TENSORS, domain=TRAINING, outputs=3, alpha=0.8, want=by_reference),
    row("Momentum", *STEP, *TENSORS[:3], domain=TRAINING, outputs=2, alpha=0.9, beta=0.5,
        norm_coefficient=0.001, mode="nesterov", want=by_reference),
    *(
        row("LinearAttention", floats(2, 4, 12), floats(2, 4, 6), floats(2, 4, 10), past,
            *gates, opset=28, outputs=2, q_num_heads=4, kv_num_heads=2, update_rule=rule,
            want=by_reference)
        for rule, past, gates in (
            ("linear", None, ()),
            ("gated", floats(2, 2, 3, 5), (-floats(2, 4, 6, low=0), )),
            ("delta", None, (None, floats(2, 4, 2))),
            ("gated_delta", floats(2, 2, 3, 5), (-floats(2, 4, 2, low=0), floats(2, 4, 1))),
        )
    ),
    row("FlexAttention", floats(1, 4, 5, 8), floats(1, 2, 3, 8), floats(1, 2, 3, 6),
        domain="ai.onnx.preview", want=by_reference, opset=28, symbolic=False),
    row("RandomUniformLike", floats(3, 4), want=by_reference, seed=3.0, low=-1.0, high=2.0),
    row("RandomNormalLike", floats(3, 4), want=by_reference, seed=3.0, mean=1.0, scale=0.5),
]  # fmt: skip


def check(op_type: str, inputs: Any, options: dict[str, Any], want: Any, symbolic: bool) -> None:
    inputs = [np.asarray(v) if v is not None else None for v in inputs]
    options = {k: v for k, v in options.items() if k != "symbolic"}
    model, feeds = operator(op_type, *inputs, **options, symbolic=symbolic)
    got = loopwright.compile(model).run(feeds)
    close([v.numpy() for v in got.values()], want(model, feeds), 2e-5)


@pytest.mark.sample(8)
@pytest.mark.parametrize(("op_type", "inputs", "options", "want"), CASES)
def test_static(op_type, inputs, options, want):
    check(op_type, inputs, options, want, symbolic=False)


SYMBOLIC = [c for c in CASES if c.values[2].get("symbolic", True)]


@pytest.mark.sample(12)
@pytest.mark.parametrize(("op_type", "inputs", "options", "want"), SYMBOLIC)
def test_symbolic(op_type, inputs, options, want):
    check(op_type, inputs, options, want, symbolic=True)


def draws(op_type: str, *inputs: Any, times: int = 2, **options: Any) -> list[np.ndarray]:
    model, feeds = operator(op_type, *inputs, **options)
    compiled = loopwright.compile(model)
    return [next(iter(compiled.run(feeds).values())).numpy() for _ in range(times)]


def test_without_a_seed_numbers_are_others_each_time():
    first, second = draws("RandomNormalLike", floats(40, 50), mean=3.0)
    assert np.abs(first - second).max() > 0.1
    assert abs(first.mean() - 3) < 0.2
    assert abs(first.std() - 1) < 0.1


def test_bernoulli_and_multinomial():
    chances = np.full((300, 10), 0.25, F32)
    (lit,) = draws("Bernoulli", chances, opset=15, times=1, seed=1.0)
    assert set(np.unique(lit)) == {0, 1}
    assert abs(lit.mean() - 0.25) < 0.05
    odds = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]], F32))
    (drawn,) = draws("Multinomial", odds, times=1, sample_size=4000, seed=2.0)
    assert drawn.dtype == np.int32
    shares = [[(line == k).mean() for k in range(3)] for line in drawn]
    np.testing.assert_allclose(shares, np.exp(odds), atol=0.04)


@pytest.mark.parametrize("known", [True, False])
def test_dropout_in_training(known):
    x, ratio = floats(50, 40, low=1.0), np.array(0.25, F32)
    given = (x, ratio, np.array(True))
    model, feeds = operator("Dropout", *given, fed=1 if known else 3, outputs=2)
    y, mask = (v.numpy() for v in loopwright.compile(model).run(feeds).values())
    assert abs(mask.mean() - 0.75) < 0.05
    np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)


def test_dropout_that_is_off_at_run_time():
    x = floats(5, 4)
    model, feeds = operator("Dropout", x, np.array(0.5, F32), np.array(False), outputs=2)
    y, mask = (v.numpy() for v in loopwright.compile(model).run(feeds).values())
    np.testing.assert_array_equal(y, x)
    assert mask.all()


def test_flex_attention_with_graphs():
    masked = helper.make_graph(
        [helper.make_node("Add", ["s", "far"], ["m"]), helper.make_node("Tanh", ["m"], ["o"])],
        "score", [helper.make_empty_tensor_value_info("s")],
        [helper.make_empty_tensor_value_info("o")],
        [numpy_helper.from_array(floats(5, 3, seed=8), "far")],
    )  # fmt: skip
    q, k, v = floats(1, 4, 5, 8), floats(1, 2, 3, 8, seed=1), floats(1, 2, 3, 6, seed=2)
    domain = "ai.onnx.preview"
    model, feeds = operator("FlexAttention", q, k, v, domain=domain, opset=28, score_mod=masked)
    k, v = (np.repeat(x, 2, 1) for x in (k, v))
    scores = np.exp(np.tanh(q @ k.swapaxes(2, 3) / np.sqrt(8) + floats(5, 3, seed=8)))
    (got,) = loopwright.compile(model).run(feeds).values()
    want = scores / scores.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(got.numpy(), want, atol=2e-5)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_cast_to_powers_of_two(mode, saturate):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(300) * 10.0 ** rng.integers(-40, 38, 300)
    x = np.append(x, [0, 1, -1, 1.5, 3, np.inf, -np.inf, np.nan, 3.4e38, 1e-45, 2.9e-39])
    x = x.astype(F32)
    options = {"to": 24, "round_mode": mode, "saturate": saturate, "opset": 24}
    (got,) = loopwright.compile(operator("Cast", x, **options)[0]).run({"x0": x}).values()
    want = numpy_helper.to_float8e8m0(x, bool(saturate), mode)
    np.testing.assert_array_equal(got.numpy().view(np.uint8), want.view(np.uint8))
