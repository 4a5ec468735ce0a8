"""What is said of models that cannot be imported: what, got, what to do instead, and the node."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import loopwright
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.onnx import from_onnx

from .support import chain, floats, graph, ints, operator, value

node = helper.make_node
pytestmark = pytest.mark.no_roundtrip


def message(model, error=LoopwrightError, **options) -> str:
    with pytest.raises(error) as caught:
        from_onnx(model, **options)
    return str(caught.value)


def one(op_type, *dims, dtype=np.float32, weights=None, inputs=None, **attributes):
    """A model of one node called /fc1/OP."""
    names = inputs or [f"x{k}" for k in range(len(dims))]
    names += list(weights or {})
    ports = [value(f"x{k}", d, dtype) for k, d in enumerate(dims)]
    made = node(op_type, names, ["y"], f"/fc1/{op_type}", **attributes)
    return graph([made], ports, [value("y", None)], weights)


RELU = chain(node("Relu", ["x"], ["y"]), shape=[2])

# ---------------------------------------------------------------- operators


def test_unknown_operators_are_told_all_at_once():
    model = chain(
        node("Fancy", ["x"], ["a"], "/a/Fancy", domain="com.acme"),
        node("Frob", ["a"], ["b"], "/b/Frob"),
        *[
            node("Fancy", ["b" if k == 0 else f"c{k}"], [f"c{k + 1}"], domain="com.acme")
            for k in range(4)
        ],
        shape=[2],
        domains={"com.acme": 3},
    )
    assert message(model) == (
        "operators of this model have no converter\n"
        "  got: 6 nodes of 2 kinds\n"
        "    Frob (domain ai.onnx, opset 17) x1: onnx:/b/Frob\n"
        "    Fancy (domain com.acme, opset 3) x5: onnx:/a/Fancy, onnx:Fancy:c1, onnx:Fancy:c2, "
        "and 2 more\n"
        "  instead: write converters for them and make them known: "
        'register_converter("Frob", 1, convert) of loopwright.frontend.onnx'
        "; for the command line in a file: --plugin FILE.py"
    )


def test_one_unknown_operator():
    model = chain(
        node("Fancy", ["x"], ["y"], domain="com.acme"), shape=[2], domains={"com.acme": 1}
    )
    assert message(model) == (
        "operators of this model have no converter\n"
        "  got: 1 node\n"
        "    Fancy (domain com.acme, opset 1) x1: onnx:Fancy:y\n"
        "  instead: write converters for them and make them known: "
        'register_converter("Fancy", 1, convert, domain="com.acme") of loopwright.frontend.onnx'
        "; for the command line in a file: --plugin FILE.py"
    )


def test_an_operator_that_is_too_new_for_the_opset():
    text = message(operator("HardSwish", floats(2), opset=13)[0])
    assert "HardSwish (domain ai.onnx, opset 13) x1: onnx:node" in text


def test_matmul_of_other_inner_dims():
    assert message(one("MatMul", [2, 4], [5, 3])) == (
        "MatMul: relax.matmul: the inner dimensions differ: 4 and 5\n"
        "  instead: transpose or reshape one side\n"
        '  got: R.Tensor((2, 4), dtype="float32"), R.Tensor((5, 3), dtype="float32")\n'
        " --> onnx:/fc1/MatMul"
    )


@pytest.mark.parametrize(
    "model, text",
    [
        (one("MatMul", [2, 4]), "it takes 2 inputs (a, b)\n  got: 1"),
        (one("Relu", [2], [2]), "it takes 1 input (x)\n  got: 2"),
        (one("Clip", [2], [2], [2], [2]), "it takes 1 to 3 inputs (x, low, high)\n  got: 4"),
        (one("MatMul", [2, 4], inputs=["", "x0"]), "input a is missing\n  got: , x0"),
        (one("Softmax", [2], axis=1.5), "attribute axis must be an integer\n  got: float 1.5"),
        (one("Softmax", [2], axes=1), "attributes that Softmax has not at opset 17\n  got: axes"),
        (one("Concat", [2], [2]), "attribute axis is missing\n  instead: give an integer"),
        (
            one("Transpose", [2], perm="ab"),
            "attribute perm must be a list of integers\n  got: str ab",
        ),
        (one("Softmax", [2, 4], axis=7), "attribute axis is out of range\n  got: 7 for rank 2"),
        (
            one("Gelu", [2], approximate="fast"),
            "operators of this model have no converter",
        ),
        (
            one("MaxPool", [1, 2, 5, 5], kernel_shape=[0, 3]),
            "attribute kernel_shape must hold 2 positive numbers\n  got: [0, 3]",
        ),
        (
            one("Conv", [1, 2, 5, 5], weights={"w": floats(4, 2, 3, 3)}, pads=[1, 1]),
            "attribute pads must hold 4 numbers, none negative\n  got: [1, 1]",
        ),
        (
            one("Conv", [1, 3], weights={"w": floats(4, 2, 3, 3)}),
            "the input must be [N, C, ...] with 1 to 3 spatial axes\n"
            '  got: R.Tensor((1, 3), dtype="float32")',
        ),
        (
            one("Reshape", [2, 2], weights={"t": ints(3, -1)}),
            "the number of elements must stay\n  got: 4 elements into [3] and -1",
        ),
        (
            one("Reshape", [2, 2], weights={"t": ints(-1, -1)}),
            "the new shape may hold one -1, the rest not negative\n  got: [-1, -1]",
        ),
        (
            one("Expand", [2, 2], weights={"t": ints(3, 2)}),
            "dimension 0 cannot be expanded\n  got: 2 to 3\n  instead: it must be 1",
        ),
        (
            one("Expand", [2], [2**62], dtype=np.int64),  # which took for ever
            "at most 1024 axes, sizes or positions can be computed at run time\n"
            "  got: 4611686018427387904\n  instead: a constant input",
        ),
        (
            graph(
                [
                    node(
                        "Attention",
                        ["x", "w"],
                        ["y"],
                        "/fc1/Attention",
                        domain="com.microsoft",
                        num_heads=1,
                    )
                ],
                [value("x", [2, 8]), value("w", [8, 24])],
                [value("y", None)],
                domains={"com.microsoft": 1},
            ),
            "the input must be (batch, length, width)\n  got: 2 dimensions",
        ),
        (
            one("Gather", [2], weights={"i": ints(5)}),
            "an index is out of range\n  got: 5 to 5 of 2",
        ),
        (
            one("Flatten", [2**62, 2**62, 8]),
            "a dimension does not fit 64 bits\n  got: [4611686018427387904, 8]",
        ),
        (
            one("Softmax", None),
            "the rank of an input is not known\n"
            "  got: a model that says none of x0, whose operators take several\n"
            "  instead: shape_dict={'x0': [None, ...]}, "
            "a number, name or None for each axis",
        ),
        (
            one("Cast", [2], to=14),
            "nothing is cast to complex numbers\n  got: complex64\n  instead: numbers, bool and strings",
        ),
    ],
    ids=lambda v: v.graph.node[0].op_type if isinstance(v, onnx.ModelProto) else "",
)
def test_nodes(model, text):
    """The message: the operator, what is wrong, and the node."""
    op_type = model.graph.node[0].op_type
    got = message(model)
    if text.startswith("operators"):
        assert got.startswith(text)
    else:
        assert got == f"{op_type}: {text}\n --> onnx:/fc1/{op_type}"


def test_a_second_output_that_no_converter_gives():
    model, _ = operator("LRN", floats(1, 1, 4, 4), size=3, outputs=2)
    assert message(model) == (
        "LRN: output 1 (y1) is not supported\n  instead: leave it out\n --> onnx:node"
    )


def test_a_failure_nobody_foresaw_names_the_node():
    model = one("Split", [4], axis=3)
    assert message(model).endswith("\n --> onnx:/fc1/Split")


# ---------------------------------------------------------------- files


def test_a_truncated_file(tmp_path):
    data = RELU.SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: len(data) // 2])
    assert message(path) == (
        f"{path}: no ONNX model, or only a part of one\n"
        f"  got: {len(data) // 2} bytes that are not a complete protobuf message\n"
        "  instead: export or download the file again; a complete one passes onnx.checker.check_model"
    )


def test_every_truncation_is_refused():
    data = RELU.SerializeToString()
    for size in range(len(data)):
        with pytest.raises(LoopwrightError):
            from_onnx(data[:size])


def test_bytes_that_are_no_model():
    text = message(b"GIF89a" * 20)
    assert text.startswith("these bytes: no ONNX model, or only a part of one\n  got: 120 bytes")


def test_no_file():
    text = message("/nowhere/m.onnx", FileNotFoundError)
    assert text.startswith("the ONNX file does not exist\n  got: /nowhere/m.onnx\n")


def test_no_model():
    assert message(7, TypeError) == (
        "an ONNX model is a path, bytes or an onnx.ModelProto\n  got: int"
    )


def test_without_the_onnx_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert message("m.onnx") == (
        "reading ONNX models needs the package onnx\n  instead: pip install 'loopwright[onnx]'"
    )


def test_external_data_without_a_folder(tmp_path):
    model, _ = operator("Add", floats(300), floats(300), fed=1)
    onnx.save(
        model, tmp_path / "m.onnx", save_as_external_data=True, location="d", size_threshold=0
    )
    proto = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    assert message(proto) == (
        "initializer x1: the data of a tensor is in another file\n  got: d\n"
        "  instead: give the model's path, or onnx.load it with its data"
    )
    (tmp_path / "d").unlink()
    text = message(tmp_path / "m.onnx")
    assert text.startswith("initializer x1: the external data of a tensor cannot be read\n")


# ---------------------------------------------------------------- graphs


def edited(change):
    model = onnx.ModelProto()
    model.CopyFrom(RELU)
    change(model)
    return model


def set_type(number):
    def change(model):
        model.graph.input[0].type.tensor_type.elem_type = number

    return change


def set_sequence(model):
    model.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", 1, None))


@pytest.mark.parametrize(
    "change, text",
    [
        (
            lambda m: m.ClearField("opset_import"),
            "the model does not say its opset\n  got: no opset_import of ai.onnx\n"
            "  instead: give it: from_onnx(model, opset=13)",
        ),
        (
            lambda m: m.opset_import.add(domain="other", version=-(2**63)),
            "no version of the domain 'other'\n  got: -9223372036854775808\n"
            "  instead: a small number",
        ),
        (
            lambda m: setattr(m.opset_import[0], "version", 99),
            "the opset must be between 1 and 28\n  got: 99\n"
            "  instead: onnx.version_converter.convert_version, or from_onnx(model, opset=...)",
        ),
        (
            set_type(TensorProto.STRING),
            "Relu: an input is not a tensor\n  got: R.Object\n --> onnx:Relu:y",
        ),
        (
            set_type(99),
            "input x: element type is not supported\n  got: number 99\n"
            "  instead: numbers, bool and strings",
        ),
        (
            set_type(99),
            "input x: element type is not supported\n  got: number 99\n"
            "  instead: numbers, bool and strings",
        ),
        (
            set_sequence,
            "Relu: an input is not a tensor\n  got: R.Object\n --> onnx:Relu:y",
        ),
        (lambda m: m.graph.ClearField("output"), "this ONNX graph has no outputs\n  got: test"),
        (
            lambda m: setattr(m.graph.output[0], "name", "z"),
            "no node computes the output z\n  got: ['y']",
        ),
        (
            lambda m: m.graph.input.append(m.graph.input[0]),
            "inputs of the same name\n  got: x",
        ),
        (
            lambda m: (
                setattr(m.graph.node[0], "name", "r") or m.graph.node[0].input.__setitem__(0, "q")
            ),
            "Relu reads a value that no node computes\n  got: q\n --> onnx:r",
        ),
        (
            lambda m: m.graph.node.append(node("Exp", ["x"], ["y"], "e")),
            "two nodes compute the value y\n  got: onnx:Relu:y and onnx:e\n"
            "  instead: a unique name for each value",
        ),
        (
            lambda m: m.graph.node.append(node("Exp", ["y"], ["x"], "e")),
            "two nodes compute the value x\n  got: an input or initializer and onnx:e\n"
            "  instead: a unique name for each value",
        ),
    ],
)
def test_broken_graphs(change, text):
    assert message(edited(change)) == text


def test_a_cycle():
    nodes = [node("Add", ["x", "b"], ["a"], "A"), node("Relu", ["a"], ["b"], "B")]
    assert message(graph(nodes, [value("x", [2])], [value("b", None)])) == (
        "the graph's nodes form a cycle\n  got: onnx:B -> onnx:A -> onnx:B"
    )


def weight(change):
    model, _ = operator("Add", floats(2), floats(2), fed=1)
    change(model.graph.initializer[0])
    return model


def test_weights_that_do_not_fill_their_shape():
    prefix = "initializer x1: a tensor's data does not fill its shape\n  got: "
    giant = weight(lambda t: t.dims.__setitem__(slice(None), [2**62, 2**62]))
    assert message(giant) == f"{prefix}8 bytes for [{2**62}, {2**62}] of float32"
    assert message(weight(lambda t: setattr(t, "raw_data", b"abc"))) == (
        f"{prefix}3 bytes for [2] of float32"
    )
    assert message(weight(lambda t: t.ClearField("raw_data"))).startswith(f"{prefix}[2] of float32")
    assert message(weight(lambda t: t.dims.__setitem__(slice(None), [-1]))) == (
        "initializer x1: a tensor has a negative dimension\n  got: [-1]"
    )


def test_dicts_that_name_no_input():
    assert message(RELU, shape_dict={"z": [2]}) == (
        "shape_dict names an input that the model has not\n  got: z\n  instead: the inputs are x"
    )
    assert message(RELU, dtype_dict={"z": "int8"}).startswith("dtype_dict names an input that")
    assert message(RELU, shape_dict={"x": [1.5]}) == (
        "a dimension is a number, a name or a tir.Var\n  got: 1.5"
    )


# ---------------------------------------------------------------- large and deep models


@pytest.mark.parametrize("op_type", ["Neg", "Relu"])
def test_thousands_of_nodes_in_a_row(op_type):
    """Also where the last one's constant has to be known."""
    nodes = [node(op_type, [f"v{k}" if k else "w"], [f"v{k + 1}"]) for k in range(1500)]
    nodes.append(node("Clip", ["x", "v1500"], ["y"]))
    model = graph(nodes, [value("x", [2])], [value("y", None)], {"w": np.float32(2)})
    mod = from_onnx(model)
    assert len(mod["main"].body.blocks[0].bindings) == 2


def test_giant_results_are_not_made_while_importing():
    shape = {"s": ints(2**25, 2**18)}
    for op_type, dims in (("ConstantOfShape", []), ("Tile", [[2, 2]])):
        mod = from_onnx(one(op_type, *dims, weights=shape))
        assert mod["main"].ret_struct_info.ndim == 2
    bounds = {"a": np.int64(0), "b": np.int64(2**43), "c": np.int64(1)}
    mod = from_onnx(one("Range", weights=bounds))
    assert int(mod["main"].ret_struct_info.shape[0]) == 2**43


def test_names_that_are_no_text_are_shown():
    data = RELU.SerializeToString()
    assert "    Re\\xffu (domain ai.onnx" in message(data.replace(b"Relu", b"Re\xffu"))
    broken = data.replace(b"\n\x01x", b"\n\x01\xff")  # the node's input, and the graph's
    assert from_onnx(broken).attrs["input_names"] == ["\\xff"]


def test_axes_and_ranks_that_do_not_fit_are_said_by_the_operator():
    text = message(one("Trilu", [3]))
    assert text.startswith("Trilu: relax.triu: needs a tensor of two axes or more\n  got: rank 1\n")
    shape = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "b", "e", "a"], ["y"], "cut")]
    weights = {"b": ints(0), "e": ints(1), "a": ints(2)}
    text = message(chain(*shape, shape=["n", 3], weights=weights, out=TensorProto.INT64))
    assert text.startswith("Slice: attribute axis is out of range\n  got: 2 for rank 1\n")


def test_attributes_of_another_kind_than_they_must_be():
    text = message(one("ReduceSum", [3], keepdims=2**62))
    assert text.startswith(
        "ReduceSum: attribute keepdims must be 0 or 1\n  got: 4611686018427387904\n"
    )
    text = message(one("If", [], dtype=np.bool_, then_branch=[1, 2], else_branch=[3]))
    assert text.startswith("If: attribute then_branch must be a graph\n  got: [1, 2]\n")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            one("GRU", [4, 2, 3], [1, 15, 3], [15, 5], hidden_size=5),
            "GRU: an input needs 3 dimensions or more\n  got: the shape (15, 5)\n",
        ),
        (
            one("GRU", [2, 3], [1, 15, 3], [1, 15, 5], hidden_size=5),
            "GRU: the inputs or attributes do not fit (ValueError: not enough values to unpack (expected"
            ' 3, got 2))\n  got: inputs R.Tensor((2, 3), dtype="float32"), R.Tensor((1, 15, 3), ',
        ),
        (
            one("EyeLike", [3]),
            "EyeLike: the inputs or attributes do not fit (ValueError: ",
        ),
    ],
)
def test_what_a_converter_does_not_foresee_shows_what_it_was_given(model, text):
    said = message(model)
    assert said.startswith(text)
    assert (
        "instead: inputs that the operator's definition allows" in said
        or "dimensions or more" in said
    )


def test_a_loop_that_nothing_ends_is_refused():
    text = message(chain(*_loop("c"), shape=[1], weights={"n": ints(2**62).reshape(())}))
    assert text.startswith(f"Loop: nothing ends this loop\n  got: {2**62} iterations\n")
    from_onnx(chain(*_loop("no"), shape=[1], weights={"n": ints(2**62).reshape(())}))


def _loop(condition):
    """A loop of n turns over x, whose body ends on `condition`: the one it gets, or one that is false."""
    nodes = [node("Identity", [condition], ["on"]), node("Neg", ["s"], ["t"])]
    ports = [value("i", [], np.int64), value("c", [], np.bool_), value("s", [1])]
    no = onnx.numpy_helper.from_array(np.array(False), "no")
    outputs = [value("on", [], np.bool_), value("t", [1])]
    body = helper.make_graph(nodes, "body", ports, outputs, [no])
    return [node("Loop", ["n", "", "x"], ["y"], body=body)]


def test_an_operator_that_numpy_refuses_at_run_time_says_on_what():
    port = value("x", None, np.int32)
    model = graph([node("ArgMin", ["x"], ["y"], "least", axis=-2)], [port], [value("y", None)])
    with pytest.raises(ValueError) as caught:
        loopwright.compile(model)["main"](np.zeros(3, np.int32))
    what = "relax.argmin cannot be computed: axis -2 is out of bounds for array of dimension 1"
    assert str(caught.value).startswith(f"{what}\n  got: int32 (3,)")
    assert caught.value.__notes__[-1].endswith("(onnx:least)")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (
            one("UnfoldTensor", [4, 4], domain="com.microsoft", dim=1, size=2**32),
            "UnfoldTensor: size is at most the extent of the axis, step 1 or more\n"
            '  got: size 4294967296 and step 1 of R.Tensor((4, 4), dtype="float32")',
        ),
        (
            one("UnfoldTensor", ["n", 4], domain="com.microsoft", dim=0, size=2**40),
            "UnfoldTensor: this model takes more MiB of constants that importing makes than a file",
        ),
        (
            one(
                "DecoderMaskedMultiHeadAttention",
                *[[2, 1, 8]] * 3,
                domain="com.microsoft",
                num_heads=2,
                past_present_share_buffer=1,
            ),
            "DecoderMaskedMultiHeadAttention: a shared cache needs value, past_key, past_value",
        ),
        (
            graph(
                [
                    node(
                        "FeatureVectorizer",
                        ["", "x"],
                        ["y"],
                        domain="ai.onnx.ml",
                        inputdimensions=[5, 2],
                    )
                ],
                [value("x", [2, 2])],
                [value("y", None)],
            ),
            "FeatureVectorizer: input inputs is missing\n  got: , x",
        ),
        (
            one(
                "QMoE",
                *([2, 16], [2, 2], [2, 16]),
                weights={
                    "s": floats(2, 32),
                    "b": floats(2, 32),
                    "w": floats(2, 16),
                    "t": floats(2),
                },
                domain="com.microsoft",
                expert_weight_bits=8,
            ),
            "QMoE: an input needs 3 dimensions or more\n  got: R.Tensor((2, 16)",
        ),
    ],
)
def test_contributed_operators_of_other_forms(model, text):
    assert message(model).startswith(text)


def test_topk_of_another_count_than_one():
    k = helper.make_tensor("k", TensorProto.INT64, [0], [])
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"])
    ports = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", [4]), ("v", None))
    ]
    model = helper.make_graph([node], "g", ports[:1], ports[1:], [k])
    with pytest.raises(LoopwrightError, match="k must be one number"):
        from_onnx(helper.make_model(model, opset_imports=[helper.make_opsetid("", 17)]))
