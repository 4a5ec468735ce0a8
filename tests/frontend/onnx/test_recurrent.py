"""RNN, GRU and LSTM, compiled, give what onnxruntime gives, with static and with symbolic sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

import loopwright

from .support import close, floats, operator, reference

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
WAYS = {"forward": 1, "reverse": 1, "bidirectional": 2}
LENGTHS = np.array([5, 2, 3, 4, 1], np.int32)


def model(
    kind: str,
    *,
    size: int = 6,
    batch: int = 5,
    direction: str = "forward",
    parts: str = "",
    symbolic: bool = False,
    opset: int = 14,
    **attributes: Any,
) -> Any:
    """A layer of 5 steps and 4 inputs. parts: what it has, of b (biases), l (lengths), h and c (states
    before) and p (peepholes)."""
    many, ways = GATES[kind], WAYS[direction]
    state, x = (ways, batch, size), (5, batch, 4)
    if attributes.get("layout"):
        state, x = (batch, ways, size), (batch, 5, 4)
    given = [
        floats(*x),
        floats(ways, many * size, 4, low=-0.6, high=0.6, seed=1),
        floats(ways, many * size, size, low=-0.6, high=0.6, seed=2),
        floats(ways, 2 * many * size, seed=3) if "b" in parts else None,
        LENGTHS[:batch] if "l" in parts else None,
        floats(*state, low=-1, high=1, seed=4) if "h" in parts else None,
        floats(*state, low=-1, high=1, seed=5) if "c" in parts else None,
        floats(ways, 3 * size, low=-1, high=1, seed=6) if "p" in parts else None,
    ]
    while given[-1] is None:
        given.pop()
    made, feeds = operator(
        kind, *given, fed=1, opset=opset, outputs=3 if kind == "LSTM" else 2, hidden_size=size,
        direction=direction, symbolic=symbolic, **attributes,
    )  # fmt: skip
    return made, feeds


CASES = [
    *((kind, {"direction": way, "parts": "b"}) for kind in GATES for way in WAYS),
    *((kind, {"parts": "blh", "direction": "bidirectional"}) for kind in GATES),
    *((kind, {"size": 20, "batch": 1, "parts": "h", "direction": "reverse"}) for kind in GATES),
    ("LSTM", {"parts": "blhcp", "size": 17}),
    ("LSTM", {"parts": "bp", "clip": 0.7, "direction": "bidirectional"}),
    ("LSTM", {"parts": "b", "input_forget": 1}),
    ("LSTM", {"parts": "b", "activations": ["HardSigmoid", "Softsign", "Relu"]}),
    ("GRU", {"parts": "blh", "linear_before_reset": 1, "direction": "bidirectional", "size": 16}),
    ("GRU", {"parts": "bl", "linear_before_reset": 1}),
    ("GRU", {"linear_before_reset": 1}),
    (
        "GRU",
        {
            "activations": ["HardSigmoid", "ScaledTanh"],
            "activation_alpha": [0.3, 0.9],
            "activation_beta": [0.4, 0.8],
        },
    ),
    *(
        ("RNN", {"activations": [name], "activation_alpha": [0.4], "activation_beta": [0.3]})
        for name in ("Affine", "LeakyRelu", "ThresholdedRelu", "Elu", "Softplus", "Relu", "Sigmoid")
    ),
]


@pytest.mark.sample(24)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(
    ("kind", "options"), CASES, ids=[f"{c[0]}{n}" for n, c in enumerate(CASES)]
)
def test_layer(kind, options, symbolic):
    made, feeds = model(kind, symbolic=symbolic, **options)
    got = loopwright.compile(made).run(feeds)
    close([v.numpy() for v in got.values()], reference(made, feeds), 3e-5)


@pytest.mark.parametrize("kind", GATES)
def test_batch_first(kind):
    orders = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
    made, feeds = model(kind, parts="bh", layout=1, direction="bidirectional")
    plain, _ = model(kind, parts="bh", direction="bidirectional")
    for turned, straight in zip(made.graph.initializer, plain.graph.initializer, strict=True):
        if turned.dims != straight.dims:  # the state before
            array = numpy_helper.to_array(turned).swapaxes(0, 1)
            straight.CopyFrom(numpy_helper.from_array(array, turned.name))
    got = [v.numpy() for v in loopwright.compile(made).run(feeds).values()]
    want = reference(plain, {"x0": np.ascontiguousarray(feeds["x0"].swapaxes(0, 1))})
    close(got, [w.transpose(o) for w, o in zip(want, orders, strict=False)], 3e-5)


def test_short_floats_compute_in_float32():
    made, feeds = model("LSTM", parts="b")
    weights = [numpy_helper.to_array(t) for t in made.graph.initializer]
    half = [v.astype(np.float16) for v in (*feeds.values(), *weights)]
    options = {"fed": 1, "opset": 14, "outputs": 3, "hidden_size": 6}
    exact = reference(*operator("LSTM", *(v.astype(np.float32) for v in half), **options))
    short, feeds = operator("LSTM", *half, **options)
    got = loopwright.compile(short).run(feeds)
    for a, b in zip(got.values(), exact, strict=True):
        assert a.numpy().dtype == np.float16
        np.testing.assert_allclose(a.numpy().astype(np.float32), b, atol=1e-3)


def test_an_unknown_activation_is_named():
    made, _ = model("RNN", activations=["Swish"])
    with pytest.raises(loopwright.LoopwrightError, match="unknown activation"):
        loopwright.frontend.onnx.from_onnx(made)


@pytest.mark.parametrize("kind", GATES)
def test_weights_of_unknown_shape(kind):
    many = GATES[kind]
    inputs = floats(5, 2, 4), floats(1, many * 6, 4, seed=1), floats(1, many * 6, 6, seed=2)
    made, feeds = operator(kind, *inputs, hidden_size=6)
    expected = reference(made, feeds)
    made.graph.input[1].type.tensor_type.ClearField("shape")
    close([y.numpy() for y in loopwright.compile(made).run(feeds).values()], expected)
