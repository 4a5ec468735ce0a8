"""A fixed part of the search with random graphs, and the search itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from loopwright.frontend.onnx.registry import supported_operators
from loopwright.ops.core import OPERATORS
from tools.fuzz import graphs, onnx_graphs, relax_build
from tools.fuzz.case import Case
from tools.fuzz.judge import Outcome, judge
from tools.fuzz.shrink import shrink
from tools.fuzz.workers import Limits, Pool

pytestmark = [pytest.mark.no_roundtrip, pytest.mark.no_verify]
CASES = sorted(Path(__file__).parent.joinpath("cases").glob("*.json"))


def outcomes(seeds):
    """{seed: group} of those that are wrong, died or hung."""
    bad = ("wrong", "crash", "hang", "tool")
    made = Pool(graphs.by_seed).run(seeds)
    return {seed: outcome.group() for seed, outcome, _ in made if outcome.kind in bad}


def test_some_graphs():
    assert outcomes(range(3000, 3040)) == {}


@pytest.mark.slow
def test_more_graphs():
    assert outcomes(range(4000, 4400)) == {}


@pytest.mark.parametrize("path", CASES, ids=[p.stem for p in CASES])
def test_found_before(path):
    outcome = judge(Case.load(path), full=True)
    assert outcome.kind == "right", outcome


def test_every_operator_has_a_maker():
    ours = {n for n in OPERATORS if n.startswith("relax.")} - relax_build.LEFT_OUT
    assert ours == {f"relax.{n}" for n in relax_build.MAKERS}
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


@pytest.fixture
def wrong_relu():
    """numpy's meaning of relu is off by half where x is above 2."""
    relu = OPERATORS["relax.nn.relu"].op
    meaning = relu.get_attr("FNumpy")
    relu.set_attr("FNumpy", lambda x: meaning(x) * (1 + (x > 2) / 2).astype(x.dtype))
    yield
    relu.set_attr("FNumpy", meaning)


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
