"""Saved cases of every search judged again."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from . import backends
from .case import Case
from .files import judge_file
from .judge import Outcome, judge
from .passes import run
from .report import Report
from .texts import judge_text
from .workers import Limits, Pool


def rejudged(path: Path, say: Callable[[str], None]) -> Outcome:
    """The outcome of a file that a search has saved; graphs go through all levels."""
    if path.suffix == ".onnx":
        return judge_file(str(path), say)
    if path.suffix == ".txt":
        what = "target" if "-target-" in path.name else "text"
        return judge_text((what, path.read_text()), say)
    saved = json.loads(path.read_text())
    if "backends" in saved:
        return backends.run((saved["backends"], Case(**saved["graph"])), say)
    if "passes" in saved:
        return run((saved["seed"], saved["passes"]), say)
    return judge(Case.load(path), say, full=True)


def replay(options: argparse.Namespace) -> int:
    """Judge saved cases again."""
    report = Report("replay")
    for path, outcome, _ in Pool(rejudged, 1, Limits(30)).run(options.files):
        report.add(path, outcome)
        print(f"{path}: {outcome.group()}\n    {outcome.message[:1000]}")
    print(report.text(0))
    return 1 if report.faults() else 0
