"""Gradients compared with differences of the function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Values = Mapping[str, Any] | Sequence[Any]


def check_numerical_grads(
    function: Callable[..., Any], input_values: Values, grad_values: Values,
    function_value: float | None = None, delta: float = 1e-3, atol: float = 1e-2, rtol: float = 0.1,
) -> None:  # fmt: skip
    """Raise AssertionError unless the gradients of a function agree with its differences: central
    ones of steps `delta` and `delta / 2`, extrapolated (Richardson).

    input_values: arrays by keyword (a mapping) or by position. The distance of a gradient of n
    elements may be atol * sqrt(n) + rtol * its norm; ValueError where it is not finite. There may
    be fewer gradients than inputs, or none: those are of the first inputs.
    function_value is not needed and kept for programs that give it.
    """
    inputs: Any = input_values
    grads: Any = grad_values
    by_name = isinstance(inputs, Mapping)
    keys = list(inputs) if by_name else list(range(len(inputs)))
    values = {key: np.array(inputs[key]) for key in keys}

    def at(key: str | int, index: int, step: float) -> float:
        moved = values[key].copy()
        moved.reshape(-1)[index] += step
        arguments = {**values, key: moved}
        return float(function(**arguments) if by_name else function(*arguments.values()))

    def slope(key: str | int, index: int, step: float) -> float:
        return (at(key, index, step) - at(key, index, -step)) / (2 * step)

    for key in list(grads) if isinstance(grads, Mapping) else range(len(grads)):
        grad = np.asarray(grads[key])
        if grad.shape != values[key].shape:
            raise AssertionError(
                f"the gradient of input {key!r} has another shape than the input"
                f"\n  got: {grad.shape} for {values[key].shape}"
            )
        slopes = [
            (4 * slope(key, k, delta / 2) - slope(key, k, delta)) / 3 for k in range(grad.size)
        ]
        numeric = np.reshape(slopes, grad.shape)
        distance, norm = np.linalg.norm(numeric - grad), np.linalg.norm(numeric)
        if not np.isfinite(distance + norm):
            raise ValueError(
                f"the gradient of input {key!r} is not finite\n  got: {grad}\n{numeric}"
            )
        if distance > atol * np.sqrt(grad.size) + rtol * norm:
            raise AssertionError(
                f"the gradient of input {key!r} is {distance:.3g} from the differences"
                f"\n  got: {grad}\n  differences: {numeric}"
            )
