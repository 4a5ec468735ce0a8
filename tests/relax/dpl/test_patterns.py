"""Every kind of pattern, every operator on patterns, and how they print."""

from __future__ import annotations

from functools import partial

import pytest

from loopwright import relax, tir
from loopwright.ir.expr import Attrs
from loopwright.ir.module import VDevice
from loopwright.ir.op import Op
from loopwright.ir.target import Target
from loopwright.relax.analysis import get_var2val
from loopwright.relax.dpl import (
    CallPattern,
    DataflowVarPattern,
    DFPattern,
    ExprPattern,
    FunctionPattern,
    PatternContext,
    UnorderedTuplePattern,
    VarPattern,
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    match,
    matcher_of,
    reject,
    wildcard,
)
from loopwright.relax.dpl.nodes import PatternSeq
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from tests.counting import calls


@I.ir_module
class Module:
    @T.prim_func(private=True)
    def tir_relu(x: T.Buffer((32, 32), "float32"), y: T.Buffer((32, 32), "float32")):
        for i, j in T.grid(32, 32):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = T.max(x[vi, vj], T.float32(0))

    @R.function
    def main(x: R.Tensor((32, 32), "float32"), w: R.Tensor((32, 32), "float32")) -> R.Object:
        cls = Module
        with R.dataflow():
            lv0 = R.matmul(x, w)
            lv1 = R.call_tir(cls.tir_relu, (lv0,), out_sinfo=R.Tensor((32, 32), "float32"))
            lv2 = R.call_dps_packed("my_op", (lv1, w), out_sinfo=R.Tensor((32, 32), "float32"))
            lv3 = R.call_pure_packed("my_pure", lv2, w, sinfo_args=(R.Tensor((32, 32), "float32"),))
            lv4 = (lv3, lv2, w)
            lv5 = lv4[1]
            gv = R.reshape(lv5, R.shape([1024]))
            R.output(gv)
        return gv


MAIN = Module["main"]
VALUES = get_var2val(MAIN)
BOUND = {var.name_hint: value for var, value in VALUES.items()}
X, W = MAIN.params


def call(name: str, *args):
    """A call of an operator whose result is like its first argument."""
    return relax.Call(Op.get(name), args).with_struct_info(args[0].struct_info)


def ok(pattern: DFPattern, expr, values=VALUES) -> bool:
    return pattern.match(expr, values)


def test_leaves():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    dfv = relax.DataflowVar("v", R.Tensor((4, 4), "float32"))
    assert wildcard().match(x) and wildcard().match(relax.const(1))
    assert is_var().match(x) and is_var("x").match(x) and not is_var("y").match(x)
    assert is_var("x").name == "x"
    assert is_var().match(dfv) and is_dfv().match(dfv) and is_dfv("v").match(dfv)
    assert not is_dfv().match(x) and not is_dfv("u").match(dfv)
    assert is_gv().match(relax.GlobalVar("f")) and is_gv("f").match(relax.GlobalVar("f"))
    assert not is_gv("g").match(relax.GlobalVar("f")) and not is_gv().match(x)
    assert is_const().match(relax.const([1.0, 2.0])) and not is_const().match(x)
    assert is_expr(x).match(x) and not is_expr(x).match(dfv)
    assert is_expr(relax.const(2)).match(relax.const(2))
    assert not is_expr(relax.const(2)).match(relax.const(3))
    assert is_op("relax.add").match(Op.get("relax.add"))
    assert not is_op("relax.add").match(Op.get("relax.multiply"))
    assert is_shape([1024]).match(relax.ShapeExpr([1024]))
    assert not is_shape([1024]).match(relax.ShapeExpr([1024, 1]))
    assert is_shape([None, 2]).match(relax.ShapeExpr([7, 2]))
    n = tir.Var("n", "int64")
    assert is_shape([n + n]).match(relax.ShapeExpr([n * 2]))
    assert not is_shape([n]).match(relax.ShapeExpr([n + 1]))
    assert is_shape([1, 2])[1].value == 2 and len(is_shape([1, 2])) == 2


def test_a_variable_is_seen_through():
    lv1 = MAIN.body.blocks[0].bindings[1].var
    assert is_var().match(lv1) and not is_var().match(lv1, VALUES)
    assert is_call_tir("tir_relu").match(lv1, VALUES) and not is_call_tir("tir_relu").match(lv1)


def test_calls():
    lv1, lv2, lv3 = BOUND["lv1"], BOUND["lv2"], BOUND["lv3"]
    matmul = is_op("relax.matmul")(is_var("x"), is_var("w"))
    assert ok(matmul, BOUND["lv0"])
    assert ok(is_call_tir("tir_relu", [matmul]), lv1)
    assert ok(is_call_tir("", is_tuple([wildcard()])), lv1)
    assert not ok(is_call_tir("tir_zeros"), lv1)
    assert not ok(is_call_tir("tir_relu", [is_var()]), lv1)
    assert not ok(is_call_tir("tir_relu", [wildcard()], tir_vars=[1]), lv1)
    assert ok(is_call_dps_packed("my_op", [is_call_tir("tir_relu"), is_var("w")]), lv2)
    assert ok(is_call_dps_packed("my_op"), lv2) and not ok(is_call_dps_packed("other"), lv2)
    assert is_call_packed("f", [wildcard()]).match(relax.Call(relax.extern("f"), [X]))
    assert is_call_packed("f").match(relax.Call(relax.extern("f"), [X, W]))
    assert not is_call_packed("f", [wildcard()]).match(relax.Call(relax.extern("f"), [X, W]))
    assert not is_call_packed("g").match(relax.Call(relax.extern("f"), [X]))
    assert not ok(matmul, lv3) and not ok(matmul, X)


def test_arguments_may_be_left_open():
    matmul = is_op("relax.matmul")
    assert matmul(wildcard(), varg_default_wildcard=True).match(BOUND["lv0"])
    assert not matmul(wildcard()).match(BOUND["lv0"])
    assert CallPattern(matmul, None).match(BOUND["lv0"])
    assert not matmul(*[wildcard()] * 3, varg_default_wildcard=True).match(BOUND["lv0"])


def test_tuples():
    lv4, lv5 = BOUND["lv4"], BOUND["lv5"]
    packed, mine, w = wildcard(), is_call_dps_packed("my_op"), is_var("w")
    assert ok(is_tuple([packed, mine, w]), lv4)
    assert not ok(is_tuple([mine, packed, w]), lv4) and not ok(is_tuple([packed, mine]), lv4)
    assert ok(is_tuple([w, mine, packed], unordered=True), lv4)
    assert not ok(is_tuple([w, w, packed], unordered=True), lv4)
    assert not ok(is_tuple([is_var("u"), mine, packed], unordered=True), lv4)
    whole = is_tuple([packed, mine, w])
    assert ok(whole[1], lv5) and not ok(whole[0], lv5) and ok(whole[None], lv5)
    assert ok(is_tuple_get_item(whole, 1), lv5) and ok(is_tuple_get_item(wildcard()), lv5)
    assert ok(wildcard()[1], lv5) and not ok(wildcard()[2], lv5)
    assert len(whole) == 3
    with pytest.raises(IndexError, match="3 of 3 fields"):
        whole[3]
    with pytest.raises(TypeError):
        list(wildcard())


def test_functions():
    func = MAIN
    result = is_op("relax.reshape")(wildcard()[1], is_shape([1024]))
    assert FunctionPattern([wildcard(), wildcard()], result).match(func)
    assert FunctionPattern(None, wildcard()).match(func)
    assert not FunctionPattern([wildcard()], wildcard()).match(func)
    assert not FunctionPattern(None, is_const()).match(func)
    assert not FunctionPattern(None, wildcard()).match(X)
    shared = wildcard()
    assert not FunctionPattern([shared, shared], wildcard()).match(func)
    assert has_attr({"global_symbol": "main"}).match(func)


def test_and_or_not():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    relu = call("relax.nn.relu", x)
    is_relu, is_gelu = is_op("relax.nn.relu")(wildcard()), is_op("relax.nn.gelu")(wildcard())
    assert (is_relu | is_gelu).match(relu) and (is_gelu | is_relu).match(relu)
    assert not (is_gelu | is_var()).match(relu)
    assert (is_relu & has_dtype("float32")).match(relu)
    assert not (is_relu & is_gelu).match(relu)
    assert (~is_gelu).match(relu) and not reject(is_relu).match(relu)
    assert (is_gelu | (is_relu & ~is_var())).match(relu)


def test_a_rejected_pattern_binds_nothing():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    same = wildcard()
    # The right operand is not the left one.
    differ = is_op("relax.add")(same, ~same)
    assert differ.match(call("relax.add", x, y)) and not differ.match(call("relax.add", x, x))
    inner = wildcard()
    found = match(~is_op("relax.nn.relu")(inner), x)
    assert found is not None and inner not in found


def test_attributes():
    x = relax.Var("x", R.Tensor((1, 3, 8, 8), "float32"))
    w = relax.Var("w", R.Tensor((4, 3, 3, 3), "float32"))
    conv = relax.BlockBuilder().normalize(R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1)))
    pattern = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    assert pattern.has_attr({"strides": [2, 2]}).match(conv)
    assert pattern.has_attr({"strides": [2, 2], "data_layout": "NCHW"}).match(conv)
    assert not pattern.has_attr({"strides": [1, 1]}).match(conv)
    assert not pattern.has_attr({"stride": [2, 2]}).match(conv)
    assert has_attr({"padding": [1, 1, 1, 1]}, pattern).match(conv)
    assert not has_attr({"padding": 1}).match(x)
    on = MAIN.with_attr("target", Target("llvm"))
    assert [has_attr({"target": Target(t)}).match(on) for t in ("llvm", "c")] == [True, False]
    assert (
        is_op("relax.nn.conv2d").has_attr({"FPurity": True})(None or wildcard(), w_()).match(conv)
    )


def w_():
    return wildcard()


def test_struct_info():
    n = tir.Var("n", "int64")
    x = relax.Var("x", R.Tensor((4, n), "float32"))
    plain = relax.Var("p", R.Object())
    assert wildcard().has_dtype("float32").match(x) and not wildcard().has_dtype("int8").match(x)
    assert has_dtype("float32", is_var("x")).match(x) and not has_dtype("float32").match(plain)
    assert wildcard().has_shape([4, n]).match(x) and not wildcard().has_shape([4, 4]).match(x)
    assert wildcard().has_shape([4, None]).match(x) and not wildcard().has_shape([4]).match(x)
    assert not wildcard().has_shape([4]).match(plain)
    assert wildcard().has_struct_info(R.Tensor((4, n), "float32")).match(x)
    assert wildcard().has_struct_info(R.Tensor(dtype="float32", ndim=2)).match(x)
    assert wildcard().has_struct_info(R.Tensor).match(x)
    assert not wildcard().has_struct_info(R.Tensor((4, 4), "float32")).match(x)
    assert not wildcard().has_type(R.Tensor((4, n), "float16")).match(x)
    assert wildcard().has_struct_info(R.Object()).match(x)


def test_symbolic_variables_of_a_struct_info_match_any_extent():
    k, square = tir.Var("k", "int64"), R.Tensor((4, 4))
    pattern = is_op("relax.add")(*(wildcard().has_struct_info(R.Tensor((k, k))) for _ in "ab"))
    for info, matches in ((square, True), (R.Tensor((4, 1)), False), (R.Tensor((1, 1)), False)):
        a, b = relax.Var("a", square), relax.Var("b", info)
        assert bool(pattern.match(relax.op.add(a, b))) == matches


def test_target():
    cuda, cpu = VDevice("cuda"), VDevice("llvm")
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32", cuda))
    assert wildcard().has_target("cuda").match(x) and not wildcard().has_target("llvm").match(x)
    assert wildcard().has_target(cuda.target).match(x)
    assert not wildcard().has_target(cpu.target).match(x)
    assert not wildcard().has_target("cuda").match(X)


def test_python_operators_build_calls():
    x, y = wildcard(), wildcard()
    a = relax.Var("a", R.Tensor((4, 4), "float32"))
    b = relax.Var("b", R.Tensor((4, 4), "float32"))
    for pattern, name in (
        (x + y, "add"),
        (x - y, "subtract"),
        (x * y, "multiply"),
        (x / y, "divide"),
        (x // y, "floor_divide"),
        (x**y, "power"),
        (x @ y, "matmul"),
        (x < y, "less"),
        (x <= y, "less_equal"),
        (x > y, "greater"),
        (x >= y, "greater_equal"),
    ):
        assert pattern.match(call(f"relax.{name}", a, b)), name
        assert not pattern.match(call("relax.maximum", a, b))
    assert (-x).match(call("relax.negative", a))


def test_optional():
    x = relax.Var("x", R.Tensor((4, 4), "float32"))
    exp = call("relax.exp", x)
    inner = is_op("relax.exp")(is_var())
    pattern = inner.optional(is_op("relax.nn.relu"))
    assert pattern.match(exp) and pattern.match(call("relax.nn.relu", exp))
    assert not pattern.match(call("relax.nn.gelu", exp))
    # What is optional is taken where it is there, even by a wildcard.
    part = wildcard()
    found = match(part.optional(is_op("relax.exp")), exp)
    assert found[part] is x


@pytest.mark.parametrize("name", ["relax.add", "relax.multiply"])
def test_commutative_operators_match_both_ways(name):
    x = relax.Var("x", R.Tensor((4,), "float32"))
    pattern = is_op(name)(is_const(), is_var())
    assert pattern.match(call(name, relax.const([1.0] * 4), x))
    assert pattern.match(call(name, x, relax.const([1.0] * 4)))
    assert not pattern.match(call(name, x, x))


def test_other_operators_do_not():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    for name in ("relax.subtract", "relax.divide", "relax.maximum"):
        assert not is_op(name)(is_const(), is_var()).match(call(name, x, relax.const([1.0] * 4)))


def test_a_pattern_stands_for_one_value():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    one = wildcard()
    assert is_op("relax.add")(one, one).match(call("relax.add", x, x))
    assert not is_op("relax.add")(one, one).match(call("relax.add", x, y))
    assert is_op("relax.add")(one, one.dup()).match(call("relax.add", x, y))


def test_the_search_goes_back():
    """A first choice that fits here may not fit there."""
    x = relax.Var("x", R.Tensor((4,), "float32"))
    y = relax.Var("y", R.Tensor((4,), "float32"))
    one = wildcard()
    # (y + x) - x: the addition must match swapped for `one` to be x in both places.
    pattern = is_op("relax.subtract")(is_op("relax.add")(one, wildcard()), one)
    expr = call("relax.subtract", call("relax.add", y, x), x)
    assert match(pattern, expr, {})[one] is x
    # The left alternative matches the tuple, but then `one` is y.
    pair = relax.Tuple([y, x])
    either = is_tuple([one, wildcard()]) | is_tuple([wildcard(), one])
    assert match(is_tuple([either, one]), relax.Tuple([pair, x]))[one] is x
    assert match(is_tuple([is_tuple([one, wildcard()], True), one]), relax.Tuple([pair, x]))
    z = relax.Var("z", R.Tensor((4,), "float32"))
    assert match(is_tuple([either, one]), relax.Tuple([pair, z])) is None


def test_the_search_goes_back_into_a_remembered_part():
    x, y, z = (relax.Var(n, R.Tensor((4,), "float32")) for n in "xyz")
    a, b = wildcard(), wildcard()
    part = is_op("relax.add")(a, b)
    outer = is_tuple([part, is_const()]) | is_tuple([part, b]) | is_tuple([part, a])
    sum_ = call("relax.add", x, y)
    found = match(is_tuple([outer, a]), relax.Tuple([relax.Tuple([sum_, x]), y]))
    assert found[a] is y and found[b] is x and found[part] is sum_
    assert match(is_tuple([outer, a]), relax.Tuple([relax.Tuple([sum_, z]), y])) is None


def test_a_remembered_part_is_asked_again_for_another_value():
    x, y = (relax.Var(n, R.Tensor((4,), "float32")) for n in "xy")
    one = wildcard()
    search = matcher_of(is_tuple([one, is_op("relax.exp")(one)]), {})
    exp = call("relax.exp", x)
    assert [search(relax.Tuple([v, exp])) is not None for v in (x, y, x)] == [True, False, True]


def test_what_is_extracted():
    inner = is_op("relax.matmul")(wildcard(), wildcard())
    pattern = is_call_tir("tir_relu", [inner])
    found = pattern.extract_matched_expr(BOUND["lv1"], VALUES)
    assert found[pattern] is BOUND["lv1"]
    assert found[inner] is BOUND["lv0"]
    assert found[inner.args[0]] is X and found[inner.args[1]] is W
    assert pattern.extract_matched_expr(BOUND["lv2"], VALUES) is None
    either = pattern | wildcard()
    assert match(either, BOUND["lv1"], VALUES)[either] is BOUND["lv1"]


def test_fused_bias_activation():
    x, w = (relax.Var(n, R.Tensor((4, 4), "float32")) for n in "xw")
    b = relax.Var("b", R.Tensor((4,), "float32"))
    matmul = call("relax.matmul", x, w)
    biased = call("relax.add", matmul, b)
    relu = call("relax.nn.relu", biased)
    make = make_fused_bias_activation_pattern
    assert make("relax.matmul").match(matmul)
    assert make("relax.matmul", with_bias=True).match(biased)
    assert make("relax.matmul", with_bias=True, activation="relax.nn.relu").match(relu)
    assert not make("relax.matmul", activation="relax.nn.relu").match(relu)


def test_patterns_print():
    x = wildcard()
    conv = is_op("relax.nn.conv2d")(x, is_const())
    assert str(conv) == "relax.nn.conv2d(*, const)"
    assert str(conv.has_attr({"groups": 1})) == "relax.nn.conv2d(*, const).has_attr(groups=1)"
    assert str(~conv | is_var("v")) == "(~relax.nn.conv2d(*, const) | var(v))"
    assert str(is_op("relax.add")(x, x)) == "p0 = *\nrelax.add(p0, p0)"
    text = str(is_call_tir("f", [x.has_dtype("int8"), x.has_shape([2, None])]))
    assert text == (
        "p0 = *\nrelax.call_tir(gv(f), tuple(p0.has_dtype(int8), p0.has_shape([2, ?])))"
    )
    assert str(is_call_packed("f")) == "extern(f)(...)"
    assert str(is_tuple([x, is_dfv()], True)[0]) == "unordered(*, dfv)[0]"
    assert str(is_shape([1, None])) == "shape[1, ?]"
    assert str(FunctionPattern(None, x)) == "function(...) -> *"
    assert str(x & x.has_target("cuda")) == "p0 = *\n(p0 & p0.has_target(cuda))"
    with PatternContext():
        assert str(is_var("a") ^ is_var("b") >> is_dfv()) == "var(a) ^ var(b) >> dfv"


def test_classes_have_the_fields_of_tvm():
    assert isinstance(is_var("x"), VarPattern) and is_var("x").name_hint == "x"
    assert isinstance(is_dfv("x"), DataflowVarPattern)
    pattern = is_op("relax.add")(wildcard(), wildcard())
    assert isinstance(pattern.op, ExprPattern) and pattern.op.expr is Op.get("relax.add")
    assert len(pattern.args) == 2
    left, right = wildcard(), wildcard()
    assert (left | right).left is left and (left & right).right is right
    assert (~left).reject is left
    item = is_tuple_get_item(left, 3)
    assert item.tuple is left and item.index == 3
    assert left.has_dtype("int8").dtype == "int8" and left.has_shape([1]).pattern is left


def _chain(length: int) -> relax.Function:
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((4,), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = x
            for _ in range(length // 2):
                y = bb.emit(R.nn.relu(y))
                y = bb.emit(R.add(y, x))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    return bb.get()["main"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("bottom", [is_const, wildcard])
@pytest.mark.parametrize("share", [False, True])
def test_alternatives_in_alternatives_take_linear_time(bottom, share):
    """On 2,000 operators, with a choice at each that is seen to be wrong only behind the rest;
    `share`: one pattern stands in all of them, so that none can be decided alone."""
    work = []
    for length in (500, 2000):
        relu, gelu, add = (is_op(f"relax.{n}") for n in ("nn.relu", "nn.gelu", "add"))
        pattern, x = bottom(), is_var("x")
        for _ in range(length // 2):
            unary = gelu(pattern) | relu(pattern)
            pattern = add(unary, is_const()) | add(unary, x if share else is_var("x"))
        func = _chain(length)
        match = partial(pattern.match, func.body.body, get_var2val(func))
        assert match() is (bottom is wildcard)
        work.append(calls(match))
    assert work[1] < 5 * work[0]


def test_a_matcher_learns():
    """A scan over a long graph takes up what earlier places have shown."""
    func = _chain(400)
    pattern, x = wildcard(), is_var("x")
    for _ in range(30):
        pattern = is_op("relax.add")(is_op("relax.nn.relu")(pattern), x)
    values = get_var2val(func)
    search = matcher_of(pattern, values)
    found = [search(v) is not None for v in list(values.values())[:-1]]
    assert found == [i % 2 == 1 and i >= 59 for i in range(len(found))]


def test_unordered_tuples_are_not_tried_in_all_orders():
    """12 fields have 479 001 600 orders."""
    xs = [relax.Var(f"x{n}", relax.TensorStructInfo([2], "float32")) for n in range(12)]
    parts = [wildcard() for _ in xs[1:]]
    last = is_const()
    pattern = UnorderedTuplePattern([*parts, last])
    assert match(pattern, relax.Tuple(xs)) is None
    found = match(pattern, relax.Tuple([relax.const(1.0), *xs[1:]]))
    assert found is not None
    assert [found[p] for p in parts] == xs[1:]
    assert isinstance(found[last], relax.Constant)
    twice = UnorderedTuplePattern([last, *[parts[0]] * 2])
    assert match(twice, relax.Tuple([xs[1], relax.const(1.0), xs[2]])) is None
    assert match(twice, relax.Tuple([xs[1], relax.const(1.0), xs[1]])) is not None


def test_a_field_may_be_counted_from_the_end():
    pair = relax.Tuple([relax.const(1), relax.const(2.0)])
    pattern = relax.dpl.is_tuple([relax.dpl.is_const(), relax.dpl.is_const()])
    assert pattern[-1].match(relax.TupleGetItem(pair, 1))
    assert not pattern[-1].match(relax.TupleGetItem(pair, 0))


def test_only_a_chain_needs_a_context():
    assert PatternSeq([wildcard()]).links == ()
    with pytest.raises((ValueError, RuntimeError), match="PatternContext"):
        PatternSeq([wildcard(), wildcard()])


def test_a_sequence_without_bindings_is_its_result():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    relu = call("relax.nn.relu", x)
    pattern = is_op("relax.nn.relu")(is_var("x"))
    assert pattern.match(relax.SeqExpr([], relax.SeqExpr([], relu)))
    block = relax.BindingBlock([relax.VarBinding(relax.Var("y", x.struct_info), relu)])
    assert not pattern.match(relax.SeqExpr([block], relu))


def test_attributes_that_are_expressions():
    n = tir.Var("n", "int64")
    value = relax.Call(Op.get("relax.nn.relu"), [], Attrs("test", {"size": n + 1, "other": [n, 2]}))
    relu = CallPattern(is_op("relax.nn.relu"), None)
    for attrs, fits in (
        ({"size": n + 1}, True),
        ({"size": n + 2}, False),
        ({"size": 3}, False),
        ({"other": (n, 2)}, True),
        ({"other": [n]}, False),
        ({"other": [n, 3]}, False),
        ({"size": n + 1, "other": [n, 3]}, False),
        ({}, True),
    ):
        assert relu.has_attr(attrs).match(value) is fits
    assert not relu.has_attr({}).match(relax.Call(Op.get("relax.nn.relu"), []))


def test_what_has_no_struct_info():
    assert not wildcard().has_struct_info(R.Object()).match(relax.Var("u"))
    assert not has_dtype("float32").match(relax.Var("u"))
    assert not wildcard().has_shape([]).match(relax.Var("u"))


def test_sequences_stand_for_their_pattern():
    inner = is_var("x")
    assert is_op("relax.nn.relu")(PatternSeq([inner])).args == (inner,)
    with PatternContext():
        first, second, third = (is_op("relax.exp")(wildcard()) for _ in range(3))
        chain = first ^ second
        with pytest.raises(TypeError, match="a pattern is made of patterns\n  got: PatternSeq"):
            is_op("relax.nn.relu")(chain)
        whole = (chain ^ third) if isinstance(chain, PatternSeq) else None
        assert len(whole) == 3 and whole[-1] is third and len(chain) == 2
        assert whole.links == ((False, -1), (False, -1))
        assert (PatternSeq([first]) >> second).links == ((True, -1),)
        assert first.used_by(second, 1).links == ((False, 1),)
        assert first.only_used_by(second, 0).links == ((True, 0),)


def test_dimensions_are_a_list():
    with pytest.raises(ValueError, match="is_shape takes a list of dimensions\n  got: 3"):
        is_shape(3)
    pattern = is_shape((2, None))
    assert len(pattern) == 2 and pattern[0] == 2 and pattern[1] is None
    found = [pattern.match(relax.ShapeExpr(dims)) for dims in ((2, 3), (3, 3), (2,), (2, 3, 4))]
    assert found == [True, False, False, False]


def test_kernels_by_name_and_arguments():
    x, y = (relax.Var(name, R.Tensor((4,), "float32")) for name in "xy")
    n = tir.Var("n", "int64")
    kernel = relax.GlobalVar("kernel")
    kernel.struct_info = relax.FuncStructInfo.opaque_func()
    one = R.call_tir(kernel, (x,), out_sinfo=R.Tensor((4,), "float32"))
    with_n = R.call_tir(kernel, (x,), out_sinfo=R.Tensor((4,), "float32"), tir_vars=[n])
    cases = [
        (is_call_tir("kernel"), True, True),
        (is_call_tir("other"), False, False),
        (is_call_tir("kernel", [is_var("x")]), True, False),
        (is_call_tir("kernel", [is_var("y")]), False, False),
        (is_call_tir("kernel", [wildcard()], [n]), False, True),
        (is_call_tir("kernel", [wildcard()], wildcard()), False, True),
        (is_call_tir("kernel", wildcard(), (None,)), False, True),
        (is_call_tir("kernel", None, [None, None]), False, False),
    ]
    for pattern, first, second in cases:
        assert [pattern.match(one), pattern.match(with_n)] == [first, second], pattern
    packed = R.call_dps_packed("f", (x, y), out_sinfo=R.Tensor((4,), "float32"))
    assert is_call_dps_packed("f").match(packed) and not is_call_dps_packed("g").match(packed)
    assert is_call_dps_packed("f", [is_var("x"), is_var("y")]).match(packed)
    assert not is_call_dps_packed("f", [wildcard()]).match(packed)
    direct = relax.Call(relax.ExternFunc("f"), [x])
    assert is_call_packed("f").match(direct) and is_call_packed("f", [wildcard()]).match(direct)
    assert not is_call_packed("f", [wildcard(), wildcard()]).match(direct)
