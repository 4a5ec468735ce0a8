"""Make docs/knobs.md from the table of knobs: python -m tools.make_knobs"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path

import loopwright
from loopwright.base.config import ENVIRONMENT, PASS_OPTIONS, Knob

PAGE = Path(__file__).parent.parent / "docs" / "knobs.md"


def _table(knobs: Iterable[Knob]) -> str:
    lines = ["| name | type | default | |", "| --- | --- | --- | --- |"]
    for knob in sorted(knobs, key=lambda knob: knob.name):
        kind = getattr(knob.kind, "__name__", str(knob.kind))
        lines.append(f"| `{knob.name}` | {kind} | `{knob.default!r}` | {knob.doc} |")
    return "\n".join(lines)


def page() -> str:
    """The text of the page. Imports every module, since each pass declares its own options."""
    for module in pkgutil.walk_packages(loopwright.__path__, "loopwright."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return f"""# Knobs

Made by `python -m tools.make_knobs` from `loopwright.base.config`.

## Environment

{_table(ENVIRONMENT.values())}

## Pass options

`PassContext(config={{name: value}})`

{_table(PASS_OPTIONS.values())}
"""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
