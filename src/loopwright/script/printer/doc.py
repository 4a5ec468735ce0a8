"""Text in the making: expression texts that know how loosely they bind, statements as a tree of
lines, and the last step to plain text with underlines, comments and line numbers.

A statement is a `str` (one line) or a `Nest` (header lines and an indented body). Nodes that are
to be underlined leave invisible marks around their text; `render` turns the marks into carets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

# How tightly an operator binds, loosest first; a plain `str` binds tightest.
LAMBDA, OR, AND, NOT, COMPARE, ADD, MULTIPLY, UNARY, POWER, ATOM = range(10)

# Private characters, which no printed text contains (`quote` escapes them).
MARK_BEGIN, MARK_END = "\ue000", "\ue001"


class Loose(str):
    """The text of an operation, with its precedence."""

    __slots__ = ("level",)


def loose(text: str, level: int) -> Loose:
    """`text`, binding as loosely as `level`."""
    loose = Loose(text)
    loose.level = level
    return loose


def operand(text: str, level: int) -> str:
    """`text` as an operand of an operator that needs at least `level`."""
    return f"({text})" if type(text) is Loose and text.level < level else text


def marked(text: str) -> str:
    """`text`, to be underlined."""
    marked = MARK_BEGIN + text + MARK_END
    return loose(marked, text.level) if type(text) is Loose else marked


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def quote(text: str) -> str:
    """A Python string literal in double quotes."""
    if text.isalnum() and text.isascii():
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(c) or _visible(c) for c in text) + '"'


def _visible(c: str) -> str:
    if c.isprintable():
        return c
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A float that reads back as itself; infinities and NaN as strings, as `float()` reads them."""
    if math.isinf(value) or math.isnan(value):
        return f'"{value}"'
    return f"{value:.1f}" if value == math.floor(value) else f"{value:.17g}"


class Nest:
    """A statement with a body: its header lines and the statements within."""

    __slots__ = ("body", "heads")

    def __init__(self, heads: list[str], body: list) -> None:
        self.heads = heads
        self.body = body


class Gap:
    """The end of a function or class: an empty line unless nothing follows."""

    __slots__ = ()


GAP = Gap()


def mark_statements(stmts: list, start: int) -> None:
    """Underline the statements from index `start` on."""
    lines = [i for i in range(start, len(stmts)) if stmts[i] is not GAP]
    _mark_first(stmts, lines[0])
    _mark_last(stmts, lines[-1])


def _mark_first(stmts: list, i: int) -> None:
    stmt = stmts[i]
    if isinstance(stmt, Nest):
        stmt.heads = [MARK_BEGIN + stmt.heads[0], *stmt.heads[1:]]
    else:
        stmts[i] = MARK_BEGIN + stmt


def _mark_last(stmts: list, i: int) -> None:
    stmt = stmts[i]
    if isinstance(stmt, Nest):
        inner = [k for k in range(len(stmt.body)) if stmt.body[k] is not GAP]
        if inner:
            _mark_last(stmt.body, inner[-1])
        else:
            stmt.heads = [*stmt.heads[:-1], stmt.heads[-1] + MARK_END]
    else:
        stmts[i] = stmt + MARK_END


def flatten(stmts: Iterable, indent: int) -> list[tuple[str, str]]:
    """The lines of a tree of statements, each with its margin."""
    lines: list[tuple[str, str]] = []
    _flatten(stmts, "", " " * indent, lines)
    while lines and not lines[-1][1].strip():
        lines.pop()
    return lines


def _flatten(stmts: Iterable, margin: str, step: str, lines: list[tuple[str, str]]) -> None:
    for stmt in stmts:
        if type(stmt) is Nest:
            lines.extend([(margin, head) for head in stmt.heads])
            if stmt.body:
                _flatten(stmt.body, margin + step, step, lines)
            else:
                lines.append((margin + step, "pass"))
        elif stmt is GAP:
            lines.append(("", ""))
        else:
            lines.append((margin, stmt))


def render(
    stmts: Iterable,
    indent: int = 4,
    *,
    line_numbers: bool = False,
    context: int = -1,
    underlined: bool = False,
) -> str:
    """The text of a tree of statements.

    line_numbers: number the lines. context: the number of lines to print around an underlined one
    (-1: all). underlined: turn marks into a line of carets below each marked line.
    """
    lines = [margin + line for margin, line in flatten(stmts, indent)]
    if not underlined and not line_numbers:
        return "\n".join(lines)
    carets = [""] * len(lines)
    if underlined:
        lines, carets = _underline(lines)
    keep = _in_context(carets, context)
    return "\n".join(_layout(lines, carets, keep, line_numbers))


def _underline(lines: list[str]) -> tuple[list[str], list[str]]:
    depth = 0
    plain: list[str] = []
    carets: list[str] = []
    for line in lines:
        chars: list[str] = []
        below: list[str] = []
        for c in line:
            if c == MARK_BEGIN:
                depth += 1
            elif c == MARK_END:
                depth -= 1
            else:
                started = c != " " or any(x != " " for x in chars)
                below.append("^" if depth and started else " ")
                chars.append(c)
        plain.append("".join(chars))
        carets.append("".join(below).rstrip())
    return plain, carets


def _in_context(carets: list[str], context: int) -> list[bool]:
    hits = [i for i, below in enumerate(carets) if below]
    if context < 0 or not hits:
        return [True] * len(carets)
    keep = [any(abs(i - hit) <= context for hit in hits) for i in range(len(carets))]
    # A gap that is not longer than the line that would announce it is printed.
    i = 0
    while i < len(keep):
        j = i
        while j < len(keep) and not keep[j]:
            j += 1
        if j - i == 1:
            keep[i] = True
        i = max(j, i + 1)
    return keep


def _layout(
    lines: list[str], carets: list[str], keep: list[bool], line_numbers: bool
) -> Iterable[str]:
    width = len(str(len(lines))) + 1 if line_numbers else 0
    skipped = 0
    for i, line in enumerate(lines):
        if not keep[i]:
            skipped += 1
            continue
        if skipped:
            yield f"(... {skipped} lines skipped ...)"
            skipped = 0
        head = f"{i + 1:>{width - 1}} " if line_numbers else ""
        yield (head + line).rstrip() if line_numbers else line
        if carets[i]:
            yield " " * width + carets[i]
    if skipped:
        yield f"(... {skipped} lines skipped ...)"
