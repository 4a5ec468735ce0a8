"""onnx's backend suite, compiled: the tool that counts it, and what it judges."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from loopwright.frontend.onnx import from_onnx
from tools.fuzz.workers import Limits, Pool
from tools.onnx_suite.cases import all_cases, run
from tools.onnx_suite.standard import verdict

from .support import close, floats, interpreted, operator, reference

# The standard's definition is a transformation of the graph around it.
REFUSED = {"test_gradient_of_add", "test_gradient_of_add_and_mul"}
PARTS = 6


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_wrong(part):
    cases = all_cases()
    chosen = [k for k in range(part, len(cases), PARTS) if cases[k].name not in REFUSED]
    fine = ("right", "drawn", "deliberate", "nearer")
    failed = {
        cases[k].name: outcome
        for k, outcome, _ in Pool(run, 1, Limits(120)).run(chosen)
        if outcome.kind not in fine
    }
    assert len(chosen) > 300 and not failed


CASE = SimpleNamespace(rtol=1e-3, atol=1e-7)


def test_of_two_results_the_nearer_is_no_fault():
    model, feeds = operator("Add", np.float16([1]), np.float16([2.0**-11]))
    (low, high) = np.float16([1]), np.float16([1 + 2.0**-8])
    inputs = list(feeds.values())
    assert verdict(model, inputs, [high], [low], CASE) == "nearer"
    assert verdict(model, inputs, [low], [high], CASE) == "wrong"
    assert verdict(model, inputs, [high], [low.astype(np.float32)], CASE) == "wrong"


def test_drawn_numbers_agree_in_type_and_shape():
    model, feeds = operator("Bernoulli", np.float32([0.5, 0.5]))
    x, inputs = np.float32([0, 1]), list(feeds.values())
    assert verdict(model, inputs, [x], [1 - x], CASE) == "drawn"
    assert verdict(model, inputs, [x], [x[:1]], CASE) == "wrong"


def test_aligned_corners_are_those_of_the_rounded_extent():
    """As in onnxruntime and torch: the last element of 6 * 0.6 = 3 is the input's last."""
    scales = np.float32([1, 0.6])
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    model, feeds = operator("Resize", floats(1, 6), None, scales, fed=1, **attributes)
    (x,) = feeds.values()
    even = np.float32([[x[0, 0], (x[0, 2] + x[0, 3]) / 2, x[0, 5]]])
    close(interpreted(from_onnx(model), feeds), [even])
    close(reference(model, feeds), [even])
    theirs = ReferenceEvaluator(model).run(None, feeds)
    assert verdict(model, [x], theirs, [even], CASE) == "deliberate"
    assert verdict(model, [x], theirs, [even + np.float32(0.1)], CASE) == "wrong"
