"""Room on Python's stack: `roomy`.

CPython keeps the frames of its calls in chunks of 16 KiB, taken from the system when a call does
not fit the last one and given back when it returns. A loop of calls across the end of a chunk calls
the system twice each time: a seventh of a compilation's time. A frame larger than a chunk gets one
of its own, in which the calls below it find room.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SLOTS = 1 << 16  # of 8 bytes; CPython rounds the chunk up, to twice that


def roomy(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called with room for the calls within."""

    def call(*args: P.args, **keywords: P.kwargs) -> R:
        return function(*args, **keywords)

    call.__code__ = call.__code__.replace(co_stacksize=_SLOTS)
    return functools.wraps(function)(call)
