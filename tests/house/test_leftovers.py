"""Nothing is left for later without an issue."""

from __future__ import annotations

import re

from .source import PACKAGE, ROOT, forbid

MARK = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def test_no_marks():
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MARK.search(line)
    ]
    rule = "no TODO, FIXME, XXX or HACK is left in the source"
    forbid(rule, found, "do it now, or file an issue and remove the mark")
