"""A network as TensorRT's builder takes it: its description (JSON), the layers that it may have,
and their meaning (numpy).

| layer | inputs | weights | meaning |
|---|---|---|---|
| CONSTANT | | values | the values |
| CONVOLUTION | x (NCHW) | kernel (OIHW), bias? (O) | a padded, strided, dilated, grouped convolution |
| DECONVOLUTION | x (NCHW) | kernel (IOHW), bias? (O) | its transposition |
| SCALE | x | scale, shift | x * scale + shift, by the extents of an axis |
| MATRIX_MULTIPLY | a, b (one rank) | | a @ b, either transposed |
| ACTIVATION | x | | RELU, SIGMOID, TANH, LEAKY_RELU (alpha), CLIP (alpha to beta) |
| ELEMENTWISE | a, b (one rank) | | SUM, SUB, PROD, DIV, MAX, MIN, POW |
| UNARY | x | | EXP, LOG, SQRT, ABS, FLOOR, CEIL, ERF, NEG |
| POOLING | x (NCHW) | | MAX, AVERAGE of windows |
| REDUCE | x | | SUM, AVG, MAX, MIN over axes |
| SOFTMAX | x | | along an axis |
| CONCATENATION | some | | along an axis |
| SHUFFLE | x | | transposed, then reshaped; -1: the remaining elements |

An extent that is known only at run time is a name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain, suggest
from ...ops import OPERATORS

FORMAT = {"format": "loopwright.network", "version": 1}
KEYS = ("format", "version", "name", "builder", "inputs", "outputs", "tensors", "weights", "layers")
_PAIR, _FLAG, _WORD, _NUMBER = "two integers", "a boolean", "a word", "a number"
_INT, _INTS, _INTS_OR_NONE = "an integer", "integers", "integers or null"

_WINDOWS = {
    "maps": _INT,
    "kernel_size": _PAIR,
    "stride": _PAIR,
    "pre_padding": _PAIR,
    "post_padding": _PAIR,
    "dilation": _PAIR,
    "groups": _INT,
}
# Layer type -> (how many inputs; None: any number), {weight: whether it may be left out}, {parameter: kind}.
LAYERS: dict[str, tuple[int | None, dict[str, bool], dict[str, str]]] = {
    "CONSTANT": (0, {"values": False}, {}),
    "CONVOLUTION": (1, {"kernel": False, "bias": True}, _WINDOWS),
    "DECONVOLUTION": (1, {"kernel": False, "bias": True}, _WINDOWS),
    "SCALE": (1, {"scale": False, "shift": False}, {"axis": _INT}),
    "MATRIX_MULTIPLY": (2, {}, {"op0": _WORD, "op1": _WORD}),
    "ACTIVATION": (1, {}, {"op": _WORD, "alpha": _NUMBER, "beta": _NUMBER}),
    "ELEMENTWISE": (2, {}, {"op": _WORD}),
    "UNARY": (1, {}, {"op": _WORD}),
    "POOLING": (
        1,
        {},
        {
            "op": _WORD,
            "window": _PAIR,
            "stride": _PAIR,
            "pre_padding": _PAIR,
            "post_padding": _PAIR,
            "round": _WORD,
            "exclude_padding": _FLAG,
        },
    ),
    "REDUCE": (1, {}, {"op": _WORD, "axes": _INTS, "keep_dims": _FLAG}),
    "SOFTMAX": (1, {}, {"axis": _INT}),
    "CONCATENATION": (None, {}, {"axis": _INT}),
    "SHUFFLE": (1, {}, {"first_transpose": _INTS_OR_NONE, "reshape": _INTS_OR_NONE}),
}


class Network:
    """A network description with the values of its weights.

    Raises LoopwrightError if the description is invalid or weights are missing.
    """

    def __init__(self, description: Mapping[str, Any], weights: Mapping[str, Any]) -> None:
        self.description = dict(description)
        self.weights = {name: np.asarray(value) for name, value in weights.items()}
        check(self.description, self.weights)

    def save(self, folder: str | Path) -> Path:
        """Write NAME.json and, with the weights by name, NAME.npz; return the path of the first."""
        path = Path(folder, f"{self.description['name']}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text(), encoding="utf-8")
        np.savez(path.with_suffix(".npz"), allow_pickle=False, **self.weights)
        return path

    @staticmethod
    def load(path: str | Path) -> Network:
        """Read what `save` wrote."""
        path = Path(path)
        with np.load(path.with_suffix(".npz")) as weights:
            return Network(json.loads(path.read_text(encoding="utf-8")), dict(weights))

    def text(self) -> str:
        """The description as JSON, one line per tensor, weight and layer."""
        return "{\n" + ",\n".join(_section(k, v) for k, v in self.description.items()) + "\n}"

    def run(self, *inputs: np.ndarray[Any, Any]) -> list[np.ndarray]:
        """The results, computed in numpy in the precision of the tensors."""
        description = self.description
        env = dict(zip(description["inputs"], map(np.asarray, inputs), strict=True))
        for layer in description["layers"]:
            args = [env[name] for name in layer["inputs"]]
            weights = {role: self.weights[name] for role, name in layer["weights"].items()}
            value = _RUN[layer["type"]](args, weights, layer["params"])
            out = layer["outputs"][0]
            env[out] = np.asarray(value, dtype=description["tensors"][out]["dtype"])
        return [env[name] for name in description["outputs"]]


def _section(key: str, value: Any) -> str:
    if key in ("tensors", "weights"):
        rows = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()]
        return f' "{key}": {{\n' + ",\n".join(rows) + "\n }"
    if key == "layers":
        return ' "layers": [\n' + ",\n".join(f"  {json.dumps(v)}" for v in value) + "\n ]"
    return f' "{key}": {json.dumps(value)}'


# ---------------------------------------------------------------------- validation


def check(description: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> None:
    """Raise LoopwrightError if a description is invalid, naming the place."""
    _is(description, dict, "the description")
    _has(description, KEYS, "the description")
    for key, value in FORMAT.items():
        if description[key] != value:
            _wrong(f"{key} is {value}", description[key])
    for name, tensor in description["tensors"].items():
        _has(tensor, ("dtype", "shape"), f"tensor {name}")
        if not all(_integer(d) or isinstance(d, str) for d in tensor["shape"]):
            _wrong(f"the extents of tensor {name} are integers or words", tensor["shape"])
    for name, weight in description["weights"].items():
        _has(weight, ("dtype", "shape"), f"weight {name}")
        if name not in weights:
            _wrong(f"the values of weight {name} are given", ", ".join(weights) or "nothing")
        got = (str(weights[name].dtype), list(weights[name].shape))
        if got != (weight["dtype"], list(weight["shape"])):
            _wrong(f"weight {name} is {weight['dtype']} {weight['shape']}", f"{got[0]} {got[1]}")
    defined = set(description["inputs"])
    for layer in description["layers"]:
        _layer(layer, description, defined)
        defined.update(layer["outputs"])
    for name in (*description["inputs"], *description["outputs"]):
        if name not in description["tensors"] or name not in defined:
            _wrong(f"the input or output {name} is a tensor that something makes", "none")


def _layer(layer: Mapping[str, Any], description: Mapping[str, Any], defined: set[str]) -> None:
    _has(layer, ("name", "type", "inputs", "outputs", "weights", "precision", "params"), "a layer")
    where = f"layer {layer['name']}"
    if layer["type"] not in LAYERS:
        what = f"{where}: unknown type {layer['type']}"
        raise LoopwrightError(explain(what, instead=suggest(layer["type"], LAYERS)))
    count, roles, params = LAYERS[layer["type"]]
    if count is not None and len(layer["inputs"]) != count:
        _wrong(f"{where} has {count} inputs", len(layer["inputs"]))
    for name in layer["inputs"]:
        if name not in defined:
            _wrong(f"{where} reads tensors that are there by then", name)
    for name in layer["outputs"]:
        if name in defined or name not in description["tensors"]:
            _wrong(f"{where} makes a declared tensor, once", name)
    needed = [role for role, optional in roles.items() if not optional]
    _has(layer["weights"], needed, f"the weights of {where}")
    for role, name in layer["weights"].items():
        if role not in roles or name not in description["weights"]:
            _wrong(f"{where} has the weights {', '.join(roles) or 'none'}", f"{role}: {name}")
    _has(layer["params"], params, f"the parameters of {where}")
    for name, kind in params.items():
        if not _KINDS[kind](layer["params"][name]):
            _wrong(f"{where}: {name} is {kind}", layer["params"][name])
    words = OPS.get(layer["type"], ())
    if words and layer["params"]["op"] not in words:
        _wrong(f"{where}: op is one of {', '.join(words)}", layer["params"]["op"])


def _integer(value: str | float) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integers(value: Sequence[int]) -> bool:
    return isinstance(value, list) and all(map(_integer, value))


_KINDS: dict[str, Callable[[Any], bool]] = {
    _INT: _integer,
    _INTS: _integers,
    _INTS_OR_NONE: lambda v: v is None or _integers(v),
    _PAIR: lambda v: _integers(v) and len(v) == 2,
    _FLAG: lambda v: isinstance(v, bool),
    _WORD: lambda v: isinstance(v, str),
    _NUMBER: lambda v: isinstance(v, float) or _integer(v),
}


def _is(value: int | Mapping[str, Any], kind: type, what: str) -> None:
    if not isinstance(value, kind):
        _wrong(f"{what} is a {kind.__name__}", type(value).__name__)


def _has(value: Any, keys: Sequence[str] | Mapping[str, str], what: str) -> None:
    _is(value, dict, what)
    for key in keys:
        if key not in value:
            _wrong(f"{what} has {key}", ", ".join(value) or "nothing")


def _wrong(what: str, got: str | float | list[float]) -> None:
    raise LoopwrightError(explain(f"this is not a network description: {what}", got=got))


# ---------------------------------------------------------------------- semantics


def _meaning(name: str) -> Callable[..., Any]:
    """The numpy meaning of a graph operator."""
    return OPERATORS[f"relax.{name}"].op.get_attr("FNumpy")


def _convolution(name: str, kernel_layout: str, **more: Any) -> Callable[..., np.ndarray]:
    def run(args: list[np.ndarray[Any, Any]], weights: Any, p: Mapping[str, Any]) -> np.ndarray:
        result = _meaning(name)(
            args[0], weights["kernel"], strides=p["stride"],
            padding=[*p["pre_padding"], *p["post_padding"]], dilation=p["dilation"],
            groups=p["groups"], data_layout="NCHW", kernel_layout=kernel_layout, out_layout="NCHW",
            **more,
        )  # fmt: skip
        return result + weights["bias"].reshape(-1, 1, 1) if "bias" in weights else result

    return run


def _scale(
    args: Sequence[np.ndarray[Any, Any]],
    weights: Mapping[str, np.ndarray[Any, Any]],
    p: Mapping[str, int],
) -> np.ndarray:
    (x,) = args
    shape = [-1 if k == p["axis"] else 1 for k in range(x.ndim)]
    return x * weights["scale"].reshape(shape) + weights["shift"].reshape(shape)


def _pooling(
    args: Sequence[np.ndarray[Any, Any]], weights: Mapping[Any, Any], p: Mapping[str, Any]
) -> np.ndarray:
    (x,) = args
    more = [_beyond(x.shape[2 + k], p, k) for k in (0, 1)]

    def windows(values: np.ndarray, padding: float, outside: float) -> np.ndarray:
        pairs = zip(p["pre_padding"], p["post_padding"], strict=True)
        inside = np.pad(values, [(0, 0), (0, 0), *pairs], constant_values=padding)
        wide = np.pad(inside, [(0, 0), (0, 0), *((0, m) for m in more)], constant_values=outside)
        views = np.lib.stride_tricks.sliding_window_view(wide, p["window"], axis=(2, 3))
        return views[:, :, :: p["stride"][0], :: p["stride"][1]]

    if p["op"] == "MAX":
        return windows(x, -np.inf, -np.inf).max((-2, -1))
    counted = windows(np.ones_like(x), 0.0 if p["exclude_padding"] else 1.0, 0.0).sum((-2, -1))
    return windows(x, 0, 0).sum((-2, -1)) / counted


def _beyond(extent: int, p: Mapping[str, Any], k: int) -> int:
    """The distance by which the last window exceeds the padded input if sizes are rounded up."""
    whole = extent + p["pre_padding"][k] + p["post_padding"][k] - p["window"][k]
    if p["round"] != "UP":
        return 0
    steps = -(-whole // p["stride"][k])
    if steps * p["stride"][k] >= extent + p["pre_padding"][k]:
        steps -= 1  # no window starts in the trailing padding
    return max(steps * p["stride"][k] - whole, 0)


def _matmul(
    args: Sequence[np.ndarray[Any, Any]], weights: Mapping[Any, Any], p: Mapping[str, str]
) -> np.ndarray:
    flipped = (
        np.swapaxes(x, -1, -2) if p[f"op{k}"] == "TRANSPOSE" else x for k, x in enumerate(args)
    )
    return np.matmul(*flipped)


def _shuffle(
    args: Sequence[np.ndarray[Any, Any]],
    weights: Mapping[Any, Any],
    p: Mapping[str, Sequence[int] | None],
) -> np.ndarray:
    (x,) = args
    permuted = x if p["first_transpose"] is None else x.transpose(p["first_transpose"])
    return permuted if p["reshape"] is None else permuted.reshape(p["reshape"])


_ACTIVATIONS: dict[str, Callable[[Any, float, float], Any]] = {
    "RELU": lambda x, a, b: np.maximum(x, 0),
    "SIGMOID": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "TANH": lambda x, a, b: np.tanh(x),
    "LEAKY_RELU": lambda x, a, b: np.where(x > 0, x, a * x),
    "CLIP": lambda x, a, b: np.clip(x, a, b),
}
_ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    "SUM": np.add,
    "SUB": np.subtract,
    "PROD": np.multiply,
    "DIV": np.divide,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "POW": np.power,
}
_UNARY: dict[str, Callable[[Any], Any]] = {
    "EXP": np.exp,
    "LOG": np.log,
    "SQRT": np.sqrt,
    "ABS": np.abs,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "ERF": np.vectorize(math.erf, otypes=[float]),
    "NEG": np.negative,
}
_REDUCE: dict[str, Callable[..., Any]] = {
    "SUM": np.sum,
    "AVG": np.mean,
    "MAX": np.max,
    "MIN": np.min,
}
OPS: dict[str, tuple[str, ...]] = {
    "ACTIVATION": tuple(_ACTIVATIONS),
    "ELEMENTWISE": tuple(_ELEMENTWISE),
    "UNARY": tuple(_UNARY),
    "REDUCE": tuple(_REDUCE),
    "POOLING": ("MAX", "AVERAGE"),
}
_RUN: dict[str, Callable[[list[Any], dict[str, Any], dict[str, Any]], Any]] = {
    "CONSTANT": lambda args, w, p: w["values"],
    "CONVOLUTION": _convolution("nn.conv2d", "OIHW"),
    "DECONVOLUTION": _convolution("nn.conv2d_transpose", "IOHW", output_padding=[0, 0]),
    "SCALE": _scale,
    "MATRIX_MULTIPLY": _matmul,
    "ACTIVATION": lambda args, w, p: _ACTIVATIONS[p["op"]](args[0], p["alpha"], p["beta"]),
    "ELEMENTWISE": lambda args, w, p: _ELEMENTWISE[p["op"]](*args),
    "UNARY": lambda args, w, p: _UNARY[p["op"]](args[0]),
    "POOLING": _pooling,
    "REDUCE": lambda args, w, p: _REDUCE[p["op"]](
        args[0], axis=tuple(p["axes"]), keepdims=p["keep_dims"]
    ),
    "SOFTMAX": lambda args, w, p: _meaning("nn.softmax")(args[0], axis=p["axis"]),
    "CONCATENATION": lambda args, w, p: np.concatenate(args, axis=p["axis"]),
    "SHUFFLE": _shuffle,
}
