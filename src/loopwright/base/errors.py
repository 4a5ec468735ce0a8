"""Errors that say what, got, and what to do instead, with the place they speak of."""

from __future__ import annotations

from .span import Span


class LoopwrightError(RuntimeError):
    """Base of the errors that are not a plain ValueError or TypeError of the user's call."""


TVMError = LoopwrightError


class InternalError(LoopwrightError):
    """Loopwright broke one of its own rules: please report it."""


class DiagnosticError(LoopwrightError):
    """A located error in a user's program: the text shows the source line with carets."""


def explain(
    what: str, *, got: object = None, instead: str | None = None, span: Span | None = None
) -> str:
    """The text of an error: what is wrong, what was got, what to do instead, and where.

    >>> print(explain("matmul needs equal inner dims", got="4 and 5", instead="transpose one"))
    matmul needs equal inner dims
      got: 4 and 5
      instead: transpose one
    """
    lines = [what]
    if got is not None:
        lines.append(f"  got: {got}")
    if instead is not None:
        lines.append(f"  instead: {instead}")
    if span is not None:
        lines.append(span.render())
    return "\n".join(lines)
