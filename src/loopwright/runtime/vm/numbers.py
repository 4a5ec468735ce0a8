"""Random numbers at run time, and their function `relax.run.random`."""

from __future__ import annotations

import numpy as np

from ..packed_func import register_func
from ..tensor import ShapeTuple

_FRESH = np.random.default_rng()


def random(kind: str, seed: int, position: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random numbers of a shape, "uniform" in [0, 1) or "normal" of mean 0 and deviation 1. seed: the
    numbers are those of numpy's RandomState(seed), the same each time; without (-1), other ones each
    time. position: distinguishes calls of one function."""
    if seed < 0:
        numbers = (_FRESH.random if kind == "uniform" else _FRESH.standard_normal)(shape)
    else:
        state = np.random.RandomState(seed % 2**32)
        numbers = (state.random_sample if kind == "uniform" else state.standard_normal)(shape)
    return np.asarray(numbers).astype(dtype)


def _run(kind: str, seed: int, position: int, shape: ShapeTuple, dtype: str) -> np.ndarray:
    return random(str(kind), int(seed), int(position), tuple(int(d) for d in shape), str(dtype))


register_func("relax.run.random", _run, override=True)
