"""What only rare inputs of operators lead to, beside onnxruntime, numpy or what is said of it."""

from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper
from PIL import Image

import loopwright as lw
from loopwright.base import budget
from loopwright.base.errors import LoopwrightError
from loopwright.frontend.common import autopad, padded
from loopwright.frontend.onnx import from_onnx
from loopwright.frontend.onnx.survey import survey
from loopwright.frontend.onnx.tensors import stored_tensor
from loopwright.relax import BlockBuilder
from loopwright.relax.expr import Var
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.struct_info import TensorStructInfo
from loopwright.tir import Var as TirVar

from .support import check, floats, graph, integers, interpreted, ints, operator, value

pytestmark = pytest.mark.no_roundtrip  # many hold values that are no tensors
F32, MS, ML = np.float32, "com.microsoft", "ai.onnx.ml"
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
X = floats(2, 3)
node, tensor = helper.make_node, helper.make_tensor_value_info
kind_of = helper.make_tensor_type_proto


def row(name, *inputs, **options):
    return pytest.param(name, inputs, options, id=name)


CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
PART = F32([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2])


@pytest.mark.parametrize(
    ("name", "inputs", "options"),
    [
        row("Resize", floats(1, 1, 4, 4), PART, None, ints(1, 1, 5, 6), fed=1, mode="nearest", **CROP),
        row("Resize", floats(1, 1, 4, 4), None, F32([]), ints(1, 1, 5, 6), fed=1, mode="nearest"),
        row("Slice", X, ints(0), ints(-1), ints(1), fed=1, symbolic=True),
        *[row("LRN", floats(1, 7, 2, 1), size=5, alpha=0.5, symbolic=s) for s in (False, True)],
    ],
)  # fmt: skip
def test_beside_onnxruntime(name, inputs, options):
    check(*operator(name, *inputs, **options))


ROWS = integers(2, 3, 4, low=0, high=9, dtype=np.uint8)
SIDE = integers(4, 5, low=0, high=9, dtype=np.uint8)
ONE, NONE = F32(1), np.uint8(0)
PRODUCT = ROWS.astype(int) @ SIDE


def divided(scale, zero):
    return np.clip(np.rint(PRODUCT / scale) + zero, 0, 255).astype(np.uint8)


SCALES, ZEROS = F32([1, 2, 4]), np.uint8([1, 0, 3])


@pytest.mark.parametrize(
    ("name", "inputs", "options", "wanted"),
    [
        ("Add", [X, floats(2, 3)], {"opset": 6, "broadcast": 1, "axis": 0}, X + floats(2, 3)),
        ("QLinearMatMul", [ROWS, ONE, NONE, SIDE, ONE, NONE, F32(3), np.uint8([2])], {}, divided(3, 2)),
        ("QLinearMatMul", [ROWS, ONE, NONE, SIDE, ONE, NONE, SCALES, ZEROS], {}, divided(SCALES[:, None], ZEROS[:, None])),
        ("Pad", [X, ints(0, 1, 0, 1), np.array(2.5, F32)], {"mode": "edge"}, np.pad(X, [(0, 0), (1, 1)], "edge")),
        ("QuantizeLinear", [F32([1, -3, 1e6]), F32(2)], {"opset": 21, "output_dtype": TensorProto.FLOAT8E4M3FN}, F32([0.5, -1.5, 448])),
    ],
)  # fmt: skip
def test_beside_numpy(name, inputs, options, wanted):
    model, feeds = operator(name, *inputs, **options)
    (got,) = interpreted(from_onnx(model), feeds)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(wanted.dtype), wanted, rtol=1e-6)


def refusal(text, name, *inputs, **options):
    return pytest.param(text, name, inputs, options, id=f"{name}: {text[:30]}")


SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("w", FLOAT, [1], [1.0]), helper.make_tensor("p", INT64, [1], [0]), [2]
)
KNOWN = 'must be one known number\n  got: R.Tensor((2,), dtype="float32")\n  instead: make it a constant'
BLOCKS = "scale and zero point must be one number, a vector, or blocks"
BODY = helper.make_graph(
    [node("Identity", [a], [b]) for a, b in ("ac", "bd")], "body",
    [value(n, None) for n in "ab"], [value(n, None) for n in "cd"],
)  # fmt: skip
MATRIX = np.ones((1, 1), F32)


@pytest.mark.parametrize(
    ("text", "name", "inputs", "options"),
    [
        refusal(f"input constant_value {KNOWN}", "Pad", X, ints(0, 0, 0, 1), F32([1, 2]), fed=1),
        refusal(f"input bound {KNOWN}", "Range", F32(0), F32([3, 4]), F32(1), fed=0),
        refusal("mrope_section must be three numbers that fill half of the rotated part\n  got: [2, 3, 2] for 8", "MRotaryEmbedding",
                floats(3, 5, 32), np.zeros((3, 3, 5), np.int64), floats(8, 8), floats(8, 8), fed=2, domain=MS,
                num_heads=2, mrope_section=[2, 3, 2]),
        refusal("swiglu without fusion has fc3_experts_weights", "MoE", floats(3, 16), floats(3, 2),
                floats(2, 64, 16), None, floats(2, 16, 32), fed=2, domain=MS, activation_type="swiglu"),
        refusal("Scan of opset 8 needs a known batch\n  got: d4", "Scan", None, X, floats(4, 3, 2), body=BODY,
                num_scan_inputs=1, opset=8, symbolic=True),
        refusal("Constant by attribute sparse_value is not supported", "Constant", sparse_value=SPARSE),
        refusal("output_shape needs known extents of the input\n  got: R.Tensor((1, d2, d4, d3)", "ConvTranspose",
                floats(1, 2, 4, 3), floats(2, 1, 3, 2), fed=1, symbolic=True, output_shape=[8, 7]),
        refusal(BLOCKS, "QLinearMatMul", ROWS[0], MATRIX, NONE, SIDE, ONE, NONE, ONE, NONE),
        refusal(BLOCKS, "QLinearMatMul", ROWS[0], ONE, NONE, SIDE, MATRIX, NONE, ONE, NONE),
        refusal(BLOCKS, "QLinearMatMul", ROWS[0], ONE, NONE, SIDE, ONE, NONE, MATRIX, NONE),
        refusal(BLOCKS, "QLinearMatMul", ROWS[0], ONE, NONE, SIDE, ONE, NONE, F32([1, 2, 3]), np.uint8([[0]])),
        refusal(BLOCKS, "MatMulInteger", ROWS[0], SIDE, np.uint8([[0]])),
        refusal("it takes no complex numbers", "QuickGelu", np.zeros(2, np.complex64), domain=MS),
    ],
)  # fmt: skip
def test_refused(text, name, inputs, options):
    model, _ = operator(name, *inputs, **options)
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(model)
    assert text in str(caught.value)


def test_the_window_of_an_lrn_counts_as_work():
    model, _ = operator("LRN", floats(1, 7, 2), symbolic=True, size=100_001)
    with pytest.raises(budget.BudgetError, match="got: 1000.. where"):
        from_onnx(model)


# ---------------------------------------------------------------- texts, sequences, optional values


def program(nodes, inputs, outputs, opset=21, **arrays):
    return graph(nodes, inputs, outputs, arrays, opset)


def run(nodes, inputs, outputs, *given, **arrays):
    model = program(nodes, inputs, outputs, **arrays)
    if any(isinstance(v, list) or v.dtype == "O" for v in given):
        return lw.compile(model)(*given)
    return Interpreter(from_onnx(model))["main"](*given)


def words(*texts):
    return np.array(texts, object)


PNG = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)
PARTS = node("SplitToSequence", ["x", "size"], ["s"])
LENGTH = node("SequenceLength", ["s"], ["y"])
NEGATED = helper.make_graph(
    [node("Neg", ["a"], ["b"])], "body", [value("a", None)], [value("b", None)]
)
TABLE, SIZE = value("x", ["n", 2]), tensor("size", INT64, [])
ROWS5 = np.zeros((5, 2), F32)
LIST = helper.make_optional_type_proto(helper.make_sequence_type_proto(kind_of(FLOAT, ["n"])))
TEXTS = helper.make_sequence_type_proto(kind_of(STRING, ["n"]))
RUN = [
    ([PARTS, LENGTH], [TABLE, SIZE], INT64, [ROWS5, np.array(2)], {}, 3),
    ([PARTS, LENGTH], [TABLE], INT64, [ROWS5], {"size": ints(2, 3)}, 2),
    ([node("SequenceEmpty", [], ["e"]), node("SequenceMap", ["e"], ["s"], body=NEGATED), LENGTH], [TABLE], INT64, [ROWS5], {}, 0),
    ([node("SequenceConstruct", ["x", "x"], ["l"]), node("Optional", ["l"], ["s"]), LENGTH], [TABLE], INT64, [ROWS5], {}, 2),
    ([LENGTH], [helper.make_value_info("s", LIST)], INT64, [[ROWS5[0]] * 3], {}, 3),
    ([node("OptionalHasElement", [], ["y"])], [TABLE], TensorProto.BOOL, [ROWS5], {}, False),
    ([node("OptionalHasElement", ["x"], ["y"])], [TABLE], TensorProto.BOOL, [ROWS5], {}, True),
    ([node("OptionalGetElement", ["x"], ["y"])], [TABLE], FLOAT, [ROWS5], {}, ROWS5),
    ([node("ConcatFromSequence", ["s"], ["y"], axis=0)], [helper.make_value_info("s", TEXTS)], STRING,
     [[words("a"), words("b", "c")]], {}, words("a", "b", "c")),
    ([node("SequenceAt", ["s", "k"], ["y"])], [helper.make_value_info("s", TEXTS), tensor("k", INT64, [])], STRING,
     [[words("a"), words("b", "c")], np.array(1)], {}, words("b", "c")),
    ([node("StringSplit", ["x"], ["y", "z"])], [tensor("x", STRING, None)], STRING, [words("a b", "c")], {},
     words(["a", "b"], ["c", ""])),
    ([node("StringSplit", ["x"], ["z", "y"])], [tensor("x", STRING, None)], INT64, [words("a b", "c")], {}, ints(2, 1)),
    ([node("StringNormalizer", ["x"], ["z"]), node("Gather", ["z", "k"], ["y"])], [tensor("x", STRING, ["n"])], STRING,
     [words("a", "b")], {"k": ints(1, 0, 1)}, words("b", "a", "b")),
    ([node("StringNormalizer", ["x"], ["z"]), node("Shape", ["z"], ["y"])], [tensor("x", STRING, ["n"])], INT64,
     [words("a", "b")], {}, ints(2)),
    ([node("Constant", [], ["y"], value_strings=["a", "b"])], [TABLE], STRING, [ROWS5], {}, words("a", "b")),
]  # fmt: skip


@pytest.mark.parametrize(("nodes", "inputs", "kind", "given", "arrays", "wanted"), RUN)
def test_values_that_are_no_tensors(nodes, inputs, kind, given, arrays, wanted):
    got = run(nodes, inputs, [tensor("y", kind, None)], *given, **arrays)
    got = got if isinstance(got, np.ndarray) else got.numpy()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("there", [True, False])
def test_an_optional_value_is_what_it_holds(there):
    made = node(
        "Optional",
        ["x"] if there else [],
        ["y"],
        **({} if there else {"type": kind_of(FLOAT, [2])}),
    )
    out = helper.make_value_info("y", helper.make_optional_type_proto(kind_of(FLOAT, [2])))
    got = run([made], [value("x", [2])], [out], F32([1, 2]))
    assert (None if got is None else got.numpy().tolist()) == ([1, 2] if there else None)


def test_a_choice_between_texts():
    sides = [
        helper.make_graph([node("StringConcat", ["x", n], [f"{n}{n}"])], n, [], [tensor(f"{n}{n}", STRING, None)])
        for n in "ab"
    ]  # fmt: skip
    choice = node("If", ["go"], ["y"], then_branch=sides[0], else_branch=sides[1])
    inputs = [tensor("go", TensorProto.BOOL, []), *(tensor(n, STRING, [1]) for n in "xab")]
    chosen = lw.compile(program([choice], inputs, [tensor("y", STRING, None)]))
    for way, wanted in ((True, "xa"), (False, "xb")):
        assert list(chosen(np.array(way), *map(words, "xab"))) == [wanted]


@pytest.mark.parametrize("how", ["RGB", "BGR", "Grayscale"])
def test_pictures(how):
    file = io.BytesIO()
    Image.fromarray(PNG).save(file, "PNG")
    made = node("ImageDecoder", ["x"], ["y"], pixel_format=how)
    given = np.frombuffer(file.getvalue(), np.uint8)
    got = run(
        [made],
        [tensor("x", TensorProto.UINT8, ["n"])],
        [tensor("y", TensorProto.UINT8, None)],
        given,
    ).numpy()
    if how == "Grayscale":
        assert got.shape == (3, 4, 1)
        assert np.abs(got[..., 0] - PNG @ [0.299, 0.587, 0.114]).max() <= 1
    else:
        np.testing.assert_array_equal(got, PNG if how == "RGB" else PNG[..., ::-1])


UNRANKED = [node("Gather", ["x", "k"], ["y"])], [tensor("x", STRING, None)]
SPARSES = helper.make_sequence_type_proto(helper.make_sparse_tensor_type_proto(FLOAT, [2]))


@pytest.mark.parametrize(
    ("nodes", "inputs", "text"),
    [
        (*UNRANKED, "the rank of an input is not known\n  got: a tensor of strings"),
        ([node("Relu", ["x"], ["y"])], [helper.make_value_info("x", SPARSES)], "input x: this kind of value is not supported\n  got: sparse_tensor_type"),
    ],
)  # fmt: skip
def test_values_that_are_refused(nodes, inputs, text):
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(program(nodes, inputs, [tensor("y", STRING, None)], k=ints(1)))
    assert text in str(caught.value)


# ---------------------------------------------------------------- surveys


def test_what_a_survey_says_of_slow_parts():
    """A loop's turns, products in float64, and what only the run tells of a shape."""
    body = helper.make_graph(
        [node("Identity", ["go"], ["more"]), node("MatMul", ["x", "s"], ["t"])], "turn",
        [tensor("i", INT64, []), tensor("go", TensorProto.BOOL, []), value("s", None, np.float64)],
        [tensor("more", TensorProto.BOOL, []), value("t", None, np.float64)],
    )  # fmt: skip
    nodes = [
        node("Loop", ["n", "", "x"], ["r"], "turns", body=body),
        node("MatMul", ["x", "r"], ["p"], "wide"),
        node("Reshape", ["p", "dims"], ["y"], "view"),
    ]
    inputs = [value("x", [2, 2], np.float64), tensor("n", INT64, []), tensor("dims", INT64, [2])]
    found = survey(program(nodes, inputs, [value("y", None, np.float64)]))
    assert [line.partition(" has")[0] for line in found.slow if "runs in Python" not in line] == [
        "onnx:MatMul:t: relax.matmul in float64",
        "onnx:turns: each turn of the loop is a step of the virtual machine",
        "onnx:wide: relax.matmul in float64",
    ]
    assert [line for line in found.dynamic if "view" in line] == ["onnx:view: read"]


def test_what_a_survey_says_of_a_model_that_is_wrong():
    model, _ = operator("Gather", X, ints(0), axis=5)
    found = survey(model)
    assert found.error.startswith("Gather: ") and not found.missing
    assert [*found.lines()][-1].startswith("cannot be imported: Gather: ")


# ---------------------------------------------------------------- padding


def test_padding_of_transposed_windows():
    """2 * 3 - 2 of each axis are cut from what the window gives: here its sides are added."""
    builder = BlockBuilder()
    data = Var("data", TensorStructInfo([1, 2, 5, 5], "float32"))
    with builder.function("main", [data]):
        got = autopad(builder, data, [2, 2], [3, 4], deconv=True, mode="SAME_UPPER")
        assert [d.value for d in got.struct_info.shape] == [1, 2, 6, 7]
        builder.emit_func_output(got)


def test_only_constants_pad_by_what_the_run_tells():
    data, n = Var("data", TensorStructInfo([4], "float32")), TirVar("n", "int64")
    with pytest.raises(
        ValueError, match="widths of a padding of mode reflect must be numbers\n  got: .*n"
    ):
        padded(data, [n], [0], "reflect")


# ---------------------------------------------------------------- weights


NUMBERS = integers(32, 4, low=0, high=255, dtype=np.uint8)
LEFT = floats(2, 32)


@pytest.mark.parametrize("block", [8, 16, 32])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("known", ["all", "not the scale", "not the zero point", "no zero point"])
def test_products_with_weights_of_bytes(block, axis, known):
    """Those of blocks along the first axis stay bytes; the others are made real numbers first."""
    matrix = NUMBERS if axis == 0 else integers(32, 32, low=0, high=255, dtype=np.uint8)
    dims = [n // (block if k == axis else 1) for k, n in enumerate(matrix.shape)]
    scale, zero = floats(*dims, low=0.01, high=0.1), np.full(dims, 100, np.uint8)
    zero[0, 0] = 7
    stored = {"w": matrix, "scale": scale, "zero": zero}
    feeds = {"x": LEFT}
    for name, why in (("scale", "not the scale"), ("zero", "not the zero point")):
        if known == why:
            feeds[name] = stored.pop(name)
    names = ["w", "scale"] if known == "no zero point" else ["w", "scale", "zero"]
    nodes = [
        node("DequantizeLinear", names, ["r"], axis=axis, block_size=block),
        node("MatMul", ["x", "r"], ["y"]),
    ]
    ports = [value(n, a.shape, a.dtype) for n, a in feeds.items()]
    model = graph(nodes, ports, [value("y", None)], stored, opset=21)
    wide = [np.repeat(v, block, axis).astype(np.float64) for v in (scale, zero)]
    real = (matrix - (0 if known == "no zero point" else wide[1])) * wide[0]
    (got,) = interpreted(from_onnx(model), feeds)
    np.testing.assert_allclose(got, LEFT @ real, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("bound", ["known", "symbolic"])
def test_bounds_that_are_extents(bound):
    """clip(k, min(n, m), 5) of the two extents of x."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("ReduceMin", ["s"], ["low"], keepdims=0),
        node("Clip", ["k", "low", "high"], ["y"]),
    ]
    dims = [2, 3] if bound == "known" else ["n", "m"]
    ports = [value("x", dims), value("k", [3], np.int64)]
    model = graph(nodes, ports, [value("y", [3], np.int64)], {"high": np.array(5)}, opset=18)
    (got,) = interpreted(from_onnx(model), {"x": X, "k": ints(1, 4, 9)})
    np.testing.assert_array_equal(got, [2, 4, 5])


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [("Gather", {"axis": 5}, LoopwrightError), ("LRN", {"size": 100_001}, budget.BudgetError)],
)
def test_what_is_wrong_in_a_branch_is_said(name, options, kind):
    made = node(name, ["x", "k"] if name == "Gather" else ["x"], ["a"], **options)
    sides = [
        helper.make_graph([n], n.op_type, [], [value(n.output[0], None)])
        for n in (made, node("Neg", ["x"], ["b"]))
    ]
    choice = node("If", ["go"], ["y"], then_branch=sides[0], else_branch=sides[1])
    ports = [tensor("go", TensorProto.BOOL, []), value("x", ["n", "c", 3, 3])]
    with pytest.raises(LoopwrightError) as caught:
        from_onnx(graph([choice], ports, [value("y", None)], {"k": ints(0)}))
    assert type(caught.value) is kind and str(caught.value).startswith(f"If: {name}: ")


@pytest.mark.parametrize(
    ("kind", "dims", "size", "stored"),
    [
        (FLOAT, [2], 8, True),
        (FLOAT, [2], 7, False),
        (FLOAT, [2], 9, False),
        (FLOAT, [], 4, True),
        (FLOAT, [-1], 4, False),
        (FLOAT, [0], 0, True),
        (TensorProto.BFLOAT16, [2], 4, True),
        (TensorProto.INT4, [2], 1, False),
        (STRING, [2], 8, False),
    ],
)
def test_what_stays_in_its_file(kind, dims, size, stored):
    """Weights whose bytes are their values, and as many as their shape says."""
    found = stored_tensor(TensorProto(data_type=kind, dims=dims), SimpleNamespace(size=size))
    assert (found is not None) == stored
    elsewhere = TensorProto(data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    assert stored_tensor(elsewhere, SimpleNamespace(size=size)) is None
