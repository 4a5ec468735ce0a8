"""Make docs/passes.md from the passes' docstrings: python -m tools.make_passes"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import loopwright
from loopwright.backend import cpu
from loopwright.ir.transform import Pass

PAGE = Path(__file__).parent.parent / "docs" / "passes.md"
SOURCE = Path(loopwright.__file__).parent
BEFORE = re.compile(r"^(Before|After|Pass)::$", re.MULTILINE)


def _files() -> list[Path]:
    """The files with passes, as tests/house/test_pass_docs.py takes them."""
    found = [
        path.relative_to(SOURCE)
        for layer in ("relax", "tir")
        for path in sorted((SOURCE / layer / "transform").glob("*.py"))
        if not path.name.startswith("_")
    ]
    return [*found, Path("sched/apply.py")]


def _about(path: Path) -> tuple[str, str] | None:
    """The name of a file's pass, and the sentence about it; None for a file without a pass."""
    module = importlib.import_module(".".join(("loopwright", *path.with_suffix("").parts)))
    listed = [getattr(module, name) for name in module.__all__]
    names = [v.name for v in listed if isinstance(v, type) and issubclass(v, Pass) and v.name]
    text = BEFORE.split(module.__doc__ or "")[0].split("\n\n")[0]
    text = re.sub(r"^`?\w+`?: ", "", " ".join(text.split()))
    return (names[0], text[:1].upper() + text[1:]) if names else None


def _table(files: list[Path], default: set[str]) -> str:
    lines = ["| pass | by default | what it does |", "| --- | --- | --- |"]
    for path in files:
        about = _about(path)
        if about is None:
            continue
        name, text = about
        ours = "yes" if name in default else ""
        lines.append(f"| [`{name}`](../src/loopwright/{path}) | {ours} | {text} |")
    return "\n".join(lines)


def page() -> str:
    """The text of the page."""
    files = _files()
    graph = cpu.graph_pipeline().names()
    loops = [name for name in cpu.loop_pipeline().names() if name != "tir.AddedPasses"]
    on_loops = [path for path in files if path.parts[0] != "relax"]
    on_graphs = [path for path in files if path.parts[0] == "relax"]
    return f"""# Passes

Made by `python -m tools.make_passes` from the docstrings of the passes' files. Each file shows a module
before and after; `tests/house/test_pass_docs.py` runs it.

## On graphs

The default pipeline (`loopwright.backend.cpu.graph_pipeline`), in order: {", ".join(graph)}.

{_table(on_graphs, set(graph))}

## On loops

The default pipeline (`loopwright.backend.cpu.loop_pipeline`), in order: {", ".join(loops)}.
Passes given by the option `tir.add_lower_pass` run between them (`docs/knobs.md`).

{_table(on_loops, {*loops, *graph})}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
