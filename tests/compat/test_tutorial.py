"""Seed 2, the transformation tutorial: its code runs as it is and prints what its page shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.ir import assert_structural_equal
from loopwright.script import from_source

from . import seed2

ROOT = Path(__file__).parent.parent.parent


def run(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_has_what_is_tested():
    assert [text.count("def ") for text in seed2.printed()] == [1, 8, 5, 1]
    assert len(seed2.code()) == 5


def test_unchanged_through_compat(tmp_path):
    script = tmp_path / "relax_transformation.py"
    script.write_text("\n\n".join(seed2.code()) + "\n", encoding="utf-8")
    page = "\n".join(seed2.blocks("none")) + "\n"
    assert run("-m", "loopwright.compat", str(script)) == page


def test_with_the_package_name_replaced(tmp_path):
    script = tmp_path / "relax_transformation.py"
    text = seed2.renamed("\n\n".join(seed2.code()))
    assert "import tvm" not in text and "tvm." not in text
    script.write_text(text + "\n", encoding="utf-8")
    assert run(str(script)) == "\n".join(seed2.printed()) + "\n"


def test_example_prints_the_same():
    out = run(str(ROOT / "examples" / "tutorial_relax.py"))
    for text in seed2.printed():
        assert text in out


@pytest.mark.parametrize("stage", range(4), ids=["origin", "legalized", "fused", "rewritten"])
def test_printed_modules_parse_back(stage, capsys):
    """Each printed module is, parsed, the module that was printed."""
    names: dict = {"__name__": "tutorial"}
    shown = []
    for block in seed2.code():
        exec(compile(seed2.renamed(block), "tutorial", "exec"), names)
        if ".show()" in block:
            shown.append(names["mod"] if "mod" in names else names["origin_mod"])
    assert capsys.readouterr().out.rstrip("\n") == "\n".join(seed2.printed())
    assert_structural_equal(from_source(seed2.printed()[stage]), shown[stage])
