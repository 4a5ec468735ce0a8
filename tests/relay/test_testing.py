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
