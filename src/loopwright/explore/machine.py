"""The measured peak of this machine: the roof that kernels are compared with.

Both figures are of kernels of our own on the model's threads, in calls of some 0.1 ms: the fastest of
many is one that no other work interrupted, so a loaded machine shows the same roof. (Products by numpy
take long enough to be interrupted each time, and its copies use one thread.)
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..driver.front import DEFAULT_TARGET, compile
from ..ir.dtype import DataType
from ..ir.target import Target
from ..runtime.threads import num_threads
from ..script import from_source

# Vectors that a multiply-add's latency needs; more would not fit 16 registers. Steps of a call.
_VECTORS, _TURNS = 12, 1 << 14
# Bytes that a call reads, and of the whole: a call finds nothing in the caches that an earlier one read.
_READ, _WHOLE = 1 << 22, 1 << 27
_SECONDS = 0.15  # of each: other work on the machine interrupts most calls, but not all
_KERNEL = """
@T.prim_func
def best(a: T.Buffer({shape}, "float32"), out: T.Buffer(({tasks}, {all}), "float32")):
    for task in T.parallel({tasks}):
        acc = T.decl_buffer(({all},), "float32", scope="local")
        for v in T.unroll({vectors}):
            for j in T.vectorized({lanes}):
                acc[v * {lanes} + j] = out[task, v * {lanes} + j]
        for k in range({turns}):
            for v in T.unroll({vectors}):
                for j in T.vectorized({lanes}):
                    acc[v * {lanes} + j] = {step}
        for v in T.unroll({vectors}):
            for j in T.vectorized({lanes}):
                out[task, v * {lanes} + j] = acc[v * {lanes} + j]
"""


class Machine(NamedTuple):
    """Operations and bytes a second, in units of 1e9: float32 multiply-adds on vectors in registers,
    and reads of memory that is in no cache, on a number of threads."""

    gflops: float
    gbs: float


def machine(threads: int | None = None) -> Machine:
    """This machine's roof for a number of threads; None: that of compiled code. The first call
    takes about half a second."""
    return _measured(threads or num_threads())


def roof_of(exe: Any) -> Machine:
    """The roof for the threads of a compiled model; that of another target need not have threads of its own."""
    return machine(getattr(getattr(exe, "program", None), "threads", None))


@cache
def _measured(threads: int) -> Machine:
    multiply_adds, operations = peak(threads)
    reads, size = reading(threads)
    return Machine(
        round(operations / _best(multiply_adds) / 1e9, 1), round(size / _best(reads) / 1e9, 1)
    )


def peak(threads: int, turns: int = _TURNS) -> tuple[Callable[[], object], int]:
    """A call of multiply-adds on vectors that stay in registers, on each thread, and the number of its
    operations, two each."""
    lanes = _lanes()
    run = _kernel(threads, (lanes,), turns, f"acc[v * {lanes} + j] * a[j] + a[j]")
    a, out = np.full(lanes, 0.5, "float32"), _start(threads)
    return lambda: run(a, out), 2 * turns * out.size


def reading(threads: int) -> tuple[Callable[[], object], int]:
    """A call that adds up a part of an array larger than the caches, the next part each time, and the
    number of bytes that it reads."""
    lanes, out = _lanes(), _start(threads)
    turns = _READ // out.nbytes
    shape = threads, turns, _VECTORS * lanes
    run = _kernel(threads, shape, turns, f"acc[v * {lanes} + j] + a[task, k, v * {lanes} + j]")
    # Zeros would be one page of memory, read again and again.
    parts = np.ones((_WHOLE // _READ, *shape), "float32")
    turn = itertools.cycle(parts)
    return lambda: run(next(turn), out), parts[0].nbytes


def _lanes() -> int:
    return Target(DEFAULT_TARGET).vector_lanes(DataType("float32"))


def _start(threads: int) -> np.ndarray:
    """Sums to begin with: of chains that begin with equal values the compiler would keep one."""
    return np.random.default_rng(0).random((threads, _VECTORS * _lanes()), "float32")


def _kernel(threads: int, shape: tuple[int, ...], turns: int, step: str) -> Callable[..., object]:
    lanes = _lanes()
    sizes = {"tasks": threads, "turns": turns, "vectors": _VECTORS, "lanes": lanes}
    text = _KERNEL.format(**sizes, all=_VECTORS * lanes, shape=shape, step=step)
    pool = None if threads == num_threads() else threads  # that of the process, or one of its own
    return compile(from_source(text), DEFAULT_TARGET, threads=pool)["best"]


def _best(run: Callable[[], object]) -> float:
    took, end = [], time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(took) < 2:
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return min(took)
