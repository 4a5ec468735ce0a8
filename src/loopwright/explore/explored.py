"""`Explored`: a compiled model, or the trace of one, in which everything is found from everything:
node of the file, Relax binding, TensorIR statement, LLVM line, instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.located import Located, located
from ..driver.options import CompileOptions
from ..driver.steps import compile_steps
from ..ir import trace as tracing
from ..ir.module import IRModule
from ..ir.trace import ModelNode, PassRecord, Trace
from ..relax.expr import Function
from ..script.printer.lines import Lines, numbered
from ..tir.function import PrimFunc
from ..tir.signature import signature_of
from .origins import Modules, Names, is_leaf, names_of, origins_of
from .work import Trip, calls_of, trips_of, work_of


@dataclass(frozen=True)
class Origin:
    """What became of a node of the model. lines: of the TensorIR of each kernel; instructions: how
    many of its assembly. Without any: `removed_by` is the pass that removed it, `into` what has its
    place."""

    node: ModelNode
    bindings: list[str] = field(default_factory=list)
    passes: list[str] = field(default_factory=list)
    lines: dict[str, list[int]] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    removed_by: str = ""
    into: Names = ()

    @property
    def kernels(self) -> list[str]:
        """The kernels that have a part of it."""
        return list(self.lines)

    def __str__(self) -> str:
        rows = [f"{self.node.name} ({self.node.op})" if self.node.op else self.node.name]
        if self.bindings:
            rows.append(f"    Relax: {', '.join(self.bindings)}")
        if self.passes:
            rows.append(f"    changed by: {', '.join(self.passes)}")
        for kernel, lines in self.lines.items():
            count = self.instructions.get(kernel)
            code = "" if count is None else f"; {count} instructions"
            rows.append(f"    {kernel}: TensorIR lines {_ranges(lines)}{code}")
        if self.removed_by:
            into = ", ".join(self.into) or "nothing: its result is unused"
            rows.append(f"    removed by {self.removed_by}, into {into}")
        return "\n".join(rows)


@dataclass(frozen=True)
class Where:
    """The origin of a line of a kernel's TensorIR. loops: the lines of the loops around it, outermost
    first; runs: how many times a call runs it, on the average."""

    kernel: str
    line: int
    text: str
    nodes: Names
    bindings: list[str]
    passes: list[str]
    loops: list[int] = field(default_factory=list)
    runs: float = 0.0

    def __str__(self) -> str:
        rows = [f"{self.kernel}:{self.line}: {self.text.strip()}"]
        if self.runs:
            loops = (
                f", in the loops of lines {', '.join(map(str, self.loops))}" if self.loops else ""
            )
            rows.append(f"    runs: {self.runs:.10g} a call{loops}")
        rows.append(f"    model: {', '.join(self.nodes) or 'no node'}")
        rows.append(f"    Relax: {', '.join(self.bindings) or 'none'}")
        rows.append(f"    changed by: {', '.join(self.passes) or 'none'}")
        return "\n".join(rows)


class Explored:
    """A model from its file to machine code. trace: every pass; exe: the executable, None where only
    passes ran (`with lw.trace()`)."""

    def __init__(self, trace: Trace, exe: Any = None) -> None:
        if not trace.records:
            what = "this trace has no passes"
            raise LoopwrightError(explain(what, instead="trace = lw.lower(model)"))
        self.trace, self.exe = trace, exe
        self.seen = Modules()
        self._code: dict[str, Located] = {}
        self._lines: dict[int, tuple[Any, Lines, dict[int, Names]]] = {}
        self._leaves: dict[str, dict[str, list[int]]] = {}
        self._calls: dict[tuple[tuple[str, int], ...], dict[str, list[dict[str, int]]]] = {}

    @staticmethod
    def of(exe: Executable) -> Explored:
        """A compiled model, compiled once more with a trace."""
        return exe.explored

    @staticmethod
    def compiled(
        model: Any, target: str | None = None, options: CompileOptions | None = None
    ) -> Explored:
        """A model, compiled with a trace."""
        arguments = () if options is None else (options,)
        with tracing.trace() as trace:
            exe = compile_steps(model, target, *arguments)[0]
        return Explored(trace, exe)

    # -- the parts -----------------------------------------------------------------------------

    @cached_property
    def steps(self) -> list[PassRecord]:
        """The passes that ran, without those that only run others."""
        return [record for record in self.trace if not record.group and record.after is not None]

    @property
    def imported(self) -> Any:
        """The module before the first pass."""
        return self.trace[0].before

    @property
    def final(self) -> Any:
        """The module after the last pass."""
        return self.steps[-1].after if self.exe is None else self.exe.lowered

    @cached_property
    def kernels(self) -> list[str]:
        """The lowered functions: kernels, then native graph functions."""
        functions = {g.name_hint: f for g, f in self.final.functions.items()}
        names = [name for name, func in functions.items() if isinstance(func, PrimFunc)]
        return sorted(names, key=self.is_graph)

    def is_graph(self, name: str) -> bool:
        """Whether a lowered function only calls kernels."""
        return signature_of(self.final[name]) is not None

    @cached_property
    def nodes(self) -> dict[str, ModelNode]:
        """The nodes of the model by name: those of its file, or of the imported module."""
        if self.trace.nodes:
            return dict(self.trace.nodes)
        return {node.name: node for node in _nodes_of(self.imported)}

    def node(self, name: str) -> ModelNode:
        """A node by its name in spans ("onnx:/conv1") or in the file ("/conv1"). Raises UnknownName."""
        for title in (name, f"onnx:{name}"):
            if title in self.nodes:
                return self.nodes[title]
        hint = suggest(name, [title.removeprefix("onnx:") for title in self.nodes])
        raise UnknownName(explain("the model has no node of this name", got=name, instead=hint))

    def lines(self, name: str, func: PrimFunc | Function) -> tuple[Lines, list[Names]]:
        """The text of a function, and the origins of each line."""
        cached = self._lines.get(id(func))
        if cached is None:
            cached = self._lines[id(func)] = func, numbered(func, name), origins_of(func)
        _, text, origins = cached
        nodes = [() if n is None else origins.get(id(n), ()) for n in text.nodes]
        if isinstance(func, PrimFunc):  # what belongs to no statement is on its first line
            nodes[0] = nodes[0] or names_of(func.span)
        return text, nodes

    def code(self, kernel: str) -> Located:
        """TensorIR, LLVM text and assembly of a kernel. Raises UnknownName, and LoopwrightError for
        a target without LLVM."""
        if kernel not in self._code:
            self._function(kernel)
            if self.exe is None or not hasattr(self.exe, "program"):
                what = "this has no LLVM text"
                raise LoopwrightError(explain(what, got=kernel, instead='compile for "llvm"'))
            self._code[kernel] = located(self.exe, kernel)
        return self._code[kernel]

    def _function(self, kernel: str) -> Any:
        if kernel not in self.kernels:
            hint = suggest(kernel, self.kernels)
            raise UnknownName(explain("no kernel of this name", got=kernel, instead=hint))
        return self.final[kernel]

    @cached_property
    def unscheduled(self) -> IRModule | None:
        """The module with the loops of its kernels as they were defined, if they were scheduled."""
        return next((r.before for r in self.steps if r.name == "ApplyDefaultSchedule"), None)

    def calls(self, kernel: str, sizes: Mapping[str, int]) -> list[dict[str, int]]:
        """The symbolic sizes of each call of a kernel where the model's are these."""
        key = tuple(sorted(sizes.items()))
        if key not in self._calls:
            self._calls[key] = {} if self.unscheduled is None else calls_of(self.unscheduled, sizes)
        return self._calls[key].get(kernel) or [dict(sizes)]

    def work(self, kernel: str, sizes: Mapping[str, int]) -> dict[str, float]:
        """Operations and bytes of a call of a kernel with these symbolic sizes, on the average of its
        calls, as far as they are known: "flops", "bytes"."""
        func = None if self.unscheduled is None else self.unscheduled.get(kernel)
        if not isinstance(func, PrimFunc):
            return {}
        works = [work_of(func, call) for call in self.calls(kernel, sizes)]
        return {key: sum(work[key] for work in works) / len(works) for key in works[0]}

    def trips(self, kernel: str, sizes: Mapping[str, int]) -> dict[int, Trip]:
        """The trip of each statement of a lowered kernel, by `id`, on the average of its calls."""
        func, calls = self._function(kernel), self.calls(kernel, sizes)
        every = [trips_of(func, call) for call in calls]
        mean = lambda key, field: sum(getattr(t[key], field) for t in every) / len(every)  # noqa: E731
        return {
            k: Trip(trip.loop, mean(k, "runs"), mean(k, "work")) for k, trip in every[0].items()
        }

    def shares(self, kernel: str, sizes: Mapping[str, int]) -> dict[str, float]:
        """The part of a kernel's work that each node of the model has, by the loops: an estimate."""
        func = self._function(kernel)
        origins, whole = origins_of(func), names_of(func.span)
        shares: dict[str, float] = {}
        for statement, trip in self.trips(kernel, sizes).items():
            among = [name for name in origins.get(statement) or whole if name in self.nodes]
            for name in among if trip.work else ():
                shares[name] = shares.get(name, 0.0) + trip.work / len(among)
        count = sum(shares.values())
        return {name: part / count for name, part in shares.items()}

    def origin(self, name: str) -> Origin:
        """The bindings, passes, kernels and lines that a node of the model became. Raises UnknownName."""
        node = self.node(name)
        lines, counts = {}, {}
        for kernel in self.kernels:
            kernel_lines = self.kernel_lines(kernel)
            # A graph function only calls, except where an external library computes.
            if node.name in kernel_lines and not (lines and self.is_graph(kernel)):
                lines[kernel] = kernel_lines[node.name]
                if self.exe is not None and hasattr(self.exe, "program"):
                    counts[kernel] = self._instructions(kernel, node.name)
        removed, into = ("", ()) if lines else self.fate(node.name)
        return Origin(
            node,
            self._bindings({node.name}),
            self._passes({node.name}),
            lines,
            counts,
            removed,
            into,
        )

    def where(self, kernel: str, line: int, sizes: Mapping[str, int] | None = None) -> Where:
        """The origin of a line (from 1) of a kernel's lowered TensorIR; `sizes`: the symbolic sizes of
        the model, 1 where they are not given. Raises UnknownName for another kernel, ValueError for
        another line."""
        text, origins = self.lines(kernel, self._function(kernel))
        if not 1 <= line <= len(text.texts):
            what = f"{kernel} has {len(text.texts)} lines"
            raise ValueError(explain(what, got=line, instead=f"1 to {len(text.texts)}"))
        nodes = origins[line - 1] or names_of(self.final[kernel].span)
        among = set(nodes)
        trips, numbers = self.trips(kernel, sizes or {}), text.numbers()
        trip = trips.get(id(text.nodes[line - 1]))
        loops, around = list[int](), trip.loop if trip else None
        while around:
            loops.insert(0, numbers.get(id(around), 0))
            around = trips[id(around)].loop
        passes = self._passes(among)
        runs = trip.runs if trip else 0.0
        shown = text.texts[line - 1]
        return Where(kernel, line, shown, nodes, self._bindings(among), passes, loops, runs)

    def kernel_lines(self, kernel: str) -> Mapping[str, list[int]]:
        """The lines of leaf statements of a kernel's TensorIR by the node they came from."""
        if kernel in self._leaves:
            return self._leaves[kernel]
        text, origins = self.lines(kernel, self._function(kernel))
        lines = self._leaves[kernel] = {}
        for number, (node, names) in enumerate(zip(text.nodes, origins, strict=True), 1):
            if is_leaf(node):
                for name in names:
                    lines.setdefault(name, []).append(number)
        return lines

    def _instructions(self, kernel: str, name: str) -> int:
        _, origins = self.lines(kernel, self._function(kernel))
        code = self.code(kernel).assembly
        return sum(1 for line in code.lines if line and name in origins[line - 1])

    def fate(self, name: str) -> tuple[str, Names]:
        """The pass that removed a node of the model ("import" for one that made no binding), and the
        nodes that have its place: those that read what it made, else those it read from."""
        remover = "import"
        after = self.seen.in_module(self.imported)
        for record in self.steps:
            if name not in after:
                break
            remover, after = record.name, self.seen.in_module(record.after)
        if name in after:
            return "", ()
        return remover, self._heirs(name, after)

    def _heirs(self, name: str, alive: set[str]) -> Names:
        """The next nodes downstream that are alive, else upstream."""
        for near in (self.readers, self.makers):
            heirs: dict[str, None] = {}
            seen, todo = {name}, [name]
            while todo:
                for other in near.get(todo.pop(), ()):
                    if other in alive:
                        heirs[other] = None
                    elif other not in seen:
                        seen.add(other)
                        todo.append(other)
            if heirs:
                return tuple(heirs)
        return ()

    @cached_property
    def readers(self) -> dict[str, Names]:
        """The readers of each node's outputs."""
        maker = {value: n.name for n in self.nodes.values() for value in n.makes}
        readers: dict[str, dict[str, None]] = {}
        for node in self.nodes.values():
            for value in node.reads:
                if value in maker:
                    readers.setdefault(maker[value], {})[node.name] = None
        return {name: tuple(others) for name, others in readers.items()}

    @cached_property
    def makers(self) -> dict[str, Names]:
        """The producers of each node's inputs."""
        makers: dict[str, dict[str, None]] = {}
        for name, others in self.readers.items():
            for other in others:
                makers.setdefault(other, {})[name] = None
        return {name: tuple(others) for name, others in makers.items()}

    def _bindings(self, nodes: set[str]) -> list[str]:
        """The variables of the imported module that came from nodes."""
        return [
            binding.var.name_hint
            for func in self.imported.functions.values()
            if isinstance(func, Function)
            for block in func.body.blocks
            for binding in block.bindings
            if not nodes.isdisjoint(names_of(binding.span or binding.value.span))
        ]

    def _passes(self, nodes: set[str]) -> list[str]:
        """The passes that changed a kernel that came from nodes."""
        passes = (
            record.name
            for record, funcs in self._changes
            if any(not nodes.isdisjoint(self.seen.in_function(func)) for func in funcs)
        )
        return list(dict.fromkeys(passes))

    @cached_property
    def _changes(self) -> list[tuple[PassRecord, list[Any]]]:
        """The kernels that each pass changed."""
        rows = []
        for record in self.steps:
            names = record.changed_functions()
            funcs = [record.after.get(name) or record.before.get(name) for name in names]
            rows.append((record, [func for func in funcs if not _is_graph(func)]))
        return rows

    def subjects(self, name: str) -> set[str]:
        """The names under which decisions about a node are recorded: its functions at every step."""
        node = self.node(name).name
        return {
            gvar.name_hint
            for mod in (self.imported, *(r.after for r in self.steps))
            for gvar, func in mod.functions.items()
            if node in self.seen.in_function(func) and not _is_graph(func)
        } | self._called(node)

    def _called(self, node: str) -> set[str]:
        """The kernels that bindings of a node call, before they are known to come from it."""
        called: set[str] = set()
        for record in self.steps:
            for func in record.after.functions.values():
                for block in func.body.blocks if isinstance(func, Function) else ():
                    for b in block.bindings:
                        args = getattr(b.value, "args", ())
                        if args and node in names_of(b.span or b.value.span):
                            called.add(getattr(args[0], "name_hint", ""))
        return called - {""}


def _is_graph(func: Function | PrimFunc) -> bool:
    return not isinstance(func, PrimFunc) and not func.attrs.get("Primitive")


def _nodes_of(mod: IRModule) -> list[ModelNode]:
    """The origins of a module's bindings as nodes, with the variables they read and make."""
    rows: dict[str, tuple[list[str], list[str], list[str]]] = {}
    for func in mod.functions.values():
        for block in func.body.blocks if isinstance(func, Function) else ():
            for binding in block.bindings:
                op = getattr(getattr(binding.value, "op", None), "name", "")
                for name in names_of(binding.span or binding.value.span):
                    ops, reads, makes = rows.setdefault(name, ([], [], []))
                    ops += [op] if op else []
                    args = getattr(binding.value, "args", ())
                    reads += [v.name_hint for v in args if hasattr(v, "name_hint")]
                    makes.append(binding.var.name_hint)
    return [
        ModelNode(name, ops[0] if ops else "", tuple(reads), tuple(makes))
        for name, (ops, reads, makes) in rows.items()
    ]


def _ranges(lines: list[int]) -> str:
    """ "3-5, 9" """
    parts: list[list[int]] = []
    for line in lines:
        if parts and line == parts[-1][1] + 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
