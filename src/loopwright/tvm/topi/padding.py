"""Padding as topi's functions take it: "VALID" (none), "SAME" (the data's extents stay), a number,
one for each axis, or two (all before, then all after)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import explain
from ...te.tensor import Tensor
from .utils import get_const_int

Ints = int | Sequence[int]  # one number for all axes, or one for each
Padding = str | Ints


def listed(value: Ints) -> list[Any]:
    """A number or several as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def get_pad_tuple_generic(padding: Padding, kernel: Sequence[Any]) -> tuple[list[int], list[int]]:
    """(elements before, elements after) along each axis of a window `kernel`. "SAME" puts the odd
    one before. Raises ValueError for another form."""
    rank = len(kernel)
    if padding == "VALID":
        return [0] * rank, [0] * rank
    if padding == "SAME":
        whole = [get_const_int(k) - 1 for k in kernel]
        return [n - n // 2 for n in whole], [n // 2 for n in whole]
    if isinstance(padding, str):
        hint = f'"VALID", "SAME", a number, {rank} or {2 * rank} numbers'
        raise ValueError(explain("unknown padding", got=repr(padding), instead=hint))
    values = [get_const_int(p) for p in listed(padding)]
    if len(values) not in (1, rank, 2 * rank):
        what = f"padding takes 1, {rank} or {2 * rank} numbers"
        raise ValueError(explain(what, got=str(padding)))
    values = values * rank if len(values) == 1 else values
    return values[:rank], values[-rank:]


def get_pad_tuple(padding: Padding, kernel: Sequence[Any]) -> tuple[int, ...]:
    """The elements before each axis, then those after: (top, left, down, right) of an image."""
    before, after = get_pad_tuple_generic(padding, kernel)
    return (*before, *after)


def get_pad_tuple1d(padding: str, kernel: int) -> tuple[int, ...]:
    """(left, right)"""
    return get_pad_tuple(padding, listed(kernel))


get_pad_tuple3d = get_pad_tuple


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[int, int]:
    """(height, width) of the padding on one side, from an NCHW image and the padded one."""
    if data_pad is None:
        return 0, 0
    gaps = zip(data_pad.shape[2:], data.shape[2:], strict=True)
    height, width = (get_const_int(grown - size) // 2 for grown, size in gaps)
    return height, width


def infer_pad3d(data: Tensor, data_pad: Tensor | None, layout: str) -> tuple[int, int, int]:
    """(depth, height, width) of the padding on both sides, in layout NCDHW or NDHWC."""
    if layout not in ("NCDHW", "NDHWC"):
        raise ValueError(explain("infer_pad3d: layout is NCDHW or NDHWC", got=layout))
    if data_pad is None:
        return 0, 0, 0
    axes = [layout.index(letter) for letter in "DHW"]
    depth, height, width = (get_const_int(data_pad.shape[n] - data.shape[n]) for n in axes)
    return depth, height, width


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[int, int]:
    """(height, width) of the stride that takes NCHW data to `out`; 1 where there is one result."""
    steps = []
    for size, window, count in zip(data.shape[2:], kernel.shape[2:], out.shape[2:], strict=True):
        n = get_const_int(count)
        steps.append(1 if n == 1 else get_const_int(size - window) // (n - 1))
    return steps[0], steps[1]
