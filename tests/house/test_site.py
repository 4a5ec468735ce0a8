"""The site of `make docs`: its menu has every page, and what its reference describes has a description."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from loopwright.ops.core import OPERATORS
from tools.reference import REFERENCE, entry, example, public

from .source import ROOT, forbid

MENU = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
MODULES = sorted({path for _, paths in REFERENCE.values() for path in paths})


def test_the_menu_has_every_page():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    missing = pages - set(re.findall(r"[\w/-]+\.md", MENU))
    forbid("the site's menu has every page of docs/", missing, "add the page to mkdocs.yml")


def test_operators_say_what_they_compute():
    silent = [op.name for op in OPERATORS.values() if not op.__doc__]
    forbid("operators have docstrings", silent, "say what it computes, with shapes")
    matmul = OPERATORS["relax.matmul"]
    text = "\n".join(entry("matmul", matmul))
    assert "- `out_dtype`: a dtype, default `None`" in text and "[definition](" in text
    assert example(matmul, matmul.cases[0]) in text


@pytest.mark.parametrize("path", MODULES)
def test_public_names_say_what_they_are(path):
    names = public(importlib.import_module(path))
    silent = [f"{path}.{name}" for name, thing in names if not inspect.getdoc(thing)]
    forbid("what the reference describes has a docstring", silent, "write one")
