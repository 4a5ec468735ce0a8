"""Relay's expressions and types as Python objects: what they refuse, and how they print."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import IRModule, relay, tir
from loopwright.base.errors import DiagnosticError, LoopwrightError
from loopwright.ir.op import Op
from loopwright.relax import struct_info as si
from loopwright.relay.meta import Writer, read, type_key
from loopwright.relay.relax_types import Extents
from loopwright.relay.transform import InferType
from loopwright.relay.type_functor import TypeVisitor

pytestmark = pytest.mark.no_roundtrip
tensor = relay.TensorType
x, y = relay.var("x", shape=(2, 3)), relay.var("y", shape=(2, 3))
ONE = relay.FuncType([tensor((2,))], tensor(()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: x.checked_type, "the type of this expression is not known yet"),
        (lambda: relay.Call(print, [x]), "a callee is an operator"),
        (lambda: relay.Function([x + y], x), "a function's parameters are relay.Vars"),
        (lambda: relay.Tuple([1]), "this is not a Relay expression"),
        (lambda: relay.Let(x + y, x, x), "let binds a relay.Var"),
        (lambda: relay.Var(3), "a variable's name is a string"),
        (lambda: relay.var("v", tensor(()), ()), "Can only specify either"),
        (lambda: relay.Tuple([x, y])[2], "Tuple index out of range\n  got: 2 of 2"),
        (lambda: relay.Tuple([x, y])[-3], "Tuple index out of range\n  got: -3 of 2"),
        (lambda: relay.split(x, 3, 1)[3], "Tuple index out of range\n  got: 3 of 3"),
        (lambda: relay.split(x, 3, 1)[-4], "Tuple index out of range\n  got: -4 of 3"),
        (lambda: relay.ScopeBuilder().let(("a", None, 1), x), "a pair is expected"),
        (lambda: relay.ScopeBuilder().ret(1), "a scope's value is a Relay expression"),
        (lambda: TypeVisitor().visit(x), "a functor does not visit this kind of type"),
        (lambda: Extents().info(relay.IncompleteType()), "no values that can be computed"),
    ],
)
def test_what_is_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError), match=message):
        make()


def test_expressions_as_python_objects() -> None:
    pair, pieces = relay.Tuple([x, y]), relay.split(x, 3, 1)
    assert len(pair) == 2 and [*pair] == [x, y] and pair[-1] is pair[1] is y and pair[-2] is x
    assert len(pieces) == 3 and [p.index for p in pieces] == [0, 1, 2] and pieces[-3].index == 0
    assert pieces.astuple() is pieces[0].tuple_value and pieces[-1].index == 2
    assert repr(pieces) == f"TupleWrapper({pieces.astuple()!r}, 3)"
    assert pieces.astext() == pieces.astuple().astext()
    assert relay.TupleGetItem(pieces, 1).tuple_value is pieces.astuple()
    assert (-x).op.name == "negative" and x(y).op is x and x(y).args == (y,)
    odd = relay.Tuple([x])
    object.__setattr__(odd, "fields", (tir.Var("n", "int32"),))
    assert repr(odd).startswith("<Tuple that cannot be printed: a Var has no text in Relay")
    marked = relay.CallWithFields(x + y, attrs={"a": 1})
    assert marked.attrs["a"] == 1 and marked.op.name == "add"
    named = relay.transform.InferType()(IRModule.from_expr(relay.tanh(x)))["main"].body
    assert relay.CallWithFields(named, attrs={"a": 1}).checked_type == tensor((2, 3))


def test_scopes_that_are_open() -> None:
    builder = relay.ScopeBuilder()
    with builder.if_scope(relay.const(True)):
        with pytest.raises(LoopwrightError, match="outmost scope\n  got: 1 open scopes"):
            builder.get()
        builder.ret(x)
        with pytest.raises(LoopwrightError, match="ret value is already set"):
            builder.ret(x)
    with pytest.raises(LoopwrightError, match="If expression without else"):
        builder.get()
    with builder.else_scope():
        builder.ret(y)
    assert builder.get().true_branch is x and builder.get().false_branch is y


def test_scopes_bind_tuples_and_values_of_types_to_be_found() -> None:
    builder = relay.ScopeBuilder()
    assert builder.type_of(x) is x.type_annotation
    pieces = relay.split(x, 3, 1)
    bound = builder.let(("p", tensor(())), pieces)
    kind = builder.type_of(x + y)
    builder.ret(relay.split(y, 3, 1))
    first = builder.get()
    assert first.var is bound and bound.type_annotation == tensor(())
    assert first.value is pieces.astuple() and isinstance(kind, relay.IncompleteType)
    assert first.body.var.type_annotation is kind and first.body.body.op.name == "split"


def test_types_of_relax() -> None:
    table = Extents()
    info = table.info(ONE)
    assert isinstance(info, si.FuncStructInfo) and isinstance(info.params[0], si.TensorStructInfo)
    assert table.type(si.PrimStructInfo("int32")) == tensor((), "int32")
    assert table.type(si.ShapeStructInfo(ndim=3)) == tensor((3,), "int64")
    assert table.type(si.ShapeStructInfo(ndim=0)) == tensor((0,), "int64")
    assert isinstance(table.type(si.ShapeStructInfo(ndim=-1)).shape[0], relay.Any)
    assert table.type(si.ObjectStructInfo()) == relay.TupleType([])
    assert table.type(si.TensorStructInfo(ndim=0, dtype="int8")) == tensor((), "int8")
    assert len(table.type(si.TensorStructInfo(ndim=2, dtype="int8")).shape) == 2
    for wrong in (si.TensorStructInfo(dtype="int8"), info):
        with pytest.raises(TypeError, match="rank of a tensor is not known|no type for this"):
            table.type(wrong)


def test_texts_of_types_that_no_text_has() -> None:
    relation = relay.TypeRelation(Op.get("add"), (tensor(()), tensor((2,))), 1, None)
    box = relay.GlobalTypeVar("Box", relay.TypeKind.AdtHandle)
    for type_, text in (
        (relay.IncompleteType(), "_"),
        (relay.RefType(tensor((2,))), "ref(Tensor[(2), float32])"),
        (box(tensor(()), ONE), "Box[float32, fn (Tensor[(2), float32]) -> float32]"),
        (relation, "add(float32, Tensor[(2), float32])"),
        (tensor((relay.Any(), 2)), "Tensor[(?, 2), float32]"),
    ):
        assert relay.Var("v", type_).type_annotation is type_
        assert relay.astext(type_, show_meta_data=False).split("\n")[-1] == text
    assert box != relay.GlobalTypeVar("Box")
    assert hash(relay.Any()) == hash(relay.Any())  # two objects


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({3: "a", "b": 2}, "Map"),
        ([1, 2.5, True], "Array"),
        (relay.GlobalVar("g"), "GlobalVar"),
        (Op.get("add"), "Op"),
        (tir.IntImm("int32", 3), "IntImm"),
        (relay.reshape(x, (3, 2)).attrs, "relay.attrs.ReshapeAttrs"),
        (relay.Function([x], x).with_attr("a", 2).attrs, "DictAttrs"),
    ],
)
def test_metadata_of_any_kind_read_back(value: Any, key: str) -> None:
    (back,) = read(Writer().write({"k": [value]}))["k"]
    wanted = tuple(value) if isinstance(value, list) else value
    if key in ("relay.attrs.ReshapeAttrs", "DictAttrs"):
        back, wanted = dict(back.items()), dict(value.items())
    assert type(back) is type(wanted)
    same = repr if isinstance(back, (relay.GlobalVar, tir.IntImm)) else lambda v: v
    assert same(back) == same(wanted)
    assert key == type_key(value)


def test_incomplete_types_are_metadata() -> None:
    (back,) = read(Writer().write({"k": [relay.IncompleteType()]}))["k"]
    assert isinstance(back, relay.IncompleteType)


def typed(*params: relay.Var, body: Any) -> Any:
    return InferType()(IRModule({"main": relay.Function(params, body)}))["main"]


def test_a_called_parameter_has_the_type_of_its_arguments() -> None:
    f, c = relay.var("f"), relay.var("c", shape=(), dtype="bool")
    func = typed(f, c, x, body=relay.If(c, f(x), x))
    assert func.params[0].type_annotation == relay.FuncType([tensor((2, 3))], tensor((2, 3)))


def test_a_field_of_what_is_known_later() -> None:
    p, a = relay.var("p"), relay.var("a", shape=(2, 3))
    field = relay.TupleGetItem(p, 1)
    inner = relay.Function([p], relay.nn.relu(field))
    func = typed(a, body=relay.Call(inner, [relay.Tuple([a, relay.exp(a)])]))
    assert func.ret_type == tensor((2, 3))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (relay.TupleGetItem(relay.Tuple([x]), 1), "no field of this number\n  got: 1 of 1 fields"),
        (relay.TupleGetItem(relay.Tuple([x]), -1), "no field of this number\n  got: -1 of 1"),
        (relay.TupleGetItem(x, 0), "only a tuple has fields"),
        (x(y), "only a function can be called"),
        (relay.Function([x], x)(x, y), "the function takes 1 arguments\n  got: 2"),
        (relay.Call(Op.get("tanh"), [x, y]), "tanh takes 1 arguments\n  got: 2"),
        (relay.slice_like(x, relay.zeros((2, 4), "float32")), "slice_like: the other tensor is"),
        (relay.reshape(x, (0, 0, 0)), "the new shape takes more extents than the old one"),
        (relay.reshape(x, (4, -1)), "does not divide the elements evenly"),
        (relay.reverse_sequence(x, relay.const([1, 2, 3])), "a length for each of the 2 rows"),
        (relay.take(x, relay.const([0]), 2), "take: the axis is out of range\n.*2 of 2"),
        (relay.take(x, relay.const([0]), -3), "take: the axis is out of range\n.*-3 of 2"),
        (relay.expand_dims(x, 3), "expand_dims: the axis is out of range"),
        (relay.sum(x, (0, 0)), "different ones of its operand"),
        (relay.sum(x, 2), "different ones of its operand"),
        (relay.sum(x, None, exclude=True), "exclude needs axes to leave out"),
        (relay.strided_slice(x, [0], [1], [0]), "a stride is not 0"),
        (relay.GlobalVar("nobody")(x), "the module has no function of this name"),
    ],
)
def test_errors_of_types(body: Any, message: str) -> None:
    with pytest.raises((DiagnosticError, LoopwrightError, ValueError), match=message):
        typed(x, y, body=body)


def test_the_last_axes_that_are_there() -> None:
    for body, shape in (
        (relay.expand_dims(x, 2), (2, 3, 1)),
        (relay.expand_dims(x, -3), (1, 2, 3)),
        (relay.take(x, relay.const([0]), -2), (1, 3)),
        (relay.take(x, relay.const([0]), 1), (2, 1)),
        (relay.sum(x, -2), (3,)),
        (relay.sum(x, (), exclude=True), ()),
        (relay.sum(x, 1, exclude=True), (3,)),
        (relay.slice_like(x, relay.zeros((1, 3), "float32")), (1, 3)),
        (relay.slice_like(x, relay.zeros((1,), "float32")), (1, 3)),
        (relay.reshape(relay.reshape(x, (2, 1, 3)), (0, -2)), (2, 1, 3)),
    ):
        assert typed(x, y, body=body).ret_type == tensor(shape), body
