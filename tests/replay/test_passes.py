"""Every pass over the modules that the docstrings of all passes of its layer start from."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import Any

import pytest

from loopwright import relax
from loopwright.tir import transform as tt
from tools.make_passes import level, passes_of

from ..house.test_pass_docs import FILES, blocks, parse
from .stages import c_text, llvm_text, said


@functools.cache
def documented() -> dict[Path, tuple[Any, Any]]:
    """The pass of each file, and the module that its docstring starts from."""
    made = {}
    for path in FILES:
        module = importlib.import_module(".".join(("loopwright", *path.with_suffix("").parts)))
        shown = blocks(module.__doc__ or "")
        names = {"relax": relax, **vars(module)}
        step = eval(shown.get("Pass", f"{passes_of(module)[0].__name__}()"), names)
        made[path] = step, parse(shown["Before"])
    return made


@pytest.mark.no_roundtrip
@pytest.mark.no_verify  # a pass may not be meant for what it gets here
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{level(path)}-{path.stem}")
def test_pass(path: Path, replay: Any) -> None:
    step, _ = documented()[path]
    rows = {}
    for start, (_, mod) in documented().items():
        if (level(start) == "relax") != (level(path) == "relax"):
            continue
        before = mod.script()
        after = said(lambda mod=mod: step(mod).script())
        if after != before:
            rows[start.stem] = {"": after}
    replay(f"passes/{level(path)}-{path.stem}", rows)


@pytest.mark.no_roundtrip
@pytest.mark.no_verify
def test_code(replay: Any) -> None:
    """C and LLVM's text of the modules that passes on loops start from."""
    rows = {}
    for start, (_, mod) in documented().items():
        if level(start) == "tir":
            lowered = said(lambda mod=mod: llvm_text(tt.default_tir_pipeline()(mod)))
            rows[start.stem] = {"c": c_text(mod), "llvm": lowered}
    replay("passes/code", rows)
