"""A fixed part of the search with random graphs, and the search itself."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from loopwright.frontend.onnx import supported_operators
from loopwright.ops.core import OPERATORS
from tools.fuzz import graphs, integers, networks, onnx_graphs, rounding, shapes
from tools.fuzz import judge as judging
from tools.fuzz.case import Case
from tools.fuzz.graphs import judged
from tools.fuzz.judge import Outcome, judge
from tools.fuzz.relax_module import to_module
from tools.fuzz.shrink import shrink
from tools.fuzz.workers import Limits, Pool

pytest.importorskip("onnxruntime", reason="needs onnxruntime, which judges cases")

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]
CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.json"))
DOUBTS = sorted(Path(__file__).parent.joinpath("doubts").glob("*.json"))


def outcomes(seeds, make=graphs.make):
    """{seed: group} of those that are wrong, died or hung."""
    bad = ("wrong", "crash", "hang", "tool")
    made = Pool(judged(make)).run(seeds)
    return {seed: outcome.group() for seed, outcome, _ in made if outcome.kind in bad}


@pytest.mark.slow
def test_some_graphs():
    assert outcomes(range(3000, 3040)) == {}


def test_some_integers():
    wrong_before = (143, 428, 588)
    assert outcomes((*range(20), *wrong_before), integers.make) == {}


@pytest.mark.slow
def test_some_computed_shapes():
    assert outcomes(range(10), shapes.make) == {}


@pytest.mark.slow
def test_some_networks():
    assert outcomes(range(6), networks.make) == {}


@pytest.mark.slow
def test_more_graphs():
    assert outcomes(range(4000, 4400)) == {}
    assert outcomes(range(1000, 1100), networks.make) == {}
    assert outcomes(range(1000, 1200), shapes.make) == {}
    assert outcomes(range(1000, 1400), integers.make) == {}


@pytest.mark.sample(8)
@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_found_before(path):
    outcome = judge(Case.load(path), full=True)
    assert outcome.kind == "right", outcome


def test_every_operator_of_onnx_has_a_maker():
    theirs = {*supported_operators()}
    for domain in onnx_graphs.DOMAINS:
        theirs |= {f"{domain}::{name}" for name in supported_operators(domain)}
    assert theirs - set(onnx_graphs.MAKERS) == onnx_graphs.LEFT_OUT


def test_a_seed_gives_the_same_case(tmp_path):
    for seed in (10, 11):
        case = graphs.make(seed)
        case.save(tmp_path / "case.json")
        assert Case.load(tmp_path / "case.json") == case == graphs.make(seed)
        first, again = case.feeds(0), graphs.make(seed).feeds(0)
        assert [a.tobytes() for a in first] == [a.tobytes() for a in again]


@contextmanager
def wrong(name, change):
    """numpy's meaning of an operator is changed."""
    operator = OPERATORS[name].op
    meaning = operator.get_attr("FNumpy")
    operator.set_attr("FNumpy", lambda *a, **k: change(meaning(*a, **k)))
    try:
        yield
    finally:
        operator.set_attr("FNumpy", meaning)


@pytest.fixture
def wrong_relu():
    """relu is off by half where its result is above 2."""
    with wrong("relax.nn.relu", lambda y: y * (1 + (y > 2) / 2).astype(y.dtype)):
        yield


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["exp", "sqrt", "nn.softmax", "sum", "matmul", "tanh"])
def test_a_small_fault_beside_ill_conditioned_numbers_is_wrong(name):
    """The last number of a window is 0, or what rounding makes of it: nothing is said about a
    quotient by it, but all about what stands beside it."""
    x = {"dtype": "float32", "shape": [7], "draw": "uniform", "low": 0.5}
    window = {"coefficients": [0.42, 0.5, 0.08], "periodic": False, "dtype": "float32"}
    nodes = [
        ["relax.signal.cosine_window", [{"dims": [7]}], ["w"], window],
        ["relax.divide", ["x", "w"], ["q"], {}],
        [f"relax.{name}", ["x", "x"] if name == "matmul" else ["x"], ["y"], {}],
    ]
    case = Case("relax", 1, 17, [{}], {"x": x}, {}, nodes, ["q", "y"])
    assert judge(case, full=True).kind == "right"
    for off in (1e-4, -1e-4):
        with wrong(f"relax.{name}", lambda y, off=off: y * y.dtype.type(1 + off)):
            assert judge(case, full=True).kind == "wrong"


@pytest.mark.slow
@pytest.mark.parametrize("path", DOUBTS, ids=[p.stem for p in DOUBTS])
def test_what_rounding_within_an_operator_decides_is_a_doubt(path, monkeypatch):
    case = Case.load(path)
    assert judge(case).kind == "doubt"
    monkeypatch.setattr(rounding, "unit", lambda kind: 0.0)  # without it: they differ
    assert judge(case).kind == "wrong"


def test_a_sum_that_overflows_in_one_order(monkeypatch):
    case = Case.load(Path(__file__).with_name("sum_that_overflows.json"))
    assert judge(case).kind == "doubt"
    monkeypatch.setattr(judging, "_overflows", lambda call, feeds: False)
    assert judge(case).kind == "wrong"


def test_exact_steps_are_not_rounded_away():
    """Places that come from whole numbers and halves stay the same in every run."""
    x = {"dtype": "float32", "shape": [1, 1, 4, 4], "draw": "quarters"}
    nodes = [
        ["relax.image.resize2d", ["x", {"dims": [8, 8]}], ["y"], {"method": "nearest_neighbor"}]
    ]
    case = Case("relax", 1, 17, [{}], {"x": x}, {}, nodes, ["y"])
    (far,) = rounding.inner_spread(to_module(case), case.feeds(0))
    assert not far.any()


def test_a_wrong_operator_is_found_and_the_graph_made_small(wrong_relu):
    spec = {"dtype": "float32", "shape": ["n", 8], "draw": "quarters"}
    nodes = [
        ["relax.sin", ["x"], ["a"], {}],
        ["relax.nn.relu", ["x"], ["b"], {}],
        ["relax.permute_dims", ["b"], ["c"], {"axes": [1, 0]}],
    ]
    sizes = [{"n": 7}, {"n": 16}, {"n": 3}]
    case = Case("relax", 1, 17, sizes, {"x": spec}, {}, nodes, ["a", "c"])
    outcome = judge(case)
    assert outcome.kind == "wrong"
    small, outcome = shrink(case, outcome)
    assert [node[0] for node in small.nodes] == ["relax.nn.relu"]
    assert len(small.sizes) == 1
    assert outcome.group().endswith("value [relax.nn.relu]")


def _dies(item, say):
    say("here")
    if item == "abort":
        os.abort()
    if item == "sleep":
        time.sleep(60)
    if item == "memory":
        bytearray(8 << 30)
    return Outcome("right")


def test_a_worker_that_dies_or_hangs_is_replaced():
    items = ["fine", "abort", "sleep", "memory", "fine"]
    made = list(Pool(_dies, 1, Limits(seconds=1, memory=1 << 30)).run(items))
    assert [outcome.kind for _, outcome, _ in made] == ["right", "crash", "hang", "tool", "right"]
    assert [outcome.stage for _, outcome, _ in made[1:3]] == ["here", "here"]
    assert "MemoryError" in made[3][1].message


def test_only_what_the_doubtful_output_needs_is_measured(monkeypatch):
    case = Case.load(next(p for p in DOUBTS if p.stem == "onnx-1024976"))
    case.inputs["x"] = {"dtype": "float32", "shape": [64, 64], "draw": "quarters"}
    case.nodes.append(["MatMul", ["x", "x"], ["y"], {}])
    case.outputs.insert(0, "y")
    monkeypatch.setattr(rounding, "STEPS", 10_000)
    assert judge(case).kind == "doubt"
