"""`loopwright check`: what becomes of a model's operators."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper
from typer.testing import CliRunner

from loopwright.driver.cli import app
from loopwright.frontend.onnx.survey import survey

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, tensor = helper.make_node, helper.make_tensor_value_info


def model(nodes, inputs, outputs, more=(), arrays=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(arrays))
    imports = [helper.make_opsetid("", 24), *(helper.make_opsetid(d, v) for d, v in more)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def kinds(found):
    return {name: dict(counted) for (_, name, _), counted in found.counts.items()}


def test_each_kind():
    then = helper.make_graph([node("Exp", ["z"], ["a"])], "t", [], [tensor("a", FLOAT, None)])
    other = helper.make_graph([node("Neg", ["z"], ["b"])], "o", [], [tensor("b", FLOAT, None)])
    nodes = [
        node("Shape", ["x"], ["s"], "shape"),
        node("Gelu", ["x"], ["z"], "gelu"),
        node("Split", ["z"], ["l", "r"], "cut", axis=1, num_outputs=2),
        node("Constant", [], ["axes"], value_ints=[0, 1]),
        node("Unsqueeze", ["l", "axes"], ["q"], "four"),
        node("Attention", ["q", "q", "q"], ["v"], "att"),
        node("NonZero", ["r"], ["nz"], "where"),
        node("If", ["go"], ["y"], "if", then_branch=then, else_branch=other),
    ]
    outputs = [tensor(n, FLOAT, None) for n in ("y", "v")] + [tensor("nz", INT64, None)]
    given = model(
        nodes,
        [tensor("x", FLOAT, ["n", 4]), tensor("go", TensorProto.BOOL, [])],
        outputs,
    )
    found = survey(given)
    assert not found.error
    assert kinds(found)["Gelu"] == {"native": 1}
    assert kinds(found)["Attention"] == {"decomposed": 1}
    assert kinds(found)["Exp"] == kinds(found)["Neg"] == {"native": 1}
    assert any("onnx:where" in line for line in found.dynamic)
    assert found.sizes == ["n: axis 0 of x (batch, typically 1)"]
    assert any(line.startswith("onnx:if: a choice of the run") for line in found.slow)
    assert not found.missing and not found.error


def test_interpreted_and_folded():
    nodes = [
        node("StringConcat", ["x", "x"], ["y"], "join"),
        node("Shape", ["y2"], ["s"], "shape"),
        node("ConstantOfShape", ["s"], ["z"], "fill"),
    ]
    inputs = [tensor("x", TensorProto.STRING, ["n"]), tensor("y2", FLOAT, ["m"])]
    outputs = [tensor("y", TensorProto.STRING, None), tensor("z", FLOAT, None)]
    found = survey(model(nodes, inputs, outputs))
    assert kinds(found) == {
        "StringConcat": {"interpreted": 1},
        "Shape": {"folded": 1},
        "ConstantOfShape": {"native": 1},
    }
    assert found.slow == [
        "onnx:join: relax.run.texts_joined runs in Python: its result, or the size of it, depends on data"
    ]


@pytest.fixture
def saved(tmp_path):
    def save(given):
        path = tmp_path / "m.onnx"
        onnx.save(given, path)
        return str(path)

    return save


def test_the_command(saved):
    good = saved(
        model([node("Relu", ["x"], ["y"])], [tensor("x", FLOAT, [2])], [tensor("y", FLOAT, [2])])
    )
    result = CliRunner().invoke(app, ["check", "--no-run", good])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].split() == [
        "operator",
        "version",
        "native",
        "decomposed",
        "interpreted",
        "folded",
        "missing",
    ]
    assert lines[1].split() == ["Relu", "24", "1"]
    assert "greatest relative difference" in CliRunner().invoke(app, ["check", good]).output


def test_a_missing_operator_is_told_without_compiling(saved):
    nodes = [node("Relu", ["x"], ["y"]), node("Frob", ["y"], ["z"], domain="my")]
    path = saved(model(nodes, [tensor("x", FLOAT, [2])], [tensor("z", FLOAT, [2])], [("my", 1)]))
    result = CliRunner().invoke(app, ["check", path])
    assert result.exit_code == 1
    assert survey(path).missing == [("my", "Frob", 1)]
    assert "my.Frob" in result.output


def test_operators_of_the_models_functions_are_counted_by_call():
    leaky = helper.make_function(
        "mine",
        "F",
        ["a"],
        ["b"],
        [node("LeakyRelu", ["a"], ["b"], "leaky")],
        [helper.make_opsetid("", 24)],
    )
    nodes = [node("F", [a], [b], domain="mine") for a, b in ("xy", "yz")]
    given = model(nodes, [tensor("x", FLOAT, [2])], [tensor("z", FLOAT, [2])], [("mine", 1)])
    given.functions.append(leaky)
    assert kinds(survey(given)) == {"LeakyRelu": {"native": 2}}
