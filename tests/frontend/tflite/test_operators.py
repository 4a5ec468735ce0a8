"""Each operator of real numbers: what numpy says, and what TFLite's own interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("tflite", reason="the package tflite, TFLite's schema, is not installed")

import loopwright as lw
from loopwright.frontend.tflite import from_tflite
from loopwright.frontend.tflite.converters.base import HOW

from .cases import CASES, Case
from .support import interpreted

BY_ID = {case.id: case for case in CASES}


def run(data: bytes, feeds: list[np.ndarray]) -> list[np.ndarray]:
    out: Any = lw.compile(from_tflite(data))(*feeds)
    return [np.asarray(o) for o in (out if isinstance(out, (list, tuple)) else [out])]


def compare(got: list[np.ndarray], wanted: list[np.ndarray], tolerance: float = 2e-6) -> None:
    assert [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in wanted]
    for g, w in zip(got, wanted, strict=True):
        if w.dtype.kind == "f":
            np.testing.assert_allclose(
                g, w, tolerance, tolerance * max(np.abs(w).max(initial=1), 1)
            )
        else:
            np.testing.assert_array_equal(g, w)


# Operators with tests of their own: test_importer, test_quantized, test_sparse.
ELSEWHERE = {
    *("DENSIFY", "DEQUANTIZE", "IF", "QUANTIZE", "SVDF", "TFLite_Detection_PostProcess"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE"),
}


def test_each_operator_has_a_case():
    assert {case.kind for case in CASES} | ELSEWHERE == set(HOW)


@pytest.mark.sample(8)
@pytest.mark.parametrize("case", CASES, ids=BY_ID)
def test_against_numpy(case: Case):
    compare(run(case.graph(), case.inputs), case.expected())


# The interpreter has no such custom operator, no narrow ranges, and wants that state as a variable.
REFUSED = ("Convolution2DTransposeBias", "FAKE_QUANT-bits4", "UNIDIRECTIONAL_SEQUENCE_RNN")


@pytest.mark.parametrize("name", [name for name in BY_ID if not name.startswith(REFUSED)])
def test_numpy_against_the_interpreter(name: str):
    case = BY_ID[name]
    pytest.importorskip("ai_edge_litert", reason="the package ai-edge-litert is not installed")
    compare(interpreted(case.graph(), case.inputs), case.expected(), 1e-5)
