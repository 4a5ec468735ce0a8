"""The rule for the greatest values of windows: no conditions, whatever the sizes, and the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax
from loopwright.ir.prim_expr import Var
from loopwright.relax import op
from loopwright.relax.interpreter import Interpreter

from ..relax.transform.graphs import graph

CASES = [  # shape, attributes
    ((2, 9, 13, 21), {"pool_size": [3, 3], "strides": [2, 2], "padding": [1, 1]}),
    ((1, 3, 9, 113), {"pool_size": [3, 3], "strides": [2, 2]}),
    ((1, 16, 12, 12), {"pool_size": [2, 3], "padding": [0, 1, 1, 2]}),
    ((1, 8, 7, 40), {"pool_size": [3, 2], "dilation": [2, 3], "padding": [2, 1]}),
    ((1, 2, 9, 70), {"pool_size": [2, 2], "strides": [2, 2], "ceil_mode": True}),
    ((Var("n", "int64"), 4, 10, 10), {"pool_size": [5, 5], "padding": [2, 2]}),
    ((1, 12, 300, 33), {"pool_size": [1, 3], "padding": [1, 0, 0, 2], "strides": [1, 2]}),
]  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "float32"])
@pytest.mark.parametrize(("shape", "attrs"), CASES, ids=range(len(CASES)))
def test_windows_of_lines(
    rng: np.random.Generator, shape: Any, attrs: dict[str, Any], dtype: str
) -> None:
    half = lambda emit, x: op.minimum(emit(op.nn.max_pool2d(x, **attrs)), relax.const(100, dtype))  # noqa: E731
    mod = graph(half, shape, dtype=dtype)
    dims = [d if isinstance(d, int) else 3 for d in shape]
    if dtype == "float32":
        x = rng.standard_normal(dims).astype(dtype)
        x[0, 0, 0, 0] = np.nan
    else:
        x = rng.integers(0, 256, dims).astype("uint8").view(dtype)
    shares = attrs.get("strides", [1, 1])[1] < attrs["pool_size"][1]  # columns of windows
    text = lw.lower(mod).last("ApplyDefaultSchedule").after.script()
    assert ("pool_lines" in text) == (shares or dtype != "float32")
    want = Interpreter(mod)["main"](x).numpy()
    np.testing.assert_array_equal(lw.compile(mod)["main"](x).numpy(), want)


def test_no_vector_of_bytes_has_a_condition() -> None:
    attrs: dict[str, Any] = {"pool_size": [3, 3], "strides": [2, 2], "padding": [1, 1]}
    mod = graph(lambda emit, x: op.nn.max_pool2d(x, **attrs), (1, 8, 30, 30), dtype="uint8")
    text = lw.lower(mod, "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell").last("tir.VectorizeLoop")
    kernel = text.after.script()
    assert "pool_rows" in kernel and "predicate" not in kernel and "T.Ramp" not in kernel
