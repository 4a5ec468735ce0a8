"""What a schedule step costs: every primitive in a function of many blocks, printing it, and two
schedules as they are written by hand.

    python -m benchmarks.schedule_speed [--blocks 64] [--runs 5]
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from typing import Any

import loopwright.script  # noqa: F401  (printing)
from loopwright import tir
from loopwright.script import from_source

Step = Callable[[tir.Schedule], Callable[[], Any]]

_MATMUL = """
@T.prim_func
def main(
    A: T.Buffer(({n}, {n}), "float32"),
    B: T.Buffer(({n}, {n}), "float32"),
    C: T.Buffer(({n}, {n}), "float32"),
):
    for i, j, k in T.grid({n}, {n}, {n}):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def matmul(n: int = 512) -> tir.PrimFunc:
    """A product of square matrices."""
    return from_source(_MATMUL.format(n=n))


def many_blocks(count: int) -> tir.PrimFunc:
    """A chain of `count` blocks: maps, and in the middle a padding, a
    product, a shuffle, a map in place and a blur."""
    shape = "(32, 32)"
    lines = [
        "@T.prim_func",
        f"def main(A: T.Buffer({shape}), W: T.Buffer((34, 34)), Z: T.Buffer({shape})):",
    ]
    lines += [f"    B{n} = T.alloc_buffer({shape})" for n in range(count - 7)]
    lines += ["    P = T.alloc_buffer((34, 34))", "    M = T.alloc_buffer((34, 34))"]
    lines += [f"    S = T.alloc_buffer({shape})", f"    R = T.alloc_buffer({shape})"]
    lines += [f"    G = T.alloc_buffer({shape})"]
    for n in range(count - 6):
        source = "A" if n == 0 else f"B{n - 1}"
        target = "Z" if n == count - 7 else f"B{n}"
        lines += [
            "    for i, j in T.grid(32, 32):",
            f'        with T.block("b{n}"):',
            '            vi, vj = T.axis.remap("SS", [i, j])',
            f"            {target}[vi, vj] = T.exp({source}[vi, vj])",
        ]
        if n == count // 2:
            lines += [
                "    for i, j in T.grid(34, 34):",
                '        with T.block("pad"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                "            P[vi, vj] = T.if_then_else(",
                "                vi >= 1 and vi < 33 and vj >= 1 and vj < 33,",
                f"                {target}[vi - 1, vj - 1], T.float32(0))",
                "    for i, j, k in T.grid(34, 34, 34):",
                '        with T.block("mm"):',
                '            vi, vj, vk = T.axis.remap("SSR", [i, j, k])',
                "            with T.init():",
                "                M[vi, vj] = T.float32(0)",
                "            M[vi, vj] = M[vi, vj] + P[vi, vk] * W[vk, vj]",
                "    for i, j in T.grid(32, 32):",
                '        with T.block("shuffle"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                "            G[vi, vj] = A[vi // 4 * 4 + vj // 8, vi % 4 * 8 + vj % 8]",
                "    for i, j in T.grid(32, 32):",
                '        with T.block("again"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                "            G[vi, vj] = T.exp(G[vi, vj])",
                "    for i, j in T.grid(32, 32):",
                '        with T.block("rows"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                "            S[vi, vj] = T.exp(A[vi, vj])",
                "    for i, j in T.grid(30, 32):",
                '        with T.block("blur"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                "            R[vi, vj] = S[vi, vj] + S[vi + 2, vj]",
            ]
    return from_source("\n".join(lines))


def _intrinsic() -> tir.TensorIntrin:
    head = (
        "@T.prim_func\ndef f(X: T.Buffer((8,), offset_factor=1), "
        "Y: T.Buffer((8,), offset_factor=1)):\n"
    )
    desc = (
        '    with T.block("root"):\n'
        "        T.reads(X[0:8])\n        T.writes(Y[0:8])\n"
        "        for j in range(8):\n"
        '            with T.block("B"):\n'
        "                v = T.axis.spatial(8, j)\n"
        "                Y[v] = T.exp(X[v])\n"
    )
    impl = (
        '    with T.block("root"):\n'
        "        T.reads(X[0:8])\n        T.writes(Y[0:8])\n"
        "        Y[0:8] = T.exp(X[0:8])\n"
    )
    return tir.TensorIntrin(from_source(head + desc), from_source(head + impl))


def steps() -> dict[str, Step]:
    """Primitive to what prepares a schedule for it and gives the call to time."""
    intrinsic = _intrinsic()
    mid = "b20"
    after = "b21"

    def on_loops(fn: Callable[[tir.Schedule, list[Any]], Callable[[], Any]], block: str) -> Step:
        return lambda s: fn(s, s.get_loops(s.get_block(block)))

    def on_block(fn: Callable[[tir.Schedule, Any], Callable[[], Any]], block: str = mid) -> Step:
        return lambda s: fn(s, s.get_block(block))

    def split_k(s: tir.Schedule) -> list[Any]:
        return s.split(s.get_loops("mm")[2], [None, 2])

    def unfused(s: tir.Schedule) -> Callable[[], Any]:
        s.compute_at(mid, s.get_loops(after)[0])
        return lambda: s.merge(s.get_loops(mid)[1], s.get_loops(after)[1])

    def annotated(s: tir.Schedule) -> Callable[[], Any]:
        s.annotate(mid, "key", 1)
        return lambda: s.unannotate(mid, "key")

    def tiled(s: tir.Schedule) -> Callable[[], Any]:
        loop = s.split(s.get_loops(mid)[1], [None, 8])[1]
        return lambda: s.tensorize(loop, intrinsic)

    def both(s: tir.Schedule) -> Callable[[], Any]:
        blocks = [s.get_block(mid), s.get_block(after)]
        return lambda: s.blockize(blocks)

    def inlined(s: tir.Schedule) -> Callable[[], Any]:
        return lambda: s.reverse_compute_inline(after)

    def rolling(s: tir.Schedule) -> Callable[[], Any]:
        s.compute_at("rows", s.get_loops("blur")[0])
        return lambda: s.rolling_buffer("rows", 0)

    def rfactored(s: tir.Schedule) -> Callable[[], Any]:
        loop = split_k(s)[0]
        return lambda: s.rfactor(loop, 0)

    def swap(i: Any, j: Any) -> tuple[Any, Any]:
        return j, i

    return {
        "get_block": on_block(lambda s, b: lambda: s.get_block(mid)),
        "get_loops": on_block(lambda s, b: lambda: s.get_loops(b)),
        "get_child_blocks": on_block(lambda s, b: lambda: s.get_child_blocks(b), "root"),
        "get_producers": on_block(lambda s, b: lambda: s.get_producers(b)),
        "get_consumers": on_block(lambda s, b: lambda: s.get_consumers(b)),
        "get_output_blocks": on_block(lambda s, b: lambda: s.get_output_blocks(b), "root"),
        "sample_perfect_tile": on_loops(lambda s, x: lambda: s.sample_perfect_tile(x[0], 2), mid),
        "sample_compute_location": on_block(lambda s, b: lambda: s.sample_compute_location(b)),
        "merge": unfused,
        "fuse": on_loops(lambda s, x: lambda: s.fuse(*x), mid),
        "split": on_loops(lambda s, x: lambda: s.split(x[0], [None, 8]), mid),
        "split with a tail": on_loops(lambda s, x: lambda: s.split(x[0], [None, 5]), mid),
        "loop_partition": on_loops(lambda s, x: lambda: s.loop_partition(x[0], [8, None]), mid),
        "reorder": on_loops(lambda s, x: lambda: s.reorder(x[2], x[1], x[0]), "mm"),
        "reorder_block_iter_var": on_block(
            lambda s, b: lambda: s.reorder_block_iter_var(b, [1, 0])
        ),
        "add_unit_loop": on_block(lambda s, b: lambda: s.add_unit_loop(b)),
        "parallel": on_loops(lambda s, x: lambda: s.parallel(x[0]), mid),
        "vectorize": on_loops(lambda s, x: lambda: s.vectorize(x[1]), mid),
        "unroll": on_loops(lambda s, x: lambda: s.unroll(x[1]), mid),
        "bind": on_loops(lambda s, x: lambda: s.bind(x[0], "threadIdx.x"), mid),
        "annotate": on_block(lambda s, b: lambda: s.annotate(b, "key", 1)),
        "unannotate": annotated,
        "cache_read": on_block(lambda s, b: lambda: s.cache_read(b, 0, "local")),
        "cache_write": on_block(lambda s, b: lambda: s.cache_write(b, 0, "local")),
        "cache_inplace": on_block(lambda s, b: lambda: s.cache_inplace(b, 0, "local"), "again"),
        "cache_index": on_block(lambda s, b: lambda: s.cache_index(b, "global"), "shuffle"),
        "reindex": on_block(lambda s, b: lambda: s.reindex(b, ("read", 0)), "mm"),
        "reindex_cache_read": on_block(
            lambda s, b: lambda: s.reindex_cache_read(b, 0, "local", swap)
        ),
        "reindex_cache_write": on_block(
            lambda s, b: lambda: s.reindex_cache_write(b, 0, "local", swap)
        ),
        "read_at": on_loops(
            lambda s, x: lambda: s.read_at(x[0], s.get_block(mid), 0, "local"), mid
        ),
        "write_at": on_loops(
            lambda s, x: lambda: s.write_at(x[0], s.get_block(mid), 0, "local"), mid
        ),
        "compute_at": on_loops(lambda s, x: lambda: s.compute_at(mid, x[0]), after),
        "compute_at (padding)": on_loops(lambda s, x: lambda: s.compute_at("pad", x[0]), "mm"),
        "reverse_compute_at": on_loops(lambda s, x: lambda: s.reverse_compute_at(after, x[0]), mid),
        "compute_inline": on_block(lambda s, b: lambda: s.compute_inline(b)),
        "reverse_compute_inline": inlined,
        "decompose_reduction": on_loops(
            lambda s, x: lambda: s.decompose_reduction("mm", x[2]), "mm"
        ),
        "rfactor": rfactored,
        "storage_align": on_block(lambda s, b: lambda: s.storage_align(b, 0, 0, 8, 1)),
        "set_scope": on_block(lambda s, b: lambda: s.set_scope(b, 0, "shared")),
        "unsafe_set_dtype": on_block(lambda s, b: lambda: s.unsafe_set_dtype(b, 0, "float16")),
        "blockize": on_loops(lambda s, x: lambda: s.blockize(x[1]), mid),
        "blockize (two)": both,
        "tensorize": tiled,
        "transform_layout": on_block(
            lambda s, b: (
                lambda: s.transform_layout(b, ("write", 0), lambda i, j: (i, j // 8, j % 8))
            )
        ),
        "transform_block_layout": on_block(
            lambda s, b: lambda: s.transform_block_layout(b, lambda i, j: (i * 32 + j,))
        ),
        "set_axis_separator": on_block(
            lambda s, b: lambda: s.set_axis_separator(b, ("write", 0), [1])
        ),
        "decompose_padding": on_loops(lambda s, x: lambda: s.decompose_padding("pad", x[0]), "pad"),
        "can_decompose_padding": on_loops(
            lambda s, x: lambda: s.can_decompose_padding(s.get_block("pad"), x[0]), "pad"
        ),
        "pad_einsum": on_block(lambda s, b: lambda: s.pad_einsum(b, [5, 1, 1]), "mm"),
        "rolling_buffer": rolling,
    }


def measured(func: tir.PrimFunc, step: Step, runs: int) -> float:
    """The least milliseconds of a step on a schedule of its own."""
    best = float("inf")
    for _ in range(runs):
        call = step(tir.Schedule(func))
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def hundred_steps(sch: tir.Schedule) -> None:
    """A chain of 100 primitives on a product."""
    block = sch.get_block("C")
    for n in range(20):
        i, *_, k = sch.get_loops(block)
        a, b = sch.split(i, [None, 2])
        sch.unroll(k)
        sch.fuse(a, b)
        sch.annotate(block, f"key{n}", n)


def kernel(sch: tir.Schedule) -> None:
    """A blocked and packed product: 17 steps as they are written by hand."""
    block = sch.get_block("C")
    packed = sch.cache_read(block, 1, "global")
    sch.transform_layout(packed, ("write", 0), lambda k, j: (j // 16, k, j % 16))
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 8])
    j0, j1 = sch.split(j, [None, 16])
    k0, k1 = sch.split(k, [None, 4])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    written = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(written, j0)
    sch.parallel(i0)
    sch.unroll(k1)
    sch.unroll(i1)
    sch.vectorize(j1)
    sch.vectorize(sch.get_loops(written)[-1])
    init = sch.decompose_reduction(block, k0)
    sch.vectorize(sch.get_loops(init)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=64)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    func = many_blocks(args.blocks)
    gc.freeze()
    rows = {name: measured(func, step, args.runs) for name, step in steps().items()}
    print(f"a function of {args.blocks} blocks: ms of one step, the least of {args.runs}\n")
    for name, ms in sorted(rows.items(), key=lambda row: -row[1]):
        print(f"  {name:28} {ms:8.2f}")
    product = matmul()
    others: dict[str, tuple[tir.PrimFunc, Step]] = {
        f"printing {args.blocks} blocks": (func, lambda s: s.func.script),
        "100 steps on a product": (product, lambda s: lambda: hundred_steps(s)),
        "a kernel's 17 steps": (product, lambda s: lambda: kernel(s)),
    }
    print()
    for name, (of, step) in others.items():
        print(f"  {name:28} {measured(of, step, args.runs):8.2f}")


if __name__ == "__main__":
    main()
