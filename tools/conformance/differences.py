"""Why tests of TVM fail here: differences.txt groups them, and makes docs/tvm-differences.md.

A group is a line "# deliberate: TITLE" or "# not yet: TITLE", its reason, and lines "~ PATTERN": regular
expressions for "FILE::TEST MESSAGE". A failure belongs to the first group of which one is found in
it; the rest is listed by file.
"""

from __future__ import annotations

import collections
import re
from dataclasses import dataclass, field
from pathlib import Path

TABLE = Path(__file__).parent / "differences.txt"
REST = "Not yet, without a group"


@dataclass
class Group:
    """Failures with one reason."""

    title: str
    reason: list[str] = field(default_factory=list)
    patterns: list[re.Pattern[str]] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)


def groups() -> list[Group]:
    """The groups of the table, without tests."""
    found: list[Group] = []
    for line in TABLE.read_text().splitlines():
        if line.startswith("# "):
            kind, _, title = line[2:].partition(": ")
            found.append(Group(f"{kind.capitalize()}: {title}"))
        elif line.startswith("~ "):
            found[-1].patterns.append(re.compile(line[2:]))
        elif line:
            found[-1].reason.append(line)
    return [*found, Group(REST)]


def assign(failures: list[tuple[str, str]]) -> list[Group]:
    """The groups with their tests; failures: (test, message)."""
    table = groups()
    for test, message in failures:
        text = f"{test} {' '.join(message.split())}"
        group = next((g for g in table if any(p.search(text) for p in g.patterns)), table[-1])
        group.tests.append(test)
    return [g for g in table if g.tests]


def page(failures: list[tuple[str, str]], passed: str) -> str:
    """The document: each group with its reason, and how many tests of which file belong to it."""
    lines = [
        "# Where Loopwright differs from TVM",
        "",
        "TVM's own tests of v0.21.0 (of v0.18.0 for Relay and topi), run with Loopwright as `tvm`, are",
        'the measure: make conformance TVM=CLONE ARGS="--list core" (wide, relay, topi). This page is made by',
        "`--differences docs/tvm-differences.md` from the tests that fail, and from",
        "tools/conformance/differences.txt, which gives the reasons and sorts by patterns: a test that",
        "fails for two reasons stands under the first. `python -m tools.conformance.names CLONE` lists the",
        "names that TVM's packages export and the parameters of its functions that are not here.",
        "",
        passed,
        "",
    ]
    for group in assign(failures):
        files = collections.Counter(test.split("::")[0] for test in group.tests)
        lines += [f"## {group.title} ({len(group.tests)})", "", *group.reason]
        lines += [""] if group.reason else []
        lines += [f"- {file}: {count}" for file, count in sorted(files.items())]
        lines.append("")
    return "\n".join(lines)
