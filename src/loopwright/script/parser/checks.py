"""The verifiers that a program must pass before it is handed out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.span import Span
from ...ir.module import IRModule
from ...relax.analysis import find_violations
from ...relax.expr import Function


def problems(made: Any) -> Iterator[tuple[str, Span | None]]:
    """(what is wrong, where) for each broken rule of a module or function."""
    if isinstance(made, (IRModule, Function)):
        for violation in find_violations(made):
            yield violation.message, violation.span
