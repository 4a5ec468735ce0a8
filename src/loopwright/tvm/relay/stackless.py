"""Recursion without Python's stack: texts nest as deep as they like."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

# A step of a recursion: it yields steps, and is sent their results.
Step = Generator["Step", Any, Any]


def run(step: Step) -> Any:
    """The result of a recursive step.

    >>> def depth(n):
    ...     return 0 if n == 0 else 1 + (yield depth(n - 1))
    >>> run(depth(100_000))
    100000
    """
    stack = [step]
    value: Any = None
    while stack:
        try:
            below = stack[-1].send(value)
        except StopIteration as done:
            stack.pop()
            value = done.value
        else:
            stack.append(below)
            value = None
    return value
