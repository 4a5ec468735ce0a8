"""Errors of functions that others bring: rules, code generators, hooks of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from .errors import LoopwrightError, explain
from .registry import is_own
from .span import Span


class RuleError(LoopwrightError):
    """A function that the compiler was given failed; `__cause__` is its exception."""


@contextmanager
def named_errors(
    what: str | Callable[[], str], function: Any, span: Callable[[], Span | None] | None = None
) -> Iterator[None]:
    """Turns an exception of `function`, called inside, into a RuleError that names `what` it is, at
    `span`. An exception of the package's own functions only gets a note."""
    try:
        yield
    except RuleError:
        raise  # the innermost is named
    except Exception as error:
        name = what if isinstance(what, str) else what()
        if _is_own_code(function):
            error.add_note(f"in {name}")
            raise
        got = f"{type(error).__name__}: {error}"
        site = None if span is None else span()
        raise RuleError(explain(f"{name} failed", got=got, span=site)) from error


@contextmanager
def noted(what: str, function: Callable[..., Any] | None) -> Iterator[None]:
    """Adds a note that names `what` it is to an exception of `function`, called inside, unless the
    function is of this package."""
    try:
        yield
    except Exception as error:
        if not _is_own_code(function):
            error.add_note(f"in {what}")
        raise


def _is_own_code(function: Any) -> bool:
    if function is None:
        return True
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return is_own(module)
