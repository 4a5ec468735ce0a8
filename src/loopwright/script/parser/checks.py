"""The verifiers that a program must pass before it is handed out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...base.span import Span
from ...ir.module import IRModule
from ...relax.analysis import find_violations
from ...relax.expr import Function
from ...tir.analysis import well_formed_errors
from ...tir.function import PrimFunc


def problems(node: Any) -> Iterator[tuple[str, Span | None]]:
    """(message, span) of each broken rule of a module or function; None where the message
    contains the location itself."""
    if isinstance(node, (IRModule, Function)):
        for violation in find_violations(node):
            yield violation.message, violation.span
    functions = node.functions.values() if isinstance(node, IRModule) else [node]
    for func in functions:
        if isinstance(func, PrimFunc):
            yield from ((text, None) for text in well_formed_errors(func))
