"""What kernels and nodes cost."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.explore.costs import Cost, Costs, _aligned
from loopwright.explore.machine import Machine

DIGITS = "src/loopwright/driver/data/digits.onnx"


@pytest.fixture(scope="module")
def digits():
    return lw.compile(DIGITS).costs({"image": np.ones((64, 1, 16, 16), "float32")}, 3)


@pytest.mark.no_roundtrip
def test_kernels_and_nodes_have_rates(digits):
    costs = {cost.name: cost for cost in digits.kernels}
    product = costs["fused_matmul_add"]
    assert product.calls == 1 and product.flops == 64 * 10 * (2 * 256 + 1)
    assert product.bytes == 4 * (64 * 256 + 256 * 10 + 10 + 64 * 10)
    assert product.gflops == pytest.approx(product.flops / product.us / 1e3)
    nodes = {cost.name: cost for cost in digits.nodes}
    assert nodes["onnx:/fc/MatMul"].us > nodes["onnx:/fc/Add"].us > 0
    assert sum(c.us for c in digits.nodes) == pytest.approx(digits.us, rel=1e-3)
    assert [c.us for c in digits.kernels] == sorted((c.us for c in digits.kernels), reverse=True)


def test_the_roof_is_what_is_nearer():
    machine = Machine(100.0, 10.0)
    assert Cost("computes", 1, 1.0, flops=5e4, bytes=1e3).roof(machine) == pytest.approx(0.5)
    assert Cost("moves", 1, 1.0, flops=1e3, bytes=8e3).roof(machine) == pytest.approx(0.8)
    assert Cost("unknown", 1, 0.0).roof(machine) == 0


@pytest.mark.no_roundtrip
def test_tables(digits):
    text = digits.table(2)
    assert text.splitlines()[0].split() == [
        "kernel",
        "calls",
        "us",
        "share",
        "GFLOP/s",
        "GB/s",
        "of",
        "roof",
    ]
    assert len(text.splitlines()) == 5 and "the roof: " in text
    assert "onnx:/conv2" in str(digits) and "fused_conv2d1_relu1" in str(digits)


@pytest.mark.no_roundtrip
def test_runs_are_compared(digits, tmp_path):
    digits.save(tmp_path / "run.json")
    old = Costs.load(tmp_path / "run.json")
    assert old == digits
    half = [Cost(c.name, c.calls, c.us / 2) for c in old.kernels[:-1]]
    text = Costs([*half, Cost("new", 1, 1.0)], [], old.machine).compare(old)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows[half[0].name][-1] == "0.500" and len(rows[old.kernels[-1].name]) == 1
    assert rows["new"] == ["1.0"] and rows["total"][-1].startswith("0.")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(LoopwrightError, match="holds no costs of a run"):
        Costs.load(tmp_path / "other.json")


def test_columns():
    assert _aligned([("a", "bc")]) == "a  bc\n-----"
    assert _aligned([("a", "b"), ("long", "12")]) == "a      b\n--------\nlong  12"
