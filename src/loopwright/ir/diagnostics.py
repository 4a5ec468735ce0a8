"""Several located errors reported together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

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
    span: Span | None
    message: str

    def render(self) -> str:
        """The message with its level, and the source line with carets."""
        return explain(f"{self.level.name.lower()}: {self.message}", span=self.span)


class DiagnosticRenderer:
    """Shows messages to the user. render_func: called with what holds `diagnostics`."""

    def __init__(self, render_func: Callable[[Any], None]) -> None:
        self.render_func = render_func

    def render(self, ctx: Diagnostics) -> None:
        """Show the messages."""
        self.render_func(ctx)


class _Renderers:
    """The renderer that `override_renderer` has set."""

    own: DiagnosticRenderer | None = None


def override_renderer(render_func: Callable[[Any], None] | None) -> None:
    """Give the errors of scripts to a function before they are raised; None: to none."""
    _Renderers.own = None if render_func is None else DiagnosticRenderer(render_func)


def get_renderer() -> DiagnosticRenderer:
    """The renderer in force; without `override_renderer`, one that prints."""
    return _Renderers.own or DiagnosticRenderer(lambda ctx: print(Diagnostics.render(ctx)))


def report(error: DiagnosticError) -> None:
    """Show an error of a script to the renderer that the user has set, if any."""
    if _Renderers.own is not None:
        log = Diagnostics()
        log.error(error.what, error.span)
        _Renderers.own.render(log)


class Diagnostics:
    """Collects messages; `check()` raises when there is an error among them.

    with Diagnostics("3 nodes cannot be imported") as found: found.error(...)
    """

    def __init__(self, title: str = "") -> None:
        self.title = title
        self.items: list[Diagnostic] = []

    def emit(self, level: DiagnosticLevel, message: str, span: Span | None = None) -> None:
        """Add a message; one that is there already is not repeated."""
        item = Diagnostic(level, span, message)
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

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """The messages."""
        return self.items

    def __enter__(self) -> Diagnostics:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()


class DiagnosticContext(Diagnostics):
    """Messages about a module, and what renders them."""

    def __init__(self, module: Any = None, renderer: DiagnosticRenderer | None = None) -> None:
        super().__init__()
        self.module = module
        self.renderer = renderer or get_renderer()

    def render(self) -> str:
        """Give the messages to the renderer. Returns them as text; raises DiagnosticError where
        one is an error."""
        self.renderer.render(self)
        self.check()
        return super().render()

    def check(self) -> None:
        """Raise DiagnosticError where a message is an error."""
        if self.has_errors:
            raise DiagnosticError(super().render())
