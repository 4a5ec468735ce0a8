"""`Simplify`: what conditions say of the code they guard, and what stores do to that."""

from __future__ import annotations

from functools import reduce

import pytest

from loopwright.arith import Analyzer, Extension
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import And, Not, Or, Var
from loopwright.ir.structural import structural_equal
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.op import ceil, log2, shift_left

HEAD = "@T.prim_func(private=True)\ndef main({}):\n"


def body(params, text, **options):
    """The simplified body, as text without the head."""
    func = from_source(HEAD.format(params) + text)
    with PassContext(config={"tir.Simplify": options}):
        func = tt.Simplify()(IRModule({"main": func}))["main"]
    return func.script().split("):\n", 1)[1].rstrip()


def test_a_store_ends_what_a_condition_says_of_memory():
    text = """
    if A[0] == n:
        {}
        if A[0] == n:
            B[0] = 1
        else:
            B[0] = 2
"""
    params = 'A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32"), n: T.int32'
    assert "else" not in body(params, text.format("B[1] = 5"))
    assert "else" in body(params, text.format("A[0] = A[0] + 1"))
    assert "else" in body(params, text.format("T.evaluate(T.call_extern('int32', 'f', A.data))"))


def test_a_store_ends_what_the_extent_of_a_loop_says():
    text = """
    for i in range(A[0]):
        A[0] = 1
        if i < A[0]:
            B[0] = 1
"""
    assert "if i < A[0]" in body('A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")', text)


def test_named_conditions_decide_branches():
    text = """
    for i in range(4):
        named = i < 3
        if named or i >= 3:
            A[i] = named
            if named:
                if named:
                    A[0] = named
"""
    left = body('A: T.Buffer((4,), "bool")', text)
    assert left.count("if") == 1 and "A[0] = T.bool(True)" in left and "A[i] = named" in left


def test_unused_names_are_dropped():
    text = (
        "    x = n + 1\n    y = x\n    for i in range(4):\n        if i < y:\n            A[i] = y"
    )
    left = body('A: T.Buffer((4,), "int32"), n: T.int32', text)
    assert "y" not in left and "A[i] = x" in left


def test_store_of_what_is_there():
    assert "T.evaluate(0)" in body('A: T.Buffer((4,), "int32")', "    A[0] = A[0] + (5 - 5)")


def test_dimensions_are_not_negative():
    text = """
    n = T.int64()
    B = T.match_buffer(b, (n,), "float32")
    A = T.match_buffer(a, (n * 32 - 1,), "float32")
    A[T.min(T.int64(1), n)] = T.float32(0)
"""
    assert "A[T.int64(1)]" in body("b: T.handle, a: T.handle", text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("A[0] or (A[1] and A[2])", "(A[0] or A[1]) and (A[0] or A[2])"),
        ("(i == 0 or k == 20) and (k != 30 or i == 0)", "k == 20 or i == 0"),
        ("k == 20 and (i == 0 and k != 30)", "i == 0 and k == 20"),
        ("i == 20 or k == 0 or i != 30", "k == 0 or i != 30"),
        ("A[1] or (A[2] or A[1])", "A[2] or A[1]"),
        ("(k == 20 or i == 0 or A[0]) and (k != 30 or A[0])",) * 2,
    ],
)
def test_and_of_ors(text, form):
    params = 'A: T.Buffer((4,), "bool"), i: T.int32, k: T.int32'
    found = body(params, f"    A[0] = {text}", convert_boolean_to_and_of_ors=True)
    assert found.strip() == f"A[0] = {form}"


def test_and_of_ors_that_would_be_long_is_kept():
    ana = Analyzer()
    ana.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
    pairs = [And(Var(f"a{n}", "bool"), Var(f"b{n}", "bool")) for n in range(8)]
    total = reduce(Or, pairs)
    assert ana.simplify(total) is total


def test_what_is_not_equal():
    i, j, k = (Var(name) for name in "ijk")
    ana = Analyzer()
    with ana.constraint_scope(i != j):
        assert structural_equal(ana.simplify(i <= j), i < j)
        assert structural_equal(ana.simplify(j * 2 != i * 2), ana.simplify(i == i))
        with ana.constraint_scope(j == k):
            assert ana.can_prove(i != k) and not ana.can_prove(i < k)
        with ana.constraint_scope(i <= j):
            assert ana.can_prove(i + 1 <= j)
    with ana.constraint_scope(i <= j):
        assert structural_equal(ana.simplify(j <= i), j == i)
        assert structural_equal(ana.simplify(i != j), i < j)
    with ana.constraint_scope(Not(Or(i == k, j == k))):
        assert ana.can_prove(k != i)
    assert not ana.can_prove(i != j)


def test_bounds_of_powers():
    i = Var("i")
    ana = Analyzer()
    ana.update(i, ana.const_int_bound(i).replace(min_value=0, max_value=15))
    assert ana.can_prove(shift_left(31, i) <= 31 << 15) and not ana.can_prove(
        shift_left(31, i) <= (31 << 15) - 1
    )
    assert not ana.can_prove(shift_left(1 << 20, i) >= 1)
    levels = ceil(log2((i + 1025).astype("float64"))).astype("int32")
    assert ana.can_prove(levels == 11) and not ana.can_prove(levels == 10)


def test_numbers_as_conditions():
    text = """
    if n:
        if n != 0:
            A[0] = 1
    else:
        if n == 0:
            A[0] = 2
"""
    shown = body('A: T.Buffer((4,), "int32"), n: T.int32', text)
    assert shown.count("if ") == 1 and "A[0] = 2" in shown
