"""The effects of the operators print and assert_op, wherever a graph runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def _text(value: np.ndarray | int | Sequence[Any]) -> str:
    """A value, tensors in tuples by their elements too."""
    if not isinstance(value, (tuple, list)):
        return str(value)
    return f"({', '.join(map(_text, value))}{',' * (len(value) == 1)})"


def say(text: str, *values: np.ndarray | Sequence[Any]) -> tuple[()]:
    """Print values, by a Python format string unless it is empty."""
    shown = [_text(v) for v in values]
    print(text.format(*shown) if text else " ".join(shown))
    return ()


def require(condition: np.ndarray | int, text: str, *values: np.ndarray | int) -> tuple[()]:
    """Raise AssertionError, with a message by a Python format string, unless a condition holds."""
    if not np.asarray(condition).all():
        shown = [_text(v) for v in values]
        plain = ": ".join(["Assertion Failed", *([", ".join(shown)] if shown else [])])
        raise AssertionError(text.format(*values) if text else plain)
    return ()
