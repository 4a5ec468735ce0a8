"""The front end of examples/toy_dialect.py, as a package that is installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.relax.byoc.test_plugins import ROOT, run

EXAMPLE = ROOT / "examples" / "toy_dialect.py"
ALL_TEN = [
    {"op": "MatMul", "in": ["x", "w"], "out": "a", "name": "dense"},
    {"op": "Add", "in": ["a", "b"], "out": "c", "name": "bias"},
    {"op": "Relu", "in": ["c"], "out": "d", "name": "act"},
    {"op": "Scale", "in": ["d"], "out": "e", "name": "half", "by": 0.5},
    {"op": "Tanh", "in": ["e"], "out": "f", "name": "squash"},
    {"op": "Exp", "in": ["f"], "out": "g", "name": "grow"},
    {"op": "Mul", "in": ["g", "e"], "out": "h", "name": "gate"},
    {"op": "Softmax", "in": ["h"], "out": "i", "name": "head", "axis": 1},
    {"op": "Sum", "in": ["i"], "out": "j", "name": "total", "axes": [1], "keep": 1},
    {"op": "Reshape", "in": ["j"], "out": "y", "name": "flat", "shape": [-1]},
]
PROGRAM = """
import json, sys
import numpy as np
import loopwright as lw
from typer.testing import CliRunner
from loopwright.driver.cli import app

model, broken = sys.argv[1:]
x = np.arange(8, dtype="float32").reshape(2, 4)
trace = lw.lower(model)
error = ""
try:
    lw.compile(broken)
except lw.LoopwrightError as e:
    error = str(e)
print(json.dumps({
    "outputs": lw.compile(model).run({"x": x})["y"].numpy().tolist(),
    "nodes": list(trace.nodes),
    "explained": str(trace.explain("toy:act")),
    "error": error,
    "plugins": CliRunner().invoke(app, ["plugins"]).output,
    "shown": CliRunner().invoke(app, ["show", model, "--pass", "LegalizeOps"]).output,
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(EXAMPLE, tmp_path)
    info = tmp_path / "toy_dialect-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-dialect\nVersion: 1.0\n")
    points = "[loopwright.frontends]\ntoy = toy_dialect:from_toy\n"
    (info / "entry_points.txt").write_text(points)
    return tmp_path


def graph(nodes: list[dict]) -> str:
    weights = {"w": [[0.5, -1.0, 1.0]] * 4, "b": [0.0, 1.0, 2.0]}
    return json.dumps(
        {"inputs": {"x": ["n", 4]}, "weights": weights, "nodes": nodes, "outputs": ["y"]}
    )


def test_it_has_at_most_120_lines() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 120


def test_a_graph_of_all_ten_operators(folder: Path) -> None:
    (folder / "model.toy").write_text(graph(ALL_TEN))
    broken = [*ALL_TEN[:-1], {**ALL_TEN[-1], "op": "Roll"}]
    (folder / "broken.toy").write_text(graph(broken))
    got = json.loads(run(folder, "-c", PROGRAM, "model.toy", "broken.toy").stdout)
    assert got["outputs"] == pytest.approx([1.0, 1.0])  # the sums of a softmax
    assert got["nodes"] == [f"toy:{n['name']}" for n in ALL_TEN]
    assert "legalize relax.nn.relu" in got["explained"]
    assert "Roll (domain toy, version 1) x1: toy:flat" in got["error"]
    assert 'register_converter("Roll", 1, convert, domain="toy")' in got["error"]
    assert "toy-dialect" in got["plugins"]
    assert "R.call_tir" in got["shown"]
