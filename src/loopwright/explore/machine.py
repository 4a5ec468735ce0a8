"""The measured peak of this machine: the roof that kernels are compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

_SIDE, _BYTES = 768, 1 << 26
_SECONDS = 0.15  # of each: other work on the machine interrupts most rounds, but not all


class Machine(NamedTuple):
    """Operations and bytes a second, in units of 1e9: numpy's float32 matrix product and its copy
    of 64 MiB, the best of many rounds."""

    gflops: float
    gbs: float


@cache
def machine() -> Machine:
    """This machine's roof. Takes about 0.4 s."""
    a, b = (np.ones((_SIDE, _SIDE), "float32") for _ in range(2))
    out = np.empty_like(a)
    source, target = np.ones(_BYTES, "uint8"), np.empty(_BYTES, "uint8")
    product = _best(lambda: np.matmul(a, b, out=out))
    copy = _best(lambda: np.copyto(target, source))
    return Machine(round(2 * _SIDE**3 / product / 1e9, 1), round(2 * _BYTES / copy / 1e9, 1))


def _best(run: Callable[[], object]) -> float:
    took, end = [], time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(took) < 2:
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return min(took)
