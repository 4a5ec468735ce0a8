"""No two functions or classes of a module have one name: the later one would take the calls of the other."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from .source import ROOT, forbid

FILES = [path for folder in ("src", "tools", "tests") for path in (ROOT / folder).rglob("*.py")]
DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)


def repeated(path: Path) -> list[str]:
    """The names that a module defines twice, but `_` and those of overloads."""
    text = path.read_text(encoding="utf-8")
    if max(Counter(DEFINED.findall(text)).values(), default=0) < 2:  # nothing to parse it for
        return []
    tree = ast.parse(text)
    defined = (n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef)))
    names = Counter(n.name for n in defined if not any(map(_overloads, n.decorator_list)))
    return [name for name, count in names.items() if count > 1 and name != "_"]


def _overloads(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).rpartition(".")[2] == "overload"


def test_no_name_is_defined_twice():
    found = [f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in repeated(path)]
    rule = "no two functions or classes of a module have one name"
    forbid(rule, found, "rename one of them: the first is never called")


@pytest.mark.parametrize(
    ("text", "names"), [("def f(): ...\nclass f: ...", ["f"]), ("def _(): ...\ndef _(): ...", [])]
)
def test_what_counts(tmp_path, text, names):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert repeated(path) == names
