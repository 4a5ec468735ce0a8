"""Programs that the schedule tests start from."""

from __future__ import annotations

from loopwright.script import tir as T

from ...programs import matmul as product
from ...programs import nest, prim_func

elementwise = prim_func(
    "A: T.Buffer((20, 12)), D: T.Buffer((20, 12))",
    "B = T.alloc_buffer((20, 12))",
    "C = T.alloc_buffer((12, 20))",
    nest("B", "B[vi, vj] = A[vi, vj] * T.float32(2)", i=20, j=12),
    nest("C", "C[vi, vj] = B[vj, vi] + T.float32(1)", i=12, j=20),
    nest("D", "D[vi, vj] = T.max(C[vj, vi], T.float32(0))", i=20, j=12),
)
matmul = product(16, 20, 12)
matmul_bias_relu = product(
    16,
    20,
    12,
    more="bias: T.Buffer((20,)),",
    D="C[vi, vj] + bias[vj]",
    E="T.max(D[vi, vj], T.float32(0))",
)


@T.prim_func
def conv2d(
    X: T.Buffer((1, 3, 8, 8), "float32"),
    W: T.Buffer((4, 3, 3, 3), "float32"),
    Y: T.Buffer((1, 4, 8, 8), "float32"),
):
    P = T.alloc_buffer((1, 3, 10, 10))
    Z = T.alloc_buffer((1, 4, 8, 8))
    for n, c, h, w in T.grid(1, 3, 10, 10):
        with T.block("pad"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            P[vn, vc, vh, vw] = T.if_then_else(
                vh >= 1 and vh < 9 and vw >= 1 and vw < 9, X[vn, vc, vh - 1, vw - 1], T.float32(0)
            )
    for n, o, h, w, c, kh, kw in T.grid(1, 4, 8, 8, 3, 3, 3):
        with T.block("conv"):
            vn, vo, vh, vw, vc, vkh, vkw = T.axis.remap("SSSSRRR", [n, o, h, w, c, kh, kw])
            with T.init():
                Z[vn, vo, vh, vw] = T.float32(0)
            Z[vn, vo, vh, vw] = (
                Z[vn, vo, vh, vw] + P[vn, vc, vh + vkh, vw + vkw] * W[vo, vc, vkh, vkw]
            )
    for n, o, h, w in T.grid(1, 4, 8, 8):
        with T.block("relu"):
            vn, vo, vh, vw = T.axis.remap("SSSS", [n, o, h, w])
            Y[vn, vo, vh, vw] = T.max(Z[vn, vo, vh, vw], T.float32(0))


softmax = prim_func(
    "A: T.Buffer((6, 10)), B: T.Buffer((6, 10))",
    "M = T.alloc_buffer((6,))",
    "X = T.alloc_buffer((6, 10))",
    "S = T.alloc_buffer((6,))",
    nest("M", "M[vi] = T.max(M[vi], A[vi, vk])", "M[vi] = T.float32(-3.4e38)", i=6, k=10),
    nest("X", "X[vi, vj] = T.exp(A[vi, vj] - M[vi])", i=6, j=10),
    nest("S", "S[vi] = S[vi] + X[vi, vk]", "S[vi] = T.float32(0)", i=6, k=10),
    nest("B", "B[vi, vj] = X[vi, vj] / S[vi]", i=6, j=10),
)
layer_norm = prim_func(
    "A: T.Buffer((6, 10)), G: T.Buffer((10,)), B: T.Buffer((6, 10))",
    "S = T.alloc_buffer((6,))",
    "Q = T.alloc_buffer((6,))",
    "V = T.alloc_buffer((6,))",
    nest("S", "S[vi] = S[vi] + A[vi, vk]", "S[vi] = T.float32(0)", i=6, k=10),
    nest("Q", "Q[vi] = Q[vi] + A[vi, vk] * A[vi, vk]", "Q[vi] = T.float32(0)", i=6, k=10),
    nest(
        "V",
        "V[vi] = Q[vi] / T.float32(10) - S[vi] / T.float32(10) * (S[vi] / T.float32(10))",
        i=6,
    ),
    nest(
        "B",
        "B[vi, vj] = (A[vi, vj] - S[vi] / T.float32(10))"
        " * T.rsqrt(V[vi] + T.float32(1e-3)) * G[vj]",
        i=6,
        j=10,
    ),
)
symbolic_matmul = prim_func(
    "a: T.handle, B: T.Buffer((12, 20)), c: T.handle",
    "n = T.int64()",
    "A = T.match_buffer(a, (n, 12))",
    "C = T.match_buffer(c, (n, 20))",
    "D = T.alloc_buffer((n, 20))",
    nest(
        "D",
        "D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]",
        "D[vi, vj] = T.float32(0)",
        i="n",
        j=20,
        k=12,
    ),
    nest("C", "C[vi, vj] = T.max(D[vi, vj], T.float32(0))", i="n", j=20),
)
symbolic_add = prim_func(
    "a: T.handle, b: T.handle, c: T.handle",
    "n, m = T.int32(), T.int32()",
    "A = T.match_buffer(a, (n, m))",
    "B = T.match_buffer(b, (m,))",
    "C = T.match_buffer(c, (n, m))",
    "D = T.alloc_buffer((n, m))",
    nest("D", "D[vi, vj] = A[vi, vj] * T.float32(3)", i="n", j="m"),
    nest("C", "C[vi, vj] = D[vi, vj] + B[vj]", i="n", j="m"),
)


@T.prim_func
def pool(A: T.Buffer((2, 9, 9), "float32"), B: T.Buffer((2, 4, 4), "float32")):
    R = T.alloc_buffer((2, 9, 9))
    for c, h, w in T.grid(2, 9, 9):
        with T.block("R"):
            vc, vh, vw = T.axis.remap("SSS", [c, h, w])
            R[vc, vh, vw] = T.max(A[vc, vh, vw], T.float32(0))
    for c, h, w, kh, kw in T.grid(2, 4, 4, 3, 3):
        with T.block("B"):
            vc, vh, vw, vkh, vkw = T.axis.remap("SSSRR", [c, h, w, kh, kw])
            with T.init():
                B[vc, vh, vw] = T.float32(-1)
            B[vc, vh, vw] = T.max(B[vc, vh, vw], R[vc, vh * 2 + vkh, vw * 2 + vkw])


PROGRAMS = {
    "elementwise": (elementwise, ({},)),
    "matmul": (matmul, ({},)),
    "matmul_bias_relu": (matmul_bias_relu, ({},)),
    "conv2d": (conv2d, ({},)),
    "softmax": (softmax, ({},)),
    "layer_norm": (layer_norm, ({},)),
    "symbolic_matmul": (symbolic_matmul, ({"n": 1}, {"n": 7}, {"n": 16})),
    "symbolic_add": (symbolic_add, ({"n": 5, "m": 9}, {"n": 16, "m": 8}, {"n": 1, "m": 1})),
    "pool": (pool, ({},)),
}
