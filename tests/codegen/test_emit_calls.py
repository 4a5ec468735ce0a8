"""Calls in compiled code: C functions, other kernels, LLVM intrinsics, registered Python functions."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.codegen.llvm import jit, support
from loopwright.codegen.llvm.emit import add_function
from loopwright.codegen.llvm.module_text import ModuleText, text_of
from loopwright.ir.module import IRModule
from loopwright.ir.op import Op
from loopwright.runtime import NativeFunction, tensor
from loopwright.runtime.packed_func import register_func, remove_global_func
from loopwright.script import from_source
from loopwright.script import ir as I
from loopwright.script import tir as T
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

from .emitted import agree, apply, compiled, padded, program

pytestmark = pytest.mark.no_roundtrip


@pytest.fixture
def registered():
    """Registers functions for one test."""
    names = []

    def put(name, function):
        names.append(name)
        register_func(name, function, override=True)

    yield put
    for name in names:
        remove_global_func(name)


def test_c_functions_on_scalars_and_on_vectors():
    x = padded([0.5, 1.0, 2.0, -3.0], "float64")

    def extern(name, *args):
        return tir.call_pure_extern(args[0].dtype, name, *args)

    fns = {
        "cbrt": lambda a: extern("cbrt", a),
        "pow": lambda a: extern("pow", a, a * a),
        "twice": lambda a: extern("exp", a) + extern("exp", a),
    }
    apply(fns, x, rtol=1e-14)
    y = padded([0.5, 1.0, 2.0, -3.0], "float32")
    apply({"expf": lambda a: extern("expf", a)}, y, rtol=1e-6)
    for lanes in (2, 8):
        vector = tir.decl_buffer((lanes,), "float64", "v")
        at = tir.Ramp(tir.const(0), tir.const(1), lanes)
        called = tir.call_extern(f"float64x{lanes}", "cbrt", tir.BufferLoad(vector, [at]))
        store = tir.BufferStore(vector, called, [at])
        agree(tir.PrimFunc([vector], store), x[:lanes], rtol=1e-14)


def test_a_kernel_may_have_the_name_of_a_c_function():
    @T.prim_func
    def exp(A: T.Buffer((8,), "float64"), B: T.Buffer((8,), "float64")):
        for i in range(8):
            B[i] = T.exp(A[i]) + T.call_extern("float64", "exp", A[i])

    @T.prim_func
    def malloc(A: T.Buffer((8,), "float64"), B: T.Buffer((8,), "float64")):
        for i in range(8):
            B[i] = T.exp(A[i])

    x = np.linspace(-1, 1, 8)
    agree(malloc, x, np.zeros(8), rtol=1e-14)
    assert "@lw.exp(" in program({"exp": exp.with_attr("tir.noalias", True)}).text("exp")


def test_llvm_intrinsics():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = T.call_llvm_pure_intrin(
                "float32", "llvm.fma", A[i], A[i], T.float32(1)
            ) + T.call_llvm_pure_intrin("float32", "llvm.fabs.f32", A[i])
        T.evaluate(T.call_llvm_intrin("void", "llvm.prefetch.p0", A.data, 0, 3, 1))

    x = np.array([1, -2, 3, -4, 0.5, -0.25, 8, 9], "float32")
    got = np.zeros(8, "float32")
    compiled({"f": f})["f"](x, got)
    np.testing.assert_array_equal(got, x * x + 1 + abs(x))


@pytest.mark.parametrize("value", [0, 5])
def test_a_returned_literal(value):
    body = tir.Evaluate(tir.ret(tir.const(value)))
    made = compiled({"f": tir.PrimFunc([], body).with_attr("global_symbol", "f")})
    assert made["f"]() == value


def test_functions_call_each_other_and_hand_values_and_errors_back():
    @I.ir_module
    class Module:
        @T.prim_func
        def double(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            assert A[0] >= T.float32(0), "double: A[0] is negative"
            for i in range(8):
                B[i] = A[i] * T.float32(2)

        @T.prim_func
        def square(x: T.int32) -> T.int32:
            T.evaluate(T.ret(x * x))

        @T.prim_func
        def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
            Module.double(A.data, B.data)
            for _i in T.parallel(8):
                Module.double(B.data, B.data)

        @T.prim_func
        def g(C: T.Buffer((8,), "int32")):
            for i in T.parallel(8):
                C[i] = Module.square(i) + 1

    made = compiled(Module)
    x, y = np.ones(8, "float32"), np.zeros(8, "float32")
    made["f"](x, y)
    assert (y % 4 == 0).all() and y[0] >= 4  # the parallel calls race; each doubles
    c = np.zeros(8, "int32")
    made["g"](c)
    np.testing.assert_array_equal(c, np.arange(8) ** 2 + 1)
    x[0] = -1
    with pytest.raises(ValueError, match=r"^double: A\[0\] is negative$"):
        made["f"](x, y)


def test_packed_calls_pass_numbers_strings_and_tensors(registered):
    seen = []

    def record(*args):
        shown = [a.numpy().copy() if hasattr(a, "numpy") else a for a in args]
        seen.append(shown)
        return 7

    registered("test.record", record)

    @T.prim_func
    def f(A: T.Buffer((2, 3), "float32"), n: T.int32):
        x: T.int32 = T.call_packed("test.record", n, T.float32(1.5), "text", A, n > 3)
        A[0, 0] = T.Cast("float32", x)

    a = np.arange(6, dtype="float32").reshape(2, 3)
    compiled({"f": f})["f"](a, 5)
    number, real, text, array, flag = seen[0]
    assert (number, real, text, flag) == (5, 1.5, "text", True)
    np.testing.assert_array_equal(array, np.arange(6).reshape(2, 3))
    assert a[0, 0] == 7


def test_packed_functions_write_into_tensors_and_return_each_kind(registered):
    def fill(tensor, value):
        tensor.copyfrom(np.full(tensor.shape, value, tensor.dtype))

    registered("test.fill", fill)
    registered("test.real", lambda: 2.5)
    registered("test.object", lambda: [1, 2, 3])
    registered("test.flag", lambda: True)

    @T.prim_func
    def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float64")):
        T.evaluate(T.call_packed("test.fill", A, T.float32(3)))
        T.evaluate(T.call_packed("test.object"))
        C = T.decl_buffer((2, 2), "float32")
        T.evaluate(T.call_packed("test.fill", C, T.float32(9)))
        B[0] = T.Cast("float64", C[1, 1])

    real = tir.call_intrin("float64", "tir.call_packed", "test.real")
    flag = tir.call_intrin("bool", "tir.call_packed", "test.flag")
    out = tir.decl_buffer((2,), "float64", "out")
    stores = [tir.BufferStore(out, real, [0]), tir.BufferStore(out, flag.astype("float64"), [1])]
    made = compiled({"f": f, "g": tir.PrimFunc([out], tir.SeqStmt(stores))})
    a, b = np.zeros(4, "float32"), np.zeros(4)
    made["f"](a, b)
    assert (a == 3).all() and b[0] == 9
    got = np.zeros(2)
    made["g"](got)
    np.testing.assert_array_equal(got, [2.5, 1.0])


def test_errors_of_packed_functions_come_through_with_their_kind(registered):
    def fail(i):
        if i >= 0:
            raise IndexError(f"no element {i}")

    registered("test.fail", fail)

    @T.prim_func
    def serial(n: T.int32):
        T.evaluate(T.call_packed("test.fail", n))

    @T.prim_func
    def parallel(n: T.int32):
        for i in T.parallel(16):
            T.evaluate(T.call_packed("test.fail", i * 0 + n))

    @T.prim_func
    def missing(n: T.int32):
        T.evaluate(T.call_packed("test.nowhere", n))

    made = compiled({"serial": serial, "parallel": parallel, "missing": missing})
    made["serial"](-1)
    made["parallel"](-1)
    for name in ("serial", "parallel"):
        with pytest.raises(IndexError, match="no element 3"):
            made[name](3)
    with pytest.raises(ValueError, match="cannot find global function 'test.nowhere'"):
        made["missing"](1)


def test_a_function_registered_again_is_the_one_called(registered):
    @T.prim_func
    def f(A: T.Buffer((1,), "int32")):
        A[0] = T.call_packed("test.again")

    native, a = compiled({"f": f})["f"], np.zeros(1, "int32")
    for value in (1, 2):
        registered("test.again", lambda value=value: value)
        native(a)
        assert a[0] == value


def test_packed_entries_of_the_loop_language_work_like_the_native_ones():
    """MakePackedAPI's entries read their arguments in TensorIR: compiled, they are entries too."""

    @T.prim_func
    def f(a: T.handle, k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            A[i] = A[i] + T.Cast("float32", k)

    mod = tt.MakePackedAPI()(IRModule({"f": f}))
    lowered = tt.default_tir_pipeline()(mod)

    functions = {g.name_hint: p for g, p in lowered.functions.items()}
    module = ModuleText("m", functions)
    for name, func in functions.items():
        add_function(module, name, func)
    code = jit.compile_object(text_of(module.code()), verify=True)
    library = jit.load_objects([code], support.symbols(), ["lw.__tvm_ffi_f"])
    native = NativeFunction(library["lw.__tvm_ffi_f"], "f", library)
    x = np.arange(5, dtype="float32")
    native(x, 3)
    np.testing.assert_array_equal(x, np.arange(5) + 3)
    with pytest.raises(ValueError, match=r"argument A \(#0\) must have dtype float32"):
        native(np.zeros(3), 3)


def test_interpreter_and_compiled_code_agree_on_packed_calls(registered):
    def scale(tensor, by):
        tensor.copyfrom(tensor.numpy() * by)
        return 4

    registered("test.scale", scale)

    @T.prim_func
    def f(A: T.Buffer((2, 4), "float32"), B: T.Buffer((1,), "int32")):
        B[0] = T.call_packed("test.scale", A, 3)

    arrays = np.arange(8, dtype="float32").reshape(2, 4), np.zeros(1, "int32")
    want = [a.copy() for a in arrays]
    run(f, want)
    compiled({"f": f})["f"](*arrays)
    for got, expected in zip(arrays, want, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_traces(registered, dtype):
    """A traced value is what the function returns, or the last argument; each call is made once."""
    seen = []
    registered("test.watch", lambda *args: seen.append(args))
    registered("test.plus_ten", lambda i, x: x + 10)
    A, B = (tir.decl_buffer((3,), dtype, name) for name in "AB")
    i = tir.Var("i", "int32")
    inner = tir.trace([i, tir.BufferLoad(A, [i])], "test.watch")
    outer = tir.trace([i, inner], "test.plus_ten")
    loop = tir.For(i, 0, 3, tir.ForKind.SERIAL, tir.BufferStore(B, outer, [i]))
    func = tir.PrimFunc([A, B], loop)
    given = np.array([1, 2, 3], dtype)
    out = np.zeros(3, dtype)
    run(func, [given.copy(), out])
    np.testing.assert_array_equal(out, given + 10)
    lw.compile(func, target="llvm")(given, out := np.zeros(3, dtype))
    np.testing.assert_array_equal(out, given + 10)
    assert seen == [(k, v) for _ in range(2) for k, v in enumerate([1, 2, 3])]


def test_the_default_trace_prints(capfd):
    A = tir.decl_buffer((1,), "int32", "A")
    store = tir.BufferStore(A, tir.trace(["here", tir.BufferLoad(A, [0])]), [0])
    lw.compile(tir.PrimFunc([A], store), target="llvm")(np.array([7], "int32"))
    assert capfd.readouterr().out == "['here', 7]\n"


def test_source(tmp_path):
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = 1.0

    built = lw.compile(main, target="llvm")
    assert "define" in built.get_source()
    assert built.get_source() == built.inspect_source()
    assert ".text" in built.get_source("asm")
    built.save(tmp_path / "a.s")
    assert (tmp_path / "a.s").read_text() == built.get_source("asm")
    built.save(tmp_path / "a.ll")  # with what a library has, so that it can be loaded
    assert "define" in (tmp_path / "a.ll").read_text()
    built.save(tmp_path / "a.o")
    assert (tmp_path / "a.o").read_bytes().startswith(b"\x7fELF")
    assert not (tmp_path / "a.h").exists()
    assert "main" in lw.compile(main, target="c").get_source()


def test_the_older_name_of_packed_calls():
    assert tir.call_packed("f").op is Op.get("tir.tvm_call_packed")


def test_addresses_as_numbers():
    """An address is a number; no address is 0."""
    out, null = (
        tir.decl_buffer((4,), "int64", "out"),
        tir.reinterpret("handle", tir.const(0, "int64")),
    )
    places = [tir.Call("handle", "tir.address_of", [out[k]]) for k in (0, 2)]
    first, third = (tir.Cast("int64", p) for p in places)
    stores = [
        tir.BufferStore(out, value, [k])
        for k, value in enumerate((third - first, first - first, tir.Cast("int64", null)))
    ]
    got = np.full(4, 7, "int64")
    func = tir.PrimFunc([out], tir.SeqStmt(stores), attrs={"global_symbol": "main"})
    compiled({"main": func})["main"](got)
    assert got.tolist() == [16, 0, 0, 7]


VALUES = '@T.prim_func\ndef main(A: T.Buffer((8,), "float32"), I: T.Buffer((8,), "int32"), n: T.int32):\n    '
REFUSED = {
    "for i in T.parallel(4):\n        T.evaluate(T.ret(i))": "T.ret inside a parallel loop",
    "I[0] = T.tvm_struct_get(A.data, 0, 99, 'int32')": "tir.tvm_struct_get: unknown field\n  got: 99",
    "T.evaluate(T.tvm_stack_alloca('words', 3))": 'takes a kind and a number\n  got: T.tvm_stack_alloca\\("words", 3\\)',
    "T.evaluate(T.tvm_stack_alloca('shape', n))": "takes a kind and a number",
    "s: T.handle = T.tvm_stack_alloca('arg_value', 3)\n    T.evaluate(T.call_packed_lowered('f', s, n, 2))":
        "tir.call_packed_lowered takes literal positions\n  got: n and 2",
    "s: T.handle = T.tvm_stack_alloca('arg_value', 3)\n    T.evaluate(T.call_packed_lowered('f', s, 0, n))":
        "tir.call_packed_lowered takes literal positions\n  got: 0 and n",
    "T.call_packed('f', T.Broadcast(n, 4))": "a packed function cannot take vectors\n  got: int32x4",
    "I[0] = T.Call('int32', 'tir.sqrt', [n])": "tir.sqrt has no LLVM code for int32",
    "I[0] = T.Cast('int32', T.Cast('float8_e8m0fnu', A[1]))": "this type has no rounding in LLVM code\n  got: float8_e8m0fnu",
}  # fmt: skip


@pytest.mark.parametrize("body", REFUSED)
def test_what_has_no_llvm_code(body):
    with pytest.raises(LoopwrightError, match=REFUSED[body]):
        lw.build(from_source(VALUES + body), target="llvm")


def test_bits_of_truths_and_pointers():
    """A truth is its last bit; an address of a pointer is the pointer."""
    func = from_source(
        VALUES
        + """for i in range(4):
        I[i] = T.Cast("int32", T.reinterpret("bool", T.Cast("int8", I[i] + 1)))
        I[i + 4] = T.Cast("int32", T.reinterpret("int8", I[i + 4] > n))
    p: T.handle("float32") = T.address_of(A.data)
    P = T.Buffer((8,), data=p)
    P[3] = A[2] + T.float32(5)
    A[0] = T.Cast("float32", T.Cast("bool", A.data))
    A[1] = T.Cast("float32", T.reinterpret("uint64", T.reinterpret("handle", T.uint64(0))))
"""
    )
    a, i = tensor(np.arange(8, dtype="float32")), tensor(np.arange(8, dtype="int32"))
    lw.build(func, target="llvm")["main"](a, i, 5)
    assert i.numpy().tolist() == [1, 0, 1, 0, 0, 0, 1, 1]
    assert a.numpy().tolist() == [1, 0, 2, 7, 4, 5, 6, 7]
