"""What all snapshots share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from loopwright.ir.target import Target

from .stages import CPU


@pytest.fixture(autouse=True)
def same_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What asks for no target gets the same one on every machine, and a slow one all its time."""
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_SECONDS", "0")
    with Target(CPU):
        yield


@pytest.fixture
def snapshot(golden, request: pytest.FixtureRequest) -> Callable[..., None]:
    """`snapshot(name, rows)`: the digests of texts, {row: {column: text}}, are those that
    golden/snapshots/NAME.txt has."""

    def check(name: str, rows: Mapping[str, Mapping[str, str]]) -> None:
        for row, texts in rows.items():
            assert not any(" at 0x" in text for text in texts.values()), f"{row}: an address"
        if folder := request.config.getoption("--keep-texts"):
            for row, texts in rows.items():
                for k, (column, text) in enumerate(texts.items()):
                    path = Path(folder, name, row.replace("/", "_")[:80], f"{k:02}-{column}.txt")
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text + "\n", encoding="utf-8")
        lines = (
            f"{row}: {', '.join(f'{c} {digest(t)}' for c, t in texts.items())}"
            for row, texts in rows.items()
        )
        golden(f"snapshots/{name}.txt", "\n".join(lines))

    return check


def digest(text: str) -> str:
    """Six digits that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:6]
