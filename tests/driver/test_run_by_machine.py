"""`Executable.run` for functions whose shapes are known only at run time."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import loopwright as lw


def nonzero() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["places"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("places", TensorProto.INT64, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_feeds_and_results_have_their_names() -> None:
    exe = lw.compile(nonzero())
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    found = exe.run({"x": x})
    assert list(found) == ["places"]
    np.testing.assert_array_equal(found["places"].numpy(), np.nonzero(x))
    assert exe.inputs() == [("x", "float32", ("n", 3))]


def test_a_missing_input_is_named() -> None:
    with pytest.raises(ValueError) as error:
        lw.compile(nonzero()).run({"z": 1})
    text = (
        "the inputs of main are x\n  got: missing x; unknown z\n  expected: main(x float32[n, 3])"
    )
    assert str(error.value).startswith(text)
