"""From a node of the model to machine instructions, and back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import loopwright as lw
from loopwright.base.errors import UnknownName
from loopwright.explore import Explored

DIGITS = "src/loopwright/driver/data/digits.onnx"


@pytest.fixture(scope="module")
def digits():
    return Explored.compiled(DIGITS)


def model(*nodes, weights=(), shape=("n", 16)):
    made = [numpy_helper.from_array(array, name) for name, array in weights]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", [x], [y], made)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def node(op, reads, makes, name, **attributes):
    return helper.make_node(op, reads, [makes], name=name, **attributes)


def test_every_node_reaches_instructions(digits):
    for name in digits.nodes:
        found = digits.origin(name)
        assert found.instructions and min(found.instructions.values()) > 0, name
        for kernel, count in found.instructions.items():
            lines = digits.code(kernel).assembly.lines
            among = Counter(n for n in lines if n).items()
            assert count == sum(k for n, k in among if name in digits.where(kernel, n).nodes)
        assert not found.removed_by


def test_an_origin_says_what_was_made(digits):
    found = digits.origin("/conv1")
    assert found.bindings == ["lv"] and found.kernels == ["fused_conv2d_relu"]
    assert {"FuseTIR", "ApplyDefaultSchedule", "tir.VectorizeLoop"} <= set(found.passes)
    assert "onnx:/conv1 (Conv)\n    Relax: lv\n" in str(found)


def test_fused_multiply_adds_are_of_the_product_only(digits):
    code = digits.code("fused_matmul_add")
    found = 0
    for text, line in zip(code.assembly.texts, code.assembly.lines, strict=True):
        if "fmadd" in text and line:
            assert digits.where("fused_matmul_add", line).nodes == ("onnx:/fc/MatMul",)
            found += 1
    assert found >= 8 or "fmadd" not in "".join(code.assembly.texts)
    products = [t for t, line in zip(code.llvm.texts, code.llvm.lines, strict=True) if "fmul" in t]
    assert products or "fma" in "".join(code.llvm.texts)


def test_where(digits):
    (line, *_) = digits.origin("/relu1").lines["fused_conv2d_relu"]
    found = digits.where("fused_conv2d_relu", line)
    assert "onnx:/relu1" in found.nodes and "lv1" in found.bindings
    with pytest.raises(ValueError, match="fused_conv2d_relu has"):
        digits.where("fused_conv2d_relu", 100_000)
    with pytest.raises(UnknownName, match="did you mean fused_conv2d_relu"):
        digits.where("fused_conv2d_rel", 1)
    with pytest.raises(UnknownName, match="did you mean /conv1"):
        digits.origin("/conv")


def test_an_executable_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPWRIGHT_CACHE_DIR", str(tmp_path))
    for _ in range(2):  # compiled, then loaded
        exe = lw.compile(DIGITS)
        assert exe.origin("/fc/Add").kernels == ["fused_matmul_add"]
        line = exe.origin("/fc/Add").lines["fused_matmul_add"][-1]
        assert exe.where("fused_matmul_add", line).nodes == ("onnx:/fc/Add",)


def test_decisions_about_a_node():
    trace = lw.lower(DIGITS)
    kinds = {note.kind: note for note in trace.explain("/conv1")}
    assert kinds["legalize"].subject == "relax.nn.conv2d"
    assert kinds["fuse"].facts["group"] == ["conv2d", "relu"]
    assert kinds["schedule"].subject == "fused_conv2d_relu"
    assert "conv2d1" not in str(trace.explain("/conv1", "legalize"))


def test_what_equal_kernels_share_comes_from_all():
    rng = np.random.default_rng(0)
    weights = [(f"w{k}", rng.standard_normal((16, 16)).astype("float32")) for k in range(2)]
    found = Explored.compiled(
        model(
            node("MatMul", ["x", "w0"], "a", "p0"),
            node("Relu", ["a"], "b", "r0"),
            node("MatMul", ["b", "w1"], "c", "p1"),
            node("Relu", ["c"], "y", "r1"),
            weights=weights,
        )
    )
    products, relus = (found.origin(f"p{k}") for k in range(2)), found.origin("r1")
    first, second = products
    assert len(first.kernels) == 1 and first.lines == second.lines
    assert found.origin("r0").lines == relus.lines != first.lines


def test_what_is_inlined_has_the_places_of_both():
    found = Explored.compiled(
        model(
            node("Exp", ["x"], "a", "exp"),
            node("Tanh", ["a"], "b", "tanh"),
            node("Neg", ["b"], "y", "neg"),
        )
    )
    (kernel,) = found.origin("exp").kernels
    lines = found.kernel_lines(kernel)
    assert lines["onnx:exp"] == lines["onnx:tanh"] == lines["onnx:neg"]


def test_what_was_removed_says_by_what_and_into_what():
    weights = [
        ("w", np.eye(16, dtype="float32")),
        *((k, np.full(16, v, "float32")) for k, v in {"s": 2, "b": 1}.items()),
    ]
    found = Explored.compiled(
        model(
            node("Identity", ["w"], "u", "same"),
            node("MatMul", ["x", "u"], "a", "product"),
            node("Add", ["s", "b"], "c", "sum"),
            node("Shape", ["a"], "d", "shape"),
            node("Reshape", ["a", "d"], "e", "reshape"),
            node("Add", ["e", "c"], "y", "last"),
            node("Neg", ["x"], "unused", "alone"),
            weights=weights,
        )
    )
    fates = {name: found.origin(name) for name in ("same", "sum", "shape")}
    assert fates["same"].into == ("onnx:product",)
    assert fates["shape"].removed_by == "import"
    assert "removed by import, into nothing: its result is unused" in str(found.origin("alone"))
    assert fates["sum"].into == ("onnx:last",) and fates["sum"].removed_by == "FoldConstant"
    assert "removed by FoldConstant, into onnx:last" in str(fates["sum"])
    for name in ("product", "last"):
        assert found.origin(name).instructions


def test_a_trace_of_own_passes_has_no_code():
    with lw.trace() as trace:
        mod = lw.relax.transform.LegalizeOps()(lw.lower(DIGITS)[0].before)
    assert mod is not None
    found = Explored(trace)
    assert found.origin("/conv1").bindings == ["lv"]
    with pytest.raises(lw.LoopwrightError, match="this has no LLVM text"):
        found.code(found.kernels[0])


def test_models_of_python_have_lines_as_nodes():
    from loopwright.script import from_source

    text = (
        "from loopwright.script import ir as I, relax as R\n@I.ir_module\nclass M:\n"
        "    @R.function\n    def main(x: R.Tensor((4,), 'float32')) -> R.Tensor((4,), 'float32'):\n"
        "        with R.dataflow():\n            a = R.exp(x)\n            b = R.add(a, x)\n"
        "            R.output(b)\n        return b\n"
    )
    found = Explored.compiled(from_source(text))
    ops = {node.op: name for name, node in found.nodes.items()}
    assert {"relax.exp", "relax.add"} <= set(ops)
    assert found.origin(ops["relax.exp"]).instructions


def test_nodes_of_one_name_are_told_apart_by_their_outputs():
    found = Explored.compiled(
        model(
            node("Exp", ["x"], "a", "same"),
            node("Tanh", ["a"], "b", "same"),
            node("Neg", ["b"], "y", ""),
        )
    )
    ops = {name: node.op for name, node in found.nodes.items()}
    assert ops == {"onnx:same": "Exp", "onnx:same:b": "Tanh", "onnx:Neg:y": "Neg"}
    assert all(found.origin(name).instructions for name in ops)


def branches():
    """A choice between graphs whose nodes have the same name, operator and output."""

    def graph(weight):
        y = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
        return helper.make_graph([node("Mul", ["x", weight], "r", "same")], "way", [], [y])

    return model(
        node("ReduceMax", ["x"], "most", "most", keepdims=0),
        node("Greater", ["most", "b"], "go", "go"),
        node("If", ["go"], "a", "if", then_branch=graph("b"), else_branch=graph("c")),
        node("Exp", ["a"], "y", "same"),
        weights=[("b", np.array(2, "float32")), ("c", np.array(3, "float32"))],
    )


def test_nodes_of_one_name_in_different_graphs_are_told_apart():
    found = Explored.compiled(branches())
    reads = {name: node.reads for name, node in found.nodes.items() if "same" in name}
    assert reads == {"onnx:same": ("a",), "onnx:same:r": ("x", "b"), "onnx:same:r:2": ("x", "c")}
    kernels = {name: found.origin(name).kernels for name in reads}
    assert all(kernels.values()) and kernels["onnx:same:r"] != kernels["onnx:same:r:2"], kernels
    told = {name: str(found.trace.explain(name)) for name in ("same:r", "same:r:2")}
    for name, text in told.items():
        assert all(f"kernel: {k}\n" in text for k in kernels[f"onnx:{name}"]), text
    assert told["same:r"] != told["same:r:2"]


def test_the_importer_notes_the_nodes_of_the_file():
    trace = lw.lower(onnx.load(DIGITS))
    assert trace.nodes["onnx:/conv2"].op == "Conv"
    assert trace.nodes["onnx:/conv2"].makes[0] in trace.nodes["onnx:/relu2"].reads
