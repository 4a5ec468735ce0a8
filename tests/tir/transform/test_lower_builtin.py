"""Packed calls on the stack, workspaces, launches: run in the interpreter as before."""

from __future__ import annotations

import numpy as np
import pytest

import loopwright as lw
from loopwright.base.errors import LoopwrightError
from loopwright.ir.module import IRModule
from loopwright.ir.transform import PassContext
from loopwright.runtime import register_func
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

CALLS = """
@T.prim_func
def main(A: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32"), n: T.int32):
    T.func_attr({"global_symbol": "main"})
    for i in T.parallel(4):
        w = T.allocate([600], "float32", "global")
        W = T.Buffer((600,), data=w)
        for j in range(6):
            W[j] = A[i, j] * T.float32(2)
        if n > 0:
            T.evaluate(T.call_packed("test.builtin.add", T.tvm_stack_make_array(W.data, T.tvm_stack_make_shape(6), 0, 1, T.float32(0), 0), T.tvm_stack_make_array(B.data, T.tvm_stack_make_shape(6), 0, 1, T.float32(0), i * 6), n, T.float32(0.5), "twice"))
        B[i, 0] = B[i, 0] + T.Cast("float32", T.call_packed("test.builtin.square", T.call_packed("test.builtin.square", i)))
"""


def add(w, b, n, x, mode):
    assert mode == "twice" and x == 0.5
    b.view()[...] = w.view() + n * x


@pytest.mark.parametrize("before", [True, False])
def test_calls_and_workspaces(before):
    register_func("test.builtin.add", add, override=True)
    register_func("test.builtin.square", lambda i: i * i, override=True)
    mod = IRModule({"main": from_source(CALLS)})
    if before:
        mod = tt.LowerTVMBuiltin()(mod)
        text = mod.script()
        assert "call_packed_lowered" in text and "TVMBackendAllocWorkspace" in text
        loop = text.index("T.parallel")  # each iteration has its own stacks
        assert text.index('tvm_stack_alloca("tvm_ffi_any", 6)') > loop
        assert 'tvm_stack_alloca("array", 2)' in text and 'tvm_stack_alloca("shape", 2)' in text
        ta.verify_well_formed(mod)
    a = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    b = np.zeros((4, 6), "float32")
    run(mod["main"], [a, b, 3], mod)
    want = a * 2 + 1.5
    want[:, 0] += np.arange(4) ** 4
    np.testing.assert_allclose(b, want, rtol=1e-6)


def test_native_code():
    """The same as LLVM code, the pass added to the lowering."""
    register_func("test.builtin.add", add, override=True)
    register_func("test.builtin.square", lambda i: i * i, override=True)
    mod = IRModule({"main": from_source(CALLS)})
    with PassContext(config={"tir.add_lower_pass": [(3, tt.LowerTVMBuiltin())]}):
        built = lw.build(mod, target="llvm")
    a = np.random.default_rng(0).standard_normal((4, 6)).astype("float32")
    b = np.zeros((4, 6), "float32")
    built["main"](a, b, 3)
    want = a * 2 + 1.5
    want[:, 0] += np.arange(4) ** 4
    np.testing.assert_allclose(b, want, rtol=1e-6)


def test_small_memory_stays():
    mod = IRModule({"main": from_source(CALLS)})
    assert "T.allocate([600]" in tt.LowerTVMBuiltin(max_stack_alloca=2400)(mod).script()
    assert "T.allocate([600]" not in tt.LowerTVMBuiltin(max_stack_alloca=2399)(mod).script()


def test_launch():
    """From one function with threads to a host that launches a kernel."""
    text = """
@T.prim_func
def main(A: T.handle("float32", "global"), n: T.int32):
    T.func_attr({"global_symbol": "main", "target": T.target("cuda", host="llvm")})
    A_1 = T.Buffer((n * 4,), data=A)
    for k in range(2):
        bx = T.launch_thread("blockIdx.x", n)
        tx = T.launch_thread("threadIdx.x", 4)
        s = T.allocate([n], "float32", "shared.dyn")
        S = T.Buffer((n,), data=s, scope="shared.dyn")
        S[0] = T.float32(1)
        A_1[bx * 4 + tx] = A_1[bx * 4 + tx] + S[0]
"""
    mod = IRModule({"main": from_source(text)})
    for item in (tt.AnnotateDeviceRegions(), tt.SplitHostDevice(), tt.LowerDeviceKernelLaunch()):
        mod = item(mod)
        ta.verify_well_formed(mod)
    assert 'T.call_packed("main_kernel", A, n, n, 4, n * 4)' in mod.script()
    kernel = mod["main_kernel"]
    launch = ["blockIdx.x", "threadIdx.x", "tir.use_dyn_shared_memory"]
    assert list(kernel.attrs["tir.kernel_launch_params"]) == launch
    assert kernel.attrs["calling_conv"] == 2 and kernel.attrs["global_symbol"] == "main_kernel"
    ran = []

    def launched(data, n, *extents):
        ran.append(extents)
        run(kernel, [data, n])

    register_func("main_kernel", launched, override=True)
    a = np.zeros(12, "float32")
    run(mod["main"], [a, 3])
    np.testing.assert_array_equal(a, np.full(12, 2, "float32"))
    assert ran == [(3, 4, 12), (3, 4, 12)]


@pytest.mark.parametrize(
    ("attrs", "around", "got"),
    [
        ('{"target": T.target("llvm")}', '"device_type", 2', "no device_id"),
        ('{"tir.is_host_func": True}', '"device_id", 0', "no device_type"),
    ],
)
def test_memory_belongs_to_a_device(attrs, around, got):
    text = f"""
@T.prim_func
def main():
    T.func_attr({attrs})
    T.attr("default", {around})
    m = T.allocate([4096], "float32", "global")
    M = T.Buffer((4096,), data=m)
    M[0] = T.float32(0)
"""
    with pytest.raises(LoopwrightError, match=got):
        tt.LowerTVMBuiltin()(IRModule({"main": from_source(text)}))


def test_device_attributes_end_here():
    text = """
@T.prim_func
def main():
    T.attr("default", "device_type", 2)
    T.attr("default", "device_id", 1)
    m = T.allocate([4], "float32", "global")
    M = T.decl_buffer((4,), data=m)
    M[0] = T.float32(0)
"""
    made = tt.LowerTVMBuiltin()(IRModule({"main": from_source(text)}))["main"].script()
    assert "T.TVMBackendAllocWorkspace(2, 1, T.uint64(16), 2, 32)" in made
    assert 'T.attr(m, "storage_alignment", 64)' in made and "default" not in made
    assert made.index("T.isnullptr") < made.index("T.decl_buffer") < made.index("FreeWorkspace")
