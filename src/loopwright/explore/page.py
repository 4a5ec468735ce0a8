"""The page: one HTML file with everything that happened to a model, and no need of a network."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from ..codegen.llvm.executable import Executable
from ..ir.trace import Trace
from ..runtime.threads import num_threads
from .explored import Explored
from .machine import roof_of
from .notebook import notebook_executable, notebook_trace  # noqa: F401
from .overview import Run
from .page_data import PageData
from .pair import data_of_page, pair_page
from .template import html_of
from .timing import timed


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
    against: Executable | str | Path | None = None,
) -> str:
    """The page of an executable, as text and, where a file is given, written to it. With inputs by
    name, kernels are timed in `number` runs. against: one that was compiled before, or its page in a
    file; the page then shows both."""
    data = page_data(Explored.of(exe), inputs, title=title, number=number)
    if against is None:
        return _written(html_of(data), file)
    if isinstance(against, (str, Path)):
        before = data_of_page(against)
    else:
        before = page_data(Explored.of(against), inputs, title=title, number=number)
    return _written(pair_page(before, data), file)


def page(
    explored: Explored, inputs: dict[str, Any] | None = None, *, title: str = "", number: int = 10
) -> str:
    """The page as HTML."""
    return html_of(page_data(explored, inputs, title=title, number=number))


def page_data(
    explored: Explored, inputs: dict[str, Any] | None = None, *, title: str = "", number: int = 10
) -> dict[str, Any]:
    """The data of a page."""
    run = Run() if inputs is None else measured(explored.exe, inputs, number)
    return PageData(explored, run).data(title or "model")


def measured(exe: Any, inputs: dict[str, Any], number: int) -> Run:
    """A run with inputs by name: the times of its kernels, and of `number` whole runs."""
    times = timed(exe, inputs, number)
    profile = times.medians()
    shapes = [(n, str(a.dtype), a.shape) for n, a in inputs.items() if hasattr(a, "dtype")]
    roof = roof_of(exe) if profile else None
    whole = median(times.calls) if times.calls else 0.0
    return Run(profile, dict(times.sizes), shapes, whole, number, num_threads(), roof)


def _written(text: str, file: str | Path | None) -> str:
    if file is not None:
        Path(file).write_text(text, encoding="utf-8")
    return text
