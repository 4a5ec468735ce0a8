"""Real TFLite networks beside TFLite's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

from loopwright.frontend.tflite import from_tflite
from loopwright.relax.interpreter import Interpreter
from tools.zoo import TFLITE, RegistryError, fetch

from .quantizing import codes_of, quantized
from .support import interpreted
from .test_operators import run

# MediaPipe's own operator, which the interpreter has not.
WITHOUT_REFERENCE = ("selfie",)
# In int8 it divides by a number that is 0, which the interpreter refuses.
NOT_QUANTIZED = (*WITHOUT_REFERENCE, "nmp")


def content(name: str) -> bytes:
    try:
        return fetch(name).read_bytes()
    except RegistryError as error:
        pytest.skip(f"the registry of packages is out of reach: {error}")


class Wide(Interpreter):
    """Computes every operator in float64."""

    def operator(self, call: Any, args: list[Any]) -> Any:
        return self.widened(super().operator(call, [self.widened(a) for a in args]))

    def widened(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self.widened(v) for v in value)
        single = isinstance(value, np.ndarray) and value.dtype == np.float32
        return value.astype(np.float64) if single else value


def in_float64(data: bytes, arrays: list[np.ndarray]) -> list[np.ndarray]:
    result = Wide(from_tflite(data))["main"](*arrays)
    parts = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(p).astype(np.float64) for p in parts]


def far(a: np.ndarray, b: np.ndarray) -> float:
    """The greatest difference, by the scale of b."""
    return float(np.abs(a.astype(np.float64) - b).max() / np.abs(b).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TFLITE if n not in WITHOUT_REFERENCE])
def test_as_the_interpreter(name: str):
    """Within 1e-4; where the two differ by more, what is computed in float64 says who is right.
    (pose-landmark's second output is the sigmoid of -80.2: the interpreter's default kernels are 3.5e-4
    off there, its reference kernels 3.1e-4, ours 1.3e-4.)"""
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    data = content(name)
    for feeds in TFLITE[name].cases():
        arrays = list(feeds.values())
        pairs = list(zip(run(data, arrays), interpreted(data, arrays), strict=True))
        for k, (got, wanted) in enumerate(pairs):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            if far(got, wanted) > 1e-4:
                exact = in_float64(data, arrays)[k]
                assert far(got, exact) < far(wanted, exact)
                assert far(got, exact) < 5e-4


@pytest.mark.slow
def test_a_segmentation():
    (mask,) = run(content("selfie"), list(TFLITE["selfie"].feeds().values()))
    assert mask.shape == (1, 256, 256, 1) and 0 <= mask.min() <= mask.max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TFLITE if n not in NOT_QUANTIZED])
def test_in_int8_as_the_reference_kernels(name: str):
    """Within one step."""
    pytest.importorskip("ai_edge_quantizer", reason="ai-edge-quantizer is not installed")
    content(name)
    data = quantized(fetch(name), list(TFLITE[name].cases()))
    codes = codes_of(data, list(TFLITE[name].feeds().values()))
    for got, wanted in zip(run(data, codes), interpreted(data, codes, True), strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype) and got.dtype == np.int8
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1)
