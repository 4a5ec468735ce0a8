"""Examples in docstrings that show a program before and after as one diff."""

from __future__ import annotations

BOTH = "Before (-) and after (+)"


def sides(diff: str) -> tuple[str, str]:
    """The texts before and after, of a diff indented by four: lines that begin with "-" are only in
    the first, those with "+" only in the second."""
    lines = diff.strip("\n").splitlines()
    before, after = ([line[6:] for line in lines if line[4:5] != other] for other in "+-")
    return "\n".join(before), "\n".join(after)
