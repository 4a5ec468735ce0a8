"""The differences of results from the expected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..runtime.tensor import Tensor


def flat(value: object) -> list[np.ndarray]:
    """The arrays of a result, whatever tuples and maps they are in."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flat(v)]
    return [np.asarray(value)]


def errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The difference of each element, relative to the largest finite one of `want`; infinite where
    one is NaN or an infinity and the other is something else."""
    if "O" in (got.dtype.kind, want.dtype.kind):  # texts
        return np.where(got == want, 0.0, np.inf)
    a, b = (np.asarray(x).astype("c16" if np.iscomplexobj(x) else "f8") for x in (got, want))
    finite = np.isfinite(b)
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    with np.errstate(all="ignore"):
        away = np.abs(a - b) / scale
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(finite & np.isfinite(a), away, np.inf))


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """The greatest of `errors`; infinite for another shape."""
    if got.shape != want.shape:
        return float("inf")
    if np.array_equal(got, want, equal_nan=got.dtype.kind in "fc"):
        return 0.0
    return float(errors(got, want).max(initial=0.0))


def apart(got: Tensor | Sequence[Tensor], want: Tensor | Sequence[Tensor]) -> float:
    """The greatest `difference` of the arrays of two results; infinite for another number of them."""
    a, b = flat(got), flat(want)
    return max(map(difference, a, b), default=0.0) if len(a) == len(b) else float("inf")
