"""Relay's text format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def text(
    node: Any, show_meta_data: bool = True, annotate: Callable[[Any], str] | None = None
) -> str:
    """The text of an expression, a type or a module."""
    return f"<{type(node).__name__} of Relay>"
