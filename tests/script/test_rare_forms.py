"""Rare spellings mean what plain ones do; rare nodes have texts."""

from __future__ import annotations

import ast
import itertools
import sys
from collections import namedtuple
from contextlib import ExitStack
from enum import IntEnum
from types import SimpleNamespace

import numpy as np
import pytest

from loopwright import relax, tir
from loopwright.base.errors import DiagnosticError
from loopwright.ir import IRModule, Range, assert_structural_equal
from loopwright.ir.diagnostics import override_renderer
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T
from loopwright.script.ir_builder import IRBuilder
from loopwright.script.ir_builder import ir as BI
from loopwright.script.ir_builder import relax as BR
from loopwright.script.ir_builder import tir as BT
from loopwright.script.parser.core import Parser
from loopwright.script.parser.evaluator import ExprEvaluator
from loopwright.script.parser.scope import Scope
from loopwright.script.parser.source import find_class, find_function, parse_text
from loopwright.script.printer import highlight
from loopwright.script.printer.highlight import cprint
from loopwright.script.printer.lines import numbered
from loopwright.script.printer.paths import resolve
from loopwright.tir import op_target

PARAMS = "A: T.Buffer((8,), 'float32'), n: T.int32"


def kernel(*body: str, ret: str = "", params: str = PARAMS) -> str:
    return f"@T.prim_func\ndef f({params}){ret}:\n" + "\n".join(f"    {line}" for line in body)


SAME = [
    (["for i in T.thread_binding(2, 6, 'threadIdx.x'):", "    A[i] = 0.0"],
     ["for i in T.thread_binding(2, 6, thread='threadIdx.x'):", "    A[i] = 0.0"]),
    (["for i in T.thread_binding(6, 'threadIdx.x'):", "    A[i] = 0.0"],
     ["for i in T.thread_binding(6, thread='threadIdx.x'):", "    A[i] = 0.0"]),
    (["with T.While(n < 3):", "    A[n] = 0.0"], ["while n < 3:", "    A[n] = 0.0"]),
    (["v = T.int32()", "A[T.let(v, n + 1, v * v)] = 0.0"],
     ["v = T.int32()", "A[T.Let(v * v, where={v: n + 1})] = 0.0"]),
    (["x: 'T.int32' = n + 1", "A[x] = 0.0"], ["x = n + 1", "A[x] = 0.0"]),
    (["x: T.int32 = T.LetStmt(n + 1)", "A[x] = 0.0"], ["x: T.int32 = n + 1", "A[x] = 0.0"]),
    (["m: T.int32", "with T.LetStmt(n, var=m):", "    A[m] = 0.0"], ["m: T.int32 = n", "A[m] = 0.0"]),
    (["m = n + 1", "m += 2", "A[m] = 0.0"], ["m = n + 1", "k = m + 2", "A[k] = 0.0"]),
    (["@T.macro", "def g(i):", "    A[i] = 1.0", "g(3)"], ["A[3] = 1.0"]),
    (["m: T.int32 = 'text'", "T.evaluate(m)"], ["T.evaluate('text')"]),
    (["with T.block('b'):", "    T.reads(A)", "    T.writes(A[T.ramp(2, 1, 4)], A[n])", "    A[0] = 0.0"],
     ["with T.block('b'):", "    T.reads(A[0:8])", "    T.writes(A[2:6], A[n:n + 1])", "    A[0] = 0.0"]),
    (["with T.block('b'):", "    T.reads()", "    T.writes(C[2:6])", "    B = T.match_buffer(C[2:6])", "    B[0] = T.int8(1)"],
     ["with T.block('b'):", "    T.reads()", "    T.writes(C[2:6])", "    B = T.match_buffer(C[2:6], (4,), 'int8')", "    B[0] = T.int8(1)"]),
    (["for q in T.meta_var([1, 2]):", "    A[q] = 0.0"], ["A[1] = 0.0", "A[2] = 0.0"]),
    (["q = T.meta_var(5)", "A[q] = 0.0"], ["A[5] = 0.0"]),
    (["A[round(2.4)] = round(2.46, 1)"], ["A[2] = 2.5"]),
    (["A[(lambda a, b: a - b)(**{'b': 1, 'a': 3})] = 0.0"], ["A[2] = 0.0"]),
    (["A[sum({1, 2, 2})] = 0.0"], ["A[3] = 0.0"]),
    (["A[(k := 2) + k] = 0.0"], ["A[4] = 0.0"]),
    (["for i in range(7, 2000000):", "    A[i] = 0.0"], ["for i in T.serial(7, 2000000):", "    A[i] = 0.0"]),
    (["i = T.iter_var(T.int32(), (0, 4), 'DataPar', '')", "with T.attr(i, 'k', 1):", "    A[n] = 0.0"],
     ["i = T.int32()", "with T.attr(i, 'k', 1):", "    A[n] = 0.0"]),
    (["p = T.ptr('float32', 'shared')", "with T.LetStmt(A.data, var=p):", "    T.evaluate(p)"],
     ["p = T.handle('float32', 'shared')", "with T.LetStmt(A.data, var=p):", "    T.evaluate(p)"]),
    (["p = T.buffer_var('float32', 'shared')", "with T.LetStmt(A.data, var=p):", "    T.evaluate(p)"],
     ["p = T.handle('float32', 'shared')", "with T.LetStmt(A.data, var=p):", "    T.evaluate(p)"]),
]  # fmt: skip


@pytest.mark.parametrize(("rare", "plain"), SAME)
def test_rare_spellings(rare, plain):
    params = f"{PARAMS}, C: T.Buffer((8,), 'int8')"
    found, wanted = (from_source(kernel(*b, params=params)) for b in (rare, plain))
    assert_structural_equal(found, wanted, map_free_vars=True)


def test_a_type_of_a_let():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32")):
        with T.LetStmt(A.data, T.handle("int8", "shared").type_annotation) as p:
            T.evaluate(p)

    assert f.body.var.type_annotation == T.handle("int8", "shared").type_annotation


@pytest.mark.parametrize("kind", [T.int64, T.int64(), tir.PrimType("int64"), None])
def test_what_is_returned(kind):
    with IRBuilder() as ib, BT.prim_func():
        BT.func_ret(kind)
        BT.evaluate(0)
    assert ib.get().ret_type == (None if kind is None else tir.PrimType("int64"))
    with IRBuilder(), BT.prim_func(), pytest.raises(TypeError, match="returns a scalar or nothing"):
        BT.func_ret("int64")


WRONG = [
    (kernel("for i in range(0, 3000000, 2):", "    A[i] = 0.0"), r"has step 1\n  got: 2"),
    (kernel("for i in T.thread_binding(0, 3):", "    A[i] = 0.0"), "needs the name of a thread axis"),
    (kernel("A[0] = [][1]"), "IndexError: list index out of range"),
    (kernel("A[0] = {}['k']"), "KeyError: k"),
    (kernel("with T.block('b'):", "    T.evaluate(A.data)"), r"'b' accesses through pointers cannot be inferred\n  got: A"),
    (kernel("with T.If(n < 3):", "    with T.Else():", "        A[0] = 1.0"), "an if needs a then-branch"),
    ("@R.function\ndef f(x: R.Tensor(('n',))):\n    y: R.Tensor((n + 1.5,)) = x\n    return y", "a dimension is an integer"),
    ("@R.function\ndef f(x: R.Tensor((2,))):\n    y: T.int32 = x\n    return y", 'annotated as R.Prim."int32"'),
    ("@R.function\ndef f(x: R.Tensor((2,))):\n    y: () = x\n    return y", "annotated as R.Tuple\n"),
    ("@T.prim_func\ndef g(a: T.int32):\n    T.evaluate(a)\n" + kernel("g(n)"), "called through its module"),
    ("import os\n" + kernel("A[0] = 1.0"), "imports I, T and R only"),
    (kernel("A[0] = round(1.5, 401)"), "rounding to this many digits"),
    (kernel("A[0] = round(1.5, -401)"), "rounding to this many digits"),
    (kernel("A[0] = 1", "A[0] = n and"), "syntax error"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_refused(text, message):
    with pytest.raises(DiagnosticError, match=message):
        from_source(text)


@pytest.mark.parametrize(
    "head",
    [
        "from loopwright.script import T",
        "from tvm.script.parser import tir as T, relax as R",
        "from __future__ import annotations",
        "import tvm as other",
    ],
)
def test_imports_of_a_text(head):
    plain = kernel("A[round(1.5, 400) * 0] = 1.0").replace("round(1.5, 400) * 0", "0")
    assert_structural_equal(from_source(f"{head}\n{plain}"), from_source(plain))


def test_what_a_run_statement_raises_has_its_place():
    with pytest.raises(
        DiagnosticError, match=r"ZeroDivisionError: division by zero\n(.*\n)*.*:2:1"
    ):
        from_source("x = 1\ny = x / 0\n" + kernel("A[0] = 0.0"), run_python=True)


def test_constants_around_a_text():
    text = """"Said first."\nd = {'a': 1, 'b': 4}\ne = d\n""" + kernel(
        "A[e['b'] + given.size] = 0.0"
    )
    found = from_source(text, {"given": SimpleNamespace(size=3)})
    assert_structural_equal(found, from_source(kernel("A[7] = 0.0")))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RecursionError("deep"), "this is nested too deeply to be read\n"),
        (SyntaxError("no"), "syntax error: no\n"), (OSError(), "OSError: \n"),
        (KeyError("k"), "KeyError: k\n"), (KeyError(), "KeyError: \n"), (ValueError("v"), "v\n"),
        (ValueError(), "ValueError: \n"), (OSError("o"), "OSError: o\n"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_error(error, text):
    def fail():
        raise error

    tree = ast.parse("fail()", mode="eval").body
    with pytest.raises(DiagnosticError, match=f"^{text}"):
        ExprEvaluator.eval(None, {"fail": fail}, tree)


def test_members_of_a_module():
    text = "@I.ir_module\nclass M:\n    a: int = 3\n    b: int\n    "
    found = from_source(text + kernel("A[a] = 0.0").replace("\n", "\n    "))
    plain = from_source(text + kernel("A[3] = 0.0").replace("\n", "\n    "))
    assert_structural_equal(found, plain)


def test_a_symbol_and_a_parameter_of_no_type():
    text = "@R.function\ndef f(s: R.Shape(['n'])):\n    n = T.int64()\n    y: R.Prim('int64') = n\n    return y"
    (binding,) = from_source(text).body.blocks[0].bindings
    assert binding.value.value.name == "n" and binding.var.struct_info.dtype == "int64"
    function = from_source(kernel("T.evaluate(0)", params="v: T.void"))
    assert function.params[0].dtype.is_void and not isinstance(function.params[0], tir.SizeVar)


def test_macros_in_a_graph_function():
    @R.function
    def f(x: R.Tensor((2,), "float32")):
        @T.macro
        def twice(v):
            return R.add(v, v)

        y: R.Any = twice(x)
        z = R.shape(R.shape([2, 4]))
        return (y, z)

    first, second = f.body.blocks[0].bindings[:2]
    assert first.value.op.name == "relax.add" and isinstance(second.value, relax.ShapeExpr)
    assert isinstance(first.var.struct_info, relax.ObjectStructInfo)
    assert [int(v) for v in second.value.values] == [2, 4]


def test_what_decorators_refuse():
    with pytest.raises(
        TypeError, match="@T.prim_func decorates a Python function\n  got: 3 of type int"
    ):
        T.prim_func(3)
    with pytest.raises(TypeError, match="@I.ir_module decorates a class"):
        I.ir_module(test_members_of_a_module)
    names: dict = {"T": T}
    exec("def f(A: T.int32):\n    T.evaluate(A)\nclass C:\n    pass", names)
    # From 3.13 on Python keeps the text of `python -c`, the other code in "<string>".
    unread = "the source of this script cannot be read|is not found in its file"
    with pytest.raises(DiagnosticError, match=unread):
        T.prim_func(names["f"])
    with pytest.raises(DiagnosticError, match=unread):
        exec("class C:\n    @T.prim_func\n    def f(A: T.int32):\n        T.evaluate(A)", names)
    code = test_members_of_a_module.__code__
    other = type(cprint)(code.replace(co_firstlineno=1), globals())
    with pytest.raises(DiagnosticError, match="test_members_of_a_module is not found in its file"):
        find_function(other)

    class Here:
        pass

    Here.__name__ = "There"
    with pytest.raises(DiagnosticError, match="There is not found in its file"):
        find_class(Here, sys._getframe())


def test_a_function_in_a_class_of_another_decorator():
    keep = SimpleNamespace(it=lambda cls: cls)

    @keep.it
    class Some:
        @T.prim_func
        def f(n: T.int32):
            T.evaluate(n)

    assert isinstance(Some.f, tir.PrimFunc)


def test_functions_of_a_builder():
    with IRBuilder() as ib, BI.ir_module():
        with IRBuilder() as inner, BT.prim_func():
            BT.func_name("k")
            BT.evaluate(7)
        function = inner.get()
        gvar = BI.decl_function("k", function)
        assert str(gvar.struct_info) == "R.Callable((), R.Tuple, True)"
        BI.def_function("k", function)
    assert gvar.name_hint == "k"
    assert_structural_equal(ib.get(), IRModule({"k": function}))
    with IRBuilder(), BT.prim_func(), pytest.raises(TypeError, match="parameter n needs a type"):
        BT.arg("n", 3)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("R.Tensor((2,), 'float32')", "R.Tensor(ndim=1)"),  # the body knows more
        ("R.Object", "R.Tensor((2,), 'float32')"),
        ("R.Object", "R.Object"),
    ],
)
def test_what_a_built_graph_function_returns(given, said):
    given_info, said_info = (eval(t, {"R": R}) for t in (given, said))
    with IRBuilder() as ib, BR.function():
        BR.func_ret_struct_info(said_info)
        x = BR.arg("x", given_info)
        y = relax.Var("y", x.struct_info)
        assert BR.emit_var_binding(relax.VarBinding(y, x)) is y
        BR.func_ret_value(y)
    text = f"@R.function(private=True)\ndef f(x: {given}) -> {said}:\n    y = x\n    return y"
    assert_structural_equal(ib.get(), from_source(text))


class Level(IntEnum):
    HIGH = 3


Point = namedtuple("Point", "x y")
PLAIN = from_source(kernel("for i in range(3):", "    A[i] = 0.0", "A[1] = 1.0"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(1.5), "1.5"), (np.int64(3), "3"), (np.bool_(True), "True"),
        (Point(1, "a"), '[1, "a"]'), (Level.HIGH, "3"), (1 + 2j, "(1+2j)"), (None, "None"),
        (PLAIN.body.seq[1], '"A[1] = T.float32(1.0)"'), (tir.Not(tir.const(True)), "T.Not(T.bool(True))"),
        ({"b": 1, "a": (2.5, True)}, '{"a": [2.5, True], "b": 1}'), (b"x", "b'x'"),
    ],
)  # fmt: skip
@pytest.mark.no_roundtrip  # of Python values that are no part of a program
def test_texts_of_attributes(value, text):
    assert f'T.func_attr({{"k": {text}}})' in PLAIN.with_attr("k", value).script()


def test_notes_and_lines_under():
    loop, store = PLAIN.body.seq
    text = PLAIN.script(obj_to_annotate={loop: "the loop", store: "a store"})
    assert "    # the loop\n    for i in range(3):\n" in text
    assert text.endswith("\n    A[1] = T.float32(1.0)  # a store")
    empty = IRModule({})
    lines = empty.script(obj_to_underline=[empty]).split("\n")[2:]
    assert lines == ["@I.ir_module", "^" * 12, "class Module:", "^" * 13, "    pass"]
    assert PLAIN.script(num_context_lines=None) == PLAIN.script(num_context_lines=-1)


def test_what_lies_at_a_path():
    function = PLAIN.with_attr("k", 3)
    assert resolve(function, '<root>.attrs["k"]') == 3
    with pytest.raises(
        ValueError, match=r'path <root>.attrs\["j"\] ends at \["j"\]\n  got: DictAttrs'
    ):
        resolve(function, '<root>.attrs["j"]')


def void(name):
    return relax.Var(name, relax.TupleStructInfo([]))


STRIDE = tir.Var("s", "int32")
TEXTS = [
    (relax.BindingBlock([relax.VarBinding(relax.Var("v"), relax.ExternFunc("g"))]), 'v = R.ExternFunc("g")'),
    (relax.BindingBlock([relax.VarBinding(void("u"), void("t"))]), "t: R.Tuple\nu: R.Tuple = t"),
    (relax.ExternFunc("g", relax.ObjectStructInfo()), 'R.ExternFunc("g")'),
]  # fmt: skip


@pytest.mark.parametrize(("node", "text"), TEXTS)
def test_texts_of_rare_nodes(node, text):
    assert node.script() == text


def on_buffer(**given):
    handle = tir.Var("h", "handle")
    buffer = tir.decl_buffer((8, 4), "float32", "B", **given)
    return tir.PrimFunc([handle], tir.Evaluate(0), buffer_map={handle: buffer})


COUNT = tir.Var("n", "int32")
ROOM = tir.decl_buffer((8,), "float32", "B")
MAIN = [
    (on_buffer(elem_offset=STRIDE, strides=[STRIDE, 1]),
     "s = T.int32()\nB = T.match_buffer(h, (8, 4), strides=(s, 1), elem_offset=s)\nT.evaluate(0)"),
    (on_buffer(elem_offset=STRIDE, strides=[STRIDE * 2, 1]),
     "s = T.int32()\nB = T.match_buffer(h, (8, 4), strides=(s * 2, 1), elem_offset=s)\nT.evaluate(0)"),
    (on_buffer(strides=[STRIDE, STRIDE], buffer_type="auto_broadcast"),
     's = T.int32()\nB = T.match_buffer(h, (8, 4), strides=(s, s), buffer_type="auto_broadcast")\nT.evaluate(0)'),
    (on_buffer(elem_offset=STRIDE * 2, offset_factor=2),
     "s = T.int32()\nB = T.match_buffer(h, (8, 4), elem_offset=s * 2, offset_factor=2)\nT.evaluate(0)"),
    (on_buffer(data_alignment=32, scope="shared"), 'B = T.match_buffer(h, (8, 4), scope="shared", align=32)\nT.evaluate(0)'),
    (tir.PrimFunc([COUNT], tir.LetStmt(COUNT, tir.const(1), tir.Evaluate(COUNT))), "with T.LetStmt(1, var=n):\n    T.evaluate(n)"),
    (tir.PrimFunc([COUNT], tir.BufferRealize(ROOM, [Range.from_min_extent(2, 4)], COUNT < 3, tir.Evaluate(COUNT))),
     'B = T.Buffer((8,))\nT.realize(B[2:6], "global", n < 3)\nT.evaluate(n)'),
    (tir.PrimFunc([COUNT], tir.BufferRealize(ROOM, [Range.from_min_extent(2, 4)], True, tir.Evaluate(COUNT))),
     'B = T.Buffer((8,))\nT.realize(B[2:6], "global")\nT.evaluate(n)'),
]  # fmt: skip


@pytest.mark.parametrize(("function", "text"), MAIN)
def test_texts_of_rare_statements(function, text):
    body = function.script().split("\n", 4)[4]
    assert body == "    " + text.replace("\n", "\n    ")


def test_numbers_of_lines():
    x = relax.Var("x", relax.TensorStructInfo((2,), "float32"))
    empty, flow = relax.BindingBlock([]), relax.DataflowBlock([])
    function = relax.Function([x], relax.SeqExpr([empty, flow], x))
    text = function.script(print_line_numbers=True)
    assert [line.split(" ")[0] for line in text.split("\n")] == list("1234567")
    assert numbered(function).numbers() == {id(flow): 3}


def test_formatted(capsys, monkeypatch):
    black = SimpleNamespace(
        FileMode=lambda: 88, format_str=lambda text, mode: f"{text}, {mode}\n\n"
    )
    monkeypatch.setitem(sys.modules, "black", black)
    for spec in (None, "found"):
        monkeypatch.setattr(highlight, "find_spec", lambda name, spec=spec: spec)
        cprint("x=1", black_format=True)
    assert capsys.readouterr().out == "x=1\nx=1, 88\n"


def test_coloured(capsys):
    cprint("x = 1", "ansi")
    cprint("x = 1", "dark")
    cprint("x=1")
    ansi, dark, plain, *_ = capsys.readouterr().out.split("\n")
    assert plain == "x=1" and "\x1b[34m1" in ansi and "\x1b[38;5;" in dark


def test_frames_of_a_builder_that_end_early():
    no_result = pytest.raises(RuntimeError, match="function main has no result")
    with IRBuilder(), no_result, BR.function():
        BR.arg("x", R.Object())
    with pytest.raises(KeyError, match="mine"), IRBuilder() as ib, BR.function():
        BR.func_ret_value(BR.arg("x", R.Object()))
        raise KeyError("mine")
    assert not ib.results


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_an_error_is_reported_once(depth):
    seen: list = []
    override_renderer(seen.append)
    try:
        with pytest.raises(DiagnosticError), ExitStack() as stack:
            for _ in range(depth):
                stack.enter_context(Parser(*parse_text("1")[:1], Scope({})).active())
            raise DiagnosticError("no")
    finally:
        override_renderer(None)
    assert len(seen) == 1


OTHERS = ("atomic_add", "thread_return", "tvm_check_return", "tvm_context_id")  # T has no builder


@pytest.mark.parametrize("name", [*op_target.RESULTS, *op_target.TYPED, *OTHERS])
def test_an_intrinsic_keeps_its_type(name):
    """And operands, also where they are more or fewer than T's function takes."""
    a = tir.Var("a", "handle")
    counts = {2, *op_target.COUNTS.get(name, ())[:2]}
    for dtype, count in itertools.product(("void", "handle", "int32"), counts):
        operands = [a, *range(count - 1)] if count else []
        body = tir.Evaluate(tir.call_intrin(dtype, f"tir.{name}", *operands))
        func = tir.PrimFunc([a], body).with_attr("global_symbol", "main")
        assert_structural_equal(from_source(func.script()), func)


def test_intrinsics_take_names_and_defaults():
    a = tir.Var("a", "handle")
    made = T.simdgroup_load(a, 0, ptr=a, stride=4)
    assert_structural_equal(made, tir.simdgroup_load(a, 0, a, 4, 8, 8, False))
    assert len(made.args) == 7 and made.args[6].dtype == "bool"
    shuffled = T.tvm_warp_shuffle(mask=0, value=T.float16(1), warp_id=1, width=32, warp_size=32)
    assert shuffled.dtype == "float16"
    assert T.mma_fill(dtype="float16", local_size=8, local_ptr=a, offset=0).dtype == "float16"
    with pytest.raises(TypeError, match=r"ptx_wait_group\(num.*\n.*missing .*'num'"):
        tir.ptx_wait_group()


def test_dot_products_of_four_bytes():
    v = tir.Var("v", "int8x4")
    func = tir.PrimFunc([v], tir.Evaluate(tir.dp4a(v, v, 3))).with_attr("global_symbol", "main")
    assert_structural_equal(from_source(func.script()), func)
