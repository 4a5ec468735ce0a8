"""Where the words of docs/words.md occur: python -m tools.words [PATH ... | --write]

Without a path: all of src/. --write lowers the numbers in the page's last column.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "words.md"
SOURCE = ROOT / "src"
_ROW = re.compile(r"\| ([^|]+?) +\| ([^|]+?) +\| ([a-z, ]+?) +\| +(\d+) \|")
_TEXT = r'#.*|"""(?:[^\\]|\\.)*?"""|\'\'\'(?:[^\\]|\\.)*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''


class Word(NamedTuple):
    """A row of the table: the words, what to write, where ("name", "text"), how many are left."""

    words: tuple[str, ...]
    instead: str
    where: tuple[str, ...]
    left: int

    def __str__(self) -> str:
        return f"{', '.join(self.words)} ({', '.join(self.where)})"


def words(page: str) -> list[Word]:
    """The rows of the table."""
    rows = (m.groups() for m in map(_ROW.fullmatch, page.splitlines()) if m)
    return [Word(tuple(a.split(", ")), b, tuple(c.split(", ")), int(d)) for a, b, c, d in rows]


def occurrences(rows: Iterable[Word], paths: Iterable[Path]) -> Iterator[tuple[Word, str]]:
    """Each (row, "path:line: text of the line") in the Python files at or below some paths."""
    meant = {(where, w): row for row in rows for where in row.where for w in row.words}

    def any_of(where: str) -> str:
        return rf"\b(?:{'|'.join(re.escape(w) for place, w in meant if place == where)})\b"

    token, text = re.compile(rf"({_TEXT})|{any_of('name')}", re.I), re.compile(any_of("text"), re.I)
    for file in (f for p in paths for f in (sorted(p.rglob("*.py")) if p.is_dir() else [p])):
        whole = file.read_text(encoding="utf-8")
        lines = whole.splitlines()
        for match in token.finditer(whole):
            start = match.start()
            hits = [("name", match[0], start)]
            if match[1] is not None:  # a string without a space is a name, often of another's
                hits = [("text", m[0], start + m.start()) for m in text.finditer(match[1])]
                hits = hits if " " in match[1] else []
            for where, word, at in hits:
                number = whole.count("\n", 0, at)
                line = f"{file.resolve().relative_to(ROOT)}:{number + 1}: {lines[number].strip()}"
                yield meant[where, word.lower()], line


def lowered(page: str) -> str:
    """The page with the number of each row's occurrences, where that is less."""
    rows = words(page)
    counts = Counter(row for row, _ in occurrences(rows, [SOURCE]))
    for row in rows:
        head = f"| {', '.join(row.words)} | {row.instead} | {', '.join(row.where)} |"
        page = page.replace(f"{head} {row.left} |", f"{head} {min(row.left, counts[row])} |")
    return page


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(lowered(page), encoding="utf-8")
    else:
        for row, line in occurrences(words(page), map(Path, sys.argv[1:] or [SOURCE])):
            print(f"{line}    [{row}: {row.instead}]")
