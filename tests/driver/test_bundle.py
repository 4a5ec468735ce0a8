"""`loopwright report`: an error travels, the weights do not."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from loopwright.driver.cli import app
from loopwright.frontend.onnx.bare import with_values, without_values
from tools.demo import BUNDLED


def invoke(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(a) for a in args])
    return done.exit_code, done.output


def test_a_report_replays_without_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "r.zip"
    status, said = invoke("report", BUNDLED, "-o", path)
    assert status == 0 and "no error: probability float32[1, 10]" in said
    with zipfile.ZipFile(path) as bundle:
        bare = bundle.read("model.onnx")
        assert "LegalizeOps" in bundle.read("passes.txt").decode()
        assert {"machine", "versions", "outcome"} <= json.loads(bundle.read("report.json")).keys()
    weights = [w for w in onnx.load(BUNDLED).graph.initializer if np.prod(w.dims) > 64]
    assert weights and not any(numpy_helper.to_array(w).tobytes() in bare for w in weights)
    status, said = invoke("report", path)
    assert status == 0 and "the same outcome" in said


def model(node: onnx.NodeProto, tensors: list[onnx.TensorProto]) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 200])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def test_an_error_is_the_same_one(tmp_path: Path) -> None:
    wrong = numpy_helper.from_array(np.ones((100, 3), np.float32), "w")
    file, path = tmp_path / "m.onnx", tmp_path / "r.zip"
    onnx.save(model(helper.make_node("MatMul", ["x", "w"], ["y"]), [wrong]), file)
    status, said = invoke("report", file, "-o", path)
    assert status == 0 and "Error: " in said
    facts = json.loads(zipfile.ZipFile(path).read("report.json"))
    assert "Traceback" in facts["outcome"]["traceback"]
    assert invoke("report", path)[0] == 0
    facts["outcome"]["said"] = "no error"
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as bundle:
        bundle.writestr("report.json", json.dumps(facts))
        bundle.writestr("model.onnx", zipfile.ZipFile(path).read("model.onnx"))
    status, said = invoke("report", tmp_path / "other.zip")
    assert status == 1 and "ANOTHER outcome" in said


@pytest.mark.parametrize(
    "dtype", ["FLOAT", "FLOAT16", "BFLOAT16", "INT8", "UINT4", "INT64", "BOOL", "STRING"]
)
def test_values_of_every_kind_are_drawn(dtype: str) -> None:
    kind = getattr(TensorProto, dtype)
    few = helper.make_tensor("few", kind, [2], [b"a"] * 2 if dtype == "STRING" else [1, 0])
    many = TensorProto(name="many", data_type=kind, dims=[300, 300])
    inner = helper.make_node(
        "Constant", [], ["y"], value=TensorProto(data_type=kind, dims=[300, 300])
    )
    bare = without_values(model(inner, [few, many]))
    assert (bare.graph.initializer[0] == few) == (dtype != "STRING")
    filled = with_values(bare)
    for tensor in (filled.graph.initializer[1], filled.graph.node[0].attribute[0].t):
        values = numpy_helper.to_array(tensor)
        assert values.shape == (300, 300)
        assert dtype == "STRING" or len(np.unique(values.astype(np.float32))) > 1
    assert filled == with_values(bare)


def test_a_file_that_is_no_report(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
        bundle.writestr("report.json", "[1]")
    status, said = invoke("report", tmp_path / "x.zip")
    assert status == 1 and "is not a report" in said and "loopwright report MODEL" in said
