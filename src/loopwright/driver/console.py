"""Shared parts of all commands: groups of options, the output as text or JSON, errors without a traceback."""

from __future__ import annotations

import errno
import importlib.util
import inspect
import pydoc
import shutil
import sys
import traceback as frames
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ..base.errors import InternalError, LoopwrightError, explain
from ..base.frames import full_tracebacks
from ..codegen.llvm.compiler import CompileError
from .progress import watched
from .report import Report

F = TypeVar("F", bound=Callable[..., Report | None])

# Errors of a wrong command or file; any other is a defect of Loopwright.
EXPECTED = (LoopwrightError, CompileError, ValueError, TypeError, OSError, MemoryError)
REPORT = (
    "\nThis is a fault of Loopwright, not of the model or the command. Please report it to the "
    "maintainers,\nwith the lines above, the command, the model if you can, and what "
    "`loopwright --version` prints."
)
# The options of every command: name -> (type, default).
SHARED: dict[str, tuple[Any, Any]] = {
    "quiet": (
        Annotated[bool, typer.Option("--quiet", "-q", help="Print results and errors only.")],
        False,
    ),
    "verbose": (
        Annotated[bool, typer.Option("--verbose", "-v", help="Print what compiling took.")],
        False,
    ),
    "traceback": (
        Annotated[bool, typer.Option("--traceback", help="Show where an error was raised.")],
        False,
    ),
    "json": (
        Annotated[bool, typer.Option("--json", help="Print the result as JSON.")],
        False,
    ),
    "plugin": (
        Annotated[
            list[Path] | None,
            typer.Option(
                "--plugin", help="A Python file that registers operators, rules, ...; several."
            ),
        ],
        None,
    ),
}
_QUIET: ContextVar[bool] = ContextVar("whether a command prints results only", default=False)


def command(app: typer.Typer, name: str | None = None) -> Callable[[F], F]:
    """Make a function a command: its parameters are the options, a parameter whose type is a dataclass
    has its fields as options, and those of `SHARED` are added. The `Report` it returns is printed."""

    def add(function: F) -> F:
        signature = inspect.signature(function, eval_str=True)
        groups = {n: p.annotation for n, p in signature.parameters.items() if _is_group(p)}
        shared = [_option(key, kind, default) for key, (kind, default) in SHARED.items()]
        own = [p for n, p in signature.parameters.items() if n not in groups]
        params = [*own, *(p for group in groups.values() for p in _options_of(group)), *shared]
        params = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in params]

        def run(
            quiet: bool,
            verbose: bool,
            traceback: bool,
            json: bool,
            plugin: list[Path] | None,
            **arguments: Path | str | float | None,
        ) -> None:
            _QUIET.set(quiet or json)
            try:
                with watched(quiet, verbose), full_tracebacks() if traceback else nullcontext():
                    for file in plugin or ():
                        _load(file)
                    for key, group in groups.items():
                        names = [field.name for field in fields(group)]
                        arguments[key] = group(**{n: arguments.pop(n) for n in names})
                    status = _print(function(**arguments), json)
            except Exception as error:
                if traceback or _is_of_typer(error):
                    raise
                status = report(error)
                if json:
                    typer.echo(Report({"error": str(error), "status": status}).json())
                raise typer.Exit(status) from None
            if status:
                raise typer.Exit(status)

        run.__name__, run.__doc__ = function.__name__, unwrapped(function.__doc__)
        run.__annotations__ = {p.name: p.annotation for p in params}
        vars(run)["__signature__"] = signature.replace(parameters=params)
        app.command(name)(run)
        return function

    return add


def _load(file: Path) -> None:
    """Import a file by its path. Raises LoopwrightError, with the line, where it fails."""
    spec = importlib.util.spec_from_file_location(file.stem, file.resolve())
    if spec is None or spec.loader is None:
        what = "a file of Python is needed"
        raise LoopwrightError(explain(what, got=str(file), instead="--plugin FILE.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(file.stem, module)  # where annotations are looked up
    try:
        spec.loader.exec_module(module)
    except (LoopwrightError, OSError):
        raise
    except Exception as error:
        lines = [at.lineno for at in frames.extract_tb(error.__traceback__)
                 if at.filename == str(file.resolve())]  # fmt: skip
        at = f"{file}:{lines[-1]}" if lines else str(file)
        got = f"{type(error).__name__}: {error}"
        raise LoopwrightError(explain(f"{at}: the plug-in cannot be used", got=got)) from error


def unwrapped(doc: str | None) -> str:
    """A docstring with its paragraphs as one line each, which the terminal wraps."""
    paragraphs = inspect.cleandoc(doc or "").split("\n\n")
    return "\n\n".join(" ".join(p.split("\n")) for p in paragraphs)


def _is_group(param: inspect.Parameter) -> bool:
    return isinstance(param.annotation, type) and is_dataclass(param.annotation)


def _options_of(group: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(group, eval_str=True).parameters.values())


def _option(name: str, kind: Any, default: object) -> inspect.Parameter:
    only = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, only, default=default, annotation=kind)


def _print(result: Report | None, as_json: bool) -> int:
    """Print the result of a command; its exit status."""
    if result is None:
        return 0
    if as_json:
        typer.echo(result.json())
        return result.status
    if result.notes and not _QUIET.get():
        typer.echo(result.notes, err=True)
    if result.said:
        say(result.said)
    if result.text:
        (page if result.paged else typer.echo)(result.text)
    return result.status


def say(text: object) -> None:
    """Print a message that is not a result: not with --quiet."""
    if not _QUIET.get():
        typer.echo(str(text))


def page(text: str) -> None:
    """Print a text; on a terminal that it does not fit on, in a pager (PAGER)."""
    fits = text.count("\n") < shutil.get_terminal_size().lines - 1
    if fits or not sys.stdout.isatty():
        typer.echo(text)
    else:
        pydoc.pager(text)


def _is_of_typer(error: Exception) -> bool:
    """Whether Typer handles it: an exit, or a reader that closed the pipe."""
    closed = isinstance(error, OSError) and error.errno == errno.EPIPE
    return closed or isinstance(error, (typer.Exit, typer.Abort))


def report(error: Exception) -> int:
    """Print an error to stderr; the exit status."""
    if not isinstance(error, EXPECTED) or type(error) is InternalError:
        typer.echo("".join(frames.format_exception(error)) + REPORT, err=True)
        return 70
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.strerror}: {error.filename}"
    typer.echo("\n".join([f"error: {text}", *getattr(error, "__notes__", ())]), err=True)
    return 1
