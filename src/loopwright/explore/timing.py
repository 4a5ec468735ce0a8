"""Times of the kernels of a model, next to the time of its calls."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import LoopwrightError

CLOCK_US = 0.3  # of reading a clock: a smaller difference of kernels is not a change
_LEAST = 3  # runs: a median of fewer is one of them


@dataclass(frozen=True)
class Timed:
    """runs: microseconds of each kernel, all its calls together, in each run; counts: its calls in one;
    calls: microseconds of a call of the model between two runs; sizes: the symbolic ones."""

    runs: Mapping[str, list[float]]
    counts: Mapping[str, int]
    calls: list[float]
    sizes: Mapping[str, int]

    def medians(self) -> dict[str, tuple[float, int]]:
        """Microseconds of each kernel in a run, and its calls."""
        return {n: (float(np.median(us)), self.counts[n]) for n, us in self.runs.items()}


def timed(exe: Any, inputs: Mapping[str, Any], number: int, seconds: float = math.inf) -> Timed:
    """Times of `number` runs with inputs by name, of three after `seconds`. A run, which reads a clock around each kernel, and a call without
    clocks take turns, so that both see the same machine."""
    args = [inputs[name] for name in exe.input_names()]
    main = exe["main"]
    main(*args)
    runs, counts, calls = dict[str, list[float]](), dict[str, int](), list[float]()
    try:
        exe.profile(*args)  # compiles the version with clocks
        clocks = True
    except LoopwrightError:
        clocks = False
    end = time.perf_counter() + seconds
    for k in range(number):
        if k >= _LEAST and time.perf_counter() > end:
            break
        for entry in exe.profile(*args) if clocks else ():
            runs.setdefault(entry.name, []).append(entry.total_us)
            counts[entry.name] = entry.calls
        begin = time.perf_counter()
        main(*args)
        calls.append((time.perf_counter() - begin) * 1e6)
    sizes = {
        dim: size
        for (_, _, dims), array in zip(exe.inputs(), args, strict=True)
        for dim, size in zip(dims, getattr(array, "shape", ()), strict=False)
        if isinstance(dim, str)
    }
    return Timed(runs, counts, calls, sizes)
