"""Axes, sizes and factors that only the run tells: one compilation, several values of each."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import close, floats, graph, interpreted, ints, node, value

X = floats(2, 3, 4)
F32 = np.float32


def numbers(*values):
    return np.asarray(values, F32)


# operator, attributes, values of its inputs for each run: the first is static, the others vary.
CASES = [
    ("ReduceSum", {}, (X, ints(1)), (X, ints(-1))),
    ("ReduceMax", {"keepdims": 0}, (X, ints(0, -1)), (X, ints(1, 0))),
    ("ReduceMean", {"keepdims": 1}, (X, ints(0, 2)), (X, ints(1, 2))),
    ("ReduceLogSumExp", {"keepdims": 0}, (X, ints(2)), (X, ints(0))),
    ("CumSum", {}, (floats(2, 0, 3), np.int64(1)), (floats(2, 0, 3), np.int64(0))),
    ("CumSum", {"reverse": 1}, (X, np.int64(1)), (X, np.int64(-3))),
    ("Squeeze", {}, (floats(1, 3, 1), ints(0)), (floats(1, 3, 1), ints(-1))),
    ("Unsqueeze", {}, (X, ints(1, 3)), (X, ints(-1, 0))),
    ("Slice", {}, (X, ints(0), ints(9), ints(1)), (X, ints(-2), ints(3), ints(2))),
    (
        "Slice",
        {},
        (X, ints(5, 0), ints(-9, 2), ints(2, 0), ints(-2, 1)),
        (X, ints(1, 3), ints(2, 0), ints(1, -1), ints(1, -1)),
    ),
    ("TopK", {"axis": 1}, (X, ints(2)), (X, ints(3)), (X, ints(0))),
    ("Tile", {}, (X, ints(1, 2, 1)), (X, ints(3, 1, 0))),
    ("Expand", {}, (floats(3, 1), ints(2, 1, 4)), (floats(3, 1), ints(1, 3, 1))),
    ("Trilu", {"upper": 0}, (X, np.int64(1)), (X, np.int64(-1)), (X, np.int64(2**63 - 1))),
    ("OneHot", {"axis": 0}, (ints(1, -1, 7), np.int64(4), numbers(2, 5))),
    (
        "Range",
        {},
        (np.int64(3), np.int64(-6), np.int64(-4)),
        (np.int64(1), np.int64(0), np.int64(2)),
    ),
    ("Range", {}, (F32(0), F32(1), F32(0.3)), (F32(1), F32(-1), F32(-0.5))),
    ("Pad", {}, (X, ints(1, 0), F32(2), ints(2)), (X, ints(0, 2), F32(3), ints(0))),
    ("Pad", {"mode": "wrap"}, (X, ints(1, 0, 1, 0, 2, 1)), (X, ints(0, 1, 0, 0, 0, 2))),
    (
        "Resize",
        {"mode": "linear"},
        (floats(1, 2, 3, 4), None, numbers(1, 1, 2, 0.6)),
        (floats(1, 2, 3, 4), None, numbers(1, 1, 0.5, 3)),
    ),
    (
        "Resize",
        {"mode": "cubic", "antialias": 1, "axes": [2, 3]},
        (floats(1, 2, 6, 8), None, numbers(0.5, 0.6)),
    ),
    (
        "Resize",
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
        (floats(1, 1, 4, 4), numbers(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7), None, ints(1, 1, 3, 3)),
    ),
    (
        "Resize",
        {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"},
        (floats(1, 1, 2, 4), None, None, ints(7, 8)),
        (floats(1, 1, 2, 4), None, None, ints(1, 3)),
    ),
]


def made(op_type, attributes, inputs):
    """A model whose inputs are all fed; an empty one stands for one left out."""
    names = ["" if v is None else f"x{k}" for k, v in enumerate(inputs)]
    count = {"TopK": 2}.get(op_type, 1)
    outputs = [f"y{k}" for k in range(count)]
    ports = [value(n, v.shape, v.dtype) for n, v in zip(names, inputs, strict=True) if n]
    one = node(op_type, names, outputs, op_type, **attributes)
    return graph([one], ports, [value(n, None) for n in outputs], opset=19)


@pytest.mark.sample(4)
@pytest.mark.parametrize("op_type, attributes, inputs", [(c[0], c[1], c[2:]) for c in CASES])
def test_operator(op_type, attributes, inputs):
    model = made(op_type, attributes, inputs[0])
    mod, exe = from_onnx(model), loopwright.compile(model)
    for values in inputs:
        feeds = {f"x{k}": np.asarray(v) for k, v in enumerate(values) if v is not None}
        expected = [np.asarray(y) for y in ReferenceEvaluator(model).run(None, feeds)]
        close(interpreted(mod, feeds), expected)
        close([y.numpy() for y in exe.run(feeds).values()], expected)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "op_type, attributes, inputs, message",
    [
        ("ReduceSum", {}, (X, ints(3)), "axes of a tensor of rank 3"),
        ("Squeeze", {}, (X, ints(1)), "an axis that is squeezed must have extent 1"),
        ("TopK", {}, (X, ints(9)), "a number from 0 to 4"),
        ("TopK", {}, (X, ints(1, 2)), r"a tensor of one number\n  got: shape \(2,\)"),
        ("Slice", {}, (X, ints(0), ints(1), numbers(0)), "got: float32\n  instead: integers"),
        ("CumSum", {}, (X, ints(0, 1)), "a tensor of one number"),
        ("Range", {}, (F32(0), numbers(1, 2), F32(1)), "a tensor of one number"),
        ("Expand", {}, (X, ints(2, 4)), "cannot be expanded"),
        ("Range", {}, (F32(0), F32(1), F32(0)), "a step that is not 0"),
        (
            "MelWeightMatrix",
            {},
            (np.int64(4), np.int64(16), np.int64(0), F32(0), F32(9)),
            "a sample rate is positive",
        ),
        ("Slice", {}, (X, ints(0), ints(1), ints(0), ints(0)), "a step may not be 0"),
        ("Pad", {"mode": "edge"}, (X, ints(1, 1)), "input pads must hold 6 numbers"),
        ("Tile", {}, (X, ints(-1, 1, 1)), "a size may not be negative"),
        ("Resize", {}, (X, None, numbers(1, -1, 1)), "one positive number per axis"),
    ],
)
def test_values_that_do_not_fit(op_type, attributes, inputs, message):
    feeds = {f"x{k}": np.asarray(v) for k, v in enumerate(inputs) if v is not None}
    with pytest.raises((ValueError, LoopwrightError), match=message):
        loopwright.compile(made(op_type, attributes, inputs)).run(feeds)


def test_a_rank_is_enough_where_data_decides_what_broadcasts():
    """As many rows as are kept, or one beside five: skl2onnx's Gaussian processes."""
    nodes = [
        node("Compress", ["x", "keep"], ["rows"], axis=0),
        node("Mul", ["rows", "five"], ["both"]),
        node("MatMul", ["both", "w"], ["y"]),
        node("Softmax", ["y"], ["z"], axis=0),
    ]
    ports = [value("x", ["n", 4]), value("keep", ["n"], np.bool_)]
    weights = {"five": floats(5, 4, seed=1), "w": floats(4, 2, seed=2)}
    model = graph(nodes, ports, [value("z", None)], weights)
    run = loopwright.compile(model)
    for kept in (5, 1):
        feeds = {"x": floats(7, 4), "keep": np.arange(7) < kept}
        expected = ReferenceEvaluator(model).run(None, feeds)
        close([v.numpy() for v in run.run(feeds).values()], expected)
        close(interpreted(from_onnx(model), feeds), expected)
