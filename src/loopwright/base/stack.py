"""Room on Python's stack: `roomy`.

CPython keeps the frames of its calls in chunks of 16 KiB, taken from the system when a call does
not fit the last one and given back when it returns. A loop of calls across the end of a chunk calls
the system twice each time: a seventh of a compilation's time. A frame larger than a chunk gets one
of its own, in which the calls below it find room.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_SLOTS = 1 << 16  # of 8 bytes; CPython rounds the chunk up, to twice that


_in_room: ContextVar[bool] = ContextVar("whether a frame above has made room", default=False)


def roomy(function: Callable[P, R]) -> Callable[P, R]:
    """The function, called with room for the calls within, unless it is called where there is room:
    a chunk costs 10 us, half of what calling a pass does."""

    def call(*args: P.args, **keywords: P.kwargs) -> R:
        return function(*args, **keywords)

    call.__code__ = call.__code__.replace(co_stacksize=_SLOTS)

    @functools.wraps(function)
    def outermost(*args: P.args, **keywords: P.kwargs) -> R:
        if _in_room.get():
            return function(*args, **keywords)
        token = _in_room.set(True)
        try:
            return call(*args, **keywords)
        finally:
            _in_room.reset(token)

    return outermost
