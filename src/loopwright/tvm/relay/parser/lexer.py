"""Tokens of Relay's texts, and their positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ....base.errors import DiagnosticError, explain
from ....base.span import Span
from ..literals import NAME


class TextSpan(Span):
    """A position in a text of Relay. Such positions are not printed into texts again."""

    __slots__ = ()


class Token(NamedTuple):
    """A word: its kind, its text and where it begins."""

    kind: str
    text: str
    at: int


_QUOTED = r'"(?:\\.|[^"\\])*"'
_NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|(?:inf|nan)(?=f\b|f[0-9]))(?:[fi][0-9]*)?"
_WORDS = re.compile(
    rf"""[ \t\r\n\f\v]*(?:
    (?P<space>//[^\n]*|\Z)
  | (?P<comment>/\*)
  | (?P<string>{_QUOTED})
  | (?P<header>\#\[[^\]\n]*\])
  | (?P<meta>meta\[[^\]\n]*\]\[[^\]\n]*\])
  | (?P<graph>%[0-9]+)
  | (?P<local>%(?:{NAME}|{_QUOTED}))
  | (?P<global>@(?:{NAME}|{_QUOTED}))
  | (?P<number>{_NUMBER})
  | (?P<name>{NAME})
  | (?P<sign>->|=>|<=|>=|==|!=|[-+*/<>=(){{}}\[\],;:.?!])
    )""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_DIGITS = re.compile("[0-9]*")
_NEGATIVE = re.compile(rf"-+{_NUMBER}")
# A minus after one of these is an operator.
_OPERANDS = frozenset(("string", "meta", "graph", "local", "global", "number", "name"))


class Source:
    """A text with its name: positions in it, and errors there."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> TextSpan:
        """The place from one character to another."""
        first = bisect_right(self._starts, start)
        last = bisect_right(self._starts, max(start, end - 1))
        column, past = start - self._starts[first - 1] + 1, end - self._starts[last - 1] + 1
        return TextSpan(self.name, first, last, column, past)

    def error(
        self, what: str, start: int, end: int, got: object = None, instead: str | None = None
    ) -> DiagnosticError:
        """An error that shows the place."""
        span = self.span(start, end)
        return DiagnosticError(explain(what, got=got, instead=instead, span=span), span)


def tokens(source: Source) -> Iterator[Token]:
    """The words, and at last one of the kind "end". `#[metadata]` ends the words: the rest
    is one word, of the kind "metadata". Raises DiagnosticError."""
    text, at, before = source.text, 0, Token("start", "", 0)
    while at < len(text):
        match = _WORDS.match(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip())
            what = "this is not a word of Relay's text format"
            raise source.error(what, at, at + 1, got=repr(text[at]), instead=_hint(text[at]))
        kind = match.lastgroup or ""
        start, at = match.span(kind)
        if kind == "number" and before.text == ".":  # 0 and 1 of %x.0.1
            digits = _DIGITS.match(text, start, at)
            assert digits is not None  # no digit at all is a match, too
            at = max(start + 1, digits.end())
        elif kind == "sign" and text[start] == "-" and not _ends(before):
            negative = _NEGATIVE.match(text, start)
            kind, at = (kind, at) if negative is None else ("number", negative.end())
        if kind == "comment":
            at = _comment_end(source, start)
        elif kind == "header" and match[kind][2:-1].strip() == "metadata":
            yield Token("metadata", text[at:], at)
            at = len(text)
        elif kind != "space":
            before = Token(kind, text[start:at], start)
            yield before
    yield Token("end", "", at)


def _ends(token: Token) -> bool:
    """Whether an operand ends here."""
    return token.kind in _OPERANDS or token.text in (")", "]", "}")


def _comment_end(source: Source, start: int) -> int:
    """Where a comment that may have others in it ends."""
    depth = 0
    for match in _COMMENT.finditer(source.text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    what = "this comment does not end"
    raise source.error(what, start, start + 2, instead="close it with */")


def _hint(char: str) -> str | None:
    if char == '"':
        return 'close the string with "'
    return "names are of letters, digits, _ and /; others are quoted" if char in "%@" else None
