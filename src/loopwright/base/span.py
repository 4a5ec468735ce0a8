"""Where a node came from: a position in a source text, or a node of an imported model."""

from __future__ import annotations

import linecache

_SOURCES: dict[str, str] = {}
_SHOWN = 8  # spans of a merged span that messages name


def register_source(name: str, text: str) -> None:
    """Remember the text of a source that is not a file (a string given to the parser)."""
    _SOURCES[name] = text


def source_line(name: str, line: int) -> str | None:
    """Line `line` (1-based) of a registered source or of a file, without its newline."""
    if line <= 0:
        return None
    text = _SOURCES.get(name)
    if text is not None:
        lines = text.splitlines()
        return lines[line - 1] if line <= len(lines) else None
    return linecache.getline(name, line).rstrip("\n") or None


class SourceName(str):
    """The name of a source, as TVM spells it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name."""
        return str(self)


class Span:
    """A position: `source` is a file or source name with a line and columns (1-based), or
    the name of a model's node ("onnx:/fc1/Gemm") with line 0.

    Columns: `column` is the first character, `end_column` one past the last.

    >>> lw.Span("model.py", 3, 3, 5, 9).line
    3
    """

    __slots__ = ("column", "end_column", "end_line", "line", "source")

    def __init__(
        self,
        source_name: str,
        line: int = 0,
        end_line: int = 0,
        column: int = 0,
        end_column: int = 0,
    ) -> None:
        self.source = source_name
        self.line = line
        self.end_line = end_line or line
        self.column = column
        self.end_column = end_column or column + 1

    @property
    def source_name(self) -> str:
        """TVM's name for `source`."""
        return self.source

    def same_as(self, other: object) -> bool:
        """Whether `other` is this very object."""
        return self is other

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    def __repr__(self) -> str:
        return f"Span({self})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Span)
            and str(self) == str(other)
            and self.end_line == other.end_line
            and self.end_column == other.end_column
        )

    def __hash__(self) -> int:
        return hash((self.source, self.line, self.column))

    def render(self) -> str:
        """The place as text; for a source line, the line and carets below it."""
        text = source_line(self.source, self.line)
        if text is None:
            return f" --> {self}"
        one_line = self.end_line == self.line
        width = self.end_column - self.column if one_line else len(text) - self.column + 1
        gutter = " " * len(str(self.line))
        carets = " " * (self.column - 1) + "^" * max(1, width)
        return f" --> {self}\n {gutter} |\n {self.line} | {text}\n {gutter} | {carets}"


class SequentialSpan(Span):
    """Several spans that were merged into one node, for instance by fusion."""

    __slots__ = ("spans",)

    def __init__(self, spans: list[Span] | tuple[Span, ...]) -> None:
        self.spans = tuple(dict.fromkeys(single for span in spans for single in spans_of(span)))
        first = self.spans[0]
        super().__init__(first.source, first.line, first.end_line, first.column, first.end_column)

    def __str__(self) -> str:
        more = len(self.spans) - _SHOWN
        shown = [*map(str, self.spans[:_SHOWN]), *([f"{more} more"] if more > 0 else [])]
        return ", ".join(shown)

    def render(self) -> str:
        return "\n".join(span.render() for span in self.spans[:_SHOWN])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SequentialSpan) and self.spans == other.spans

    def __hash__(self) -> int:
        return hash(self.spans)


def spans_of(span: Span | None) -> tuple[Span, ...]:
    """The single spans of which a span, or None, consists."""
    if isinstance(span, SequentialSpan):
        return span.spans
    return () if span is None else (span,)


def merge_spans(*spans: Span | None) -> Span | None:
    """One span for a node made from several."""
    present = [span for span in spans if span is not None]
    if len(present) <= 1:
        return present[0] if present else None
    merged = SequentialSpan(present)
    return merged.spans[0] if len(merged.spans) == 1 else merged
