"""Real TFLite networks beside TFLite's interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

import loopwright as lw
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
# Outputs, by network and number, that are the sigmoid of one number, and compared by it: pose-landmark's
# number is -80.2 for the photo, and the sigmoid's relative error 80 times the number's.
SIGMOIDS = (("pose-landmark", 1),)
# The pose's mask: see `test_as_near_as_the_interpreter`.
ROUGH = ("pose-landmark", 2)


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


def far(a: np.ndarray, b: np.ndarray) -> float:
    """The greatest difference, by the scale of b."""
    return float(np.abs(a.astype(np.float64) - b).max() / np.abs(b).max())


def logit(p: np.ndarray) -> np.ndarray:
    """The numbers whose sigmoids these are."""
    p = p.astype(np.float64)
    return np.log(p) - np.log1p(-p)


def root_mean_square(a: np.ndarray) -> float:
    return float(np.sqrt(np.mean(a**2)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in TFLITE if n not in WITHOUT_REFERENCE])
def test_as_the_interpreter(name: str):
    """Within 1e-4, but for the output of `test_as_near_as_the_interpreter`."""
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    data = content(name)
    for feeds in TFLITE[name].cases():
        arrays = list(feeds.values())
        pairs = list(zip(run(data, arrays), interpreted(data, arrays), strict=True))
        for k, (got, wanted) in enumerate(pairs):
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            if (name, k) in SIGMOIDS:
                got, wanted = logit(got), logit(wanted)
            assert (name, k) == ROUGH or far(got, wanted) < 1e-4


@pytest.mark.slow
def test_as_near_as_the_interpreter():
    """An output that float32 does not determine within 1e-4: moving the photo by half a last place of float32
    moves the worst pixel by 6e-5, in float64, and so does one of the first convolutions in float32. So both
    are compared with float64, over 12 photos that differ by less than a byte's rounding: in each, all but
    a 500th of our pixels are within 1e-4, and over all of them our errors are as the interpreter's. (The
    logarithm of their ratio has a mean of 0.00 and a deviation of 0.34 over 24 photos; if each convolution's
    result is off by 1.2e-7 of itself more, the mean is about 0.5.)"""
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    name, output = ROUGH
    data, photo = content(name), next(iter(TFLITE[name].feeds().values()))
    compiled: Any = lw.compile(from_tflite(data))
    wide = Wide(from_tflite(data))["main"]
    ratios = []
    for seed in range(12):
        noise = np.random.default_rng(seed).uniform(-0.5 / 255, 0.5 / 255, photo.shape)
        feed = (photo + noise).astype(np.float32)
        exact = np.asarray(wide(feed)[output])
        results = np.asarray(compiled(feed)[output]), interpreted(data, [feed])[output]
        ours, theirs = (np.abs(r - exact) / np.abs(exact).max() for r in results)
        assert np.quantile(ours, 0.998) < 1e-4
        ratios.append(root_mean_square(ours) / root_mean_square(theirs))
    assert np.exp(np.mean(np.log(ratios))) < 1.5  # 4 deviations of the mean of 12


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
