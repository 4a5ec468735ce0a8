"""JSON and pickles: same structure, same sharing."""

from __future__ import annotations

import math
import pickle
import re

import numpy as np
import pytest

from loopwright.base.span import Span, merge_spans
from loopwright.ir import (
    CallingConv,
    GlobalVar,
    IRModule,
    Op,
    VDevice,
    assert_structural_equal,
    load_json,
    make_node,
    register_codec,
    register_op,
    save_json,
)
from loopwright.ir import serialize as serializing
from loopwright.ir.dtype import DataType
from loopwright.ir.expr import Attrs, DictAttrs, Extent
from loopwright.ir.node import Node
from loopwright.ir.prim_expr import Call, Range, Var
from loopwright.ir.prim_op import const

from .little import Func, Loop

pytestmark = pytest.mark.no_roundtrip


class Bag(Node):
    items: object


def through_json(node):
    return load_json(save_json(node))


def through_pickle(node):
    return pickle.loads(pickle.dumps(node))


both = pytest.mark.parametrize("through", [through_json, through_pickle])


@both
def test_variables_stay_shared(through):
    x = Var("x", "int64")
    made = through(Bag([x, x + 1, Loop(Var("i"), const(4), x)]))
    first, added, loop = made.items
    assert added.a is first
    assert loop.body is first
    assert (first.name, first.dtype) == ("x", DataType("int64"))
    assert added.dtype == "int64"


@both
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2**70,
        1.5,
        -0.0,
        math.inf,
        math.nan,
        "text",
        [1, (2, "x")],
        (),
        {"a": [1], 2: "b"},
        DataType("float32x4"),
        np.arange(6, dtype="int8").reshape(2, 3),
        np.array(2.5),
        np.zeros((0, 3), "float32"),
    ],
    ids=str,
)
def test_values(through, value):
    made = through(Bag(value)).items
    assert type(made) is type(value)
    assert_structural_equal(Bag(made), Bag(value))
    if isinstance(value, dict):
        assert list(made) == list(value)


@both
def test_small_floats_are_kept_to_the_bit(through):
    array = np.array([1.5, -2.0, math.nan]).astype(DataType("bfloat16").numpy())
    made = through(Bag(array)).items
    assert made.dtype == array.dtype
    assert made.tobytes() == array.tobytes()
    made[0] = 0  # the array is writable


@both
def test_enumerations(through):
    assert through(Bag(CallingConv.C_PACKED_FUNC)).items is CallingConv.C_PACKED_FUNC


@both
def test_operators_are_found_by_name(through):
    op = register_op("test.serialize_op")
    made = through(Call("int32", op, [1]))
    assert made.op is op
    assert made.op is Op.get("test.serialize_op")


@both
def test_modules(through):
    f = Func([n := Var("n")], n * 2, {"k": [1, 2]})
    f.struct_info = Bag("known")
    mod = IRModule(
        {"f": f, "g": Func([], Call("int32", GlobalVar("f"), [3]))},
        attrs={"a": "b"},
        global_infos={"vdevice": [VDevice("llvm -mcpu=native")]},
    )
    made = through(mod)
    assert_structural_equal(made, mod)
    assert [v.name_hint for v in made.functions] == ["f", "g"]
    assert made["f"].struct_info.items == "known"
    assert made.global_infos["vdevice"][0].target.mcpu == "native"


@both
def test_spans(through):
    one, two = Span("a.py", 3, 3, 5, 9), Span("onnx:/fc1/Gemm")
    x = Var("x", span=merge_spans(one, two))
    made = through(x).span
    assert str(made) == "a.py:3:5, onnx:/fc1/Gemm"
    assert made.spans == (one, two)
    assert through(Var("x")).span is None


@both
def test_deep_expressions(through):
    x = Var("x")
    expr = x
    for i in range(150):
        expr = expr + (Var("y") * i)
    assert_structural_equal(through(expr), expr, map_free_vars=True)


def test_very_deep_expressions_as_json():
    expr = Var("x")
    for _ in range(3000):
        expr = expr * Var("y")
    made, depth = load_json(save_json(expr)), 0
    while not isinstance(made, Var):
        made, depth = made.a, depth + 1
    assert depth == 3000


def test_lists_and_dicts_of_nodes():
    x = Var("x")
    made = load_json(save_json({"a": [x], "b": x + 1}))
    assert made["b"].a is made["a"][0]
    assert load_json(save_json(3)) == 3


def test_codecs():
    class Wrapped:
        def __init__(self, array):
            self.array = array

    register_codec(Wrapped, "test.wrapped", lambda w: w.array, Wrapped)
    try:
        made = load_json(save_json(Bag([Wrapped(np.arange(3))])))
        assert isinstance(made.items[0], Wrapped)
        assert made.items[0].array.tolist() == [0, 1, 2]
    finally:
        serializing.ENCODERS.remove(Wrapped)
        serializing.DECODERS.remove("test.wrapped")


def test_what_json_cannot_keep():
    with pytest.raises(TypeError) as error:
        save_json(Bag([{1, 2}]))
    assert str(error.value) == (
        "Bag.items holds a value that JSON cannot keep\n"
        "  got: {1, 2} of type set\n"
        "  instead: register_codec for its type, or keep the module in a pickle"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not JSON"),
        ("[1]", "the JSON holds no Loopwright nodes"),
        ('{"loopwright": 0}', "the JSON holds no Loopwright nodes"),
        (
            '{"loopwright": 1, "root": {"node": 0}, "nodes": [{"type": "ir.Nope", "fields": {}}]}',
            "the JSON holds an unknown kind of node\n  got: ir.Nope",
        ),
        (
            '{"loopwright": 1, "root": {"node": 0}, "nodes": [{"type": "ir.Range", "fields": {}}]}',
            "the fields of Range differ from the stored ones\n  got: extent, min",
        ),
        (
            '{"loopwright": 1, "root": {"enum": ["os", "system", 1]}, "nodes": []}',
            "the JSON names an unknown enumeration\n  got: os.system",
        ),
        ('{"loopwright": 1, "root": {"what": 1}, "nodes": []}', "an unknown kind of value"),
    ],
)
def test_bad_json(text, message):
    with pytest.raises(ValueError) as error:
        load_json(text)
    assert message in str(error.value)


def test_parts_that_are_shared_all_the_way_down():
    """A text of some lines would describe a tree of 2**40 nodes."""
    x = Var("x")
    for _ in range(40):
        x = x + x
    with pytest.raises(ValueError, match="share too many parts\n  got: more than 1041000 when"):
        load_json(save_json(x))
    x = Var("x")
    for _ in range(18):
        x = x * x
    again = load_json(save_json(x))
    assert again.a is again.b
    text = re.sub('"node": 0', '"node": -1', save_json(Bag([Var("x")])))
    with pytest.raises(ValueError, match="share too many parts"):
        load_json(text)


def test_values_of_numpy_are_plain_ones():
    made = through_json(Bag([np.float32(1.5), np.int8(3), np.bool_(True), -math.inf])).items
    assert made == [1.5, 3, True, -math.inf] and [*map(type, made)] == [float, int, bool, float]


def test_fields_that_a_class_has_not():
    text = save_json(Bag(1))
    for change in ('"fields": {"what": 1, ', '"extra": {"what": 1}, "fields": {'):
        with pytest.raises(ValueError, match="differ from the stored ones\n  got: what"):
            load_json(re.sub(r'"fields": \{', change, text))


def test_attributes_by_the_name_of_their_class():
    for key in ("DictAttrs", "ir.DictAttrs"):
        assert isinstance(made := make_node(key, a=1), DictAttrs) and made["a"] == 1
    for key in ("attrs.DenseAttrs", "relay.attrs.DenseAttrs"):
        assert isinstance(made := make_node(key, units=3), Attrs) and made.units == 3
    spanned = make_node("ir.Range", min=const(0), extent=const(4), span=Span("here"))
    assert spanned.span == Span("here")
    with pytest.raises(TypeError, match="min, extent\n  got: min, extent, other"):
        make_node("ir.Range", min=const(0), extent=const(4), other=1)
    with pytest.raises(TypeError, match="got: none"):
        make_node("ir.Range")


def test_make_node():
    made = make_node("ir.Range", min=const(0), extent=const(4))
    assert isinstance(made, Range)
    with pytest.raises(TypeError, match="ir.Range has the fields min, extent\n  got: min"):
        make_node("ir.Range", min=const(0))
    with pytest.raises(ValueError, match="no node class has this key"):
        make_node("ir.Nope")


def test_values_of_fields_that_are_places_or_numbers_of_a_list():
    span = Span("here")
    assert through_json(Bag((span, 1))).items == (span, 1)
    again = pickle.loads(pickle.dumps(Extent(3)))
    assert again == 3 and type(again) is int and Extent(3).value == 3 and Extent(3).dtype == "int64"
