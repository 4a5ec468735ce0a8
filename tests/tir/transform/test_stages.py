"""The same input through the interpreter before and after every pass of the lowering."""

from __future__ import annotations

import numpy as np
import pytest

from loopwright.base.errors import LoopwrightError
from loopwright.ir.functor import post_order_visit
from loopwright.ir.module import IRModule
from loopwright.ir.prim_expr import Var
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run
from loopwright.tir.stmt import For, ForKind

HEADER = """
@T.prim_func
def main({params}):
"""

PROGRAMS: dict[str, tuple[str, list, str]] = {}


def program(name, shapes, expected, text):
    """A function's text, its arguments' shapes (the last is written), and its meaning."""
    PROGRAMS[name] = (text, shapes, expected)


program(
    "matmul_tail",
    [(13, 20), (20, 40), (13, 40)],
    lambda a, b: np.maximum(a @ b, 0),
    """
@T.prim_func
def main(a: T.handle, B: T.Buffer((20, 40), "float32"), c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 20), "float32")
    C = T.match_buffer(c, (n, 40), "float32")
    with T.block("root"):
        T.reads()
        T.writes()
        acc = T.alloc_buffer((n, 40), scope="local")
        for io in T.parallel((n + 3) // 4):
            for jo in range(3):
                for ii in T.unroll(4):
                    for jj in T.vectorized(16):
                        with T.block("init"):
                            vi = T.axis.spatial(n, io * 4 + ii)
                            vj = T.axis.spatial(40, jo * 16 + jj)
                            T.where(io * 4 + ii < n and jo * 16 + jj < 40)
                            T.reads()
                            T.writes(acc[vi, vj])
                            acc[vi, vj] = T.float32(0)
                for k in range(20):
                    for ii in T.unroll(4):
                        for jj in T.vectorized(16):
                            with T.block("update"):
                                vi = T.axis.spatial(n, io * 4 + ii)
                                vj = T.axis.spatial(40, jo * 16 + jj)
                                vk = T.axis.reduce(20, k)
                                T.where(io * 4 + ii < n and jo * 16 + jj < 40)
                                T.reads(acc[vi, vj], A[vi, vk], B[vk, vj])
                                T.writes(acc[vi, vj])
                                acc[vi, vj] = acc[vi, vj] + A[vi, vk] * B[vk, vj]
                for ii in T.unroll(4):
                    for jj in T.vectorized(16):
                        with T.block("write"):
                            vi = T.axis.spatial(n, io * 4 + ii)
                            vj = T.axis.spatial(40, jo * 16 + jj)
                            T.where(io * 4 + ii < n and jo * 16 + jj < 40)
                            T.reads(acc[vi, vj])
                            T.writes(C[vi, vj])
                            C[vi, vj] = T.max(acc[vi, vj], T.float32(0))
""",
)
program(
    "row_sums",
    [(5, 24), (5,)],
    lambda a: a.sum(1),
    """
@T.prim_func
def main(A: T.Buffer((5, 24), "float32"), B: T.Buffer((5,), "float32")):
    for i, k in T.grid(5, 24):
        with T.block("sum"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""",
)
program(
    "padded_convolution",
    [(1, 3, 7, 7), (4, 3, 3, 3), (1, 4, 7, 7)],
    None,
    """
@T.prim_func
def main(A: T.Buffer((1, 3, 7, 7), "float32"), W: T.Buffer((4, 3, 3, 3), "float32"), C: T.Buffer((1, 4, 7, 7), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        P = T.alloc_buffer((1, 3, 9, 9))
        for o in T.parallel(4):
            for c, i in T.grid(3, 9):
                for j in T.vectorized(9):
                    with T.block("pad"):
                        vc, vi, vj = T.axis.remap("SSS", [c, i, j])
                        T.reads(A[0, vc, vi - 1, vj - 1])
                        T.writes(P[0, vc, vi, vj])
                        P[0, vc, vi, vj] = T.if_then_else(1 <= vi and vi < 8 and 1 <= vj and vj < 8, A[0, vc, vi - 1, vj - 1], T.float32(0))
            for i in range(7):
                for jo in range(2):
                    for c, ki, kj in T.grid(3, 3, 3):
                        for ji in T.vectorized(4):
                            with T.block("conv"):
                                vo = T.axis.spatial(4, o)
                                vi = T.axis.spatial(7, i)
                                vj = T.axis.spatial(7, jo * 4 + ji)
                                vc, va, vb = T.axis.remap("RRR", [c, ki, kj])
                                T.where(jo * 4 + ji < 7)
                                T.reads(P[0, vc, vi + va, vj + vb], W[vo, vc, va, vb])
                                T.writes(C[0, vo, vi, vj])
                                with T.init():
                                    C[0, vo, vi, vj] = T.float32(0)
                                C[0, vo, vi, vj] = C[0, vo, vi, vj] + P[0, vc, vi + va, vj + vb] * W[vo, vc, va, vb]
""",
)
program(
    "transpose_and_fuse",
    [(6, 8), (8, 6)],
    lambda a: np.exp(a.T) + 1,
    """
@T.prim_func
def main(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 6), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        E = T.alloc_buffer((8, 6))
        for f in T.parallel(6):
            for v in T.vectorized(8):
                with T.block("E"):
                    vi = T.axis.spatial(8, (f * 8 + v) // 6)
                    vj = T.axis.spatial(6, (f * 8 + v) % 6)
                    T.reads(A[vj, vi])
                    T.writes(E[vi, vj])
                    E[vi, vj] = T.exp(A[vj, vi])
                with T.block("B"):
                    vi = T.axis.spatial(8, (f * 8 + v) // 6)
                    vj = T.axis.spatial(6, (f * 8 + v) % 6)
                    T.reads(E[vi, vj])
                    T.writes(B[vi, vj])
                    B[vi, vj] = E[vi, vj] + T.float32(1)
""",
)


def vectors_of_a_row(block, reads, element, value):
    """In row i of m x n elements, each of `element` set to `value`, eight at a time."""
    return f"""
            for ko in range((n + 7) // 8):
                for ki in T.vectorized(8):
                    with T.block("{block}"):
                        vi = T.axis.spatial(m, i)
                        vk = T.axis.spatial(n, ko * 8 + ki)
                        T.where(ko * 8 + ki < n)
                        T.reads({reads})
                        T.writes({element})
                        {element} = {value}"""


program(
    "softmax",
    [(3, 19), (3, 19)],
    lambda a: (
        np.exp(a - a.max(1, keepdims=True))
        / np.exp(a - a.max(1, keepdims=True)).sum(1, keepdims=True)
    ),
    f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    with T.block("root"):
        T.reads()
        T.writes()
        top = T.alloc_buffer((m,))
        total = T.alloc_buffer((m,))
        e = T.alloc_buffer((m, n))
        for i in T.parallel(m):
            for k in range(n):
                with T.block("top"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(A[vi, vk])
                    T.writes(top[vi])
                    with T.init():
                        top[vi] = T.min_value("float32")
                    top[vi] = T.max(top[vi], A[vi, vk])
{vectors_of_a_row("e", "A[vi, vk], top[vi]", "e[vi, vk]", "T.exp(A[vi, vk] - top[vi])")}
            for k in range(n):
                with T.block("total"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    T.reads(e[vi, vk])
                    T.writes(total[vi])
                    with T.init():
                        total[vi] = T.float32(0)
                    total[vi] = total[vi] + e[vi, vk]
{vectors_of_a_row("b", "e[vi, vk], total[vi]", "B[vi, vk]", "e[vi, vk] / total[vi]")}
""",
)
program(
    "gather_rows",
    [(9, 16), "indices", (4, 16)],
    lambda a, idx: a[idx],
    """
@T.prim_func
def main(A: T.Buffer((9, 16), "float32"), I: T.Buffer((4,), "int64"), B: T.Buffer((4, 16), "float32")):
    for i in range(4):
        for j in T.vectorized(16):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A[0:9, vj], I[vi])
                T.writes(B[vi, vj])
                B[vi, vj] = A[I[vi], vj]
""",
)
program(
    "serial_in_vector",
    [(4, 8), (8,)],
    lambda a: a.sum(0),
    """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32")):
    for j in T.vectorized(8):
        for i in range(4):
            with T.block("sum"):
                vj, vi = T.axis.remap("SR", [j, i])
                T.reads(A[vi, vj])
                T.writes(B[vj])
                with T.init():
                    B[vj] = T.float32(0)
                B[vj] = B[vj] + A[vi, vj]
""",
)
program(
    "scalar_result_of_vector_loop",
    [(16,), (1,)],
    lambda a: a.sum(keepdims=True),
    """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((1,), "float32")):
    B[0] = T.float32(0)
    for i in T.vectorized(16):
        B[0] = B[0] + A[i]
""",
)
program(
    "else_of_a_vector_condition",
    [(12,), (12,)],
    lambda a: np.where(np.arange(12) < 5, a, -a),
    """
@T.prim_func
def main(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    for i in T.vectorized(12):
        if i < 5:
            B[i] = A[i]
        else:
            B[i] = T.float32(0) - A[i]
""",
)
MATCHED_TILE = """(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8, 8), "float32")):
    for io, jo in T.grid(2, 2):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [io, jo])
            T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])
            s = T.int32()
            X = T.match_buffer(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), strides=(s, 1), offset_factor=1)
            Y = T.match_buffer(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4], (4, 4), offset_factor=1)
            for i, j in T.grid(4, 4):
                Y[i, j] = X[i, j] * T.float32(2)
"""
program(
    "matched_tile",
    [(8, 8), (8, 8)],
    lambda a: a * 2,
    f"@T.prim_func\ndef main{MATCHED_TILE}",
)
program(
    "scalar_of_each_lane",
    [(16,), (16,)],
    lambda a: a * a + a,
    """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in T.vectorized(16):
        with T.block("b"):
            vi = T.axis.spatial(16, i)
            T.reads(A[vi])
            T.writes(B[vi])
            t = T.alloc_buffer((2,))
            t[0] = A[vi]
            t[1] = t[0] * t[0]
            B[vi] = t[0] + t[1]
""",
)
program(
    "one_place_for_all_lanes",
    [(16,), (16,)],
    lambda a: a * 2,
    """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    with T.block("root"):
        T.reads()
        T.writes()
        t = T.alloc_buffer((1,))
        for i in T.vectorized(16):
            with T.block("b"):
                vi = T.axis.opaque(16, i)
                T.reads(A[vi])
                T.writes(B[vi])
                t[0] = A[vi]
                B[vi] = t[0] * T.float32(2)
""",
)
program(
    "extent_of_each_lane",
    [(8, 8), (8,)],
    lambda a: np.array([a[i, : i + 1].sum() for i in range(8)]),
    """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        B[i] = T.float32(0)
        for k in range(i + 1):
            B[i] = B[i] + A[i, k]
""",
)
program(
    "let_and_select",
    [(4, 8), (4, 8)],
    lambda a: np.where(a > 0, a, a * a) + np.arange(8, dtype="float32"),
    """
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4):
        for j in T.vectorized(8):
            x: T.float32 = A[i, j]
            B[i, j] = T.Select(x > T.float32(0), x, x * x) + T.Cast("float32", j)
""",
)


def arguments(shapes):
    rng = np.random.default_rng(0)
    made = []
    for shape in shapes:
        if shape == "indices":
            made.append(np.array([3, 0, 8, 3], "int64"))
        else:
            made.append(rng.standard_normal(shape).astype("float32"))
    return made


def convolution(a, w):
    padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((1, 4, 7, 7), "float32")
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", padded[:, :, i : i + 7, j : j + 7], w[:, :, i, j])
    return out


pytestmark = pytest.mark.no_roundtrip  # vstore with a predicate is not parsed yet
PASSES = list(tt.lower_to_loops().passes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stage_computes_the_same(name):
    text, shapes, meaning = PROGRAMS[name]
    inputs = arguments(shapes)
    want = (meaning or convolution)(*inputs[:-1])
    mod = IRModule({"main": from_source(text)})
    stages = [("as written", mod)]
    for item in PASSES:
        mod = item(mod)
        if mod is not stages[-1][1]:
            stages.append((item.info.name, mod))
    for stage, made in stages:
        args = [a.copy() for a in inputs]
        run(made["main"], args)
        np.testing.assert_allclose(args[-1], want, rtol=1e-4, atol=1e-5, err_msg=stage)
    kinds = loop_kinds(mod["main"])
    assert kinds <= {ForKind.SERIAL, ForKind.PARALLEL}


def loop_kinds(func):
    found = set()
    post_order_visit(func.body, lambda n: found.add(n.kind) if isinstance(n, For) else None)
    return found


@pytest.mark.parametrize("name", ["matmul_tail", "softmax", "transpose_and_fuse"])
def test_without_vectors(name):
    text, shapes, meaning = PROGRAMS[name]
    args = arguments(shapes)
    want = meaning(*args[:-1])
    mod = IRModule({"main": from_source(text)})
    with PassContext(config={"tir.disable_vectorize": True}):
        mod = tt.lower_to_loops()(mod)
    run(mod["main"], args)
    np.testing.assert_allclose(args[-1], want, rtol=1e-4, atol=1e-5)


def test_kernels_take_pointers_then_sizes():
    text, _, _ = PROGRAMS["softmax"]
    mod = tt.default_tir_pipeline()(IRModule({"main": from_source(text)}))
    params = mod["main"].params
    assert [p.name for p in params] == ["A", "B", "m", "n"]
    assert [str(p.dtype) for p in params] == ["handle", "handle", "int32", "int32"]
    assert all(isinstance(p, Var) for p in params) and not mod["main"].buffer_map


def test_memory_that_wants_more_alignment_than_there_is() -> None:
    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        S = T.alloc_buffer((4,), align=8192)
        for i in range(4):
            with T.block("S"):
                v = T.axis.spatial(4, i)
                S[v] = A[v]
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = S[v]

    with pytest.raises(LoopwrightError, match="buffer S cannot be aligned to 8192 bytes") as error:
        tt.default_tir_pipeline()(IRModule({"copy": copy}))
    assert "align=4096 at most; take more memory and align the pointer" in str(error.value)
