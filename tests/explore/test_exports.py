"""Notebooks, and files for other programs."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import onnx
import pytest

import loopwright as lw
from loopwright.explore import Explored, model_explorer, netron

from .test_explored import branches

DIGITS = "src/loopwright/driver/data/digits.onnx"


@pytest.mark.no_roundtrip
def test_model_explorer(tmp_path):
    text = model_explorer(Explored.compiled(DIGITS), tmp_path / "graph.json", "digits")
    whole = json.loads(text)
    assert whole["label"] == "digits"  # without one, Model Explorer does not read the file
    (graph,) = whole["graphs"]
    assert (tmp_path / "graph.json").read_text(encoding="utf-8") == text
    nodes = {node["id"]: node for node in graph["nodes"]}
    add = nodes["onnx:/fc/Add"]
    assert (add["label"], add["namespace"]) == ("Add", "fc")
    assert [edge["sourceNodeId"] for edge in add["incomingEdges"]] == ["onnx:/fc/MatMul"]
    assert {"key": "kernels", "value": "fused_matmul_add"} in add["attrs"]


@pytest.mark.no_roundtrip
def test_a_file_for_netron(tmp_path):
    explored = Explored.compiled(branches())
    netron(explored, branches(), tmp_path / "seen.onnx")
    proto = onnx.load(tmp_path / "seen.onnx")
    nodes = {n.name: n for n in proto.graph.node}
    assert [n.name for a in nodes["if"].attribute for n in a.g.node] == ["same:r:2", "same:r"]
    for name, found in nodes.items():
        origin, facts = explored.origin(name), {p.key: p.value for p in found.metadata_props}
        assert facts.get("kernels", "") == ", ".join(origin.kernels)
        assert facts.get("removed by", "") == origin.removed_by
    explored = Explored.compiled(DIGITS)
    netron(explored, DIGITS, tmp_path / "digits.onnx")
    onnx.checker.check_model(tmp_path / "digits.onnx", full_check=True)
    x = np.random.default_rng(0).random((2, 1, 16, 16), "float32")
    same = lw.compile(str(tmp_path / "digits.onnx"))(x)
    np.testing.assert_array_equal(np.asarray(same), np.asarray(explored.exe(x)))


@pytest.mark.no_roundtrip
def test_a_profiled_run_as_chrome_trace(tmp_path):
    exe = lw.compile(DIGITS)
    profile = exe.profile(np.zeros((2, 1, 16, 16), "float32"), number=2)
    text = profile.chrome_trace(tmp_path / "run.json")
    assert (tmp_path / "run.json").read_text(encoding="utf-8") == text
    events = json.loads(text)["traceEvents"]
    assert len(events) == 14 and {e["name"] for e in events} == {e.name for e in profile}
    for first, second in pairwise(events):
        assert second["ts"] == pytest.approx(first["ts"] + first["dur"], abs=0.01)
    assert sum(e["dur"] for e in events) == pytest.approx(profile.total_us, abs=0.1)


@pytest.mark.no_roundtrip
def test_notebooks():
    trace = lw.lower(DIGITS)
    text = trace._repr_html_()
    assert "<summary>fused_conv2d1_relu1, " in text and "ApplyDefaultSchedule" in text
    assert text.count("<tr>") < len(trace) and "<script" not in text
    exe = lw.compile(DIGITS)
    assert "<code>fused_matmul_add</code>" in exe._repr_html_()
    shown = trace[0].before._repr_html_()
    assert shown.startswith("<pre>") and "R.nn.conv2d" in shown and "&quot;n&quot;" in shown


def test_a_schedule_in_a_notebook():
    sch = lw.tir.Schedule(lw.lower(DIGITS)["FuseTIR"].after["softmax"])
    assert sch._repr_html_().startswith("<pre>") and "<details>" not in sch._repr_html_()
    sch.parallel(sch.get_loops(sch.get_block("T_softmax_norm"))[0])
    shown = sch._repr_html_()
    assert "T.parallel(" in shown and "sch.parallel(" in shown
