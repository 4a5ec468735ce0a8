"""A product of matrices, made fast: blocks, vectors, loops in another order, a packed operand, sums
that are written once, threads. Each step is a program of its own and computes the same."""

import numpy as np
import tvm
from tvm import te, tir

M = K = N = 32
BLOCK = 16

k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
default = tvm.IRModule({"main": te.create_prim_func([A, B, C])})

a, b = np.random.rand(M, K).astype("float32"), np.random.rand(K, N).astype("float32")
programs = []


def check(name, sch):
    library = tvm.build(sch.mod, target="llvm")
    c = tvm.nd.array(np.zeros((M, N), dtype="float32"))
    library["main"](tvm.nd.array(a), tvm.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-5)
    print(name, "computes the same")
    programs.append((default, sch.copy()))


def blocking(sch):
    block = sch.get_block("C")
    m, n, k = sch.get_loops(block)
    mo, mi = sch.split(m, factors=[None, BLOCK])
    no, ni = sch.split(n, factors=[None, BLOCK])
    ko, ki = sch.split(k, factors=[None, 4])
    sch.reorder(mo, no, ko, ki, mi, ni)
    return block, mo, no, ko, ki, mi, ni


sch = tir.Schedule(default)
blocking(sch)
check("blocking", sch)

sch = tir.Schedule(default)
block, mo, no, ko, ki, mi, ni = blocking(sch)
sch.vectorize(ni)
check("vectorization", sch)

sch.reorder(ko, mi, ki, ni)
check("loop permutation", sch)

packed = sch.cache_read(block, 1, "global")
sch.transform_layout(packed, ("write", 0), lambda k, n: (n // BLOCK, k, n % BLOCK))
_, pack_n = sch.get_loops(packed)
_, lane = sch.split(pack_n, factors=[None, BLOCK])
sch.vectorize(lane)
check("array packing", sch)

written = sch.cache_write(block, 0, "global")
sch.reverse_compute_at(written, no)
sch.unroll(ki)
sch.vectorize(sch.get_loops(written)[-1])
sch.decompose_reduction(block, ko)
check("write cache", sch)

sch.parallel(mo)
check("parallel", sch)
sch.mod.show()
