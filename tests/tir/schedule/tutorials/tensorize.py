"""Loops computed by an intrinsic: a call of a function that multiplies a matrix and a vector, and a
dot product of four int8 for sixteen columns at once."""

import numpy as np
import tvm
from tvm import tir
from tvm.script import ir as I
from tvm.script import tir as T

ROWS = COLUMNS = 16


@T.prim_func
def gemv_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (COLUMNS,), "float32", offset_factor=1)
    B = T.match_buffer(b, (ROWS, COLUMNS), "float32", offset_factor=1)
    C = T.match_buffer(c, (ROWS,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:ROWS], A[0:COLUMNS], B[0:ROWS, 0:COLUMNS])
        T.writes(C[0:ROWS])
        for i, k in T.grid(ROWS, COLUMNS):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + A[vk] * B[vi, vk]


@T.prim_func
def gemv_impl(a: T.handle, b: T.handle, c: T.handle):
    stride = T.int32()
    A = T.match_buffer(a, (COLUMNS,), "float32", offset_factor=1)
    B = T.match_buffer(b, (ROWS, COLUMNS), "float32", offset_factor=1, strides=[stride, 1])
    C = T.match_buffer(c, (ROWS,), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:ROWS], A[0:COLUMNS], B[0:ROWS, 0:COLUMNS])
        T.writes(C[0:ROWS])
        T.evaluate(
            T.call_extern(
                "int32",
                "gemv_update",
                C.access_ptr("rw"),
                A.access_ptr("r"),
                B.access_ptr("r"),
                ROWS,
                COLUMNS,
                stride,
            )
        )


tir.TensorIntrin.register("tutorial.gemv", gemv_desc, gemv_impl)


@I.ir_module
class Product:
    @T.prim_func
    def gemv_update(
        c: T.handle("float32"),
        a: T.handle("float32"),
        b: T.handle("float32"),
        rows: T.int32,
        columns: T.int32,
        stride: T.int32,
    ):
        T.func_attr({"global_symbol": "gemv_update", "tir.is_scheduled": True})
        C = T.Buffer((rows,), "float32", data=c)
        A = T.Buffer((columns,), "float32", data=a)
        B = T.Buffer((rows * stride,), "float32", data=b)
        for i, k in T.grid(rows, columns):
            C[i] = C[i] + A[k] * B[i * stride + k]

    @T.prim_func
    def main(
        A: T.Buffer((8, 64), "float32"),
        B: T.Buffer((48, 64), "float32"),
        C: T.Buffer((8, 48), "float32"),
    ):
        for i, j, k in T.grid(8, 48, 64):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


gemv = tir.Schedule(Product)
block = gemv.get_block("C")
i, j, k = gemv.get_loops(block)
j0, j1 = gemv.split(j, factors=[None, ROWS])
k0, k1 = gemv.split(k, factors=[None, COLUMNS])
gemv.reorder(i, j0, k0, j1, k1)
gemv.decompose_reduction(block, k0)
gemv.tensorize(j1, "tutorial.gemv")
gemv.mod.show()

a, b = np.random.rand(8, 64).astype("float32"), np.random.rand(48, 64).astype("float32")
c = tvm.nd.empty((8, 48))
tvm.build(gemv.mod, target="llvm")["main"](tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-5)
print("gemv: right")


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "int8", offset_factor=1)
    B = T.match_buffer(b, (4, 16), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:4, 0:16])
        T.writes(C[0:16])
        for i, k in T.grid(16, 4):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k])
                C[vi] = C[vi] + T.cast(A[vk], "int32") * T.cast(B[vk, vi], "int32")


@T.prim_func
def dot_impl(a: T.handle, b: T.handle, c: T.handle):
    A = T.match_buffer(a, (4,), "int8", offset_factor=1)
    B = T.match_buffer(b, (4, 16), "int8", offset_factor=1)
    C = T.match_buffer(c, (16,), "int32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:16], A[0:4], B[0:4, 0:16])
        T.writes(C[0:16])
        for k in T.unroll(4):
            C[T.ramp(0, 1, 16)] = C[T.ramp(0, 1, 16)] + T.broadcast(
                T.cast(A[k], "int32"), 16
            ) * T.cast(B[k, T.ramp(0, 1, 16)], "int32x16")


tir.TensorIntrin.register("tutorial.dot_4x16_i8i8i32", dot_desc, dot_impl)


@I.ir_module
class Quantized:
    @T.prim_func
    def main(
        X: T.Buffer((8, 16), "int8"), W: T.Buffer((32, 16), "int8"), Y: T.Buffer((8, 32), "int32")
    ):
        for i, j, k in T.grid(8, 32, 16):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = 0
                Y[vi, vj] = Y[vi, vj] + T.cast(X[vi, vk], "int32") * T.cast(W[vj, vk], "int32")


dot = tir.Schedule(Quantized)
block = dot.get_block("Y")
packed = dot.cache_read(block, 1, "global")
dot.transform_layout(packed, ("write", 0), lambda j, k: (j // 16, k, j % 16))
i, j, k = dot.get_loops(block)
j0, j1 = dot.split(j, factors=[None, 16])
k0, k1 = dot.split(k, factors=[None, 4])
dot.reorder(i, j0, k0, j1, k1)
dot.decompose_reduction(block, k0)
dot.tensorize(j1, "tutorial.dot_4x16_i8i8i32")
dot.mod.show()

rng = np.random.default_rng(0)
x, w = (rng.integers(-128, 128, size, dtype="int8") for size in ((8, 16), (32, 16)))
y = tvm.nd.empty((8, 32), "int32")
tvm.build(dot.mod, target="llvm")["main"](tvm.nd.array(x), tvm.nd.array(w), y)
np.testing.assert_array_equal(y.numpy(), x.astype("int32") @ w.T.astype("int32"))
print("dot: right")

programs = [(Product, gemv), (Quantized, dot)]
