"""Single expressions and texts of scripts, apart from a whole script."""

from __future__ import annotations

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
