"""Tracebacks that show the user's frames only: `boundary`.

An error that crosses a public function leaves the frames of this package behind where it explains itself,
or where code of the user raised it (a pass, a converter, a rule). Those of a fault of this package stay:
they are the report of it. LOOPWRIGHT_TRACEBACK=full keeps all frames.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from .config import knob
from .errors import is_explained

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"
_FULL: ContextVar[bool] = ContextVar("whether tracebacks keep all frames", default=False)


def boundary(function: Callable[P, R]) -> Callable[P, R]:
    """The function, out of which errors come without the frames of this package."""

    @functools.wraps(function)
    def call(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except Exception as error:
            hide_frames(error)
            raise  # adds no frame of its own: a bare raise continues with the error's traceback

    return call


@contextlib.contextmanager
def full_tracebacks() -> Iterator[None]:
    """A context in which all frames stay, as with LOOPWRIGHT_TRACEBACK=full."""
    token = _FULL.set(True)
    try:
        yield
    finally:
        _FULL.reset(token)


def hide_frames(error: BaseException) -> None:
    """Remove the frames of this package from the traceback of an error, and from those of the errors it
    came from, unless it is a fault of this package."""
    if _FULL.get() or knob("LOOPWRIGHT_TRACEBACK") == "full":
        return
    frames = list(_frames(error.__traceback__))
    if not frames or not (is_explained(error) or not _is_own(frames[-1])):
        return
    shown = None
    for frame in reversed(frames):
        if not _is_own(frame):
            shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = shown
    for origin in (error.__cause__, error.__context__):
        if origin is not None:
            hide_frames(origin)


def _frames(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_own(frame: TracebackType) -> bool:
    """Whether a frame is of this package, of the library that calls native code for it, or of the context
    managers between."""
    name = frame.tb_frame.f_code.co_filename
    between = "tvm_ffi" in name or name == contextlib.__file__
    return name.startswith((_PACKAGE, "<loopwright")) or between
