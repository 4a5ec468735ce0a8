"""The first steps with TensorIR: a program as text or of te, loops split, reordered and bound, a
product and what follows it."""

import numpy as np
import tvm
from tvm import te, tir
from tvm.script import ir as I
from tvm.script import tir as T


@I.ir_module
class Plus:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"tir.noalias": True})
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


Plus.show()
library = tvm.build(Plus, target="llvm")
x, y = tvm.nd.array(np.arange(8, dtype="float32")), tvm.nd.empty((8,))
library(x, y)
print(y.numpy())

A = te.placeholder((8,), dtype="float32", name="A")
B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
from_te = tvm.IRModule({"main": te.create_prim_func([A, B])})
tvm.ir.assert_structural_equal(from_te["main"], Plus["main"])

sch = tvm.tir.Schedule(Plus)
block = sch.get_block("B")
(i,) = sch.get_loops(block)
outer, middle, inner = sch.split(i, factors=[2, 2, 2])
sch.reorder(outer, inner, middle)
scheduled = sch.mod
tvm.build(scheduled, target="llvm")(x, y)
np.testing.assert_array_equal(y.numpy(), x.numpy() + 1)

sch.bind(outer, "blockIdx.x")
sch.bind(inner, "threadIdx.x")
sch.mod.show()


@I.ir_module
class Relu:
    @T.prim_func
    def main(
        A: T.Buffer((32, 32), "float32"),
        B: T.Buffer((32, 32), "float32"),
        C: T.Buffer((32, 32), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        Y = T.alloc_buffer((32, 32))
        for i, j, k in T.grid(32, 32, 32):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] += A[vi, vk] * B[vk, vj]
        for i, j in T.grid(32, 32):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


relu = tir.Schedule(Relu)
product, clipped = relu.get_block("Y"), relu.get_block("C")
i, j, k = relu.get_loops(product)
j0, j1 = relu.split(j, factors=[None, 8])
relu.reorder(j0, k, j1)
relu.reverse_compute_at(clipped, j0)
relu.decompose_reduction(product, k)
relu.mod.show()

a, b = (tvm.nd.array(v) for v in np.random.rand(2, 32, 32).astype("float32") - np.float32(0.5))
c = tvm.nd.empty((32, 32), dtype="float32")
for mod in (Relu, relu.mod):
    library = tvm.tir.build(mod, target="llvm")
    library["main"](a, b, c)
    np.testing.assert_allclose(c.numpy(), np.maximum(a.numpy() @ b.numpy(), 0), atol=1e-5)
    assert library.time_evaluator("main", tvm.cpu(), number=2)(a, b, c).mean > 0

programs = [(Plus, sch), (Relu, relu)]
