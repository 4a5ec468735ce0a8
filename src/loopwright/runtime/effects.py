"""What the operators print and assert_op do, wherever a graph runs."""

from __future__ import annotations

from typing import Any

import numpy as np


def say(text: str, *values: Any) -> tuple[()]:
    """Print values, by a Python format string unless it is empty."""
    shown = [str(v) for v in values]
    print(text.format(*shown) if text else " ".join(shown))
    return ()


def require(condition: Any, text: str, *values: Any) -> tuple[()]:
    """Raise AssertionError, with a message by a Python format string, unless a condition holds."""
    if not np.asarray(condition).all():
        raise AssertionError(text.format(*values) if text else "Assertion Failed")
    return ()


__all__ = ["require", "say"]
