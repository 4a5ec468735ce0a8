"""The README and the pages of docs/ tell the truth: their Python runs and prints what they show.

The blocks ```python of a page run one after another, in the repository's folder. A block ```text
right below one is what it prints, where "..." stands for anything. What a page registers is
forgotten at its end. Blocks ```console are commands, "$ loopwright ...", and what they print.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import linecache
import re
import shlex
import tomllib
from importlib.util import find_spec

import pytest
from typer.testing import CliRunner

from benchmarks.report import PAGES as STORED
from benchmarks.report import replaced
from loopwright.driver.cli import app

from .source import ROOT, forbid

PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
README = TEXTS["README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
EXTRA = re.compile(r"\b(torch|ray|mpi4py)\b")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.budget(15)
@pytest.mark.no_roundtrip  # the modules of whole models
@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if "```python" in text])
def test_python_runs(page, monkeypatch, forgotten):
    monkeypatch.chdir(ROOT)
    run_page(page)


def run_page(page: str) -> None:
    names: dict[str, object] = {"__name__": "page"}
    for block in BLOCK.finditer(TEXTS[page]):
        code, shown = block.groups()
        if any(find_spec(name) is None for name in EXTRA.findall(code)):
            continue
        # Blank lines in front, so that an error names the line of the page.
        line = TEXTS[page].count("\n", 0, block.start(1))
        program = "\n" * line + code
        # Where the parser of TVMScript looks for the text of a decorated function.
        linecache.cache[page] = (len(program), None, program.splitlines(True), page)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, page, "exec"), names)
        if shown is not None:
            example = doctest.Example(code, shown)
            checker = doctest.OutputChecker()
            same = checker.check_output(shown, printed.getvalue(), FLAGS)
            assert same, checker.output_difference(example, printed.getvalue(), FLAGS)


CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page, text in TEXTS.items() if "```console" in text])
def test_commands_run(page, monkeypatch):
    """Each command of a session prints what the page shows."""
    monkeypatch.chdir(ROOT)
    (ROOT / "build").mkdir(exist_ok=True)
    commands = [
        c for block in CONSOLE.findall(TEXTS[page]) for c in block.split("$ loopwright ")[1:]
    ]
    assert commands
    for text in commands:
        command, _, shown = text.partition("\n")
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, done.output
        checker, example = doctest.OutputChecker(), doctest.Example(command, shown)
        same = checker.check_output(shown, done.stdout, FLAGS)
        assert same, checker.output_difference(example, done.stdout, FLAGS)


def test_the_readme_shows_python_and_what_it_prints():
    assert sum(shown is not None for _, shown in BLOCK.findall(README)) >= 3


@pytest.mark.parametrize("page", STORED)
def test_benchmarks_are_the_stored_ones(page):
    assert replaced(page, TEXTS[page]) == TEXTS[page], "run: python -m benchmarks.report"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    assert {"demo", "test", "test-slow", "bench", "lint", "format"} <= targets
    shown = re.findall(r"(?:^    |^\$ |`)make ([\w-]+)", TEXTS[page], re.MULTILINE)
    rule = f"the targets of make that {page} shows are in the Makefile"
    forbid(rule, set(shown) - targets, "mend the name in the page, or add the target")


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page):
    text = TEXTS[page]
    named = re.findall(r"`((?:docs|examples|tests|benchmarks|src|tools)/[\w./-]*)`", text)
    missing = [path for path in named if not (ROOT / path).exists()]
    forbid(f"the paths that {page} names exist", missing, "mend the path in the page")


def test_programs_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    programs = set(re.findall(r"^\$ (?!make|pip|git|python)([\w-]+)", README, re.MULTILINE))
    missing = programs - set(project["scripts"])
    rule = "the programs of README.md are scripts of pyproject.toml"
    forbid(rule, missing, "mend the name in the page, or add the script")
