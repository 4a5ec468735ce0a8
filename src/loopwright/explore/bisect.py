"""Numeric bisect: the first pass, kernel and statement after which the numbers of a model differ.

    print(lw.bisect("model.onnx", against="onnxruntime", relax_pipeline=mine))

The model is compiled as always, with a trace. The module after a pass is run without the passes that
follow it. Between the last right module and the first wrong one, the first call whose value is nowhere
in the right one is the kernel, and the statement is the one that stored the first wrong element. Where
the interpreter finds the loops of that kernel right, the fault is below: the loop passes are then
searched for this kernel alone, down to the code generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from ..base.errors import LoopwrightError, explain, suggest
from ..driver.differences import difference, flat
from ..driver.feeds import Inputs
from ..driver.options import CompileOptions, Keywords
from ..driver.peers import PEERS, open_peer
from ..driver.steps import compile_steps
from ..frontend.torch.models import exported
from ..ir import trace as tracing
from ..ir.functor import pre_order_visit
from ..ir.pass_context import PassContext
from ..ir.serialize import load_json, save_json
from ..ir.transform import IRModule, Sequential
from ..relax.interpreter import Interpreter, to_numpy
from ..runtime.extern import EXTERNAL_MODS
from ..script.printer.lines import Lines, numbered
from ..tir import interpreter
from ..tir import stmt as st
from ..tir.function import PrimFunc
from ..tir.transform.lower.unpack_signatures import symbolic_dims
from .origins import Names
from .recording import Stored, first_wrong, recorded, sizes_of
from .running import Arrays, Event, Runner, arrays_in, copied, filling, kernels_of
from .work import work_of

_INTERPRETED = 2e8  # operations of a kernel that the interpreter does in half a minute
CODE = "machine code"  # the step after the last pass


@dataclass(frozen=True)
class Finding:
    """Where numbers begin to differ. difference: of the compiled model's outputs. `pass_name` is ""
    where they agree, "import" where the imported module differs already, "machine code" where its
    last form is right. kernel: the function, or the operator, whose result is wrong; nodes: of the
    model; statement: at `line` of the printed kernel; element: the first wrong one. before, after:
    the modules around the pass, `entry` the function of them that was run on `inputs`."""

    difference: float
    tolerance: float
    pass_name: str = ""
    kernel: str = ""
    nodes: Names = ()
    statement: str = ""
    line: int = 0
    element: tuple[int, ...] | None = None
    got: float = 0.0
    want: float = 0.0
    before: IRModule | None = field(default=None, repr=False)
    after: IRModule | None = field(default=None, repr=False)
    entry: str = field(default="main", repr=False)
    interpreted: bool = field(default=False, repr=False)  # since machine code of loops is wrong
    inputs: Sequence[Any] = field(default=(), repr=False)

    def __bool__(self) -> bool:
        return bool(self.pass_name)

    def __str__(self) -> str:
        far = f"greatest relative difference {self.difference:.1e}, tolerance {self.tolerance:.1e}"
        if not self:
            return f"the numbers agree: {far}"
        nodes = f" ({', '.join(self.nodes)})" if self.nodes else ""
        at = f", line {self.line}" if self.line else ""
        rows = [f"the numbers differ: {far}", f"first pass: {self.pass_name}"]
        rows += [f"first kernel: {self.kernel}{nodes}"] if self.kernel else []
        rows += [f"first statement{at}: {self.statement}"] if self.statement else []
        if self.element is not None:
            rows.append(f"    element {list(self.element)}: {self.got:g}, should be {self.want:g}")
        return "\n".join(rows)

    def save(self, folder: str | Path, setup: str = "") -> Path:
        """Write both modules, the inputs and `replay.py`, which runs both and prints their
        difference; the path of this script. setup: lines to run first, such as the import of what
        registers functions that the modules call. Raises LoopwrightError without two modules."""
        if self.before is None or self.after is None:
            what = "a fault in one module cannot be replayed"
            raise LoopwrightError(explain(what, got=f"first pass: {self.pass_name or 'none'}"))
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        for name, mod in (("before", self.before), ("after", self.after)):
            text = save_json(mod.without_attr(EXTERNAL_MODS))
            (path / f"{name}.json").write_text(text, encoding="utf-8")
        np.savez(path / "inputs.npz", *self.inputs)
        story = "\n".join(f"# {line}" for line in str(self).splitlines())
        script = path / "replay.py"
        text = _SCRIPT.format(story=story, setup=setup, entry=self.entry, how=self.interpreted)
        script.write_text(text, encoding="utf-8")
        return script


_SCRIPT = """{story}
from pathlib import Path

from loopwright.explore.bisect import replay
{setup}
raise SystemExit(replay(Path(__file__).parent, {entry!r}, {how!r}))
"""


def replay(folder: Path, entry: str, interpreted: bool) -> int:
    """Run what `Finding.save` wrote: 1 if the results of the two modules differ."""
    with np.load(folder / "inputs.npz") as file:
        inputs = [file[name] for name in file.files]
    texts = [(folder / f"{name}.json").read_text(encoding="utf-8") for name in ("before", "after")]
    want, got = (
        Runner(interpreted=interpreted).outputs(load_json(text), inputs, entry) for text in texts
    )
    worst = _distance(got, want)
    print(f"greatest relative difference of the results: {worst:.1e}")
    return int(worst > 0)


def bisect(
    model: Any,
    feeds: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None = None,
    against: Any = "interpreter",
    tolerance: float = 1e-4,
    target: str | None = None,
    **keywords: Unpack[Keywords],
) -> Finding:
    """The first pass, kernel and statement after which the numbers of a model differ.

    feeds: inputs by name, or `f(executable)` that returns them; by default random ones.
    against: the reference: "interpreter" (the numpy definitions of the imported operators),
        "onnxruntime", "openvino", "reference" (ONNX's own evaluator), "eager" (torch, for its
        models) and others of `driver.peers`, the outputs in order, or `f(feeds)` that returns them.
    tolerance: the greatest relative difference of a tensor, by its largest element.
    keywords: as for `compile`: pipelines with passes of your own, params...

    Raises LoopwrightError for an unknown `against`, a kernel, and a model that it cannot run.

    >>> mod, _ = nn.ReLU().export_tvm({"forward": {"x": nn.spec.Tensor([2, 4], "float32")}})
    >>> bool(lw.bisect(lw.IRModule({"main": mod["forward"].with_attr("global_symbol", "main")})))
    False
    """
    if isinstance(against, str) and against not in PEERS:
        what = "unknown judge of the numbers"
        raise LoopwrightError(explain(what, got=against, instead=suggest(against, PEERS, "one of")))
    options = CompileOptions.of(keywords)
    if options.args is not None:
        model, options = exported(model, options.args), replace(options, args=None)
    search = _Search(model, target, options, tolerance)
    if isinstance(search.graphs[0][1]["main"], PrimFunc):
        what = "the search is for models, whose main is a graph"
        raise LoopwrightError(explain(what, got="a kernel", instead="a model that calls it"))
    make = (lambda exe: Inputs().of(exe, model).arrays) if feeds is None else feeds
    inputs = dict(make(search.exe) if callable(make) else make)
    search.args = [to_numpy(inputs[name]) for name in search.exe.input_names()]
    if against == "interpreter":
        want = Interpreter(search.graphs[0][1])["main"](*search.args)
    elif isinstance(against, str):
        search.peer = lambda names: open_peer(against, model, outputs=names)(inputs)
        want = list(search.peer(None).values())
    else:
        want = against(inputs) if callable(against) else against
    return search.find(flat(want))


class _Search:
    """Finds the fault in a compiled model; `graphs` are the modules that its graph passes made,
    `args` the inputs."""

    def __init__(self, model: Any, target: Any, options: CompileOptions, tolerance: float) -> None:
        self.tolerance, self.target, self.options = tolerance, target, options
        with tracing.trace() as trace, filling(PassContext.current()):
            self.exe = compile_steps(model, target, options)[0]
        steps = [r for r in trace if not r.group and r.after is not None]
        ends = [k for k, r in enumerate(steps, 1) if _is_same(r.after, self.exe.mod)]
        changes = [(r.name, r.after) for r in steps[: ends[-1] if ends else 0] if r.changed]
        self.graphs: list[tuple[str, IRModule]] = [("import", trace[0].before), *changes]
        self.nodes = trace.nodes
        self.runner = Runner(scheduled=True)
        self.args: list[Any] = []
        self.peer: Callable[[Any], dict[str, Any]] | None = None

    def find(self, want: Arrays) -> Finding:
        """The first wrong pass, and the kernel and the statement in its result."""
        whole = _distance(flat(self.exe["main"](*self.args)), want)
        facts: dict[str, Any] = {"difference": whole, "tolerance": self.tolerance}
        if whole <= self.tolerance:
            return Finding(**facts)
        first = self.first_wrong(want)
        if first == len(self.graphs):
            return Finding(**facts, **self.below())
        facts["pass_name"] = self.graphs[first][0]
        if first == 0:
            return Finding(**facts, **self.imported())
        inner = self.kernel(first)
        if inner is None:  # Loopwright's schedules are wrong, or the code they result in
            self.runner = Runner()
            return self.find(want)
        before, after = (self.graphs[k][1] for k in (first - 1, first))
        facts |= {"before": before, "after": after, "inputs": self.args}
        return Finding(**{**facts, **inner})

    def first_wrong(self, want: Arrays) -> int:
        """The first graph whose outputs differ. A graph that cannot be run (an operator
        without a numpy definition) is left out; the next pass is then named with its own."""

        def wrong(k: int) -> bool:
            try:
                got = self.runner.outputs(self.graphs[k][1], self.args)
            except Exception:
                name, _ = self.graphs.pop(k)
                if k < len(self.graphs):
                    self.graphs[k] = (f"{name}, {self.graphs[k][0]}", self.graphs[k][1])
                raise
            return self.differ(got, want)

        while True:
            count = len(self.graphs)
            try:
                return _first(count, wrong)
            except Exception:
                if len(self.graphs) == count:
                    raise

    def imported(self) -> dict[str, Any]:
        """The first node of the file whose value another evaluator finds to be different."""
        if self.peer is None:
            return {}
        mod = self.graphs[0][1]
        first_output = {node.name: node.makes[0] for node in self.nodes.values() if node.makes}
        events = {
            n: e for e in self.runner.events(mod, self.args) for n in e.nodes if n in first_output
        }
        want = self.peer(list(dict.fromkeys(first_output[name] for name in events)))
        for name, event in events.items():  # of a node that became several bindings the last
            if first_output[name] in want and self.differ(
                event.values[:1], [np.asarray(want[first_output[name]])]
            ):
                fault = {"kernel": _callee(mod, event), "nodes": event.nodes}
                return fault | _shown(numbered(mod["main"]), event.binding)
        return {}

    def differ(self, got: Arrays, want: Arrays) -> bool:
        """Whether results are further apart than the tolerance."""
        return _distance(got, want) > self.tolerance

    def kernel(self, first: int) -> dict[str, Any] | None:
        """The first call in the module after a pass whose value is not in the module before; None if
        the runner's schedules are to blame."""
        mod = self.graphs[first][1]
        if isinstance(mod["main"], PrimFunc):
            return {"kernel": "main"}
        before = _RightValues(self.runner.events(self.graphs[first - 1][1], self.args), self)
        event = before.first_wrong(self.runner.events(mod, self.args))
        if event is None:
            return {}
        fault: dict[str, Any] = {"kernel": _callee(mod, event), "nodes": event.nodes}
        like = before.like(event)
        want = like.values if like else []
        if event.func is None:
            return fault | self.lowered(first, event, want)
        right = self.interpreted(event, mod)
        if right is not None and self.differ(self.runner.ran(event.func, event.args, mod), right):
            return None if self.runner.scheduled else fault | self.loops(mod, event, right)
        return fault | self.statement(mod, event.func, event.args, want, like)

    def interpreted(self, event: Event, mod: IRModule) -> Arrays | None:
        """The arguments after a kernel as the interpreter runs it; None where that takes minutes."""
        assert event.func is not None
        sizes = {v.name: n for v, n in sizes_of(event.func, event.args).items()}
        if work_of(event.func, sizes).get("flops", 0) > _INTERPRETED:
            return None
        args = copied(event.args)
        interpreter.run(event.func, args, mod)
        return arrays_in(tuple(args))

    def lowered(self, first: int, event: Event, want: Arrays) -> dict[str, Any]:
        """The statement of an operator's wrong result, in the kernel that was made of it later."""
        shown = _shown(numbered(self.graphs[first][1]["main"]), event.binding)
        if _external(event):  # nothing lowers it
            return shown
        for _, mod in self.graphs[first + 1 :]:
            if isinstance(mod["main"], PrimFunc):
                break
            for other in self.runner.events(mod, self.args):
                near = other.func is not None and set(other.nodes) & set(event.nodes)
                if near and not self.differ(other.values, event.values):
                    assert other.func is not None
                    statement = self.statement(mod, other.func, other.args, want)
                    return shown | {"kernel": _callee(mod, other)} | statement
        return shown

    def below(self) -> dict[str, Any]:
        """The kernel whose lowered loops are wrong, of graphs that are right."""
        graph = next(m for _, m in reversed(self.graphs) if not isinstance(m["main"], PrimFunc))
        final = self.exe.mod
        kernels = [g for g, f in final.functions.items() if f in graph.functions.values()]
        compiled = self.looped(kernels_of(final, kernels)) if kernels else {}
        for event in self.runner.events(graph, self.args):
            gvar = _gvar(final, event.func)
            if gvar is not None and event.func is not None:
                after = copied(event.args)
                compiled[gvar.name_hint](*after)
                right = self.runner.ran(event.func, event.args, final)
                if self.differ(arrays_in(tuple(after)), right):
                    fault = {"kernel": gvar.name_hint, "nodes": event.nodes}
                    return fault | self.loops(final, event, right)
        return {"pass_name": CODE, "kernel": "main"}

    def looped(self, mod: IRModule) -> Any:
        """A module of kernels, compiled by the loop passes of the model, in the user's context."""
        passes = self.options.tir_pipeline
        options = CompileOptions(relax_pipeline=Sequential([]), tir_pipeline=passes)
        return compile_steps(mod, self.target, options)[0]

    def loops(self, mod: IRModule, event: Event, right: Arrays) -> dict[str, Any]:
        """The loop pass that makes a kernel wrong, and its statement. right: its arguments after."""
        gvar = _gvar(mod, event.func)
        assert gvar is not None and event.func is not None
        with tracing.trace() as trace:
            self.looped(kernels_of(mod, [gvar]))
        steps = [r for r in trace if not r.group and r.after is not None and r.changed]
        stages = [("", mod), *((r.name, r.after) for r in steps)]
        sizes = sizes_of(event.func, event.args)
        args = [*event.args, *(sizes[v] for v in symbolic_dims(event.func))]
        run = Runner(interpreted=self.differ(self.runner.ran(event.func, args, mod), right))

        def wrong(k: int) -> bool:
            return self.differ(run.ran(stages[k][1][gvar], args, stages[k][1]), right)

        first = _first(len(stages), wrong)
        if first == len(stages):
            return {"pass_name": CODE, "before": None, "after": None}
        before, after = (stages[k][1] for k in (first - 1, first))
        facts = {"pass_name": stages[first][0], "before": before, "after": after, "inputs": args}
        facts |= {"entry": gvar.name_hint, "interpreted": run.interpreted}
        partner = Event(event.binding, [], before[gvar], event.args)
        want = [b for a, b in zip(arrays_in(tuple(args)), right, strict=True) if difference(a, b)]
        return facts | self.statement(after, after[gvar], event.args, want, partner, run)

    def statement(
        self,
        mod: IRModule,
        func: PrimFunc,
        args: Sequence[Any],
        want: Arrays,
        partner: Event | None = None,
        runner: Runner | None = None,
    ) -> dict[str, Any]:
        """The first statement of a kernel that stored something else than it should: than `want`,
        its results, or, in memory of its own, than what its partner has in a buffer of that name."""
        if not func.buffer_map:
            return {}
        run = (runner or self.runner).in_place
        note = recorded(func)
        stored = note.run(args, lambda f, a: run(f, a, mod))
        lines = numbered(func)
        if len([s for s in stored if s.param is not None]) < len(want):
            calls: list[Any] = []  # a call wrote it
            pre_order_visit(
                func.body, lambda n: calls.append(n) if type(n) is st.Evaluate else None
            )
            return _shown(lines, calls[0]) if calls else {}
        others: list[Stored] = []
        if partner is not None and partner.func is not None and partner.func.buffer_map:
            others = recorded(partner.func).run(partner.args, lambda f, a: run(f, a, mod))
        wrong = first_wrong(stored, want, others, self.tolerance)
        if wrong is None:
            return {}
        number, *rest = wrong
        facts = dict(zip(("element", "got", "want"), rest, strict=True))
        return facts | _shown(lines, note.statements[number])


class _RightValues:
    """The values that ran in a module whose numbers are right."""

    def __init__(self, events: list[Event], search: _Search) -> None:
        self.events = [e for e in events if e.values and not e.allocates]
        self.differ = search.differ
        self.inputs = [a for a in search.args if isinstance(a, np.ndarray)]

    def first_wrong(self, events: list[Event]) -> Event | None:
        """The first call whose value is not known, and that leads to others or to a result that are
        not: a pass may compute the same from new parts."""
        wrong: dict[int, bool] = {}
        for k in reversed(range(len(events))):
            event = events[k]
            later = [j for j in range(k + 1, len(events)) if events[j].values]
            readers = [j for j in later if not event.makes.isdisjoint(events[j].reads)]
            bad = not readers or any(wrong[j] for j in readers)
            wrong[k] = bool(event.values) and bad and not self.has(event)
        candidates = (e for k, e in enumerate(events) if wrong[k] and not e.allocates)
        return next(candidates, None)

    def has(self, event: Event) -> bool:
        """Whether its values are known: those of the same node, or any of that shape; in another
        layout, where the shape is new."""
        return all(self._has(value, event) for value in event.values)

    def _has(self, value: np.ndarray, event: Event) -> bool:
        near = [v for e in self.events if set(e.nodes) & set(event.nodes) for v in e.values]
        values = [*near, *self.inputs, *(v for e in self.events for v in e.values)]
        if any(not self.differ([value], [v]) for v in values if v.shape == value.shape):
            return True
        if any(v.shape == value.shape for v in near):
            return False
        elements = _elements(value)
        return any(not self.differ([elements], [_elements(v)]) for v in near)

    def like(self, event: Event) -> Event | None:
        """The last call of the same node with results of the same shapes."""
        shapes = [v.shape for v in event.values]
        return next(
            (
                e
                for e in reversed(self.events)
                if set(e.nodes) & set(event.nodes) and [v.shape for v in e.values] == shapes
            ),
            None,
        )


def _elements(value: np.ndarray) -> np.ndarray:
    """The elements in order of size, without the zeros that pad."""
    return np.sort(value[value != 0], axis=None)


def _first(count: int, wrong: Callable[[int], bool]) -> int:
    """The first of `count` indices that is wrong; `count` if none is."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong(middle) else (middle + 1, high)
    return low


def _distance(got: Arrays, want: Arrays) -> float:
    if len(got) != len(want):
        return float("inf")
    return max(map(difference, got, want), default=0.0)


def _is_same(a: IRModule, b: IRModule) -> bool:
    """Whether modules consist of the same objects."""
    return {g.name_hint: id(f) for g, f in a.functions.items()} == {
        g.name_hint: id(f) for g, f in b.functions.items()
    }


def _gvar(mod: IRModule, func: PrimFunc | None) -> Any:
    return next((g for g, f in mod.functions.items() if f is func), None)


def _external(event: Event) -> str:
    """The name of the external function that a binding calls, or ""."""
    args = getattr(event.binding.value, "args", ())
    return next(filter(None, (getattr(a, "global_symbol", "") for a in args)), "")


def _callee(mod: IRModule, event: Event) -> str:
    """The kernel, the external function or the operator that a binding calls."""
    if event.func is not None:
        return _gvar(mod, event.func).name_hint
    return _external(event) or getattr(getattr(event.binding.value, "op", None), "name", "")


def _shown(lines: Lines, statement: object) -> dict[str, Any]:
    number = lines.numbers().get(id(statement), 0)
    text = lines.texts[number - 1] if number else ""
    return {"statement": text.strip(), "line": number}
