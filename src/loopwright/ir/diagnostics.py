"""Several located errors reported together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..base.errors import DiagnosticError, explain
from ..base.span import Span


class DiagnosticLevel(IntEnum):
    """How bad it is."""

    BUG = 10
    ERROR = 20
    WARNING = 30
    NOTE = 40
    HELP = 50


@dataclass(frozen=True)
class Diagnostic:
    """One message and its place."""

    level: DiagnosticLevel
    message: str
    span: Span | None = None

    def render(self) -> str:
        """The message with its level, and the source line with carets."""
        return explain(f"{self.level.name.lower()}: {self.message}", span=self.span)


class Diagnostics:
    """Collects messages; `check()` raises when there is an error among them.

    with Diagnostics("3 nodes cannot be imported") as found: found.error(...)
    """

    def __init__(self, title: str = "") -> None:
        self.title = title
        self.items: list[Diagnostic] = []

    def emit(self, level: DiagnosticLevel, message: str, span: Span | None = None) -> None:
        """Add a message; one that is there already is not repeated."""
        item = Diagnostic(level, message, span)
        if item not in self.items:
            self.items.append(item)

    def error(self, message: str, span: Span | None = None) -> None:
        """Add an error."""
        self.emit(DiagnosticLevel.ERROR, message, span)

    def warning(self, message: str, span: Span | None = None) -> None:
        """Add a warning."""
        self.emit(DiagnosticLevel.WARNING, message, span)

    @property
    def has_errors(self) -> bool:
        """Whether `check` would raise."""
        return any(item.level <= DiagnosticLevel.ERROR for item in self.items)

    def render(self) -> str:
        """All messages as text, the title first."""
        return "\n".join([*([self.title] if self.title else []), *(i.render() for i in self.items)])

    def check(self) -> None:
        """Raise DiagnosticError with every message when there is an error among them."""
        if self.has_errors:
            raise DiagnosticError(self.render())

    def __enter__(self) -> Diagnostics:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()
