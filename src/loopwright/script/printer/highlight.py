"""Coloured output of TVMScript in terminals and notebooks."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

from ...ir.node import Node

_STYLES = {"light": "default", "dark": "monokai", "ansi": "ansi"}


def cprint(
    printable: str | Node, style: str | None = None, black_format: bool | None = None
) -> None:
    """Print a node or text, coloured when the output is a terminal and pygments is there.

    style: "light", "dark", "ansi" or the name of a pygments style. black_format: format the text
    with `black`, where it is installed (off by default).
    """
    text = printable if isinstance(printable, str) else printable.script()
    if black_format:
        text = _black(text)
    colored = style is not None or getattr(sys.stdout, "isatty", bool)()
    print(_coloured(text, style) if colored and find_spec("pygments") else text)


def _black(text: str) -> str:
    if find_spec("black") is None:
        return text
    black = import_module("black")
    return black.format_str(text, mode=black.FileMode()).rstrip("\n")


def _coloured(text: str, style: str | None) -> str:
    pygments = import_module("pygments")
    lexer = import_module("pygments.lexers").PythonLexer()
    formatters = import_module("pygments.formatters")
    name = _STYLES.get(style or "ansi", style or "ansi")
    if name == "ansi":
        formatter = formatters.TerminalFormatter()
    else:
        formatter = formatters.Terminal256Formatter(style=name)
    return pygments.highlight(text, lexer, formatter).rstrip("\n")
