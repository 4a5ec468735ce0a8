"""The cost of a run: kernels and nodes of the model, compared with the peak of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..codegen.llvm.executable import Executable
from .explored import Explored
from .machine import Machine, machine
from .page import timed

_HEADS = ("calls", "us", "share", "GFLOP/s", "GB/s", "of roof")


@dataclass(frozen=True)
class Cost:
    """A kernel or a node in one run: calls, microseconds, operations and bytes of all calls; 0 where
    the loops do not determine them."""

    name: str
    calls: int
    us: float
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def gflops(self) -> float:
        """Operations a second, in units of 1e9."""
        return self.flops / self.us / 1e3 if self.us else 0.0

    @property
    def gbs(self) -> float:
        """Bytes a second, in units of 1e9: those of its tensors, each once a call."""
        return self.bytes / self.us / 1e3 if self.us else 0.0

    def roof(self, most: Machine) -> float:
        """Its fraction of the machine's peak of computation or of memory; above 1 where caches help."""
        return max(self.gflops / most.gflops, self.gbs / most.gbs)


@dataclass(frozen=True)
class Costs:
    """The costs of a run by kernel and by node of the model, the most expensive first. Those of a
    node are its part of its kernels, by what their loops do: an estimate."""

    kernels: list[Cost]
    nodes: list[Cost]
    machine: Machine

    @property
    def us(self) -> float:
        """Microseconds of all kernels."""
        return sum(cost.us for cost in self.kernels)

    def table(self, limit: int | None = None, nodes: bool = False) -> str:
        """The costs as text, of kernels, or of nodes."""
        rows: list[Sequence[str]] = [("node" if nodes else "kernel", *_HEADS)]
        for cost in (self.nodes if nodes else self.kernels)[:limit]:
            share = f"{100 * cost.us / (self.us or 1):.1f}%"
            rates = [f"{rate:.2f}" if rate else "" for rate in (cost.gflops, cost.gbs)]
            roof = cost.roof(self.machine)
            times = (str(cost.calls), f"{cost.us:.1f}", share)
            rows.append((cost.name, *times, *rates, f"{100 * roof:.0f}%" if roof else ""))
        most = (
            f"the roof: {self.machine.gflops} GFLOP/s, {self.machine.gbs} GB/s, as numpy has them"
        )
        return f"{_aligned(rows)}\ntotal {self.us:.1f} us; {most}"

    def compare(self, old: Costs, limit: int | None = None, nodes: bool = False) -> str:
        """What changed since another run, as text: the largest differences first."""
        new, before = (
            {c.name: c.us for c in (x.nodes if nodes else x.kernels)} for x in (self, old)
        )
        names = sorted({**before, **new}, key=lambda n: -abs(new.get(n, 0.0) - before.get(n, 0.0)))
        rows: list[Sequence[str]] = [("node" if nodes else "kernel", "us before", "us", "ratio")]
        for name in names[:limit]:
            pair = [times.get(name) for times in (before, new)]
            ratio = "" if None in pair or not pair[0] else f"{(pair[1] or 0.0) / pair[0]:.3f}"
            rows.append((name, *("" if us is None else f"{us:.1f}" for us in pair), ratio))
        ratio = f"{self.us / old.us:.3f}" if old.us else ""
        return _aligned([*rows, ("total", f"{old.us:.1f}", f"{self.us:.1f}", ratio)])

    def save(self, file: str | Path) -> None:
        """Write the costs as JSON, which `load` reads."""
        Path(file).write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")

    @staticmethod
    def load(file: str | Path) -> Costs:
        """The costs that `save` wrote. Raises LoopwrightError for another file."""
        try:
            data = json.loads(Path(file).read_text(encoding="utf-8"))
            parts = [[Cost(**cost) for cost in data[name]] for name in ("kernels", "nodes")]
            return Costs(*parts, Machine(*data["machine"]))
        except (ValueError, TypeError, KeyError):
            what = "this file holds no costs of a run"
            hint = "loopwright bench MODEL --save FILE, or Costs.save"
            raise LoopwrightError(explain(what, got=file, instead=hint)) from None

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.table(nodes=True)}"


def costs_of(exe: Executable, inputs: Mapping[str, Any], number: int = 10) -> Costs:
    """The costs of a run with inputs by name, timed in `number` runs."""
    explored = Explored.of(exe)
    times, sizes = timed(exe, dict(inputs), number)
    kernels, parts = [], dict[str, list[Cost]]()
    for name, (us, calls) in times.items():
        work = explored.work(name, sizes) if name in explored.kernels else {}
        cost = Cost(name, calls, us, *(work.get(key, 0.0) * calls for key in ("flops", "bytes")))
        kernels.append(cost)
        shares = explored.shares(name, sizes) if name in explored.kernels else {}
        for node, share in shares.items():
            amounts = [share * amount for amount in (us, cost.flops, cost.bytes)]
            parts.setdefault(node, []).append(Cost(node, calls, *amounts))
    rows = [
        Cost(name, *(_sum(costs, key) for key in ("calls", "us", "flops", "bytes")))
        for name, costs in parts.items()
    ]
    slow: Callable[[Cost], float] = lambda cost: -cost.us  # noqa: E731
    return Costs(sorted(kernels, key=slow), sorted(rows, key=slow), machine())


def _sum(costs: list[Cost], key: str) -> Any:
    return sum(getattr(cost, key) for cost in costs)


def _aligned(rows: list[Sequence[str]]) -> str:
    """Columns, the first one to the left, with a line below the heads."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *(line.rstrip() for line in lines[1:])])
