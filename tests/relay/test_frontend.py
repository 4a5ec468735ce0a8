"""Models from ONNX and from Relax in Relay."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright import relax, relay, tir
from loopwright.ir.module import IRModule
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import ObjectStructInfo, TensorStructInfo, TupleStructInfo
from loopwright.relay.frontend import common, from_onnx, from_relax
from loopwright.relay.translate import to_relax
from loopwright.script import ir as I
from loopwright.script import relax as R
from tests.models.conftest import zoo  # noqa: F401  (a fixture)


def array(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype("float32")


def model(nodes: list[Any], inputs: dict[str, Any], weights: dict[str, np.ndarray]) -> Any:
    """An ONNX model of float inputs by name whose last node's output is its own."""
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    known = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "g", given, [out], known)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def classifier(rng: np.random.Generator) -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "b"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    weights = {"w": array(rng, 4, 3, 3, 3), "v": array(rng, 5, 64), "b": array(rng, 5)}
    return model(nodes, {"x": [1, 3, 8, 8]}, weights)


def operators(mod: lw.IRModule) -> list[str]:
    return [*relay.testing.count_ops(mod["main"])]


@pytest.mark.parametrize("kind", ["debug", "graph"])
def test_an_image_classifier(rng: np.random.Generator, kind: str) -> None:
    proto, x = classifier(rng), array(rng, 1, 3, 8, 8)
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


def test_weights_as_parameters(rng: np.random.Generator) -> None:
    proto, x = classifier(rng), array(rng, 1, 3, 8, 8)
    mod, params = from_onnx(proto, freeze_params=False)
    assert [p.name_hint for p in mod["main"].params] == ["x", *params] == ["x", "w", "v", "b"]
    got = relay.create_executor("graph", mod).evaluate()(x, **params).numpy()
    np.testing.assert_allclose(got, lw.compile(proto)(x).numpy(), rtol=1e-4, atol=1e-6)


def test_what_relay_has_no_operator_of_stays_a_call_of_relax(rng: np.random.Generator) -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
            with R.dataflow():
                a = R.expm1(x)
                s = R.shape_of(a)
                b = R.broadcast_to(R.const([[1.0, 2.0, 3.0, 4.0]]), s)
                y = R.add(a, b)
                R.output(y)
            return y

    mod = from_relax(Module)
    assert operators(mod) == ["relax.call", "add"]
    x = array(rng, 3, 4)
    want = np.expm1(x) + np.arange(1, 5, dtype="float32")
    for kind in ("debug", "graph"):
        got = relay.create_executor(kind, mod).evaluate()(x).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_trained_model_is_all_relay(zoo: Any) -> None:  # noqa: F811
    counts = relay.testing.count_ops(from_onnx(zoo("ppocr-cls").path)[0]["main"])
    assert (counts["nn.batch_norm"], counts["clip"], counts["relax.call"]) == (35, 27, 0)


def test_free_batch(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("ReduceMean", ["m"], ["s"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["m", "s"], ["y"]),
    ]
    mod, _ = from_onnx(model(nodes, {"x": ["n", 6]}, {"w": array(rng, 6, 3)}))
    assert mod["main"].params[0].type_annotation == relay.TensorType((relay.Any(), 6))
    run = relay.create_executor("vm", mod).evaluate()
    for n in (1, 5):
        x = array(rng, n, 6)
        assert run(x).numpy().shape == (n, 3)
        np.testing.assert_allclose(run(x).numpy().mean(1), 0, atol=1e-5)


def test_what_cannot_be_taken_over() -> None:
    x = relax.Var("x", relax.ShapeStructInfo([1, 2]))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    with pytest.raises(lw.LoopwrightError, match="the parameter x is not a tensor"):
        from_relax(bb.get())


def test_other_importers_say_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match="importers other than ONNX(.|\n)*from_onnx"):
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
    onnxruntime = pytest.importorskip("onnxruntime")
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


@pytest.mark.parametrize(
    ("config", "transposed"),
    [(None, False), ({}, False), ({"use_nt_batch_matmul": True}, True)],
)
def test_products_of_batches(rng: np.random.Generator, config: Any, transposed: bool) -> None:
    proto = model(
        [helper.make_node("MatMul", ["a", "b"], ["y"])], {"a": [2, 3, 4], "b": [2, 4, 5]}, {}
    )
    mod, _ = from_onnx(proto, convert_config=config)
    assert ("transpose" in operators(mod)) == transposed and "nn.batch_matmul" in operators(mod)
    a, b = array(rng, 2, 3, 4), array(rng, 2, 4, 5)
    got = relay.create_executor("graph", mod).evaluate()(a, b)
    np.testing.assert_allclose(got.numpy(), a @ b, rtol=1e-4, atol=1e-5)


def test_changes_of_layout_are_taken_over(rng: np.random.Generator) -> None:
    x = relay.var("x", shape=(4, 6))
    mod = lw.IRModule({"main": relay.Function([x], relay.layout_transform(x, "HW", "HW2w"))})
    data = rng.normal(size=(4, 6)).astype("float32")
    made = relay.create_executor("debug", from_relax(to_relax(mod))).evaluate()(data)
    np.testing.assert_array_equal(made.numpy(), data.reshape(4, 3, 2))


n = tir.Var("n", "int64")


def t(*shape: Any, dtype: str = "float32") -> TensorStructInfo:
    return TensorStructInfo(shape, dtype)


def graph(infos: list[Any], build: Any) -> lw.IRModule:
    """A module of Relax: build(block builder, parameters) gives the result."""
    params = [relax.Var(f"p{k}", info) for k, info in enumerate(infos)]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        out = build(bb, *params)
        bb.emit_func_output(bb.emit(out) if isinstance(out, relax.Call) else out)
    return bb.get()


def calls(mod: lw.IRModule) -> list[relay.Call]:
    return [c for c in relay.walk.post_order(mod["main"]) if isinstance(c, relay.Call)]


KEPT = ["relax.call"]
x, image, two = t(2, 3), t(1, 4, 6, 6), TupleStructInfo([t(n, 2), t(n, 2)])
CONV: Any = [image, t(8, 4, 3, 3)]
# parameters, a call of Relax, the calls of Relay, and some attributes of the last one
TAKEN_OVER: list[tuple[list[Any], Any, list[str], dict[str, Any]]] = [
    ([x], lambda _, a: R.reshape(a, (3, 2)), ["reshape"], {"newshape": (3, 2)}),
    ([t(n, 6)], lambda _, a: R.reshape(a, (n, 2, 3)), ["reshape"], {"newshape": (-1, 2, 3)}),
    ([t(n, n)], lambda _, a: R.reshape(a, (n, n, 1)), KEPT, {}),
    ([t(0, 3)], lambda _, a: R.reshape(a, (3, 0)), KEPT, {}),
    ([x], lambda bb, a: R.reshape(a, bb.emit(R.shape_of(a))), KEPT, {}),
    ([t(2, 3, 4)], lambda _, a: R.permute_dims(a), ["transpose"], {"axes": None}),
    ([t(2, 3, 4)], lambda _, a: R.permute_dims(a, [1, 0, 2]), ["transpose"], {"axes": (1, 0, 2)}),
    ([x, x], lambda _, a, b: R.concat((a, b), 1), ["concatenate"], {"axis": 1}),
    ([t(2), t(3)], lambda _, a, b: R.concat((a, b), None), ["concatenate"], {"axis": 0}),
    ([x, t(3, 4)], lambda _, a, b: R.matmul(a, b), ["nn.matmul"], {"transpose_b": False}),
    (
        [x, t(4, 3)],
        lambda bb, a, b: R.matmul(a, bb.emit(R.permute_dims(b))),
        ["nn.dense"],
        {"units": 4},
    ),
    (
        [x],
        lambda _, a: R.matmul(a, relax.const(np.eye(3, 5, dtype="float32"))),
        ["nn.dense"],
        {"units": 5},
    ),
    ([x, t(3, 4)], lambda _, a, b: R.matmul(a, b, out_dtype="float64"), KEPT, {}),
    (
        [t(1, 2, 3), t(2, 3, 4)],
        lambda _, a, b: R.matmul(a, b),
        ["nn.batch_matmul"],
        {"transpose_b": False},
    ),
    ([x, t(2, 3, 4)], lambda _, a, b: R.matmul(a, b), KEPT, {}),
    ([t(2, 3, 4), t(4, 5)], lambda _, a, b: R.matmul(a, b), ["nn.matmul"], {}),
    (
        [t(3, 2, 2, 3), t(3, 2, 3, 4)],
        lambda _, a, b: R.matmul(a, b),
        ["reshape", "reshape", "nn.batch_matmul", "reshape"],
        {"newshape": (3, 2, 2, 4)},
    ),
    ([t(n, 2, 2, 3), t(n, 2, 3, 4)], lambda _, a, b: R.matmul(a, b), KEPT, {}),
    ([t(1, 2, 2, 3), t(2, 1, 3, 4)], lambda _, a, b: R.matmul(a, b), KEPT, {}),
    (
        [image, t(8, 2, 3, 2)],
        lambda _, a, b: R.nn.conv2d(a, b, (2, 1), (1, 0), (1, 2), 2),
        ["nn.conv2d"],
        {
            "strides": (2, 1),
            "padding": (1, 0, 1, 0),
            "dilation": (1, 2),
            "groups": 2,
            "channels": 8,
            "kernel_size": (3, 2),
            "out_dtype": "",
        },
    ),
    (
        [image, t(3, 2, 6, 8)],
        lambda _, a, b: R.nn.conv2d(a, b, data_layout="NHWC", kernel_layout="HWIO"),
        ["nn.conv2d"],
        {"channels": 8, "kernel_size": (3, 2), "data_layout": "NHWC", "kernel_layout": "HWIO"},
    ),
    (CONV, lambda _, a, b: R.nn.conv2d(a, b, out_layout="NHWC"), ["nn.conv2d"], {}),
    (
        CONV,
        lambda _, a, b: R.nn.conv2d(a, b, out_dtype="float64"),
        ["nn.conv2d"],
        {"out_dtype": "float64"},
    ),
    ([image, t(8, 4, n, 3)], lambda _, a, b: R.nn.conv2d(a, b), ["nn.conv2d"], {}),
    (
        [image, t(n, 4, 1, 3)],
        lambda _, a, b: R.nn.conv2d(a, b),
        ["nn.conv2d"],
        {"channels": None, "kernel_size": (1, 3)},
    ),
    ([t(1, 4, 6), t(8, 4, 2)], lambda _, a, b: R.nn.conv1d(a, b), ["nn.conv1d"], {"channels": 8}),
    (
        [image],
        lambda _, a: R.nn.max_pool2d(a, (2, 3), (1, 2), (1, 0, 1, 0), (2, 1), True),
        ["nn.max_pool2d"],
        {
            "pool_size": (2, 3),
            "strides": (1, 2),
            "padding": (1, 0, 1, 0),
            "dilation": (2, 1),
            "ceil_mode": True,
        },
    ),
    (
        [image],
        lambda _, a: R.nn.avg_pool2d(a, (2, 2), count_include_pad=True),
        ["nn.avg_pool2d"],
        {"count_include_pad": True, "ceil_mode": False},
    ),
    ([image], lambda _, a: R.nn.avg_pool2d(a, (2, 2), out_layout="NHWC"), ["nn.avg_pool2d"], {}),
    ([x], lambda _, a: R.sum(a, [1], True), ["sum"], {"axis": (1,), "keepdims": True}),
    ([x], lambda _, a: R.mean(a), ["mean"], {"axis": None, "keepdims": False, "exclude": False}),
    ([t(6, 4)], lambda _, a: R.split(a, 3, 0), ["split"], {"indices_or_sections": 3, "axis": 0}),
    ([t(6, 4)], lambda _, a: R.split(a, [1, 3], 1), ["split"], {"indices_or_sections": (1, 3)}),
    ([x], lambda _, a: R.expand_dims(a, [-1, 0]), ["expand_dims"] * 2, {"axis": 3}),
    ([x], lambda _, a: R.expand_dims(a, []), [], {}),
    ([x], lambda _, a: R.nn.softmax(a, 0), ["nn.softmax"], {"axis": 0}),
    ([x], lambda _, a: R.astype(a, "int8"), ["cast"], {"dtype": "int8"}),
    ([x], lambda _, a: R.nn.leakyrelu(a, 0.25), ["nn.leaky_relu"], {"alpha": 0.25}),
    ([x], lambda _, a: R.clip(a, -0.5, 0.5), ["clip"], {"a_min": -0.5, "a_max": 0.5}),
    (
        [image, t(4), t(4), t(4), t(4)],
        lambda bb, *a: relax.TupleGetItem(
            bb.emit(R.nn.batch_norm(*a, 1, 1e-3, momentum=0.9, training=False)), 0
        ),
        ["nn.batch_norm"],
        {"axis": 1, "epsilon": 1e-3, "center": True, "scale": True},
    ),
    (
        [image, t(4), t(4), t(4), t(4)],
        lambda bb, *a: relax.TupleGetItem(bb.emit(R.nn.batch_norm(*a, 1, training=True)), 0),
        KEPT,  # Relay's is for inference
        {},
    ),
    ([x, t(3), t(3)], lambda _, *a: R.nn.layer_norm(*a, [-1]), ["nn.layer_norm"], {"axis": -1}),
    ([t(2, 3, dtype="bool"), x, x], lambda _, *a: R.where(*a), ["where"], {}),
    ([t(1, 3, 1)], lambda _, a: R.squeeze(a, [0]), ["squeeze"], {"axis": (0,)}),
    ([t(n, 1)], lambda _, a: R.squeeze(a, [1]), ["squeeze"], {"axis": (1,)}),
    (
        [image],
        lambda _, a: R.strided_slice(a, [2, 3], [1, -2], [4, 8], [2, 1]),
        ["strided_slice"],
        {},
    ),
    ([x], lambda _, a: R.argmax(a, 1, True), ["argmax", "cast"], {"dtype": "int64"}),
    ([x], lambda _, a: R.broadcast_to(a, (4, 2, 3)), ["broadcast_to"], {"shape": (4, 2, 3)}),
    ([x], lambda _, a: R.cumsum(a, 1), ["cumsum"], {"axis": 1}),
    ([x], lambda _, a: R.sort(a, 1, True), ["sort"], {"is_ascend": False}),
    ([x], lambda _, a: R.nn.pad(a, [0, 0, 1, 2], "constant", 0.5), ["nn.pad"], {}),
    ([x], lambda _, a: R.nn.silu(a), ["sigmoid", "multiply"], {}),
    ([x], lambda _, a: R.nn.gelu(a), ["multiply"] * 2 + ["erf", "add", "multiply"], {}),
    ([x], lambda _, a: R.nn.hardsigmoid(a), ["add", "clip", "divide"], {}),
    ([x], lambda _, a: R.nn.hardswish(a), ["add", "clip", "divide", "multiply"], {}),
    (
        [image, t(4, 3, 3, 2)],
        lambda _, a, b: R.nn.conv2d_transpose(a, b, (2, 2), (1, 0), (1, 0)),
        ["nn.conv2d_transpose"],
        {"channels": 3, "kernel_size": (3, 2), "output_padding": (1, 0)},
    ),
    ([x, t(2, dtype="int64")], lambda _, a, b: R.nn.nll_loss(a, b), KEPT, {}),
    (
        [x, t(2, dtype="int64"), t(3)],
        lambda _, a, b, w: R.nn.nll_loss(a, b, w),
        ["nn.nll_loss"],
        {"reduction": "mean", "ignore_index": -100},
    ),
    ([TensorStructInfo(ndim=2, dtype="float32")], lambda _, a: R.nn.relu(a), ["nn.relu"], {}),
    ([t(n, 1), t(1, n)], lambda _, a, b: R.add(a, b), ["add"], {}),
]


@pytest.mark.parametrize(("infos", "build", "names", "attrs"), TAKEN_OVER)
def test_calls_of_relay(infos: list[Any], build: Any, names: list[str], attrs: Any) -> None:
    found = calls(from_relax(graph(infos, build)))
    assert [c.op.name for c in found] == names
    assert {k: found[-1].attrs[k] for k in attrs} == attrs


@pytest.mark.parametrize(("infos", "build", "names", "attrs"), TAKEN_OVER)
def test_they_mean_the_same(
    rng: np.random.Generator, infos: list[Any], build: Any, names: Any, attrs: Any
) -> None:
    mod = graph(infos, build)
    feeds = [_drawn(rng, info) for info in infos if info.get_shape() is not None]
    if len(feeds) < len(infos):
        return  # of any rank
    want, got = (Interpreter(m)["main"](*feeds) for m in (mod, to_relax(from_relax(mod))))
    for a, b in zip(*(v if isinstance(v, tuple) else [v] for v in (got, want)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def _drawn(rng: np.random.Generator, info: Any) -> np.ndarray:
    """Numbers for a parameter; each free extent is 2."""
    shape = [getattr(d, "value", 2) for d in info.get_shape()]
    return rng.uniform(0.25, 1.75, shape).astype(str(info.dtype))


@pytest.mark.parametrize(("size", "inside"), [(64, True), (65, False)])
def test_large_constants_stand_outside_of_kept_calls(
    rng: np.random.Generator, size: int, inside: bool
) -> None:
    weight = relax.const(array(rng, size))
    mod = from_relax(graph([x], lambda _, a: R.expm1(weight)))
    (call,) = calls(mod)
    assert len(call.args[0].fields) == (0 if inside else 1)


@pytest.mark.parametrize(
    ("infos", "build", "want"),
    [
        ([two], lambda bb, p: R.stack(p, 0), lambda a, b: np.stack([a, b])),
        (
            [TupleStructInfo([t(n, 2), t(2, 3)])],
            lambda bb, p: R.broadcast_to(bb.emit(relax.TupleGetItem(p, 1)), (n, 2, 3)),
            lambda a, b: np.broadcast_to(b, (len(a), 2, 3)),
        ),
        (
            [two],
            lambda bb, p: R.expm1(bb.emit(relax.TupleGetItem(p, 1))),
            lambda a, b: np.expm1(b),
        ),
    ],
)
def test_tuples_as_parameters(
    rng: np.random.Generator, infos: list[Any], build: Any, want: Any
) -> None:
    mod = from_relax(graph(infos, build))
    assert calls(mod)[0].op.name in ("relax.call", "stack")
    parts = [array(rng, 4, 2), array(rng, 4, 2) if infos[0] is two else array(rng, 2, 3)]
    got = relay.create_executor("debug", mod).evaluate()(tuple(parts)).numpy()
    np.testing.assert_allclose(got, want(*parts), rtol=1e-6)


@pytest.mark.parametrize(
    ("infos", "build", "message"),
    [
        ([TensorStructInfo(dtype="float32")], lambda _, a: a, "the rank of a tensor is not known"),
        ([ObjectStructInfo()], lambda _, a: a, "the parameter p0 is not a tensor"),
        ([x], lambda _, a: R.zeros((n,), "float32"), "the extent n is known to no parameter"),
        ([x], lambda bb, a: bb.emit(R.shape_of(a)), "this value of Relax is not a tensor"),
        ([x], lambda _, a: relax.PrimValue(3), "this expression of Relax has no meaning in Relay"),
        (
            [x],
            lambda _, a: relax.Call(relax.ExternFunc("f"), [a], sinfo_args=[x]),
            "Relay calls operators and functions of the module",
        ),
    ],
)
@pytest.mark.no_roundtrip  # a variable that nothing defines
def test_values_that_relay_does_not_have(infos: list[Any], build: Any, message: str) -> None:
    with pytest.raises(lw.LoopwrightError, match=message):
        from_relax(graph(infos, build))


def test_what_follows_a_call_of_a_function() -> None:
    """Its type is not known before inference: what takes it is believed to fit."""

    @I.ir_module
    class Module:
        @R.function
        def twice(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            return R.add(x, x)

        @R.function
        def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
            y = Module.twice(x)
            return R.exp(y)

    mod = from_relax(Module)
    assert [getattr(c.op, "name", c.op) for c in calls(mod)][1] == "exp"
    got = relay.create_executor("debug", mod).evaluate()(np.ones(2, "float32"))
    np.testing.assert_allclose(got.numpy(), np.exp([2, 2]), rtol=1e-6)


def test_the_model_is_not_exported_again(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="export_node_renamed_model_path is not supported"):
        from_onnx(classifier(rng), export_node_renamed_model_path="model.onnx")


@pytest.mark.parametrize("kind", ["debug", "vm", "graph"])
def test_extents_that_only_the_run_compares(kind: str, rng: np.random.Generator) -> None:
    """Unknown extents broadcast where one is 1, and are refused where they disagree."""
    x, y = (relay.var(name, shape=(relay.Any(), 4), dtype="float32") for name in "xy")
    body = relay.where(relay.greater(x, y), relay.multiply(relay.add(x, y), x), y)
    run = relay.create_executor(kind, IRModule.from_expr(relay.Function([x, y], body))).evaluate()
    for sizes in ((3, 3), (3, 1), (1, 3), (0, 1)):
        a, b = (rng.uniform(-1, 1, (n, 4)).astype("float32") for n in sizes)
        np.testing.assert_allclose(run(a, b).numpy(), np.where(a > b, (a + b) * a, b), rtol=1e-6)
    with pytest.raises(ValueError, match="another extent than expected|cannot be computed"):
        run(np.ones((3, 4), "float32"), np.ones((2, 4), "float32"))
