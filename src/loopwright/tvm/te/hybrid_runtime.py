"""The names of hybrid scripts where Python runs a script, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np


def _bind(_: str, extent: int) -> range:
    return range(extent)


def _allocate(shape: Sequence[int], dtype: str = "float32", scope: str = "global") -> np.ndarray:
    return np.zeros(shape, dtype)


def _popcount(x: np.generic) -> int:
    return int(x).bit_count()


HYBRID_GLOBALS: dict[str, Any] = {
    **dict.fromkeys(("unroll", "vectorize", "parallel", "const_range"), range),
    **dict.fromkeys(("allocate", "output_tensor"), _allocate),
    **{name: getattr(np, name) for name in ("sqrt", "log", "tanh", "power", "exp")},
    **{f"{kind}{bits}": getattr(np, f"{kind}{bits}")
       for kind, sizes in (("int", (8, 16, 32, 64)), ("uint", (8, 16, 32, 64)),
                           ("float", (16, 32, 64))) for bits in sizes},
    "bind": _bind,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "popcount": _popcount,
    "round": round,
    "likely": lambda condition: condition,
    "ceil_div": lambda a, b: (a + b - 1) // b,
}  # fmt: skip


@contextmanager
def emulated(func: Callable[..., Any]) -> Iterator[None]:
    """Let the names be known to a function while it runs."""
    globals_ = func.__globals__
    before = {name: globals_[name] for name in HYBRID_GLOBALS if name in globals_}
    globals_.update(HYBRID_GLOBALS)
    try:
        yield
    finally:
        for name in HYBRID_GLOBALS:
            del globals_[name]
        globals_.update(before)
