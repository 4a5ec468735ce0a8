"""`MemoryPlan`: the placement and live ranges of a function's memory, as data and as a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...runtime.arena import format_bytes
from .picture import Box, svg_picture, text_picture

if TYPE_CHECKING:
    from ...ir.module import IRModule
    from ..function import PrimFunc

ATTRIBUTE = "memory_plan"


@dataclass(frozen=True)
class Entry:
    """Placed memory, live from step `first` to step `last` of the plan.

    kind: "tensor", "scratch" or "constant". over: the tensor that it overwrites in place.
    """

    name: str
    kind: str
    bytes: int
    pool: str
    offset: int
    first: int
    last: int
    over: str = ""


@dataclass(frozen=True)
class PlannedPool:
    """A pool that the function takes a pointer to: bytes that it needs, limit (-1: none)."""

    name: str
    bytes: int
    alignment: int
    limit: int = -1


@dataclass(frozen=True)
class MemoryPlan:
    """The memory of one function.

    steps: the label of each step. bound: a lower bound on the bytes of any plan (without
    constants).
    left: memory that is not planned, and why.
    """

    function: str
    algorithm: str
    pools: tuple[PlannedPool, ...]
    entries: tuple[Entry, ...]
    steps: tuple[str, ...]
    bound: int
    left: tuple[tuple[str, str], ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of all pools, without those that hold only constants."""
        constant = {e.pool for e in self.entries if e.kind == "constant"}
        working = {e.pool for e in self.entries if e.kind != "constant"}
        return sum(p.bytes for p in self.pools if p.name in working or p.name not in constant)

    @property
    def ratio(self) -> float:
        """Bytes divided by the lower bound; 1.0 is optimal."""
        return self.bytes / self.bound if self.bound else 1.0

    def __getitem__(self, name: str) -> Entry:
        """The entry of a tensor. Raises KeyError."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def report(self) -> str:
        """The plan as text: pools, bound, one line per tensor, what was not planned and why."""
        lines = [f"memory plan of {self.function} ({self.algorithm})"]
        for p in self.pools:
            limit = "" if p.limit < 0 else f" of {p.limit} ({format_bytes(p.limit)})"
            lines.append(f"  pool {p.name}: {p.bytes} bytes{limit}, aligned to {p.alignment}")
        lines.append(
            f"  live-range lower bound: {self.bound} bytes, planned: {self.bytes}, "
            f"ratio {self.ratio:.3f}"
        )
        rows = [("tensor", "kind", "bytes", "pool", "offset", "lives")]
        rows += [
            (e.name, e.kind, str(e.bytes), e.pool, str(e.offset), self._lives(e))
            for e in sorted(self.entries, key=lambda e: (e.first, e.offset, e.name))
        ]
        if len(rows) > 1:
            lines += _table(rows)
        lines += [f"  not planned: {name}: {why}" for name, why in self.left]
        return "\n".join(lines)

    def _lives(self, e: Entry) -> str:
        if e.kind == "constant":
            return "always"
        over = f", over {e.over}" if e.over else ""
        first, last = self.steps[e.first], self.steps[e.last]
        if first == last:
            return f"{e.first}-{e.last} {first}{over}"
        return f"{e.first}-{e.last} {first} .. {last}{over}"

    def picture(self, pool: str | None = None, width: int = 72, height: int = 16) -> str:
        """Address by time as text, of one pool or of all."""
        texts = [
            text_picture(p.name, p.bytes, self._boxes(p.name), len(self.steps), width, height)
            for p in self.pools
            if pool is None or p.name == pool
        ]
        return "\n\n".join(texts)

    def svg(self) -> str:
        """Address by time as an SVG document; tooltips describe each tensor."""
        pools = [(p.name, p.bytes, self._boxes(p.name)) for p in self.pools]
        return svg_picture(f"memory plan of {self.function}", pools, self.steps)

    def _boxes(self, pool: str) -> list[Box]:
        return [
            Box(e.name, e.offset, e.bytes, e.first, e.last, self._lives(e))
            for e in self.entries
            if e.pool == pool
        ]

    def as_attr(self) -> dict[str, Any]:
        """The plan as plain lists, for a function's attribute."""
        return {
            "function": self.function,
            "algorithm": self.algorithm,
            "pools": [[p.name, p.bytes, p.alignment, p.limit] for p in self.pools],
            "entries": [
                [e.name, e.kind, e.bytes, e.pool, e.offset, e.first, e.last, e.over]
                for e in self.entries
            ],
            "steps": list(self.steps),
            "bound": self.bound,
            "left": [list(pair) for pair in self.left],
        }


def plan_of(func: PrimFunc) -> MemoryPlan | None:
    """The plan that `PlanUnifiedMemory` attached to a function; None without one."""
    attr = func.attrs.get(ATTRIBUTE)
    if attr is None:
        return None
    text, number = _text, _number
    return MemoryPlan(
        text(attr["function"]),
        text(attr["algorithm"]),
        tuple(PlannedPool(text(p[0]), *map(number, p[1:])) for p in attr["pools"]),
        tuple(
            Entry(
                text(e[0]), text(e[1]), number(e[2]), text(e[3]), *map(number, e[4:7]), text(e[7])
            )
            for e in attr["entries"]
        ),
        tuple(map(text, attr["steps"])),
        number(attr["bound"]),
        tuple((text(a), text(b)) for a, b in attr["left"]),
    )


def plan_of_module(mod: IRModule) -> MemoryPlan | None:
    """The plan of `main`, or of the only planned function of a module; None without one."""
    plans = {g.name_hint: plan_of(f) for g, f in mod.functions.items()}
    planned = [p for p in plans.values() if p is not None]
    return plans.get("main") or (planned[0] if len(planned) == 1 else None)


def _text(value: str) -> str:
    return str(getattr(value, "value", value))


def _number(value: int) -> int:
    return int(getattr(value, "value", value))


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows in columns; numbers right-aligned."""
    widths = [max(len(r[k]) for r in rows) for k in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        cells = [
            c.rjust(w) if c.isdigit() or rows[1][k].isdigit() else c.ljust(w)
            for k, (c, w) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  " + "  ".join([*cells, row[-1]]))
    return lines
