"""FNormalize of operators: where it is applied, and that graphs without it are refused."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.op import register_op
from loopwright.ir.structural import assert_structural_equal
from loopwright.relax import BlockBuilder
from loopwright.relax.analysis import find_violations
from loopwright.script import relax as R
from loopwright.testing.transform import ApplyEmptyCppMutator

pytestmark = pytest.mark.no_roundtrip


def padded(builder, call):
    return call if len(call.args) == 2 else call.replace(args=(*call.args, relax.Tuple([])))


@pytest.fixture
def op():
    op = register_op("test.takes_two")
    op.set_attr("FInferStructInfo", lambda call, builder: call.args[0].struct_info)
    op.set_attr("FPurity", True)
    op.set_attr("FNormalize", padded)
    yield op
    op.reset_attr("FNormalize")


def program(op, *more, check: bool):
    @R.function(private=True, check_well_formed=check)
    def main(x: R.Tensor((2,), "float32")):
        return relax.Call(op, [x, *more])

    return IRModule({"main": main})


def arguments(mod) -> int:
    return len(mod["main"].body.blocks[0].bindings[0].value.args)


def test_a_text_without_checks_stays_as_it_is(op):
    plain = program(op, check=False)
    assert arguments(plain) == 1
    assert [v.rule for v in find_violations(plain)] == ["normal-form"]
    full = program(op, R.tuple(), check=True)
    assert arguments(full) == 2 and not find_violations(full)
    after = ApplyEmptyCppMutator()(plain)
    assert_structural_equal(after, full)
    assert ApplyEmptyCppMutator()(full) is full


def test_builders_apply_it(op):
    builder = BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.Call(op, [x])))
    assert arguments(builder.get()) == 2


def test_without_one_nothing_is_asked(op):
    op.reset_attr("FNormalize")
    assert not find_violations(program(op, check=False))


def test_a_list_of_one_result_is_that_result():
    info = relax.TensorStructInfo((2,), "float32")
    x = relax.Var("x", info)
    kernel = relax.GlobalVar("kernel")
    one, tuple_of_one = [info], relax.TupleStructInfo([info])
    for out, expected in ((one, info), (tuple_of_one, tuple_of_one)):
        call = relax.call_tir(kernel, [x], out)
        assert_structural_equal(call.sinfo_args[0], expected)
        assert ("R.Tuple" in call.script()) is (out is tuple_of_one)
