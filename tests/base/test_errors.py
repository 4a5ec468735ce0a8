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
