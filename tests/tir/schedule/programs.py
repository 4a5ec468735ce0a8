"""Programs that the schedule tests start from."""

from __future__ import annotations

from loopwright.script import tir as T

from ...programs import matmul as product


@T.prim_func
def elementwise(A: T.Buffer((20, 12), "float32"), D: T.Buffer((20, 12), "float32")):
    B = T.alloc_buffer((20, 12))
    C = T.alloc_buffer((12, 20))
    for i, j in T.grid(20, 12):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, j in T.grid(12, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vj, vi] + T.float32(1)
    for i, j in T.grid(20, 12):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vj, vi], T.float32(0))


matmul = product(16, 20, 12)


@T.prim_func
def matmul_bias_relu(
    A: T.Buffer((16, 12), "float32"),
    B: T.Buffer((12, 20), "float32"),
    bias: T.Buffer((20,), "float32"),
    E: T.Buffer((16, 20), "float32"),
):
    C = T.alloc_buffer((16, 20))
    D = T.alloc_buffer((16, 20))
    for i, j, k in T.grid(16, 20, 12):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(16, 20):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = C[vi, vj] + bias[vj]
    for i, j in T.grid(16, 20):
        with T.block("E"):
            vi, vj = T.axis.remap("SS", [i, j])
            E[vi, vj] = T.max(D[vi, vj], T.float32(0))


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


@T.prim_func
def softmax(A: T.Buffer((6, 10), "float32"), B: T.Buffer((6, 10), "float32")):
    M = T.alloc_buffer((6,))
    X = T.alloc_buffer((6, 10))
    S = T.alloc_buffer((6,))
    for i, k in T.grid(6, 10):
        with T.block("M"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                M[vi] = T.float32(-3.4e38)
            M[vi] = T.max(M[vi], A[vi, vk])
    for i, j in T.grid(6, 10):
        with T.block("X"):
            vi, vj = T.axis.remap("SS", [i, j])
            X[vi, vj] = T.exp(A[vi, vj] - M[vi])
    for i, k in T.grid(6, 10):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + X[vi, vk]
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = X[vi, vj] / S[vi]


@T.prim_func
def layer_norm(
    A: T.Buffer((6, 10), "float32"),
    G: T.Buffer((10,), "float32"),
    B: T.Buffer((6, 10), "float32"),
):
    S = T.alloc_buffer((6,))
    Q = T.alloc_buffer((6,))
    V = T.alloc_buffer((6,))
    for i, k in T.grid(6, 10):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + A[vi, vk]
    for i, k in T.grid(6, 10):
        with T.block("Q"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                Q[vi] = T.float32(0)
            Q[vi] = Q[vi] + A[vi, vk] * A[vi, vk]
    for i in range(6):
        with T.block("V"):
            vi = T.axis.spatial(6, i)
            V[vi] = Q[vi] / T.float32(10) - S[vi] / T.float32(10) * (S[vi] / T.float32(10))
    for i, j in T.grid(6, 10):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = (
                (A[vi, vj] - S[vi] / T.float32(10)) * T.rsqrt(V[vi] + T.float32(1e-3)) * G[vj]
            )


@T.prim_func
def symbolic_matmul(a: T.handle, B: T.Buffer((12, 20), "float32"), c: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 12))
    C = T.match_buffer(c, (n, 20))
    D = T.alloc_buffer((n, 20))
    for i, j, k in T.grid(n, 20, 12):
        with T.block("D"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                D[vi, vj] = T.float32(0)
            D[vi, vj] = D[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(n, 20):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = T.max(D[vi, vj], T.float32(0))


@T.prim_func
def symbolic_add(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m))
    B = T.match_buffer(b, (m,))
    C = T.match_buffer(c, (n, m))
    D = T.alloc_buffer((n, m))
    for i, j in T.grid(n, m):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = A[vi, vj] * T.float32(3)
    for i, j in T.grid(n, m):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = D[vi, vj] + B[vj]


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
