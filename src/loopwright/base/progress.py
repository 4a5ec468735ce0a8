"""Progress events of a compilation, for a listener if there is one. Nothing is printed here.

with heard_by(print):
    compile(model)                # Step(kind='pass', name='FuseOps', number=3, total=12, ...)

with step("pass", "FuseOps", 3, 12):      # in the code that does the work
    ...
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Step:
    """The beginning or the end of a step.

    kind: "model" (around the others), "import", "pass", "kernel" (the loop passes on a function and
    some after it) or "object"; steps contain others, but objects are compiled concurrently, in
    other threads.
    number: of `total` steps of this kind, from 0 on. seconds: how long it took, None where it begins.
    """

    kind: str
    name: str
    number: int = 0
    total: int = 1
    seconds: float | None = None


Listener = Callable[[Step], None]
_listener: ContextVar[Listener | None] = ContextVar("the listener of the steps", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Report the steps inside to `listener`."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def listener() -> Listener | None:
    """The current listener; to be passed to threads."""
    return _listener.get()


def step(
    kind: str, name: str, number: int = 0, total: int = 1, to: Listener | None = None
) -> AbstractContextManager[None]:
    """Report to the listener, or `to`, the beginning of a step, and its end unless it fails."""
    heard = to or _listener.get()
    return _UNHEARD if heard is None else _reported(heard, Step(kind, name, number, total))


_UNHEARD = nullcontext()


@contextmanager
def _reported(heard: Listener, event: Step) -> Iterator[None]:
    heard(event)
    start = time.perf_counter()
    yield
    heard(replace(event, seconds=time.perf_counter() - start))
