"""Padding that only the run tells: auto_pad of strided windows, and Pad by computed widths."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright
from loopwright.frontend.onnx import from_onnx

from .support import close, floats, graph, interpreted, ints, node, reference, value

POOL = {"kernel_shape": [3, 2], "strides": [2, 2]}
WINDOWS = [
    ("Conv", {"strides": [2, 2]}, (3, 3)),
    ("Conv", {"strides": [2, 3]}, (2, 5)),
    ("Conv", {"strides": [2, 1]}, (1, 3)),
    ("MaxPool", POOL, None),
    ("AveragePool", POOL, None),
    ("AveragePool", {**POOL, "count_include_pad": 1}, None),
    ("LpPool", POOL, None),
]
EXTENTS = [(1, 1), (2, 3), (7, 8), (8, 7), (31, 6)]


def same(rows, auto, shape):
    """A model of the rows, each on the same input."""
    nodes, weights = [], {}
    for k, (op_type, attributes, window) in enumerate(rows):
        if window is not None:
            weights[f"w{k}"] = floats(6, 4, *window)
        names = ["x", f"w{k}"] if window is not None else ["x"]
        outs = [f"y{k}", f"i{k}"] if op_type == "MaxPool" else [f"y{k}"]
        nodes.append(node(op_type, names, outs, auto_pad=auto, **attributes))
    outputs = [
        value(name, None, np.int64 if name[0] == "i" else np.float32)
        for n in nodes
        for name in n.output
    ]
    return graph(nodes, [value("x", shape)], outputs, weights)


@pytest.mark.parametrize("auto", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_over_symbolic_extents(auto):
    made = same(WINDOWS, auto, [1, 4, "h", "w"])
    mod = from_onnx(made)
    for high, wide in EXTENTS:
        feeds = {"x": floats(1, 4, high, wide)}
        close(interpreted(mod, feeds), reference(made, feeds))


def test_a_step_longer_than_the_window():
    rows = [("Conv", {"strides": [3, 3]}, (2, 2))]
    mod = from_onnx(same(rows, "SAME_UPPER", [1, 4, "h", "w"]))
    for high, wide in EXTENTS:
        feeds = {"x": floats(1, 4, high, wide)}
        static = from_onnx(same(rows, "SAME_UPPER", [1, 4, high, wide]))
        close(interpreted(mod, feeds), interpreted(static, feeds))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_compiled(target):
    nodes = [
        node("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("MaxPool", ["a"], ["b"], auto_pad="SAME_LOWER", **POOL),
        node("Conv", ["b", "v"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2]),
    ]
    weights = {"w": floats(16, 4, 3, 3), "v": floats(8, 16, 3, 3, seed=1)}
    made = graph(nodes, [value("x", [1, 4, "h", "w"])], [value("y", None)], weights)
    mod = from_onnx(made)
    if target == "c":
        bounded = mod["main"].with_attr("tir_var_upper_bound", {"h": 31, "w": 31})
        mod = mod.with_functions({**mod.functions, mod.get_global_var("main"): bounded})
    exe = loopwright.compile(mod, target)
    run = exe.build() if target == "c" else exe["main"]
    for high, wide in EXTENTS:
        feeds = {"x": floats(1, 4, high, wide)}
        close([np.asarray(run(feeds["x"]))], reference(made, feeds), 1e-4)


def padded(mode="constant"):
    pad = node("Pad", ["x", "p"], ["y"], mode=mode)
    return graph([pad], [value("x", ["n", 3]), value("p", [4], np.int64)], [value("y", None)])


def test_widths_computed_at_run_time():
    made = padded()
    exe = loopwright.compile(made)
    for n, widths in [
        (2, (1, 0, 2, 0)),
        (4, (-1, 1, -2, 3)),
        (2, (-3, 0, 2, 0)),
        (0, (2, 2, 0, 0)),
    ]:
        feeds = {"x": floats(n, 3), "p": ints(*widths)}
        close(interpreted(from_onnx(made), feeds), reference(made, feeds))
        close([y.numpy() for y in exe.run(feeds).values()], reference(made, feeds))
    cut = {"x": floats(2, 3), "p": ints(-2, 0, -1, 0)}  # more than there is, which nobody allows
    assert [y.shape for y in interpreted(from_onnx(made), cut)] == [(0, 3)]


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_computed_widths_of_another_mode(mode):
    made = padded(mode)
    exe = loopwright.compile(made)
    for n, widths in [(3, (1, 0, 2, 2)), (4, (-1, 1, 2, 0))]:
        feeds = {"x": floats(n, 3), "p": ints(*widths)}
        expected = reference(made, feeds)
        close(interpreted(from_onnx(made), feeds), expected)
        close([y.numpy() for y in exe.run(feeds).values()], expected)
