"""A stranger's text describes a program and does nothing else."""

import pytest

from loopwright.base.errors import DiagnosticError
from loopwright.script import from_source

PROGRAM = """{before}
@T.prim_func
def f(A: T.Buffer((4,), "int64")):
    T.func_attr({{"global_symbol": "f"}})
    A[0] = {value}
"""


def read(value="1", before="", **options):
    return from_source(PROGRAM.format(before=before, value=value), **options)


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("import os", "imports I, T and R only\n  got: import os"),
        ("from os import path", "imports I, T and R only"),
        ("from loopwright.base import config", "imports I, T and R only"),
        ("while True: pass", "holds definitions, constants and imports"),
        ("T.prim_func.x = 1", "holds definitions, constants and imports"),
        ("print(open('/etc/passwd'))", "holds definitions, constants and imports"),
        ("x = open('/etc/passwd')", "undefined variable 'open'"),
        ("x = __import__('os')", "undefined variable '__import__'"),
        ("x = [i for i in range(10**9)]", "a Python loop of more than 100000 items"),
        ("x = list(range(10**9))", "a Python loop of more than 100000 items"),
        ("x = sum(range(10**9))", "a Python loop of more than 100000 items"),
        ("x = 9**9**9", "a Python value of this size"),
        ("x = 1 << 10**9", "a Python value of this size"),
        ("x = 'a' * 10**9", "a Python value of this size"),
        ("x = '%9999999d' % 1", "a Python value of this size"),
        ("x = f'{1:99999999}'", "a format of this width"),
        ("x = (yield)", "unsupported expression `Yield`"),
        ("x" + "+x" * 100_000, "cannot be parsed|syntax error|holds definitions"),
        ("(" * 1000, "syntax error"),
        ("\0", "cannot be parsed|syntax error"),
        ("\ud800", "cannot be parsed"),
    ],
)
def test_statements(before, message):
    with pytest.raises(DiagnosticError, match=message):
        read(before=before)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("().__class__.__bases__[0].__subclasses__()", "public attributes only"),
        ("lw.base.config.os.system('true')", "no attribute 'base'"),
        ("T.inspect.os.system('true')", "reaches no module but I, T and R"),
        ("T.register(1)", "public attributes only"),
        ("(lambda a: a.__class__)(A)", "public attributes only"),
        ("f'{A.__class__}'", "public attributes only"),
        ("[x.__class__ for x in (A,)]", "public attributes only"),
        ("'{0.__class__}'.format(A)", "attributes of nodes and of I, T and R only"),
        ("eval('1')", "undefined variable 'eval'"),
        ("getattr(A, 'data')", "undefined variable 'getattr'"),
    ],
)
def test_expressions(value, message):
    with pytest.raises(DiagnosticError, match=message):
        read(value)


def test_dimensions_are_closed_too():
    with pytest.raises(DiagnosticError, match="public attributes only"):
        from_source("@R.function\ndef f(x: R.Tensor(('().__class__',))):\n    return x")


@pytest.mark.parametrize(
    ("before", "value"),
    [
        ("from loopwright.script import tir as TT\nimport tvm", "TT.int64(2)"),
        ("from tvm.script import ir as I\nfrom tvm.script.parser import relax as R", "2"),
        ("k = 1 << 20\nn = len([i for i in range(4) if i % 2])", "n"),
        ("pick = {f'{k}-{v:02}': v for k, v in zip('ab', (1, 2))}", "pick['b-02']"),
        ("first = lambda x, y=2: min(x, y)", "(lambda a: a + 1)(1)"),
    ],
)
def test_what_it_may_hold(before, value):
    assert read(value, before).body.value == 2


def test_trusted_text_may_be_any_python():
    with pytest.raises(DiagnosticError):
        read("math.floor(2.5)", "import math")
    assert read("math.floor(2.5)", "import math", run_python=True).body.value == 2
    assert read("two()", extra_vars={"two": lambda: 2}).body.value == 2
