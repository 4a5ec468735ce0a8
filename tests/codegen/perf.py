"""Linux's perf, where it is installed and may count."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def counted(file: Path, script: str, **environment: str) -> None:
    """Count where a script of Python spends its time, in `file`; skip where perf cannot."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            able = not _perf(Path(folder) / "try", ["true"], {}).returncode
        except FileNotFoundError:
            able = False
    if not able:
        pytest.skip("perf is not installed, or may not count here")
    done = _perf(file, [sys.executable, "-c", script], environment)
    assert done.returncode == 0, done.stderr


def _perf(
    file: Path, command: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-k", "mono", "-F", "500", "-o", str(file)]
    env = {**os.environ, **environment}
    return subprocess.run([*record, *command], env=env, capture_output=True, text=True, check=False)


def injected(file: Path, out: Path) -> None:
    """Write it with the functions and lines of the process's jit-PID.dump."""
    command = ["perf", "inject", "--jit", "-i", str(file), "-o", str(out)]
    subprocess.run(command, capture_output=True, text=True, check=True)


def report(file: Path, *options: str) -> str:
    """What perf tells of it."""
    command = ["perf", "report", "-i", str(file), "--stdio", *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
