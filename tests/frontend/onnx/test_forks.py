"""Values of which the run tells the rank: what follows is converted for each."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm.jit import gc_paused
from loopwright.frontend.graph.context import Context
from loopwright.frontend.graph.walk import GraphWalk

pytestmark = pytest.mark.no_roundtrip  # the models are compiled as a whole

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, tensor = helper.make_node, helper.make_tensor_value_info


def model(nodes, inputs, outputs, arrays=()):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in arrays]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def squeezed_if(condition):
    """torch's squeeze: the axis goes where it has extent 1."""
    then = helper.make_graph(
        [node("Squeeze", ["x", "last"], ["a"])], "then", [], [tensor("a", FLOAT, None)]
    )
    other = helper.make_graph(
        [node("Identity", ["x"], ["b"])], "other", [], [tensor("b", FLOAT, None)]
    )
    return node("If", [condition], ["s"], then_branch=then, else_branch=other)


ARRAYS = [("last", np.array([-1])), ("one", np.array([1])), ("two", np.array([2, 2]))]


def test_the_rest_runs_for_either_rank():
    nodes = [
        node("Shape", ["x"], ["dims"]),
        node("Gather", ["dims", "last"], ["n"]),
        node("Equal", ["n", "one"], ["alone"]),
        squeezed_if("alone"),
        node("Exp", ["s"], ["e"]),
        node("Shape", ["e"], ["t"]),
    ]
    outputs = [tensor("e", FLOAT, None), tensor("t", INT64, None)]
    run = lw.compile(model(nodes, [tensor("x", FLOAT, ["m", "n"])], outputs, ARRAYS))
    for shape, expected in (((3, 1), (3,)), ((3, 2), (3, 2))):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        e, t = run(x)
        np.testing.assert_allclose(e.numpy(), np.exp(x).reshape(expected), rtol=1e-6)
        assert tuple(t.numpy()) == expected


def test_a_way_that_cannot_be_is_an_error_of_the_run():
    """Of two ranks only one fits what follows: the other is refused where it is met."""
    nodes = [squeezed_if("go"), node("Gemm", ["s", "w"], ["y"])]
    inputs = [tensor("x", FLOAT, ["m", "n"]), tensor("go", TensorProto.BOOL, [])]
    weight = [("w", np.eye(2, dtype=np.float32))]
    run = lw.compile(model(nodes, inputs, [tensor("y", FLOAT, None)], ARRAYS + weight))
    x = np.ones((3, 2), np.float32)
    np.testing.assert_array_equal(run(x, np.array(False)).numpy(), x)
    with pytest.raises(ValueError):
        run(x[:, :1], np.array(True))


def test_no_way_that_can_be_is_an_error_of_the_import():
    nodes = [squeezed_if("go"), node("LSTM", ["s", "w", "w"], ["y"], hidden_size=2)]
    inputs = [tensor("x", FLOAT, ["m", "n"]), tensor("go", TensorProto.BOOL, [])]
    weight = [("w", np.zeros((1, 8, 2), np.float32))]
    with pytest.raises(LoopwrightError, match="LSTM"):
        lw.compile(model(nodes, inputs, [tensor("y", FLOAT, None)], ARRAYS + weight))


@pytest.mark.parametrize("last", [1, 2])
def test_a_rank_of_the_run_inside_a_branch_that_is_taken(last):
    """What follows the outer If, whose condition is known, is converted for each rank."""
    inner = [
        node("Shape", ["x"], ["dims"]),
        node("Gather", ["dims", "last"], ["n"]),
        node("Equal", ["n", "one"], ["alone"]),
        squeezed_if("alone"),
        node("Neg", ["s"], ["t"]),
    ]
    taken = helper.make_graph(inner, "taken", [], [tensor("t", FLOAT, None)])
    other = helper.make_graph([node("Exp", ["x"], ["u"])], "o", [], [tensor("u", FLOAT, None)])
    nodes = [
        node("If", ["true"], ["r"], then_branch=taken, else_branch=other),
        node("Reshape", ["r", "flat"], ["f"]),
        node("Shape", ["r"], ["y"]),
    ]
    arrays = [*ARRAYS, ("true", np.array(True)), ("flat", np.array([-1]))]
    outputs = [tensor("f", FLOAT, None), tensor("y", INT64, None)]
    run = lw.compile(model(nodes, [tensor("x", FLOAT, ["m", "n"])], outputs, arrays))
    x = np.arange(3 * last, dtype=np.float32).reshape(3, last)
    flat, dims = run(x)
    np.testing.assert_array_equal(flat.numpy(), -x.ravel())
    np.testing.assert_array_equal(dims.numpy(), [3] if last == 1 else [3, 2])


@pytest.mark.parametrize("rows", [1, 3])
def test_squeeze_without_axes(rows):
    nodes = [node("Squeeze", ["x"], ["s"]), node("Neg", ["s"], ["y"])]
    run = lw.compile(model(nodes, [tensor("x", FLOAT, ["n", 1, 2])], [tensor("y", FLOAT, None)]))
    x = np.ones((rows, 1, 2), np.float32)
    np.testing.assert_array_equal(run(x).numpy(), -np.squeeze(x))


def test_squeeze_with_more_than_one_extent_of_the_run():
    nodes = [node("Squeeze", ["x"], ["y"])]
    run = lw.compile(model(nodes, [tensor("x", FLOAT, ["n", 1, "m"])], [tensor("y", FLOAT, None)]))
    assert run(np.ones((3, 1, 2), np.float32)).shape == (3, 2)
    with pytest.raises(ValueError, match="Squeeze without axes met an extent of 1"):
        run(np.ones((1, 1, 2), np.float32))


def test_an_import_is_freed_when_it_ends():
    """Without the garbage collector: passes replace the weights, which should go at once."""
    nodes = [squeezed_if("go"), node("Exp", ["s"], ["y"])]
    inputs = [tensor("x", FLOAT, ["m", "n"]), tensor("go", TensorProto.BOOL, [])]
    proto = model(nodes, inputs, [tensor("y", FLOAT, None)], ARRAYS)
    gc.collect()
    with gc_paused():
        lw.frontend.onnx.from_onnx(proto)
        assert [o for o in gc.get_objects() if isinstance(o, (Context, GraphWalk))] == []
