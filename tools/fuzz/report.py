"""Counts of outcomes, and their groups with a case of each."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from .judge import Outcome

FAULTS = ("wrong", "crash", "hang", "raw", "slow", "memory", "tool", "refused", "doubt")


@dataclass
class Report:
    """What came out so far."""

    name: str
    kinds: Counter[str] = field(default_factory=Counter)
    groups: dict[str, list[tuple[Any, Outcome]]] = field(default_factory=lambda: defaultdict(list))
    started: float = field(default_factory=time.monotonic)

    def add(self, item: Any, outcome: Outcome) -> bool:
        """Count an outcome; whether it is a fault of a group that is new."""
        self.kinds[outcome.kind] += 1
        group = self.groups[outcome.group()] if outcome.kind != "right" else []
        group.append((item, outcome))
        new = outcome.kind in FAULTS and len(group) == 1
        if new:
            print(f"{outcome.group()}: {item}", file=sys.stderr, flush=True)
        return new

    def faults(self) -> int:
        """Cases that were wrong, died, hung or took too much."""
        return sum(self.kinds[k] for k in FAULTS[:-2])

    def text(self, most: int = 60) -> str:
        """The table."""
        total = sum(self.kinds.values())
        seconds = time.monotonic() - self.started
        lines = []
        order = {kind: n for n, kind in enumerate((*FAULTS, "invalid"))}
        for group, found in sorted(
            self.groups.items(),
            key=lambda item: (order.get(item[0].split(" ")[0], 9), -len(item[1])),
        )[:most]:
            item, outcome = found[0]
            message = outcome.message.strip().split("\n")[0][:150]
            lines.append(f"{len(found):>6}  {group}")
            lines.append(f"        seed {item} [{outcome.operators}]: {message}")
            if len(found) > 1 and outcome.kind != "invalid":
                lines.append(f"        also {'; '.join(str(item) for item, _ in found[1:9])}")
        counts = ", ".join(f"{n} {k}" for k, n in self.kinds.most_common())
        lines.append(
            f"{self.name}: {total} cases in {seconds:.0f} s ({total / max(seconds, 1e-9):.1f}/s): {counts}"
        )
        return "\n".join(lines)
