"""A convolution and a product by a vector, scheduled by hand: python -m benchmarks.conv_schedule

The convolution is 3 x 3 over images in blocks of 16 channels, as the default schedule stores them: it is
bound by multiply-adds, and measured in turn with their peak, as in `benchmarks.matmul_schedule`, whose
columns these are. The product by a vector reads each weight once: it is measured beside the bandwidth of
a loop that sums what it reads.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

import loopwright as lw
from loopwright import te, tir
from loopwright.runtime import threads
from loopwright.script import tir as T

from .kernels import seconds
from .machine import describe
from .matmul_schedule import HEADER, Peak, compiled, steps

LANES = 16  # of a vector of AVX-512, and channels of a block
WIDTH = 128  # columns of a strip of weights


def convolution(channels: int, size: int) -> tir.PrimFunc:
    """Y[o, h, w, v] = sum X[c // 16, h + r, w + s, c % 16] W[o, c, r, s, v]: `channels` in and out, 3 x 3,
    over X with a border."""
    blocks, bordered = channels // LANES, size + 2

    @T.prim_func
    def main(
        X: T.Buffer((blocks, bordered, bordered, LANES), "float32"),
        W: T.Buffer((blocks, channels, 3, 3, LANES), "float32"),
        Y: T.Buffer((blocks, size, size, LANES), "float32"),
    ):
        T.func_attr({"tir.noalias": True})
        for o, h, w, v, c, r, s in T.grid(blocks, size, size, LANES, channels, 3, 3):
            with T.block("Y"):
                vo, vh, vw, vv, vc, vr, vs = T.axis.remap("SSSSRRR", [o, h, w, v, c, r, s])
                with T.init():
                    Y[vo, vh, vw, vv] = T.float32(0)
                Y[vo, vh, vw, vv] = (
                    Y[vo, vh, vw, vv]
                    + X[vc // LANES, vh + vr, vw + vs, vc % LANES] * W[vo, vc, vr, vs, vv]
                )

    return main


def stages(func: tir.PrimFunc, pixels: int = 14) -> Iterator[tuple[str, tir.Schedule]]:
    """The schedule of `convolution`; each stage's name and the schedule as far as it got, a whole program.

    A tile of `pixels` x two blocks of channels is computed at once: 14 x 2 are 28 registers of AVX-512."""
    sch = tir.Schedule(func)
    block = sch.get_block("Y")
    yield "naive", sch

    o, h, w, v, c, r, s = sch.get_loops(block)
    o0, o1 = sch.split(o, [None, 2])
    w0, w1 = sch.split(w, [None, pixels])
    sch.reorder(o0, h, w0, c, r, s, w1, o1, v)
    yield "blocking", sch

    sch.vectorize(v)
    yield "vectorize", sch

    written = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(written, w0)
    start = sch.decompose_reduction(block, c)
    for b in (block, start, written):
        *_, pixel, channels, lanes = sch.get_loops(b)
        sch.unroll(pixel)
        sch.unroll(channels)
        if b is not block:
            sch.vectorize(lanes)
    yield "accumulators", sch

    sch.parallel(sch.fuse(o0, h))
    yield "parallel", sch


def product(n: int) -> tir.PrimFunc:
    """y = x @ W."""

    @T.prim_func
    def main(
        x: T.Buffer((n,), "float32"), W: T.Buffer((n, n), "float32"), y: T.Buffer((n,), "float32")
    ):
        T.func_attr({"tir.noalias": True})
        for j, k in T.grid(n, n):
            with T.block("y"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    y[vj] = T.float32(0)
                y[vj] = y[vj] + x[vk] * W[vk, vj]

    return main


def product_stages(func: tir.PrimFunc) -> Iterator[tuple[str, tir.Schedule]]:
    """The schedule of `product`: strips of columns, each of which is read from its begin to its end."""
    sch = tir.Schedule(func)
    block = sch.get_block("y")
    yield "naive", sch

    j, k = sch.get_loops(block)
    strip, vectors, lanes = sch.split(j, [None, WIDTH // LANES, LANES])
    sch.reorder(strip, k, vectors, lanes)
    sch.vectorize(lanes)
    sch.unroll(vectors)
    yield "strips in vectors", sch

    written = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(written, strip)
    sch.vectorize(sch.get_loops(written)[-1])
    start = sch.decompose_reduction(block, k)
    sch.unroll(sch.get_loops(start)[-2])
    yield "accumulators", sch

    # The weights are laid out when the model is compiled, not in the kernel.
    sch.transform_layout(block, "W", lambda k, j: (j // WIDTH, k, j % WIDTH))
    yield "packed weights", sch

    sch.parallel(strip)
    yield "parallel", sch


def packed(w: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Weights as a kernel wants them."""
    if len(shape) == 2:
        return w
    return np.ascontiguousarray(w.reshape(len(w), -1, WIDTH).transpose(1, 0, 2))


def convolution_data(channels: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An image and weights in blocks, and their convolution."""
    blocks, rng = channels // LANES, np.random.default_rng(0)
    x = rng.standard_normal((blocks, size + 2, size + 2, LANES), np.float32)
    w = rng.standard_normal((blocks, channels, 3, 3, LANES), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    per_block = w.reshape(blocks, blocks, LANES, 3, 3, LANES)
    return x, w, np.einsum("bhwcrs,obcrsv->ohwv", windows, per_block, optimize=True)


def product_data(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A vector, weights, and their product."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(n, np.float32), rng.standard_normal((n, n), np.float32)
    return x, w, x @ w


def reading(w: np.ndarray, target: lw.Target) -> float:
    """Seconds in which an array is read: its rows are added up."""
    n, k = len(w), te.reduce_axis((0, len(w)), "k")
    rows = te.placeholder((n, n), "float32", "w")
    sums = te.compute((n,), lambda i: te.sum(rows[i, k], k), "sums")
    add, out = lw.compile(te.create_prim_func([rows, sums]), target)["main"], np.empty_like(w[0])
    return seconds(lambda: add(w, out))


def main() -> None:
    """Measure each stage on one thread, the last ones on more, too; print two tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.conv_schedule",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=2, help="for each line, default 2")
    parser.add_argument("--show", action="store_true", help="print the programs and their traces")
    options = parser.parse_args()
    target = lw.Target("llvm -mcpu=native")
    machine = describe()
    print(f"{machine['processor']}, {machine['cores']} cores, load {machine['load']:.1f}")
    channels, size, n = 64, 56, 4096
    image, vector = convolution_data(channels, size), product_data(n)
    tables = [
        (f"{channels} x {size} x {size}, 3 x 3", stages(convolution(channels, size)), image),
        (f"{n} by {n} x {n}", product_stages(product(n)), vector),
    ]
    for title, made, data in tables:
        print(f"\n{title}\n{HEADER}")
        table(made, data, target, options)


def table(made: Iterator[Any], data: Any, target: lw.Target, options: argparse.Namespace) -> None:
    """Print a line for each stage, and one for all threads."""
    x, w, want = data
    out, operations = np.empty_like(want), 2 * w.size * (want[0, ..., 0].size if x.ndim > 1 else 1)
    most = threads.num_threads()

    def peak_of(count: int) -> Peak:
        threads.set_num_threads(count)
        if x.ndim == 1:
            print(f"(threads: {count}; reading the weights: {reading(w, target) * 1e3:.2f} ms)")
        return Peak()

    def line(name: str, sch: tir.Schedule, peak: Peak) -> None:
        func = sch.mod["main"]
        kernel = compiled(func, target)
        given = w if x.ndim > 1 else packed(w, func.buffer_map[func.params[1]].shape)
        kernel(x, given, out)
        np.testing.assert_allclose(out, want, rtol=1e-3, atol=1e-2)
        peak.line(name, steps(sch), lambda: kernel(x, given, out), operations, options.seconds)

    peak = peak_of(1)
    for name, sch in made:
        line(name, sch, peak)
    if most > 1:
        line(f"parallel, {most} threads", sch, peak_of(most))
    if options.show:
        print(f"\n{sch.mod.script()}\n{sch.trace}")


if __name__ == "__main__":
    main()
