"""What runs in eager torch: of `torch.compile` with the backend "loopwright", and of compiled programs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

from ...base.errors import explain


class EagerPart(NamedTuple):
    """An operator that runs in eager torch, why, and the line of the model."""

    target: str
    reason: str
    line: str


@dataclass
class Report:
    """The graphs that dynamo has handed over so far, and what of them runs in eager torch."""

    graphs: int = 0
    eager: list[EagerPart] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.graphs} graphs, {len(self.eager)} parts in eager torch"]
        lines += [f"  {p.target} at {p.line or '?'}: {p.reason}" for p in self.eager]
        return "\n".join(lines)


LOG = Report()


def report(reset: bool = False) -> Report:
    """What was compiled and what runs in eager torch since the last reset, with reasons and the lines of the
    model. reset: start again after this report.

    >>> str(lw.frontend.torch.report(reset=True)) != ""
    True
    """
    said = Report(LOG.graphs, list(LOG.eager))
    if reset:
        LOG.graphs = 0
        LOG.eager.clear()
    return said


def note(target: str, reason: str, line: str = "") -> None:
    """Record a part that runs in eager torch, and warn of it once."""
    part = EagerPart(target, reason.splitlines()[0][:300], line)
    if part not in LOG.eager:
        LOG.eager.append(part)
        what = f"{target} runs in eager torch"
        warnings.warn(
            explain(what, got=part.reason, instead="loopwright.frontend.torch.report()"),
            stacklevel=2,
        )
