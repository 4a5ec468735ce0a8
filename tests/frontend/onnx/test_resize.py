"""Resize over extents that only the run tells: as onnxruntime, and as with static extents."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright
from loopwright.arith import Analyzer
from loopwright.frontend.onnx import from_onnx
from loopwright.ir.expr import Range
from loopwright.ir.prim_op import cast, const
from loopwright.relax.interpreter import evaluate_scalar
from loopwright.tir import Var

from .support import close, floats, graph, interpreted, ints, node, reference, value

PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
NEAREST = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
SCALES = (2.0, 0.5), (1.6, 3.0), (0.7, 1 / 3)  # along height, along width
STYLES = [
    *[{"mode": "nearest", "nearest_mode": n} for n in NEAREST],
    {"mode": "linear"},
    {"mode": "cubic"},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
]
EXTENTS = [(8, 31), (31, 8), (7, 3), (3, 7), (2, 6)]


def model(styles, scales, shape=(1, 2, "h", "w")):
    """A Resize of one input in each style by each of the scales."""
    nodes, weights = [], {}
    for k, pair in enumerate(scales):
        weights[f"s{k}"] = np.asarray([1, 1, *pair], np.float32)
        nodes += [
            node("Resize", ["x", "", f"s{k}"], [f"y{k}_{i}"], **style)
            for i, style in enumerate(styles)
        ]
    outputs = [value(name, None) for n in nodes for name in n.output]
    return graph(nodes, [value("x", shape)], outputs, weights)


@pytest.mark.sample(2)
@pytest.mark.parametrize("places", PLACES)
def test_symbolic_extents(places):
    styles = [{**s, "coordinate_transformation_mode": places} for s in STYLES]
    symbolic = from_onnx(model(styles, SCALES))
    for high, wide in EXTENTS:
        feeds = {"x": floats(1, 2, high, wide)}
        got = interpreted(symbolic, feeds)
        static = model(styles, SCALES, (1, 2, high, wide))
        if min(high, wide) > 2:  # else some results are empty
            for a, b in zip(got, interpreted(from_onnx(static), feeds), strict=True):
                np.testing.assert_array_equal(a, b)
        if places != "half_pixel_symmetric":  # onnxruntime rounds its ties otherwise
            close(got, reference(static, feeds))


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_compiled(target):
    made = model([STYLES[0], {"mode": "linear"}, STYLES[-1]], SCALES)
    mod = from_onnx(made)
    if target == "c":
        bounded = mod["main"].with_attr("tir_var_upper_bound", {"h": 31, "w": 31})
        mod = mod.with_functions({**mod.functions, mod.get_global_var("main"): bounded})
    exe = loopwright.compile(mod, target)
    run = exe.build() if target == "c" else exe["main"]
    for high, wide in [(1, 3), *EXTENTS]:
        x = floats(1, 2, high, wide)
        close([np.asarray(y) for y in run(x)], reference(made, {"x": x}))


@pytest.mark.sample(3)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_that_only_the_run_tells(mode):
    nodes = [
        node("Shape", ["r"], ["s"]),
        node("Resize", ["x", "", "", "s"], ["a"], mode=mode),
        node("Resize", ["x", "", "", "t"], ["b"], mode=mode),
        node("Resize", ["x", "", "", "u"], ["c"], mode=mode),
    ]
    ports = [value("x", [1, 2, "h", 4]), value("r", [1, 2, "p", "q"]), value("t", [4], np.int64)]
    made = graph(nodes, ports, [value(n, None) for n in "abc"], {"u": ints(1, 2, 5, 7)})
    exe = loopwright.compile(made)
    for high, sizes, other in [(3, (7, 2), (1, 9)), (1, (3, 3), (3, 2)), (5, (5, 4), (31, 4))]:
        feeds = {"x": floats(1, 2, high, 4), "r": floats(1, 2, *sizes), "t": ints(1, 2, *other)}
        expected = reference(made, feeds)
        close(interpreted(from_onnx(made), feeds), expected)
        close([v.numpy() for v in exe.run(feeds).values()], expected)
    feeds["x"] = floats(1, 2, 0, 4)
    with pytest.raises(IndexError, match="index 0 is out of range for an axis of extent 0"):
        exe.run(feeds)


@pytest.mark.parametrize("shape", [(1, 2, 4, 5), (1, 2, "h", "w")], ids=["static", "symbolic"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_whole_numbers_are_weighed_as_floats(dtype, shape):
    scales = {"s": np.asarray([1, 1, 2, 2], np.float32)}
    resize = node("Resize", ["x", "", "s"], ["y"], mode="linear")
    made = graph([resize], [value("x", shape, dtype)], [value("y", None, dtype)], scales)
    feeds = {"x": np.arange(40, 80).astype(dtype).reshape(1, 2, 4, 5)}
    close(interpreted(from_onnx(made), feeds), reference(made, feeds), 0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("by", ["scales", "sizes", "not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiasing_and_ratios_of_symbolic_extents(mode, by):
    attributes = {"mode": mode, "antialias": 1, "axes": [2, 3]}
    if by.startswith("not"):
        attributes["keep_aspect_ratio_policy"] = by
    names = ["x", "", "s"] if by == "scales" else ["x", "", "", "s"]
    weights = {"s": np.float32([0.4, 1.7]) if by == "scales" else ints(5, 7)}
    resize = node("Resize", names, ["y"], **attributes)
    made = graph([resize], [value("x", [1, 2, "h", "w"])], [value("y", None)], weights, 18)
    exe = loopwright.compile(made)
    for extents in [(12, 5), (5, 7), (9, 30)]:
        feeds = {"x": floats(1, 2, *extents)}
        expected = reference(made, feeds)
        close(interpreted(from_onnx(made), feeds), expected)
        close([v.numpy() for v in exe.run(feeds).values()], expected)


def test_an_extent_scaled_in_float32():
    n, analyzer = Var("n", "int64"), Analyzer()
    size = cast("int64", cast("float32", n) * const(1.3, "float32"))
    analyzer.bind(n, Range(0, 91))
    bound = analyzer.const_int_bound(size)
    assert (bound.min_value, bound.max_value) == (0, 116)  # 90 * 1.3 is less than 117 there
    assert [evaluate_scalar(size, {n: k}) for k in (10, 90)] == [13, 116]
