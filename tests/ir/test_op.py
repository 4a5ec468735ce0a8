"""Operators and the facts about them."""

from __future__ import annotations

import pytest

from loopwright.ir import datatype
from loopwright.ir.dtype import CUSTOM_TYPES
from loopwright.ir.op import (
    FACTS,
    Builders,
    Op,
    register_intrin_lowering,
    register_op,
    register_op_attr,
)
from loopwright.ir.prim_expr import Cast, FloatImm, Var
from loopwright.ir.structural import first_mismatch, structural_hash


def test_one_operator_of_a_name():
    op = register_op("test.op_one")
    assert register_op("test.op_one") is op
    assert Op.get("test.op_one") is op
    assert Op.find("test.op_none") is None
    assert "test.op_one" in Op.list_op_names()


def test_unknown_operator():
    register_op("test.op_one")
    with pytest.raises(AttributeError) as error:
        Op.get("test.op_onne")
    assert (
        "no operator of this name\n  got: test.op_onne\n  instead: did you mean test.op_one"
        in str(error.value)
    )


def test_facts():
    op = register_op("test.op_facts")
    assert not op.has_attr("FLegalize")
    assert register_op_attr("test.op_facts", "FLegalize", print) is print
    assert op.get_attr("FLegalize") is print

    @register_op_attr("test.op_facts", "FInfer")
    def infer(call, ctx):
        return None

    assert op.get_attr("FInfer") is infer
    op.set_attr("FLegalize", len, plevel=5)
    assert op.get_attr("FLegalize") is print
    op.set_attr("FLegalize", len, plevel=11)
    assert op.get_attr("FLegalize") is len
    op.reset_attr("FLegalize")
    assert op.get_attr("FLegalize", 7) == 7
    op.reset_attr("FLegalize")


def test_a_fact_of_the_package_that_comes_back_customises_nothing():
    add = Op.get("relax.add")
    with FACTS.snapshot():
        before, fact = FACTS.is_customised, add.get_attr("FLegalize")
        add.reset_attr("FLegalize")
        assert FACTS.is_customised  # calls of it are compiled otherwise
        add.set_attr("FLegalize", print)
        add.reset_attr("FLegalize")
        add.set_attr("FLegalize", fact)
        assert FACTS.is_customised == before


def test_registering_a_fact_makes_the_operator():
    register_op_attr("test.op_new", "FPurity", False)
    assert Op.get("test.op_new").get_attr("FPurity") is False


def test_a_fact_may_be_false_and_is_no_decorator():
    assert register_op_attr("test.op_false", "k", 0) == 0


def test_intrinsics_are_lowered_per_target():
    @register_intrin_lowering("test.op_lowered", "llvm", level=11)
    def lower(call):
        return call

    assert Op.get("test.op_lowered").get_attr("llvm.FLowerIntrinsic") is lower


def test_equality_is_by_identity():
    a, b = register_op("test.op_a"), register_op("test.op_b")
    assert first_mismatch(a, a) is None
    assert first_mismatch([a], [b])[0] == "<root>[0]"
    assert structural_hash(a) != structural_hash(b)


def test_facts_of_their_own_and_what_is_said_where_there_is_none():
    op = register_op("test.op_plain")
    assert (op.num_inputs, op.support_level, op.arguments, op.level_of("k")) == (-1, 10, (), 10)
    assert op.get_attr("k") is None
    op.set_num_inputs(2)
    op.set_support_level(3)
    op.add_argument("x", "Tensor", "what comes in")
    op.add_argument("y", "Tensor", "what else")
    assert (op.num_inputs, op.support_level) == (2, 3)
    assert op.arguments == (("x", "Tensor", "what comes in"), ("y", "Tensor", "what else"))
    register_op_attr("test.op_plain", "k", 1, level=12)
    for value, level, wanted in ((2, 11, 1), (3, 12, 3), (4, 13, 4)):
        op.set_attr("k", value, level)
        assert op.get_attr("k") == wanted
    assert op.level_of("k") == 13
    with pytest.raises(AttributeError, match="instead: register it with ir.register_op_attr"):
        Op.get("######")


def test_an_operator_that_definitions_make_is_found():
    assert Op.find("relax.add") is Op.get("relax.add")
    with pytest.raises(KeyError):
        Builders()["test.none"]
    assert Builders().get("test.none", 3) == 3 and Builders(add=1).get("add") == 1


def test_codes_and_names_of_types_belong_together():
    with CUSTOM_TYPES.snapshot():
        datatype.register("test_first", 129)
        datatype.register("test_first", 129)
        with pytest.raises(ValueError, match="got: 128\n  instead: use 129 or more"):
            datatype.register("test_other", 128)
        for name, code in (("test_first", 130), ("test_other", 129)):
            with pytest.raises(
                ValueError, match=f"{name} with {code}\n  instead: 129 is test_first"
            ):
                datatype.register(name, code)
        assert datatype.get_type_name(129) == "test_first"
        assert datatype.get_type_code("test_first") == 129
        assert datatype.get_type_registered(129) and not datatype.get_type_registered(130)
        with pytest.raises(ValueError, match="no custom type has this code\n  got: 130"):
            datatype.get_type_name(130)
        with pytest.raises(ValueError, match="instead: one of .*test_first"):
            datatype.get_type_code("test_none")


@pytest.mark.parametrize(
    ("kind", "given", "missing"),
    [
        ("Cast", {"intrinsic_name": "x"}, "dest_type"),
        ("Call", {"dest_type_name": "x"}, "intrinsic"),
    ],
)
def test_what_an_operation_on_a_type_needs(kind, given, missing):
    with pytest.raises(ValueError, match=f"{kind} of a custom type needs {missing}_name"):
        datatype.register_op(print, kind, "llvm", "test_first", **given)


def test_lowered_to_calls_by_width():
    x = Var("x", "int32")
    lower = datatype.create_lower_func({32: "Plain", (32, 64): "Wider"})
    called = lower(x + x)
    assert called.args[0].value == "Plain" and list(called.args[1:]) == [x, x]
    wider = lower(Cast("int64", x))
    assert (wider.args[0].value, wider.args[1], wider.dtype) == ("Wider", x, "int64")
    number = lower(FloatImm("float32", 1.5))
    assert (number.args[1].value, number.args[1].dtype) == (1.5, "float32")
    with pytest.raises(RuntimeError, match="got: .64, 32.\n  instead: those registered are 32, "):
        lower(Cast("int32", Var("y", "int64")))
    with pytest.raises(RuntimeError, match="Var of a custom type is not lowered to a call"):
        lower(x)
    least = datatype.create_min_lower_func({16: "Least"}, "mine")
    with pytest.raises(RuntimeError, match="of this width\n  got: 32"):
        least(32)


def test_types_and_attributes_of_calls():
    op = register_op("test.op_typed")
    op.set_attrs_type_key("relay.attrs.DenseAttrs")
    op.add_type_rel("Identity")
    assert op.get_attr("attrs_type_key") == "relay.attrs.DenseAttrs"
    assert op.get_attr("relay.type") == "Identity"
    op.add_type_rel("Mine", len)
    assert op.get_attr("relay.type") is len
