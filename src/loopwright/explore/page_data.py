"""The content of the page as plain data: texts stored once, each line with the nodes it came from.

The number of a line's set of nodes is negative where the line is a statement around others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..base import __version__
from ..base.errors import LoopwrightError
from ..ir.module import IRModule
from ..ir.trace import Note, PassRecord
from ..relax.expr import Function
from ..script.printer.lines import Lines
from ..tir.function import PrimFunc
from .explored import Explored
from .groups import Group, grouped, hues
from .memory import memory_of
from .origins import is_leaf, names_of
from .overview import Run, overview

_NOTE = 600  # letters of a decision


class PageData:
    """Collects the data of a model, with the times of a run."""

    def __init__(self, explored: Explored, run: Run | None = None) -> None:
        self.explored, self.run = explored, run or Run()
        self.number = {name: k for k, name in enumerate(explored.nodes)}
        self.sets: dict[tuple[int, ...], int] = {(): 0}
        self.texts: list[dict[str, Any]] = []
        self._text_of: dict[tuple[str, int], int] = {}
        self.about: dict[str, set[int]] = {}  # the nodes of each function that there was

    def data(self, title: str) -> dict[str, Any]:
        """All of it."""
        passes = self._passes()
        kernels = [self._kernel(name) for name in self.explored.kernels]
        nodes = self._nodes(kernels)
        memory = memory_of(self.explored, self.run.sizes, self.set_of)
        machine = self.run.machine
        return {
            "title": title,
            "version": __version__,
            "target": "" if self.explored.exe is None else str(self.explored.exe.target),
            "nodes": nodes,
            "tree": self._tree(nodes),
            "overview": overview(self.explored, nodes, kernels, memory, self.run),
            "us": round(self.run.us, 3),
            "passes": passes,
            "notes": self._notes(kernels),
            "kernels": kernels,
            "memory": memory,
            "machine": None if machine is None else machine._asdict(),
            "sizes": self.run.sizes,
            "texts": self.texts,
            "sets": [list(members) for members in self.sets],
        }

    def set_of(self, names: Iterable[str]) -> int:
        """The number of a set of nodes."""
        members = tuple(sorted({self.number[n] for n in names if n in self.number}))
        return self.sets.setdefault(members, len(self.sets))

    # -- passes --------------------------------------------------------------------------------

    def _passes(self) -> list[dict[str, Any]]:
        rows = [{"name": "import", "ms": self._import_ms(), "depth": 0, "changed": True}]
        rows[0]["functions"] = self._module(self.explored.imported, {})
        previous = dict(self.explored.imported.functions.items())
        for record in self.explored.trace:
            if record.after is None:
                continue
            row = self._pass(record)
            if not record.group:
                before = {g.name_hint: f for g, f in previous.items()}
                row["functions"] = self._module(record.after, before)
                previous = dict(record.after.functions.items())
                row["changed"] = record.changed
            rows.append(row)
        return rows

    def _import_ms(self) -> float:
        return next((n.facts["ms"] for n in self.explored.trace.notes if n.kind == "import"), 0.0)

    @staticmethod
    def _pass(record: PassRecord) -> dict[str, Any]:
        return {
            "name": record.name,
            "ms": round(record.ms, 3),
            "depth": record.depth,
            "group": record.group,
            "error": record.error,
        }

    def _module(self, mod: IRModule, before: dict[str, Any]) -> dict[str, int]:
        """The texts of the functions that differ from those before; -1 for one that is gone."""
        changed: dict[str, int] = {}
        for gvar, func in mod.functions.items():
            name = gvar.name_hint
            if before.get(name) is not func:
                changed[name] = self._text(name, func)
                self._learn(name, func)
        names = {gvar.name_hint for gvar in mod.functions}
        return {**changed, **{name: -1 for name in before if name not in names}}

    def _text(self, name: str, func: Function | PrimFunc) -> int:
        key = (name, id(func))
        if key not in self._text_of:
            lines, origins = self.explored.lines(name, func)
            kind = "tir" if isinstance(func, PrimFunc) else "relax"
            sets = [
                self.set_of(names) * (1 if is_leaf(node) else -1)
                for names, node in zip(origins, lines.nodes, strict=True)
            ]
            whole = self.set_of(names_of(func.span))
            self._text_of[key] = self._add(lines.texts, sets, kind=kind, whole=whole)
        return self._text_of[key]

    def _add(self, texts: list[str], sets: list[int], **facts: str | int | Sequence[int]) -> int:
        self.texts.append({"t": "\n".join(texts), "o": sets, **facts})
        return len(self.texts) - 1

    def _learn(self, name: str, func: Function | PrimFunc) -> None:
        """Remember the nodes that a function, or a kernel that it calls, came from."""
        if isinstance(func, Function):
            for block in func.body.blocks:
                for b in block.bindings:
                    args = getattr(b.value, "args", ())
                    callee = getattr(args[0], "name_hint", "") if args else ""
                    if callee:
                        nodes = names_of(b.span or b.value.span)
                        self.about.setdefault(callee, set()).update(self._numbers(nodes))
        if isinstance(func, PrimFunc) or func.attrs.get("Primitive"):
            numbers = self._numbers(self.explored.seen.in_function(func))
            self.about.setdefault(name, set()).update(numbers)

    def _numbers(self, names: Iterable[str]) -> set[int]:
        return {self.number[name] for name in names if name in self.number}

    # -- nodes, decisions ----------------------------------------------------------------------

    def _nodes(self, kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
        sets = list(self.sets)
        reached = {number for row in kernels for number in sets[row["set"]]}
        rows = []
        for name, node in self.explored.nodes.items():
            number = self.number[name]
            row: dict[str, Any] = {"name": name.removeprefix("onnx:"), "op": node.op}
            row["to"] = [self.number[n] for n in self.explored.readers.get(name, ())]
            if number not in reached:
                remover, into = self.explored.fate(name)
                if remover:
                    row["gone"] = [remover, [self.number[n] for n in into if n in self.number]]
            rows.append(row)
        together = [sets[k["set"]] for k in kernels if not k["graph"]]
        together += [(k, reader) for k, row in enumerate(rows) for reader in row["to"]]
        for row, hue in zip(rows, hues(len(rows), together), strict=True):
            row["hue"] = hue
        return rows

    def _tree(self, nodes: list[dict[str, Any]]) -> list[Group | int]:
        return grouped(list(self.explored.nodes.values()), [row["to"] for row in nodes])

    def _notes(self, kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The decisions, each once, at the node that has most of the work of what it is about."""
        names = list(self.number)
        work: dict[str, dict[int, float]] = {"": {}}  # of the nodes in a kernel, and in all
        for kernel in kernels:
            work[kernel["name"]] = dict(kernel["shares"])
            for k, share in kernel["shares"]:
                work[""][k] = work[""].get(k, 0.0) + share * kernel.get("flops", 0)

        def home(function: str, about: set[int]) -> int:
            among = work.get(function, work[""])
            return max(sorted(about), key=lambda k: among.get(k, 0.0), default=-1)

        rows: dict[tuple[str, ...], tuple[dict[str, str], set[int]]] = {}
        for note in _once(self.explored.trace.notes):
            kernel = str(note.facts.get("kernel") or "")
            if not note.subject or note.kind == "import":
                continue
            facts = "\n".join(f"{k}: {_short(v)}" for k, v in note.facts.items() if v)[:_NOTE]
            row = {"kind": note.kind, "subject": note.subject, "text": facts}
            row["pass"] = note.passes[-1] if note.passes else ""
            row["function"] = kernel or note.subject
            if note.kind == "schedule" and note.subject in self.explored.trace.schedules:
                row["steps"] = str(self.explored.trace.schedules[note.subject])
            _, about = rows.setdefault(tuple(row.values()), (row, set()))
            about |= self.about.get(kernel) or self.about.get(note.subject) or set()
        return [
            {
                **row,
                "set": self.set_of(names[k] for k in about),
                "node": home(row["function"], about),
            }
            for row, about in rows.values()
        ]

    # -- kernels -------------------------------------------------------------------------------

    def _kernel(self, name: str) -> dict[str, Any]:
        func = self.explored.final[name]
        lines, origins = self.explored.lines(name, func)
        us, calls = self.run.profile.get(name, (0.0, 0))
        row: dict[str, Any] = {"name": name, "us": round(us, 3), "calls": calls, "shares": []}
        row["graph"] = self.explored.is_graph(name)
        row["tir"] = self._text(name, func)
        leaves = {n for n, node in zip(origins, lines.nodes, strict=True) if is_leaf(node)}
        row["set"] = self.set_of(
            {name for names in leaves for name in names} or names_of(func.span)
        )
        row.update(self.explored.work(name, self.run.sizes))
        try:
            code = self.explored.code(name)
        except LoopwrightError:
            return row
        for kind, part in (("llvm", code.llvm), ("asm", code.assembly)):
            of = self.texts[row["tir"]]["o"]
            sets = [of[n - 1] if n else 0 for n in part.lines]
            row[kind] = self._add(part.texts, sets, kind=kind, lines=part.lines, whole=row["set"])
        if not row["graph"]:
            shares = self.explored.shares(name, self.run.sizes).items()
            row["shares"] = [(self.number[n], round(share, 6)) for n, share in shares]
            row.update(self._trips(name, lines))
        return row

    def _trips(self, name: str, lines: Lines) -> dict[str, list[float]]:
        """Of each line of a lowered kernel: the line of the innermost loop around it, how many times a
        call runs it, and its share of the kernel's work."""
        trips, number = self.explored.trips(name, self.run.sizes), lines.numbers()
        of = [trips.get(id(node)) for node in lines.nodes]
        whole = sum(trip.work for trip in trips.values()) or 1.0
        return {
            "loops": [number.get(id(t.loop), 0) if t else 0 for t in of],
            "runs": [round(t.runs, 1) if t else 0 for t in of],
            "work": [round(t.work / whole, 5) if t else 0 for t in of],
        }


def _once(notes: Iterable[Note]) -> list[Note]:
    """Decisions without what others say as well: a group of operators that were fused is one, with
    the reason why it ends."""
    groups: dict[tuple[str, ...], Note] = {}
    rows: list[Note] = []
    for note in notes:
        members = tuple(note.facts.get("group") or ()) if note.kind == "fuse" else ()
        if not members:
            rows += [note] if note.kind != "group" else []
        elif members not in groups or note.facts.get("reason"):
            facts = {"group": list(members), "ends": note.facts.get("reason")}
            groups[members] = Note("fuse", members[0], facts, note.passes)
    return [*rows, *groups.values()]


def _short(value: str | int | Sequence[str]) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
