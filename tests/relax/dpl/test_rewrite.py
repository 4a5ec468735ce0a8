"""Rewriting: single values, several together, from scripts; TVM's well-known cases."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.transform import Sequential
from loopwright.relax.analysis import well_formed
from loopwright.relax.dpl import (
    OrRewriter,
    PatternContext,
    PatternMatchingRewriter,
    TupleRewriter,
    is_const,
    is_op,
    is_tuple,
    is_tuple_get_item,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from loopwright.relax.dpl.rules import DEEPEST
from loopwright.relax.interpreter import Interpreter
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.tvm.relax.well_known import make_conv2d_pattern, make_residual_block_pattern


def ops(func: relax.Function) -> list[str]:
    """The operators of a function in order."""
    assert well_formed(func)
    values = [b.value for block in func.body.blocks for b in block.bindings]
    return [v.op.name.removeprefix("relax.") for v in values if isinstance(v, relax.Call)]


@R.function(private=True)
def TWICE(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
    with R.dataflow():
        x2 = R.add(x, x)
        x4 = R.add(x2, x2)
        R.output(x4)
    return x4


def test_rewrite_simple():
    x = wildcard()
    pattern = is_op("relax.add")(x, x)

    def rewriter(_, matchings):
        return R.multiply(matchings[x], R.const(2, "float32"))

    @R.function(private=True)
    def expected1(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
        with R.dataflow():
            lv = R.multiply(x, R.const(2, "float32"))
            x4 = R.multiply(lv, R.const(2, "float32"))
            R.output(x4)
        return x4

    assert_structural_equal(rewrite_call(pattern, rewriter, TWICE), expected1)

    add1 = is_op("relax.add")(x, x)
    pattern = is_op("relax.add")(add1, add1)

    def rewriter4(_, matchings):
        return R.multiply(matchings[x], R.const(4, "float32"))

    @R.function(private=True)
    def expected2(x: R.Tensor((16, 16), "float32")) -> R.Tensor((16, 16), "float32"):
        with R.dataflow():
            x4 = R.multiply(x, R.const(4, "float32"))
            R.output(x4)
        return x4

    assert_structural_equal(rewrite_call(pattern, rewriter4, TWICE), expected2)
    assert rewrite_call(pattern, lambda orig, _: orig, TWICE) is TWICE
    assert rewrite_call(pattern, lambda orig, _: None, TWICE) is TWICE


def test_matched_values_become_their_variables():
    """A callback gets values; what it builds on them is not computed again."""
    inner = wildcard()
    pattern = is_op("relax.nn.relu")(inner)

    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            c = R.add(a, b)
            R.output(c)
        return c

    made = rewrite_call(pattern, lambda _, m: R.nn.gelu(m[inner]), func)
    assert ops(made) == ["exp", "nn.gelu", "add"]
    made = rewrite_call(pattern, lambda _, m: m[inner], func)
    assert ops(made) == ["exp", "add"]


@R.function
def ATTENTION(
    q: R.Tensor((1, 2, 8, 4), "float32"),
    k: R.Tensor((1, 2, 8, 4), "float32"),
    v: R.Tensor((1, 2, 8, 4), "float32"),
    bias: R.Tensor((1, 2, 8, 8), "float32"),
) -> R.Tensor((1, 2, 8, 4), "float32"):
    with R.dataflow():
        kt = R.permute_dims(k, [0, 1, 3, 2])
        scores = R.matmul(q, kt)
        scaled = R.multiply(scores, R.const(0.5, "float32"))
        biased = R.add(scaled, bias)
        probs = R.nn.softmax(biased, axis=-1)
        out = R.matmul(probs, v)
        R.output(out)
    return out


@pytest.mark.parametrize("with_bias", [False, True])
def test_attention(with_bias):
    q, k, v, scale, bias = (wildcard() for _ in range(5))
    kt = is_op("relax.permute_dims")(k).has_attr({"axes": [0, 1, 3, 2]})
    scaled = is_op("relax.multiply")(is_op("relax.matmul")(q, kt), scale)
    scores = is_op("relax.add")(scaled, bias) if with_bias else scaled
    softmax = is_op("relax.nn.softmax")(scores)
    pattern = is_op("relax.matmul")(softmax, v)

    def rewriter(_, m):
        to_bsnh = [R.permute_dims(m[p], [0, 2, 1, 3]) for p in (q, k, v)]
        assert isinstance(m[scale], relax.Constant) and m[softmax].attrs.axis == -1
        more = [m[bias]] if with_bias else []
        info = R.Tensor((1, 8, 2, 4), "float32")
        made = R.call_dps_packed("attention", [*to_bsnh, *more], out_sinfo=info)
        return R.permute_dims(made, [0, 2, 1, 3])

    made = rewrite_call(pattern, rewriter, ATTENTION)
    if not with_bias:
        assert made is ATTENTION
        return
    assert ops(made) == ["permute_dims"] * 3 + ["call_dps_packed", "permute_dims"]
    assert_structural_equal(made.ret_struct_info, ATTENTION.ret_struct_info)


def qkv(chain: bool = False) -> relax.Function:
    bb = relax.BlockBuilder()
    x = relax.Var("x", R.Tensor((2, 3, 4), "float32"))
    ws = [relax.Var(f"w{i}", R.Tensor((4, 4), "float32")) for i in range(6 if chain else 3)]
    with bb.function("main", [x, *ws]):
        with bb.dataflow():
            out = bb.emit(relax.Tuple([bb.emit(R.matmul(x, w)) for w in ws[:3]]))
            if chain:
                total = bb.emit(R.add(bb.emit(R.add(out[0], out[1])), out[2]))
                out = bb.emit(relax.Tuple([bb.emit(R.matmul(total, w)) for w in ws[3:]]))
            out = bb.emit_output(out)
        bb.emit_func_output(out)
    return bb.get()["main"]


def qkv_rewriter():
    with PatternContext() as ctx:
        inp = wildcard()
        weights = [wildcard() for _ in range(3)]
        matmuls = [is_op("relax.matmul")(inp, w) for w in weights]

    def rewriter(matchings, bindings):
        assert all(matchings[m] in bindings for m in matmuls)
        w = [matchings[p] for p in weights]
        width = w[0].struct_info.shape[1]
        product = R.matmul(matchings[inp], R.concat(w, axis=1))
        return {
            matchings[m]: R.strided_slice(
                product, axes=[2], begin=[i * width], end=[(i + 1) * width]
            )
            for i, m in enumerate(matmuls)
        }

    return ctx, rewriter


@pytest.mark.parametrize("chain", [False, True])
def test_parallel_matmuls_become_one(chain):
    func = qkv(chain)
    made = rewrite_bindings(*qkv_rewriter(), func)
    one = ["concat", "matmul", *["strided_slice"] * 3]
    assert ops(made) == ([*one, "add", "add", *one] if chain else one)
    rng = np.random.default_rng(0)
    args = [rng.random([int(d) for d in p.struct_info.shape], "float32") for p in func.params]
    before, after = (Interpreter(relax_module(f)).run("main", *args) for f in (func, made))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5)


def relax_module(func: relax.Function):
    return IRModule({relax.GlobalVar("main"): func})


def test_emit_order():
    """A weight computed behind the first matmul moves before it."""

    @R.function
    def func(
        x: R.Tensor((2, 4), "float32"), w: R.Tensor((4, 4), "float32"), u: R.Tensor
    ) -> R.Object:
        with R.dataflow():
            a = R.matmul(x, w)
            late = R.nn.relu(w)
            b = R.matmul(x, late)
            out = (a, b)
            R.output(out)
        return out

    with PatternContext() as ctx:
        inp, w1, w2 = wildcard(), wildcard(), wildcard()
        m1, m2 = is_op("relax.matmul")(inp, w1), is_op("relax.matmul")(inp, w2)

    def rewriter(m, _):
        both = R.matmul(m[inp], R.concat([m[w1], m[w2]], axis=1))
        halves = R.split(both, 2, axis=1)
        return {m[m1]: halves[0], m[m2]: halves[1]}

    made = rewrite_bindings(ctx, rewriter, func)
    assert ops(made) == ["nn.relu", "concat", "matmul", "split"]


def test_conv_bias_relu():
    @R.function
    def func(
        x: R.Tensor((1, 3, 8, 8), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        b: R.Tensor((1, 4, 1, 1), "float32"),
    ) -> R.Object:
        with R.dataflow():
            conv = R.nn.conv2d(x, w, padding=(1, 1))
            bias = R.add(conv, b)
            relu = R.nn.relu(bias)
            other = R.nn.conv2d(x, w)
            R.output(relu, other)
        return (relu, other)

    pattern, parts = make_conv2d_pattern(with_bias=True, activation="relax.nn.relu")
    seen = []

    def rewriter(value, m):
        seen.append(m[parts["root"]].attrs.padding)
        args = [m[parts[n]] for n in ("input", "weight", "bias")]
        return R.call_dps_packed("conv_bias_relu", args, out_sinfo=value.struct_info)

    made = rewrite_call(pattern, rewriter, func)
    assert ops(made) == ["call_dps_packed", "nn.conv2d"] and len(seen) == 1


def test_residual_on_either_side():
    conv, parts = make_conv2d_pattern()
    pattern, parts = make_residual_block_pattern((conv, parts), activation="relax.nn.relu")
    assert set(parts) == {"input", "weight", "root", "residual"}
    for swap in (False, True):
        bb = relax.BlockBuilder()
        x = relax.Var("x", R.Tensor((1, 4, 8, 8), "float32"))
        w = relax.Var("w", R.Tensor((4, 4, 1, 1), "float32"))
        with bb.function("main", [x, w]):
            with bb.dataflow():
                y = bb.emit(R.nn.conv2d(x, w))
                y = bb.emit(R.add(x, y) if swap else R.add(y, x))
                out = bb.emit_output(R.nn.relu(y))
            bb.emit_func_output(out)
        made = rewrite_call(pattern, lambda _, m: R.exp(m[parts["residual"]]), bb.get()["main"])
        assert ops(made) == ["exp"]


def test_replacements_are_looked_at_again():
    """A chain collapses, whichever end a rule begins at."""

    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(a)
            c = R.nn.relu(b)
            d = R.nn.relu(c)
            R.output(d)
        return d

    x = wildcard()
    relu = is_op("relax.nn.relu")
    made = rewrite_call(relu(relu(x)), lambda _, m: R.nn.relu(m[x]), func)
    assert ops(made) == ["nn.relu"]


def test_nested_replacements_are_looked_at_again():
    x = wildcard()
    first = PatternMatchingRewriter.from_pattern(
        is_op("relax.nn.gelu")(x), lambda _, m: R.exp(R.nn.silu(m[x]))
    )
    second = PatternMatchingRewriter.from_pattern(
        is_op("relax.nn.silu")(x), lambda _, m: R.negative(m[x])
    )

    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor:
        y = R.nn.gelu(x)
        return y

    assert ops((first | second)(func)) == ["negative", "exp"]
    assert ops((second | first)(func)) == ["negative", "exp"]


def test_branches_and_blocks_without_dataflow():
    @R.function
    def func(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = R.nn.relu(x)
        if c:
            b = R.nn.relu(a)
            y = R.exp(b)
        else:
            b = R.nn.relu(x)
            y = R.nn.relu(b)
        return y

    x = wildcard()
    relu = is_op("relax.nn.relu")
    made = rewrite_call(relu(relu(x)), lambda _, m: R.nn.relu(m[x]), func)
    assert well_formed(made)
    assert str(made).count("R.nn.relu") == 1  # what the branches computed is `a`


def test_a_dataflow_variable_does_not_leave_its_block():
    @R.function
    def func(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            R.output(b)
        c = R.nn.relu(b)
        return c

    x = wildcard()
    relu = is_op("relax.nn.relu")
    assert rewrite_call(relu(relu(x)), lambda _, m: R.nn.relu(m[x]), func) is func


def test_struct_info_is_derived_again():
    @R.function
    def func(x: R.Tensor((4, 2), "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            R.output(b)
        return b

    x = wildcard()
    pattern = is_op("relax.exp")(x)

    def rewriter(_, m):
        return R.permute_dims(m[x])

    made = rewrite_call(pattern, rewriter, func, new_struct_info=True)
    assert str(made.body.body.struct_info) == 'R.Tensor((2, 4), dtype="float32")'
    with pytest.raises(ValueError, match="the replacement of a has another struct info"):
        rewrite_call(pattern, rewriter, func)


def test_as_a_pass():
    mod = relax_module(TWICE)
    x = wildcard()
    rewriter = PatternMatchingRewriter.from_pattern(
        is_op("relax.add")(x, x), lambda _, m: R.multiply(m[x], R.const(2, "float32"))
    )
    made = Sequential([rewriter, relax.transform.FoldConstant()])(mod)
    assert ops(made["main"]) == ["multiply", "multiply"]
    assert rewriter(made) is made
    with pytest.raises(TypeError, match="applied to a function or a module\n  got: int"):
        rewriter(3)


@R.rewriter
class AddToMultiply:
    @R.function
    def pattern(A: R.Tensor([16, 16], "float32")):
        C = R.add(A, A)
        return C

    @R.function
    def replacement(A: R.Tensor([16, 16], "float32")):
        C = R.multiply(A, R.const(2, "float32"))
        return C


def test_rewriter_from_a_script():
    assert isinstance(AddToMultiply, PatternMatchingRewriter)
    assert ops(AddToMultiply(TWICE)) == ["multiply", "multiply"]
    assert ops(AddToMultiply(relax_module(TWICE))["main"]) == ["multiply", "multiply"]


def test_rewriter_of_symbolic_shapes():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(A: R.Tensor(["n", "m"], "float32"), B: R.Tensor(["n", "m"], "float32")):
            return R.add(A, B)

        @R.function
        def replacement(A: R.Tensor(["n", "m"], "float32"), B: R.Tensor(["n", "m"], "float32")):
            n = T.int64()
            m = T.int64()
            out = R.call_pure_packed("my_add", A, B, sinfo_args=R.Tensor([n, m], "float32"))
            return out

    @R.function
    def func(
        a: R.Tensor((4, "k"), "float32"),
        b: R.Tensor((4, "k"), "float32"),
        c: R.Tensor((4, 1), "float32"),
    ) -> R.Tensor:
        with R.dataflow():
            x = R.add(a, b)
            y = R.add(x, c)
            R.output(y)
        return y

    made = Rule(func)
    # The second addition broadcasts: the pattern wants two tensors of one shape.
    assert ops(made) == ["call_pure_packed", "add"]
    assert 'sinfo_args=(R.Tensor((4, k), dtype="float32"),))' in str(made)


def test_rewriter_with_attributes_and_kernels():
    @R.rewriter
    class Rule:
        @T.prim_func(private=True)
        def kernel(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("k"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] * T.float32(2)

        @R.function
        def pattern(A: R.Tensor([4], "float32")):
            return R.nn.softmax(A, axis=0)

        @R.function
        def replacement(A: R.Tensor([4], "float32")):
            return R.call_tir(Rule.kernel, (A,), out_sinfo=R.Tensor([4], "float32"))

    @I.ir_module
    class Before:
        @T.prim_func(private=True)
        def kernel(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.block("k"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = x[vi] * T.float32(3)

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            a = R.nn.softmax(x, axis=-1)
            b = R.nn.softmax(a, axis=0)
            return b

    made = Rule(Before)
    assert ops(made["main"]) == ["nn.softmax", "call_tir"]
    called = made["main"].body.blocks[0].bindings[1].value.args[0]
    assert called.name_hint != "kernel" and len(made.functions) == 3
    other = relax_module(TWICE)
    assert Rule(other) is other
    # What the kernel was called in one module is forgotten in the next.
    alone = Rule(Before["main"])
    assert alone.body.blocks[0].bindings[1].value.args[0].name_hint == "kernel"


def test_rewriter_of_several_values():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
            C = R.add(A, B)
            D = R.multiply(A, B)
            return (C, D)

        @R.function
        def replacement(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
            return R.call_pure_packed(
                "both", A, B, sinfo_args=R.Tuple(R.Tensor([4], "float32"), R.Tensor([4], "float32"))
            )

    @R.function
    def func(x: R.Tensor([4], "float32"), y: R.Tensor([4], "float32")) -> R.Tensor:
        a = R.add(x, y)
        between = R.nn.relu(a)
        b = R.multiply(x, y)
        out = R.subtract(between, b)
        return out

    made = Rule(func)
    assert ops(made)[-2:] == ["nn.relu", "subtract"]
    assert str(made).count('"both"') == 1
    first, second = (is_tuple_get_item(wildcard(), i) for i in range(2))
    pattern = is_op("relax.subtract")(is_op("relax.nn.relu")(first), second)
    assert pattern.match(made.body.body, relax.analysis.get_var2val(made))

    # Where one value needs the other, they cannot be computed together.
    @R.function
    def needs(x: R.Tensor([4], "float32"), y: R.Tensor([4], "float32")) -> R.Tensor:
        a = R.add(x, y)
        b = R.multiply(a, y)
        return b

    assert Rule(needs) is needs


def test_a_tuple_whose_fields_need_each_other_is_left():
    x, y = wildcard(), wildcard()
    patterns = [is_op("relax.add")(x, y), is_op("relax.exp")(wildcard())]

    @R.function
    def func(a: R.Tensor([4], "float32"), b: R.Tensor([4], "float32")) -> R.Tensor:
        with R.dataflow():
            s = R.add(a, b)
            e = R.exp(s)
            R.output(e)
        return e

    def together(value, m):
        infos = [f.struct_info for f in value.fields]
        args = relax.Tuple([m[x], m[patterns[1]].args[0]])
        return R.call_dps_packed("both", args, out_sinfo=infos)

    assert TupleRewriter(patterns, together)(func) is func
    assert PatternMatchingRewriter.from_pattern(is_tuple(patterns), together)(func) is func


def test_or_of_rewriters():
    x = wildcard()
    relu = PatternMatchingRewriter.from_pattern(is_op("relax.nn.relu")(x), lambda _, m: R.exp(m[x]))
    both = PatternMatchingRewriter.from_pattern(
        is_tuple([is_op("relax.sin")(x), is_op("relax.cos")(x)]) | is_op("relax.tanh")(x),
        lambda v, m: (
            R.negative(m[x]) if isinstance(v, relax.Call) else relax.Tuple([R.abs(m[x])] * 2)
        ),
    )
    assert isinstance(both, OrRewriter) and isinstance(relu | both, OrRewriter)

    @R.function
    def func(x: R.Tensor([4], "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.sin(a)
            c = R.cos(a)
            d = R.tanh(R.add(b, c))
            R.output(d)
        return d

    assert ops((relu | both)(func)) == ["exp", "abs", "add", "negative"]


def test_bindings_left_alone():
    """An empty answer leaves a match, and the search goes on."""

    @R.function
    def func(x: R.Tensor([4], "float32")) -> R.Tensor:
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.nn.relu(a)
            c = R.multiply(b, R.const(2.0, "float32"))
            R.output(c)
        return c

    with PatternContext() as ctx:
        arg = wildcard()
        relu = is_op("relax.nn.relu")(arg)
    seen = []

    def rewriter(m, bindings):
        seen.append(m[relu].name_hint)
        return {m[relu]: R.exp(m[arg])} if m[relu].name_hint == "b" else {}

    assert ops(rewrite_bindings(ctx, rewriter, func)) == ["nn.relu", "exp", "multiply"]
    assert seen == ["a", "b", "a"]
    assert rewrite_bindings(ctx, lambda m, b: {}, func) is func
    with PatternContext() as none:
        is_op("relax.multiply")(wildcard(), is_op("relax.exp")(is_const()))
    assert rewrite_bindings(none, rewriter, func) is func


def test_what_is_matched_stands_on_one_side_of_an_effect():
    @R.function(private=True, pure=False)
    def func(x: R.Tensor((4,), "float32")):
        a = R.nn.relu(x)
        R.print(a)
        b = R.exp(a)
        c = R.exp(b)
        return c

    x = wildcard()
    exp = is_op("relax.exp")
    made = rewrite_call(exp(is_op("relax.nn.relu")(x)), lambda _, m: R.negative(m[x]), func)
    assert made is func
    made = rewrite_call(exp(exp(x)), lambda _, m: R.negative(m[x]), func)
    assert ops(made) == ["nn.relu", "print", "negative"]


def test_so_many_replacements_in_a_row():
    x, number = wildcard(), is_const()
    pattern = is_op("relax.add")(x, number)

    @R.function(private=True)
    def func(x: R.Tensor((2,), "float32")):
        with R.dataflow():
            y = R.add(x, R.const(0, "float32"))
            R.output(y)
        return y

    def counted(last: int) -> relax.Function:
        def callback(value, found):
            at = int(found[number].data.numpy())
            return value if at == last else R.add(found[x], R.const(at + 1, "float32"))

        return rewrite_call(pattern, callback, func)

    (binding,) = counted(DEEPEST).body.blocks[0].bindings
    assert binding.value.args[1].data.numpy() == DEEPEST
    with pytest.raises(ValueError, match=f"{DEEPEST} replacements in a row"):
        counted(DEEPEST + 1)


def test_rewriter_of_results_of_symbolic_shapes():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(A: R.Tensor(["n"], "float32")):
            n = T.int64()
            out = R.call_dps_packed("old", (A,), out_sinfo=R.Tensor([n], "float32"))
            return out

        @R.function
        def replacement(A: R.Tensor(["n"], "float32")):
            n = T.int64()
            out = R.call_dps_packed("new", (A,), out_sinfo=R.Tensor([n], "float32"))
            return out

    @R.function(private=True)
    def func(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            a = R.call_dps_packed("old", (x,), out_sinfo=R.Tensor((4,), "float32"))
            b = R.call_dps_packed("old", (a,), out_sinfo=R.Tensor((5,), "float32"))
            R.output(b)
        return b

    values = [b.value for block in Rule(func).body.blocks for b in block.bindings]
    assert [v.args[0].global_symbol for v in values] == ["new", "old"]


@R.function(private=True, pure=False)
def LOOSE(c: R.Tensor((), "bool"), x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    a = R.exp(x)
    b = R.negative(a)
    return b


def local(*bindings) -> relax.SeqExpr:
    return relax.SeqExpr([relax.BindingBlock(bindings)], bindings[-1].var)


def bound(name: str, value) -> relax.VarBinding:
    value = relax.BlockBuilder().normalize(value)
    return relax.VarBinding(relax.Var(name, value.struct_info), value)


@pytest.mark.parametrize("kind", ["if", "function", "sequence", "cast"])
@pytest.mark.parametrize("stranger", [False, True])
def test_replacements_with_bindings_of_their_own(kind, stranger):
    """What they bind is their own; other variables are those of the function."""
    c, x = LOOSE.params
    info = x.struct_info
    other = relax.Var("stranger", info) if stranger else x

    def callback(value, found):
        first = bound("first", R.tanh(other))
        second = bound("second", R.sin(first.var))
        if kind == "if":
            return relax.If(c, local(first, second), x)
        if kind == "sequence":
            return local(first, second)
        if kind == "cast":
            cast = relax.MatchCast(relax.Var("cast", info), other, info)
            return local(cast, bound("second", R.sin(cast.var)))
        p = relax.Var("p", info)
        first = bound("first", R.add(p, other))
        return relax.Function([p], local(first), info)

    pattern = is_op("relax.exp")(wildcard())
    if stranger:
        with pytest.raises(ValueError, match="uses the variable stranger, which is not defined"):
            rewrite_call(pattern, callback, LOOSE, new_struct_info=True)
    elif kind == "function":  # cannot be negated, but is in its place
        with pytest.raises(TypeError, match="negative"):
            rewrite_call(pattern, callback, LOOSE, new_struct_info=True)
    else:
        made = rewrite_call(pattern, callback, LOOSE)
        given = np.array([0.1, 0.2, 0.3, 0.4], "float32")
        want = -np.sin(given if kind == "cast" else np.tanh(given))
        got = Interpreter(made)["main"](np.array(True), given).numpy()
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_field_of_a_tuple_that_is_written_out():
    x = wildcard()

    def second(value, found):
        return relax.TupleGetItem(relax.Tuple([R.sin(found[x]), found[x]]), 1)

    made = rewrite_call(is_op("relax.exp")(x), second, LOOSE)
    assert ops(made) == ["negative"] and made.body.body is not made.params[1]


def test_values_of_casts():
    @R.function(private=True)
    def func(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.match_cast(a, R.Tensor((n,), "float32"))
            c = R.exp(b)
            R.output(c)
        return c

    x = wildcard()
    made = rewrite_call(is_op("relax.exp")(x), lambda _, m: R.sin(m[x]), func)
    assert well_formed(made)
    np.testing.assert_allclose(
        Interpreter(made)["main"](np.ones(2, "float32")).numpy(), np.sin(np.sin([1.0, 1.0]))
    )
    # A rule does not look through a cast.
    assert rewrite_call(is_op("relax.exp")(is_op("relax.exp")(x)), lambda _, m: m[x], func) is func


def pairs(callback, **options):
    patterns = [is_op("relax.sin")(wildcard()), is_op("relax.cos")(wildcard())]
    return TupleRewriter(patterns, callback, **options)


@R.function(private=True)
def SINCOS(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor:
    with R.dataflow():
        a = R.sin(x)
        b = R.cos(y)
        c = R.add(a, b)
        R.output(c)
    return c


def test_several_values_left_as_they_are():
    def again(value, found):
        return relax.Tuple([relax.Call(field.op, field.args) for field in value.fields])

    left = (again, lambda v, m: v, lambda v, m: None, lambda v, m: relax.Tuple(v.fields))
    for callback in left:
        assert pairs(callback)(SINCOS) is SINCOS
    only = pairs(lambda v, m: relax.Tuple([v.fields[0], R.tan(v.fields[1].args[0])]))
    assert ops(only(SINCOS)) == ["sin", "tan", "add"]


def test_several_values_exchanged_for_ever(monkeypatch):
    monkeypatch.setattr("loopwright.relax.dpl.rewrite.DEEPEST", 3)
    rounds = []

    def exchanged(value, found):
        rounds.append(value)
        return relax.Tuple([R.sin(value.fields[0].args[0] * R.const(2.0)), value.fields[1]])

    with pytest.raises(ValueError, match="replacement matches again\n  got: 3 rounds"):
        pairs(exchanged)(SINCOS)
    assert len(rounds) == 3


def test_several_values_of_another_type():
    def shorter(value, found):
        return relax.Tuple(
            [R.sin(R.sum(f.args[0], axis=[0], keepdims=True)) for f in value.fields]
            if len(seen) == 0 and not seen.append(1)
            else value.fields
        )

    seen: list[int] = []
    with pytest.raises(ValueError, match="the replacement of a has another struct info"):
        pairs(shorter)(SINCOS)
    seen.clear()
    made = pairs(shorter, new_struct_info=True)(SINCOS)
    assert str(made.body.body.struct_info) == 'R.Tensor((1,), dtype="float32")'
    assert well_formed(made)


def test_several_values_beside_an_effect():
    @R.function(private=True, pure=False)
    def func(x: R.Tensor((4,), "float32")):
        a = R.sin(x)
        R.print(a)
        b = R.cos(x)
        return (a, b)

    swap = pairs(lambda v, m: relax.Tuple([R.tan(f.args[0]) for f in v.fields]))
    assert swap(func) is func


def test_bindings_outside_of_dataflow_and_no_answer():
    with PatternContext() as ctx:
        exp = is_op("relax.exp")(wildcard())
    change = {"a": lambda m, b: {m[exp]: R.sin(b[m[exp]].args[0])}, "none": lambda m, b: None}
    assert rewrite_bindings(ctx, change["a"], LOOSE) is LOOSE
    flow = relax_module(LOOSE)
    flow = relax.transform.ConvertToDataflow()(flow)["main"]
    assert ops(rewrite_bindings(ctx, change["a"], flow)) == ["sin", "negative"]
    assert rewrite_bindings(ctx, change["none"], flow) is flow


def test_a_script_with_fields_kernels_and_shapes():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def kernel(x: T.Buffer((2, 4), "float32"), y: T.Buffer((2, 4), "float32")):
            for i, j in T.grid(2, 4):
                with T.block("k"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] * T.float32(2)

        @R.function
        def main(x: R.Tensor((2, 8), "float32")):
            cls = Module
            parts = R.split(x, 2, axis=1)
            a = parts[0]
            b = parts[1]
            c = R.call_tir(cls.kernel, (b,), out_sinfo=R.Tensor((2, 4), "float32"))
            d = R.reshape(c, R.shape([4, 2]))
            e = R.reshape(a, R.shape([8]))
            return (d, e)

    @R.rewriter
    class Rule:
        @T.prim_func(private=True)
        def kernel(x: T.Buffer((2, 4), "float32"), y: T.Buffer((2, 4), "float32")):
            T.evaluate(0)

        @R.function
        def pattern(A: R.Tensor([2, 8], "float32")):
            part = R.split(A, 2, axis=1)[1]
            k = R.call_tir(Rule.kernel, (part,), out_sinfo=R.Tensor((2, 4), "float32"))
            return R.reshape(k, R.shape([4, 2]))

        @R.function
        def replacement(A: R.Tensor([2, 8], "float32")):
            part = R.split(A, 2, axis=1)[1]
            return R.reshape(R.sin(part), R.shape([4, 2]))

    values = [b.value for block in Rule(Module)["main"].body.blocks for b in block.bindings]
    names = [v.op.name if isinstance(v, relax.Call) else v.index for v in values]
    assert sorted(map(str, names)) == sorted(
        ["relax.split", "0", "1", "relax.sin", "relax.reshape", "relax.reshape"]
    )


def test_a_script_of_several_values_as_a_pass():
    @R.rewriter
    class Rule:
        @R.function
        def pattern(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
            return (R.sin(A), R.cos(B))

        @R.function
        def replacement(A: R.Tensor([4], "float32"), B: R.Tensor([4], "float32")):
            return (R.tan(A), R.tan(B))

    assert ops(Rule(relax_module(SINCOS))["main"]) == ["tan", "tan", "add"]
