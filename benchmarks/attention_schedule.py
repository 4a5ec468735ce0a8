"""Attention scheduled by hand, beside its floor: python -m benchmarks.attention_schedule

softmax(q @ k^T * scale) @ v for each head, as one loop over blocks of queries: the scores of a block's
rows stay in the cache. `stages` is the schedule; after each stage the program is compiled and measured
in turn with the peak, as in `benchmarks.matmul_schedule`, whose columns these are: the operations are
those of the two products. The schedule rule `attention` does the same for each size and mask; at the
end stand what it makes of the operators, and what separate kernels take.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import relax, te, tir
from loopwright.relax import op
from loopwright.runtime import threads

from .machine import describe
from .matmul_schedule import HEADER, Peak, compiled, steps

LANES = 16  # of a vector of AVX-512


def attention(heads: int, n: int, size: int) -> tir.PrimFunc:
    """out = softmax(q @ kt / sqrt(size)) @ v; q, v, out [heads, n, size], k [heads, n, size]. The division
    by the sums comes last: of size columns instead of n."""
    q, k, v = (te.placeholder((heads, n, size), "float32", name) for name in "qkv")
    d, j = te.reduce_axis((0, size), "d"), te.reduce_axis((0, n), "j")
    keys = te.compute((heads, size, n), lambda h, d, j: k[h, j, d], "keys")
    product = te.compute(
        (heads, n, n), lambda h, i, j: te.sum(q[h, i, d] * keys[h, d, j], d), "product"
    )
    scale = tir.const(size**-0.5, "float32")
    scores = te.compute((heads, n, n), lambda *i: product(*i) * scale, "scores")
    top = te.compute((heads, n), lambda h, i: te.max(scores[h, i, j], j), "top")
    power = te.compute((heads, n, n), lambda h, i, j: te.exp(scores[h, i, j] - top[h, i]), "power")
    total = te.compute((heads, n), lambda h, i: te.sum(power[h, i, j], j), "total")
    mixed = te.compute(
        (heads, n, size), lambda h, i, c: te.sum(power[h, i, j] * v[h, j, c], j), "mixed"
    )
    out = te.compute((heads, n, size), lambda h, i, c: mixed[h, i, c] / total[h, i], "out")
    return te.create_prim_func([q, k, v, out])


def stages(func: tir.PrimFunc, rows: int = 8) -> Iterator[tuple[str, tir.Schedule]]:
    """The schedule of `attention`; each stage's name and the schedule as far as it got, a whole program."""
    sch = tir.Schedule(func, enable_check=False)
    yield "naive", sch

    h, i, c = sch.get_loops(sch.get_block("out"))
    block, i1 = sch.split(i, [None, rows])
    for name in ("mixed", "total", "power", "top", "scores", "product"):
        sch.compute_at(sch.get_block(name), block)
    yield "blocks of rows", sch

    _tile(sch, "mixed", "out", i1, c)
    yield "tiles of the result", sch

    _tile(sch, "product", "scores", *sch.get_loops(sch.get_block("scores"))[-2:])
    yield "tiles of the scores", sch

    sch.compute_at(sch.get_block("top"), sch.get_loops(sch.get_block("power"))[-2])
    _, lanes = sch.split(sch.get_loops(sch.get_block("power"))[-1], [None, LANES])
    sch.vectorize(lanes)
    yield "exponentials in vectors", sch

    for name in ("top", "total"):
        _partial_results(sch, name)
    yield "maxima and sums, too", sch

    keys, width = sch.get_block("keys"), 2 * LANES
    sch.transform_layout(keys, ("write", 0), lambda h, d, j: (h, j // width, d, j % width))
    _, d, j = sch.get_loops(keys)
    (d0, d1), (j0, j1) = sch.split(d, [None, LANES]), sch.split(j, [None, LANES])
    sch.reorder(j0, d0, d1, j1)  # squares, which are transposed in registers
    sch.unroll(d1)
    sch.vectorize(j1)
    yield "keys in strips", sch

    sch.parallel(sch.get_loops(keys)[0])
    sch.parallel(sch.fuse(h, block))
    yield "parallel", sch


def _tile(sch: tir.Schedule, product: str, last: str, rows: Any, columns: Any) -> None:
    """Compute rows and columns of a product in accumulators, for two vectors of columns at a time."""
    block, stored = sch.get_block(product), sch.get_block(last)
    strip, vectors, lanes = sch.split(columns, [None, 2, LANES])
    sch.reorder(strip, rows, vectors, lanes)
    sch.set_scope(block, 0, "local")
    sch.compute_at(block, strip)
    *_, i, j, k = sch.get_loops(block)
    j0, j1 = sch.split(j, [None, LANES])
    sch.reorder(k, i, j0, j1)
    start = sch.decompose_reduction(block, k)
    for b in (block, start, stored):
        *_, i, j0, j1 = sch.get_loops(b)
        sch.unroll(i)
        sch.unroll(j0)
        sch.vectorize(j1)


def _partial_results(sch: tir.Schedule, name: str) -> None:
    """Fold a row into vectors of partial results, and these into less, down to one."""
    block = sch.get_block(name)
    for width in (4 * LANES, LANES, LANES // 2, LANES // 4, LANES // 8):
        _, lanes = sch.split(sch.get_loops(block)[-1], [None, width])
        part = sch.rfactor(lanes, 2)
        sch.set_scope(part, 0, "local")
        *_, groups, lanes = sch.get_loops(part)
        start = sch.decompose_reduction(part, groups)
        for b in (part, start):
            sch.vectorize(sch.get_loops(b)[-1])
        if width < 4 * LANES:
            sch.unroll(groups)
    sch.unroll(sch.get_loops(block)[-1])


def model(heads: int, n: int, size: int) -> lw.IRModule:
    """The same as a graph of operators."""
    shape = [heads, n, size]
    params = [relax.Var(name, relax.TensorStructInfo(shape, "float32")) for name in "qkv"]
    bb = relax.BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            q, k, v = params
            product = bb.emit(op.matmul(q, bb.emit(op.permute_dims(k, [0, 2, 1]))))
            scores = bb.emit(op.multiply(product, relax.const(size**-0.5, "float32")))
            out = bb.emit_output(op.matmul(bb.emit(op.nn.softmax(scores)), v))
        bb.emit_func_output(out)
    return bb.get()


def main() -> None:
    """Measure each stage on one thread, the last ones on more, too; print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.attention_schedule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--length", type=int, default=1024, help="queries and keys, default 1024")
    parser.add_argument("--heads", type=int, default=12, help="default 12")
    parser.add_argument("--width", type=int, default=64, help="size of a head, default 64")
    parser.add_argument("--rows", type=int, default=8, help="of a block of queries, default 8")
    parser.add_argument("--seconds", type=float, default=3, help="for each line, default 3")
    parser.add_argument("--show", action="store_true", help="print the last program and its trace")
    options = parser.parse_args()
    shape = heads, n, size = options.heads, options.length, options.width
    operations, most = 4 * heads * n * n * size, threads.num_threads()
    target = lw.Target("llvm -mcpu=native")
    machine = describe()
    print(f"{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f}")
    threads.set_num_threads(1)
    peak = Peak()
    flops = peak.operations / min(peak.turn(peak.call) for _ in range(5))
    print(f"1 thread: {flops / 1e9:.0f} GF/s peak")
    print(f"{heads} x {n} x {size}: floor of the products {operations / flops * 1e3:.2f} ms\n")
    q, k, v = np.random.default_rng(0).standard_normal((3, *shape)).astype("float32")
    out, right = np.empty_like(q), reference(q, k, v)

    def line(name: str, calls: object, run: Callable[[], Any]) -> None:
        np.testing.assert_allclose(run(), right, atol=1e-5)
        peak.line(name, calls, run, operations, options.seconds)

    def by_hand(name: str, sch: tir.Schedule) -> None:
        kernel = compiled(sch.mod["main"], target)

        def run() -> np.ndarray:
            kernel(q, k, v, out)
            return out

        line(name, steps(sch), run)

    print(HEADER)
    for name, sch in stages(attention(*shape), options.rows):
        by_hand(name, sch)
    fused = lw.compile(model(*shape), target)
    with lw.ir.transform.PassContext(disabled_pass=["FuseAttention"]):
        apart = lw.compile(model(*shape), target)
    line("(the rule attention)", "", lambda: fused(q, k, v).numpy())
    line("(separate kernels)", "", lambda: apart(q, k, v).numpy())
    if most > 1:
        threads.set_num_threads(most)
        peak = Peak()
        by_hand(f"parallel, {most} threads", sch)
    if options.show:
        print(f"\n{sch.mod.script()}\n{sch.trace}")


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """What numpy says."""
    scores = q @ k.transpose(0, 2, 1) * np.float32(q.shape[-1] ** -0.5)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True) @ v


if __name__ == "__main__":
    main()
