"""The benchmark harness measures what it says; no time is judged here."""

from __future__ import annotations

import sys

import pytest

from benchmarks import kernels, report
from benchmarks.models import load
from benchmarks.run import measure, table


def test_engines_take_turns_and_agree():
    pytest.importorskip("onnxruntime")
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


@pytest.mark.no_roundtrip  # each kernel of the model is compiled alone
def test_kernels_are_counted_and_measured():
    case = load("mlp_b1")
    rows = kernels.measure(str(case.path), case.feeds)
    first, second = 2 * 784 * 128 + 2 * 128, 2 * 128 * 10 + 10  # products and sums, bias, relu
    assert sum(row.flops for row in rows.values()) == first + second
    assert sum(row.calls for row in rows.values()) == 2
    weights = 784 * 128 + 128 + 128 * 10 + 10
    found = sum(row.bytes for row in rows.values()) - 4 * (weights + 784 + 128 + 128 + 10)
    assert found in (0, 4 * 128 * 6)  # 10 columns may be packed as 16, by the registers
    assert all(row.seconds > 0 for row in rows.values())


def test_report_shows_ratios_and_what_was_refused():
    found = {
        "loopwright": {"version": "1", "bursts_ms": [1.0, 3.0], "error": 2e-7},
        "onnxruntime": {"version": "2", "bursts_ms": [4.0], "error": 0.0},
        "tvm": {"version": "3 with fixed shapes", "bursts_ms": [1234.0], "error": 0.0},
    }
    machine = {"processor": "P", "cores": 2, "load": 0.1}
    data = {"machine": machine, "date": "D", "rounds": 1, "threads_2": {"m": found}}
    text = report.latency(data)
    assert "| m | 2 | 2 | 4 | 1,234* | - | 0.50 | 2e-07 |" in text
    assert "not quiet" not in text
    assert "shapes fixed" in text
