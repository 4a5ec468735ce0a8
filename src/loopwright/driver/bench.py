"""The command `bench`: times of calls by number of threads and size of the batch, and of kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import LoopwrightError, explain
from ..base.late import VIEWS, Slot
from ..codegen.compiled import CompiledModel
from ..runtime.threads import num_threads
from .commands import Build, app, from_pipe, numbers
from .conditions import Conditions
from .console import command
from .feeds import Feeds, Inputs
from .report import Report, figure, plot, table
from .timing import Times, in_turns

LANGUAGE: Slot[Any] = Slot("driver.llm")  # chat and bench of models of language
_PROFILED = 20  # runs that the medians of kernels are of
BenchModel = Annotated[
    Path,
    typer.Argument(
        help="An ONNX or a TFLite file, - for a pipe; a GGUF file or a folder of Hugging Face's.",
        callback=from_pipe,
    ),
]


@dataclass(frozen=True)
class How:
    """The options that say how long to measure."""

    seconds: Annotated[
        float, typer.Option("--seconds", "--duration", min=0, help="How long to measure.")
    ] = 2.0
    warmup: Annotated[float, typer.Option("--warmup", min=0, help="Seconds before it.")] = 0.2
    runs: Annotated[
        int | None, typer.Option("--runs", "--iterations", min=1, help="Calls instead of seconds.")
    ] = None

    def __str__(self) -> str:
        long = f"{self.seconds:g} s" if self.runs is None else f"{self.runs} calls"
        return f"{long} after {self.warmup:g} s of warm-up"


@dataclass(frozen=True)
class Case:
    """One measured variant: a number of threads and a batch (0: that of the inputs)."""

    threads: int | None
    batch: int
    exe: CompiledModel
    feeds: Feeds
    times: Times | None = None

    @property
    def name(self) -> str:
        """What distinguishes it from other variants."""
        parts = {"threads": self.threads, "batch": self.batch}
        return ", ".join(f"{name} {n}" for name, n in parts.items() if n)

    def call(self) -> Callable[[], object]:
        """A call of the model. The first one is made here: it says which sizes are refused."""
        run, arrays = self.exe.run, self.feeds.arrays
        with self.feeds.explained(run):
            run(arrays)
        return lambda: run(arrays)

    def row(self) -> dict[str, Any]:
        """The figures."""
        assert self.times is not None
        batch = self.batch or self.feeds.batch
        items = batch or 1
        figures = {**self.times.data(items), "ms_per_item": self.times.median / items}
        return {"threads": self.threads or num_threads(), "batch": batch or None, **figures}


@command(app)
def bench(
    model: BenchModel,
    build: Build,
    inputs: Inputs,
    how: How,
    threads: Annotated[str, typer.Option("--threads", help="How many: 2, or 1,2,4.")] = "",
    batch: Annotated[str, typer.Option("--batch", help="Sizes of batches: 1,8,32.")] = "",
    top: Annotated[
        int, typer.Option("--top", min=0, help="How many kernels to print; 0: all.")
    ] = 12,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Print nodes of the model instead of kernels.")
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Write what was measured (.json, - for a pipe).")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Print what changed since the run that --save wrote.")
    ] = None,
) -> Report:
    """Print the time of a call (percentiles, calls a second) and its most expensive kernels.

    Kernels: time, GFLOP/s, GB/s and the part of this machine's roof. Several --threads and --batch: a
    table and a plot. A language model: tokens a second behind contexts of the lengths of --dims."""
    counts = numbers(threads, "--threads") or [None]
    batches = numbers(batch, "--batch") or [0]
    if LANGUAGE.get().is_model(model):
        lengths = numbers(inputs.dims, "--dims") or [32, 512]
        lines = list(LANGUAGE.get().bench(model, lengths, counts[0]))
        return Report({"model": str(model), "lines": lines}, "\n".join(lines))
    old = None if compare is None else VIEWS.get().Costs.load(compare)
    begin = time.perf_counter()
    compiled = [(n, build.compiled(model, n)) for n in counts]
    ready = time.perf_counter() - begin
    cases = [
        Case(n, b, exe, inputs.of(exe, model, batch=b)) for n, exe in compiled for b in batches
    ]
    begin = time.perf_counter()
    calls = [case.call() for case in cases]
    first = (time.perf_counter() - begin) / len(cases)
    measured = in_turns(calls, how.seconds, how.warmup, how.runs)
    cases = [replace(case, times=times) for case, times in zip(cases, measured, strict=True)]
    conditions = Conditions.of(model, cases[0].feeds, build.text, threads, str(how))
    data: dict[str, Any] = {"conditions": conditions.data(), "times": [c.row() for c in cases]}
    data |= {"ready_s": ready, "first_call_ms": 1e3 * first}
    notes = f"ready   after {ready:.2f} s of loading or compiling; a first call: {figure(1e3 * first)} ms"
    notes, text = f"{conditions.lines()}\n{notes}", _table(cases)
    if len(cases) > 1:
        if old is not None or save is not None:
            what, got = "a run is saved and compared on its own", f"{len(cases)} variants"
            hint = "one number of threads and one batch"
            raise LoopwrightError(explain(what, got=got, instead=hint))
        rates = {case.name: case.row()["per_second"] for case in cases}
        return Report(data, f"{text}\n\n{plot(rates, 'a second')}", notes)
    (case,) = cases
    costs = VIEWS.get().costs_of(case.exe, case.feeds.arrays, _PROFILED, max(how.seconds, 1.0))
    if save is not None:
        costs.save(save)
    limit = top or None
    shown = costs.compare(old, limit, nodes) if old else costs.table(limit, nodes)
    return Report({**data, "costs": costs.data()}, f"{text}\n\n{shown}", notes)


def _table(cases: list[Case]) -> str:
    """The figures of each variant."""
    heads = ("threads", "batch", "calls", "p50 ms", "p90 ms", "p99 ms", "ms an item", "items/s")
    keys = ("p50_ms", "p90_ms", "p99_ms", "ms_per_item", "per_second")
    rows = []
    for case in cases:
        row = case.row()
        plain = [str(row[k] or "-") for k in ("threads", "batch", "calls")]
        rows.append([*plain, *(figure(row[k]) for k in keys)])
    (head, *_), median = rows, cases[0].row()["p50_ms"]
    text = table(heads, rows, 0)
    return text if len(rows) > 1 else f"median of {head[2]} calls: {median:.4f} ms\n\n{text}"
