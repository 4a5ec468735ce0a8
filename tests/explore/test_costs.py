"""What kernels and nodes cost."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import relax, tir
from loopwright.base.errors import LoopwrightError
from loopwright.explore.costs import Cost, Costs, costs_of
from loopwright.explore.machine import Machine, machine, peak, reading

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
        "node",
        "calls",
        "us",
        "share",
        "GFLOP/s",
        "GB/s",
        "of",
        "roof",
    ]
    assert len(text.splitlines()) >= 6 and "the roof: " in text and "a call takes" in text
    assert "onnx:/conv2" in str(digits) and "fused_conv2d1_relu1" in str(digits)


@pytest.mark.no_roundtrip
def test_runs_are_compared(digits, tmp_path):
    digits.save(tmp_path / "run.json")
    old = Costs.load(tmp_path / "run.json")
    assert old == digits
    assert all(c.us == pytest.approx(np.median(c.runs), abs=1e-2) for c in old.kernels)
    assert "no change" in old.compare(old) and "0." not in old.compare(old).split("total")[0][-3:]


def row(text, name):
    return next(line.split(name)[1].split() for line in text.splitlines() if name in line)


@pytest.mark.no_roundtrip
def test_a_change_has_a_confidence(tmp_path):
    rng, machine = np.random.default_rng(0), Machine(100.0, 10.0)

    def kernel(name, us, calls=1):
        runs = (us * (1 + 0.05 * rng.standard_normal(20))).tolist()
        return Cost(name, calls, float(np.median(runs)), runs=runs)

    old = Costs(
        [kernel("a", 100), kernel("b", 50), kernel("c", 0.01), Cost("old", 1, 3.0)], [], machine
    )
    new = [kernel("a", 50), kernel("b", 50), kernel("c", 0.29), Cost("new", 1, 1.0)]
    text = Costs(new, [], machine._replace(gflops=50.0)).compare(old)
    ratio = row(text, "a  ")
    assert 0.45 < float(ratio[2]) < 0.55 and ratio[3].startswith("(0.4")
    assert row(text, "b  ")[2:] == ["no", "change"], "the runs differ by chance"
    assert row(text, "c  ")[2:] == ["no", "change"], "29 times as long, within a clock's reading"
    assert row(text, "new  ") == ["1.0", "only", "now"] and row(text, "old  ")[1:] == [
        "only",
        "before",
    ]
    assert "the machine has changed: 100.0 GFLOP/s before, 50.0 now" in text


def test_another_file(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(LoopwrightError, match="holds no costs of a run"):
        Costs.load(tmp_path / "other.json")


def test_rates_above_the_roof_are_explained():
    costs = [Cost("f", 1, 1.0, flops=2e5, bytes=1e5)]
    text = Costs(costs, [], Machine(100.0, 10.0), [0.01]).table()
    assert "more GFLOP/s: they do less" in text and "more GB/s: the data of these" in text
    assert "a call takes 10.0 us (median; the fastest 10.0)" in text
    assert "9.0 us are not in kernels" in text


@pytest.mark.parametrize(
    "calls, said",
    [
        ([0.1, 0.01, 0.1], "more: other work here interrupts calls"),
        ([0.1, 0.05, 0.1], "more: 40.0 us are not in kernels"),
        ([0.001], "less: the clocks around kernels"),
        ([0.01], "the fastest 10.0), measured in turns with the kernels\nthe roof"),
    ],
)
def test_a_call_and_its_kernels_differ_for_a_reason(calls, said):
    assert said in Costs([Cost("f", 1, 10.0)], [], Machine(1.0, 1.0), calls).table()


@pytest.mark.budget(6)
@pytest.mark.no_roundtrip
def test_the_machine_is_measured_by_kernels_of_our_own():
    one = machine(1)
    assert one == machine(1) and 1 < one.gflops < 1000 and 0.5 < one.gbs < 1000
    calls = {"peak": peak(1, 64), "reading": reading(1)}
    for name, (run, amount) in calls.items():
        run()
        assert amount > 0, name
    assert calls["peak"][1] % (2 * 64) == 0 and calls["reading"][1] <= 1 << 22


def test_kernels_are_timed_for_a_while(digits):
    images = {"image": np.ones((4, 1, 16, 16), "float32")}
    assert len(lw.compile(DIGITS).costs(images, 3).calls) == 3
    few = costs_of(lw.compile(DIGITS), images, 1000, 0.0)
    assert len(few.calls) == 3 and all(len(cost.runs) == 3 for cost in few.kernels)


@pytest.mark.no_roundtrip
def test_a_lookup_moves_the_rows_that_it_reads():
    x = relax.Var("x", relax.TensorStructInfo((5,), "int64"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        table = relax.const(np.ones((1000, 8), "float32"))
        builder.emit_func_output(builder.emit(relax.op.take(table, x, axis=0)))
    (cost,) = lw.compile(builder.get()).costs({"x": np.arange(5)}, 1).kernels
    assert cost.bytes == 5 * 8 * 4 * 2 + 5 * 8


@pytest.mark.no_roundtrip
def test_rates_are_of_the_sizes_that_calls_pass():
    """The second convolution's extents are computed in the graph: a half of its input's."""
    n, h = (tir.Var(name, "int64") for name in "nh")
    x = relax.Var("x", relax.TensorStructInfo((n, 1, h, h), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        w = relax.const(np.ones((16, 1, 3, 3), "float32"))
        v = relax.const(np.ones((16, 16, 3, 3), "float32"))
        y = builder.emit(relax.op.nn.conv2d(x, w, strides=2, padding=1))
        builder.emit_func_output(builder.emit(relax.op.nn.conv2d(y, v, strides=2, padding=1)))
    exe = lw.compile(builder.get())
    costs = exe.costs({"x": np.ones((2, 1, 64, 64), "float32")}, 2)
    flops = {round(cost.flops) for cost in costs.kernels}
    assert {2 * 16 * 32 * 32 * 9 * 2, 2 * 16 * 16 * 16 * 9 * 16 * 2} <= flops, flops
