"""Bounds for the cost of work on a model file, relative to its size: nodes, bytes, seconds.

A file of a few bytes can require more than a machine has: functions that call each other twice,
constants that double, shapes that square. Code that builds something from an untrusted file counts
it, and the first step that exceeds a bound raises a BudgetError.

    with started():                   # around an import or a compilation; inner ones join the outer
        allow(size=9000, nodes=40)    # the file's own contents raise the bounds
        spend(nodes=3, at=span)       # made by an expansion
        if room(1 << 20): ...         # for work that can be left undone
        check()                       # in loops that make nothing: only the seconds

Without `started` nothing is counted: modules that Python code builds have no bounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .config import knob
from .errors import LoopwrightError, explain
from .span import Span

# The amount that a file's own content adds to the bounds. The largest public models have a node for
# each 10 KiB of weights, fold their weights a few times, and import in half a millisecond for each
# node (2 ms where Python takes 0.1 us for an addition).
NODE_BYTES = 4096
GROWTH = 16
NODE_SECONDS = 0.005
BYTE_SECONDS = 1 / (20 << 20)
LOWERED_SECONDS = 0.5  # for each node, once they become kernels, which are scheduled one by one
LEAST_SECONDS = 0.01  # between two looks at the clock


class BudgetError(LoopwrightError):
    """A model requires more work than a file of its size may."""


class Budget:
    """The bounds, and the amounts spent so far."""

    def __init__(self) -> None:
        self.nodes = knob("LOOPWRIGHT_BUDGET_NODES") or math.inf
        self.size = (knob("LOOPWRIGHT_BUDGET_MB") << 20) or math.inf
        self.seconds = knob("LOOPWRIGHT_BUDGET_SECONDS") or math.inf
        self.made_nodes = self.made_size = 0
        self.lowering = 0.0  # seconds that are added once nodes are lowered
        self.start = time.thread_time()
        self.asked = -math.inf  # when that clock, a call of the system, was last read


_current: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def started() -> Iterator[None]:
    """Count the work done within; the outermost one is what counts."""
    if _current.get() is not None:
        yield
        return
    token = _current.set(Budget())
    try:
        yield
    finally:
        _current.reset(token)


def allow(*, nodes: int = 0, size: int = 0) -> None:
    """Raise the bounds by the nodes and bytes that the file itself holds."""
    budget = _current.get()
    if budget is not None:
        budget.nodes += size // NODE_BYTES
        budget.size += size * GROWTH
        budget.seconds += nodes * NODE_SECONDS + size * BYTE_SECONDS
        budget.lowering += nodes * LOWERED_SECONDS


def allow_lowering() -> None:
    """Raise the bound of the seconds, once, by those that it takes to lower the nodes."""
    budget = _current.get()
    if budget is not None:
        budget.seconds += budget.lowering
        budget.lowering = 0.0


def spend(*, nodes: int = 0, size: int = 0, at: Span | str | None = None) -> None:
    """Count nodes and bytes that were created, or are about to be, at a node of the model.

    Raises BudgetError where a bound is passed, including the time limit.
    """
    budget = _current.get()
    if budget is None:
        return
    budget.made_nodes += nodes
    budget.made_size += size
    if budget.made_nodes > budget.nodes:
        raise _over("NODES", "nodes once it is expanded", budget.made_nodes, budget.nodes, at)
    if budget.made_size > budget.size:
        spent, most = (math.ceil(s / (1 << 20)) for s in (budget.made_size, budget.size))
        raise _over("MB", "MiB of constants that importing makes", spent, most, at)
    check(at)


def room(size: int) -> bool:
    """Whether that many bytes more are within the bound; if so they count as made."""
    budget = _current.get()
    if budget is None:
        return True
    if budget.made_size + size > budget.size:
        return False
    budget.made_size += size
    return True


def check(at: Span | str | None = None) -> None:
    """Raise BudgetError if the time limit is exceeded. `at`: a node of the model, or a pass."""
    budget = _current.get()
    now = time.monotonic()
    if budget is not None and now - budget.asked > LEAST_SECONDS:
        budget.asked = now
        spent = time.thread_time() - budget.start
        if spent > budget.seconds:
            raise _over("SECONDS", "seconds of computing", spent, budget.seconds, at)


def _over(name: str, unit: str, got: float, most: float, at: Span | str | None) -> BudgetError:
    digits = 1 if name == "SECONDS" else 0
    many = f"{got:.{digits}f}" if got < 1 << 63 else "2^63 or more"
    text = explain(
        f"this model takes more {unit} than a file of its size may",
        got=f"{many} where {most:.{digits}f} are allowed",
        instead=f"set LOOPWRIGHT_BUDGET_{name} to more, or to 0 for no bound, if you trust the file",
        span=Span(f"pass {at}") if isinstance(at, str) else at,
    )
    return BudgetError(text)
