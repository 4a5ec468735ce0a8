"""Who hears how a compilation goes: a listener, a terminal that waits for long, and nobody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import loopwright as lw
from loopwright.base.progress import Step, heard_by
from loopwright.driver.cli import app
from tools import demo

from ..house.source import ROOT
from ..programs import graph

MODEL = str(demo.BUNDLED)
# The command line where a compilation takes long enough for a bar after so many seconds.
COMMAND = """
import sys
from loopwright.driver import cli, progress
progress.AFTER, progress._LEAST = float(sys.argv.pop(1)), 0.0
cli.main()
"""
if sys.platform != "win32":
    import pty


@pytest.fixture(autouse=True)
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_CACHE", "0")


def test_compile_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    lw.compile(MODEL)
    lw.compile(graph("y = R.exp(x)", x=(4,)), "c")
    assert capfd.readouterr() == ("", "")


def test_a_listener_hears_of_passes_and_objects(tmp_path: Path) -> None:
    heard: list[Step] = []
    with heard_by(heard.append):
        lw.compile(MODEL).export_library(tmp_path / "digits.a")
    lw.compile(MODEL)
    ended = {(s.kind, s.name) for s in heard if s.seconds is not None}
    assert ended == {(s.kind, s.name) for s in heard}
    assert {("model", "compile"), ("import", "import"), ("pass", "FuseOps")} <= ended
    assert {("object", "softmax"), ("model", "export")} <= ended
    assert all(0 <= s.number < s.total for s in heard)
    assert heard[0] == Step("model", "compile") and heard[-1].name == "export"


@pytest.mark.no_verify  # what watches passes is shown the whole module
def test_the_graph_is_lowered_behind_the_first_kernels_and_these_some_at_once() -> None:
    heard: list[Step] = []
    with heard_by(heard.append):
        exe = lw.compile(MODEL)
    begun = [s for s in heard if s.kind == "kernel" and s.seconds is None]
    assert begun[1].name == "main" and begun[0].total == len(exe.lowered.functions)
    assert len(begun) <= 1 + -(-(begun[0].total - 1) // 8)


def command(after: float, *args: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "TERM": "xterm", "COLUMNS": "100"}
    line = [sys.executable, "-c", COMMAND, str(after), *args]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=stderr, env=environment)


def on_terminal(after: float, *args: str) -> bytes:
    """What a command writes to its stderr, which is a terminal."""
    ours, its = pty.openpty()
    with command(after, *args, stderr=its) as process:
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the other end is closed
            pass
        os.close(ours)
        process.communicate()
    assert process.returncode == 0, shown
    return shown


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_shows_a_bar_where_compiling_takes_long() -> None:
    shown = on_terminal(0, "run", MODEL).decode()
    assert "kernel " in shown and "\u2501" in shown  # a part of the bar
    assert "\u2501" not in on_terminal(3600, "run", MODEL).decode()
    assert on_terminal(0, "run", MODEL, "--quiet") == b""


@pytest.mark.slow
def test_a_pipe_shows_none() -> None:
    with command(0, "run", MODEL) as process:
        shown, errors = process.communicate()
    assert process.returncode == 0 and b"probability" in shown
    assert errors.startswith(b"model   ") and b"\r" not in errors  # the conditions of the run


@pytest.mark.budget(8)
def test_verbose_tells_what_took_how_long(tmp_path: Path) -> None:
    out = str(tmp_path / "digits.a")
    with command(0, "compile", MODEL, "-o", out, "--verbose") as process:
        shown, errors = (text.decode() for text in process.communicate())
    assert "digits.a: " in shown and "runs" not in shown
    rows = {line.split()[0] for line in errors.splitlines()}
    assert {"step", "compile", "import", "FuseTIR", "objects", "export"} <= rows
    assert "nothing was compiled" in CliRunner().invoke(app, ["plugins", "-v"]).stderr
