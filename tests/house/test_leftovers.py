"""Nothing is left for later without an issue."""

from __future__ import annotations

import re

from .source import PACKAGE

MARK = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")


def test_no_marks():
    found = [
        f"{path.relative_to(PACKAGE)}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if MARK.search(line)
    ]
    assert found == []
