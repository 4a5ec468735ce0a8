"""Custom types: registered, lowered, run in the interpreter and as native code."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.ir import datatype
from loopwright.ir.dtype import DataType
from loopwright.ir.module import IRModule
from loopwright.ir.prim_op import min_value
from loopwright.runtime import register_func
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run
from loopwright.tir.op import call_packed, reinterpret
from loopwright.tir.transform.low_precision import StoreAsBits
from loopwright.tvm.tir_transform.bf16_compute_legalize import is_bfloat16

STORED = StoreAsBits(is_bfloat16)
decode, encode = STORED.decode, STORED.encode

BF = DataType("bfloat16")
datatype.register("brain", 150)
datatype.register("halves", 151)


def on_floats(make):
    """An operation done on the float32 that two values of 16 bits stand for."""

    def lower(op):
        return encode(make(decode(op.a, BF), decode(op.b, BF)), BF)

    return lower


def test_rewriting_functions(monkeypatch):
    both = lambda a, b: (decode(a, BF), decode(b, BF))  # noqa: E731
    for name, make in (
        ("Add", lambda a, b: a + b),
        ("Mul", lambda a, b: a * b),
        ("Max", lambda a, b: lw.tir.max_value("float32") if a is b else lw.tir.Max(a, b)),
    ):
        datatype.register_op(on_floats(make), name, "llvm", "brain")
    datatype.register_op(lambda op: lw.tir.LT(*both(op.a, op.b)), "LT", "llvm", "brain")
    datatype.register_op(lambda op: encode(op.value, BF), "Cast", "llvm", "float", "brain")
    datatype.register_op(lambda op: decode(op.value, BF), "Cast", "llvm", "brain", "float")
    datatype.register_op(
        lambda op: encode(lw.tir.exp(decode(op.args[0], BF)), BF),
        *("Call", "llvm", "brain"),
        intrinsic_name="tir.exp",
    )
    text = """
@T.prim_func
def main(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    T.func_attr({"global_symbol": "main"})
    with T.block("root"):
        T.reads()
        T.writes()
        C = T.alloc_buffer((32,), "custom[brain]16")
        for i in T.vectorized(32):
            with T.block("C"):
                vi = T.axis.spatial(32, i)
                T.reads(A[vi])
                T.writes(C[vi])
                C[vi] = T.Cast("custom[brain]16", A[vi]) * T.Cast("custom[brain]16", T.float32(3))
        for i in range(32):
            with T.block("B"):
                vi = T.axis.spatial(32, i)
                T.reads(C[vi])
                T.writes(B[vi])
                B[vi] = T.Cast("float32", T.if_then_else(C[vi] < C[31 - vi], C[vi] + C[vi], C[31 - vi]))
"""
    mod = IRModule({"main": from_source(text)})
    a = np.random.default_rng(0).standard_normal(32).astype("float32")
    c = (a.astype(ml_dtypes.bfloat16) * ml_dtypes.bfloat16(3)).astype(ml_dtypes.bfloat16)
    want = np.where(c < c[::-1], c + c, c[::-1]).astype("float32")
    lowered = tt.LowerCustomDatatypes()(tt.lower_to_loops()(mod))
    assert "custom" not in lowered.script() and "uint16" in lowered.script()
    got = np.zeros(32, "float32")
    run(lowered["main"], [a, got])
    np.testing.assert_array_equal(got, want)
    native = np.zeros(32, "float32")
    lw.build(mod, target="llvm")["main"](a, native)
    np.testing.assert_array_equal(native, want)


HALVES = """
@T.prim_func
def main(A: T.Buffer((6,), "custom[halves]32"), B: T.Buffer((6,), "custom[halves]32"), C: T.Buffer((6,), "float32")):
    T.func_attr({"global_symbol": "main"})
    for i in range(6):
        x: T.float32 = T.Cast("float32", A[i] + B[i])
        C[i] = x
"""


def test_packed_functions():
    """A fixed-point type whose arithmetic is Python's: 32 bits counting halves."""
    register_func("test.halves.add", lambda a, b: a + b, override=True)
    register_func("test.halves.to_float", lambda a: a / 2, override=True)

    def add(op):
        return lw.tir.Cast("uint32", call_packed("test.halves.add", op.a, op.b))

    def to_float(op):
        return call_packed("test.halves.to_float", op.value).replace(dtype=DataType("float32"))

    datatype.register_op(add, "Add", "llvm", "halves")
    datatype.register_op(to_float, "Cast", "llvm", "halves", "float")
    mod = IRModule({"main": from_source(HALVES)})
    a, b = np.arange(6, dtype="uint32"), np.full(6, 3, "uint32")
    for execute in (
        lambda c: run(tt.lower_to_loops()(mod)["main"], [a, b, c]),
        lambda c: lw.build(mod, target="llvm")["main"](a, b, c),
    ):
        c = np.zeros(6, "float32")
        execute(c)
        np.testing.assert_array_equal(c, (a + b) / 2)


def test_c_functions():
    """As TVM's tests have them: names by width, the calls take and give bits."""
    lower = datatype.create_lower_func
    datatype.register("posites2", 152)
    datatype.register_op(lower({(32, 8): "FloatToPosit8es2"}), "Cast", "llvm", "float", "posites2")
    datatype.register_op(lower({(8, 32): "Posit8es2ToFloat"}), "Cast", "llvm", "posites2", "float")
    datatype.register_op(lower({8: "Posit8es2Add"}), "Add", "llvm", "posites2")
    datatype.register_op(
        lower({8: "Posit8es2Exp"}), "Call", "llvm", "posites2", intrinsic_name="tir.exp"
    )
    datatype.register_min_func(
        datatype.create_min_lower_func({8: "MinPosit8es2"}, "posites2"), "posites2"
    )
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        x: T.float32 = A[i]
        B[i] = T.Cast("float32", T.exp(T.Cast("custom[posites2]8", x) + T.Cast("custom[posites2]8", T.float32(1))))
""")
    text = tt.LowerCustomDatatypes()(IRModule({"main": func})).script()
    call = 'T.call_pure_extern("uint8", "FloatToPosit8es2", {})'
    x, one = call.format("x"), call.format("T.float32(1.0)")
    inner = f'T.call_pure_extern("uint8", "Posit8es2Add", {x}, {one})'
    inner = f'T.call_pure_extern("uint8", "Posit8es2Exp", {inner})'
    assert f'B[i] = T.call_pure_extern("float32", "Posit8es2ToFloat", {inner})' in text
    assert "MinPosit8es2" in str(min_value("custom[posites2]8"))
    assert (
        str(reinterpret("custom[posites2]8", lw.tir.const(3, "uint8")).dtype) == "custom[posites2]8"
    )


def test_what_is_not_registered():
    with pytest.raises(ValueError, match=r'datatype.register\("nobody", code\) makes it one'):
        DataType("custom[nobody]32")
    with pytest.raises(ValueError, match="151 is halves"):
        datatype.register("halves", 160)
    with pytest.raises(ValueError, match="150 is brain"):
        datatype.register("other", 150)
    with pytest.raises(ValueError, match="use 129 or more"):
        datatype.register("small", 3)
    with pytest.raises(
        LoopwrightError, match=r"Sub of custom\[halves\]32 has no lowering for llvm"
    ):
        text = HALVES.replace("A[i] + B[i]", "A[i] - B[i]")
        tt.LowerCustomDatatypes()(IRModule({"main": from_source(text)}))
    assert datatype.get_type_name(151) == "halves" and datatype.get_type_code("brain") == 150
    assert datatype.get_type_registered(150) and not datatype.get_type_registered(200)


def test_what_has_no_c_function():
    datatype.register("partial", 153)
    x = lw.tir.Var("x", "custom[partial]16")
    lower = datatype.create_lower_func({32: "Add32"})
    with pytest.raises(RuntimeError, match="no function is registered for Add of this width"):
        lower(lw.tir.Add(x, x))
    with pytest.raises(RuntimeError, match="Select of a custom type is not lowered to a call"):
        lower(lw.tir.Select(lw.tir.Var("c", "bool"), x, x))
    with pytest.raises(ValueError, match="8, 16, 32 or 64 bits"):
        DataType("custom[partial]7")


def test_bits_variables_and_numbers():
    datatype.register("raw", 154)
    datatype.register_op(lambda op: encode(op.value, BF), "Cast", "llvm", "float", "raw")
    func = from_source("""
@T.prim_func
def main(A: T.Buffer((4,), "uint16"), B: T.Buffer((4,), "uint16"), C: T.Buffer((4,), "int16")):
    for i in range(4):
        x = T.bind(T.reinterpret("custom[raw]16", A[i]))
        B[i] = T.reinterpret("uint16", x)
        C[i] = T.reinterpret("int16", T.call_pure_extern("custom[raw]16", "f", x))
""")
    text = tt.LowerCustomDatatypes()(IRModule({"main": func})).script()
    assert "custom" not in text and "x: T.uint16 = A[i]" in text and "B[i] = x" in text
    assert 'C[i] = T.reinterpret("int16", T.call_pure_extern("uint16", "f", x))' in text
    buffer = lw.tir.decl_buffer((1,), "custom[raw]16", "D")

    def stored(value):
        one = lw.tir.PrimFunc([buffer], lw.tir.BufferStore(buffer, value, [0]))
        return tt.LowerCustomDatatypes()(IRModule({"main": one}))["main"]

    number = lw.tir.FloatImm("custom[raw]16", 1.5)
    got = np.zeros(1, "uint16")
    run(stored(number), [got])  # without a lowering of its own, it is cast
    assert got[0] == np.array([1.5], ml_dtypes.bfloat16).view("uint16")[0]
    datatype.register_op(lambda op: lw.tir.const(7, "uint16"), "FloatImm", "llvm", "raw")
    run(stored(number), [got])
    assert got[0] == 7
    datatype.register_op(lambda op: lw.tir.const(7, "uint32"), "FloatImm", "llvm", "raw")
    with pytest.raises(
        LoopwrightError, match="the lowering of FloatImm of raw results in uint16\n  got: uint32"
    ):
        stored(number)
