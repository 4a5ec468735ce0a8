"""The tutorial of seed 2, read from its page: its code blocks and what they print."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs/seeds/2-relax-transformation-tutorial.rst"


def blocks(language: str) -> list[str]:
    """The page's `code-block`s of that language, without their indentation."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.strip() != f".. code-block:: {language}":
            continue
        margin = len(line) - len(line.lstrip())
        body = []
        for inner in lines[number + 1 :]:
            if inner.strip() and len(inner) - len(inner.lstrip()) <= margin:
                break
            body.append(inner)
        found.append(textwrap.dedent("\n".join(body)).strip("\n"))
    return found


def code() -> list[str]:
    """The Python blocks, in order."""
    return blocks("Python")


def printed() -> list[str]:
    """The printed modules, in order, with this package's name in their header."""
    return [renamed(text) for text in blocks("none")]


def renamed(text: str) -> str:
    """The text with this package's name for TVM's."""
    return re.sub(r"\btvm\b", "loopwright", text)
