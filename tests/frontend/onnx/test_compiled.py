"""Imported operators, compiled: one binary for all sizes of what is symbolic."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright
from loopwright.frontend.onnx import from_onnx

from .support import chain, close, floats, graph, ints, node, operator, reference, value

IMAGE = floats(2, 4, 9, 8)
SCALES = np.asarray([1, 1, 2, 2], np.float32)
CASES = [
    ("Add", (floats(2, 3), floats(3)), {}),
    ("Gemm", (floats(2, 3), floats(4, 3), floats(4)), {"fed": 1, "transB": 1}),
    ("Softmax", (floats(2, 3, 4),), {"axis": 1}),
    ("LayerNormalization", (floats(2, 8), floats(8), floats(8)), {"fed": 1}),
    ("Conv", (IMAGE, floats(6, 4, 3, 3), floats(6)), {"fed": 1, "pads": [1, 1, 1, 1]}),
    ("ConvTranspose", (IMAGE, floats(4, 3, 2, 2)), {"fed": 1, "strides": [2, 2]}),
    ("MaxPool", (IMAGE,), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("Resize", (IMAGE, None, SCALES), {"fed": 1, "mode": "nearest"}),
    ("Slice", (floats(6, 4), ints(-4), ints(2**31 - 1)), {"fed": 1}),
    ("Gather", (floats(5, 3), ints(4, -1, 0)), {"fed": 1}),
    ("ReduceLogSumExp", (floats(2, 5),), {"axes": [1]}),
    ("TopK", (floats(3, 7), ints(3)), {"fed": 1, "outputs": 2}),
]


@pytest.mark.sample(2)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("op_type, inputs, options", CASES, ids=[c[0] for c in CASES])
def test_operator(op_type, inputs, options, symbolic):
    model, feeds = operator(op_type, *inputs, **options, symbolic=symbolic)
    got = loopwright.compile(model).run(feeds)
    close([v.numpy() for v in got.values()], reference(model, feeds))


def test_a_result_that_nobody_reads_in_a_fused_kernel():
    x, rest = floats(6, 4, 3), [floats(4, seed=k) for k in range(1, 5)]
    norm = node("BatchNormalization", ["x", *"abcd"], ["z"])  # of variables: not folded
    ports = [value("x", x.shape), *(value(n, [4]) for n in "abcd")]
    model = graph([norm, node("Tanh", ["z"], ["y"])], ports, [value("y", None)])
    feeds = dict(zip("xabcd", [x, *rest[:3], np.abs(rest[3])], strict=True))
    (y,) = loopwright.compile(model).run(feeds).values()
    close([y.numpy()], reference(model, feeds))


def test_sides_that_differ_at_run_time_are_refused():
    ports = [value("a", ["n", 3]), value("b", ["m", 3])]
    model = graph([node("Add", ["a", "b"], ["y"], "sum")], ports, [value("y", None)])
    executable = loopwright.compile(model)
    (y,) = executable.run({"a": floats(2, 3), "b": floats(2, 3)}).values()
    close([y.numpy()], [floats(2, 3) * 2])
    with pytest.raises(ValueError) as caught:
        executable.run({"a": floats(2, 3), "b": floats(5, 3)})
    assert str(caught.value) == (
        "main: another extent than expected at onnx:sum (m against n or 1); "
        "give inputs whose shapes agree"
    )


def test_a_shape_chain_in_one_binary():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Concat", ["n", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
        shape=["n", "m", 3],
        weights={"zero": ints(0), "minus": ints(-1)},
    )
    executable = loopwright.compile(from_onnx(model))
    for n, m in ((2, 5), (4, 1)):
        (y,) = executable.run([floats(n, m, 3)]).values()
        close([y.numpy()], [floats(n, m, 3).reshape(n, -1)])


def test_inputs_of_a_rank_that_only_the_run_tells():
    nodes = [node("Transpose", ["x"], ["t"]), node("Relu", ["t"], ["y"])]
    model = graph(nodes, [value("x", None)], [value("y", None)])
    run = loopwright.compile(model)["main"]
    for x in (floats(3), floats(2, 3, 4)):
        close([run(x).numpy()], [np.maximum(x.T, 0)])
