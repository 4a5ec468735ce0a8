"""Nothing is left for later without an issue: no marks in the source, no bodies that only raise."""

from __future__ import annotations

import ast
import re

from .source import PACKAGE, sources

MARK = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def test_no_marks():
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MARK.search(line)
    ]
    assert found == []


def test_no_stubs():
    """A function whose body is `raise NotImplementedError` is a room without a floor."""
    found = [
        f"{source.path}:{node.lineno}: {node.name}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef)
        and isinstance(node.body[-1], ast.Raise)
        and len(node.body) <= 2
        and "NotImplementedError" in ast.unparse(node.body[-1])
    ]
    assert found == []
