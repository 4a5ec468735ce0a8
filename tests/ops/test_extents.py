"""Extents that only the run can compare: they fit, or are refused, for every operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright.ops.core import OPERATORS
from loopwright.relax import Var
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.tir import Var as TirVar

from . import matrix


def _takes_several(operator) -> bool:
    kinds = [p.kind for p in operator.graph_params]
    again = operator.body.__module__.endswith(".family") and operator.name != "relax.add"
    return not again and ("Tensors" in kinds or kinds.count("Tensor") > 1)


NAMES = [
    name
    for name, operator in OPERATORS.items()
    if operator.cases and operator.op.get_attr("FNumpy") and _takes_several(operator)
]


# Operators whose inference needs to know an extent: a count of numbers, the length of index vectors.
REFUSED = {
    *(
        "relax.gather_nd",
        "relax.scatter_nd",
        "relax.quantize",
        "relax.dequantize",
        "relax.requantize",
    ),
    *("relax.multinomial_from_uniform", "relax.dynamic_strided_slice"),
}


class _Free(matrix._Maker):
    """Every extent of every tensor is a symbol of its own."""

    def tensor(self, given: Any) -> Any:
        var, array = super().tensor(given)
        if var in self.params:
            dims = [TirVar(f"d{len(self.params)}_{a}", "int64") for a in range(array.ndim)]
            var = Var(var.name_hint, TensorStructInfo(dims, str(array.dtype)))
            self.params[-1] = var
        return var, array


@pytest.mark.sample(2)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("name", NAMES)
def test_no_kernel_runs_on_extents_that_numpy_refuses(name, monkeypatch):
    operator = OPERATORS[name]
    monkeypatch.setattr(matrix, "_Maker", _Free)
    for case in operator.cases[:2]:
        if name in REFUSED:
            with pytest.raises((lw.LoopwrightError, ValueError)):
                lw.compile(matrix.make(operator, case).module)
            break
        sample = matrix.make(operator, case)
        run = lw.compile(sample.module)["main"]
        for inputs in changed(sample.inputs):
            check(operator, sample, run, inputs)


def changed(inputs: list[np.ndarray]):
    """The inputs, and with one axis of one of them longer or shorter."""
    yield inputs
    for k, array in enumerate(inputs):
        for axis in (a for a in range(array.ndim) if array.shape[a]):
            for size in (array.shape[axis] + 3, array.shape[axis] - 1):
                other = np.take(array, np.arange(size) % array.shape[axis], axis)
                yield [*inputs[:k], other, *inputs[k + 1 :]]


def check(operator, sample, run, inputs) -> None:
    new = {id(old): array for old, array in zip(sample.inputs, inputs, strict=True)}

    def swapped(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(swapped(v) for v in value)
        return new.get(id(value), value)

    attrs = {} if sample.call.attrs is None else dict(sample.call.attrs.items())
    try:
        expected = operator.op.get_attr("FNumpy")(*map(swapped, sample.args), **attrs)
    except (ValueError, IndexError):
        expected = None
    try:
        got = run(*inputs)
    except (ValueError, IndexError):
        # Inputs that fit are computed; of others, the references cut or repeat some that we refuse.
        assert inputs is not sample.inputs
        return
    shapes = [a.shape for a in inputs]
    assert expected is not None, f"{shapes}: numpy refuses these"
    pairs = zip(listed(expected), listed(got), strict=True)
    assert all(np.shape(a) == tuple(b.shape) for a, b in pairs), f"{shapes}: another shape"


def listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]
