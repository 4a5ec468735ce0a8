"""A newcomer has this repository and nothing beside it."""

from __future__ import annotations

import re
from pathlib import Path

from .source import ROOT, forbid

OUTSIDE = re.compile(r"/work/|/opt/" + r"lw|\.\./shared")


def test_nothing_reaches_outside_the_repository() -> None:
    folders = ("src", "tests", "benchmarks", "tools", "examples")
    files = [p for f in folders for p in (ROOT / f).rglob("*.py") if p != Path(__file__)]
    assert len(files) > 300
    found = [
        f"{p.relative_to(ROOT)}:{number}"
        for p in files
        for number, line in enumerate(p.read_text().splitlines(), start=1)
        if OUTSIDE.search(line)
    ]
    rule = "nothing reaches outside of the repository"
    forbid(rule, found, "bring what is needed into the repository, or take its path from outside")
