"""Make docs/passes.md from the passes' docstrings: python -m tools.make_passes"""

from __future__ import annotations

import importlib
import re
from itertools import groupby
from pathlib import Path

import loopwright
from loopwright.backend import cpu
from loopwright.ir.transform import Pass

PAGE = Path(__file__).parent.parent / "docs" / "passes.md"
SOURCE = Path(loopwright.__file__).parent
BEFORE = re.compile(r"^(Before|After|Pass)\b.*::$", re.MULTILINE)


def pass_files() -> list[Path]:
    """The files that hold a pass each, below the package."""
    files = [
        path.relative_to(SOURCE)
        for layer in ("relax", "tir")
        for path in sorted((SOURCE / layer / "transform").rglob("*.py"))
        if not path.name.startswith("_") and path.parent.name != "legalize_ops"
    ]
    return [*files, Path("sched/apply.py")]


def _about(path: Path) -> list[tuple[str, str, Path]]:
    """The name of a file's pass, the sentence about it, the file; none for a file without one."""
    module = importlib.import_module(".".join(("loopwright", *path.with_suffix("").parts)))
    listed = [getattr(module, name) for name in module.__all__]
    names = [v.name for v in listed if isinstance(v, type) and issubclass(v, Pass) and v.name]
    text = BEFORE.split(module.__doc__ or "")[0].split("\n\n")[0]
    text = re.sub(r"^`?\w+`?: ", "", " ".join(text.split()))
    return [(names[0], text[:1].upper() + text[1:], path)] if names else []


def _table(files: list[Path], default: set[str]) -> str:
    lines = ["| pass | by default | what it does |", "| --- | --- | --- |"]
    for name, text, path in (row for file in files for row in _about(file)):
        ours = "yes" if name in default else ""
        lines.append(f"| [`{name}`](../src/loopwright/{path}) | {ours} | {text} |")
    return "\n".join(lines)


def _rooms(layer: str, default: set[str]) -> str:
    """A table for each folder of a layer's passes, below what the folder says of itself."""
    parts = []
    files = (f for f in pass_files() if f.parts[0] == layer)
    for folder, group in groupby(sorted(files), lambda f: f.parent):
        rows = _table(list(group), default)
        if folder.name != "transform":
            package = importlib.import_module(".".join(("loopwright", *folder.parts)))
            parts.append(f"### `{folder}/`\n\n{package.__doc__}\n\n{rows}")
    return "\n\n".join(parts)


def page() -> str:
    """The text of the page."""
    graph = cpu.graph_pipeline().names()
    loops = [name for name in cpu.loop_pipeline().names() if name != "tir.AddedPasses"]
    return f"""# Passes

Made by `python -m tools.make_passes` from the docstrings of the passes' files. Each file shows a module
before and after; `tests/house/test_pass_docs.py` runs it.

## On graphs

The default pipeline (`loopwright.backend.cpu.graph_pipeline`), in order: {", ".join(graph)}.
Between them `ApplyDefaultSchedule` ([sched/apply.py](../src/loopwright/sched/apply.py)) schedules every
kernel that has no schedule yet.

{_rooms("relax", set(graph))}

## On loops

The default pipeline (`loopwright.backend.cpu.loop_pipeline`), in order: {", ".join(loops)}.
Passes given by the option `tir.add_lower_pass` run between them (`docs/knobs.md`).

{_rooms("tir", {*loops, *graph})}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
