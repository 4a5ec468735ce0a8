"""The measurements of a profiled run: calls and time per kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass
class Entry:
    """One kernel's totals. Times are in microseconds."""

    name: str
    calls: int = 0
    total_us: float = 0.0
    min_us: float = float("inf")
    max_us: float = 0.0

    @property
    def mean_us(self) -> float:
        return self.total_us / self.calls if self.calls else 0.0


class Profile:
    """Calls and times by kernel name, in the order kernels were first seen."""

    def __init__(self, samples: Iterable[tuple[str, float]] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        self.samples: list[tuple[str, float]] = []  # in order: name, microseconds
        for name, us in samples:
            self.add(name, us)

    def add(self, name: str, us: float, calls: int = 1) -> None:
        """Count `calls` calls that took `us` microseconds together."""
        self.samples.append((name, us))
        entry = self._entries.setdefault(name, Entry(name))
        entry.calls += calls
        entry.total_us += us
        each = us / max(calls, 1)
        entry.min_us = min(entry.min_us, each)
        entry.max_us = max(entry.max_us, each)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def total_us(self) -> float:
        return sum(entry.total_us for entry in self)

    def sorted(self) -> list[Entry]:
        """Entries, the most expensive first."""
        return sorted(self, key=lambda entry: -entry.total_us)

    def table(self, limit: int | None = None) -> str:
        """A printable table, the most expensive kernels first."""
        rows = [("kernel", "calls", "total us", "mean us", "share")]
        total = self.total_us or 1.0
        for entry in self.sorted()[:limit]:
            share = f"{100 * entry.total_us / total:.1f}%"
            times = f"{entry.total_us:.1f}", f"{entry.mean_us:.2f}"
            rows.append((entry.name, str(entry.calls), *times, share))
        calls = sum(entry.calls for entry in self)
        rows.append(("total", str(calls), f"{self.total_us:.1f}", "", ""))
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = []
        for row in rows:
            cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]
            lines.append("  ".join(cells).rstrip())
        rule = "-" * max(map(len, lines))
        return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])

    def json(self) -> str:
        """The entries as JSON: a list of objects, the most expensive first."""
        keys = ("name", "calls", "total_us", "mean_us", "min_us", "max_us")
        return json.dumps([{k: getattr(e, k) for k in keys} for e in self.sorted()])

    def chrome_trace(self, file: str | None = None) -> str:
        """The calls one after another as Chrome's trace events, which ui.perfetto.dev and
        chrome://tracing show; written to `file` if it is given. Gaps between calls are left out."""
        events, start = [], 0.0
        for name, us in self.samples:
            event = {"ph": "X", "pid": 1, "tid": 1, "ts": round(start, 3), "dur": round(us, 3)}
            events.append({"name": name, "cat": "kernel", **event})
            start += us
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
        if file is not None:
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
        return text

    def __str__(self) -> str:
        return self.table()
