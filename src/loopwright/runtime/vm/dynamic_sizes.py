"""What operators with a data-dependent result size compute, and their functions `relax.run.*`, which
compiled programs call: an exported library finds them without the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import explain
from ..packed_func import register_func

if TYPE_CHECKING:
    from ..tensor import Tensor


def unique(
    x: np.ndarray,
    sorted: int = True,
    return_index: int = False,
    return_inverse: int = False,
    return_counts: int = False,
    axis: int | None = None,
) -> Any:
    """The distinct values, then the outputs the flags select; see the operator `relax.unique`."""
    flags = [bool(f) for f in (return_index, return_inverse, return_counts)]
    which = None if axis is None else int(axis)
    values, *others = np.unique(x, True, True, True, axis=which)
    index, inverse, counts = (np.asarray(m, np.int64).reshape(-1) for m in others)
    if not sorted:
        order = np.argsort(index)
        values = np.take(values, order, 0 if which is None else which)
        index, inverse, counts = index[order], np.argsort(order)[inverse], counts[order]
    requested = [m for m, flag in zip((index, inverse, counts), flags, strict=True) if flag]
    return (values, *requested) if requested else values


def nonzero(x: np.ndarray) -> np.ndarray:
    """Where x is not zero, [rank, count]; a scalar counts as a tensor of rank 1."""
    x = np.atleast_1d(x)
    rest = np.flatnonzero(x != 0)  # numpy is three times as fast with one axis as with two
    out = np.empty((x.ndim, rest.size), np.int64)
    out[-1] = rest
    for axis in range(x.ndim - 1, 0, -1):
        above, here, size = out[axis - 1], out[axis], x.shape[axis]
        if size & (size - 1):
            np.floor_divide(here, size, out=above)
            here -= np.multiply(above, size, out=rest)
        else:  # half the time of a division
            np.right_shift(here, size.bit_length() - 1, out=above)
            here &= size - 1
    return out


def dynamic_strided_slice(
    x: np.ndarray, begin: np.ndarray, end: np.ndarray, strides: np.ndarray
) -> np.ndarray:
    """x[begin[a]:end[a]:strides[a]] on each axis a, by Python's rule."""
    at = []
    for b, e, s, n in zip(begin, end, strides, x.shape, strict=True):
        stop = None if s < 0 and e < -n else int(e)
        at.append(slice(int(b), stop, int(s)))
    return np.asarray(x[tuple(at)], order="C")


def mel_weight_matrix(
    bins: np.ndarray,
    length: np.ndarray,
    rate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    dtype: str = "float32",
) -> np.ndarray:
    """The filters of the operator `relax.signal.mel_weight_matrix`; indices of edges are rounded down to
    frequencies of the transform, as ONNX does."""
    scalars = bins, length, rate, low, high
    if any(a.size != 1 for a in scalars):
        got = ", ".join(str(a.shape) for a in scalars)
        raise ValueError(
            explain("the inputs of mel_weight_matrix are scalars", got=f"shapes {got}")
        )
    count, size = int(bins.item()), int(length.item())
    if count * size >= 1 << 34:  # before anything of their length is made
        raise MemoryError(f"{count} filters of {size} numbers")
    if not rate.item() > 0:
        raise ValueError(explain("a sample rate is positive", got=rate.item()))
    ends = 2595 * np.log1p(np.array([low.item(), high.item()]) / 700) / np.log(10)
    step = (ends[1] - ends[0]) / (count + 2)
    edges = 700 * np.expm1((np.arange(count + 2) * step + ends[0]) / 2595 * np.log(10))
    bands = ((size + 1) * edges // rate.item()).astype(np.int64)
    row = np.arange(size // 2 + 1)[:, None]
    first, middle, last = bands[:-2], bands[1:-1], bands[2:]
    with np.errstate(divide="ignore", invalid="ignore"):
        up = np.where(middle > first, (row - first) / (middle - first), row == middle)
        down = (last - row) / (last - middle)
    rising, falling = (first <= row) & (row <= middle), (middle < row) & (row < last)
    out = np.where(rising, up, np.where(falling, down, 0.0))
    return out.astype(dtype)


def _offer(function: Callable[..., Any], tensors: int) -> None:
    """Register a function of arrays for calls whose first arguments are tensors."""

    def call(*args: Tensor | str | int) -> Any:
        return function(*map(np.asarray, args[:tensors]), *args[tensors:])

    register_func(f"relax.run.{function.__name__}", call, override=True)


_offer(unique, 1)
_offer(nonzero, 1)
_offer(dynamic_strided_slice, 4)
_offer(mel_weight_matrix, 5)
