"""Parameters of networks: a value for each, by the end of its name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import numpy_dtype
from ....ir.module import IRModule
from ....runtime.tensor import Tensor, tensor
from ..expr import Function
from ..transform import InferType

# The kinds of parameters by the ends of their names; all others are weights.
VALUES = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}


class Initializer:
    """Fills an array by the name of its parameter; a subclass fills weights."""

    def __call__(self, desc: str, arr: np.ndarray) -> None:
        value = next((v for end, v in VALUES.items() if desc.endswith(end)), None)
        if desc.endswith("weight"):
            self._init_weight(desc, arr)
        elif value is not None:
            arr[...] = value
        else:
            what = f"Unknown initialization pattern for {desc}"
            hint = f"end its name in one of: weight, {', '.join(VALUES)}"
            raise ValueError(explain(what, instead=hint))

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not fill weights")


class Xavier(Initializer):
    """Uniform numbers as far from 0 as keeps the variance of what flows through. Reference: Glorot
    and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    factor_type: the units that the width counts: "in", "out", or "avg". magnitude: the square of
    the range at width 1.
    """

    def __init__(
        self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3
    ) -> None:
        if rnd_type != "uniform" or factor_type not in ("in", "out", "avg"):
            what = "Xavier takes uniform numbers, by width in, out or avg"
            raise ValueError(explain(what, got=f"{rnd_type}, {factor_type}"))
        self.factor_type, self.magnitude = factor_type, float(magnitude)

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            raise ValueError(explain(f"{name} is a vector, which has no width", got=arr.shape))
        window = float(np.prod(arr.shape[2:]))
        fan_in, fan_out = arr.shape[1] * window, arr.shape[0] * window
        widths = {"in": fan_in, "out": fan_out, "avg": (fan_in + fan_out) / 2}
        width = window if "depthwise" in name else widths[self.factor_type]
        scale = np.sqrt(self.magnitude / width)
        arr[...] = np.random.uniform(-scale, scale, size=arr.shape)


class Constant(Initializer):
    """Weights that are all the same, and whose sum is 1."""

    def _init_weight(self, name: str, arr: np.ndarray) -> None:
        arr[...] = 1.0 / arr.size


def create_workload(
    net: Function, initializer: Initializer | None = None, seed: int = 0
) -> tuple[IRModule, dict[str, Tensor]]:
    """A network's module with its types, and values of all its parameters but "data"."""
    mod = InferType()(IRModule.from_expr(net))
    fill = Xavier() if initializer is None else initializer
    np.random.seed(seed)
    params = {}
    for param in mod["main"].params:
        if param.name_hint != "data":
            type_ = param.checked_type
            values = np.zeros(type_.concrete_shape, "float32")
            fill(param.name_hint, values)
            params[param.name_hint] = tensor(values.astype(numpy_dtype(type_.dtype)))
    return mod, params


def workload_of(get_net: Callable[..., Function]) -> Callable[..., Any]:
    """A function of the arguments of `get_net`: the network as a module, and values of its
    parameters."""

    @functools.wraps(get_net)
    def get_workload(*args: Any, **options: Any) -> Any:
        return create_workload(get_net(*args, **options))

    get_workload.__doc__ = "The network as a module, and parameters; arguments as of `get_net`."
    return get_workload
