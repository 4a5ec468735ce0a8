"""The page: one HTML file with everything that happened to a model, and no need of a network."""

from __future__ import annotations

import base64
import gzip
import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..codegen.llvm.executable import Executable
from ..ir.trace import Trace
from .explored import Explored
from .machine import machine
from .notebook import notebook_executable, notebook_trace  # noqa: F401
from .page_data import PageData
from .timing import Timed, timed

_STYLES = ("page.css",)
_SCRIPTS = ("dagre.min.js", "diff.min.js", "model.js", "texts.js")
_SCRIPTS += ("graph.js", "charts.js", "page.js")
_LICENCES = ("dagre.LICENSE", "diff.LICENSE")


def page_of_trace(trace: Trace, file: str | Path | None = None, title: str = "") -> str:
    """The page of a trace, as text and, where a file is given, written to it. One of `lw.lower` has
    texts of all passes; machine code and times are in that of an executable."""
    return _written(page(Explored(trace), title=title), file)


def page_of_executable(
    exe: Executable,
    file: str | Path | None = None,
    inputs: dict[str, Any] | None = None,
    *,
    title: str = "",
    number: int = 10,
) -> str:
    """The page of an executable, as text and, where a file is given, written to it. With inputs by
    name, kernels are timed in `number` runs."""
    return _written(page(Explored.of(exe), inputs, title=title, number=number), file)


def page(
    explored: Explored, inputs: dict[str, Any] | None = None, *, title: str = "", number: int = 10
) -> str:
    """The page as HTML."""
    times = Timed({}, {}, [], {}) if inputs is None else timed(explored.exe, inputs, number)
    profile, sizes = times.medians(), dict(times.sizes)
    roof = machine() if profile else None
    data = PageData(explored, profile, sizes, roof).data(title or "model")
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), 9, mtime=0)
    assert __package__ is not None
    asset = files(__package__) / "assets"
    read = lambda name: (asset / name).read_text(encoding="utf-8")  # noqa: E731
    parts = {
        "TITLE": html.escape(data["title"]),
        "STYLE": "\n".join(map(read, _STYLES)),
        "LICENCES": "\n".join(map(read, _LICENCES)).replace("--", "- -"),
        "DATA": base64.b64encode(packed).decode(),
        "SCRIPT": "\n".join(map(read, _SCRIPTS)).replace("</script", "<\\/script"),
    }
    text = read("page.html")
    for name, value in parts.items():
        text = text.replace(f"@{name}@", value, 1)
    return text


def _written(text: str, file: str | Path | None) -> str:
    if file is not None:
        Path(file).write_text(text, encoding="utf-8")
    return text
