"""Calls between PrimFuncs: the arguments arrive in the order in which they are written."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright import tir
from loopwright.base.errors import LoopwrightError
from loopwright.script import from_source
from loopwright.tir.interpreter import run
from loopwright.tir.transform import MakeUnpackedAPI, default_tir_pipeline
from loopwright.tir.transform.lower.unpack_signatures import unpacked_params

CALLS = """
@I.ir_module
class Module:
    @T.prim_func{private}
    def helper(k: T.int32, A: T.Buffer((8,), "float32"), s: T.float32, B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i] * s + T.Cast("float32", k)

    @T.prim_func
    def main(n: T.int32, A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({{"tir.is_scheduled": True}})
        Module.helper(n + 1, A.data, T.float32(2), B.data)
"""


@pytest.mark.parametrize("private", ["", "(private=True)"])
def test_scalars_before_buffers(private: str) -> None:
    mod = from_source(CALLS.format(private=private))
    a = np.arange(8, dtype="float32")
    lowered = default_tir_pipeline()(mod)
    native, shown, low = (np.zeros(8, "float32") for _ in range(3))
    exe = lw.compile(mod)
    exe["main"](3, a, native)
    run(mod["main"], [3, a, shown], mod=mod)
    run(lowered["main"], [3, a, low], mod=lowered)
    for made in (native, shown, low):
        np.testing.assert_array_equal(made, a * 2 + 4)
    lw.build(mod, target="llvm")["main"](3, a, native)
    np.testing.assert_array_equal(native, a * 2 + 4)


def test_sizes_that_pointers_do_not_say() -> None:
    """A function with a symbolic dimension takes it as its last argument."""
    source = """
@I.ir_module
class Module:
    @T.prim_func
    def helper(k: T.int32, a: T.handle, b: T.handle):
        m = T.int32()
        A = T.match_buffer(a, (m,), "float32")
        B = T.match_buffer(b, (m,), "float32")
        for i in range(m):
            B[i] = A[i] + T.Cast("float32", k)

    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        T.func_attr({"tir.is_scheduled": True})
        Module.helper(1, A.data, B.data{sizes})
"""
    mod = from_source(source.replace("{sizes}", ", 8"))
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    lw.compile(mod)["main"](a, b)
    np.testing.assert_array_equal(b, a + 1)
    with pytest.raises(ValueError, match=r"pass k, A, B, m \(pointers for buffers"):
        default_tir_pipeline()(from_source(source.replace("{sizes}", "")))


def test_a_kernel_called_from_outside() -> None:
    func = from_source("""
@T.prim_func
def main(k: T.int32, A: T.Buffer((8,), "float32"), s: T.float32, B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i] * s + T.Cast("float32", k)
""")
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    lw.compile(func)["main"](1, a, 2.0, b)
    np.testing.assert_array_equal(b, a * 2 + 1)


def test_signatures_of_c_functions() -> None:
    """`MakeUnpackedAPI`: pointers for tensors, an error code, and calls to match."""
    mod = from_source("""
@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm", host="llvm")})
        Module.double(T.tvm_stack_make_array(A.data, T.tvm_stack_make_shape(4, dtype="handle"), 0, 1, T.float32(0), 0, dtype="handle"))
        Module.own(A.data)

    @T.prim_func
    def double(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target("llvm", host="llvm")})
        for i in range(4):
            A[i] = A[i] * T.float32(2)

    @T.prim_func(private=True)
    def own(data: T.handle("float32")):
        A = T.Buffer((4,), data=data)
        A[0] = T.float32(-1)
""")
    made = MakeUnpackedAPI()(mod)
    assert [[p.dtype for p in f.params] for f in made.functions.values()] == [["handle"]] * 3
    assert [str(f.ret_type) for f in made.functions.values()][:2] == ["T.int32"] * 2
    assert made["own"] is mod["own"] and 'T.attr("default", "device_type", 1)' in made.script()
    a = np.arange(4, dtype="float32")
    assert run(made["main"], [a], mod=made) == 0
    np.testing.assert_array_equal(a, [-1, 2, 4, 6])
    with pytest.raises(LoopwrightError, match="needs the target of function helper"):
        MakeUnpackedAPI()(from_source(CALLS.format(private="")))


def test_parameters_are_pointers_then_sizes():
    n, k, p, q = tir.Var("n"), tir.Var("k"), tir.Var("p", "handle"), tir.Var("q", "handle")
    a, c = tir.decl_buffer((8,), name="A"), tir.decl_buffer((n,), name="C")
    func = tir.PrimFunc([p, q, k], tir.Evaluate(0), buffer_map={p: a, q: c})
    assert unpacked_params(func) == (a.data, c.data, k, n)
    same = tir.decl_buffer((4,), name="B", data=a.data)
    with pytest.raises(ValueError, match="two parameters share the memory of buffer B"):
        unpacked_params(tir.PrimFunc([p, q], tir.Evaluate(0), buffer_map={p: a, q: same}))
