"""Operators and the facts about them."""

from __future__ import annotations

import pytest

from loopwright.ir.op import (
    Op,
    register_intrin_lowering,
    register_op,
    register_op_attr,
)
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
