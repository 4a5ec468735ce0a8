"""The conditions of a run: what its figures depend on, printed before them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..base import __version__
from ..base.host import host
from ..runtime.threads import num_threads
from .feeds import Feeds

_BUSY = 0.5  # of a CPU, by other work: then times vary


@dataclass(frozen=True)
class Conditions:
    """inputs: a line for each; warmup, seconds: of measuring, None where nothing is measured."""

    model: str
    inputs: tuple[str, ...]
    target: str
    threads: str
    timing: str = ""

    @staticmethod
    def of(
        model: object, feeds: Feeds, target: str, threads: int | str | None, timing: str = ""
    ) -> Conditions:
        """The conditions of a run on `feeds`."""
        shown = str(num_threads() if threads in (None, "") else threads)
        return Conditions(str(model), tuple(feeds.lines()), target, shown, timing)

    def data(self) -> dict[str, Any]:
        """The conditions as a dict."""
        here = {"cpu": host().name, "cpus": os.cpu_count(), "load": load()}
        return {**vars(self), **here, "loopwright": __version__}

    def lines(self) -> str:
        """The conditions as text."""
        rows = [("model", self.model), *(("input", line) for line in self.inputs)]
        rows.append(("target", f"{self.target} ({host().name}), threads: {self.threads}"))
        if self.timing:
            rows.append(("timing", f"{self.timing}; load of the machine {load_text()}"))
        return "\n".join(f"{name:<8}{text}" for name, text in rows)


def load() -> float:
    """Processes that want a CPU, the mean of the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0


def load_text() -> str:
    """The load, and the effect of a high one."""
    cpus = os.cpu_count() or 1
    busy = " (other work runs here: times vary, and are too long)" if load() > _BUSY * cpus else ""
    return f"{load()} on {cpus} CPUs{busy}"
