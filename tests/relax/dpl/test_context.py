"""Patterns that form a graph, found in dataflow blocks."""

from __future__ import annotations

import pytest

from loopwright import relax, topi
from loopwright.relax.dpl import (
    PatternContext,
    PatternSeq,
    is_call_dps_packed,
    is_call_tir,
    is_const,
    is_op,
    is_same_shape,
    is_tuple_get_item,
    is_var,
    wildcard,
)
from loopwright.relax.dpl.context import GraphSearch
from loopwright.script import relax as R


def block_of(func: relax.Function) -> relax.DataflowBlock:
    return func.body.blocks[0]


def var_of(func: relax.Function, name: str) -> relax.Var:
    return next(b.var for b in block_of(func).bindings if b.var.name_hint == name)


def dps(name: str, *args, shape=(32, 32)):
    return R.call_dps_packed(name, args, out_sinfo=R.Tensor(shape, "float32"))


def two_kernels() -> relax.Function:
    """Calls of two kernels, one on what the other computes."""
    bb = relax.BlockBuilder()
    x, w = (relax.Var(name, R.Tensor((32, 32), "float32")) for name in "xw")
    with bb.function("main", [x, w]):
        with bb.dataflow():
            product = bb.call_te(topi.matmul, x, w, primfunc_name_hint="tir_matmul")
            lv0 = bb.emit(product, "lv0")
            relu = bb.call_te(topi.nn.relu, lv0, primfunc_name_hint="tir_relu")
            lv1 = bb.emit_output(relu, "lv1")
        bb.emit_func_output(lv1)
    return bb.get()["main"]


MAIN = two_kernels()


def test_simple_used_by():
    with PatternContext() as ctx:
        n0 = is_var("x")
        n1 = wildcard()
        n0.used_by(n1)
        matched = ctx.match_dfb(block_of(MAIN))
    assert matched[n0] is MAIN.params[0] and matched[n1] is var_of(MAIN, "lv0")


def test_call_tir_edge():
    with PatternContext() as ctx:
        n0, n1 = is_call_tir("tir_matmul"), is_call_tir("tir_relu")
        n0.used_by(n1)
        matched = ctx.match_dfb(block_of(MAIN))
    assert matched[n0] is var_of(MAIN, "lv0") and matched[n1] is var_of(MAIN, "lv1")


def test_only_used_by_and_index():
    for index, found in ((0, True), (1, False)):
        with PatternContext() as ctx:
            n0, n1 = is_call_tir("tir_matmul"), is_call_tir("tir_relu")
            n0.only_used_by(n1, index)
        assert (ctx.match_dfb(block_of(MAIN)) is not None) is found
    for index, found in ((0, False), (1, True), (-1, True)):
        with PatternContext() as ctx:
            is_var("w").used_by(is_call_tir("tir_matmul"), index)
        assert (ctx.match_dfb(block_of(MAIN)) is not None) is found


def test_what_is_not_there():
    for join in (PatternSeq.used_by, PatternSeq.only_used_by):
        with PatternContext() as ctx:
            join(PatternSeq([is_call_tir("tir_matmul")]), is_call_dps_packed("impossible"))
        assert ctx.match_dfb(block_of(MAIN)) is None


def test_an_output_is_used_outside():
    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Object:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.exp(a)
            R.output(a, b)
        return (a, b)

    with PatternContext() as ctx:
        a = is_op("relax.nn.relu")(wildcard())
        b = is_op("relax.exp")(a)
        a ^ b
        assert ctx.match_dfb(block_of(func))
        a >> b
        assert ctx.match_dfb(block_of(func)) is None


@R.function
def DIAMOND(x: R.Tensor((32, 32), "float32"), w: R.Tensor((32, 32), "float32")) -> R.Tensor:
    with R.dataflow():
        lv0 = R.call_dps_packed("matmul", (x, w), out_sinfo=R.Tensor((32, 32), "float32"))
        lv1 = R.call_dps_packed("relu", (lv0,), out_sinfo=R.Tensor((32, 32), "float32"))
        lv2 = R.call_dps_packed("sigmoid", (lv0,), out_sinfo=R.Tensor((32, 32), "float32"))
        lv3 = R.call_dps_packed("add", (lv1, lv2), out_sinfo=R.Tensor((32, 32), "float32"))
        R.output(lv3)
    return lv3


def test_diamond():
    with PatternContext() as ctx:
        n0, n1 = is_call_dps_packed("matmul"), is_call_dps_packed("relu")
        n2, n3 = is_call_dps_packed("sigmoid"), is_call_dps_packed("add")
        n0.fork_to(n1, n2)
        n1 >> n3
        n2 >> n3
        matched = ctx.match_dfb(block_of(DIAMOND))
    names = [matched[n].name_hint for n in (n0, n1, n2, n3)]
    assert names == ["lv0", "lv1", "lv2", "lv3"]


def test_diamond_with_a_use_outside_is_refused():
    with PatternContext() as ctx:
        n0, n1 = is_call_dps_packed("matmul"), is_call_dps_packed("relu")
        n2, n3 = is_call_dps_packed("sigmoid"), is_call_dps_packed("add")
        n0 >> n1  # sigmoid uses it too
        n1 >> n3
        n2 >> n3
    assert ctx.match_dfb(block_of(DIAMOND)) is None
    with ctx:
        n0 >> n2  # used by relu only, and by sigmoid only
    assert ctx.match_dfb(block_of(DIAMOND)) is None


def test_diamond_by_calls():
    """Calls made in a context bring their arguments."""
    with PatternContext() as ctx:
        matmul = is_call_dps_packed("matmul")
        relu = is_call_dps_packed("relu", [matmul])
        add = is_call_dps_packed("add", [relu, is_call_dps_packed("sigmoid", [matmul])])
        matmul ^ relu
        relu >> add
        matched = ctx.match_dfb(block_of(DIAMOND))
    assert [matched[n].name_hint for n in (matmul, relu, add)] == ["lv0", "lv1", "lv3"]


@R.function
def CBR2(x: R.Tensor((32, 32), "float32"), w: R.Tensor, b: R.Tensor) -> R.Tensor:
    with R.dataflow():
        lv0 = R.call_dps_packed("conv1x1", (x, w), out_sinfo=R.Tensor((32, 32), "float32"))
        lv1 = R.call_dps_packed("bias_add", (lv0, b), out_sinfo=R.Tensor((32, 32), "float32"))
        lv2 = R.call_dps_packed("my_relu", (lv1,), out_sinfo=R.Tensor((32, 32), "float32"))
        lv3 = R.call_dps_packed("conv1x1", (x, w), out_sinfo=R.Tensor((32, 32), "float32"))
        lv4 = R.call_dps_packed("bias_add", (lv3, b), out_sinfo=R.Tensor((32, 32), "float32"))
        lv5 = R.call_dps_packed("my_relu", (lv4,), out_sinfo=R.Tensor((32, 32), "float32"))
        lv6 = R.call_dps_packed("concat", (lv2, lv5), out_sinfo=R.Tensor((32, 64), "float32"))
        R.output(lv6)
    return lv6


def cbr() -> PatternSeq:
    names = ("conv1x1", "bias_add", "my_relu")
    conv, bias, relu = map(is_call_dps_packed, names)
    return conv >> bias >> relu


def test_sequences_and_dup():
    with PatternContext() as ctx:
        first = cbr()
        second = first.dup()
        assert all(a is not b for a, b in zip(first.patterns, second.patterns, strict=True))
        is_var("x").fork_to(first, second)
        concat = is_call_dps_packed("concat")
        first >> concat
        second >> concat
        matched = ctx.match_dfb(block_of(CBR2))
    assert [matched[p].name_hint for p in first.patterns] == ["lv0", "lv1", "lv2"]
    assert [matched[p].name_hint for p in second.patterns] == ["lv3", "lv4", "lv5"]
    assert matched[concat].name_hint == "lv6" and len(first) == 3 and first[0] is first.patterns[0]


def test_two_sequences_that_do_not_follow_each_other():
    with PatternContext() as ctx:
        first = cbr()
        first >> first.dup()
    assert ctx.match_dfb(block_of(CBR2)) is None


def test_pattern_seq_constructor():
    with PatternContext() as ctx:
        seq = PatternSeq(list(map(is_call_dps_packed, ("conv1x1", "bias_add"))), only_use=True)
    assert str(seq).count(" >> ") == 1
    assert ctx.match_dfb(block_of(CBR2))[seq[1]].name_hint == "lv1"


def test_three_of_two():
    with PatternContext() as ctx:
        for _ in range(3):
            is_call_dps_packed("conv1x1") >> is_call_dps_packed("bias_add")
    assert ctx.match_dfb(block_of(CBR2)) is None


@R.function
def SPLIT(
    a: R.Tensor((32, 32), "float32"), b: R.Tensor((16, 32), "float32"), c: R.Tensor
) -> R.Tensor:
    with R.dataflow():
        lv0 = R.concat((a, b), axis=0)
        lv1 = R.matmul(lv0, c)
        lv2 = R.split(lv1, [16, 32], axis=0)
        lv3 = lv2[0]
        lv4 = lv2[1]
        lv5 = R.add(lv3, lv4)
        R.output(lv5)
    return lv5


def test_tuple_outputs():
    with PatternContext() as ctx:
        concat = is_op("relax.concat")(wildcard())
        matmul = is_op("relax.matmul")(concat, wildcard())
        split = is_op("relax.split")(matmul)
        left, right = is_tuple_get_item(split, 0), is_tuple_get_item(split, 1)
        add = is_op("relax.add")(left, right)
        concat >> matmul
        matmul >> split
        split.fork_to(left, right)
        left >> add
        right >> add
        matched = ctx.match_dfb(block_of(SPLIT))
    names = [matched[n].name_hint for n in (concat, matmul, split, left, right, add)]
    assert names == ["lv0", "lv1", "lv2", "lv3", "lv4", "lv5"]


def test_a_constant_has_no_variable():
    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.multiply(x, R.const(2.0, "float32"))
            R.output(a)
        return a

    with PatternContext() as ctx:
        two = is_const()
        is_op("relax.multiply")(wildcard(), two)
        matched = ctx.match_dfb(block_of(func))
    assert float(matched[two].data.numpy()) == 2.0


def test_same_shape():
    @R.function
    def func(
        x: R.Tensor((4, 4), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor((4, 4), "float32")
    ) -> R.Object:
        with R.dataflow():
            a = R.add(x, y)
            b = R.add(x, z)
            R.output(a, b)
        return (a, b)

    with PatternContext() as ctx:
        lhs, rhs = wildcard(), wildcard()
        add = is_op("relax.add")(lhs, rhs)
        assert ctx.match_dfb(block_of(func))[add].name_hint == "a"
        lhs.same_shape_as(rhs)
        assert ctx.match_dfb(block_of(func))[add].name_hint == "b"
        is_same_shape(lhs, is_var("y"))
        assert ctx.match_dfb(block_of(func)) is None


def test_incremental():
    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.negative(a)
            c = R.exp(b)
            R.output(c)
        return c

    relu, neg, exp = (is_op(f"relax.{n}")(wildcard()) for n in ("nn.relu", "negative", "exp"))
    with PatternContext() as outer:
        relu >> neg
        with PatternContext(incremental=True) as inner:
            neg >> exp
            assert PatternContext.current() is inner
            matched = inner.match_dfb(block_of(func))
            assert matched[relu].name_hint == "a" and matched[exp].name_hint == "c"
            with PatternContext(incremental=True) as innermost:
                exp >> relu
                assert innermost.match_dfb(block_of(func)) is None
        assert PatternContext.current() is outer
        assert exp not in outer.match_dfb(block_of(func))


def test_different_patterns_match_different_variables():
    @R.function
    def func(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.add(x, w)
            R.output(a)
        return a

    with PatternContext() as ctx:
        x = wildcard()
        is_op("relax.add")(x, wildcard())
        is_op("relax.add")(x, wildcard())
    assert ctx.match_dfb(block_of(func)) is None


def test_errors():
    with pytest.raises(ValueError, match=r"no PatternContext is open\n  instead: write it inside"):
        PatternContext.current()
    with pytest.raises(ValueError, match="used_by relates patterns of a PatternContext, and none"):
        wildcard() ^ wildcard()
    with pytest.raises(ValueError, match="SameShapeConstraint relates patterns"):
        wildcard().same_shape_as(wildcard())
    with PatternContext():
        first = is_op("relax.exp")(wildcard())
    with PatternContext(), pytest.raises(ValueError) as error:
        first >> wildcard()
    assert str(error.value) == (
        "a pattern of one PatternContext cannot be used in another\n"
        "  got: relax.exp(*)\n"
        "  instead: use pattern.dup() here, or PatternContext(incremental=True) inside the first"
    )
    with pytest.raises(TypeError, match="match_dfb looks in a dataflow block\n  got: Function"):
        PatternContext().match_dfb(MAIN)
    with pytest.raises(ValueError, match="at least one pattern"):
        PatternSeq([])
    with pytest.raises(TypeError, match="a pattern is made of patterns\n  got: str: 'relax.add'"):
        wildcard() | "relax.add"
    with pytest.raises(AttributeError, match="no operator of this name"):
        is_op("relax.no_such")


def test_conditions_on_what_is_no_tensor():
    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Object:
        with R.dataflow():
            a = R.split(x, 2)
            b = R.exp(a[0])
            R.output(a, b)
        return (a, b)

    with PatternContext() as ctx:
        split, exp = is_op("relax.split")(wildcard()), is_op("relax.exp")(wildcard())
        assert ctx.match_dfb(block_of(func))[split].name_hint == "a"
        is_same_shape(exp, exp)
        assert ctx.match_dfb(block_of(func)) is not None
        is_same_shape(exp, split)
        assert ctx.match_dfb(block_of(func)) is None


def test_operands_of_values_of_all_kinds():
    """A callee, the fields of a tuple, what a branch and a local function use."""
    info = R.Tensor((4,), "float32")
    x, y, c = relax.Var("x", info), relax.Var("y", info), relax.Var("c", R.Tensor((), "bool"))
    f = relax.Var("f", relax.FuncStructInfo([info], info))
    values = {
        "called": (relax.Call(f, [x]), ["f", "x"]),
        "packed": (R.call_dps_packed("k", (x, y), out_sinfo=info), ["x", "y"]),
        "nested": (relax.Tuple([x, relax.Tuple([y, x])]), ["x", "y", "x"]),
        "field": (relax.TupleGetItem(relax.Tuple([x, y]), 1), ["x", "y"]),
        "alias": (y, ["y"]),
        "branch": (relax.If(c, relax.SeqExpr([], x), relax.SeqExpr([], y)), ["c", "x", "y"]),
    }
    with PatternContext() as ctx:
        pass
    for value, expected in values.values():
        v = relax.Var("v", info)
        search = GraphSearch(ctx, {v: value})
        found = [
            n for o in search.operands[v] for n in ([o] if isinstance(o, relax.Var) else o.fields)
        ]
        assert [o.name_hint for o in found] == expected
        assert set(search.users) == set(found) and search.vars[-1] is v


def test_patterns_without_a_place():
    """More patterns than variables; an empty block."""
    info = R.Tensor((4,), "float32")
    x = relax.Var("x", info)
    for count, fits in ((1, True), (2, True), (3, False)):
        with PatternContext() as ctx:
            patterns = [is_var() for _ in range(count)]
            ctx.nodes.update(dict.fromkeys(patterns))
        values = {relax.Var("y", info): relax.TupleGetItem(relax.Var("t", R.Object()), 0)}
        if count == 2:
            values = {relax.Var("y", info): R.add(x, relax.Var("z", info))}
        assert (next(GraphSearch(ctx, values).matches(), None) is not None) is fits
    with PatternContext() as ctx:
        ctx.nodes[wildcard()] = None
    assert next(GraphSearch(ctx, {}).matches(), None) is None
