"""Small programs in which passes over flat loops have something to do: what they compute stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from loopwright.ir.module import IRModule
from loopwright.ir.target import Target
from loopwright.ir.transform import PassContext
from loopwright.script import from_source
from loopwright.tir import transform as tt
from loopwright.tir.interpreter import run

HEAD = """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), n: T.int32, m: T.int32):
"""
THREADS = 'for t in T.thread_binding({}, thread="vthread.x"):\n    '
KNOWN = {
    "propagate_knowns_to_prove_conditional": True,
    "propagate_knowns_to_simplify_expressions": True,
}
VIRTUAL = (
    "{}B[t] = A[t] * 2",
    "{}x: T.int32 = A[t]\n    B[t] = x * x",
    "{}x: T.int32 = A[5]\n    B[t] = x + t",
    "{}if A[t] > 2:\n        B[t] = 1\n    else:\n        B[t + 32] = 2",
    "{}if n > 2:\n        B[t] = 1",
    "{}for k in range(t):\n        B[t * 8 + k] = A[k]",
    "{}for k in range(3):\n        B[t * 8 + k] = A[k]",
    "{}assert A[t] < 100, 'large'\n    B[t] = A[t]",
    "{}with T.attr(0, 'pragma_x', t):\n        B[t] = A[t]",
    "{}L = T.decl_buffer((4,), 'int32', scope='local')\n    for k in range(4):\n        L[k] = A[t * 4 + k]\n"
    "    for k in range(4):\n        B[t * 4 + k] = L[3 - k]",
    "{}L = T.decl_buffer((4,), 'int32', scope='local')\n    for k in range(4):\n        L[k] = A[k]\n"
    "    for k in range(4):\n        B[t * 4 + k] = L[3 - k]",
    "{}L = T.decl_buffer((4,), 'int32', scope='local')\n    L[T.Ramp(0, 1, 4)] = A[T.Ramp(t * 4, 1, 4)]\n"
    "    B[T.Ramp(t * 4, 1, 4)] = L[T.Ramp(3, -1, 4)]",
    "{}L = T.decl_buffer((2, 2), 'int32', scope='local')\n    L[1, 0] = A[t]\n    B[t] = L[1, 0]",
    "{}L = T.decl_buffer((1,), 'int32', scope='local')\n    L[0] = t\n    while L[0] < 9:\n        L[0] = L[0] + 4\n"
    "    B[t] = L[0]",
    "{}L = T.decl_buffer((n + 2,), 'int32', scope='local')\n    L[n] = A[t]\n    B[t] = L[n]",
    "{}B[t] = T.Let(x + x * t, where={{x: A[t]}})",
    "{}for k in range(t, t + 2):\n        B[t * 8 + k] = A[k]",
    "{}L = T.decl_buffer((t + 1,), 'int32', scope='local')\n    for k in range(t + 1):\n        L[k] = A[k]\n    B[t] = L[t]",
    "{}L = T.decl_buffer((4,), 'int32', scope='local')\n    L[1] = A[t]\n    if n > 2:\n        L[1] = L[1] + t\n    B[t] = L[1]",
    "{}L = T.decl_buffer((4,), 'int32', scope='local')\n    for k in range(4):\n        L[k] = A[k] + n\n    M = T.decl_buffer((4,), 'int32', scope='local')\n"
    "    for k in range(4):\n        M[k] = L[k] + t\n    B[t] = M[t % 4] + L[3]",
    "{}x: T.int32 = n * 2\n    y: T.int32 = x + t\n    if y > 7:\n        B[y] = x\n    T.evaluate(A[t])",
    "{}with T.attr(0, 'pragma_x', n):\n        B[t] = 1\n    assert n < 100, 'large'\n    B[t + 8] = 2",
)  # fmt: skip
FETCH = """
for i in range({}):
    b = T.allocate([4], "int32", "shared")
    L = T.Buffer((4,), "int32", data=b, scope="shared")
    with T.attr(b, "double_buffer_scope", 1):
        for j in range(4):
            L[j] = A[i * 4 + j]
    for j in range(4):
        B[i * 4 + j] = L[3 - j] + i
"""
RANGES = (
    "i < 20", "20 <= i and i < n", "i == 7 or n <= i", "i != 30", "not i < 9", "i // 8 == 3", "i * 2 > n + 3",
    "n - i > 5", "i + m == 9", "i // 8 < m", "(i + 1) // 4 > 3", "i < 0", "i < 48", "T.likely(i < 20)",
    "T.likely(i < 20 and m < 3)", "i % 5 == 0", "i < 20 or i > 23", "i < 20 and 23 < i", "7 - i // 8 > 2",
    "i * m < 9", "i % 3 == n", "i * i < 30", "i // 4 * 4 == i", "n < m", "i != n", "n == i and i < 40", "i // -3 > -5",
    "i < 20 and (i < 10 or m > 2)", "i // m > 1 and m > 0", "A[i] < 3", "i < 20 and A[i] < 5", "T.int64(3) * i < 70", "i < n or i > n", "i // (n + 1) > 2",
)  # fmt: skip
MEMORY = (
    "A[0] = 3\nB[0] = A[0] + 1\nB[0] = A[0] + 2",
    "A[T.Ramp(0, 1, 4)] = T.Ramp(5, 2, 4)\nB[0] = A[2]\nB[1] = A[4]",
    "A[T.Ramp(0, 2, 4)] = T.Broadcast(n, 4)\nB[0] = A[4]\nB[1] = A[3]\nB[2] = A[8]",
    "A[T.Ramp(0, 1, 4)] = B[T.Ramp(4, 1, 4)]\nif A[2] == B[6]:\n    B[0] = 1",
    "A[n] = 4\nif A[n] == 4:\n    B[0] = 1\nif A[m] == 4:\n    B[1] = 1",
    "A[n] = A[n]\nB[n] = B[n] + 0",
    "for i in range(8):\n    A[i] = i * 2\nfor i in range(8):\n    if A[i] == i * 2:\n        B[i] = 1",
    "for i in range(8):\n    x: T.int32 = i + n\n    A[i] = x\nfor i in range(8):\n    if A[i] >= n:\n        B[i] = 1",
    "for i in range(8):\n    x: T.int32 = B[i]\n    A[i] = x * 0\nfor i in range(8):\n    if A[i] == 0:\n        B[i] = 1",
    "if n > 3:\n    A[0] = 1\nelse:\n    A[0] = 2\nif A[0] < 3:\n    B[0] = 1",
    "if A[0] == 5:\n    if A[0] > 4:\n        B[0] = 1\n    A[0] = 4\n    if A[0] > 4:\n        B[1] = 1",
    "if n == 1 or n == 2:\n    if n < 3:\n        B[0] = 1\n    if n == 1:\n        B[1] = 1",
    "A[0] = 7\nwhile A[0] > 3:\n    A[0] = A[0] - 1\nif A[0] == 7:\n    B[0] = 1",
    "A[0] = 1\nA[0] = 2\nA[1] = A[0]\nA[0] = 3",
    "for i in range(8):\n    A[3] = i\n    A[3] = i + 1",
    "for i in range(0):\n    A[3] = i\nfor i in range(n):\n    pass\nif n > 2:\n    pass\nA[0] = B[1]",
    "for i in range(8):\n    if n < 4:\n        A[i] = i\n    else:\n        B[i] = i",
    "for i in range(8):\n    if n < 4 and i < m:\n        A[i] = i",
    "for i, j in T.grid(4, 4):\n    x: T.int32 = n * m\n    if x > 5 and i < 2:\n        A[i * 4 + j] = x",
    "for i in range(4):\n    for j in range(i):\n        if n > i:\n            A[i * 8 + j] = B[i]",
    "for i in range(4):\n    A[i] = T.if_then_else(n > 2, B[i], T.int32(0))",
    "for i in T.unroll(4):\n    for j in range(3):\n        A[i * 3 + j] = i",
    "for i in range(4):\n    for j in T.unroll(3):\n        L = T.decl_buffer((3,), 'int32', scope='local')\n"
    "        L[j] = i\n        A[i * 3 + j] = L[j]",
    "L = T.decl_buffer((8,), 'int32', scope='local')\nfor i in range(8):\n    L[i] = A[i]\nfor i in range(8):\n    B[i] = L[7 - i]",
    "K = T.decl_buffer((8,), 'int32')\nL = T.decl_buffer((8,), 'int32')\nM = T.decl_buffer((4,), 'int32')\n"
    "for i in range(8):\n    K[i] = A[i]\nfor i in range(8):\n    L[i] = K[7 - i]\nfor i in range(4):\n    M[i] = L[i] + L[i + 4]\n"
    "for i in range(4):\n    B[i] = M[3 - i]",
    "K = T.decl_buffer((8,), 'int32')\nL = T.decl_buffer((16,), 'int16')\nfor i in range(8):\n    K[i] = A[i]\n"
    "for i in range(8):\n    B[i] = K[7 - i]\nfor i in range(16):\n    L[i] = T.Cast('int16', B[i])\nfor i in range(16):\n    A[i] = T.Cast('int32', L[i])",
    "for i in range(8):\n    A[i] = (n + m) * 3 + i * (n + m)\n    B[i] = (n + m) * 3 - (m + n)",
    "A[0] = T.Let(x * x, where={x: n + m}) + (n + m) * (n + m)\nB[0] = T.Cast('int32', T.Cast('int64', n + m) * T.int64(2)) + (n + m)",
    "x: T.int32 = n + 1\nA[x] = x\nfor i in range(x):\n    B[i] = A[x] + i",
    "A[n + 60 - n] = T.Select(n < 3, A[n], B[m])",
    "for i in range(8):\n    A[T.min(i * 9, 63)] = B[T.max(i - n, 0)]",
    "A[T.Ramp(n, 3, 4)] = B[T.Broadcast(m, 4)]",
    "if n >= 0 and n < 64:\n    A[n] = B[T.Let(x + 1, where={x: m})]",
    "for i in T.parallel(4):\n    for j in T.vectorized(4):\n        A[i * 4 + j] = B[i * 4 + j]",
    "x: T.int32 = n + 1\ny: T.int32 = A[x]\nz: T.int32 = x + y\nA[0] = z - y",
    "for i in range(2, 6):\n    A[7 - i] = i\nif A[1] == 6:\n    B[0] = 1\nif A[2] == 5:\n    B[1] = 1\nif A[5] == 2:\n    B[2] = 1\nif A[6] == 1:\n    B[3] = 1",
    "for i, j in T.grid(4, 4):\n    A[i * 4 + j] = i - j\nif A[6] == -1:\n    B[0] = 1\nif A[n] == 0:\n    B[1] = 1",
    "assert n < 100, 'n'\nwith T.attr(0, 'pragma_x', 1):\n    A[0] = n\nB[0] = A[0]\nT.evaluate(n + m)\nT.evaluate(A[n])",
    "A[0] = 1\nif n > 5:\n    A[0] = 2\nif n > 5:\n    B[0] = A[0]\nelse:\n    B[1] = A[0]",
    "for i in range(8):\n    A[i] = i\nfor i in range(8):\n    A[i] = 3\nfor i in range(8):\n    B[i] = 1\nfor i in range(7):\n    B[i] = 2",
    "for i in range(4, 8):\n    A[i] = i\nfor i in range(8):\n    A[i] = 3\nfor i in range(4):\n    B[i * 2] = i\nfor i in range(7):\n    B[i] = 1",
    "for i in range(8):\n    A[i] = i\nfor i in range(4):\n    A[i * 2] = 1\nfor i in range(n):\n    B[i] = 1\nfor i in range(n):\n    B[i] = i",
    "for i in range(8):\n    if i < n:\n        A[i] = 1\nfor i in range(8):\n    if i < n + 1:\n        A[i] = 2\nfor i in range(8):\n    if i < n:\n        B[i] = 1\nfor i in range(8):\n    if i < n - 1:\n        B[i] = 2",
    "A[n] = 1\nA[m] = A[n]\nA[n] = 2\nB[n] = 3\nB[m] = 4\nB[n] = 5",
    "for i in range(4):\n    x: T.int32 = n * m\n    for j in range(4):\n        if x > j and i > 1:\n            A[i * 4 + j] = x\n    if n > 3 or i > 2:\n        B[i] = 1",
    "K = T.decl_buffer((4,), 'int32', scope='local')\nL = T.decl_buffer((4,), 'int32', scope='local')\nfor i in range(4):\n    K[i] = A[i]\n"
    "for i in range(4):\n    L[i] = K[i] + 1\nfor i in range(4):\n    B[i] = L[i]",
    "K = T.decl_buffer((4,), 'int32', scope='shared.a')\nL = T.decl_buffer((4,), 'int32', scope='shared.a')\nM = T.decl_buffer((8,), 'int8')\n"
    "for i in range(4):\n    K[i] = A[i]\nfor i in range(4):\n    L[i] = K[3 - i] + 1\nfor i in range(8):\n    M[i] = T.Cast('int8', L[i % 4])\nfor i in range(8):\n    B[i] = T.Cast('int32', M[i])",
    "K = T.decl_buffer((8,), 'uint8')\nfor i in range(8):\n    K[i] = T.Cast('uint8', A[i] * 100)\n"
    "for i in range(8):\n    B[i] = T.Cast('int32', K[i] >> T.uint8(1)) + T.Cast('int32', K[7 - i] % T.uint8(7))",
    "K = T.decl_buffer((n + 1,), 'int32')\nL = T.decl_buffer((n + 1,), 'int32')\nfor i in range(n + 1):\n    K[i] = A[i]\nfor i in range(n + 1):\n    L[i] = K[n - i]\nfor i in range(n + 1):\n    B[i] = L[i]",
    "for j in T.vectorized(4):\n    for i in range(3):\n        A[i * 4 + j] = B[j] + i",
    "for j in T.vectorized(4):\n    y: T.int32 = B[j] + A[n + 8]\n    A[j] = y * y\n    A[j + 4] = T.Let(x + j, where={x: A[j] + 1})",
    "for j in T.vectorized(4):\n    B[0] = B[0] + A[j]\n    B[j + 1] = A[0]",
    "for j in T.vectorized(4):\n    A[j] = T.if_then_else(j > 1, B[j], T.int32(0)) + T.if_then_else(n > 2, B[j], j)",
    "for j in T.vectorized(4):\n    L = T.decl_buffer((2,), 'int32', scope='local')\n    L[0] = B[j]\n    L[1] = L[0] + j\n    A[j] = L[j % 2]",
    "for j in T.vectorized(4):\n    if n > 2:\n        A[j] = 1\n    else:\n        B[j] = 2",
    "for j in T.vectorized(4):\n    if j < n and m > 1:\n        A[j] = 1\n    if j > 2:\n        B[j] = 1\n    else:\n        B[j] = 2",
    "for j in T.vectorized(4):\n    for k in range(j):\n        A[j * 4 + k] = k\n    for k in range(n):\n        B[k * 4 + j] = j",
    "for j in T.vectorized(4):\n    A[A[j] + 8] = j\n    B[j] = 0\n    while B[j] < j:\n        B[j] = B[j] + 1",
    "for j in T.vectorized(1):\n    A[j] = j + 3\nfor j in T.vectorized(2, 6):\n    B[j] = j * n",
    "for j in T.vectorized(4):\n    A[T.Ramp(j * 4, 1, 4)] = T.Broadcast(j, 4)\n    B[j] = T.Shuffle([A[T.Ramp(0, 1, 4)]], [2]) + j",
    "for j in T.vectorized(4):\n    B[j] = T.Shuffle([A[T.Ramp(j, 1, 4)]], [2])\n    B[j + 4] = T.Shuffle([T.Ramp(n, m, 4)], [3]) * j",
    "for j in T.vectorized(4):\n    assert n < 99, 'x'\n    with T.attr(0, 'pragma_y', 1):\n        A[j] = T.Select(B[j] > 1, B[j], n) + T.Select(n > 1, j, m)",
    "for j in T.vectorized(4):\n    A[j] = T.Cast('int32', T.Cast('int8', j * 100)) + T.min(B[j], n) * T.max(3, m)\n    if not (j < n or m == 1):\n        B[j] = T.likely(j > 1)",
    "for j in T.vectorized(4):\n    A[n] = j\n    A[n + 1] = A[n] + 1\n    B[j] = n",
    "for i in T.parallel(4):\n    K = T.decl_buffer((4,), 'int32', scope='local')\n    for j in range(4):\n        K[j] = A[i * 4 + j]\n    for j in T.unroll(4):\n        B[i * 4 + j] = K[3 - j] + i",
    "A[0] = (n + m) % 7 // 2\nA[1] = (n + m) % 7 // 2 + (n + m) % 7\nif n * (m + 1) > 3:\n    A[2] = n * m + n\nfor i in range(2):\n    A[i + 3] = (n + i) * (n + i) - (i + n)",
    "for i in T.serial(T.int64(8)):\n    A[i] = T.Cast('int32', i * T.int64(3) // T.int64(2))\n    B[i * T.int64(2)] = T.Cast('int32', T.Cast('int64', n) * T.int64(1000000) * T.int64(5000) // T.int64(4096))",
    "P = T.decl_buffer((4, 4), 'int32')\nfor i, j in T.grid(4, 4):\n    P[i, j] = A[i * 4 + j]\nP[1, T.Ramp(0, 1, 4)] = P[2, T.Ramp(3, -1, 4)]\nfor i, j in T.grid(4, 4):\n    B[i * 4 + j] = P[j, i]",
    "P = T.decl_buffer((4,), 'bool')\nfor i in range(4):\n    P[i] = A[i] > n\nfor i in range(4):\n    if P[3 - i] and not P[0]:\n        B[i] = 1",
    "for i in range(8):\n    if A[i] > 3 and B[i] < 0:\n        B[i] = A[i]\n        if A[i] > 2:\n            A[i] = 0\n    if not (i < 9):\n        A[i] = 5",
    "A[1] = A[0]\nB[0] = A[1]\nA[0] = A[0] + 1\nB[1] = A[1] - A[0]\nA[2] = A[2] * 0 + 4\nif A[2] > 3:\n    B[2] = 1",
    "for i in range(6):\n    for j in range(i, 6):\n        if j >= i:\n            A[i * 6 + j] = 1\n        if j < i:\n            B[i * 6 + j] = 1\n    for j in range(T.min(i, 3)):\n        if j < 3:\n            B[i * 6 + j] = j",
)  # fmt: skip


def bodies() -> dict[str, list[str]]:
    """The statements of functions, by the passes that are for them."""
    starts = [THREADS.format(2), THREADS.format(3), THREADS.format("1, 4")]
    threads = [text.format(start) for text in VIRTUAL for start in starts]
    fetches = [FETCH.format(k) for k in (1, 2, 3, 7, 8, "n")]
    loops = [
        f"for i in T.serial({k}, annotations={{'pragma_loop_partition_hint': 1}}):\n    if {c}:\n        A[i] = i"
        f"\n    B[i] = T.Select({c}, i, m)"
        for c in RANGES
        for k in ("48", "n + 9", "5, 33")
    ]
    return {"threads": threads, "fetches": fetches, "ranges": loops, "memory": list(MEMORY)}


def program(body: str) -> IRModule:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    declared = "    x = T.int32()\n" if "where={x" in body else ""
    return IRModule({"main": from_source(HEAD + declared + lines)})


def passes(kind: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Passes and their options."""
    if kind == "threads":
        yield tt.InjectVirtualThread(), {}
    elif kind == "fetches":
        yield from (
            (tt.InjectDoubleBuffer(), {"tir.InjectDoubleBuffer": {"split_loop": k}})
            for k in range(4)
        )
    elif kind == "ranges":
        for const in (False, True):
            options = {"partition_const_loop": const}
            yield tt.LoopPartition(), {"tir.LoopPartition": options}
            options = options | {"unroll_loop_with_partition_hint_no_interval": True}
            yield tt.LoopPartition(), {"tir.LoopPartition": options}
    else:
        for made in (
            tt.Simplify(), tt.RemoveNoOp(), tt.HoistExpression(), tt.HoistIfThenElse(), tt.StorageRewrite(),
            tt.CommonSubexprElimTIR(), tt.UnrollLoop(), tt.ConvertSSA(), tt.NarrowDataType(), tt.VectorizeLoop(),
            tt.InstrumentBoundCheckers(), tt.LoopPartition(), tt.RewriteUnsafeSelect(), tt.ConvertForLoopsToSerial(),
        ):  # fmt: skip
            yield made, {"tir.instrument_bound_checkers": True}
        yield tt.Simplify(), {"tir.Simplify": KNOWN}
        yield tt.RemoveNoOp(), {"tir.RemoveNoOp": {"use_dataflow_analysis": True}}
        yield tt.CommonSubexprElimTIR(identify_equiv_terms=True), {}
        for options in (
            {"auto_max_step": 12},
            {"auto_max_extent": 4},
            {"unroll_local_access": True},
        ):
            yield tt.UnrollLoop(), {"tir.UnrollLoop": options | {"explicit_unroll": False}}
            yield tt.UnrollLoop(), {"tir.UnrollLoop": options}


@pytest.mark.sample(2)
@pytest.mark.no_roundtrip
@pytest.mark.parametrize("kind", ["threads", "fetches", "ranges", "memory"])
def test_meaning(kind: str) -> None:
    for body in bodies()[kind]:
        mod = program(body)
        for step, config in passes(kind):
            with PassContext(config=config):
                made = step(mod)
            for n, m in ((0, 1), (3, 2), (12, 0)):
                same(mod, made, n, m, f"{step} {config} of\n{body}")


def same(mod: IRModule, made: IRModule, n: int, m: int, what: str) -> None:
    want, got = (
        [np.arange(64, dtype="int32") % 7, np.full(64, -1, "int32"), n, m] for _ in range(2)
    )
    run(mod["main"], want, mod)
    run(made["main"], got, made)
    for a, b in zip(want[:2], got[:2], strict=True):
        np.testing.assert_array_equal(a, b, what)


SHARED = """with T.launch_thread("threadIdx.x", 4) as t:
    s = T.allocate([4], "int32", "shared")
    S = T.Buffer((4,), "int32", data=s, scope="shared")
    S[t] = A[t]
"""
DYNAMIC = """with T.launch_thread("threadIdx.x", 4) as t:
    X = T.decl_buffer((4,), "int32", scope="shared.dyn")
    Y = T.decl_buffer((4,), "int32", scope="shared.dyn")
    X[t] = A[t]
    Y[t] = t * 3
    T.tvm_storage_sync("shared")
"""
ALLREDUCE = "with T.attr(T.comm_reducer(lambda a, b: a + b, [0]), 'reduce_scope', T.reinterpret('handle', T.uint64(0))):\n"


TWO = """a = T.allocate([8], 'int32', 'local'{})
X = T.Buffer((8,), 'int32', data=a, scope='local')
b = T.allocate([8], 'int32', 'local')
Y = T.Buffer((8,), 'int32', data=b, scope='local')
X[0] = A[0]
B[1] = 7
{}
B[0] = Y[0]"""
MEMORY_OF_24 = "L = T.decl_buffer((24,), 'int32', scope='local')\n"
SUM_OF_A = "    T.tvm_thread_allreduce(T.uint32(1), A[{0}], T.bool(True), B[0], {0})"


def warp_reduction() -> Any:
    """With the warps of a target."""

    def lower(mod: IRModule) -> IRModule:
        mod = IRModule({"main": mod["main"].with_attr("target", Target("cuda"))})
        return tt.LowerThreadAllreduce()(mod)

    return lower


def barriers() -> Any:
    return tt.ThreadSync("shared")


EFFECT = "T.Cast('int32', T.call_extern('float32', 'floorf', T.float32(2)))"  # it may do anything
RARE: tuple[tuple[Any, str, str, bool], ...] = (  # a pass, a body, a text: whether it is left
    (tt.Simplify, "P = T.decl_buffer((4, 4), 'int32')\nfor i in range(16):\n    P[i // 4, i % 4] = A[i]\n"
     "P[1, T.Ramp(0, 1, 4)] = T.Broadcast(3, 4)\nif P[1, 2] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[T.Ramp(7, -1, 4)] = T.Ramp(1, 1, 4)\nif A[5] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[T.Ramp(n, 1, 4)] = T.Broadcast(3, 4)\nif A[m] == 3:\n    B[1] = 1", "if", True),
    (tt.Simplify, "A[T.Ramp(n, 1, 4)] = T.Broadcast(3, 4)\nif A[n + 4] == 3:\n    B[1] = 1", "if", True),
    (tt.Simplify, "A[T.Ramp(n, 1, 4)] = T.Broadcast(3, 4)\nif A[n + 3] == 3:\n    B[1] = 1", "if", False),
    (tt.Simplify, "A[T.Ramp(n, 1, 4)] = T.Broadcast(3, 4)\nif A[n] == 3:\n    B[1] = 1", "if", False),
    (tt.Simplify, "A[T.Ramp(n, 2, 3)] = T.Ramp(5, 7, 3)\nif A[n + 4] == 19:\n    B[1] = 1", "if", False),
    (tt.Simplify, "A[n] = 3\nA[T.Ramp(n + 1, 1, 4)] = T.Broadcast(4, 4)\nif A[n] == 3:\n    B[0] = 1", "if", False),
    (tt.Simplify, "A[1] = 3\nA[T.Ramp(0, 2, 4)] = T.Broadcast(4, 4)\nif A[1] == 3:\n    B[0] = 1", "if", False),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, A[n], m)", "Select", False),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, m, A[n])", "Select", False),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, n + m, n * m)", "Select", True),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, m, m // T.max(n, 1))", "Select", False),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, m // 3, m % 5)", "Select", True),
    (tt.RewriteUnsafeSelect, "B[0] = T.Select(n > 2, T.popcount(m), T.likely(n))", "Select", True),
    (tt.RewriteUnsafeSelect, "B[T.Ramp(0, 1, 4)] = T.Select(A[T.Ramp(0, 1, 4)] < T.Broadcast(2, 4), "
     "A[T.Ramp(4, 1, 4)], A[T.Ramp(8, 1, 4)])", "Select", True),
    (tt.RemoveNoOp, "x: T.int32 = 3 - 3\nfor i in range(x):\n    B[i] = 1", "for", False),
    (tt.RemoveNoOp, "x: T.int32 = n + 1\nfor i in range(n - x):\n    B[i] = 1", "for", False),
    (tt.RemoveNoOp, "x: T.int32 = n + 1\nfor i in range(x - n):\n    B[i] = 1", "for", True),
    (tt.RemoveNoOp, "x: T.int32 = A[5]\nA[5] = 9\nfor i in range(A[5] - x):\n    B[i] = 1", "for", True),
    (tt.RemoveNoOp, "A[0] = 7\nA[0] = T.popcount(n)", "= 7", False),
    (tt.RemoveNoOp, "A[0] = 7\nA[0] = T.Cast('int32', T.isnullptr(A.data))", "= 7", True),
    (tt.RemoveNoOp, "A[0] = 7\nA[0] = A[1] + A[0]", "= 7", True),
    (tt.RemoveNoOp, "A[0] = 7\nA[0] = B[0]", "= 7", False),
    (tt.Simplify, f"A[0] = 3\nB[1] = {EFFECT}\nif A[0] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[0] = 3\nB[1] = n\nif A[0] == 3:\n    B[0] = 1", "if", False),
    (tt.Simplify, f"A[0] = 3\nA[1] = {EFFECT}\nif A[0] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[0] = 3\nA[1] = n\nif A[0] == 3:\n    B[0] = 1", "if", False),
    (tt.Simplify, f"A[0] = 3\nfor i in range({EFFECT}):\n    B[i] = 1\nif A[0] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[0] = 3\nfor i in range(n):\n    B[i] = 1\nif A[0] == 3:\n    B[0] = 1", "if", False),
    (tt.Simplify, f"A[0] = 3\nif {EFFECT} == 1:\n    B[3] = 1\nif A[0] == 3:\n    B[0] = 1", "A[0] == 3", True),
    (tt.Simplify, "A[0] = 3\nif n == 1:\n    B[3] = 1\nif A[0] == 3:\n    B[0] = 1", "A[0] == 3", False),
    (tt.Simplify, f"A[0] = 3\nwith T.LetStmt({EFFECT}) as y:\n    B[3] = y\nif A[0] == 3:\n    B[0] = 1", "if", True),
    (tt.Simplify, "A[0] = 3\nwith T.LetStmt(B[7]) as y:\n    B[3] = y\nif A[0] == 3:\n    B[0] = 1", "if", False),
    (tt.Simplify, "A[3] = 3\nA[2] = 3\nif n == 3 or n == 2:\n    if A[n] == 3:\n        B[0] = 1", "A[n]", False),
    (tt.Simplify, "A[3] = 3\nA[2] = 3\nif n == 3 or n == 2:\n    if A[n] == 4:\n        B[0] = 1", "A[n]", False),
    (tt.Simplify, "A[3] = 3\nA[2] = 4\nif n == 3 or n == 2:\n    if A[n] == 3:\n        B[0] = 1", "A[n]", True),
    (tt.Simplify, "A[3] = 3\nif n == 3 or n == 2:\n    if A[n] == 3:\n        B[0] = 1", "A[n]", True),
    (tt.RemoveNoOp, f"for i in range({EFFECT}):\n    A[i] = 1\nfor i in range({EFFECT}):\n    A[i] = 2", "= 1", True),
    (tt.RemoveNoOp, "for i in range(n):\n    A[i] = 1\nfor i in range(n):\n    A[i] = 2", "= 1", False),
    (tt.RemoveNoOp, f"x: T.int32 = {EFFECT}\nB[0] = 1", "floorf", True),
    (tt.RemoveNoOp, f"x: T.int32 = {EFFECT}\nB[0] = 1", "x:", False),
    (tt.RemoveNoOp, f"x: T.int32 = {EFFECT}\nfor i in range(0):\n    B[0] = x", "floorf", True),
    (tt.RemoveNoOp, "for i in range(8):\n    if B[i] > 2:\n        A[i] = 1\n"
     "for i in range(8):\n    if B[i] > 2:\n        A[i] = 2", "= 1", False),
    (tt.RemoveNoOp, "for i in range(8):\n    if B[i] > 2:\n        A[i] = 1\n"
     "for i in range(8):\n    if B[i] > 1:\n        A[i] = 2", "= 1", True),
    (tt.RemoveNoOp, "for i in range(8):\n    if i > n:\n        A[i] = 1\n"
     "for i in range(8):\n    if i > n - 1:\n        A[i] = 2", "= 1", False),
    (tt.RemoveNoOp, "for i in range(8):\n    if A[i + 1] > 2:\n        A[i] = 1\n"
     "for i in range(8):\n    if A[i + 1] > 2:\n        A[i] = 2", "= 1", True),
    (tt.RemoveNoOp, "for i in range(8):\n    if i > n:\n        A[i] = 1\n"
     "for i in range(8):\n    if i > n:\n        A[i] = 2", "= 1", False),
    (barriers, f"{SHARED}    T.evaluate(n)\n    B[t] = t", "sync", False),
    (barriers, f"{SHARED}    T.evaluate(T.isnullptr(s))\n    B[t] = t", "sync", True),
    (barriers, f"{SHARED}    while B[t] < 3:\n        B[t] = B[t] + 5 + S[t]", "sync", True),
    (barriers, f"{SHARED}    while B[t] < 3:\n        B[t] = B[t] + 5", "sync", False),
    (barriers, "T.evaluate(n)\nB[0] = A[0]\nA[0] = B[0]", "sync", False),
    (tt.UnifyThreadBinding, "for t in T.thread_binding(4, thread='threadIdx.x', annotations={'a': 1}):\n    B[t] = A[t]", "range(1", False),
    (tt.UnifyThreadBinding, "for t in T.thread_binding(4, thread='threadIdx.x', annotations={'a': 1}):\n    B[t] = A[t]", '"a": 1', True),
    (tt.UnifyThreadBinding, "for t in T.thread_binding(4, thread='threadIdx.x'):\n    B[t] = A[t]", "once", False),
    (tt.MergeSharedMemoryAllocations, f"{DYNAMIC}    L = T.decl_buffer((4,), 'int32', scope='local')\n"
     "    L[0] = X[3 - t]\n    B[t] = L[0] + Y[t]", "L = T.decl_buffer", True),
    (tt.MergeSharedMemoryAllocations, f"{DYNAMIC}    B[t] = X[3 - t] + Y[t]", "decl_buffer", False),
    (tt.LowerThreadAllreduce, f"with T.launch_thread('threadIdx.y', n + 1) as y:\n    with T.launch_thread('threadIdx.x', 4) as t:\n"
     f"        {ALLREDUCE}            T.tvm_thread_allreduce(T.uint32(1), A[t], T.bool(True), B[0], t)", "allreduce", False),
    (tt.InjectDoubleBuffer, FETCH.format(3).replace("attr(b,", "attr(B.data,"), "double_buffer_scope", True),
    (warp_reduction, "t = T.launch_thread('threadIdx.x', 8)\n" + ALLREDUCE + SUM_OF_A.format("t"), "shuffle", True),
    (warp_reduction, "t = T.launch_thread('threadIdx.x', 1)\n" + ALLREDUCE + SUM_OF_A.format("t"), "shuffle", False),
    (warp_reduction, "t = T.launch_thread('threadIdx.y', 8)\nx = T.launch_thread('threadIdx.x', 2)\n" + ALLREDUCE
     + SUM_OF_A.format("t"), "shuffle", False),
    (tt.StorageRewrite, TWO.format("", "Y[0] = A[1]"), "b = T.allocate", False),
    (tt.StorageRewrite, TWO.format(", annotations={'k': 1}", "Y[0] = A[1]"), "b = T.allocate", True),
    (tt.StorageRewrite, TWO.format(", annotations={'k': 1}", "Y[0] = A[1]"), '{"k": 1}', True),
    (tt.StorageRewrite, TWO.format(", condition=n > 2", "Y[0] = A[1]"), "condition=n > 2", True),
    (tt.StorageRewrite, TWO.format("", "Y[0] = X[0] + 1"), "b = T.allocate", False),
    (tt.StorageRewrite, TWO.format("", "with T.LetStmt(a) as p:\n    P = T.Buffer((8,), 'int32', data=p)\n    Y[0] = P[0] + X[0]"),
     "b = T.allocate", True),
    (tt.StorageRewrite, TWO.format("", "with T.LetStmt(n) as p:\n    Y[0] = p + X[0]"), "b = T.allocate", False),
    (tt.StorageRewrite, "a = T.allocate([8], 'int32', 'local')\nX = T.Buffer((8,), 'int32', data=a, scope='local')\n"
     "Z = T.decl_buffer((8,), 'int32', data=A.data)\nX[0] = A[0]\nB[0] = X[0]", "Z = T.decl_buffer", True),
    (tt.StorageRewrite, "a = T.allocate([8], 'int32', 'local')\nb = T.allocate([8], 'int32', 'local')\n"
     "X = T.Buffer((8,), 'int32', data=a, scope='local')\nZ = T.decl_buffer((8,), 'int32', data=b, scope='local')\n"
     "X[0] = A[0]\nB[0] = X[0]", "Z", False),
    (tt.CompactBufferAllocation, MEMORY_OF_24 + "L[1] = A[0]\nB[0] = L[1]", "L = T.decl_buffer((1,)", True),
    (tt.CompactBufferAllocation, MEMORY_OF_24 + "M = T.decl_buffer((24,), 'int32', data=L.data, scope='local')\nL[1] = A[0]\n"
     "M[5] = A[1]\nB[0] = L[1]", "L = T.decl_buffer((24,)", True),
    (tt.CompactBufferAllocation, MEMORY_OF_24 + "for i in range(4):\n    for j in range(i, i + 2):\n        for k in range(j, j + i):\n"
     "            L[k + 3] = j\n            B[j] = L[k + 3]", "L = T.decl_buffer((7,)", True),
    (tt.InstrumentBoundCheckers, "while A[n] < 3:\n    A[n] = A[n] + 1", "while A[n] < 3:\n        with T.Assert(", True),
    (tt.InstrumentBoundCheckers, "while A[1] < 3:\n    A[1] = A[1] + 1", "ssert", False),
    (tt.InstrumentBoundCheckers, "B[T.Ramp(0, 1, 4)] = T.if_then_else(T.Ramp(n, 1, 4) < T.Broadcast(9, 4), A[T.Ramp(n, 1, 4)], "
     "T.Broadcast(1, 4))", "ssert", False),
    (tt.InstrumentBoundCheckers, "B[T.Ramp(0, 1, 4)] = T.if_then_else(n < 9, A[T.Ramp(n, 1, 4)], T.Broadcast(1, 4))", "ssert", True),
    (tt.LowerScalarOps, "B[0] = T.Cast('int32', T.Call('float32', 'tir.hypot', [T.Cast('float32', n), T.Cast('float64', m)]))",
     'T.hypot(T.Cast("float32", n), T.Cast("float32", T.Cast("float64", m)))', True),
    (tt.CommonSubexprElimTIR, "for i in range(n * m + 2):\n    A[i] = n * m\n    with T.block('b'):\n        B[i] = n * m", "B[i] = n * m", True),
    (tt.FlattenBuffer, "L = T.decl_buffer((2, 2), 'bool')\nL[1, 0] = n > 2\nif L[1, 0]:\n    B[0] = 1", "int8", True),
    (tt.InstrumentBoundCheckers, "B[T.Ramp(60, 1, 4)] = A[T.Ramp(n, 1, 4)]", "assert", True),
    (tt.VectorizeLoop, "for j in T.vectorized(4):\n    B[T.Ramp(0, 1, 4)] = A[T.Ramp(n, 1, 4)] + T.Broadcast(m, 4)", "for", False),
    (tt.VectorizeLoop, "for j in T.vectorized(2):\n    B[T.Ramp(j * 4, 1, 4)] = A[T.Ramp(n, 1, 4)]", "for j in range(2)", True),
    (tt.VectorizeLoop, "for j in T.vectorized(2):\n    B[T.Ramp(0, j + 1, 4)] = A[T.Ramp(n, 1, 4)]", "for j in range(2)", True),
    (tt.VectorizeLoop, "for j in T.vectorized(2):\n    B[T.Ramp(0, 1, 4)] = A[T.Ramp(n, 1, 4)] + T.Broadcast(j, 4)",
     "for j in range(2)", True),
    (lambda: tt.VectorizeLoop(native=True), "for j in T.vectorized(4):\n    if j - j + n > 2 and j < 3:\n        B[j] = A[j]",
     "if 2 < n:\n        B.vstore([T.Ramp(0, 1, 4)], A[0:4], predicate=T.Ramp(0, 1, 4) < T.Broadcast(3, 4))", True),
    (lambda: tt.VectorizeLoop(native=True), "for j in T.vectorized(4):\n    if j - j + n > 2:\n        B[j] = A[j]",
     "if 2 < n:\n        B[0:4] = A[0:4]", True),
    (tt.RemoveNoOp, f"A[0] = 7\nA[0] = {EFFECT}", "floorf", True),
    (tt.RemoveNoOp, f"A[0] = 7\nA[{EFFECT}] = 7", "floorf", True),
    (tt.RemoveNoOp, "A[n] = 7\nA[n] = 7\nB[0] = 1", "A[n] = 7\n    B", True),
    (tt.ForceNarrowIndexToInt32, "for i in range(T.int64(4)):\n    if T.likely(i < T.int64(n)):\n        B[T.bitwise_not(i) + T.int64(9)] = A[i]",
     "int64", False),
    (lambda: tt.NarrowDataType(32), "for i in range(T.int64(4)):\n    B[T.likely(i)] = A[i]", "B[T.likely(i)] = A[i]", True),
    (lambda: tt.NarrowDataType(32), "for i in range(T.int64(4)):\n    B[T.likely(i)] = A[i]", "int64", False),
)  # fmt: skip


@pytest.mark.no_roundtrip
@pytest.mark.parametrize(("made", "body", "text", "left"), RARE)
def test_rare_forms(made: Any, body: str, text: str, left: bool) -> None:
    mod = program(body)
    config = {"tir.instrument_bound_checkers": True, "tir.Simplify": KNOWN}
    config["tir.RemoveNoOp"] = {"use_dataflow_analysis": True}
    with PassContext(config=config):
        after = made()(mod)
    same(mod, after, 3, 2, body)
    assert (text in after["main"].script()) == left


LOCAL = "L = T.decl_buffer((4,), 'int32', scope='local')\n    "
POINTER = (
    LOCAL
    + "T.evaluate(T.call_extern('int32', 'f', T.tvm_access_ptr(T.type_annotation('int32'), L.data, 0, 4, {}), {}))"
)


@pytest.mark.parametrize(("mask", "value", "size"), [(2, "t", 12), (1, "t", 4), (2, "n", 4), (3, "t", 12), (3, "n", 4)])  # fmt: skip
def test_memory_that_a_call_of_a_virtual_thread_writes(mask: int, value: str, size: int) -> None:
    body = THREADS.format(3) + POINTER.format(mask, value) + "\n    B[t] = L[0]"
    text = tt.InjectVirtualThread()(program(body))["main"].script()
    assert f"L = T.decl_buffer(({size},)" in text


@pytest.mark.parametrize("tag", ["vthread", "cthread"])
def test_the_number_of_a_virtual_thread(tag: str) -> None:
    body = THREADS.format(3) + "B[t] = T.call_extern('int32', 'f', T.tvm_context_id())"
    text = tt.InjectVirtualThread()(program(body.replace("vthread.x", tag)))["main"].script()
    assert ("tvm_context_id" in text) == (tag == "vthread")


REFUSED: tuple[tuple[Any, str, str], ...] = (
    (tt.InjectDoubleBuffer, FETCH.format(3).replace("[4], ", "[2, 2], "), "b is not flat\n  instead: run FlattenBuffer"),
    (tt.LowerThreadAllreduce, "t = T.launch_thread('threadIdx.x', n)\n" + ALLREDUCE + SUM_OF_A.format("t"),
     "runs along threads of constant extent that are launched around it\n  got: t"),
    (lambda: tt.LowerWarpMemory(8), "tx = T.launch_thread('threadIdx.x', 8)\nw = T.allocate([16], 'int32', 'warp')\n"
     "W = T.Buffer((16,), 'int32', data=w, scope='warp')\nfor i in range(2):\n    W[tx * 2 + i] = A[tx * 2 + i]\n"
     "B[tx] = W[(7 - tx) * 2 + tx % 2]", "which of a lane's elements of W is read depends on the reader"),
)  # fmt: skip


@pytest.mark.parametrize(("made", "body", "said"), REFUSED)
def test_refusals(made: Any, body: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made()(program(body))


@pytest.mark.parametrize(
    ("value", "truncates"),
    [
        ("i // 7", True),
        ("i % 7", True),
        ("(i - 1) // 7", False),
        ("(i - 1) % 7", False),
        ("n // 7", False),
        ("i // n", False),
        ("i // (i + 1)", True),
        ("i % T.max(n, 0)", True),
        ("T.Cast('int32', T.Cast('uint8', n) // T.uint8(3))", True),
        ("T.Ramp(i, 1, 2) // T.Broadcast(3, 2)", False),
    ],
)
def test_divisions(value: str, truncates: bool) -> None:
    mod = program(f"for i in range(8):\n    T.evaluate({value})")
    text = tt.LowerIntrin()(mod)["main"].script()
    assert ("T.Div(" in text or "T.truncmod(" in text or "T.Mod(" in text) == truncates
    assert truncates != ("//" in text or "%" in text)
