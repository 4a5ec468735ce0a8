"""What all of replay shares. Its files run with `--texts` or `--against` only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from loopwright.ir.target import Target
from tools.replay import sections

from .stages import CPU

Replay = Callable[[str, Mapping[str, Mapping[str, str]]], None]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """True where neither option is given: no opinion of ours otherwise."""
    return None if config.option.texts or config.option.against else True


@pytest.fixture(autouse=True)
def same_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What asks for no target gets the same one on every machine, and a slow one all its time."""
    monkeypatch.setenv("LOOPWRIGHT_BUDGET_SECONDS", "0")
    with Target(CPU):
        yield


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Replay:
    """`replay(name, {row: {column: text}})` writes the texts to NAME.txt in the folder of `--texts`, or
    fails where they are not those in the folder of `--against`."""

    def write(name: str, rows: Mapping[str, Mapping[str, str]]) -> None:
        for row, texts in rows.items():
            assert not any(" at 0x" in text for text in texts.values()), f"{row}: an address"
        text = sections(rows)
        if folder := request.config.option.texts:
            path = Path(folder, f"{name}.txt")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            known = Path(request.config.option.against, f"{name}.txt").read_text(encoding="utf-8")
            if text != known:  # not an assertion, whose explanation takes minutes
                pytest.fail(f"{name}: the texts are not those in --against", pytrace=False)

    return write
