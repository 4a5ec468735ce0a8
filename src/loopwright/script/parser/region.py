"""`A[0:4]` is a region of a buffer in `T.reads`, and a vector in an expression."""

from __future__ import annotations

from typing import Any

from ...tir.buffer import BufferRegion
from ...tir.stmt import region_load


def as_operand(value: object) -> Any:
    """A region as the vector load that it represents; any other value unchanged."""
    return region_load(value) if type(value) is BufferRegion else value
