"""Statements, pointers and calls in C code against what they mean."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.script import from_source

pytestmark = [
    pytest.mark.no_roundtrip,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc"),
]

A, B, C = (
    tir.decl_buffer((4,), dtype, n)
    for n, dtype in zip("ABC", ("int32", "int64", "int8"), strict=True)
)
F = tir.decl_buffer((4,), "float32", "F")
x, y, i = (tir.Var(name, "int32") for name in "xyi")
NULL = tir.reinterpret("handle", tir.const(0, "int64"))


def seq(*some):
    """Statements; expressions are evaluated."""
    return tir.SeqStmt([s if isinstance(s, tir.Stmt) else tir.Evaluate(s) for s in some])


def stores(buffer, *values):
    return seq(*(tir.BufferStore(buffer, v, [k]) for k, v in enumerate(values)))


def loop(body):
    return tir.For(i, 0, 4, tir.ForKind.SERIAL, body)


def address(buffer, k):
    return tir.Call("handle", "tir.address_of", [buffer[k]])


def number(pointer):
    return tir.Cast("int64", pointer)


def is_null(pointer):
    return tir.Cast("int64", tir.Call("bool", "tir.isnullptr", [pointer]))


def added(dtype, pointer, value):
    return tir.Call(dtype, "tir.atomic_add", [pointer, tir.const(value, dtype)])


def moved(by):
    return tir.Call("handle", "tir.handle_add_byte_offset", [A.data, by])


def early(value):
    return tir.IfThenElse(A[0] < 0, tir.Evaluate(value))


LAST = tir.BufferStore(A, tir.const(99), [3])
# name: parameters, statement, arrays before, arrays after
CASES = {
    "ret": ([A], seq(early(tir.ret(tir.const(0))), LAST), [[-1, 2, 3, 4]], [[-1, 2, 3, 4]]),
    "ret_none": ([A], seq(early(tir.ret()), LAST), [[-1, 2, 3, 4]], [[-1, 2, 3, 4]]),
    "not_ret": ([A], seq(early(tir.ret()), LAST), [[0, 2, 3, 4]], [[0, 2, 3, 99]]),
    "thread_return": (
        [A],
        seq(early(tir.call_intrin("void", "tir.thread_return")), LAST),
        [[-1, 2, 3, 4]],
        [[-1, 2, 3, 4]],
    ),
    "predicates": (
        [A, B],
        loop(tir.BufferStore(A, tir.BufferLoad(B, [i], A[i] > 1).astype("int32"), [i], A[i] < 3)),
        [[0, 1, 2, 3], [5, 6, 7, 8]],
        [[0, 0, 7, 3], [5, 6, 7, 8]],
    ),
    "addresses": (
        [B],
        stores(
            B,
            number(address(B, 2)) - number(address(B, 0)),
            number(tir.Cast("bool", address(B, 0))),
            is_null(NULL),
            is_null(address(B, 0)),
        ),
        [[7] * 4],
        [[16, 1, 1, 0]],
    ),
    "atomic": (
        [A, C, F],
        seq(
            tir.BufferStore(A, added("int32", address(A, 1), 5), [0]),
            added("int8", address(C, 1), 100),
            added("float32", F.data, 0.5),
            added("float32", tir.Call("handle", "tir.address_of", [F.data]), 0.5),
        ),
        [[1, 2, 3, 4], [1, 100, 3, 4], [1, 2, 3, 4]],
        [[2, 7, 3, 4], [1, -56, 3, 4], [2, 2, 3, 4]],
    ),
    "moved": (
        [A, x],
        seq(*(added("int32", moved(by), 10 * k) for k, by in enumerate((0, 4, x * 4 - 4), 1))),
        [[1, 2, 3, 4], 3],
        [[11, 22, 33, 4], 3],
    ),
    "bits": (
        [A, C],
        loop(tir.BufferStore(A, tir.reinterpret("bool", C[i]).astype("int32"), [i])),
        [[7] * 4, [0, 1, 1, 0]],
        [[0, 1, 1, 0], [0, 1, 1, 0]],
    ),
    "let": (
        [A, x],
        stores(A, tir.Let(y, x * 3 + 1, y * y - y)),
        [[1, 2, 3, 4], 3],
        [[90, 2, 3, 4], 3],
    ),
    "bound": (  # i < (x & 3), not (i < x) & 3
        [A, x],
        tir.For(i, 0, tir.floormod(x, 4), tir.ForKind.SERIAL, tir.BufferStore(A, A[i] + 10, [i])),
        [[1, 2, 3, 4], 6],
        [[11, 12, 3, 4], 6],
    ),
    "unused": (
        [A],
        tir.LetStmt(
            x,
            tir.call_extern("int32", "rand"),
            seq(tir.call_intrin("void", "tir.prefetch", x), LAST),
        ),
        [[1, 2, 3, 4]],
        [[1, 2, 3, 99]],
    ),
}


def function(name):
    return tir.PrimFunc(CASES[name][0], CASES[name][1]).with_attr("global_symbol", name)


@pytest.fixture(scope="module")
def model():
    return lw.compile(IRModule({name: function(name) for name in CASES}), "c")


@pytest.fixture(scope="module")
def library(model):
    return model.build(flags=["-O0"])


@pytest.mark.parametrize("name", CASES)
def test_statements(library, name):
    params, _, before, after = CASES[name]
    given = [
        np.array(v, str(p.dtype)) if isinstance(v, list) else v
        for p, v in zip(params, before, strict=True)
    ]
    library[name](*given)
    assert [v.tolist() if isinstance(v, np.ndarray) else v for v in given] == after


def test_an_unused_value_is_computed_where_it_calls_a_function(model):
    (text,) = re.findall(r"\w*unused\(int32_t\* A\) {(.*?)\n}", model.source, re.S)
    assert text.split() == ["(void)(rand());", "A[3]", "=", "99;"]


def calling(op, n):
    """A call of a function of the module whose scalar is at most 6."""
    size = tir.Var("n", "int64")
    helper = tir.PrimFunc([A, size], tir.BufferStore(A, size.astype("int32"), [1]))
    attrs = {"global_symbol": "helper", "tir_var_upper_bound": {"n": 6}}
    call = tir.Evaluate(tir.Call("int32", op, ["helper", A.data, tir.const(n, "int64")]))
    main = tir.PrimFunc([A], call).with_attr("global_symbol", "main")
    return IRModule({"helper": helper.with_attr(attrs), "main": main})


@pytest.mark.parametrize("op", ["tir.call_extern", "tir.call_packed"])
def test_functions_of_the_program_are_called_by_name(op):
    source = lw.compile(calling(op, 6), "c").source
    assert "  model_helper(A, 6);\n" in source and "extern" not in source
    with pytest.raises(LoopwrightError, match="n of model_helper may be more than 6"):
        lw.compile(calling(op, 7), "c")


def test_a_function_without_a_prototype_is_declared():
    def compiled(*calls):
        body = seq(*(tir.call_extern("int32", "lw_unknown", *args) for args in calls))
        return lw.compile(tir.PrimFunc([A, x], body).with_attr("global_symbol", "main"), "c").source

    source = compiled(("text", A.data, x), ("other", A.data, x))
    assert source.count("extern int32_t lw_unknown(const char*, void*, int32_t);") == 1
    assert '  lw_unknown("text", A, x);\n' in source
    assert "model_main(int32_t* A, int32_t x)" in source  # it may write
    with pytest.raises(LoopwrightError, match="called with different numbers of arguments"):
        compiled(("text",), ("text", x))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (tir.ret(tir.const(1)), "a function that returns a value has no C code"),
        (tir.ret(x), "a function that returns a value has no C code"),
        (tir.call_extern("int32", x), "takes the function's name as its first argument"),
        (tir.Call("int32", "tir.exp", [x]), "tir.exp has no C code for int32"),
        (
            tir.Call("float8_e4m3fn", "tir.nextafter", [tir.Cast("float8_e4m3fn", F[0])] * 2),
            "tir.nextafter has no C code for float8_e4m3fn",
        ),
        (tir.Cast("float8_e8m0fnu", F[0]), "this type has no rounding in C code"),
    ],
)
def test_what_is_refused(value, what):
    out = tir.decl_buffer((1,), "int32" if value.dtype == "void" else value.dtype, "out")
    body = tir.Evaluate(value) if "returns" in what or "name" in what else stores(out, value)
    main = tir.PrimFunc([x, F, out], body).with_attr("global_symbol", "main")
    with pytest.raises(LoopwrightError, match=re.escape(what)):
        lw.compile(main, "c")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (tir.StringImm("wrong"), "wrong"),
        (tir.const(3), "3"),
        (tir.call_intrin("handle", "tir.tvm_tuple", "twice {value}", x), "twice {value}"),
        (tir.call_intrin("handle", "tir.tvm_tuple"), "T.tvm_tuple()"),
    ],
)
def test_messages_of_assertions(message, text):
    body = tir.AssertStmt(x > 0, message, tir.BufferStore(A, x, [0]))
    main = tir.PrimFunc([A, x], body).with_attr("global_symbol", "main")
    assert f'MODEL_ERROR("{text}");' in lw.compile(main, "c").source


@pytest.mark.parametrize(
    ("call", "body", "said"),
    [
        ("I[0] = M.f(I.data, n)", "T.evaluate(0)", "the value of a call of f is used"),
        ("M.f(I.data, n)", "M.f(p, n - 1)", "f calls itself\n  instead: C code has no recursion"),
    ],
)
def test_calls_that_c_has_not(call, body, said):
    mod = from_source(f"""
@I.ir_module
class M:
    @T.prim_func
    def main(I: T.Buffer((8,), "int32"), n: T.int32):
        {call}
    @T.prim_func(private=True)
    def f(p: T.handle("int32"), n: T.int32) -> T.int32:
        {body}
""")
    with pytest.raises(LoopwrightError, match=said):
        lw.build(mod, target="c")
