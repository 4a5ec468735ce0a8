"""The README tells the truth: its Python runs, its make targets and programs are there."""

from __future__ import annotations

import re
import tomllib

import pytest

from .source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.no_roundtrip  # the modules of whole models
def test_python_runs(monkeypatch):
    code = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert code, "the README shows no Python"
    monkeypatch.chdir(ROOT)
    exec(compile("\n".join(code), "README.md", "exec"), {"__name__": "readme"})


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    assert {"demo", "test", "test-all", "bench", "lint", "format"} <= targets
    assert set(re.findall(r"\bmake ([\w-]+)", README)) <= targets


def test_paths_exist():
    named = re.findall(r"`((?:docs|examples|tests|benchmarks|src|tools)/[\w./-]*)`", README)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_programs_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    programs = set(re.findall(r"^\$ (?!make|pip|git|python)([\w-]+)", README, re.MULTILINE))
    assert programs <= set(project["scripts"])
