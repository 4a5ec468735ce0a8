"""Mistakes in rewriters: what is said."""

from __future__ import annotations

import pytest

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.relax.dpl import (
    OrRewriter,
    PatternContext,
    PatternMatchingRewriter,
    TupleRewriter,
    is_op,
    match,
    rewrite_bindings,
    rewrite_call,
    wildcard,
)
from loopwright.script import ir as I
from loopwright.script import relax as R


@R.function
def FUNC(x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    with R.dataflow():
        a = R.exp(x)
        b = R.multiply(a, y)
        c = R.multiply(y, b)
        R.output(c)
    return c


X = wildcard()
EXP = is_op("relax.exp")(X)


def pair_context():
    with PatternContext() as ctx:
        y = wildcard()
        first = is_op("relax.multiply")(wildcard(), y)
        second = is_op("relax.multiply")(y, first)
    return ctx, first, second


def text_of(error) -> str:
    return str(error.value)


def test_a_callback_that_returns_no_expression():
    def wrong(value, matches):
        return 3

    with pytest.raises(TypeError) as error:
        rewrite_call(EXP, wrong, FUNC)
    text = text_of(error)
    assert text.startswith(
        "the rewriter wrong must return a Relax expression\n"
        "  got: int: 3\n"
        "  instead: return the replacement, or the original expression if nothing should change\n"
        " --> "
    )
    assert "def wrong(value, matches):" in text


def test_another_struct_info():
    with pytest.raises(ValueError) as error:
        rewrite_call(EXP, lambda _, m: R.astype(m[X], "float16"), FUNC)
    assert text_of(error).startswith(
        "the replacement of a has another struct info\n"
        '  got: R.Tensor((4,), dtype="float16") for R.Tensor((4,), dtype="float32")\n'
        "  instead: make it fit (astype, reshape), or pass new_struct_info=True if its users can "
        "take it\n --> "
    )
    assert "a = R.exp(x)" in text_of(error)


def test_a_variable_out_of_scope():
    stranger = relax.Var("stranger", R.Tensor((4,), "float32"))
    for made in (stranger, R.exp(stranger), relax.Tuple([stranger])):
        with pytest.raises(ValueError) as error:
            rewrite_call(EXP, lambda _, m, made=made: made, FUNC)
        assert text_of(error).startswith(
            "a replacement uses the variable stranger, which is not defined there\n"
            "  got: 'stranger'\n"
            "  instead: use variables and values that the pattern matched, or parameters"
        )
    later = FUNC.body.blocks[0].bindings[1].var
    with pytest.raises(ValueError, match="uses the variable b, which is not defined there"):
        rewrite_call(EXP, lambda _, m: later, FUNC)


def test_a_rule_that_feeds_itself():
    def again(_, m):
        return R.exp(R.negative(m[X]))

    with pytest.raises(ValueError) as error:
        rewrite_call(EXP, again, FUNC)
    assert text_of(error).startswith(
        "a rewrite does not terminate: its replacement matches again\n"
        "  got: 200 replacements in a row, by relax.exp(*)\n"
        "  instead: return the original expression if it is already in its new form\n"
    )


def test_a_cycle():
    ctx, first, second = pair_context()

    def swap(m, bindings):
        return {m[first]: R.exp(m[second])}

    with pytest.raises(ValueError) as error:
        rewrite_bindings(ctx, swap, FUNC)
    assert text_of(error).startswith(
        "a replacement would create a cycle\n"
        "  got: b needs c needs b\n"
        "  instead: one of the values matched together is needed to compute another: leave it out"
    )


def test_what_rewrite_bindings_takes():
    ctx, first, second = pair_context()
    with pytest.raises(TypeError, match="must return a dict from variables to expressions"):
        rewrite_bindings(ctx, lambda m, b: R.exp(m[first]), FUNC)
    with pytest.raises(ValueError, match="replaces a variable that is not bound in the block"):
        rewrite_bindings(ctx, lambda m, b: {FUNC.params[0]: m[first]}, FUNC)
    with pytest.raises(TypeError, match="must return a Relax expression"):
        rewrite_bindings(ctx, lambda m, b: {m[first]: "a"}, FUNC)
    with pytest.raises(ValueError, match="the replacement of c has another struct info"):
        rewrite_bindings(ctx, lambda m, b: {m[second]: R.sum(m[first])}, FUNC)
    for call in (
        lambda: rewrite_bindings(ctx, lambda m, b: {}, IRModule()),
        lambda: rewrite_call(EXP, lambda o, m: o, IRModule()),
    ):
        with pytest.raises(TypeError, match=r"rewrites a relax.Function\n  got: IRModule"):
            call()


def test_what_rewriters_are_made_of():
    rule = PatternMatchingRewriter.from_pattern(EXP, lambda o, m: o)
    with pytest.raises(TypeError, match="rewriters are combined with rewriters\n  got: int"):
        rule | 3
    with pytest.raises(TypeError, match="rewriters are combined with rewriters"):
        OrRewriter(EXP, rule)
    with pytest.raises(TypeError, match="a rewriter needs a pattern\n  got: str: 'relax.exp'"):
        rewrite_call("relax.exp", lambda o, m: o, FUNC)
    with pytest.raises(TypeError, match="match takes a pattern first"):
        match(FUNC, EXP)
    with pytest.raises(TypeError, match="has_struct_info takes a struct info\n  got: 3"):
        X.has_struct_info(3)


def test_a_tuple_of_another_length():
    twice = [is_op("relax.exp")(X), is_op("relax.multiply")(wildcard(), wildcard())]
    with pytest.raises(ValueError, match="another number of fields\n  got: 1 for 2"):
        TupleRewriter(twice, lambda v, m: relax.Tuple([v.fields[0]]))(FUNC)


def test_modules_that_are_no_rule():
    make = PatternMatchingRewriter.from_module

    @I.ir_module
    class One:
        @R.function
        def pattern(a: R.Tensor):
            return R.exp(a)

    with pytest.raises(KeyError) as error:
        make(One)
    assert error.value.args[0] == (
        "a rewriter needs a graph function `replacement`\n"
        "  got: pattern\n"
        "  instead: add @R.function def replacement(...)"
    )
    with pytest.raises(TypeError, match="a rewriter is read from a module\n  got: Function"):
        make(FUNC)

    with pytest.raises(TypeError, match="graph function `replacement`\n  got: ExternFunc"):
        make(IRModule({"pattern": One["pattern"], "replacement": relax.ExternFunc("f")}))

    def rule(pattern: relax.Function, replacement: relax.Function):
        names = ("pattern", "replacement")
        pairs = zip(map(relax.GlobalVar, names), (pattern, replacement), strict=True)
        return make(IRModule(dict(pairs)))

    @R.function(private=True)
    def exp(a: R.Tensor, b: R.Tensor):
        return R.exp(a)

    @R.function(private=True)
    def other(a: R.Tensor((4,), "float32"), b: R.Tensor):
        return R.negative(a)

    @R.function(private=True)
    def both(a: R.Tensor, b: R.Tensor):
        return R.add(a, b)

    @R.function(private=True)
    def nothing(a: R.Tensor, b: R.Tensor):
        return a

    @R.function(private=True)
    def cast(a: R.Tensor, b: R.Tensor):
        c = R.match_cast(a, R.Tensor((4,), "float32"))
        return R.exp(c)

    assert rule(exp, exp)(FUNC) is FUNC
    with pytest.raises(ValueError, match="must have the same signature\n  got: "):
        rule(exp, other)
    with pytest.raises(ValueError, match="uses the parameter b, which `pattern` does not"):
        rule(exp, both)
    with pytest.raises(ValueError, match="must compute its result\n  got: a parameter"):
        rule(nothing, exp)
    with pytest.raises(ValueError, match="calls, tuples and literals only\n  got: a match_cast"):
        rule(cast, exp)

    @I.ir_module
    class Public:
        @R.function
        def pattern(a: R.Tensor((4,), "float32")):
            return R.exp(a)

        @R.function
        def replacement(a: R.Tensor((4,), "float32")):
            return Public.twice(a)

        @R.function
        def twice(a: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            return R.add(a, a)

    with pytest.raises(ValueError, match="calls twice, which is publicly exposed"):
        make(Public)
