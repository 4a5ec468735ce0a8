"""What type checkers say of scripts over the public API, and what a typed script computes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from . import user_script

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def diagnostics() -> list[dict[str, Any]]:
    """Everything that pyright says in strict mode of the scripts in this folder."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed; it comes with the extra `lint`")
    command = [sys.executable, "-m", "pyright", "-p", FOLDER, "--outputjson"]
    return json.loads(subprocess.run(command, capture_output=True).stdout)["generalDiagnostics"]


def _of(diagnostics: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [d for d in diagnostics if Path(d["file"]).name == name]


@pytest.mark.budget(15)  # a process of pyright
def test_a_users_script_is_typed(diagnostics):
    assert [d["message"] for d in _of(diagnostics, "user_script.py")] == []


@pytest.mark.budget(15)
def test_mistakes_are_found(diagnostics):
    lines = (FOLDER / "mistakes.py").read_text().splitlines()
    wrong = {n for n, line in enumerate(lines) if "  # " in line}
    assert {d["range"]["start"]["line"] for d in _of(diagnostics, "mistakes.py")} == wrong


def test_a_users_script_computes():
    x = np.linspace(-2, 2, 64 * 64, dtype="float32").reshape(64, 64)
    scaled, swished = user_script.main()
    np.testing.assert_allclose(scaled, np.maximum(3 * x, 0), rtol=1e-6)
    np.testing.assert_allclose(swished, 1 / (1 + np.exp(-2 * np.ones((8, 8)))), rtol=1e-5)
