"""The site of `make docs`: its menu has every page, and what its reference describes has a description."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from loopwright import relax, te
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
