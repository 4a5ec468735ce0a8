"""The patterns that a compiler takes, by its name: what `MergeComposite` is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....base.registry import Registry

PATTERN_TABLES: Registry[str, Any] = Registry("pattern table of a compiler", compiles=True)


def register_pattern_table(compiler: str, table: Callable[[], Any] | None = None) -> Any:
    """Register the function that returns a compiler's patterns, as (name, pattern) or (name,
    pattern, check); without `table`, a decorator. A later one takes the place of an earlier one."""

    def register(fn: Callable[[], Any]) -> Callable[[], Any]:
        PATTERN_TABLES.register(compiler, fn(), override=True)
        return fn

    return register if table is None else register(table)


def get_pattern_table(compiler: str) -> Any:
    """The patterns of a compiler, None where none are registered."""
    return PATTERN_TABLES.get(compiler)
