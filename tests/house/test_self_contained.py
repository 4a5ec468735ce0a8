"""A newcomer has this repository and nothing beside it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = re.compile(r"/work/|/opt/" + r"lw|\.\./shared")


def test_nothing_reaches_outside_the_repository() -> None:
    folders = ("src", "tests", "benchmarks", "tools", "examples")
    files = [p for f in folders for p in (ROOT / f).rglob("*.py") if p != Path(__file__)]
    assert len(files) > 300
    found = [str(p.relative_to(ROOT)) for p in files if OUTSIDE.search(p.read_text())]
    assert found == []
