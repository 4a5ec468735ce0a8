"""Places in sources and models."""

from __future__ import annotations

import pickle

from loopwright.base.span import (
    SequentialSpan,
    SourceName,
    Span,
    merge_spans,
    register_source,
    source_line,
    spans_of,
)


def test_text():
    assert str(Span("a.py", 3, 3, 5, 9)) == "a.py:3:5"
    assert str(Span("onnx:/fc1/Gemm")) == "onnx:/fc1/Gemm"
    assert repr(Span("a.py", 3, column=5)) == "Span(a.py:3:5)"
    assert Span("a.py").source_name == SourceName("a.py").name == "a.py"
    span = Span("a.py")
    assert span.same_as(span) and not span.same_as(Span("a.py"))
    assert (span.line, span.end_line, span.column, span.end_column) == (0, 0, 0, 1)
    span = Span("a.py", 3, column=5)
    assert (span.line, span.end_line, span.column, span.end_column) == (3, 3, 5, 6)


def test_source_lines(tmp_path):
    register_source("<text>", "one\ntwo")
    assert source_line("<text>", 2) == "two"
    assert source_line("<text>", 3) is None
    assert source_line("<text>", 0) is None
    path = tmp_path / "file.py"
    path.write_text("alpha\nbeta\n")
    assert source_line(str(path), 2) == "beta"
    assert source_line("/no/such/file", 1) is None


def test_carets():
    register_source("<carets>", "x = matmul(a, b)\nreturn x")
    assert Span("<carets>", 1, 1, 5, 11).render() == (
        " --> <carets>:1:5\n   |\n 1 | x = matmul(a, b)\n   |     ^^^^^^"
    )
    several = Span("<carets>", 1, 2, 5, 3).render()
    assert several.endswith("   |     " + "^" * len("matmul(a, b)"))
    assert Span("<carets>", 9, 9, 1, 2).render() == " --> <carets>:9:1"


def test_equality():
    a, b = Span("a.py", 3, 3, 5, 9), Span("a.py", 3, 3, 5, 9)
    assert a == b
    assert hash(a) == hash(b)
    assert a != Span("a.py", 3, 3, 5, 8)
    assert a != "a.py:3:5"


def test_merging():
    a, b = Span("a.py", 3), Span("onnx:/add")
    assert merge_spans(None, None) is None
    assert merge_spans(None, a) is a
    assert merge_spans(a, Span("a.py", 3)) is a
    both = merge_spans(a, b)
    assert isinstance(both, SequentialSpan)
    assert both.spans == (a, b)
    assert merge_spans(both, a).spans == (a, b)
    assert both.render() == " --> a.py:3:0\n --> onnx:/add"


def test_pickles():
    both = merge_spans(Span("a.py", 3, 4, 5, 6), Span("onnx:/add"))
    assert pickle.loads(pickle.dumps(both)) == both
    assert pickle.loads(pickle.dumps(both)).spans == both.spans


def test_places_that_are_shown():
    """Eight of a merged span."""
    few, many = ([Span("a.py", line) for line in range(1, n + 1)] for n in (8, 10))
    merged = merge_spans(*few)
    assert str(merged) == ", ".join(f"a.py:{n}:0" for n in range(1, 9))
    assert str(merge_spans(*many)) == f"{merged}, 2 more"
    assert len(merge_spans(*many).render().splitlines()) == 8
    assert merge_spans(*few) == merged != merge_spans(*many) and merged != few[0]
    assert hash(merged) == hash(merge_spans(*few)) and spans_of(None) == ()
    assert spans_of(few[0]) == (few[0],) and spans_of(merged) == tuple(few)


def test_columns():
    register_source("<columns>", "abc\n")
    assert Span("<columns>", 1).end_line == 1 and Span("<columns>", 1, 0, 3).end_column == 4
    for span, carets in (
        (Span("<columns>", 1, 1, 1, 1), "^"),  # one at least
        (Span("<columns>", 1, 1, 3), "  ^"),
        (Span("<columns>", 1, 2, 1, 2), "^^^"),  # to the end of the line
        (Span("<columns>", 1, 2, 4, 2), "   ^"),
    ):
        assert span.render().splitlines()[-1] == f"   | {carets}"
    assert source_line("<columns>", 1) == "abc" and source_line("<columns>", -1) is None
