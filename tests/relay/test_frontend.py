"""Models from ONNX and from Relax in Relay."""

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright import relax, relay
from loopwright.relay.frontend import common, from_onnx, from_relax
from loopwright.relay.translate import to_relax
from loopwright.script import ir as I
from loopwright.script import relax as R

RNG = np.random.default_rng(11)


def array(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype("float32")


def model(nodes: list[Any], inputs: dict[str, Any], weights: dict[str, np.ndarray]) -> Any:
    """An ONNX model of float inputs by name whose last node's output is its own."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    known = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [out], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def classifier() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "b"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    weights = {"w": array(4, 3, 3, 3), "v": array(5, 64), "b": array(5)}
    return model(nodes, {"x": [1, 3, 8, 8]}, weights)


def operators(mod: lw.IRModule) -> list[str]:
    return [*relay.testing.count_ops(mod["main"])]


@pytest.mark.parametrize("kind", ["debug", "graph"])
def test_an_image_classifier(kind: str) -> None:
    proto, x = classifier(), array(1, 3, 8, 8)
    mod, params = from_onnx(proto)
    assert not params
    assert {"nn.conv2d", "nn.relu", "nn.max_pool2d", "nn.dense", "add", "nn.softmax"} <= {
        *operators(mod)
    }
    want = lw.compile(proto)(x).numpy()
    got = relay.create_executor(kind, mod).evaluate()(x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
    call = next(n for n in relay.walk.post_order(mod["main"]) if str(n.span) == "onnx:conv")
    assert isinstance(call, relay.Call) and call.op.name == "nn.conv2d"


def test_weights_as_parameters() -> None:
    proto, x = classifier(), array(1, 3, 8, 8)
    mod, params = from_onnx(proto, freeze_params=False)
    assert [p.name_hint for p in mod["main"].params] == ["x", *params] == ["x", "w", "v", "b"]
    got = relay.create_executor("graph", mod).evaluate()(x, **params).numpy()
    np.testing.assert_allclose(got, lw.compile(proto)(x).numpy(), rtol=1e-4, atol=1e-6)


def test_what_relay_has_no_operator_of_stays_a_call_of_relax() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
            with R.dataflow():
                a = R.cumsum(x, 1)
                s = R.shape_of(a)
                b = R.broadcast_to(R.const([[1.0, 2.0, 3.0, 4.0]]), s)
                y = R.add(a, b)
                R.output(y)
            return y

    mod = from_relax(Module)
    assert operators(mod) == ["relax.call", "add"]
    x = array(3, 4)
    want = np.cumsum(x, 1) + np.arange(1, 5, dtype="float32")
    for kind in ("debug", "graph"):
        got = relay.create_executor(kind, mod).evaluate()(x).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_free_batch() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ReduceMean", ["m"], ["s"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["m", "s"], ["y"]),
    ]
    mod, _ = from_onnx(model(nodes, {"x": ["n", 6]}, {"w": array(6, 3)}))
    assert mod["main"].params[0].type_annotation == relay.TensorType((relay.Any(), 6))
    run = relay.create_executor("vm", mod).evaluate()
    for n in (1, 5):
        x = array(n, 6)
        assert run(x).numpy().shape == (n, 3)
        np.testing.assert_allclose(run(x).numpy().mean(1), 0, atol=1e-5)


def test_what_cannot_be_taken_over() -> None:
    x = relax.Var("x", relax.ShapeStructInfo([1, 2]))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    with pytest.raises(lw.LoopwrightError, match="the parameter x is no tensor"):
        from_relax(bb.get())


def test_other_importers_say_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match="importers but for ONNX(.|\n)*from_onnx"):
        relay.frontend.from_pytorch(None, [])


FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
ARRAY = np.arange(6, dtype="float32").reshape(2, 3)
RUN_TIME: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "Range": (
        ["a", "b", "c"],
        {"a": (INT64, []), "b": (INT64, []), "c": (INT64, [])},
        [np.int64(2), np.int64(11), np.int64(3)],
    ),
    "Reshape": (["x", "s"], {"x": (FLOAT, [2, 3]), "s": (INT64, [2])}, [ARRAY, np.array([3, -1])]),
    "ConstantOfShape": (["s"], {"s": (INT64, [2])}, [np.array([2, 3])]),
    "ReduceSum": (["x", "s"], {"x": (FLOAT, [2, 3]), "s": (INT64, [1])}, [ARRAY, np.array([1])]),
    "OneHot": (
        ["x", "d", "v"],
        {"x": (INT64, [2]), "d": (INT64, [1]), "v": (FLOAT, [2])},
        [np.array([0, 5]), np.array([6]), np.array([0, 1], "float32")],
    ),
}


@pytest.mark.parametrize("kind", RUN_TIME)
def test_extents_that_the_run_reads(kind: str) -> None:
    names, types, values = RUN_TIME[kind]
    inputs = [helper.make_tensor_value_info(n, *types[n]) for n in names]
    output = helper.make_tensor_value_info("y", INT64 if kind == "Range" else FLOAT, None)
    nodes = [helper.make_node(kind, names, ["z"]), helper.make_node("Add", ["z", "z"], ["y"])]
    graph = helper.make_graph(nodes, "g", inputs, [output])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    want = onnxruntime.InferenceSession(made.SerializeToString()).run(
        None, dict(zip(names, map(np.asarray, values), strict=True))
    )
    mod, _ = from_onnx(made)
    for executor in ("vm", "debug"):
        got = relay.create_executor(executor, mod).evaluate()(*values)
        np.testing.assert_array_equal(got.numpy(), want[0])


def test_what_an_importer_asks_of_expressions() -> None:
    x, w = relay.var("x", shape=(2, relay.Any())), relay.var("w", shape=(5, 3, 1, 1))
    assert common.infer_shape(relay.nn.relu(x)) == (2, relay.Any())
    assert str(common.infer_type(relay.nn.relu(x)).checked_type) == "Tensor[(2, ?), float32]"
    assert (common.infer_channels(w), common.infer_channels(w, transpose=True)) == (5, 3)
    y = relay.var("y", shape=(2,))
    value = common.infer_value(y + relay.const(1.0), {"y": np.ones(2, "float32")})
    assert value.numpy().tolist() == [2, 2]


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_batches(transposed: bool) -> None:
    proto = model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": [2, 3, 4], "b": [2, 4, 5]}, {}
    )
    mod, _ = from_onnx(proto, convert_config={"use_nt_batch_matmul": transposed})
    assert ("transpose" in operators(mod)) == transposed and "nn.batch_matmul" in operators(mod)
    a, b = array(2, 3, 4), array(2, 4, 5)
    got = relay.create_executor("graph", mod).evaluate()(a, b)
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-4, atol=1e-5)


def test_changes_of_layout_are_taken_over() -> None:
    x = relay.var("x", shape=(4, 6))
    mod = lw.IRModule({"main": relay.Function([x], relay.layout_transform(x, "HW", "HW2w"))})
    data = RNG.normal(size=(4, 6)).astype("float32")
    made = relay.create_executor("debug", from_relax(to_relax(mod))).evaluate()(data)
    np.testing.assert_array_equal(made.numpy(), data.reshape(4, 3, 2))
