"""The commands that judge numbers: `check`, `compare`, `bisect`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..backend.base import backend_of
from ..base import __version__
from ..base.errors import LoopwrightError, UnknownName, explain
from ..base.late import VIEWS
from ..frontend.onnx.survey import Survey, survey
from ..relax.interpreter import Interpreter
from ..relax.transform import BindSymbolicVars
from .commands import Build, Model, Threads, Tolerance, app, ports_of
from .conditions import Conditions
from .console import command
from .differences import apart, difference, errors, flat
from .feeds import Arrays, Feed, Feeds, Inputs
from .front import compile
from .peers import PEERS, Peer, open_peer
from .report import Report, figure, table
from .sizes import resolved
from .steps import as_module, as_target
from .timing import Times, in_turns, ratio

_GOOD = 1e-4
ENGINES = ", ".join(name for name in PEERS if name != "eager")  # which needs a model in Python


@command(app)
def check(
    model: Model,
    build: Build,
    inputs: Inputs,
    threads: Threads = None,
    tolerance: Tolerance = _GOOD,
    run: Annotated[bool, typer.Option(help="Compile and compare, after the report.")] = True,
) -> Report:
    """Report what becomes of each operator (native, decomposed, interpreted, missing), which values
    are known only at run time, and what will be slow; then compare compiled results with a numpy
    evaluation.

    The exit status is 1 where an operator is missing or a result differs."""
    outcome = survey(str(model))
    broken = bool(outcome.missing or outcome.error)
    mod = None if broken or not run else as_module(str(model))
    if run:
        build.check_runs()
    data: dict[str, Any] = {
        "model": str(model),
        "operators": _operators(outcome),
        **_lists(outcome),
    }
    lines = list(outcome.lines())
    if mod is None:
        return Report({**data, "ok": not broken}, "\n".join(lines), status=int(broken))
    if inputs.feeds is None:  # before the model is compiled
        resolved(ports_of(mod), inputs.shape or (), inputs.dims)
    exe = build.compiled(mod, threads)
    feeds = inputs.of(exe, model)
    with feeds.explained(exe.run):
        got = exe.run(feeds.arrays)
    args = [feeds.arrays[name] for name in exe.input_names()]
    expected = exe.signature("main").leaves(Interpreter(mod)["main"](*args))
    away = {n: apart(g, want) for (n, g), want in zip(got.items(), expected, strict=True)}
    lines += [f"{name}: greatest relative difference {error:.1e}" for name, error in away.items()]
    ok = max(away.values(), default=0.0) <= tolerance
    conditions = Conditions.of(model, feeds, build.text, threads)
    data |= {"conditions": conditions.data(), "differences": away, "tolerance": tolerance}
    return Report({**data, "ok": ok}, "\n".join(lines), conditions.lines(), status=int(not ok))


def _operators(outcome: Survey) -> list[dict[str, Any]]:
    return [
        {"domain": domain, "name": name, "version": version, **kinds}
        for (domain, name, version), kinds in sorted(outcome.counts.items())
    ]


def _lists(outcome: Survey) -> dict[str, Any]:
    missing = [".".join(filter(None, key[:2])) for key in outcome.missing]
    lists = {"sizes": outcome.sizes, "dynamic": outcome.dynamic, "slow": outcome.slow}
    return {**lists, "missing": missing, "error": outcome.error}


@dataclass(frozen=True)
class Pair:
    """An output of both sides."""

    name: str
    got: np.ndarray
    want: np.ndarray

    def data(self) -> dict[str, Any]:
        """The differences: the greatest one, relative to the largest element and absolute, and its
        index."""
        got, want = self.got, self.want
        figures = {"output": self.name, "dtype": str(got.dtype), "shape": list(got.shape)}
        if got.shape != want.shape or not want.size or got.dtype.kind in "OSU":
            return {
                **figures,
                "relative": difference(got, want),
                "expected_shape": list(want.shape),
            }
        away = errors(got, want)
        at = np.unravel_index(int(away.argmax()), got.shape)
        figures["not_finite"] = float(1 - np.isfinite(want).mean())
        absolute = np.abs(got[at].astype("f8") - want[at].astype("f8"))
        values = {"got": got[at].item(), "expected": want[at].item(), "at": [int(k) for k in at]}
        return {**figures, "relative": float(away.max()), "absolute": float(absolute), **values}


@command(app)
def compare(
    model: Model,
    build: Build,
    inputs: Inputs,
    against: Annotated[
        str,
        typer.Option(help=f"{ENGINES}, or ENGINE:FILE; another model file; another target."),
    ] = "interpreter",
    threads: Threads = None,
    tolerance: Tolerance = _GOOD,
    seconds: Annotated[
        float, typer.Option("--seconds", "--duration", min=0, help="Of measuring; 0: none.")
    ] = 1.0,
    bisect: Annotated[
        bool, typer.Option("--bisect", help="Where outputs differ, find the first wrong pass.")
    ] = False,
) -> Report:
    """Compare the numbers and the times of a model with those of another engine, another file or
    another target.

    The exit status is 1 where an output differs by more than the tolerance."""
    exe = build.compiled(model, threads)
    feeds = inputs.of(exe, model)
    other = _other(against, model, build, threads, feeds)
    with feeds.explained(exe.run):
        got, want = exe.run(feeds.arrays), other(feeds.arrays)
    pairs = [pair.data() for pair in _pairs(got, want)]
    ok = all(pair["relative"] <= tolerance for pair in pairs)
    conditions = Conditions.of(model, feeds, build.text, threads, f"{seconds:g} s each, in turns")
    data = {"conditions": conditions.data(), "against": [other.name, other.version]}
    lines = [_numbers(pairs, tolerance)]
    if seconds and other.times:
        calls = [lambda: exe.run(feeds.arrays), lambda: other(feeds.arrays)]
        times = dict(zip(("loopwright", other.name), in_turns(calls, seconds, 0.1), strict=True))
        lines.append(_times(times, (__version__, other.version)))
        data["times"] = {name: t.data() for name, t in times.items()}
    data |= {"outputs": pairs, "tolerance": tolerance, "ok": ok}
    if bisect and not ok:
        judge = against if against in PEERS else "interpreter"  # others do not judge single nodes
        fault = VIEWS.get().bisect(
            model, feeds.arrays, judge, tolerance, build.target, options=build.options()
        )
        data["bisect"] = {"against": judge, "found": str(fault)}
        lines.append(f"bisect against {judge}: {fault}")
    return Report(data, "\n\n".join(lines), conditions.lines(), status=int(not ok))


def _other(text: str, model: Path, build: Build, threads: int | None, feeds: Feeds) -> Peer:
    """The other side of a comparison. Raises UnknownName where it is not one."""
    name, _, file = text.partition(":")
    if name in PEERS:
        return open_peer(name, Path(file) if file else model, threads)
    if Path(text).exists():
        exe = build.compiled(Path(text), threads)
        name = Path(text).name
        return Peer(name, __version__, lambda feeds: exe.run(_renamed(feeds, exe.input_names())))
    try:
        target = as_target(text)
    except (LoopwrightError, ValueError, TypeError) as error:
        what = "this is not an engine, a file or a target to compare with"
        hint = f"{ENGINES}; FILE.onnx; 'llvm -mcpu=x86-64'"
        raise UnknownName(explain(what, got=text, instead=hint)) from error
    if not backend_of(target).result.suffix:
        return Peer(text, __version__, compile(model, text, threads=threads).run)
    sizes = {name: size.value for name, size in feeds.sizes.items()}  # C has fixed sizes
    mod = as_module(model)
    return Peer(
        text, __version__, compile(BindSymbolicVars(sizes)(mod) if sizes else mod, text).run
    )


def _renamed(feeds: Mapping[str, Feed], names: list[str]) -> Arrays:
    """The inputs of another file: by name where it has the same names, else in order."""
    if set(names) == set(feeds):
        return dict(feeds)
    if len(names) != len(feeds):
        what = "the other file has other inputs"
        raise LoopwrightError(explain(what, got=", ".join(names), instead=", ".join(feeds)))
    return dict(zip(names, feeds.values(), strict=True))


def _pairs(got: Mapping[str, object], want: Mapping[str, object]) -> Iterator[Pair]:
    """The outputs of both sides: by name where the names are the same, else in order."""
    if set(got) == set(want):
        want = {name: want[name] for name in got}
    if len(got) != len(want):
        what = "the other side has other outputs"
        raise LoopwrightError(explain(what, got=", ".join(want), instead=", ".join(got)))
    for (name, value), expected in zip(got.items(), want.values(), strict=True):
        arrays = flat(value), flat(expected)
        for k, (a, b) in enumerate(zip(*arrays, strict=True)):
            yield Pair(f"{name}.{k}" if len(arrays[0]) > 1 else name, a, b)


def _numbers(pairs: list[dict[str, Any]], tolerance: float) -> str:
    heads = ("output", "type", "relative", "absolute", "at", "got", "expected", "")
    rows = []
    for p in pairs:
        shape = f"{p['dtype']}{p['shape']}".replace(" ", "")
        cells = (f"{p['relative']:.1e}", f"{p['absolute']:.1e}" if "absolute" in p else "")
        at = str(p.get("at", "")).replace(" ", "")
        values = [f"{p[key]:.5g}" if key in p else "" for key in ("got", "expected")]
        verdict = "ok" if p["relative"] <= tolerance else "DIFFERS"
        if p.get("not_finite"):
            verdict += f", {100 * p['not_finite']:.0f}% NaN or inf"
        rows.append((p["output"], shape, *cells, at, *values, verdict))
    ending = f"relative: of the largest element; tolerance {tolerance:.0e}"
    return f"{table(heads, rows, 2)}\n{ending}"


def _times(times: Mapping[str, Times], versions: tuple[str, str]) -> str:
    heads = ("engine", "version", "p50 ms", "p90 ms", "p99 ms", "calls/s")
    rows = [
        (name, v, *map(figure, (*map(t.percentile, (50, 90, 99)), t.throughput())))
        for (name, t), v in zip(times.items(), versions, strict=True)
    ]
    own, other = times.values()
    change = ratio(own.medians, other.medians)
    unsure = "" if change.is_change else ", which may be by chance: measure for longer (--seconds)"
    ending = f"loopwright takes {change.text()} of the time of {[*times][1]}{unsure}"
    return f"{table(heads, rows, 2)}\n{ending}"


@command(app)
def bisect(
    model: Model,
    build: Build,
    inputs: Inputs,
    against: Annotated[str, typer.Option(help=f"The reference: {ENGINES}.")] = "interpreter",
    tolerance: Tolerance = _GOOD,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for both modules and a script.")
    ] = None,
) -> Report:
    """Find the first pass, kernel and statement after which the numbers of a model differ."""
    build.check_runs()
    fault = VIEWS.get().bisect(
        model, lambda exe: inputs.of(exe, model).arrays, against, tolerance, build.target,
        options=build.options(),
    )  # fmt: skip
    data = {"differs": bool(fault), "difference": fault.difference, "tolerance": tolerance}
    data |= {"pass": fault.pass_name, "kernel": fault.kernel, "nodes": list(fault.nodes)}
    lines = [str(fault), *([str(fault.save(out))] if fault and out is not None else [])]
    data["statement"] = fault.statement
    return Report(data, "\n".join(lines), status=int(bool(fault)))
