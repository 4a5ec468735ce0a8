"""Network descriptions: what layers compute, by their definitions, and what is none."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.tvm.tensorrt.network import _RUN, Network

PLACES: dict[str, Any] = {
    "maps": 6, "kernel_size": [3, 2], "stride": [2, 3], "pre_padding": [1, 0],
    "post_padding": [0, 2], "dilation": [2, 1], "groups": 2,
}  # fmt: skip


def test_convolutions(rng: np.random.Generator) -> None:
    """Each result is the sum of kernel[i, j] times what stands under it."""
    x, kernel, bias = (
        rng.normal(size=(2, 4, 9, 7)),
        rng.normal(size=(6, 2, 3, 2)),
        rng.normal(size=6),
    )
    got = _RUN["CONVOLUTION"]([x], {"kernel": kernel, "bias": bias}, PLACES)
    wide = np.zeros((2, 4, 10, 9))
    wide[:, :, 1:, :7] = x
    want = np.zeros((2, 6, 3, 3)) + bias[:, None, None]
    for n, o, h, w in np.ndindex(want.shape):
        for c, i, j in product(range(2), range(3), range(2)):
            channel = (o // 3) * 2 + c
            want[n, o, h, w] += kernel[o, c, i, j] * wide[n, channel, 2 * h + 2 * i, 3 * w + j]
    np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(
        _RUN["CONVOLUTION"]([x], {"kernel": kernel}, PLACES), want - bias[:, None, None]
    )


@pytest.mark.parametrize("dilation", [[2, 1], [1, 3]])
def test_transposed_convolutions(rng: np.random.Generator, dilation: list[int]) -> None:
    """Each element adds its multiple of the kernel; the paddings are cut off."""
    x, kernel, bias = (
        rng.normal(size=(2, 4, 3, 2)),
        rng.normal(size=(4, 3, 3, 2)),
        rng.normal(size=6),
    )
    places = {**PLACES, "dilation": dilation}
    got = _RUN["DECONVOLUTION"]([x], {"kernel": kernel, "bias": bias}, places)
    (dh, dw), whole = dilation, np.zeros((2, 6, 2 * 2 + 2 * dilation[0] + 1, 3 + dilation[1] + 1))
    for n, c, h, w in np.ndindex(x.shape):
        for o, i, j in product(range(3), range(3), range(2)):
            out = (c // 2) * 3 + o
            whole[n, out, 2 * h + i * dh, 3 * w + j * dw] += x[n, c, h, w] * kernel[c, o, i, j]
    want = whole[:, :, 1:, : whole.shape[3] - 2]
    np.testing.assert_allclose(got, want + bias[:, None, None])
    np.testing.assert_allclose(_RUN["DECONVOLUTION"]([x], {"kernel": kernel}, places), want)


@pytest.mark.parametrize(
    ("op", "given", "wanted"),
    [
        ("MAX", {}, [2, 4]),
        ("MAX", {"round": "UP"}, [2, 4, 5]),
        ("AVERAGE", {"round": "UP"}, [1.5, 3.5, 5]),
        ("MAX", {"pre_padding": [0, 1]}, [1, 3, 5]),
        ("AVERAGE", {"pre_padding": [0, 1], "exclude_padding": True}, [1, 2.5, 4.5]),
        ("AVERAGE", {"pre_padding": [0, 1]}, [0.5, 2.5, 4.5]),
        ("AVERAGE", {"post_padding": [0, 1]}, [1.5, 3.5, 2.5]),
        ("AVERAGE", {"post_padding": [0, 1], "exclude_padding": True}, [1.5, 3.5, 5]),
        # A window that begins behind the input is left out.
        ("MAX", {"round": "UP", "stride": [1, 3], "post_padding": [0, 1]}, [2, 5]),
        ("MAX", {"round": "UP", "stride": [1, 4], "window": [1, 1]}, [1, 5]),
    ],
)
def test_pooling(op: str, given: dict[str, Any], wanted: list[float]) -> None:
    """Of 1 to 5, two at a time."""
    plain = {"window": [1, 2], "stride": [1, 2], "pre_padding": [0, 0], "post_padding": [0, 0]}
    params = {"op": op, "round": "DOWN", "exclude_padding": False, **plain, **given}
    x = np.arange(1.0, 6).reshape(1, 1, 1, 5)
    assert _RUN["POOLING"]([x], {}, params).ravel().tolist() == wanted


X, Y = np.array([[-1.0, 2], [3, -4]]), np.array([[2.0, 2], [1, 2]])


@pytest.mark.parametrize(
    ("kind", "args", "params", "wanted"),
    [
        ("ACTIVATION", [X], {"op": "LEAKY_RELU", "alpha": 0.5, "beta": 0}, [[-0.5, 2], [3, -2]]),
        ("ACTIVATION", [X], {"op": "CLIP", "alpha": -2, "beta": 1}, [[-1, 1], [1, -2]]),
        ("ACTIVATION", [X], {"op": "RELU", "alpha": 0, "beta": 0}, [[0, 2], [3, 0]]),
        ("ELEMENTWISE", [X, Y], {"op": "SUB"}, [[-3, 0], [2, -6]]),
        ("ELEMENTWISE", [X, Y], {"op": "POW"}, [[1, 4], [3, 16]]),
        ("MATRIX_MULTIPLY", [X, Y], {"op0": "NONE", "op1": "NONE"}, X @ Y),
        ("MATRIX_MULTIPLY", [X, Y], {"op0": "TRANSPOSE", "op1": "NONE"}, X.T @ Y),
        ("MATRIX_MULTIPLY", [X, Y], {"op0": "NONE", "op1": "TRANSPOSE"}, X @ Y.T),
        ("REDUCE", [X], {"op": "SUM", "axes": [1], "keep_dims": True}, [[1], [-1]]),
        ("REDUCE", [X], {"op": "AVG", "axes": [0], "keep_dims": False}, [1, -1]),
        ("SOFTMAX", [X * 0], {"axis": 1}, [[0.5, 0.5], [0.5, 0.5]]),
        ("CONCATENATION", [X, Y], {"axis": 1}, np.hstack([X, Y])),
        ("SHUFFLE", [X], {"first_transpose": [1, 0], "reshape": [4]}, [-1, 3, 2, -4]),
        ("SHUFFLE", [X], {"first_transpose": None, "reshape": None}, X),
        ("UNARY", [X], {"op": "NEG"}, -X),
    ],
)
def test_other_layers(kind: str, args: list[Any], params: dict[str, Any], wanted: Any) -> None:
    np.testing.assert_allclose(_RUN[kind](args, {}, params), wanted)
    scale = {"scale": np.array([1.0, 10]), "shift": np.array([0.0, 1])}
    np.testing.assert_allclose(_RUN["SCALE"]([X], scale, {"axis": 1}), [[-1, 21], [3, -39]])


def good() -> tuple[dict[str, Any], dict[str, Any]]:
    """x * scale + shift, then the largest of that and x."""
    kind = {"dtype": "float32", "shape": [2, "n"]}
    scaled = {
        "name": "s", "type": "SCALE", "inputs": ["x"], "outputs": ["t"], "precision": "float32",
        "weights": {"scale": "a", "shift": "b"}, "params": {"axis": 0},
    }  # fmt: skip
    largest = {
        "name": "m", "type": "ELEMENTWISE", "inputs": ["t", "x"], "outputs": ["y"],
        "precision": "float32", "weights": {}, "params": {"op": "MAX"},
    }  # fmt: skip
    weights = {name: {"dtype": "float32", "shape": [2]} for name in "ab"}
    description = {
        "format": "loopwright.network", "version": 1, "name": "net", "builder": {}, "inputs": ["x"],
        "outputs": ["y"], "tensors": {n: dict(kind) for n in "xty"}, "weights": weights,
        "layers": [scaled, largest],
    }  # fmt: skip
    return description, {"a": np.float32([2, 3]), "b": np.float32([1, 0])}


def test_a_description_is_run_and_saved(tmp_path: Any) -> None:
    network = Network(*good())
    x = np.float32([[1, -5], [2, -1]])
    for made in (network, Network.load(network.save(tmp_path / "deep"))):
        (y,) = made.run(x)
        assert y.dtype == np.float32 and y.tolist() == [[3, -5], [6, -1]]


CHANGES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("version",), 2, "version is 1\n  got: 2"),
    (("name",), None, "the description has name"),
    (("tensors", "t", "shape"), [2.5], "the extents of tensor t are integers or words"),
    (("tensors", "t", "shape"), [True], "the extents of tensor t"),
    (("tensors", "t", "dtype"), None, "tensor t has dtype\n  got: shape"),
    (("weights", "a", "shape"), [3], r"weight a is float32 \[3\]\n  got: float32 \[2\]"),
    (("weights", "a", "dtype"), "float64", "weight a is float64"),
    (
        ("weights", "c"),
        {"dtype": "int8", "shape": []},
        "the values of weight c are given\n  got: a, b",
    ),
    (
        ("layers", 0, "type"),
        "SCALES",
        "layer s: unknown type SCALES\n  instead: did you mean SCALE",
    ),
    (("layers", 0, "inputs"), ["x", "x"], "layer s has 1 inputs\n  got: 2"),
    (("layers", 0, "inputs"), ["t"], "layer s reads tensors that are there by then\n  got: t"),
    (("layers", 0, "outputs"), ["x"], "layer s makes a declared tensor, once\n  got: x"),
    (("layers", 0, "outputs"), ["z"], "layer s makes a declared tensor, once\n  got: z"),
    (("layers", 0, "weights", "shift"), None, "the weights of layer s has shift"),
    (("layers", 0, "weights", "more"), "a", "layer s has the weights scale, shift\n  got: more: a"),
    (
        ("layers", 0, "weights", "shift"),
        "z",
        "layer s has the weights scale, shift\n  got: shift: z",
    ),
    (("layers", 1, "weights", "scale"), "a", "layer m has the weights none\n  got: scale: a"),
    (("layers", 0, "params", "axis"), 1.5, "layer s: axis is an integer\n  got: 1.5"),
    (("layers", 0, "params", "axis"), True, "layer s: axis is an integer"),
    (("layers", 0, "params", "axis"), None, "the parameters of layer s has axis\n  got: nothing"),
    (("layers", 1, "params", "op"), "MOST", "layer m: op is one of SUM, SUB"),
    (("layers", 0, "name"), None, "a layer has name"),
    (("layers", 0), 3, "a layer is a dict\n  got: int"),
    (("outputs",), ["z"], "the input or output z is a tensor that something makes"),
    (("inputs",), ["x", "q"], "the input or output q is a tensor"),
]


@pytest.mark.parametrize(("place", "value", "message"), CHANGES)
def test_what_is_no_description(place: tuple[Any, ...], value: Any, message: str) -> None:
    """A part is another, or is not there (None)."""
    description, weights = copy.deepcopy(good())
    at: Any = description
    for key in place[:-1]:
        at = at[key]
    if value is None:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    with pytest.raises(LoopwrightError, match=message):
        Network(description, weights)
