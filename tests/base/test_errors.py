"""What errors say."""

from __future__ import annotations

import pytest

from loopwright.base.errors import (
    CallTypeError,
    CallValueError,
    DiagnosticError,
    UnknownName,
    call_error,
    explain,
    suggest,
)
from loopwright.base.span import Span


def test_parts():
    assert explain("what") == "what"
    assert explain("what", got=0) == "what\n  got: 0"
    assert explain("what", got="it", instead="that") == "what\n  got: it\n  instead: that"
    assert explain("what", span=Span("onnx:/a")) == "what\n --> onnx:/a"


def test_suggestions():
    known = ["FuseOps", "FuseTIR", "FoldConstant"]
    assert suggest("fuseops", known) == "did you mean FuseOps?"
    assert suggest("FuseOp", known) == "did you mean FuseOps?"
    assert suggest("zzz", known) == "one of FuseOps, FuseTIR, FoldConstant"
    assert suggest("zzz", known, "it has:") == "it has: FuseOps, FuseTIR, FoldConstant"
    assert suggest("ab1", ["ab2", "ab3"]) == "did you mean ab2, ab3?"
    assert suggest(3, known).startswith("one of")
    many = suggest("zzz", [f"Pass{i}" for i in range(30)])
    assert many.endswith("Pass19 and 10 more")


def test_twenty_names_are_enough():
    names = [f"n{k:02}" for k in range(22)]
    shown = suggest("else", names)
    assert suggest("else", names[:20]) == "one of " + ", ".join(names[:20])
    assert shown == f"one of {', '.join(names[:20])} and 2 more"
    assert suggest("else", names[:21]).endswith("n19 and 1 more")


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("abcde", ["abcxy"], "did you mean abcxy?"),  # a ratio of just 0.6
        ("abcdef", ["abcxyz"], "one of abcxyz"),
        ("abcd", ["abcd1", "abcd2", "abcd3", "abcd4"], "did you mean abcd1, abcd2, abcd3?"),
        ("abcdefgh", ["abcdefg", "abcdefghi", "abc"], "did you mean abcdefghi, abcdefg?"),
        ("x" * 19, ["x" * 18 + "y", "x" * 17 + "yy"], f"did you mean {'x' * 18}y?"),
        ("anything", [], "one of "),
    ],
)
def test_how_close_a_name_must_be(name, known, said):
    assert suggest(name, known) == said


def test_errors_of_calls():
    made = call_error(TypeError("a"), "b")
    assert type(made) is CallTypeError and str(made) == "b" and call_error(made, "c") is made
    assert type(call_error(ValueError("a"))) is CallValueError
    assert str(call_error(ValueError("a"))) == "a"
    assert str(UnknownName("a name")) == "a name"
    place = Span("onnx:/a")
    error = DiagnosticError(explain("it is wrong", got=3, span=place), place)
    assert error.what == "it is wrong\n  got: 3" and DiagnosticError("text").what == "text"
    assert explain("a", tvm="b") == "a\n  in TVM: b"
