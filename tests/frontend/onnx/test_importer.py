"""Inputs, outputs, names, spans, weights, and shapes computed by the model."""

from __future__ import annotations

import gc
import itertools
import weakref
from itertools import starmap

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from loopwright import relax, tir
from loopwright.backend import llvm
from loopwright.base.errors import LoopwrightError
from loopwright.driver import compile
from loopwright.frontend import detach_params
from loopwright.frontend.common import autopad, typical_sizes
from loopwright.frontend.graph.context import Context
from loopwright.frontend.graph.registry import find_converter
from loopwright.frontend.onnx import (
    converter,
    from_onnx,
    from_path_or_proto,
    register_converter,
    supported_operators,
)
from loopwright.frontend.onnx.tensors import DTYPES
from loopwright.ir.dtype import numpy_dtype
from loopwright.ir.functor import post_order_visit
from loopwright.ir.target import Target
from loopwright.relax.analysis import assert_well_formed

from .support import (
    chain,
    check,
    close,
    floats,
    graph,
    integers,
    interpreted,
    ints,
    operator,
    value,
)
from .support import reference as reference_of

node = helper.make_node


def bindings(mod):
    return [b for block in mod["main"].body.blocks for b in block.bindings]


def shapes(mod):
    infos = [p.struct_info.shape for p in mod["main"].params]
    return [tuple(getattr(d, "value", None) or d.name for d in shape) for shape in infos]


# ---------------------------------------------------------------- inputs and outputs


def test_dims_with_one_name_are_one_variable():
    model = graph(
        [node("Add", ["a", "b"], ["y"])],
        [value("a", ["batch", "?", -1, None]), value("b", ["batch", "?", 1, "None"])],
        [value("y", None)],
    )
    mod = from_onnx(model)
    a, b = (p.struct_info.shape for p in mod["main"].params)
    assert a[0] is b[0]
    assert a[1] is not b[1]
    assert shapes(mod) == [
        ("batch", "a_dim1", "a_dim2", "a_dim3"),
        ("batch", "b_dim1", 1, "b_dim3"),
    ]


def test_dims_keep_names_that_are_no_identifiers():
    texts = [["p.Dim.0", "batch size"], ["batch size", "2 * k"], ["p_Dim_0", "?"]]
    ports = [value(name, dims) for name, dims in zip("abc", texts, strict=True)]
    nodes = [node("MatMul", ["a", "b"], ["t"]), node("MatMul", ["c", "c"], ["u"])]
    mod = from_onnx(graph(nodes, ports, [value("t", None)]))
    names = [("p_Dim_0_", "batch_size"), ("batch_size", "d_2___k"), ("p_Dim_0", "c_dim1")]
    assert shapes(mod) == names
    a, b, _ = (p.struct_info.shape for p in mod["main"].params)
    assert a[1] is b[0]


TYPICAL = {
    "named": ([("ids", "int64", ("batch_size", "past_seq_len"))], {"batch_size": 1, "past_seq_len": 128}),
    "by place": ([("x", "float32", ("a", 3, "c", "d"))], {"a": 1, "c": 224, "d": 224}),
    "the first says it": ([("x", "int64", ("n", "k")), ("y", "float32", ("k", 3))], {"n": 1, "k": 128}),
    "names before places": ([("x", "float32", ("time", "N", 80))], {"time": 128, "N": 1}),
    "none": ([("x", "float32", (2, 3))], {}),
}  # fmt: skip


@pytest.mark.parametrize("inputs, sizes", TYPICAL.values(), ids=TYPICAL)
def test_typical_sizes(inputs, sizes):
    assert {name: size for name, (_, size) in typical_sizes(inputs).items()} == sizes


def test_a_fresh_dim_takes_no_name_of_the_model():
    model = graph([node("Relu", ["a"], ["y"])], [value("a", ["a_dim1", None])], [value("y", None)])
    assert shapes(from_onnx(model)) == [("a_dim1", "a_dim1_")]


@pytest.mark.parametrize("name, dim", [("n", "n"), ("x", "T"), ("class", "R"), ("main", "lv")])
def test_names_that_mean_something_in_a_script(name, dim):
    """The module is printed and parsed back (by the fixture of all tests)."""
    nodes = [node("Relu", [name], ["y"]), node("Exp", ["y"], ["z"])]
    mod = from_onnx(graph(nodes, [value(name, [dim, 2])], [value("z", None)]))
    assert shapes(mod) == [(dim, 2)]


def test_shape_dict_and_dtype_dict():
    model = graph(
        [node("Cast", ["a"], ["y"], to=TensorProto.FLOAT)],
        [value("a", ["n", 3], np.int64)],
        [value("y", None)],
    )
    assert shapes(from_onnx(model, {"a": [2, "m"]})) == [(2, "m")]
    m = tir.Var("m", "int64")
    mod = from_onnx(model, {"a": [m, 4]}, {"a": "int32"})
    (param,) = mod["main"].params
    assert param.struct_info.shape[0] is m
    assert param.struct_info.dtype == "int32"


def test_an_input_without_a_shape_or_dtype():
    plain = helper.make_empty_tensor_value_info("a")
    mod = from_onnx(graph([node("Relu", ["a"], ["y"])], [plain], [value("y", None)]))
    info = mod["main"].params[0].struct_info
    assert (info.ndim, info.dtype) == (-1, "float32")
    assert_well_formed(mod)
    mod = from_onnx(
        graph([node("Relu", ["a"], ["y"])], [plain], [value("y", None)]), {"a": []}, "float64"
    )
    info = mod["main"].params[0].struct_info
    assert (info.ndim, info.dtype) == (0, "float64")


def test_names():
    model = graph(
        [node("Add", ["in/1", "537"], ["t:0"]), node("Mul", ["t:0", "in.1"], ["out.0"])],
        [value("in/1", [2]), value("537", [2]), value("in.1", [2])],
        [value("out.0", [2]), value("t:0", [2])],
    )
    mod = from_onnx(model)
    assert [p.name_hint for p in mod["main"].params] == ["in_1", "input_537", "in_1_1"]
    assert list(mod.attrs["input_names"]) == ["in/1", "537", "in.1"]
    assert list(mod.attrs["output_names"]) == ["out.0", "t:0"]
    assert mod["main"].attrs["num_input"] == 3
    raw = from_onnx(model, sanitize_input_names=False)
    assert [p.name_hint for p in raw["main"].params] == ["in/1", "537", "in.1"]
    feeds = {n: floats(2, seed=k) for k, n in enumerate(["in/1", "537", "in.1"])}
    check(model, feeds)


def test_spans_name_the_nodes():
    nodes = [node("Relu", ["x"], ["a"], "/fc1/Relu"), node("Exp", ["a"], ["b"])]
    mod = from_onnx(chain(*nodes, shape=[2]))
    spans = [str(b.span) for b in bindings(mod)]
    assert spans[:2] == ["onnx:/fc1/Relu", "onnx:Exp:b"]


def test_outputs_that_are_inputs_or_weights():
    model = graph(
        [node("Identity", ["x"], ["y"])],
        [value("x", ["n"])],
        [value("y", ["n"]), value("x", ["n"]), value("w", [3]), value("y2", [3])],
        {"w": floats(3)},
    )
    model.graph.node.append(node("Identity", ["w"], ["y2"]))
    mod = from_onnx(model)
    assert_well_formed(mod)
    got = interpreted(mod, {"x": floats(4, seed=5)})
    close(got, [floats(4, seed=5)] * 2 + [floats(3)] * 2)


def test_weights_are_no_inputs_and_unused_ones_are_dropped():
    model = graph(
        [node("Add", ["x", "w"], ["y"])],
        [value("x", [3]), value("w", [3]), value("unused", [2])],
        [value("y", [3])],
        {"w": floats(3), "unused": floats(2)},
    )
    mod = from_onnx(model)
    assert list(mod.attrs["input_names"]) == ["x"]
    constants = [a for b in bindings(mod) for a in getattr(b.value, "args", ())]
    assert sum(isinstance(a, relax.Constant) for a in constants) == 1


@pytest.mark.no_roundtrip  # the weights are an attribute, whose text is rounded
def test_weights_kept_as_inputs():
    model, feeds = operator("Gemm", floats(2, 3), floats(3, 4), floats(4), fed=1)
    mod = from_onnx(model, keep_params_in_input=True)
    assert [p.name_hint for p in mod["main"].params] == ["x0", "x1", "x2"]
    assert mod["main"].attrs["num_input"] == 1
    assert list(mod.attrs["input_names"]) == ["x0", "x1", "x2"]
    bare, params = detach_params(mod)
    assert "params" not in bare["main"].attrs
    arrays = [p.numpy() for p in params["main"]]
    close(arrays, [floats(3, 4), floats(4)])
    close(
        interpreted(bare, {**feeds, "x1": arrays[0], "x2": arrays[1]}),
        interpreted(from_onnx(model), feeds),
    )


def test_nodes_that_no_output_needs_are_left_out():
    nodes = [node("Relu", ["x"], ["y"]), node("NoSuchOperator", ["x"], ["z"])]
    model = graph(nodes, [value("x", [2])], [value("y", [2])])
    assert len(bindings(from_onnx(model))) == 2  # the operator, and the output's name for it


def test_unsorted_nodes_are_sorted():
    nodes = [node("Exp", ["a"], ["y"]), node("Relu", ["x"], ["a"])]
    mod = from_onnx(graph(nodes, [value("x", [2])], [value("y", [2])]))
    (got,) = interpreted(mod, {"x": floats(2)})
    close([got], [np.exp(np.maximum(floats(2), 0))])


def test_paths_bytes_and_protos(tmp_path):
    model = chain(node("Relu", ["x"], ["y"]), shape=[2])
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    expected = from_onnx(model).script()
    for given in (path, str(path), path.read_bytes()):
        assert from_onnx(given).script() == expected
    assert from_path_or_proto(str(path)).script() == expected
    assert from_path_or_proto(model).script() == expected
    assert from_path_or_proto(3) is None
    assert from_path_or_proto("resnet") is None


def test_external_data(tmp_path):
    model, feeds = operator("Add", floats(300), floats(300, seed=1), fed=1)
    expected = interpreted(from_onnx(model), feeds)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=0)
    close(interpreted(from_onnx(path), feeds), expected)


def test_a_weight_that_many_nodes_use_stays_one():
    model = graph(
        [node("Gemm", [f"x{i}", "w"], [f"y{i}"], transB=1) for i in range(3)],
        [value(f"x{i}", [1, 40]) for i in range(3)],
        [value(f"y{i}", [1, 70]) for i in range(3)],
        {"w": floats(70, 40)},
    )
    program = compile(model).program
    assert sum(c.nbytes for c in program.constants.values()) < 2 * 4 * 70 * 40
    x = [floats(1, 40, seed=i) for i in range(3)]
    check(model, {f"x{i}": x[i] for i in range(3)})


def test_weights_are_not_computed_for_sums_that_vary(monkeypatch):
    model = graph(
        [
            node("Cast", ["w"], ["wide"], to=TensorProto.INT32),
            node("Sub", ["wide", "zero"], ["centred"]),
            node("MatMul", ["x", "centred"], ["sums"]),
            node("Add", ["sums", "zero"], ["y"]),  # an operator that computes shapes, too
        ],
        [value("x", [1, 40], np.int32)],
        [value("y", [1, 4], np.int32)],
        {"w": integers(40, 4, dtype=np.int8), "zero": np.asarray(3, np.int32)},
    )
    folded = []
    fold = Context._fold_call
    monkeypatch.setattr(Context, "_fold_call", lambda cx, c: folded.append(c) or fold(cx, c))
    check(model, {"x": integers(1, 40, dtype=np.int32)})
    assert not folded


W = floats(2, 2, 3, 3)
RANKS = {
    "behind others": ([node("Relu", ["x"], ["t"]), node("Conv", ["t", "w"], ["y"])], 4, {"x": (1, 2, 5, 5)}),
    "by an attribute": ([node("Transpose", ["x"], ["y"], perm=[0, 2, 1])], 3, {"x": (2, 3, 4)}),
    "of two inputs": (
        [node("Gemm", ["x", "b"], ["t"]), node("Conv", ["z", "w"], ["y"]), node("Relu", ["t"], ["u"])],
        2, {"x": (2, 3), "b": (3, 3), "z": (1, 2, 5, 5)}),
}  # fmt: skip


@pytest.mark.parametrize("nodes, rank, extents", RANKS.values(), ids=RANKS)
def test_a_rank_that_only_the_operators_say(nodes, rank, extents):
    outputs = [value(nodes[-1].output[0], None), value("y", None)]
    ports = [value(name, None) for name in extents]
    model = graph(nodes, ports, outputs[-1:] if len(ports) == 1 else outputs, {"w": W})
    mod = from_onnx(model)
    assert mod["main"].params[0].struct_info.ndim == rank
    feeds = {name: floats(*shape) for name, shape in extents.items()}
    close(interpreted(mod, feeds), reference_of(model, feeds))


def test_a_rank_that_nothing_says():
    model = graph([node("Flatten", ["x"], ["y"])], [value("x", None)], [value("y", None)])
    message = r"says none of x, .*several\n  instead: shape_dict={'x': \[None, \.\.\.\]}"
    with pytest.raises(LoopwrightError, match=message):
        from_onnx(model)
    assert from_onnx(model, shape_dict={"x": [None, 3]})["main"].ret_struct_info.ndim == 2
    norm = node("BatchNormalization", ["x", *"ssss"], ["y"])  # takes any rank, also while it runs
    model = graph([norm], [value("x", None)], [value("y", None)], {"s": np.float32([1, 2])})
    for shape in ((3, 2), (1, 2, 3, 3)):
        got = compile(model).run({"x": floats(*shape)})["y"].numpy()
        close([got], reference_of(model, {"x": floats(*shape)}))


def test_a_model_that_carries_its_own_functions():
    body = [node("Mul", ["a", "a"], ["t"]), node("Relu", ["t"], ["b"])]
    function = helper.make_function(
        "mine", "Square", ["a"], ["b"], body, [helper.make_opsetid("", 17)]
    )
    model = chain(node("Square", ["x"], ["y"], domain="mine"), shape=[3], domains={"mine": 1})
    model.functions.append(function)
    (got,) = interpreted(from_onnx(model), {"x": floats(3)})
    close([got], [floats(3) ** 2])


def reference(name, to, kind=AttributeProto.FLOAT):
    """An attribute of a function's body that is the function's own."""
    return AttributeProto(name=name, ref_attr_name=to, type=kind)


def own(name, nodes, required=(), domain="mine", opset=17, overload="", **defaults):
    """A function from `a` to `b`, and the defaults of its attributes."""
    versions = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    made = helper.make_function(domain, name, ["a"], ["b"], nodes, versions, list(required))
    made.overload = overload
    made.attribute_proto.extend(starmap(helper.make_attribute, defaults.items()))
    return made


def leaky(slope="slope", x="a", y="b"):
    made = node("LeakyRelu", [x], [y])
    made.attribute.append(reference("alpha", slope))
    return made


def calls(op, domain="mine", x="a", y="b", **attributes):
    """A node of the domain with attributes, references among them."""
    refs = [v for v in attributes.values() if isinstance(v, AttributeProto)]
    given = {k: v for k, v in attributes.items() if not isinstance(v, AttributeProto)}
    made = node(op, [x], [y], domain=domain, **given)
    made.attribute.extend(refs)
    return made


def branching():
    """A leaky relu in a branch of a branch, whose names occur again outside."""

    def choice(inner, y):
        way = helper.make_graph([inner], "way", [], [helper.make_empty_tensor_value_info("y")])
        return node("If", ["c"], [y], then_branch=way, else_branch=way)

    yes = node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    return [yes, choice(choice(leaky(y="y"), "y"), "b")]


LEAKY = own("Leaky", [leaky()], slope=0.5)
FUNCTIONS = {
    "default": ([LEAKY], calls("Leaky"), 0.5),
    "given": ([LEAKY], calls("Leaky", slope=0.25), 0.25),
    "required": ([own("Leaky", [leaky()], ["slope"])], calls("Leaky", slope=0.25), 0.25),
    "operator's default": ([own("Leaky", [leaky()], ["slope"])], calls("Leaky"), 0.01),
    "function of a function": (
        [own("Outer", [calls("Leaky")]), LEAKY], calls("Outer"), 0.5),
    "given by a default": (
        [own("Outer", [calls("Leaky", s=reference("slope", "t"))], t=0.25), LEAKY], calls("Outer"), 0.25),
    "reference to nothing": (
        [own("Outer", [calls("Leaky", s=reference("slope", "t"))], ["t"]), LEAKY], calls("Outer"), 0.5),
    "same name, another domain": (
        [own("Leaky", [calls("Leaky")], domain="yours", slope=0.125), LEAKY], calls("Leaky", "yours"), 0.5),
    "same name as a standard one": (
        [own("LeakyRelu", [leaky()], slope=0.5)], calls("LeakyRelu"), 0.5),
    "in a branch": ([own("Leaky", branching(), slope=0.5)], calls("Leaky"), 0.5),
    "another opset": ([own("Leaky", [leaky()], opset=13, slope=0.5)], calls("Leaky"), 0.5),
}  # fmt: skip


@pytest.mark.parametrize("functions, call, slope", FUNCTIONS.values(), ids=FUNCTIONS)
def test_attributes_of_a_models_own_function(functions, call, slope, rng):
    call.input[:], call.output[:] = ["x"], ["y"]
    model = chain(call, shape=[5], domains={"mine": 1, "yours": 1})
    model.functions.extend(functions)
    x = rng.normal(size=5).astype(np.float32)
    (got,) = interpreted(from_onnx(model), {"x": x})
    close([got], [np.where(x < 0, np.float32(slope) * x, x)])


def test_overloads_and_tensors_as_defaults(rng):
    number = numpy_helper.from_array(np.array([1, 2], np.float32))
    plus = node("Constant", [], ["c"])
    plus.attribute.append(reference("value", "level", AttributeProto.TENSOR))
    body = [plus, node("Add", ["a", "c"], ["b"])]
    one, two = own("Plus", body, overload="1", level=number), own("Plus", body, overload="2")
    two.attribute_proto.append(
        helper.make_attribute("level", numpy_helper.from_array(np.float32([5, 7])))
    )
    first, second = calls("Plus", x="x", y="t"), calls("Plus", x="t", y="y")
    first.overload, second.overload = "1", "2"
    model = chain(first, second, shape=[2], domains={"mine": 1})
    model.functions.extend([one, two])
    x = rng.normal(size=2).astype(np.float32)
    (got,) = interpreted(from_onnx(model), {"x": x})
    close([got], [x + np.float32([1, 2]) + np.float32([5, 7])])


def test_a_functions_operators_have_its_own_version(rng):
    """Softmax of opset 12 is over all axes from the first on, that of opset 13 over one."""
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    for opset, axes in ((12, (1, 2)), (13, 1)):
        body = [node("Softmax", ["a"], ["b"], axis=1)]
        model = chain(calls("Soft", x="x", y="y"), shape=[2, 3, 4], domains={"mine": 1})
        model.functions.append(own("Soft", body, opset=opset))
        (got,) = interpreted(from_onnx(model), {"x": x})
        shifted = np.exp(x - x.max(axes, keepdims=True))
        close([got], [shifted / shifted.sum(axes, keepdims=True)])


def test_a_reference_outside_of_a_function():
    model = chain(leaky(x="x", y="y"), shape=[2])
    with pytest.raises(LoopwrightError, match="attribute alpha: it refers to.*\n  got: slope"):
        from_onnx(model)


def test_an_attribute_that_a_models_function_has_not():
    model = chain(calls("Leaky", x="x", y="y", slop=0.5), shape=[2], domains={"mine": 1})
    model.functions.append(LEAKY)
    with pytest.raises(
        LoopwrightError, match="more than the model's function has\n  got: attribute slop"
    ):
        from_onnx(model)


def test_an_operator_of_the_standard_without_a_converter_runs_by_its_definition():
    q, k, v = floats(1, 2, 5, 8), floats(1, 2, 6, 8, seed=1), floats(1, 2, 6, 8, seed=2)
    assert "Attention" not in supported_operators()
    check(*operator("Attention", q, k, v, opset=23))


def test_a_definition_holds_in_later_opsets():
    model, feeds = operator("CenterCropPad", floats(3, 4), ints(2, 7), fed=1, opset=21)
    check(model, feeds)


# ---------------------------------------------------------------- element types


@pytest.mark.parametrize("number, dtype", DTYPES.items(), ids=DTYPES.values())
def test_weights_of_every_type(number, dtype):
    data = [0, 1, 1, 0, 1] if dtype != "float8_e8m0fnu" else [1, 2, 2, 1, 4]
    tensor = helper.make_tensor("w", number, [5], data)
    model = graph([node("Identity", ["w"], ["y"])], [], [value("y", [5])])
    model.graph.output[0].type.tensor_type.elem_type = number
    model.graph.initializer.append(tensor)
    mod = from_onnx(model)
    info = mod["main"].ret_struct_info
    assert (info.dtype, tuple(map(int, info.shape))) == (dtype, (5,))
    (got,) = interpreted(mod, {})
    assert got.dtype == numpy_dtype(dtype)
    np.testing.assert_array_equal(got.astype(np.float32), data)


def test_bfloat16_model():
    x = floats(2, 3).astype(ml_dtypes.bfloat16)
    port = helper.make_tensor_value_info("x", TensorProto.BFLOAT16, [2, 3])
    model = graph([node("Relu", ["x"], ["y"])], [port], [value("y", None)])
    (got,) = interpreted(from_onnx(model), {"x": x})
    np.testing.assert_array_equal(got, np.maximum(x, 0))


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ({"value_float": 2.5}, np.float32(2.5)),
        ({"value_int": 7}, np.int64(7)),
        ({"value_floats": [1.0, 2.0]}, np.asarray([1, 2], np.float32)),
        ({"value_ints": [3, 4]}, ints(3, 4)),
        ({"value": numpy_helper.from_array(floats(2, 2))}, floats(2, 2)),
    ],
    ids=lambda v: next(iter(v)) if isinstance(v, dict) else "",
)
def test_constants(attributes, expected):
    model = graph([node("Constant", [], ["y"], **attributes)], [], [value("y", None)])
    close(interpreted(from_onnx(model), {}), [np.asarray(expected)])


# ---------------------------------------------------------------- shapes that the model computes


def weights(**arrays):
    return {"weights": {k: np.asarray(v) for k, v in arrays.items()}}


def test_reshape_by_a_chain():
    """Shape -> Gather -> Mul -> Unsqueeze -> Concat -> Reshape: the target is [n * 3, 8]."""
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Mul", ["n", "three"], ["m"]),
        node("Unsqueeze", ["m", "axes"], ["u"]),
        node("Cast", ["u"], ["c"], to=TensorProto.INT32),
        node("Concat", ["c", "eight"], ["t"], axis=0),
        node("Cast", ["t"], ["t64"], to=TensorProto.INT64),
        node("Reshape", ["x", "t64"], ["y"]),
        shape=["n", 3, 8],
        **weights(
            zero=np.int64(0), three=np.int64(3), axes=ints(0), eight=np.asarray([8], np.int32)
        ),
    )
    mod = from_onnx(model)
    assert [b.value.op.name for b in bindings(mod)[:-1]] == ["relax.reshape"]
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((n * 3, 8), dtype="float32")'
    check(model, {"x": floats(5, 3, 8)})


def test_expand_by_where():
    """What exporters write for expand(x, [-1, 4]): ConstantOfShape, Mul, Equal, Where."""
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "zero", "one"], ["n"]),
        node("Concat", ["n", "four"], ["want"], axis=0),
        node("Shape", ["want"], ["rank"]),
        node("ConstantOfShape", ["rank"], ["ones"], value=helper.make_tensor("v", 7, [1], [1])),
        node("Mul", ["ones", "minus"], ["holes"]),
        node("Equal", ["want", "holes"], ["is_hole"]),
        node("Where", ["is_hole", "ones", "want"], ["target"]),
        node("Expand", ["x", "target"], ["y"]),
        shape=["n", 1],
        **weights(zero=ints(0), one=ints(1), four=ints(4), minus=np.int64(-1)),
    )
    mod = check(model, {"x": floats(3, 1)})
    assert [b.value.op.name for b in bindings(mod)[:-1]] == ["relax.broadcast_to"]


def test_zeros_of_a_symbolic_shape():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("ConstantOfShape", ["s"], ["y"]),
        shape=["n", 3],
    )
    check(model, {"x": floats(4, 3)})


def test_range_over_a_symbolic_dimension():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Squeeze", ["s"], ["n"]),
        node("Range", ["zero", "n", "one"], ["y"]),
        shape=["n"],
        out=TensorProto.INT64,
        **weights(zero=np.int64(0), one=np.int64(1)),
    )
    check(model, {"x": floats(4)})


def test_a_range_is_as_long_as_its_dimension():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Squeeze", ["s"], ["n"]),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Cast", ["r"], ["f"], to=TensorProto.FLOAT),
        node("Add", ["x", "f"], ["y"]),
        shape=["n"],
        **weights(zero=np.int64(0), one=np.int64(1)),
    )
    mod = check(model, {"x": floats(4)})
    assert "ndim=" not in mod.script()


def test_a_shape_used_as_data():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        node("Sqrt", ["f"], ["y"]),
        shape=["n", "m"],
    )
    check(model, {"x": floats(4, 9)})


def test_halves_of_a_symbolic_dimension():
    """x[:n // 2] and x[n // 2:], put together again."""
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Div", ["s", "two"], ["h"]),
        node("Slice", ["x", "zero", "h"], ["a"]),
        node("Slice", ["x", "h", "end"], ["b"]),
        node("Concat", ["b", "a"], ["y"], axis=0),
        shape=["n"],
        **weights(two=ints(2), zero=ints(0), end=ints(2**63 - 1)),
    )
    for count in (1, 4, 7):
        check(model, {"x": floats(count)})


def test_reshape_that_changes_nothing_is_none():
    model = chain(
        node("Shape", ["x"], ["s"]),
        node("Reshape", ["x", "s"], ["r"]),
        node("Relu", ["r"], ["y"]),
        shape=["n", "m"],
    )
    mod = from_onnx(model)
    assert [b.value.op.name for b in bindings(mod)[:-1]] == ["relax.nn.relu"]


def test_labels_that_occur_once_need_no_diagonal():
    terms = {"equation": "ij,jk->ik"}
    model = chain(
        node("Einsum", ["x", "w"], ["y"], **terms), shape=[2, 3], **weights(w=floats(3, 4))
    )
    names = {b.value.op.name for b in bindings(from_onnx(model))[:-1]}
    assert "relax.matmul" in names and "relax.gather_nd" not in names


def test_minus_one_between_symbolic_dims():
    model = chain(
        node("Reshape", ["x", "t"], ["y"]), shape=["n", "m", 6], **weights(t=ints(0, -1, 2))
    )
    mod = check(model, {"x": floats(2, 3, 6)})
    assert str(mod["main"].ret_struct_info) == 'R.Tensor((n, m * 3, 2), dtype="float32")'


# ---------------------------------------------------------------- dimensions that must be equal


def test_sides_that_cannot_be_proven_equal_are_checked_at_run_time():
    model = graph(
        [node("Concat", ["a", "b"], ["y"], "sum", axis=1)],
        [value("a", ["n", 3]), value("b", ["m", 3])],
        [value("y", None)],
    )
    mod = check(model, {"a": floats(2, 3), "b": floats(2, 3, seed=1)})
    (cast,) = [b for b in bindings(mod) if isinstance(b, relax.MatchCast)]
    assert str(cast.span) == "onnx:sum"
    assert mod["main"].ret_struct_info.shape[0] is mod["main"].params[0].struct_info.shape[0]
    with pytest.raises(ValueError, match="dimension 0 must be 2\n  got: 5"):
        interpreted(mod, {"a": floats(2, 3), "b": floats(5, 3)})


@pytest.mark.parametrize(
    "op_type, a, b, options",
    [
        ("MatMul", ["n", "k"], ["j", 4], {}),
        ("Concat", ["n", "k"], [3, "j"], {"axis": 0}),
        ("Gemm", ["n", "k"], ["j", 4], {}),
    ],
)
def test_every_kind_of_pairing_is_checked(op_type, a, b, options):
    model = graph(
        [node(op_type, ["a", "b"], ["y"], **options)],
        [value("a", a), value("b", b)],
        [value("y", None)],
    )
    mod = from_onnx(model)
    assert_well_formed(mod)
    assert sum(isinstance(x, relax.MatchCast) for x in bindings(mod)) == 1
    assert mod["main"].ret_struct_info.ndim == 2


# ---------------------------------------------------------------- converters


@pytest.fixture
def own_converters():
    """The table of converters as it was, afterwards."""
    from loopwright.frontend.graph import registry

    with registry.CONVERTERS.snapshot():
        yield


def test_a_users_operator(own_converters):
    def twice(cx, node, x):
        return relax.op.multiply(x.expr, cx.scalar(node.real("factor", 2.0), x.dtype))

    register_converter("Twice", 1, twice, domain="com.acme")
    model = chain(
        node("Twice", ["x"], ["y"], domain="com.acme", factor=3.0),
        shape=["n"],
        domains={"com.acme": 1},
    )
    close(interpreted(from_onnx(model), {"x": floats(3)}), [floats(3) * 3])


def test_a_users_own_meaning_of_a_known_operator(own_converters):
    @converter("Relu", 14)
    def leaky(cx, node, x):
        return relax.op.nn.leakyrelu(x.expr, 0.5)

    assert find_converter("Relu", 14, "").convert is leaky
    assert find_converter("Relu", 13, "").convert is not leaky
    model = chain(node("Relu", ["x"], ["y"]), shape=["n"])
    close(
        interpreted(from_onnx(model), {"x": floats(3)}),
        [np.where(floats(3) > 0, floats(3), floats(3) / 2)],
    )


def test_supported_operators():
    known = supported_operators()
    assert known["Clip"] == [1, 11]
    assert known["Softmax"] == [1, 13]
    assert len(known) > 120
    assert "FastGelu" in supported_operators("com.microsoft")


def test_autopad():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo([1, 2, 7, 8], "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = autopad(bb, x, [2, 2], [3, 3], [1, 1])
            lower = autopad(bb, x, [2, 1], [3, 2], [1, 1], mode="SAME_LOWER")
            out = bb.emit_output(relax.Tuple([y, lower]))
        bb.emit_func_output(out)
    assert [int(d) for d in y.struct_info.shape] == [1, 2, 9, 9]
    assert [int(d) for d in lower.struct_info.shape] == [1, 2, 9, 9]


# ---------------------------------------------------------------- control flow


def squeezed_if_one(dims):
    """What exporters write for squeeze(1): If(shape[1] == 1) squeezed, else as it is."""
    then = helper.make_graph(
        [node("Squeeze", ["x", "axes"], ["t"])], "then", [], [value("t", None)]
    )
    other = helper.make_graph([node("Identity", ["x"], ["e"])], "else", [], [value("e", None)])
    return chain(
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["d"]),
        node("Equal", ["d", "one"], ["c"]),
        node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other),
        shape=dims,
        **weights(one=np.int64(1), axes=ints(1)),
    )


@pytest.mark.parametrize("dims, shape", [(["n", 1, 3], (2, 3)), (["n", 4, 3], (2, 4, 3))])
def test_if_by_shapes(dims, shape):
    x = floats(2, dims[1], 3)
    (got,) = interpreted(from_onnx(squeezed_if_one(dims)), {"x": x})
    np.testing.assert_array_equal(got, x.reshape(shape))


@pytest.mark.parametrize("columns", [1, 4])
def test_if_by_data(columns):
    """Branches of different rank: what is after them is known at run time."""
    mod, x = from_onnx(squeezed_if_one(["n", "m", 3])), floats(2, columns, 3)
    expected = x.reshape(2, 3) if columns == 1 else x
    (got,) = interpreted(mod, {"x": x})
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(compile(mod)["main"](x).numpy(), expected)


def test_if_between_other_nodes():
    """Values from before the If are read in a branch, in one nested in it, and after it; a shape
    that becomes a tensor in a branch becomes one after it, too."""
    inner = {
        name: helper.make_graph([node(kind, ["r"], [name])], name, [], [value(name, None)])
        for name, kind in (("abs", "Abs"), ("neg", "Neg"))
    }
    steps = [
        node("Relu", ["e"], ["r"]),
        node("If", ["d"], ["i"], "inner", then_branch=inner["abs"], else_branch=inner["neg"]),
        node("Cast", ["s"], ["f"], to=1),
        node("Add", ["i", "f"], ["t"]),
    ]
    then = helper.make_graph(steps, "then", [], [value("t", None), value("e", None)])
    other = helper.make_graph(
        [node("Identity", ["x"], ["o"])], "else", [], [value("o", None), value("e", None)]
    )
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Shape", ["x"], ["s"]),
        node("If", ["c"], ["p", "q"], "if", then_branch=then, else_branch=other),
        node("Cast", ["s"], ["g"], to=1),
        node("Mul", ["p", "g"], ["m"]),
        node("Sub", ["m", "q"], ["y"]),
    ]
    flags = [value(name, [], np.bool_) for name in "cd"]
    result = helper.make_empty_tensor_value_info("y")
    mod = from_onnx(graph(nodes, [value("x", ["n"]), *flags], [result]))
    run, x = compile(mod)["main"], np.array([-1, 0.5, 2], "float32")
    for c, d in itertools.product([True, False], [True, False]):
        r = np.exp(x) * (1 if d else -1)
        expected = (r + 3 if c else x) * 3 - np.exp(x)
        feeds = {"x": x, "c": np.array(c), "d": np.array(d)}
        np.testing.assert_allclose(interpreted(mod, feeds)[0], expected, rtol=1e-5)
        np.testing.assert_allclose(run(*feeds.values()).numpy(), expected, rtol=1e-5)
    with pytest.raises(LoopwrightError, match="got: main: If needs the virtual machine"):
        compile(mod, "c")


def test_known_numbers_taken_backwards_from_in_front_of_the_axis():
    weights = {"x": ints(7), "b": ints(-2), "e": ints(-(2**63)), "a": ints(0), "s": ints(-2)}
    model = graph([node("Slice", list("xbeas"), ["y"])], [], [value("y", None, np.int64)], weights)
    close(interpreted(from_onnx(model), {}), [ints(7)])


@pytest.mark.no_roundtrip  # what watches modules keeps them
@pytest.mark.no_verify
def test_weights_that_passes_replace_are_let_go():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "s"], ["y"]),
    ]
    weights = {"w": floats(64, 48), "s": ints(-1)}
    model = graph(nodes, [value("x", ["n", 64])], [value("y", ["k"])], weights)
    target = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512")
    gc.collect()
    gc.disable()
    try:
        mod = from_onnx(model)
        found: list[relax.Constant] = []
        keep = lambda node: found.append(node) if isinstance(node, relax.Constant) else None  # noqa: E731
        post_order_visit(mod["main"], keep)
        (weight,) = (weakref.ref(c.data) for c in found if c.data.shape == (64, 48))
        assert weight() is not None
        found.clear()
        with target:
            mod = llvm.graph_pipeline(target)(mod)
        assert weight() is None and len(mod.functions) > 1
    finally:
        gc.enable()
