"""`tools.replay` over a repository whose texts are files of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools import replay


def commit(root: Path, subject: str, *values: int) -> None:
    texts = {f"case {k}": {"loops": f"x = {v}\ny"} for k, v in enumerate(values)}
    (root / "tests" / "replay").mkdir(parents=True, exist_ok=True)
    (root / "tests" / "replay" / "sums.txt").write_text(replay.sections(texts))
    who = ["-c", "user.name=n", "-c", "user.email=e"]
    for words in (["add", "-A"], [*who, "commit", "-q", "--allow-empty", "-m", subject]):
        subprocess.run(["git", *words], cwd=root, check=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copied = lambda checkout, to: shutil.copytree(checkout / "tests" / "replay", to)  # noqa: E731
    monkeypatch.setattr(replay, "written", copied)
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("build\n")
    subprocess.run(["git", "add", ".gitignore"], cwd=tmp_path, check=True)
    return tmp_path


def test_equal_hunks_are_shown_once(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commit(repository, "a", 1, 1, 5)
    commit(repository, "b", 2, 2, 5)
    assert replay.main(["--base", "HEAD~1"], repository) == 0
    shown = capfd.readouterr().out
    assert "replay: 2 texts differ, in 1 ways" in shown
    assert "@@ sums: case 0 loops and 1 more\n-x = 1\n+x = 2\n" in shown


def test_a_commit_keeps_its_word(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commit(repository, "a", 2, 2, 5)
    commit(repository, "[same] c", 2, 2, 5)
    assert replay.main(["--base", "HEAD~1", "--same"], repository) == 0
    commit(repository, "[same] d", 2, 2)
    assert replay.main(["--base", "HEAD~2", "--same"], repository) == 1
    shown = capfd.readouterr().out
    assert "[same] d changes texts" in shown and "-x = 5" in shown
    assert "[same] c changes texts" not in shown


def test_a_base_without_replay_is_an_error(repository: Path) -> None:
    git = ["git", "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "commit", "-q", "-m", "a"], cwd=repository, check=True)
    commit(repository, "b", 1)
    with pytest.raises(SystemExit, match="has no tests/replay to compare with"):
        replay.main(["--base", "HEAD~1"], repository)
