"""Models whose sizes or indices do not fit: an error that names the node, never other memory."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile
from loopwright.frontend.onnx import from_onnx

from .support import close, graph, interpreted, ints, node, operator, reference, value

pytestmark = pytest.mark.no_roundtrip

HUGE = [
    operator("ConstantOfShape", ints(2**62), fed=0),
    operator("Expand", np.ones((16, 1), "float32"), ints(1, 2**60), fed=1, symbolic=True),
    operator("Tile", np.ones((16, 1), "float32"), ints(1, 2**61), fed=1, symbolic=True),
    operator("Pad", np.ones((16, 1), "float32"), ints(0, 2**61, 0, 2**61), fed=1, symbolic=True),
]


@pytest.mark.parametrize("model", [m for m, _ in HUGE], ids=lambda m: m.graph.node[0].op_type)
def test_a_tensor_that_no_memory_holds_is_refused_by_name(model):
    with pytest.raises(LoopwrightError, match=r"is too large\n  got: \d{15,} bytes") as refused:
        from_onnx(model)
    assert "onnx:node" in str(refused.value)


MOST, ONE = 2**63 - 1, np.ones((1, 1, 2, 3), "float32")
TOO_FAR = {  # 2**63 or more, which would wrap around to a small or a negative size
    "Range": [np.int64(-(2**62)), np.int64(2**62), np.int64(1)],
    "Range of floats": [np.float32(0), np.float32(1e30), np.float32(1)],
    "Pad": [ONE[0, 0], ints(MOST, 0, MOST, 0)],
    "Tile": [ONE[0, 0], ints(2**62, 1)],
    "Conv": [ONE, np.ones((1, 1, 1, 1), "float32"), {"pads": [MOST, 0, MOST, 0]}],
    "AveragePool": [ONE, {"kernel_shape": [1, 1], "pads": [MOST, 0, MOST, 0]}],
    "ConvTranspose": [ONE, np.ones((1, 1, 1, 1), "float32"), {"strides": [MOST, 1]}],
}


@pytest.mark.parametrize("name", TOO_FAR)
def test_a_size_that_no_int64_holds_is_refused_by_name(name):
    given = [v for v in TOO_FAR[name] if not isinstance(v, dict)]
    attributes = next((v for v in TOO_FAR[name] if isinstance(v, dict)), {})
    fed = 0 if name.startswith("Range") else 1
    arrays = map(np.asarray, given)
    model, _ = operator(name.partition(" ")[0], *arrays, fed=fed, **attributes)
    with pytest.raises(LoopwrightError, match=r"does not fit an int64\n  got: \d{19,}") as refused:
        from_onnx(model)
    assert "onnx:node" in str(refused.value)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ([np.int64(-(2**62)), np.int64(2**62), np.int64(1)], "more than an int64 can count"),
        ([np.float32(0), np.float32(1e30), np.float32(1)], "more than an int64 can count"),
        ([np.float32(0), np.float32(np.inf), np.float32(1)], "has finite bounds"),
    ],
)
def test_a_range_of_the_run_that_nobody_can_count(bounds, reason):
    model, feeds = operator("Range", *map(np.asarray, bounds))
    with pytest.raises(ValueError, match=reason):
        compile(model).run(feeds)


@pytest.mark.parametrize("reach", [4, 5])  # by one, the rounded extent is 0
def test_a_window_larger_than_the_data_is_refused_by_name(reach):
    data, window = np.ones((1, 1, 3, 3), "float32"), [reach, reach]
    model, _ = operator("MaxPool", data, kernel_shape=window, strides=[3, 3])
    with pytest.raises(LoopwrightError, match="the window is larger than the padded data") as error:
        from_onnx(model)
    assert "onnx:node" in str(error.value)


def outer(*last: onnx.NodeProto) -> onnx.ModelProto:
    """x[n] as a tensor of n**3 elements, then other nodes."""
    nodes = [node("Unsqueeze", ["x", f"axes{k}"], [f"x{k}"], f"view{k}") for k in range(3)]
    nodes += [node("Add", ["x0", "x1"], ["xy"], "plane"), node("Add", ["xy", "x2"], ["z"], "cube")]
    axes = {f"axes{k}": ints(*(a for a in range(3) if a != k)) for k in range(3)}
    result = onnx.helper.make_empty_tensor_value_info("y")
    return graph([*nodes, *last], [value("x", ["n"])], [result], axes)


def test_a_size_known_at_run_time_is_checked_before_memory_is_taken():
    total = node("ReduceSum", ["s"], ["y"], "sum", keepdims=0)
    sums = compile(outer(node("Softmax", ["z"], ["s"], "softmax"), total))
    cubes = compile(outer(node("Exp", ["z"], ["y"], "exp")))
    small = np.ones(3, "float32")
    np.testing.assert_allclose(sums.run(small)["y"].numpy(), 9, rtol=1e-6)
    assert cubes.run(small)["y"].shape == (3, 3, 3)
    large = np.ones(2**22, "float32")  # n**3 * 4 is 2**68
    with pytest.raises(ValueError, match=r"onnx:cube.* a tensor of shape \(n, n, n\) would take"):
        sums.run(large)
    with pytest.raises(ValueError, match=r"main: result out: a tensor of shape \(n, n, n\) would"):
        cubes.run(large)


DATA = np.arange(12, dtype="float32").reshape(4, 3)
PICKS = {
    "Gather": ([0, -1, 3, -4], [4, -5, 2**40, -(2**63), 2**63 - 1]),
    "GatherElements": ([[0, -1, 2], [3, -4, 1]], [4, -5, 2**40, -(2**63), 2**63 - 1]),
    "GatherND": ([[0, -1], [3, 2]], [4, -5, 2**40, -(2**63), 2**63 - 1]),
}


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("op_type", PICKS)
def test_an_index_out_of_range_is_an_error(op_type, target, symbolic):
    right, wrong = PICKS[op_type]
    feeds = {"x": DATA, "i": ints(*right)}
    shape = ["n", 3] if symbolic else [4, 3]
    ports = [value("x", shape), value("i", feeds["i"].shape, np.int64)]
    result = onnx.helper.make_empty_tensor_value_info("y")
    model = graph([node(op_type, ["x", "i"], ["y"], "node")], ports, [result])
    mod, exe = from_onnx(model), compile(model, target)
    run = exe["main"] if target == "llvm" else exe.build(flags=["-O1"])
    expected = reference(model, feeds)
    close(interpreted(mod, feeds), expected)
    close([np.asarray(run(*feeds.values()))], expected)
    for index in wrong:
        feeds["i"].flat[-2] = index
        with pytest.raises(IndexError, match=f"index {index} is out of"):
            interpreted(mod, feeds)
        text = f"onnx:node: index {index} is out of range for an axis of extent 4"
        kind, raised = (
            (RuntimeError, f"main returned -1: {text}") if target == "c" else (IndexError, text)
        )
        with pytest.raises(kind, match=raised):
            run(*feeds.values())


def test_an_axis_sliced_to_one_element_broadcasts():
    """x[:1], where the extent of x is known only at run time, beside a larger axis."""
    first = node("Slice", ["x", "zero", "one"], ["first"], "first")
    total = node("Add", ["first", "w"], ["y"], "total")
    for rows in ("m", 4):
        ports = [value("x", ["n", 3]), value("w", [rows, 3])]
        result = onnx.helper.make_empty_tensor_value_info("y")
        weights = {"zero": ints(0), "one": ints(1)}
        model = graph([first, total], ports, [result], weights)
        feeds = {"x": DATA[:2], "w": DATA}
        expected = reference(model, feeds)
        close(interpreted(from_onnx(model), feeds), expected)
        run = compile(model)["main"]
        close([run(*feeds.values()).numpy()], expected)
        with pytest.raises(ValueError, match="another extent than expected"):
            run(DATA[:0], DATA)


def test_an_axis_longer_than_the_type_of_its_indices_can_say():
    model, _ = operator(
        "Gather", np.ones((1, 2), "float32"), np.asarray([-1], "int32"), fed=1, axis=1
    )
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**31
    taken = from_onnx(model)["main"].body.blocks[0].bindings[0]
    index = taken.value.args[1].data.numpy()
    assert (index.dtype, index) == ("int64", 2**31 - 1)


@pytest.mark.parametrize("k", [2**62, 2**63 - 1, -(2**63)])
def test_a_diagonal_beyond_all_matrices(k):
    model, feeds = operator("EyeLike", np.ones((2, 3), "float32"), k=k, symbolic=True)
    (got,) = compile(model).run(feeds).values()
    assert not got.numpy().any()
