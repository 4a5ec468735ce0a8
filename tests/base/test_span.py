"""Places in sources and models."""

from __future__ import annotations

import pickle

from loopwright.base.span import SequentialSpan, Span, merge_spans, register_source, source_line


def test_text():
    assert str(Span("a.py", 3, 3, 5, 9)) == "a.py:3:5"
    assert str(Span("onnx:/fc1/Gemm")) == "onnx:/fc1/Gemm"
    assert repr(Span("a.py", 3, column=5)) == "Span(a.py:3:5)"
    assert Span("a.py").source_name == "a.py"


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
