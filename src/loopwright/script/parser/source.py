"""Where a script's text comes from: a function, a class, or a string; and locations in it."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
import zlib
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...base.errors import DiagnosticError, explain
from ...base.span import Span, register_source

_Index = dict[str, list[Any]]
# Of each file: its lines, and its functions and classes by name in order of the text.
_FILES: dict[str, tuple[list[str], _Index]] = {}


class Source:
    """A parsed text: its syntax tree, and the span of each of its nodes."""

    __slots__ = ("lines", "name")

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name = name
        self.lines = lines

    def span(self, node: Any) -> Span:
        """The span of a syntax tree node."""
        line, end_line = node.lineno, node.end_lineno
        start = self._column(line, node.col_offset)
        return Span(self.name, line, end_line, start, self._column(end_line, node.end_col_offset))

    def _column(self, line: int, offset: int) -> int:
        # The syntax tree counts UTF-8 bytes.
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode()) + 1

    def error(self, node: Any, what: str, **facts: Any) -> DiagnosticError:
        """An error at a syntax tree node; `facts` are those of `explain`."""
        span = self.span(node)
        return DiagnosticError(explain(what, span=span, **facts), span)


class ScriptText:
    """The text of a program, given as such or as a function or class of a file."""

    def __init__(self, program: Any) -> None:
        is_text = isinstance(program, str)
        self.source_name = "<str>" if is_text else inspect.getsourcefile(program) or "<str>"
        self.start_line = 1 if is_text else inspect.getsourcelines(program)[1]
        text = program if is_text else inspect.getsource(program)
        self.source = textwrap.dedent(text)
        first = text.partition("\n")[0]
        self.start_column = 0 if is_text else len(first) - len(first.lstrip())
        module = None if is_text else inspect.getmodule(program)
        self.full_source = self.source if module is None else inspect.getsource(module)

    def as_ast(self) -> ast.Module:
        """Its syntax tree. DiagnosticError for wrong syntax."""
        return parse_text(self.source)[1]


def parse_text(text: str) -> tuple[Source, ast.Module]:
    """The syntax tree of a program given as a string. DiagnosticError for wrong syntax."""
    name = f"<script {zlib.crc32(text.encode(errors='replace')):08x}>"
    register_source(name, text)
    source = Source(name, text.splitlines())
    try:
        return source, ast.parse(text, name)
    except SyntaxError as error:
        line, column = error.lineno or 1, error.offset or 1
        end = error.end_offset or column + 1
        span = Span(name, line, error.end_lineno or line, column, max(end, column + 1))
        raise DiagnosticError(explain(f"syntax error: {error.msg}", span=span), span) from None
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte; nested too deeply
        what = "this text cannot be parsed"
        raise DiagnosticError(explain(what, got=str(error) or type(error).__name__)) from None


def _file_index(filename: str, module_globals: dict[str, Any] | None) -> tuple[Source, _Index]:
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, module_globals)
    if not lines:
        what = "the source of this script cannot be read"
        hint = "write it in a file, or give its text to script.from_source"
        raise DiagnosticError(explain(what, got=filename, instead=hint))
    cached = _FILES.get(filename)
    if cached is None or cached[0] is not lines:
        index: _Index = {}
        for node in ast.walk(ast.parse("".join(lines), filename)):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                index.setdefault(node.name, []).append(node)
        cached = _FILES[filename] = (lines, index)
    return Source(filename, lines), cached[1]


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> int:
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _find(index: _Index, name: str, kind: type, accept: Callable[[Any], bool]) -> Any:
    """The innermost node of a name and kind that is accepted (the last one in the text)."""
    nodes = [n for n in index.get(name, ()) if isinstance(n, kind) and accept(n)]
    return max(nodes, key=_first_line, default=None)


def _changed(filename: str, name: str) -> DiagnosticError:
    what = f"{name} is not found in its file"
    return DiagnosticError(
        explain(what, got=filename, instead="the file has changed: start Python again")
    )


def find_function(func: Any) -> tuple[Source, ast.FunctionDef]:
    """The syntax tree of a Python function."""
    code = func.__code__
    source, index = _file_index(code.co_filename, func.__globals__)

    def accept(node: ast.FunctionDef) -> bool:
        return _first_line(node) == code.co_firstlineno

    node = _find(index, code.co_name, ast.FunctionDef, accept)
    if node is None:
        raise _changed(code.co_filename, code.co_name)
    return source, node


def find_class(cls: type, frame: FrameType) -> tuple[Source, ast.ClassDef]:
    """The syntax tree of a class that is being decorated in `frame`.

    Classes of equal names are distinguished by the lines of their methods, else by the frame's line.
    """
    name = cls.__name__
    lines = [
        member.__code__.co_firstlineno
        for member in vars(cls).values()
        if hasattr(member, "__code__") and member.__qualname__.startswith(cls.__qualname__ + ".")
    ]
    source, index = _file_index(frame.f_code.co_filename, frame.f_globals)
    target = lines[0] if lines else frame.f_lineno

    def accept(node: ast.ClassDef) -> bool:
        return _first_line(node) <= target <= (node.end_lineno or node.lineno)

    node = _find(index, name, ast.ClassDef, accept)
    if node is None:
        raise _changed(frame.f_code.co_filename, name)
    return source, node


def enclosing_class(frame: FrameType) -> ast.ClassDef | None:
    """The class whose body `frame` is executing, or None."""
    if "__qualname__" not in frame.f_locals or "__module__" not in frame.f_locals:
        return None
    try:
        _, index = _file_index(frame.f_code.co_filename, frame.f_globals)
    except DiagnosticError:
        return None
    line = frame.f_lineno

    def accept(node: ast.ClassDef) -> bool:
        return node.lineno <= line <= (node.end_lineno or line)

    return _find(index, frame.f_code.co_name, ast.ClassDef, accept)
