"""The benchmark harness measures what it says; no time is judged here."""

from __future__ import annotations

import sys

from benchmarks.models import load
from benchmarks.run import measure, table


def test_engines_take_turns_and_agree():
    engines = dict.fromkeys(["onnxruntime", "numpy"], sys.executable)
    results, failures = measure(load("mlp_b1"), engines, threads=1, rounds=2, seconds=0.01)
    assert failures == {}
    assert [len(result.bursts_ms) for result in results.values()] == [2, 2]
    assert results["numpy"].error is not None and results["numpy"].error < 1e-5
    text = table({"mlp_b1": results})
    assert text.splitlines()[0].startswith("| model | onnxruntime | numpy |")


def test_an_engine_that_cannot_is_reported():
    engines = {"numpy": sys.executable}
    case = load("mlp_b1")
    other = type(case)("lenet", case.path, case.feeds)
    results, failures = measure(other, engines, threads=1, rounds=1, seconds=0.01)
    assert results == {}
    assert failures == {"numpy": "NotImplementedError: written by hand for the MLPs only"}
