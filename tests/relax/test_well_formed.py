"""Each rule of well-formedness, by a graph that breaks it."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.base.errors import LoopwrightError
from loopwright.ir.expr import Attrs, GlobalVar
from loopwright.ir.module import IRModule
from loopwright.ir.op import Op, register_op
from loopwright.ir.prim_expr import Var as TirVar
from loopwright.relax import BlockBuilder, DataflowBlock, DataflowVar, VarBinding
from loopwright.relax.analysis import RULES, assert_well_formed, find_violations, well_formed
from loopwright.relax.expr import BindingBlock, Call, SeqExpr
from loopwright.tir.buffer import decl_buffer
from loopwright.tir.function import PrimFunc
from loopwright.tir.stmt import Evaluate

from .support import TWICE, plus, tensor, twice, var

pytestmark = pytest.mark.no_roundtrip

n, m = TirVar("n", "int64"), TirVar("m", "int64")
x = var("x", 4)


def typed(expr, info=None):
    expr._update_struct_info(info or tensor(4))
    return expr


def bind(v, value):
    return VarBinding(v, value)


def function(blocks, result, params=(x,), ret=None, pure=True, attrs=None):
    body = typed(SeqExpr(blocks, result), result.struct_info)
    return relax.Function(params, body, ret or result.struct_info, pure, attrs)


def good_module() -> IRModule:
    bb = BlockBuilder()
    with bb.function("f", [x]):
        with bb.dataflow():
            out = bb.emit_output(plus(twice(x), x))
        bb.emit_func_output((out, x))
    return bb.get()


def test_good_modules_are_well_formed():
    assert well_formed(good_module())
    assert well_formed(good_module()["f"])
    assert_well_formed(IRModule({}))


a, b = var("a", 4), var("b", 4)
d = DataflowVar("d", tensor(4))
bare = relax.Var("bare")
PRINT = typed(relax.op.relax_print(x), relax.TupleStructInfo([]))
COND = relax.Var("cond", tensor(dtype="bool"))
BRANCH = typed(relax.If(COND, x, x))
MYSTERY = register_op("test.unknown_result")
MYSTERY.set_attr("FPurity", True)
CALL_TIR = typed(relax.op.call_tir(GlobalVar("kernel"), [x, x], tensor(4)))
PACKED = typed(Call(relax.ExternFunc("packed"), [x]))
PAIR = relax.Var("pair", relax.TupleStructInfo([tensor(4), tensor(4)]))


def in_place(args, indices) -> IRModule:
    """A module with a call of a kernel that writes over some of its arguments."""
    attrs = Attrs("relax.call_tir_inplace", {"inplace_indices": indices})
    given = args if isinstance(args, relax.Var) else relax.Tuple(args)
    op = Op.get("relax.call_tir_inplace")
    call = typed(Call(op, [GlobalVar("kernel"), given], attrs, [tensor(4)]))
    params = [v for v in (args if isinstance(args, list) else [args]) if isinstance(v, relax.Var)]
    func = function([BindingBlock([bind(a, call)])], a, params=dict.fromkeys(params))
    buffers = [decl_buffer([4], "float32", name) for name in "ab"]
    return IRModule({"f": func, "kernel": PrimFunc(buffers, Evaluate(0))})


BROKEN = {
    "struct-info": [
        (function([BindingBlock([bind(a, twice(x))])], a), "a Call has none; normalize it"),
        (function([BindingBlock([bind(bare, typed(twice(x)))])], x), "bare has none"),
    ],
    "annotation": [
        (
            function([BindingBlock([bind(var("a", 5), typed(twice(x)))])], x),
            'a is said to be R.Tensor((5,), dtype="float32")',
        ),
        (function([], x, ret=tensor(5)), "the declared result is said to be"),
    ],
    "defined": [
        (function([], a), "a is used but not defined here"),
        (
            function([BindingBlock([bind(a, typed(twice(b))), bind(b, typed(twice(x)))])], a),
            "b is used but not defined here",
        ),
    ],
    "bound-once": [
        (
            function([BindingBlock([bind(a, typed(twice(x))), bind(a, typed(twice(x)))])], a),
            "a is bound again",
        ),
        (function([], x, params=(x, x)), "x is bound again"),
    ],
    "dataflow-var": [
        (
            function([BindingBlock([bind(d, typed(twice(x)))])], x),
            "d is bound outside a dataflow block",
        ),
        (
            function([DataflowBlock([bind(d, typed(twice(x)))])], d),
            "d is used outside its dataflow block; R.output it",
        ),
    ],
    "dataflow-pure": [
        (
            function([DataflowBlock([bind(d, BRANCH)])], x, params=(x, COND)),
            "a branch is inside a dataflow block",
        ),
        (
            function(
                [DataflowBlock([bind(DataflowVar("p", relax.TupleStructInfo([])), PRINT)])],
                x,
                pure=False,
            ),
            "relax.print in a dataflow block may have side effects",
        ),
    ],
    "symbolic": [
        (
            function([], x, ret=tensor(n)),
            "n is not defined by a parameter or match_cast before",
        ),
        (function([], v := var("v", n * 2), params=(v,)), "n is not defined"),
    ],
    "normal-form": [
        (
            function([BindingBlock([bind(a, typed(twice(typed(twice(x)))))])], a),
            "an argument must be a variable or literal, not a Call",
        ),
        (function([], typed(twice(x))), "a result must be a variable or literal, not a Call"),
        (typed(function([], x).replace(body=x)), "a body is a SeqExpr, not Var"),
        (
            function([BindingBlock([bind(a, typed(SeqExpr([], x)))])], a),
            "a value cannot be a SeqExpr; bind its parts first",
        ),
    ],
    "pure": [
        (
            function([BindingBlock([bind(relax.Var("p", relax.TupleStructInfo([])), PRINT)])], x),
            "relax.print may have side effects; say pure=False",
        ),
        (
            function([], x, pure=False, attrs={"relax.force_pure": True}),
            "relax.force_pure is of a function that is pure",
        ),
        (
            function([BindingBlock([bind(a, PACKED)])], a),
            'the packed function "packed" may have side effects',
        ),
    ],
    "callee": [
        (
            IRModule({"f": function([BindingBlock([bind(a, CALL_TIR)])], a)}),
            "the function 'kernel' does not exist",
        ),
    ],
    "operator": [
        (
            function([BindingBlock([bind(a, typed(Call(MYSTERY, [x])))])], a),
            "test.unknown_result has no FInferStructInfo",
        ),
    ],
    "call-tir": [
        (
            IRModule(
                {
                    "f": function([BindingBlock([bind(a, CALL_TIR)])], a),
                    "kernel": function([], x),
                }
            ),
            "kernel is not a PrimFunc; call it directly",
        ),
        (in_place([x, relax.const([1.0] * 4)], [1]), "call_tir_inplace writes over a constant"),
        (in_place([x, x], [2]), "the argument 2 to write over does not exist"),
        (in_place([x, x], [-2]), "the argument -2 to write over does not exist"),
        (in_place([x, var("y", 5)], [1]), "is not written over an argument of R.Tensor((5,)"),
        (in_place([x, relax.PrimValue(1)], [1]), "is not written over an argument of R.Prim"),
        (in_place(PAIR, [0]), "its arguments must be a tuple written in place"),
    ],
    "parameter": [
        (function([], x, params=(x, d)), "d is not a Var with struct info"),
    ],
    "global-symbol": [
        (
            IRModule({"f": function([], x, attrs={"global_symbol": "g"})}),
            "its global_symbol is 'g'",
        ),
    ],
}


def test_every_rule_has_a_case():
    assert set(BROKEN) == set(RULES)


CASES = [(rule, *case) for rule, cases in BROKEN.items() for case in cases]


@pytest.mark.parametrize(("rule", "graph", "message"), CASES)
def test_rule(rule, graph, message):
    found = find_violations(graph)
    assert rule in {v.rule for v in found}, found
    assert any(message in v.message for v in found if v.rule == rule), found
    assert not well_formed(graph)


def test_what_is_written_over_in_place():
    for indices in ([0], [1]):
        assert find_violations(in_place([x, var("y", 4)], indices)) == []
    mixed = in_place([x, relax.const([1.0] * 4)], [0])
    assert find_violations(mixed) == []


def test_number_of_kernel_arguments():
    buffers = [decl_buffer([4], "float32", name) for name in "ab"]
    kernel = PrimFunc(buffers, Evaluate(0))
    mod = IRModule({"f": function([BindingBlock([bind(a, CALL_TIR)])], a), "kernel": kernel})
    (violation,) = find_violations(mod)
    assert violation.rule == "call-tir"
    assert violation.message == "kernel takes 2 parameters, 3 are passed"


def test_force_pure_silences_the_rule():
    func = BROKEN["pure"][0][0]
    assert well_formed(func.with_attr("relax.force_pure", True))


def test_struct_infos_need_not_be_checked():
    func = function([BindingBlock([bind(a, Call(TWICE, [x]))])], a)
    assert not well_formed(func) and well_formed(func, check_struct_info=False)


def test_local_functions_see_what_is_around_them():
    bb, y = BlockBuilder(), var("y", 4)
    with bb.function("f", [x]):
        inner = relax.Function([y], SeqExpr([], plus(x, y)), tensor(4))
        closure = bb.emit(inner, name_hint="inner")
        bb.emit_func_output(bb.emit(Call(closure, [x])))
    assert find_violations(bb.get()) == []


def test_the_text_names_rule_function_and_place():
    with pytest.raises(LoopwrightError) as error:
        assert_well_formed(function([], a, attrs={"global_symbol": "main"}))
    assert str(error.value) == (
        "the graph is not well formed\n  got: [defined] in main: a is used but not defined here"
    )
