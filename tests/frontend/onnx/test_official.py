"""The ONNX project's own tests of single operators, in the Relax interpreter.

A model whose operators all have converters must import and give the expected outputs, but for
the exceptions below. Inputs that Loopwright must know while importing (axes, shapes) are made
weights where the model does not import otherwise.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.analysis import find_violations

from .support import interpreted

pytestmark = [pytest.mark.slow, pytest.mark.no_roundtrip]

# Patterns of test names, and why they do not pass.
EXCEPTIONS = {
    r"label_encoder|string|strnorm|regex|optional": "only tensors of numbers",
    r"reduce_.*empty_set": "numpy has no greatest element of none",
    r"celu_bfloat16|attention_.*_(bf|fp)16": "rounded after each step",
    r"dft_inverse": "computed in float32",
    r"[iI][nN][tT][24]": "types below a byte are held one element per byte",
    r"resize_downsample_scales_(linear|cubic)_align_corners": "placed by the extent rounded down",
    r"bernoulli": "random numbers without a seed",
    r"affine_grid.*_expanded": "axes to squeeze that only the run tells",
}


def array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def with_weights(model: onnx.ModelProto, inputs: list[np.ndarray]) -> onnx.ModelProto:
    """The model with its small integers and its scales as weights."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for port, value in zip(model.graph.input, inputs, strict=True):
        small = value.size <= 64 and value.dtype.kind in "iub"
        if small or value.size <= 1 or port.name == "scales":
            made.graph.initializer.append(numpy_helper.from_array(value, port.name))
    return made


def problem(case: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> str | None:
    """What is wrong with one test, None when it passes."""
    names = [port.name for port in case.model.graph.input]
    feeds = dict(zip(names, inputs, strict=True))
    try:
        mod = from_onnx(case.model)
    except LoopwrightError as error:
        if "have no converter" in str(error):
            raise
        mod = from_onnx(with_weights(case.model, inputs))
    if find_violations(mod):
        return str(find_violations(mod)[0])
    for got, expected in zip(interpreted(mod, feeds), outputs, strict=True):
        if got.shape != expected.shape or got.dtype != expected.dtype:
            return f"{got.dtype} {got.shape} for {expected.dtype} {expected.shape}"
        a, b = got.astype(np.float64), expected.astype(np.float64)
        if not np.allclose(a, b, max(case.rtol, 1e-4), max(case.atol, 1e-5), equal_nan=True):
            return f"off by {np.abs(a - b).max()}"
    return None


def test_all():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases = collect_testcases(None)
    passed, failed = 0, {}
    for case in cases:
        if any(re.search(pattern, case.name) for pattern in EXCEPTIONS):
            continue
        inputs, outputs = ([array(v) for v in side] for side in case.data_sets[0])
        if not all(isinstance(v, np.ndarray) for v in [*inputs, *outputs]):
            continue
        try:
            found = problem(case, inputs, outputs)
        except Exception as error:
            if "have no converter" in str(error) or "which has no converter" in str(error):
                continue
            found = f"{type(error).__name__}: {error}"
        passed += found is None
        if found is not None:
            failed[case.name] = found
    assert not failed, "\n".join(f"{name}: {what}" for name, what in failed.items())
    assert passed > 1300
