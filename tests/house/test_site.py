"""The site of `make docs`: its menu has every page, and what its reference describes has a description."""

from __future__ import annotations

import importlib
import inspect
import re
import shutil

import pytest

from loopwright import relax, te
from tools.check_site import problems
from tools.reference import REFERENCE, entry, public

from .source import ROOT, forbid

MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
MODULES = sorted({path for _, paths in REFERENCE.values() for path in paths})


def test_the_menu_has_every_page():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    missing = pages - set(re.findall(r"[\w/-]+\.md", MENU))
    forbid("the site's menu has every page of docs/", missing, "add the page to mkdocs.yml")


def test_the_reference_shows_docstrings():
    """Parameters as a list, errors too, examples as code, with a link to the source."""
    text = "\n".join(entry("relax.op.matmul", relax.op.matmul))
    assert (
        "\n- `out_dtype`: a dtype, None by default.\n" in text
        and "src/loopwright/ops/linear.py#L" in text
    )
    assert (
        "\n- Raises `TypeError` for x1 of another dtype: " in text
        and "    def main(x1: R.Tensor(" in text
    )
    assert "```python\n>>> A = te.placeholder(" in "\n".join(entry("te.compute", te.compute))


@pytest.mark.parametrize("path", MODULES)
def test_public_names_say_what_they_are(path):
    names = public(importlib.import_module(path))
    silent = [f"{path}.{name}" for name, thing in names if not inspect.getdoc(thing)]
    forbid("what the reference describes has a docstring", silent, "write one")


BAD = """<!doctype html><html><body class="x" style="background:#fff"><article><h1>A</h1><h3>B</h3>
<p style="color:#999">pale</p><img src="missing.png"><a href="/nowhere/">a</a><a href="/#none">b</a>
<div style="width:3000px">wide</div><script>unknown()</script></article></body></html>"""


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_check_of_pages_finds_what_is_wrong(tmp_path):
    (tmp_path / "index.html").write_text(BAD, encoding="utf-8")
    text = "\n".join(problems(tmp_path))
    for what in ("contrast 2.8", "no text for", "no picture at", "heading H3 after H1: B", "no page /nowhere/",
                 "no anchor", "(400, slate): is 30", "console: Uncaught ReferenceError: unknown"):  # fmt: skip
        assert what in text, text
