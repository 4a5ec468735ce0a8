"""Which node each line of a printed text is."""

from __future__ import annotations

import loopwright as lw
from loopwright.script.printer.lines import numbered
from loopwright.tir import stmt as st

DIGITS = "src/loopwright/driver/data/digits.onnx"


def test_each_line_has_its_statement():
    last = lw.lower(DIGITS, "llvm -mcpu=skylake-avx512").records[-1].after
    for name in ("fused_matmul_add", "main", "softmax"):
        lines = numbered(last[name], name)
        expected = {st.For: "for ", st.IfThenElse: "if ", st.BufferStore: "] = ", st.While: "while"}
        seen = set()
        for text, node in zip(lines.texts, lines.nodes, strict=True):
            word = expected.get(type(node))
            assert word is None or word in text, (type(node), text)
            seen.add(type(node))
        assert st.BufferStore in seen or st.Evaluate in seen


def test_the_text_is_the_printed_one():
    mod = lw.lower(DIGITS)[0].before
    lines = numbered(mod["main"], "main")
    printed = mod["main"].script().splitlines()
    assert lines.texts[:4] == printed[printed.index("@R.function") :][:4]
    bindings = mod["main"].body.blocks[0].bindings
    numbers = lines.numbers()
    for binding in bindings:
        assert lines.texts[numbers[id(binding)] - 1].split(":")[0].strip() == binding.var.name_hint
    assert "\ue002" not in lines.text
