"""A stranger's text describes a program and does nothing else."""

import json

import pytest

from loopwright.base.errors import DiagnosticError
from loopwright.script import from_source
from loopwright.script.parser.closed import Rules

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
        ("x = [i for i in range(10**9)]", "a Python range of more than 100000 items"),
        ("x = list(range(10**9))", "a Python range of more than 100000 items"),
        ("x = sum(range(10**9))", "a Python range of more than 100000 items"),
        ("x = 9**9**9", "a Python value of this size"),
        ("x = 1 << 10**9", "a Python value of this size"),
        ("x = 'a' * 10**9", "a Python value of this size"),
        ("x = '%9999999d' % 1", "a Python value of this size"),
        ("x = (1 << 2000) * (1 << 2095)", "a Python value of this size"),
        ("x = 2 ** 2049", "a Python value of this size"),
        ("x = 1 << 4096", "a Python value of this size"),
        ("x = [0] * 50000 + [0] * 50001", "a Python value of this size"),
        ("x = 'a' * 100001", "a Python value of this size"),
        ("x = 100001 * (0,)", "a Python value of this size"),
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
    "value",
    [
        "(1 << 2000) * (1 << 2094)",
        "2 ** 2048",
        "1 << 4095",
        "[0] * 50000 + [0] * 50000",
        "'a' * 100000",
    ],
)
def test_the_largest_values(value):
    assert read("1", f"x = {value}").script() == read().script()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("().__class__.__bases__[0].__subclasses__()", "public attributes only"),
        ("lw.base.config.os.system('true')", "attributes of nodes and of I, T and R only"),
        ("T.inspect.os.system('true')", "reaches nodes and functions of I, T and R only"),
        ("T.Buffer.remap", "attributes of nodes and of I, T and R only"),
        ("T.axis.mro()", "reaches nodes and functions of I, T and R only"),
        ("T.register(1)", "attributes of nodes and of I, T and R only"),
        ("(lambda a: a.__class__)(A)", "public attributes only"),
        ("f'{A.__class__}'", "public attributes only"),
        ("[x.__class__ for x in (A,)]", "public attributes only"),
        ("'{0.__class__}'.format(A)", "attributes of nodes and of I, T and R only"),
        ("eval('1')", "undefined variable 'eval'"),
        ("R.active_parser().scope", "reaches nodes and functions of I, T and R only"),
        ("T.Op.get('relax.add')", "reaches nodes and functions of I, T and R only"),
        ("sorted(['x'], key=I.explain)", "reaches nodes and functions of I, T and R only"),
        ("R.emit_te(R.nullcontext, A)", "reaches nodes and functions of I, T and R only"),
        ("R.const(1.0).data.numpy()", "attributes of nodes and of I, T and R only"),
        ("T.int32(3).show()", "attributes of nodes and of I, T and R only"),
        ("T.target('llvm').features", "attributes of nodes and of I, T and R only"),
        ("T.macro(T.launch_thread)", "which are not called"),
        ("T.prim_func(lambda: 1)", "which are not called"),
        ("A[1.5]", "the indices of buffer A are integers"),
        ("A[None]", "the indices of buffer A are integers"),
        ("getattr(A, 'data')", "undefined variable 'getattr'"),
    ],
)
def test_expressions(value, message):
    with pytest.raises(DiagnosticError, match=message):
        read(value)


LOOPS = [
    ("x = [0 for a in range(99999) for b in range(99999)]", "1"),
    ("s = 'a' * 64\n" + "s = f'{s}{s}{s}{s}'\n" * 20, "1"),
    ("s = [1]\n" + "s = [*s, *s]\n" * 40, "1"),
    ("s = (1,)\n" + "s = (s, s)\n" * 60 + "t = str(s)", "1"),
    ("s = (1,)\nt = (1,)\n" + "s = (s, s)\nt = (t, t)\n" * 60 + "u = s == t", "1"),
    ("x = R.const([[[[1.0] * 100] * 100] * 100] * 100)", "1"),
    ("s = T.Var('n', 'int64')\n" + "s = T.max(s, s * 3)\n" * 60, "s"),
    ("x = (lambda f: f(f))(lambda f: f(f))", "1"),
    ("x = (lambda f: f(f))(lambda f: sorted([1, 2], key=lambda _: f(f)))", "1"),
    ("x = max(*range(10**11))", "1"),
    ("x = [*range(10**11)]", "1"),
    ("x = 1.5 in range(10**12)", "1"),
    ("x = round(5, -(10**7))", "1"),
    ("r = list(range(50000))", "[0 for a in r for b in r][0]"),
]


@pytest.mark.parametrize(("before", "value"), LOOPS)
def test_short_texts_describe_no_large_programs(before, value):
    with pytest.raises(DiagnosticError, match="run_python=True"):
        read(value, before)


MACROS = "".join(f"@T.macro\ndef m{n + 1}():\n    m{n}()\n    m{n}()\n" for n in range(40))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@T.macro\ndef m0():\n    T.evaluate(0)\n" + MACROS, "takes this long"),
        ("@T.macro\ndef m40():\n    m40()\n", "call each other"),
        ("@T.macro\ndef m40():\n    x: exit = 1\n", "undefined variable 'exit'"),
        ("@T.macro\ndef m40():\n    x = open('/etc/passwd')\n", "undefined variable 'open'"),
    ],
)
def test_macros(text, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(f"{text}@T.prim_func\ndef f(A: T.Buffer((4,), 'int64')):\n    m40()\n")


def test_graph_functions_loop_in_bounds_too():
    text = "@R.function\ndef f(x: R.Tensor((2,), 'float32')):\n    {}\n    return x\n"
    for body in ("for i in range(10**12): pass", "a, *b = range(10**12)"):
        with pytest.raises(DiagnosticError, match="Python range of more than"):
            from_source(text.format(body))
    with pytest.raises(DiagnosticError, match="number of sections"):
        from_source(text.format("y = R.split(x, 10**9)"))


def node(**extra):
    """A node as JSON, in a text."""
    entry = {"type": "ir.GlobalVar", "fields": {"name_hint": "x"}, **extra}
    return {"loopwright": 1, "nodes": [entry], "root": {"node": 0}}


def laughs(depth):
    """A sum of a node with itself, and so on."""
    nodes = [{"type": "ir.IntImm", "fields": {"dtype": {"dtype": "int64"}, "value": 1}}]
    for n in range(depth):
        fields = {"a": {"node": n}, "b": {"node": n}}
        nodes.append({"type": "ir.Add", "fields": fields})
    return {"loopwright": 1, "nodes": nodes, "root": {"node": depth}}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (node(extra={"__class__": 1}), "fields of GlobalVar differ"),
        (node(extra={"script": 1}), "fields of GlobalVar differ"),
        ({"loopwright": 1}, "not as save_json writes it\n  got: KeyError: 'nodes'"),
        ({**node(), "root": {"node": -1}}, "share too many parts"),
        ({**node(), "root": {"enum": ["numpy", "testing", 1]}}, "unknown enumeration"),
        (laughs(60), "share too many parts"),
        ([], "holds no Loopwright nodes"),
    ],
)
def test_json_describes_nodes_only(data, message):
    with pytest.raises(DiagnosticError, match=message):
        read(before=f"x = tvm.ir.load_json({json.dumps(data)!r})")
    assert read(before=f"x = tvm.ir.load_json({json.dumps(laughs(3))!r})")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("@R.active_parser()\ndef f(): pass", "reaches nodes and functions of I, T and R"),
        ("@T.axis\ndef f(): pass", "not one of a script"),
        ("@T.prim_func\nclass f: pass", "this decorator is one of functions"),
        ("@T.prim_func\ndef f(a: '((((a'): pass", "syntax error: '\\(' was never closed"),
        ("@T.prim_func\ndef f(a: T.int32):\n    a.x += 1", "an attribute cannot be assigned to"),
    ],
)
def test_definitions(text, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(text)


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
        ("", "(lambda run, locals: run + locals)(1, 1)"),
        ("", "max([1, 2, 3], key=lambda x: 0 - (x - 2) ** 2)"),
    ],
)
def test_what_it_may_hold(before, value):
    assert read(value, before).body.value == 2


def test_trusted_text_may_be_any_python():
    with pytest.raises(DiagnosticError):
        read("math.floor(2.5)", "import math")
    assert read("math.floor(2.5)", "import math", run_python=True).body.value == 2
    assert read("two()", extra_vars={"two": lambda: 2}).body.value == 2


def test_calls_that_have_returned_do_not_count():
    rules = Rules(0)
    for _ in range(3):
        with rules.inside(0), rules.inside(0):
            assert rules.depth == 2
    assert rules.depth == 0
