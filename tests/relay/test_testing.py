"""Helpers for tests of Relay."""

import numpy as np
import pytest

from loopwright import relay
from loopwright.relay import testing
from loopwright.relay.testing.temp_op_attr import TempOpAttr

pytestmark = pytest.mark.no_roundtrip  # the text format of Relay is not here yet


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


def test_attribute_for_a_while() -> None:
    op = relay.op.get("nn.dense")
    with TempOpAttr("nn.dense", "test.attr", 3):
        assert op.get_attr("test.attr") == 3
        with TempOpAttr("nn.dense", "test.attr", 4):
            assert op.get_attr("test.attr") == 4
        assert op.get_attr("test.attr") == 3
    assert op.get_attr("test.attr") is None
