"""Passes for functions of several threads: regions, functions of their own, barriers."""

from __future__ import annotations

import numpy as np

from loopwright.ir.module import IRModule
from loopwright.script import from_source
from loopwright.tir import analysis as ta
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

TWO_KERNELS = """
@T.prim_func
def main(A: T.handle("float32", "global"), B: T.handle("float32", "global"), n: T.int32):
    T.func_attr({"target": T.target("cuda", host="llvm")})
    A_1 = T.Buffer((16,), data=A)
    B_1 = T.Buffer((16,), data=B)
    for k in range(2):
        with T.launch_thread("threadIdx.x", 16) as tx:
            B_1[tx] = A_1[tx] + T.Cast("float32", n + k)
        with T.launch_thread("threadIdx.x", 16) as ty:
            A_1[ty] = B_1[15 - ty]
"""


def test_host_and_device():
    mod = IRModule({"main": from_source(TWO_KERNELS)})
    made = tt.SplitHostDevice()(tt.AnnotateDeviceRegions()(mod))
    names = [v.name_hint for v in made.functions]
    assert names == ["main", "main_kernel", "main_kernel_1"]
    for func in made.functions.values():
        ta.verify_well_formed(func)
    kernel = made["main_kernel"]
    assert [p.name for p in kernel.params] == ["B", "A", "n", "k"]
    assert kernel.attrs["target"].kind.name == "cuda" and kernel.attrs["target"].host is None
    a = np.arange(16, dtype="float32")
    wanted, got = [a.copy(), np.zeros(16, "float32")], [a.copy(), np.zeros(16, "float32")]
    run(mod["main"], [*wanted, 3])
    run(made["main"], [*got, 3], made)
    np.testing.assert_array_equal(got, wanted)


def test_one_device_stays_whole():
    text = TWO_KERNELS.replace('T.target("cuda", host="llvm")', 'T.target("cuda")')
    mod = IRModule({"main": from_source(text)})
    assert tt.AnnotateDeviceRegions()(mod)["main"] is mod["main"]


SHARED = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    tx = T.launch_thread("threadIdx.x", 8)
    s = T.allocate([8], "float32", "{scope}")
    S = T.Buffer((8,), data=s, scope="{scope}")
    for k in range(3):
        S[tx] = A[tx]
        {between}
        B[tx] = B[tx] + S[7 - tx]
    A[tx] = B[tx]
"""


def barriers(scope, between="T.evaluate(0)"):
    func = from_source(SHARED.format(scope=scope, between=between))
    after = tt.ThreadSync("shared")(IRModule({"main": func}))["main"]
    ta.verify_well_formed(after)
    return after.script().count("tvm_storage_sync")


def test_barriers():
    assert barriers("shared") == 2  # between write and read, and before the next iteration's write
    assert barriers("local") == 0
    assert barriers("shared", 'T.evaluate(T.tvm_storage_sync("shared"))') == 2
