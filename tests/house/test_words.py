"""The words of docs/words.md."""

from __future__ import annotations

from itertools import islice

import pytest

from tools.words import PAGE, SOURCE, Word, occurrences, words

from .source import forbid

ROWS = words(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lines() -> dict[Word, list[str]]:
    each: dict[Word, list[str]] = {row: [] for row in ROWS}
    for row, line in occurrences(ROWS, [SOURCE]):
        each[row].append(line)
    return each


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_no_more_than_are_left(lines: dict[Word, list[str]], row: Word) -> None:
    too_many = lines[row] if len(lines[row]) > row.left else []
    forbid(f"{row}: at most {row.left}", islice(too_many, 20), row.instead)


def test_every_row_is_read() -> None:
    assert len(ROWS) >= 40
    assert (
        len([r for r in PAGE.read_text(encoding="utf-8").splitlines() if r[:2] == "| "])
        == len(ROWS) + 2
    )
