"""What errors say."""

from __future__ import annotations

from loopwright.base.errors import explain, suggest
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
