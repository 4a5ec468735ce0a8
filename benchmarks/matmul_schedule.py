"""A matrix product scheduled by hand, beside the peak: python -m benchmarks.matmul_schedule

The way is that of TVM's tutorial on blocked products: blocks, vectors, the order of loops, packing,
sums in registers, threads; `stages` is the whole schedule, at most 15 calls of `tir.Schedule`. The
default schedule has no part in it. After each stage the program is compiled and measured as a part of
the peak, which is what multiply-adds of vectors in registers reach. Other work on the machine
disturbs both, so they take turns, about 20 ms each: "of peak" is the median over the turns of the
product, each beside the turns of the peak before and after it; "undisturbed" compares the median of
the fastest quarter of the product's turns with that of the peak's. On one thread the clock is that
thread's own, which stands while other work has the core.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import loopwright as lw
from loopwright import tir
from loopwright.explore.machine import machine, peak
from loopwright.runtime import threads
from loopwright.script import tir as T

from .machine import describe

TURNS = 1 << 23  # of the peak's kernel: about 20 ms
TURN = 0.02  # seconds
HEADER = f"{'stage':24} calls        ms    GF/s of peak undisturbed  turns"


def matmul(n: int) -> tir.PrimFunc:
    """C = A @ B, all n x n."""

    @T.prim_func
    def main(
        A: T.Buffer((n, n), "float32"),
        B: T.Buffer((n, n), "float32"),
        C: T.Buffer((n, n), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for i, j, k in T.grid(n, n, n):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return main


def stages(
    func: tir.PrimFunc, rows: int = 4, width: int = 64
) -> Iterator[tuple[str, tir.Schedule]]:
    """The schedule of `matmul`; each stage's name and the schedule as far as it got, a whole program.

    A tile of `rows` x `width` results is computed at once: 4 x 64 are 16 registers of AVX-512.
    """
    sch = tir.Schedule(func)
    product = sch.get_block("C")
    yield "naive", sch

    i, j, k = sch.get_loops(product)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, width])
    sch.reorder(i0, j0, k, i1, j1)
    yield "blocking", sch

    sch.vectorize(j1)
    yield "vectorize", sch

    sch.reorder(j0, i0)  # a strip of B, all of k by `width`, is used by all rows: it stays in L2
    yield "reorder", sch

    packed = sch.cache_read(product, 1, "global")
    sch.transform_layout(packed, ("write", 0), lambda k, j: (j // width, k, j % width))
    sch.compute_at(packed, j0)
    sch.vectorize(sch.get_loops(packed)[-1])
    yield "packing", sch

    written = sch.cache_write(product, 0, "local")
    sch.reverse_compute_at(written, i0)
    sch.vectorize(sch.get_loops(written)[-1])
    sch.decompose_reduction(product, k)
    sch.annotate(i0, "pragma_auto_unroll_max_step", rows)  # the loops over a tile's rows
    yield "write cache", sch

    sch.parallel(j0)
    yield "parallel", sch


def steps(sch: tir.Schedule) -> int:
    """How many calls changed the program; what only looks something up does not count."""
    return sum(not inst.kind.is_pure for inst in sch.trace.insts)


def compiled(func: tir.PrimFunc, target: lw.Target) -> Callable[..., None]:
    """The function as it is: the default schedule leaves it alone."""
    return lw.compile(func.with_attr("tir.is_scheduled", True), target)["main"]


class Peak:
    """The kernel of nothing but multiply-adds, which takes turns with what is measured."""

    def __init__(self) -> None:
        self.call, self.operations = peak(threads.num_threads(), TURNS)
        self.clock = time.thread_time if threads.num_threads() == 1 else time.perf_counter

    def turn(self, call: Callable[[], object], times: int = 1) -> float:
        """Seconds of a call, the mean of several."""
        start = self.clock()
        for _ in range(times):
            call()
        return (self.clock() - start) / times

    def beside(
        self, call: Callable[[], object], operations: int, least: int, length: float
    ) -> Measured:
        """`call` in turn with the peak, for `length` seconds and `least` turns."""
        times = max(round(TURN / self.turn(call)), 1)
        took: list[float] = []
        peaks = [self.turn(self.call)]
        end = time.perf_counter() + length
        while len(took) < least or time.perf_counter() < end:
            took.append(self.turn(call, times))
            peaks.append(self.turn(self.call))
        around = [(a + b) / 2 for a, b in itertools.pairwise(peaks)]
        share = operations / self.operations
        beside = statistics.median(b / a for a, b in zip(took, around, strict=True))
        fastest = _fastest(peaks) / _fastest(took)
        return Measured(statistics.median(took), share * beside, share * fastest, len(took))

    def line(
        self, name: str, calls: object, run: Callable[[], object], operations: int, length: float
    ) -> None:
        """Print a line below `HEADER`: a stage, the calls so far, and what was measured."""
        found = self.beside(run, operations, 3, length)
        print(
            f"{name:24} {calls!s:>5} {found.seconds * 1e3:9.2f} {operations / found.seconds / 1e9:7.1f} "
            f"{found.of_peak:7.1%} {found.undisturbed:12.1%} {found.turns:6}"
        )


@dataclass
class Measured:
    """Seconds of a call, its part of the peak by each turn and by the fastest ones, how many turns."""

    seconds: float
    of_peak: float
    undisturbed: float
    turns: int


def _fastest(times: list[float]) -> float:
    """The median of the least quarter."""
    return statistics.median(sorted(times)[: max(len(times) // 4, 1)])


def main() -> None:
    """Measure each stage on one thread, the last one on more, too; print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.matmul_schedule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--size", type=int, default=1024, help="rows and columns, default 1024")
    parser.add_argument("--rows", type=int, default=4, help="of a tile, default 4")
    parser.add_argument("--width", type=int, default=64, help="columns of a tile, default 64")
    parser.add_argument("--seconds", type=float, default=3, help="for each line, default 3")
    parser.add_argument("--show", action="store_true", help="print the last program and its trace")
    options = parser.parse_args()
    n, most = options.size, threads.num_threads()
    target = lw.Target("llvm -mcpu=native")
    here = describe()
    print(f"{here['processor']}, {here['cores']} cores, load {here['load']:.1f}")
    threads.set_num_threads(1)
    beside = Peak()
    flops, rate = (figure * 1e9 for figure in machine())
    floor = max(2 * n**3 / flops, 3 * 4 * n * n / rate)
    print(f"1 thread: {flops / 1e9:.0f} GF/s peak, {rate / 1e9:.0f} GB/s")
    print(f"{n} x {n} x {n}: floor {floor * 1e3:.2f} ms\n")
    a, b = np.random.default_rng(0).random((2, n, n), np.float32)
    c, right = np.empty((n, n), np.float32), a @ b

    def line(name: str, calls: object, run: Callable[..., None], length: float) -> None:
        run(a, b, c)
        np.testing.assert_allclose(c, right, rtol=1e-4)
        beside.line(name, calls, lambda: run(a, b, c), 2 * n**3, length)

    print(HEADER)
    for name, sch in stages(matmul(n), options.rows, options.width):
        line(name, steps(sch), compiled(sch.mod["main"], target), options.seconds)
    line("(the default schedule)", "", lw.compile(matmul(n), target)["main"], options.seconds)
    if most > 1:
        threads.set_num_threads(most)
        beside = Peak()
        last = compiled(sch.mod["main"], target)
        line(f"parallel, {most} threads", steps(sch), last, options.seconds)
    if options.show:
        print(f"\n{sch.mod.script()}\n{sch.trace}")


if __name__ == "__main__":
    main()
