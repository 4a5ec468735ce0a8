"""Work as a number that is the same on every machine, however busy: calls of Python functions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def calls(fn: Callable[[], Any]) -> int:
    """How many Python functions are called in this thread while `fn` runs."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        fn()
    finally:
        sys.setprofile(before)
    return count
