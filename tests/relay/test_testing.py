"""Helpers for tests of Relay."""

from typing import Any

import numpy as np
import pytest

from benchmarks import relay_networks
from loopwright import relay
from loopwright.ir.op import Op
from loopwright.relay import testing
from loopwright.relay.testing.temp_op_attr import TempOpAttr


def test_types_of_expressions() -> None:
    x = relay.var("x", shape=(2, 3))
    found = testing.run_infer_type(relay.tanh(x + x))
    assert found.checked_type == relay.TensorType((2, 3))
    assert testing.count_ops(found) == {"tanh": 1, "add": 1}
    assert isinstance(testing.run_infer_type(relay.Function([x], x)), relay.Function)


def test_parameters_by_name() -> None:
    x, w, b = (
        relay.var("data", shape=(2, 8)),
        relay.var("w_weight"),
        relay.var("b_bias", shape=(5,)),
    )
    net = relay.Function([x, w, b], relay.nn.dense(x, w, units=5) + b)
    mod, params = testing.create_workload(net)
    assert mod["main"].ret_type == relay.TensorType((2, 5))
    assert list(params) == ["w_weight", "b_bias"]
    bound = np.sqrt(3 / 6.5)
    weight = params["w_weight"].numpy()
    assert weight.shape == (5, 8) and bound / 2 < np.abs(weight).max() <= bound
    assert not params["b_bias"].numpy().any()
    _, again = testing.create_workload(net)
    np.testing.assert_array_equal(again["w_weight"].numpy(), weight)
    _, same = testing.create_workload(net, testing.init.Constant())
    assert same["w_weight"].numpy().sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="Unknown initialization pattern for y"):
        testing.create_workload(relay.Function([y := relay.var("y", shape=(2,))], y))


def test_numbers_of_a_type() -> None:
    kind = relay.TensorType((2, 300), "float16")
    made = testing._np_randn_from_type(kind)
    assert made.shape == (2, 300) and made.dtype == "float16" and abs(made.mean()) < 0.3
    assert (testing._np_randn_from_type(kind, 0, 3) == 3).all()


def test_attribute_for_a_while() -> None:
    op = relay.op.get("nn.dense")
    with TempOpAttr("nn.dense", "test.attr", 3):
        assert op.get_attr("test.attr") == 3
        with TempOpAttr("nn.dense", "test.attr", 4):
            assert op.get_attr("test.attr") == 4
        assert op.get_attr("test.attr") == 3
    assert op.get_attr("test.attr") is None


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("make", "millions"),
    [
        (lambda: testing.mlp.get_workload(1), 0.11),
        (lambda: testing.lenet.get_workload(1), 0.0617),
        (lambda: testing.resnet.get_workload(1, 1000, 18), 11.7),
        (lambda: testing.resnet.get_workload(1, 1000, 50), 25.6),
        (lambda: testing.mobilenet.get_workload(), 4.25),
        (lambda: testing.squeezenet.get_workload(version="1.0"), 1.25),
        (lambda: testing.squeezenet.get_workload(version="1.1"), 1.24),
        (lambda: testing.densenet.get_workload(121), 8.06),
        (lambda: testing.inception_v3.get_workload(), 23.9),
        (lambda: testing.dqn.get_workload(1), 1.69),
    ],
)
def test_networks_have_as_many_parameters_as_published(make: Any, millions: float) -> None:
    mod, params = make()
    (_, classes) = mod["main"].ret_type.concrete_shape
    assert classes in (10, 18, 1000)
    assert sum(p.size for p in params.values()) / 1e6 == pytest.approx(millions, rel=0.01)


@pytest.mark.slow
def test_layouts_of_networks() -> None:
    rng = np.random.default_rng(0)
    image = rng.normal(size=(1, 3, 28, 28)).astype("float32")
    mod, params = testing.resnet.get_workload(1, 10, 8, (3, 28, 28))
    results = [relay.create_executor("graph", mod).evaluate()(image, **params).numpy()]
    mod, _ = testing.resnet.get_workload(1, 10, 8, (28, 28, 3), layout="NHWC")
    turned = {
        n: np.ascontiguousarray(p.numpy().transpose(2, 3, 1, 0)) if p.ndim == 4 else p
        for n, p in params.items()
    }
    run = relay.create_executor("graph", mod).evaluate()
    results.append(run(np.ascontiguousarray(image.transpose(0, 2, 3, 1)), **turned).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)
    assert results[0].sum() == pytest.approx(1, rel=1e-5)


SMALL = {"mlp", "lenet", "lstm"}


@pytest.mark.parametrize(
    "name",
    [n if n in SMALL else pytest.param(n, marks=pytest.mark.slow) for n in relay_networks.NETWORKS],
)
def test_networks_equal_the_same_ones_as_onnx(name: str) -> None:
    pytest.importorskip("onnxruntime")
    (through_relay, through_onnx), theirs, _ = relay_networks.results(name)
    scale = np.abs(theirs).max()
    np.testing.assert_allclose(through_relay, theirs, rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(through_onnx, theirs, rtol=0, atol=1e-5 * scale)


def test_gradients_against_differences() -> None:
    x, y = (relay.var(n, shape=(2, 3), dtype="float64") for n in "xy")
    func = relay.Function([x, y], relay.Tuple([relay.tanh(x * y), relay.sum(x, 1)]))
    testing.check_grad(func)
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(2, 3)) for _ in "xy"]
    testing.check_grad(func, values, test_inputs=values[:1])
    wrong = Op.get("relax.tanh").get_attr("FPrimalGradient")
    try:
        Op.get("relax.tanh").set_attr("FPrimalGradient", lambda *a: [a[2]])
        with pytest.raises(AssertionError, match="Not equal"):
            testing.check_grad(func, values)
    finally:
        Op.get("relax.tanh").set_attr("FPrimalGradient", wrong)


def test_executors_give_tuples_as_one_value() -> None:
    x = relay.var("x", shape=(2,))
    func = relay.Function([x], relay.Tuple([x, relay.Tuple([x + x])]))
    for kind in ("debug", "graph", "vm"):
        made = relay.create_executor(kind).evaluate(func)
        first, (second,) = made(np.ones(2, "float32"))
        assert (first.numpy() + second.numpy() == 3).all()


def test_networks_have_as_many_layers_as_their_names_say() -> None:
    for count, units in testing.resnet.UNITS.items():
        assert len(units) == 4 and count == 2 + (3 if count >= 50 else 2) * sum(units)
    for count, (width, growth, blocks) in testing.densenet.SIZES.items():
        assert count == 5 + 2 * sum(blocks) and width == 2 * growth and len(blocks) == 4
    for count, stages in testing.vgg.SIZES.items():
        assert count == 3 + sum(stages) and len(stages) == 5


@pytest.mark.parametrize(
    ("make", "convolutions", "millions"),
    [
        (lambda: testing.vgg.get_net(1, (3, 224, 224), 1000, "float32"), 8, 132.86),
        (lambda: testing.vgg.get_net(1, (3, 224, 224), 1000, "float32", 16, True), 13, 138.37),
        (lambda: testing.resnet.get_net(1, 1000, 34), 37, 21.81),
        (lambda: testing.resnet.get_net(1, 10, 20, (3, 28, 28)), 22, 0.274),
        (
            lambda: testing.resnet.get_net(1, 10, 164, (3, 28, 28)),
            166,
            1.73,
        ),  # with the means and variances
        (lambda: testing.dcgan.get_net(1), 4, 12.66),
        (lambda: testing.dcgan.get_net(1, layout="NHWC"), 4, 12.66),
    ],
)
def test_sizes_of_networks(make: Any, convolutions: int, millions: float) -> None:
    net = testing.run_infer_type(make())
    counts = testing.count_ops(net)
    assert counts.get("nn.conv2d", 0) + counts.get("nn.conv2d_transpose", 0) == convolutions
    sizes = [np.prod(p.checked_type.concrete_shape) for p in net.params if p.name_hint != "data"]
    assert sum(sizes) / 1e6 == pytest.approx(millions, rel=0.01)


def test_networks_that_there_are_not() -> None:
    for make in (
        lambda: testing.vgg.get_net(1, (3, 224, 224), 10, "float32", 12),
        lambda: testing.densenet.get_net(120, 10, (1, 3, 224, 224), "float32"),
        lambda: testing.resnet.get_net(1, 10, 35),
        lambda: testing.resnet.get_net(1, 10, 21, (3, 28, 28)),
        lambda: testing.resnet.get_net(1, 10, 166, (3, 28, 28)),
        lambda: testing.dcgan.get_net(1, oshape=(3, 32, 64)),
        lambda: testing.dcgan.get_net(1, layout="NCHW4c"),
    ):
        with pytest.raises(ValueError, match="unknown|makes images of 64 x 64"):
            make()


@pytest.mark.parametrize(
    ("name", "options", "width"),
    [
        ("a_weight", {}, (6 * 25 + 4 * 25) / 2),
        ("a_weight", {"factor_type": "in"}, 4 * 25),
        ("a_weight", {"factor_type": "out"}, 6 * 25),
        ("a_depthwise_weight", {"factor_type": "out"}, 25),
        ("a_weight", {"factor_type": "in", "magnitude": 12}, 25),
    ],
)
def test_random_weights_are_as_large_as_their_width_says(
    name: str, options: dict[str, Any], width: float
) -> None:
    weight = np.zeros((6, 4, 5, 5), "float32")
    np.random.seed(0)
    testing.init.Xavier(**options)(name, weight)
    bound = np.sqrt(3 / width)
    assert 0.98 * bound < weight.max() <= bound and -bound <= weight.min() < -0.98 * bound
    with pytest.raises(ValueError, match="which has no width"):
        testing.init.Xavier()("weight", weight[0, 0, 0])
    for wrong in ({"rnd_type": "normal"}, {"factor_type": "all"}):
        with pytest.raises(ValueError, match="by width in, out or avg"):
            testing.init.Xavier(**wrong)


def test_values_by_the_ends_of_names() -> None:
    for name, value in (("x_bias", 0), ("gamma", 1), ("b_beta", 0), ("mean", 0), ("m_var", 1)):
        array = np.full(3, 7.0)
        testing.init.Xavier()(name, array)
        assert (array == value).all()
