"""Texts, sequences, optional values and maps, as onnx's definitions say."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.graph.object_values import Map, Optional, Sequence, Texts, joined
from loopwright.frontend.onnx import backend, from_onnx
from loopwright.relax.expr import Function
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TensorStructInfo

pytestmark = pytest.mark.no_roundtrip  # the models are compiled as a whole

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
node, tensor = helper.make_node, helper.make_tensor_value_info
sequence = helper.make_tensor_sequence_value_info


def model(nodes, inputs, outputs, arrays=(), opset=21, more=()):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(a, n) for n, a in arrays]
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in more)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def texts(*values):
    return np.array(values, dtype=object)


def test_a_sequence_of_known_length_leaves_no_sequence():
    """Split, one part changed, joined again: only tensors, so one native function."""
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["s"], axis=1),
        node("SequenceAt", ["s", "one"], ["b"]),
        node("Neg", ["b"], ["c"]),
        node("SequenceErase", ["s", "one"], ["t"]),
        node("SequenceInsert", ["t", "c", "zero"], ["u"]),
        node("ConcatFromSequence", ["u"], ["y"], axis=1),
        node("SequenceLength", ["u"], ["n"]),
    ]
    arrays = [("sizes", np.array([1, 2])), ("one", np.array(1)), ("zero", np.array(0))]
    given = model(
        nodes,
        [tensor("x", FLOAT, ["k", 3])],
        [tensor("y", FLOAT, None), tensor("n", INT64, [])],
        arrays,
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y, n = lw.compile(given)(x)
    np.testing.assert_array_equal(y.numpy(), np.concatenate([-x[:, 1:], x[:, :1]], 1))
    assert n.numpy() == 2
    calls = from_onnx(given).script()
    assert "relax.run" not in calls


def test_a_sequence_of_the_run():
    """Parts whose number only the run tells; a place that is not there is an error."""
    nodes = [
        node("SplitToSequence", ["x", "size"], ["s"]),
        node("SequenceAt", ["s", "at"], ["b"]),
        node("Exp", ["b"], ["y"]),
        node("SequenceInsert", ["s", "y", "at"], ["t"]),
    ]
    inputs = [tensor("x", FLOAT, ["n", 2]), tensor("size", INT64, []), tensor("at", INT64, [])]
    outputs = [tensor("y", FLOAT, None), sequence("t", FLOAT, None)]
    run = lw.compile(model(nodes, inputs, outputs))
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    y, parts = run(x, np.array(2), np.array(-1))
    np.testing.assert_allclose(y.numpy(), np.exp(x[4:]), rtol=1e-6)
    assert [p.shape for p in parts] == [(2, 2), (2, 2), (1, 2), (1, 2)]
    np.testing.assert_allclose(parts[2].numpy(), np.exp(x[4:]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"out of range\n  got: 3 of 3"):
        run(x, np.array(2), np.array(3))


def test_a_sequence_is_the_state_of_a_loop():
    body = helper.make_graph(
        [
            node("Unsqueeze", ["i", "zero"], ["end"]),
            node("Slice", ["x", "zero", "end"], ["part"]),
            node("SequenceInsert", ["s", "part"], ["t"]),
            node("Identity", ["go"], ["more"]),
        ],
        "body",
        [tensor("i", INT64, []), tensor("go", TensorProto.BOOL, []), sequence("s", FLOAT, None)],
        [tensor("more", TensorProto.BOOL, []), sequence("t", FLOAT, None)],
    )
    nodes = [
        node("SequenceEmpty", [], ["s0"]),
        node("Loop", ["n", "", "s0"], ["out"], body=body),
        node("ConcatFromSequence", ["out"], ["y"], axis=0),
    ]
    inputs = [tensor("x", FLOAT, ["m"]), tensor("n", INT64, [])]
    run = lw.compile(model(nodes, inputs, [tensor("y", FLOAT, None)], [("zero", np.array([0]))]))
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(x, np.array(4)).numpy(), [0, 0, 1, 0, 1, 2])


def test_optional_values_by_the_run():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    then = helper.make_graph(
        [node("OptionalGetElement", ["x"], ["a"])], "then", [], [tensor("a", FLOAT, None)]
    )
    other = helper.make_graph(
        [node("Identity", ["z"], ["b"])], "other", [], [tensor("b", FLOAT, None)]
    )
    nodes = [
        node("OptionalHasElement", ["x"], ["has"]),
        node("If", ["has"], ["y"], then_branch=then, else_branch=other),
    ]
    given = model(
        nodes,
        [helper.make_value_info("x", kind)],
        [tensor("y", FLOAT, None)],
        [("z", np.zeros(3, np.float32))],
    )
    run = lw.compile(given)
    np.testing.assert_array_equal(run(np.ones(2, np.float32)).numpy(), [1, 1])
    np.testing.assert_array_equal(run(None).numpy(), [0, 0, 0])


def test_texts_move_as_numbers_do():
    nodes = [
        node("Transpose", ["x"], ["t"]),
        node("Gather", ["t", "at"], ["g"]),
        node("Concat", ["g", "c"], ["y"], axis=0),
        node("Equal", ["y", "c"], ["same"]),
        node("Unique", ["y"], ["u", "", "", "count"]),
    ]
    outputs = [tensor("y", STRING, None), tensor("same", TensorProto.BOOL, None)]
    outputs += [tensor("u", STRING, None), tensor("count", INT64, None)]
    given = model(
        nodes,
        [tensor("x", STRING, ["n", "m"]), tensor("at", INT64, [1])],
        outputs,
        [("c", texts("é", "").reshape(1, 2))],
    )
    x = texts("b", "", "a", "é", "b", "b").reshape(2, 3)
    y, same, unique, count = lw.compile(given)(x, np.array([2]))
    expected = np.concatenate([x.T[[2]], texts("é", "").reshape(1, 2)])
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(same.numpy(), expected == texts("é", "").reshape(1, 2))
    np.testing.assert_array_equal(unique, np.unique(expected.astype(str)))
    np.testing.assert_array_equal(count.numpy(), [1, 1, 1, 1])


def test_numbers_as_texts_and_back():
    nodes = [node("Cast", ["x"], ["t"], to=STRING), node("Cast", ["t"], ["y"], to=FLOAT)]
    outputs = [tensor("t", STRING, None), tensor("y", FLOAT, None)]
    x = np.array([1.5, -0.25, np.inf, np.nan, 3.0], np.float32)
    t, y = lw.compile(model(nodes, [tensor("x", FLOAT, ["n"])], outputs))(x)
    assert list(t) == ["1.5", "-0.25", "INF", "NaN", "3"]
    np.testing.assert_array_equal(y.numpy(), x)


def test_a_wrong_kind_of_input_is_named():
    given = model(
        [node("StringConcat", ["x", "x"], ["y"])],
        [tensor("x", STRING, ["n"])],
        [tensor("y", STRING, None)],
    )
    run = lw.compile(given)
    assert list(run(texts("a", "b"))) == ["aa", "bb"]
    with pytest.raises(TypeError, match="a tensor of texts is a numpy array of str objects"):
        run(np.ones(2, np.float32))
    sums = model(
        [node("Add", ["x", "x"], ["y"])], [tensor("x", STRING, ["n"])], [tensor("y", STRING, None)]
    )
    with pytest.raises(LoopwrightError, match="Add: an input is not a tensor"):
        lw.compile(sums)


@pytest.mark.parametrize("direction", [0, 1])
def test_scan_reads_and_writes_along_axes(direction):
    body = helper.make_graph(
        [node("Add", ["s", "p"], ["t"]), node("Identity", ["t"], ["o"])],
        "body",
        [tensor("s", FLOAT, ["k"]), tensor("p", FLOAT, ["k"])],
        [tensor("t", FLOAT, ["k"]), tensor("o", FLOAT, ["k"])],
    )
    nodes = [
        node(
            "Scan",
            ["s0", "x"],
            ["last", "y"],
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[1],
            scan_input_directions=[direction],
            scan_output_axes=[1],
            scan_output_directions=[direction],
        )
    ]
    inputs = [tensor("s0", FLOAT, ["k"]), tensor("x", FLOAT, ["k", "n"])]
    run = lw.compile(model(nodes, inputs, [tensor("last", FLOAT, None), tensor("y", FLOAT, None)]))
    for n in (4, 1):
        x = np.arange(2 * n, dtype=np.float32).reshape(2, n)
        s0 = np.array([10, 20], np.float32)
        last, y = run(s0, x)
        order = x[:, ::-1] if direction else x
        sums = s0[:, None] + np.cumsum(order, 1)
        np.testing.assert_allclose(y.numpy(), sums[:, ::-1] if direction else sums)
        np.testing.assert_allclose(last.numpy(), s0 + x.sum(1))


def test_maps():
    ml = [("ai.onnx.ml", 3)]
    zipped = node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_strings=["no", "yes"])
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    )
    given = model(
        [zipped], [tensor("x", FLOAT, ["n", 2])], [helper.make_value_info("y", kind)], more=ml
    )
    got = lw.compile(given)(np.array([[0.25, 0.75], [1, 0]], np.float32))
    assert got == [{"no": 0.25, "yes": 0.75}, {"no": 1.0, "yes": 0.0}]
    rows = node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["a", "b"])
    entry = helper.make_map_type_proto(STRING, helper.make_tensor_type_proto(FLOAT, []))
    given = model([rows], [helper.make_value_info("x", entry)], [tensor("y", FLOAT, None)], more=ml)
    np.testing.assert_array_equal(lw.compile(given)({"b": 2.0}).numpy(), [[0, 2]])


def test_labels_of_texts():
    ml = [("ai.onnx.ml", 3)]
    encode = node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_strings=["a", "b"],
        values_int64s=[7, 8],
        default_int64=-2,
    )
    back = node(
        "LabelEncoder",
        ["y"],
        ["z"],
        domain="ai.onnx.ml",
        keys_int64s=[7, 8],
        values_strings=["A", "B"],
        default_string="?",
    )
    given = model(
        [encode, back],
        [tensor("x", STRING, ["n"])],
        [tensor("y", INT64, None), tensor("z", STRING, None)],
        more=ml,
    )
    y, z = lw.compile(given)(texts("b", "c", "a"))
    np.testing.assert_array_equal(y.numpy(), [8, -2, 7])
    assert list(z) == ["B", "?", "A"]


def test_exported_models_take_texts(tmp_path):
    given = model(
        [node("StringConcat", ["x", "x"], ["y"])],
        [tensor("x", STRING, ["n"])],
        [tensor("y", STRING, None)],
    )
    path = tmp_path / "m.so"
    exe = lw.compile(given)
    assert isinstance(from_onnx(given)["main"], Function)
    exe.export_library(str(path))
    assert list(lw.runtime.load_module(str(path))["main"](texts("q"))) == ["qq"]


def classifier(*columns):
    """A model as scikit-learn's converter writes them: a label, and a map of each row."""
    entry = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    maps = helper.make_value_info("output_probability", helper.make_sequence_type_proto(entry))
    nodes = [
        node("ArgMax", ["x"], ["output_label"], axis=1, keepdims=0),
        node(
            "ZipMap",
            ["x"],
            ["output_probability"],
            domain="ai.onnx.ml",
            classlabels_int64s=list(columns),
        ),
    ]
    return model(
        nodes,
        [tensor("x", FLOAT, ["n", len(columns)])],
        [tensor("output_label", INT64, ["n"]), maps],
        more=[("ai.onnx.ml", 3)],
    )


def parts_and_their_sum(*extra):
    """A sequence, and a tensor beside it."""
    nodes = [node("SplitToSequence", ["x"], ["s"], axis=1), node("Neg", ["x"], ["y"])]
    outputs = [sequence("s", FLOAT, None), tensor("y", FLOAT, ["n", 3])]
    return model(nodes[: len(extra) + 1], [tensor("x", FLOAT, ["n", 3])], outputs[: len(extra) + 1])


def rows(x):
    return [{k: float(v) for k, v in zip((3, 4, 5), row, strict=True)} for row in x]


def columns(x):
    return [x[:, k : k + 1] for k in range(3)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            classifier(3, 4, 5),
            {"output_label": lambda x: x.argmax(1), "output_probability": rows},
        ),
        (parts_and_their_sum(), {"s": columns}),
        (parts_and_their_sum("y"), {"s": columns, "y": np.negative}),
    ],
)
def test_outputs_that_are_sequences_come_whole_under_their_names(given, wanted, tmp_path, rng):
    """By `run`, by keywords, from a loaded library and through ONNX's backend."""
    x = rng.normal(size=(2, 3)).astype(np.float32)
    exe = lw.compile(given)
    exe.export_library(tmp_path / "m.so")
    library = lw.runtime.load_module(tmp_path / "m.so")
    ways = [exe.run({"x": x}), exe.run([x]), exe.run(x=x), library.run({"x": x}), library.run(x=x)]
    ways.append(dict(zip(wanted, backend.run_model(given, {"x": x}), strict=True)))
    for found in ways:
        assert list(found) == list(wanted) == exe.output_names() == library.output_names()
        for name, made in wanted.items():
            np.testing.assert_equal(plain(found[name]), plain(made(x)))


def plain(value):
    """Nested lists and maps of numbers."""
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return np.asarray(value).tolist()


def test_a_sequence_is_not_written_to_memory_of_the_caller():
    exe = lw.compile(parts_and_their_sum("y"))
    x = np.ones((2, 3), np.float32)
    with pytest.raises(
        TypeError, match="main: result 0 is not an array, so it is not written to one"
    ):
        exe.run({"x": x}, out=[np.empty(2), np.empty((2, 3), np.float32)])


def interpreted(given, *args):
    result = Interpreter(from_onnx(given))["main"](*args)
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(r).tolist() for r in results]


def listed(op, place, known, *, tensors=("s",)):
    """An operator on the sequence of the rows of x, and the rows joined."""
    more = [] if place is None else ["at"]
    nodes = [
        node("SplitToSequence", ["x"], ["s"], keepdims=1),
        node(op, [*tensors, *more], ["y" if op == "SequenceAt" else "t"]),
    ]
    nodes += [] if op == "SequenceAt" else [node("ConcatFromSequence", ["t"], ["y"], axis=0)]
    inputs = [tensor("x", FLOAT, [3, 1]), tensor("new", FLOAT, [1, 1])]
    arrays = []
    if place is not None:
        inputs += [] if known else [tensor("at", INT64, [])]
        arrays += [("at", np.array(place))] if known else []
    args = [np.array([[0], [1], [2]], "float32"), np.array([[9]], "float32")]
    args += [np.array(place)] if place is not None and not known else []
    return interpreted(model(nodes, inputs, [tensor("y", FLOAT, None)], arrays), *args)[0]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("place", [None, 0, 1, 2, 3, 4, -1, -3, -4])
def test_places_in_sequences(place, known):
    """As in lists; -3 to 2 of three values, and 3 for a value that is put in."""
    for op, tensors in (
        ("SequenceInsert", ("s", "new")),
        ("SequenceErase", ("s",)),
        ("SequenceAt", ("s",)),
    ):
        values = [0, 1, 2]
        if place is None and op == "SequenceAt":
            continue
        at = (3 if op == "SequenceInsert" else -1) if place is None else place
        if not -3 <= at <= 2 + (op == "SequenceInsert"):
            with pytest.raises((ValueError, LoopwrightError), match="out of range"):
                listed(op, place, known, tensors=tensors)
            continue
        if op == "SequenceInsert":
            values.insert(at, 9)
        elif op == "SequenceErase":
            del values[at]
        else:
            values = [values[at]]
        assert listed(op, place, known, tensors=tensors) == [[v] for v in values]


@pytest.mark.parametrize(
    ("attributes", "split", "shapes"),
    [
        ({}, None, [(1, 5), (1, 5)]),
        ({"keepdims": 0}, None, [(5,), (5,)]),
        ({"keepdims": 0, "axis": -1}, None, [(2,)] * 5),
        ({"keepdims": 0, "axis": 1}, np.array(2), [(2, 2), (2, 2), (2, 1)]),
        ({"axis": -1}, np.array([1, 4]), [(2, 1), (2, 4)]),
        ({"axis": 1}, np.array([5]), [(2, 5)]),
        ({"axis": 1}, np.array(5), [(2, 5)]),
        ({"axis": 1}, np.array(1), [(2, 1)] * 5),
        ({"axis": 2}, None, "attribute axis is out of range\n  got: 2 for rank 2"),
        ({"axis": -3}, None, "attribute axis is out of range"),
        ({"axis": 1}, np.array(0), "the size of parts must be positive\n  got: 0"),
    ],
)
@pytest.mark.parametrize("fixed", [True, False])
def test_parts_of_a_tensor(attributes, split, shapes, fixed):
    nodes = [
        node("SplitToSequence", ["x", *(["k"] if split is not None else [])], ["s"], **attributes)
    ]
    outputs = [sequence("s", FLOAT, None)]
    dims = [2, 5] if fixed else ["n", "m"]
    arrays = [("k", split)] if split is not None else []
    given = model(nodes, [tensor("x", FLOAT, dims)], outputs, arrays)
    x = np.arange(10, dtype="float32").reshape(2, 5)
    if isinstance(shapes, str):
        with pytest.raises((ValueError, LoopwrightError), match=shapes):
            Interpreter(from_onnx(given))["main"](x)
        return
    parts = Interpreter(from_onnx(given))["main"](x)
    assert [tuple(np.asarray(p).shape) for p in parts] == shapes
    joined = np.concatenate([np.asarray(p).reshape(-1) for p in parts])
    assert sorted(joined) == sorted(x.reshape(-1)) and joined[0] == 0


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"axis": 0}, [[0, 1], [2, 3]]),
        ({"axis": 1}, [[0, 1, 2, 3]]),
        ({"axis": -1, "new_axis": 0}, [[0, 1, 2, 3]]),
        ({"axis": 0, "new_axis": 1}, [[[0, 1]], [[2, 3]]]),
        ({"axis": -1, "new_axis": 1}, [[[0, 2], [1, 3]]]),
    ],
)
@pytest.mark.parametrize("rows", [2, "n"])
def test_joined_tensors(attributes, wanted, rows):
    nodes = [
        node("SplitToSequence", ["x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["y"], **attributes),
    ]
    given = model(nodes, [tensor("x", FLOAT, [rows, 2])], [tensor("y", FLOAT, None)])
    assert interpreted(given, np.arange(4, dtype="float32").reshape(2, 2)) == [wanted]


@pytest.mark.parametrize(
    ("op", "attributes", "given", "wanted"),
    [
        ("CastMap", {}, {2: 1.5, 0: 2.0}, [[2, 1.5]]),
        ("CastMap", {"cast_to": "TO_INT64"}, {2: 1.5, 0: 2.0}, [[2, 1]]),
        ("CastMap", {"map_form": "SPARSE"}, {2: 1.5, 0: 2.0}, [[2]]),
        ("CastMap", {"map_form": "SPARSE", "max_map": 4}, {2: 1.5, 0: 2.0}, [[2, 0, 1.5, 0]]),
        ("CastMap", {"cast_to": "TO_STRING"}, {}, "CastMap returns numbers\n  got: TO_STRING"),
        ("DictVectorizer", {"int64_vocabulary": [2, 5]}, {2: 1.5, 0: 2.0}, [[1.5, 0]]),
        ("DictVectorizer", {}, {}, "int64_vocabulary or string_vocabulary is missing"),
    ],
)
def test_maps_as_rows(op, attributes, given, wanted):
    made = node(op, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    kind = helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    dtype = INT64 if "cast_to" in attributes else FLOAT
    whole = model(
        [made],
        [helper.make_value_info("x", kind)],
        [tensor("y", dtype, None)],
        more=[("ai.onnx.ml", 3)],
    )
    if isinstance(wanted, str):
        with pytest.raises((ValueError, LoopwrightError), match=wanted):
            from_onnx(whole)
        return
    assert lw.compile(whole)(given).numpy().tolist() == wanted


def test_rows_as_maps():
    kind = helper.make_sequence_type_proto(
        helper.make_map_type_proto(INT64, helper.make_tensor_type_proto(FLOAT, []))
    )

    def zipped(**attributes):
        made = node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
        ports = [tensor("x", FLOAT, ["n", 2])], [helper.make_value_info("y", kind)]
        return model([made], *ports, more=[("ai.onnx.ml", 3)])

    got = lw.compile(zipped(classlabels_int64s=[7, 8]))(np.array([[1, 2]], "float32"))
    assert got == [{7: 1.0, 8: 2.0}]
    with pytest.raises((ValueError, LoopwrightError), match="classlabels_int64s or _strings"):
        from_onnx(zipped())


@pytest.mark.parametrize("place", ["known", "empty", "run"])
def test_optional_values_that_are_not_there(place):
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(FLOAT, ["n"]))
    asked = [node("OptionalHasElement", ["o"], ["has"]), node("OptionalGetElement", ["o"], ["y"])]
    outputs = [tensor("has", TensorProto.BOOL, []), tensor("y", FLOAT, None)]
    x = np.ones(2, "float32")
    if place == "known":
        made = [node("Optional", ["x"], ["o"]), *asked]
        assert interpreted(model(made, [tensor("x", FLOAT, ["n"])], outputs), x) == [True, [1, 1]]
    elif place == "empty":
        empty = node("Optional", [], ["o"], type=helper.make_tensor_type_proto(FLOAT, ["n"]))
        given = model([empty, asked[0]], [], outputs[:1])
        assert interpreted(given) == [False]
        with pytest.raises((ValueError, LoopwrightError), match="an optional value is empty"):
            from_onnx(model([empty, asked[1]], [], outputs[1:]))
    else:
        given = lw.compile(model(asked, [helper.make_value_info("o", kind)], outputs))
        has, y = given(x)
        assert has.numpy() and y.numpy().tolist() == [1, 1]
        with pytest.raises(ValueError, match="an optional value is empty"):
            given(None)


def test_a_graph_for_each_value():
    """Of sequences of known and of unknown length, beside a value that stays."""
    body = helper.make_graph(
        [node("Add", ["a", "b"], ["c"]), node("Mul", ["a", "d"], ["e"])],
        "body",
        [tensor("a", FLOAT, None), tensor("d", FLOAT, None), tensor("b", FLOAT, None)],
        [tensor("c", FLOAT, None), tensor("e", FLOAT, None)],
    )
    nodes = [
        node("SplitToSequence", ["x"], ["s"]),
        node("SequenceMap", ["s", "w", "s"], ["t", "u"], body=body),
        node("ConcatFromSequence", ["t"], ["y"], axis=0),
        node("ConcatFromSequence", ["u"], ["z"], axis=0),
    ]
    outputs = [tensor("y", FLOAT, None), tensor("z", FLOAT, None)]
    x, w = np.array([[1], [2]], "float32"), np.array([[3]], "float32")
    for rows in (2, "n"):
        inputs = [tensor("x", FLOAT, [rows, 1]), tensor("w", FLOAT, [1, 1])]
        assert interpreted(model(nodes, inputs, outputs, opset=21), x, w) == [
            [[2], [4]],
            [[3], [6]],
        ]


F2, F3, FN = TensorStructInfo((2,), "float32"), TensorStructInfo((3,), "float32"), "float32"
VECTOR, ANY = TensorStructInfo(dtype=FN, ndim=1), TensorStructInfo(dtype=FN)
JOINED = [
    (F2, F2, F2),
    (F2, F3, VECTOR),
    (VECTOR, VECTOR, VECTOR),
    (F2, TensorStructInfo((2, 2), FN), ANY),
    (F2, TensorStructInfo((2,), "int64"), None),
    (None, F2, F2),
    (Texts(1), Texts(1), Texts(1)),
    (Texts(1), Texts(2), Texts(-1)),
    (Texts(1), F2, None),
    (Sequence(F2), Sequence(F3), Sequence(VECTOR)),
    (Sequence(F2), F2, None),
    (Sequence(F2), Sequence(Texts(0)), None),
    (Sequence(F2), Optional(Sequence(F3)), Optional(Sequence(VECTOR))),
    (Optional(F2), Optional(None), Optional(F2)),
    (Map(), Map(), Map()),
    (Map(), Texts(1), None),
    (Map(), Sequence(None), None),
]


@pytest.mark.parametrize(("a", "b", "wanted"), JOINED)
def test_the_form_that_holds_for_two_values(a, b, wanted):
    for first, second in ((a, b), (b, a)):
        if wanted is None:
            with pytest.raises(ValueError, match="of one kind, whichever way it comes"):
                joined(first, second)
        else:
            assert (
                lw.ir.structural_equal(joined(first, second), wanted)
                if isinstance(wanted, TensorStructInfo)
                else str(joined(first, second)) == str(wanted)
            )


@pytest.mark.parametrize("shape", [[], ["n"]])
def test_sequences_of_the_run_are_joined(shape):
    """Their elements' rank is known, and that of the result."""
    nodes = [node("ConcatFromSequence", ["s"], ["y"], axis=0, new_axis=1)]
    given = from_onnx(model(nodes, [sequence("s", FLOAT, shape)], [tensor("y", FLOAT, None)]))
    assert given["main"].ret_struct_info.ndim == len(shape) + 1


def test_old_files_do_not_say_of_what_type_an_attribute_is():
    branches = [
        helper.make_graph([node(kind, ["z"], ["y"])], kind, [], [tensor("y", FLOAT, None)])
        for kind in ("Exp", "Neg")
    ]
    inner = helper.make_graph(
        [node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])],
        "inner", [], [tensor("y", FLOAT, None)],
    )  # fmt: skip
    nodes = [node("If", ["c"], ["y"], then_branch=inner, else_branch=branches[1])]
    nodes.append(node("Tanh", ["x"], ["z"]))  # what the graphs read comes first, wherever it stands
    inputs = [tensor("c", TensorProto.BOOL, []), tensor("x", FLOAT, [2])]
    given = model(nodes, inputs, [tensor("y", FLOAT, None)])
    wanted = from_onnx(given)

    def untyped(graph):
        for n in graph.node:
            for a in n.attribute:
                a.ClearField("type")
                untyped(a.g)

    untyped(given.graph)
    lw.ir.assert_structural_equal(from_onnx(given), wanted)
