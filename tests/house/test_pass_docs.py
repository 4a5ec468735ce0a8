"""The docstring of every pass's file shows a module before and after, and the pass does that.

A block `Before (-) and after (+)::` holds TVMScript (a module, or one function) as a diff. Where
little is the same, two blocks `Before::` and `After::` stand in its place. The pass is the first that the file
defines, made without arguments, or the expression of a block `Pass::`, evaluated in the file, with
`relax`. It
runs for the same CPU everywhere.
"""

from __future__ import annotations

import importlib
import re
import textwrap

import pytest

from loopwright import relax
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.target import Target
from loopwright.script import from_source
from tools.make_passes import level, pass_files, passes_of

from .diffs import BOTH, sides

CPU = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
FILES = pass_files()
BLOCK = re.compile(rf"^(Before|After|Pass|{re.escape(BOTH)})::\n((?: {{4}}.*\n|\n)+)", re.MULTILINE)


def blocks(docstring: str) -> dict[str, str]:
    """The indented texts below `Before::`, `After::` and `Pass::`, or what stands for them."""
    shown = {
        name: textwrap.dedent(text).strip("\n")
        for name, text in BLOCK.findall(textwrap.dedent(docstring) + "\n")
    }
    if BOTH in shown:
        shown["Before"], shown["After"] = sides(dict(BLOCK.findall(docstring + "\n"))[BOTH])
    return shown


def parse(text: str) -> IRModule:
    """The module that `text` stands for; a function alone is a module's `main`."""
    parsed = from_source(text)
    return parsed if isinstance(parsed, IRModule) else IRModule({"main": parsed})


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{level(path)}-{path.stem}")
def test_before_and_after(path):
    module = importlib.import_module(".".join(("loopwright", *path.with_suffix("").parts)))
    shown = blocks(module.__doc__ or "")
    assert shown.keys() >= {"Before", "After"}, f"{path} shows no module Before:: and After::"
    names = {"relax": relax, **vars(module)}
    made = eval(shown.get("Pass", f"{passes_of(module)[0].__name__}()"), names)
    with Target(CPU):
        after = made(parse(shown["Before"]))
    assert_structural_equal(after, parse(shown["After"]))


def test_there_are_passes():
    assert len(FILES) > 80
