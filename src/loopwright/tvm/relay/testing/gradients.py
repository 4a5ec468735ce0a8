"""Gradients of functions of Relay, as Relax derives them, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ir.module import IRModule
from ....relax.interpreter import Interpreter
from ....relax.transform import ConvertToDataflow, Gradient
from .. import op
from ..expr import Function, TupleGetItem
from ..infer import infer_function
from ..translate import to_relax
from ..types import TupleType


def _loss(func: Function) -> IRModule:
    """A module whose `main` computes the sum of all that a function computes, in Relax."""
    func = infer_function(func, IRModule())
    results: list[Any] = [func.body]
    if isinstance(func.ret_type, TupleType):
        results = [TupleGetItem(func.body, i) for i in range(len(func.ret_type.fields))]
    sums = [op.sum(result) for result in results]
    total = sums[0]
    for one in sums[1:]:
        total = op.add(total, one)
    mod = IRModule.from_expr(Function(func.params, total))
    return ConvertToDataflow(1)(to_relax(mod))


def _slope(run: Callable[..., Any], inputs: list[np.ndarray], at: int, eps: float) -> np.ndarray:
    """The gradient of a function's sum by two-sided differences in one input, in float64."""
    slopes = np.zeros(inputs[at].shape, "float64")
    for index in np.ndindex(*slopes.shape):
        ends = []
        for step in (eps, -eps):
            moved = inputs[at].copy()
            moved[index] += step
            ends.append(float(run(*inputs[:at], moved, *inputs[at + 1 :]).numpy()))
        slopes[index] = (ends[0] - ends[1]) / (2 * eps)
    return slopes


def check_grad(
    func: Function, inputs: Sequence[np.ndarray] | None = None,
    test_inputs: Sequence[np.ndarray] | None = None, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, scale: float | None = None, mean: float = 0, mode: str = "higher_order",
    target_devices: Any = None, executor_kind: str = "debug",
) -> None:  # fmt: skip
    """Check the gradient of the sum of a function's results for `test_inputs`, those of `inputs` that
    are tested (all floats by default). Raises AssertionError where it is not that of differences by
    `eps`, what Relax's Gradient raises where an operator has no gradient.

    inputs: normally distributed around `mean` by default, of the size of 10 `eps` unless `scale` says
    another. Relay has no differentiation of its own here: `mode`, targets and the executor are
    accepted and change nothing.
    """
    mod = _loss(func)
    main = mod["main"]
    if inputs is None:
        deviation = 10 * eps if scale is None else scale
        infos = [p.struct_info for p in main.params]
        normal = np.random.standard_normal
        inputs = [
            np.asarray(mean + deviation * normal([int(d) for d in i.get_shape()])).astype(i.dtype)
            for i in infos
        ]
    arrays = [np.asarray(value) for value in inputs]
    checked = list(inputs if test_inputs is None else test_inputs)
    tested = [
        k
        for k, value in enumerate(inputs)
        if any(value is one for one in checked) and arrays[k].dtype.kind == "f"
    ]
    if not tested:
        raise ValueError("no input of floats to differentiate by")
    adjoint = Gradient("main", [main.params[k] for k in tested])(mod)
    _, grads = Interpreter(adjoint)["main_adjoint"](*arrays)
    run = Interpreter(mod)["main"]
    for k, grad in zip(tested, grads, strict=True):
        numeric = _slope(run, arrays, k, eps)
        np.testing.assert_allclose(grad.numpy(), numeric, atol=atol, rtol=rtol)
