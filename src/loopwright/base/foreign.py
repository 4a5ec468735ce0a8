"""Errors of functions from outside the package: rules, code generators, hooks of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .errors import LoopwrightError, explain
from .registry import is_own
from .span import Span


class RuleError(LoopwrightError):
    """A function from outside the package failed; `__cause__` is its exception."""


@contextmanager
def named_errors(
    what: str | Callable[[], str], function: Any, span: Callable[[], Span | None] | None = None
) -> Iterator[None]:
    """A context in which `function` is called: its exception becomes a RuleError that names it as
    `what`, at `span`. An exception of one of the package's own functions gets a note instead."""
    try:
        yield
    except RuleError:
        raise  # the function that failed is named already
    except Exception as error:
        name = what if isinstance(what, str) else what()
        if _is_own_code(function):
            error.add_note(f"in {name}")
            raise
        got = f"{type(error).__name__}: {error}"
        site = None if span is None else span()
        raise RuleError(explain(f"{name} failed", got=got, span=site)) from error


def note(error: Exception, what: str, function: Callable[..., Any] | None) -> None:
    """Add a note to an exception of `function` that names it as `what`, unless the function is one of
    the package's own."""
    if not _is_own_code(function):
        error.add_note(f"in {what}")


def _is_own_code(function: Any) -> bool:
    """Whether a function, or the class of a callable object, is defined in this package."""
    if function is None:
        return True
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return is_own(module)
