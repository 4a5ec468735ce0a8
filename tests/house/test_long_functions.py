"""A function of over 60 lines is named with its reason in long_functions.txt, a line each:
"path:function: reason"."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.figures import LONG, length

from .source import forbid, sources

LIST = Path(__file__).parent / "long_functions.txt"


def test_long_functions_have_a_reason() -> None:
    rows = [line.split(":", 2) for line in LIST.read_text(encoding="utf-8").splitlines()]
    reasons = {f"{path}:{name}": reason.strip() for path, name, reason in rows}
    long = {
        f"{source.path.as_posix()}:{function.name}"
        for source in sources()
        for function in source.nodes(ast.FunctionDef)
        if length(function) > LONG
    }
    forbid(f"functions have {LONG} lines", long - reasons.keys(), "split it, or name the reason")
    short = [name for name in reasons if name not in long or not reasons[name]]
    forbid("long_functions.txt names long functions only", short, "remove its line")
