"""`make conformance`, on a suite of our own in TVM's place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.conformance.__main__ import ROOT, VERSION
from tools.conformance.differences import assign, page
from tools.tutorials import kept

SUITE = {
    "te/test_some.py": """
import os
import pytest
import tvm
from tvm.script import tir as T

def test_right():
    assert tvm.tir.Var("n", "int32").dtype == "int32"

def test_wrong():
    raise ValueError("at 0x7f and 12")

@pytest.mark.skip(reason="no")
def test_skipped():
    pass

def test_dies():
    os.abort()

def test_after():
    pass
""",
    "te/test_none.py": "from tvm.te import no_such_name\n",
}


def clone_of(folder: Path, files: dict[str, str]) -> None:
    """A repository of these files, with the release's tag."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "suite"], ["tag", VERSION]):
        subprocess.run(["git", *identity, *command], cwd=folder, check=True)


PACKAGE = {
    "__init__.py": "from .ir import IRModule, no_such_name, _private\nimport os\n",
    "relax/__init__.py": "from .expr import Call as Called\nfrom . import op\n",
    "tir/op.py": "def bitwise_and(x, y, span): ...\ndef shift_left(x, bits): ...\ndef mine(a): ...\n",
    "topi/cuda/__init__.py": "from .conv import nothing\n",
}


def test_names_beside_those_of_a_release(tmp_path):
    clone_of(tmp_path / "clone", {f"python/tvm/{name}": text for name, text in PACKAGE.items()})
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance.names", str(tmp_path / "clone")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "missing: no_such_name",
        "missing: relax.Called",
        "parameters: tir.op.shift_left has no bits",
        f"names: 2 of 4 that packages of {VERSION} export",
        "parameters: 1 of 2 functions take all of TVM's names",
    ], done.stderr


@pytest.mark.slow
def test_a_suite_with_a_crash(tmp_path):
    clone_of(tmp_path / "clone", {f"tests/python/{name}": text for name, text in SUITE.items()})
    (tmp_path / "list.txt").write_text("te 5 te/test_some.py\nte 3 te/test_none.py\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance", "clone", "--list", "list.txt"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(ROOT, 'src')}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    assert "2 of 7 tests pass" in done.stdout and "crashes and hangs: 1" in done.stdout
    assert "3  ImportError: cannot import name 'no_such_name'" in done.stdout
    assert "1  ValueError: at .. and N   e.g." in done.stdout


def test_failures_are_grouped_by_their_reasons():
    failures = [
        ("arith/test_a.py::test_x", "AttributeError: module has no attribute '_ffi_api'"),
        ("arith/test_a.py::test_y", "ValueError: of no group"),
    ]
    private, rest = assign(failures)
    assert private.title.startswith("Deliberate: private functions") and len(private.tests) == 1
    text = page(failures, "all 1 of 3 tests pass")
    assert f"## {rest.title} (1)" in text and "- arith/test_a.py: 1" in text


def test_of_a_file_the_last_result_counts(tmp_path):
    first = {
        "area": "te",
        "tests": 1,
        "file": "te/a.py",
        "outcomes": {"te/a.py::t": ["failed", "no"]},
    }
    second = {**first, "outcomes": {"te/a.py::t": ["passed", ""]}}
    paths = [tmp_path / "1.json", tmp_path / "2.json"]
    for path, result in zip(paths, (first, second), strict=True):
        path.write_text(json.dumps([result]))
    done = subprocess.run(
        [sys.executable, "-m", "tools.conformance", "clone", "--results", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "1 of 1 tests pass" in done.stdout, done.stderr


def test_cells_of_a_tutorial_are_left_out():
    rule = "#" * 30
    cells = ["import tvm\n", "class TorchModel: pass\n", "mod = mod_from_torch\n"]
    script, reasons = kept("ir_module", text := f"\n{rule}\n".join(cells), False)
    assert "TorchModel" not in script and reasons == ["imports a model from PyTorch"]
    assert (
        script.index("import tvm") < script.index("= TVMScriptModule") < script.index("mod = mod_")
    )
    assert kept("quick_start", cells[1], False) == (cells[1], [])
    script, reasons = kept("ir_module", text, True)
    assert "TorchModel" in script and "TVMScriptModule" not in script and not reasons
