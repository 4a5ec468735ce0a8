"""Real TFLite networks beside TFLite's interpreter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

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


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TFLITE if n not in WITHOUT_REFERENCE])
def test_as_the_interpreter(name: str):
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    data = content(name)
    for feeds in TFLITE[name].cases():
        arrays = list(feeds.values())
        for got, wanted in zip(run(data, arrays), interpreted(data, arrays), strict=True):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            most = np.abs(wanted).max()
            np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * most)


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
