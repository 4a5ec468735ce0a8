"""The first screen of the page: the result of a compilation and the time that its parts take, in sentences.

A sentence is a list of texts and of references, which the page makes links: {"node": number},
{"kernel": name}, {"pass": name}.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ..base.config import ENVIRONMENT
from .explored import Explored
from .machine import Machine

Sentence = list[Any]

# A reason of FuseOps in its terms for operators, and in words for readers of the model.
_WORDS = {
    "an out ewise fusable use": "a reader that reduces, too",
    "an out ewise fusable": "an operator that reduces (a convolution, product or pool)",
    "an opaque use": "a reader that takes nothing into its loops",
    "an injective use": "a reader that moves elements",
    "an injective": "an operator that moves elements",
    "an elemwise": "an elementwise operator",
    "a comm reduce use": "a reduction",
    "a comm reduce": "a reduction",
}
_COSTLY, _SHOWN = 3, 3  # nodes; references of a sentence
_SHORT = 20.0  # microseconds of a short call


@dataclass(frozen=True)
class Run:
    """A run that was measured: microseconds and calls of each kernel by name, the symbolic sizes, the
    inputs (name, dtype, shape), the median of `number` whole runs in microseconds."""

    profile: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: Sequence[tuple[str, str, tuple[int, ...]]] = ()
    us: float = 0.0
    number: int = 0
    threads: int = 1
    machine: Machine | None = None


def overview(
    explored: Explored,
    nodes: Sequence[Mapping[str, Any]],
    kernels: Sequence[Mapping[str, Any]],
    memory: Mapping[str, Any] | None,
    run: Run,
) -> dict[str, Any]:
    """The sentences: "run", "costly" (each with its node, time and share) and "decisions". nodes,
    kernels, memory: as the page has them."""
    view = _Overview(explored, nodes, [k for k in kernels if not k["graph"]], run)
    return {
        "run": view.run_sentences(),
        "costly": view.costly(),
        "decisions": [*view.decisions(), *_memory(memory)],
    }


def plain(sentence: Sentence, nodes: Sequence[Mapping[str, Any]]) -> str:
    """A sentence as text."""
    return "".join(
        part if isinstance(part, str)
        else nodes[part["node"]]["name"] if "node" in part
        else next(iter(part.values()))
        for part in sentence
    )  # fmt: skip


class _Overview:
    def __init__(
        self,
        explored: Explored,
        nodes: Sequence[Mapping[str, Any]],
        kernels: Sequence[Mapping[str, Any]],
        run: Run,
    ) -> None:
        self.explored, self.nodes, self.kernels, self.run = explored, nodes, kernels, run
        self.notes = explored.trace.notes
        self.groups = {n.subject: n.facts["of"] for n in self.notes if n.kind == "group"}
        self.total = sum(k["us"] for k in kernels)
        self.parts: dict[int, list[tuple[float, Mapping[str, Any]]]] = {}
        for kernel in kernels:
            amount = kernel["us"] if self.total else kernel.get("flops", 0)
            for node, share in kernel["shares"]:
                self.parts.setdefault(node, []).append((share * amount, kernel))

    # -- the run -------------------------------------------------------------------------------

    def run_sentences(self) -> list[Sentence]:
        """What was compiled, and how long it takes."""
        exe, run = self.explored.exe, self.run
        target = "" if exe is None else f" for {exe.target}"
        removed = sum("gone" in node for node in self.nodes)
        without = f"; {removed} nodes have no code of their own" if removed else ""
        count = f"{len(self.nodes)} nodes became {_count(len(self.kernels), 'kernel')}{target}"
        became: Sentence = [f"{count}{without}."]
        if not self.total:
            what = "No run was timed, so nodes are compared by their operations"
            return [became, [f"{what}: give inputs (exe.html(file, inputs), loopwright explore)."]]
        inputs = ", ".join(f"{n} {dtype}{list(shape)}" for n, dtype, shape in run.inputs)
        sizes = ", ".join(f"{name}={size}" for name, size in run.sizes.items())
        threads = _count(run.threads, "thread")
        of = f"the median of {_count(run.number, 'run')}"
        took: Sentence = [f"A run takes {micro(run.us)} with {threads}, {of}."]
        kernels = f"Its kernels, each measured alone, take {micro(self.total)} together."
        return [
            became,
            [f"Inputs: {inputs}{f' ({sizes})' if sizes else ''}."],
            [*took, " ", kernels],
        ]

    # -- the most expensive nodes --------------------------------------------------------------

    def costly(self) -> list[dict[str, Any]]:
        """The most expensive nodes, and why each takes its time; nodes of one operator that share a
        kernel are one row."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for node, parts in self.parts.items():
            _, kernel = max(parts, key=lambda part: part[0])
            key = kernel["name"], self.nodes[node]["op"]
            row = rows.setdefault(key, {"nodes": [], "kernel": kernel, "amount": 0.0})
            row["nodes"].append(node)
            row["amount"] += sum(part for part, _ in parts)
        whole = sum(row["amount"] for row in rows.values()) or 1.0
        most = sorted(rows.values(), key=lambda row: -row["amount"])[:_COSTLY]
        return [
            {
                "nodes": row["nodes"],
                "us": round(row["amount"], 3) if self.total else 0.0,
                "share": round(row["amount"] / whole, 4),
                "why": [
                    *self.bound(row["kernel"]),
                    *self.schedule(row["kernel"]),
                    *self.fusion(row["nodes"][0], row["kernel"]),
                ],
            }
            for row in most
            if row["amount"]
        ]

    def bound(self, kernel: Mapping[str, Any]) -> list[Sentence]:
        """Whether arithmetic or memory limits a kernel, and how near it is to the machine's peak."""
        machine, us, calls = self.run.machine, kernel["us"], kernel["calls"]
        flops, size = kernel.get("flops", 0) * calls, kernel.get("bytes", 0) * calls
        if machine is None or not us:
            return []
        if not flops or not size:
            its = ["Data bounds the loops of its kernel ", {"kernel": kernel["name"]}]
            return [[*its, ", so its rate is not known."]]
        each, knee = flops / size, machine.gflops / machine.gbs
        gflops, gbs = flops / us / 1e3, size / us / 1e3
        if each >= knee:
            limit, rate, peak, unit = "Arithmetic", gflops, machine.gflops, "GFLOP/s"
            above = "multiply-adds of float32 do here"
        else:
            limit, rate, peak, unit = "Memory", gbs, machine.gbs, "GB/s"
            above = "memory has: caches help"
        share = rate / peak
        reached = f"{share:.0%} of this machine's peak, {rate:.3g} of {peak:g} {unit}"
        if share > 1:
            reached = f"{rate:.3g} {unit}, more than the {peak:g} that {above}"
        its = [f"{limit} bounds its kernel ", {"kernel": kernel["name"]}]
        balance = f"It does {each:.3g} operations a byte; below {knee:.3g}, memory is the limit."
        rows: list[Sentence] = [[*its, f": it reaches {reached}. {balance}"]]
        if share < 0.5 and us / calls < _SHORT:
            rows.append([f"A call takes only {micro(us / calls)}: starting it is a part of that."])
        return rows

    def schedule(self, kernel: Mapping[str, Any]) -> list[Sentence]:
        """The rule that scheduled a kernel, and its reasons."""
        own = (n for n in self.notes if n.kind == "schedule" and n.subject == kernel["name"])
        for note in own:
            reasons = "; ".join(map(str, note.facts.get("reasons") or ()))
            return [[f"Scheduled by “{note.facts['rule']}”{': ' + reasons if reasons else ''}."]]
        return []

    def fusion(self, node: int, kernel: Mapping[str, Any]) -> list[Sentence]:
        """The nodes that share the loops of one, those that do not, and why."""
        own = {k for k, _ in kernel["shares"]}
        direct = _near(node, own, self.nodes)
        rows: list[Sentence] = []
        if direct:
            rows.append(["It is fused with ", *listed({"node": k} for k in direct), "."])
        removed = [
            k for k, other in enumerate(self.nodes) if node in other.get("gone", ("", ()))[1]
        ]
        folded = [k for k in removed if self.nodes[k]["op"] != "Constant"]
        if folded:
            by = self.nodes[folded[0]]["gone"][0]
            rows.append([*listed({"node": k} for k in folded), " became a part of it, by ",
                         {"pass": by}, "."])  # fmt: skip
        readers = (k for one in (node, *direct) for k in _alive_readers(one, self.nodes))
        after = [k for k in dict.fromkeys(readers) if k not in (node, *direct)]
        reason = self.reason(kernel["name"])
        if after and reason:
            rows.append(["It is not fused with ", *listed({"node": k} for k in after),
                         f" after it: {reason}."])  # fmt: skip
        return rows

    def reason(self, kernel: str) -> str:
        """Why the group of a kernel ends where it does."""
        members = self.groups.get(kernel) or [kernel]
        fused = (n.facts for n in self.notes if n.kind == "fuse" and n.subject == members[-1])
        text = next((str(facts["reason"]) for facts in fused if facts.get("reason")), "")
        for term, words in _WORDS.items():
            text = text.replace(term, words)
        return text

    # -- decisions -----------------------------------------------------------------------------

    def decisions(self) -> list[Sentence]:
        """What was decided otherwise than the default, each kind once: loops of operators as they are
        defined, one kernel for each."""
        return [*_settings(), *self.graph(), *self.fused(), *self.rules(), *self.schedules()]

    def graph(self) -> list[Sentence]:
        """The passes that changed the graph before there were loops, and the nodes they removed."""
        steps = takewhile(lambda step: step.name != "LegalizeOps", self.explored.steps)
        names = [step.name for step in steps if step.changed]
        removed = Counter(node["gone"][0] for node in self.nodes if "gone" in node)
        rows: list[Sentence] = []
        if names := list(dict.fromkeys(names)):
            what = " changed the graph before loops were made."
            rows.append([*listed(({"pass": n} for n in names), len(names)), what])
        for by, count in removed.most_common():
            which = [k for k, node in enumerate(self.nodes) if node.get("gone", [""])[0] == by]
            who: Sentence = ["The import"] if by == "import" else [{"pass": by}]
            what = f" removed {_count(count, 'node')}: "
            rows.append([*who, what, *listed({"node": k} for k in which), "."])
        return rows

    def fused(self) -> list[Sentence]:
        """Kernels of several operators."""
        sizes = {k["name"]: len(self.groups.get(k["name"], ())) for k in self.kernels}
        several = [name for name, size in sizes.items() if size > 1]
        if not several:
            return []
        most = max(several, key=sizes.__getitem__)
        what = f"{len(several)} of {_count(len(sizes), 'kernel')} fuse several operators, "
        return [[what, {"kernel": most}, f" most of them: {', '.join(self.groups[most])}."]]

    def rules(self) -> list[Sentence]:
        """Rules of operators, other than the default ones, and other code generators."""
        kernels: dict[tuple[str, str], list[str]] = {}
        for note in self.notes:
            winner = str(note.facts.get("winner") or note.facts.get("backend") or "")
            if note.kind == "legalize" and not winner.startswith("default:"):
                kernels.setdefault((note.subject, winner), []).append(str(note.facts.get("kernel")))
            elif note.kind == "codegen" and winner:
                kernels.setdefault((note.subject, winner), [])
        times = {key: f" ({len(n)} times)" if len(n) > 1 else "" for key, n in kernels.items()}
        return [[f"{op}{n} is made by {by or 'no rule'}."] for (op, by), n in times.items()]

    def schedules(self) -> list[Sentence]:
        """The schedule rules, each with the kernels that it scheduled."""
        own = {k["name"] for k in self.kernels}
        by: dict[str, list[str]] = {}
        for note in self.notes:
            if note.kind == "schedule" and note.subject in own:
                by.setdefault(str(note.facts["rule"]), []).append(note.subject)
        rows: list[Sentence] = []
        for rule, names in sorted(by.items(), key=lambda item: -len(item[1])):
            what = "stay as they were written" if rule == "none" else f"are scheduled by “{rule}”"
            what = what if len(names) > 1 else what.replace("stay", "stays").replace("are", "is")
            some = listed({"kernel": name} for name in names)
            rows.append([f"{_count(len(names), 'kernel')} {what}: ", *some, "."])
        return rows


def _near(node: int, own: set[int], nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    """The nodes of a kernel that are joined to one by edges within it: a kernel that several equal
    groups share comes from all of them."""
    near: dict[int, set[int]] = {k: set() for k in own}
    for k in own:
        for other in _alive_readers(k, nodes):
            if other in own:
                near[k].add(other)
                near[other].add(k)
    reached, todo = {node}, [node]
    while todo:
        for other in near[todo.pop()] - reached:
            reached.add(other)
            todo.append(other)
    return sorted(reached - {node})


def _alive_readers(node: int, nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    """The readers of a node; in the place of one that was removed, its readers."""
    reached: list[int] = []
    todo, seen = list(nodes[node]["to"]), {node}
    while todo:
        other = todo.pop()
        if other in seen:
            continue
        seen.add(other)
        if "gone" in nodes[other]:
            todo += nodes[other]["to"]
        else:
            reached.append(other)
    return reached


def _settings() -> list[Sentence]:
    """Knobs of the environment that are set."""
    rows: list[Sentence] = []
    for name, knob in ENVIRONMENT.items():
        text = os.environ.get(name, "")
        if text and "SECRET" not in name and text != str(knob.default):
            rows.append([f"{name}={text} is set; the default is {knob.default or 'empty'}."])
    return rows


def _memory(plan: Mapping[str, Any] | None) -> list[Sentence]:
    if plan is None:
        return []
    alone = sum(tensor["bytes"] for tensor in plan["tensors"])
    count = _count(len(plan["tensors"]), "tensor")
    each = f"{size_of(alone)} if each had its own memory"
    return [[f"{count} share {size_of(plan['bytes'])}; {each}."]]


def listed(references: Iterable[Any], most: int = _SHOWN) -> Sentence:
    """References with commas and "and"; the number of those that are too many."""
    every = list(references)
    some: list[Any] = every[:most]
    if len(every) > most:
        some.append(f"{len(every) - most} more")
    parts: Sentence = []
    for k, one in enumerate(some):
        parts += [", " if 0 < k < len(some) - 1 else " and ", one] if k else [one]
    return parts


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def micro(us: float) -> str:
    """Microseconds as text of three digits."""
    if us >= 1e6:
        return f"{us / 1e6:.3g} s"
    return f"{us / 1e3:.3g} ms" if us >= 1e3 else f"{us:.3g} µs"


def size_of(number: int) -> str:
    """Bytes as text."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"
