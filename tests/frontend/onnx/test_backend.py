"""The `onnx.backend.base` interface."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx.backend.base import Backend as Interface

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import backend

from .support import floats, graph, node, operator, value

FLOAT = TensorProto.FLOAT


def test_a_model():
    model, feeds = operator("Add", floats(2, 3), floats(3))
    (y,) = backend.run_model(model, list(feeds.values()))
    np.testing.assert_array_equal(y, floats(2, 3) + floats(3))
    (again,) = backend.prepare(model, "CPU").run(feeds)
    np.testing.assert_array_equal(again, y)


def test_a_node_with_an_input_left_out():
    clip = node("Clip", ["x", "", "high"], ["y"])
    x = floats(4)
    (y,) = backend.run_node(clip, {"x": x, "high": np.float32(0.5)}, opset_version=13)
    np.testing.assert_array_equal(y, np.minimum(x, 0.5))


def test_several_outputs():
    model = graph(
        [node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2)],
        [value("x", [4])],
        [value("a", [2]), value("b", [2])],
        opset=18,
    )
    first, second = backend.run_model(model, [floats(4)])
    np.testing.assert_array_equal(np.concatenate([first, second]), floats(4))


NEG, ID = node("Neg", ["x"], ["y"]), node("Identity", ["x"], ["y"])
AT = node("SequenceAt", ["x", "k"], ["y"])
EMPTY = node("SequenceEmpty", [], ["y"], dtype=FLOAT)


@pytest.mark.parametrize(
    ("run", "given", "options", "wanted"),
    [
        (NEG, floats(3), {}, -floats(3)),  # of the newest operator set
        (NEG, [floats(3)], {"outputs_info": [(np.float32, (3,))]}, -floats(3)),
        (NEG, {"x": floats(3)}, {"device": "CPU:0"}, -floats(3)),
        (ID, [[floats(2), -floats(2)]], {}, [floats(2), -floats(2)]),
        (ID, [[np.int64([1, 2])]], {}, [np.int64([1, 2])]),
        (AT, [[floats(2), -floats(2)], np.int64(1)], {}, -floats(2)),
        (EMPTY, [], {}, []),
    ],
)
def test_values_of_nodes(run, given, options, wanted):
    if isinstance(given, np.ndarray):
        model, _ = operator("Neg", given)
        (got,) = backend.run_model(model, given)
    else:
        (got,) = backend.run_node(run, given, **options)
    assert isinstance(got, list) == isinstance(wanted, list) and len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


def test_another_device():
    model, _ = operator("Relu", floats(2))
    assert issubclass(backend.Backend, Interface) and not backend.supports_device("CUDA")
    with pytest.raises(LoopwrightError) as caught:
        backend.prepare(model, "CUDA:1")
    assert str(caught.value).startswith("this backend runs on the CPU")
