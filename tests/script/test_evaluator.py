"""Single expressions and texts of scripts, apart from a whole script."""

from __future__ import annotations

import random

import pytest

from loopwright.base.errors import DiagnosticError
from loopwright.script import from_source
from loopwright.script.parser.evaluator import ExprEvaluator
from loopwright.script.parser.source import ScriptText


def value(text: str, **names: object) -> object:
    return ExprEvaluator.eval(None, names, ScriptText(text).as_ast().body[0].value)


def test_an_expression():
    assert value("a + 2, b[1:], f(a)", a=1, b=[1, 2, 3], f=lambda x: -x) == (3, [2, 3], -1)


def test_a_name_that_is_not_there():
    with pytest.raises(DiagnosticError, match="undefined variable 'lengt'"):
        value("lengt + 1", length=3)


def test_the_text_of_a_function():
    def inner(x):
        return x

    text = ScriptText(inner)
    assert text.source.startswith("def inner(x):\n    return x")
    assert (text.start_column, text.source_name) == (4, __file__)


def test_every_expression_has_the_place_of_its_own_text():
    text = """
@T.prim_func
def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = T.exp(A[i] * T.float32(2)) + A[i]
"""
    total = from_source(text).body.body.value
    line = text.split("\n")[4]
    parts = [total, total.a, total.a.args[0], total.b]
    columns = [line.index("T.exp"), line.index("T.exp"), line.index("A[i]"), line.rindex("A[i]")]
    assert [part.span.column - 1 for part in parts] == columns
    plain = from_source(text.replace("T.float32(2)", "2")).body.body.value.a.args[0]
    assert plain.b.span == plain.span  # a number that has no place of its own


def random_expression(rng, depth):
    """Text of an expression of numbers that evaluates to a number or a truth value."""
    if depth == 0:
        return rng.choice(["a", "b", "c[1]", "c[-1]", "0", "1", "True", "False", "2.5", "-3"])
    parts = [random_expression(rng, rng.randrange(depth)) for _ in range(3)]
    x, y, z = parts
    signs = [rng.choice(["<", "<=", ">", ">=", "==", "!="]) for _ in range(2)]
    return rng.choice([
        f"({x} {rng.choice(['+', '-', '*'])} {y})", f"({x} {rng.choice(['//', '%', '/'])} 3)",
        f"({x} and {y} and {z})", f"({x} or {y} or {z})", f"({x} or {y} and {z})",
        f"({x} {signs[0]} {y} {signs[1]} {z})", f"({x} {signs[0]} {y})",
        f"({y} if {x} else {z})", f"(not {x})", f"(-{x})", f"(+{x})",
        f"[{x}, {y}, {z}][{rng.randrange(-3, 3)}]", f"({x}, *[{y}, {z}])[1]",
        f"[{x} for a in (1, 2) if a > 1][0]", f"max({x}, {y}, key=lambda v: -v)",
        f"{{'k': {x}, **{{'m': {y}}}}}['m']", f"len([{x}, {y}, {z}][{rng.randrange(3)}:])",
        "int(f'{a + b:.0f}')", f"({x} in [{y}, {z}])", f"({x} not in ({y}, {z}))",
        "(a is None)", "(c is not None)",
    ])  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_expressions_of_numbers_are_those_of_python(seed):
    rng = random.Random(seed)
    names = {"a": 3, "b": -2, "c": [4, 0], "max": max, "len": len, "int": int}
    for _ in range(25):
        text = random_expression(rng, 3)
        wanted = eval(text, dict(names))
        found = value(text, **names)
        assert (type(found), found) == (type(wanted), wanted), text
