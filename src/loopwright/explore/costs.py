"""The cost of a run: kernels and nodes of the model, compared with the peak of this machine."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import LoopwrightError, explain
from ..codegen.llvm.executable import Executable
from ..driver.report import table
from ..driver.timing import ratio
from .explored import Explored
from .machine import Machine, roof_of
from .timing import CLOCK_US, timed

_HEADS = ("calls", "us", "share", "GFLOP/s", "GB/s", "of roof")
# Runs of different times see different machines (clocks, other work): a ratio below is not a change.
_LEAST = 0.05


@dataclass(frozen=True)
class Cost:
    """A kernel or a node in one run: calls, microseconds (the median of `runs`), operations and bytes of
    all calls; 0 where the loops do not determine them. nodes: of the model, that a kernel computes."""

    name: str
    calls: int
    us: float
    flops: float = 0.0
    bytes: float = 0.0
    runs: list[float] = field(default_factory=list, compare=False)
    nodes: list[str] = field(default_factory=list)

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
    node are its part of its kernels, by what their loops do: an estimate. calls: milliseconds of calls
    of the model, measured meanwhile."""

    kernels: list[Cost]
    nodes: list[Cost]
    machine: Machine
    calls: list[float] = field(default_factory=list, compare=False)

    @property
    def us(self) -> float:
        """Microseconds of all kernels."""
        return sum(cost.us for cost in self.kernels)

    def table(self, limit: int | None = None, nodes: bool = False) -> str:
        """The costs as text, of kernels, or of nodes."""
        rows = []
        for cost in (self.nodes if nodes else self.kernels)[:limit]:
            share = f"{100 * cost.us / (self.us or 1):.1f}%"
            rates = [f"{rate:.2f}" if rate else "" for rate in (cost.gflops, cost.gbs)]
            roof = cost.roof(self.machine)
            times = (str(cost.calls), f"{cost.us:.1f}", share)
            rows.append(
                (*_names(cost, nodes), *times, *rates, f"{100 * roof:.0f}%" if roof else "")
            )
        heads = ("node",) if nodes else ("kernel", "node")
        return "\n".join([table((*heads, *_HEADS), rows, len(heads)), *self._ending(limit)])

    def _ending(self, limit: int | None) -> Iterable[str]:
        """The sum of the kernels next to the time of a call, the roof, and what exceeds it."""
        count, rows = len(self.kernels), self.kernels[:limit]
        shown = f"; {limit} are shown (--top)" if limit is not None and limit < count else ""
        yield f"total {self.us:.1f} us in {count} kernel{'' if count == 1 else 's'}{shown}"
        if self.calls:
            call, least = (1e3 * f(self.calls) for f in (statistics.median, min))
            of = f"median; the fastest {least:.1f}"
            yield f"a call takes {call:.1f} us ({of}), measured in turns with the kernels"
            if self.us > 1.1 * call:
                yield "  less: the clocks around kernels, and other work here, cost the rest"
            elif least > 1.1 * self.us:
                yield f"  more: {least - self.us:.1f} us are not in kernels (the call itself, memory)"
            elif call > 1.1 * self.us:
                yield "  more: other work here interrupts calls; the fastest takes hardly longer than the kernels"
        most = self.machine
        yield f"the roof: {most.gflops} GFLOP/s of float32 multiply-adds, {most.gbs} GB/s from memory"
        if any(cost.gflops > most.gflops for cost in rows):
            yield "  more GFLOP/s: they do less than is counted (Winograd), or in shorter numbers"
        if any(cost.gbs > most.gbs for cost in rows):
            yield "  more GB/s: the data of these kernels stays in the caches"

    def compare(self, old: Costs, limit: int | None = None, nodes: bool = False) -> str:
        """What changed since another run, as text: the largest differences first. "no change" where
        the medians may be equal, by resampling the runs of both."""
        new, before = ({c.name: c for c in (x.nodes if nodes else x.kernels)} for x in (self, old))
        us = lambda costs, name: costs[name].us if name in costs else 0.0  # noqa: E731
        names = sorted({**before, **new}, key=lambda n: -abs(us(new, n) - us(before, n)))
        heads = ("node" if nodes else "kernel", "us before", "us", "change (95 % interval)")
        rows = [
            (n, *(f"{us(x, n):.1f}" if n in x else "" for x in (before, new)),
             _change(new.get(n), before.get(n)))
            for n in names[:limit]
        ]  # fmt: skip
        whole = "" if not old.us else f"{self.us / old.us:.3f}"
        if self.calls and old.calls:
            pair = [f"{statistics.median(x.calls) * 1e3:.1f}" for x in (old, self)]
            rows.append(("a call", *pair, str(ratio(self.calls, old.calls, _LEAST))))
        rows.append(("total of kernels", f"{old.us:.1f}", f"{self.us:.1f}", whole))
        return "\n".join([table(heads, rows), *self._drift(old)])

    def _drift(self, old: Costs) -> Iterable[str]:
        """Changes of the machine itself between the runs."""
        for name, unit in (("gflops", "GFLOP/s"), ("gbs", "GB/s")):
            now, then = getattr(self.machine, name), getattr(old.machine, name)
            if abs(now / (then or now or 1) - 1) > 2 * _LEAST:
                yield f"the machine has changed: {then} {unit} before, {now} now"

    def data(self) -> dict[str, Any]:
        """The costs as a dict."""
        return {**asdict(self), "machine": list(self.machine)}

    def save(self, file: str | Path) -> None:
        """Write the costs as JSON, which `load` reads; - is a pipe."""
        text = json.dumps(self.data(), indent=1)
        if str(file) == "-":
            print(text)
        else:
            Path(file).write_text(text, encoding="utf-8")

    @staticmethod
    def load(file: str | Path) -> Costs:
        """The costs that `save` wrote. Raises LoopwrightError for another file."""
        try:
            data = json.loads(Path(file).read_text(encoding="utf-8"))
            parts = [[Cost(**cost) for cost in data[name]] for name in ("kernels", "nodes")]
            return Costs(*parts, Machine(*data["machine"]), data.get("calls", []))
        except (ValueError, TypeError, KeyError):
            what = "this file holds no costs of a run"
            hint = "loopwright bench MODEL --save FILE, or Costs.save"
            raise LoopwrightError(explain(what, got=file, instead=hint)) from None

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.table(nodes=True)}"


def _names(cost: Cost, nodes: bool) -> tuple[str, ...]:
    """The name of a row, and of a kernel the node that takes most of it."""
    if nodes:
        return (cost.name,)
    first = "/".join(cost.nodes[0].partition(":")[2].split("/")[-2:]) if cost.nodes else ""
    more = f" +{len(cost.nodes) - 1}" if len(cost.nodes) > 1 else ""
    return cost.name, first + more


def _change(new: Cost | None, old: Cost | None) -> str:
    """The ratio of two times, if it is a change."""
    if new is None or old is None:
        return "only now" if old is None else "only before"
    if abs(new.us - old.us) < CLOCK_US * max(new.calls, 1):
        return "no change"
    return str(ratio(new.runs, old.runs, _LEAST)) if new.runs and old.runs else "one run: unknown"


def costs_of(
    exe: Executable, inputs: Mapping[str, Any], number: int = 10, seconds: float = math.inf
) -> Costs:
    """The costs of a run with inputs by name: medians of `number` runs, or of those that begin within
    `seconds`, but three."""
    explored = Explored.of(exe)
    times = timed(exe, dict(inputs), number, seconds)
    kernels, parts = [], dict[str, list[Cost]]()
    for name, (us, calls) in times.medians().items():
        seen, runs = name in explored.kernels, [round(us, 3) for us in times.runs[name]]
        work = explored.work(name, dict(times.sizes)) if seen else {}
        shares = explored.shares(name, dict(times.sizes)) if seen else {}
        amounts = [work.get(key, 0.0) * calls for key in ("flops", "bytes")]
        order = sorted(shares, key=lambda node: -shares[node])
        kernels.append(Cost(name, calls, us, *amounts, runs, order))
        for node, share in shares.items():
            own = [share * amount for amount in (us, *amounts)]
            parts.setdefault(node, []).append(Cost(node, calls, *own, [share * r for r in runs]))
    rows = [
        Cost(
            name,
            *(
                sum(getattr(cost, key) for cost in costs)
                for key in ("calls", "us", "flops", "bytes")
            ),
            [sum(run) for run in zip(*(cost.runs for cost in costs), strict=False)],
        )
        for name, costs in parts.items()
    ]
    ordered = (sorted(part, key=lambda cost: -cost.us) for part in (kernels, rows))
    roof = roof_of(exe)
    return Costs(*ordered, roof, [us / 1e3 for us in times.calls])
