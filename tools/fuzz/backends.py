"""Back ends with random patterns, taken from random graphs, some of whose inputs are constants.

What `partition` takes of a graph, `compile` takes as well, or folds; a back end that takes nothing
says so; and the results are the same.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from loopwright.backend.llvm import library_dispatch_passes
from loopwright.ir.transform import Sequential
from loopwright.relax import Call, Constant, DataflowVar, TupleGetItem
from loopwright.relax import transform as rt
from loopwright.relax.analysis.variables import get_var2val, used_vars
from loopwright.relax.byoc import Backend, PartitionReport, partition
from loopwright.relax.dpl import is_const, is_op, wildcard
from loopwright.relax.interpreter import Interpreter

from .case import Case
from .files import clear
from .judge import Outcome
from .passes import graph
from .relax_module import to_module
from .report import FAULTS, Report
from .tolerance import arrays, differences, spread
from .workers import Pool

Say = Callable[[str], None]
OF_FOLDING = {"relax.add", "relax.multiply"}  # what a batch norm becomes
LOGGER = logging.getLogger("loopwright.relax.byoc.before_folding")


def pattern(value: Any, values: dict[Any, Any], depth: int, rng: random.Random) -> Any:
    """A pattern that matches a value, and what it is computed from down to some depth."""
    value = values.get(value, value)
    if isinstance(value, Constant) and rng.random() < 0.5:
        return is_const()
    if isinstance(value, TupleGetItem) and depth:
        return pattern(value.tuple_value, values, depth, rng)[value.index]
    name = getattr(getattr(value, "op", None), "name", "")
    if not depth or not isinstance(value, Call) or not name.startswith("relax."):
        return wildcard()
    args = [pattern(a, values, rng.randint(0, depth - 1), rng) for a in value.args]
    return is_op(name)(*args)


def backends(mod: Any, rng: random.Random) -> list[Backend]:
    """One or two back ends with patterns of a module's calls."""
    values = get_var2val(mod["main"])
    calls = [v for v in values.values() if isinstance(v, (Call, TupleGetItem))]
    made = []
    varying = [v for v in calls if any(isinstance(u, DataflowVar) for u in used_vars(v))] or calls
    for name in ("a", "b")[: rng.randint(1, 2)]:
        roots = [rng.choice(varying) for _ in range(rng.randint(1, 3))]
        rows = [
            (f"{name}.p{k}", pattern(r, values, rng.randint(1, 3), rng))
            for k, r in enumerate(roots)
        ]
        made.append(Backend(name, rows, target="llvm", bind_constants=rng.random() < 0.7))
    return made


def left(mod: Any, chosen: list[Backend]) -> tuple[Counter[str], set[str]]:
    """The calls of each operator that `partition` leaves, and the back ends that take something."""
    counts: Counter[str] = Counter()
    taken = set()
    for backend in chosen:
        report = PartitionReport()
        mod = partition(mod, backend, report=report)
        counts = Counter(report.left)
        if report.decisions:
            taken.add(backend.name)
    return counts, taken


def run(item: int | tuple[int, Case], say: Say) -> Outcome:
    """Judge the back ends of a seed, with its graph or another one."""
    say("make")
    seed, case = item if isinstance(item, tuple) else (item, graph(item))
    rng = random.Random(seed)
    names = [n for n in case.inputs if rng.random() < 0.6]
    feeds = dict(zip(case.inputs, case.feeds(0), strict=True))
    mod = to_module(case)
    if names and not case.sizes[0]:
        mod = rt.BindParams("main", {n: feeds.pop(n) for n in names})(mod)
    mod = Sequential([rt.CanonicalizeBindings(), rt.DeadCodeElimination()])(mod)
    if not any(isinstance(v, Call) for v in get_var2val(mod["main"]).values()):
        return Outcome("right")
    chosen = backends(mod, rng)
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    LOGGER.addHandler(handler)
    try:
        say("partition")
        expected_left, expected_taken = left(mod, chosen)
        say("dispatch")
        *passes, codegen = library_dispatch_passes(None, chosen)
        parted = Sequential(list(passes))(mod)
        done = codegen(parted)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
        return Outcome("refused" if clear(error) else "raw", "dispatch", words, "relax")
    finally:
        LOGGER.removeHandler(handler)
    return _judged(case, mod, parted, done, list(feeds.values()), chosen, heard) or _lost(
        parted, expected_left, expected_taken
    )


def _regions(mod: Any) -> set[str]:
    return {str(f.attrs.get("Codegen", "")) for f in mod.functions.values()}


def _judged(
    case: Case, mod: Any, parted: Any, done: Any, feeds: Any, chosen: Any, heard: list[str]
) -> Outcome | None:
    """What is wrong with the results or with what was said."""
    for backend in chosen:
        said = any(f"the back end {backend.name} takes no part" in text for text in heard)
        if said == (backend.name in _regions(parted)):
            return Outcome("wrong", "silence", f"{backend.name}: said is {said}", "relax")
    expected = arrays(Interpreter(mod)["main"](*feeds))
    got = arrays(Interpreter(done)["main"](*feeds))
    what = differences(got, expected, spread(mod, feeds, expected), 64)
    return Outcome("wrong", "numbers", what, "relax") if what else None


def _lost(parted: Any, expected: Counter[str], taken: set[str]) -> Outcome:
    """What compilation leaves to the default that `partition` took."""
    now: Counter[str] = Counter()
    for func in parted.functions.values():
        if "Codegen" not in func.attrs:
            values = get_var2val(func).values()
            now.update(getattr(getattr(v, "op", None), "name", "") for v in values)
    more = {n: c for n, c in now.items() if n.startswith("relax.") and c > expected[n]}
    more = {n: c for n, c in more.items() if n not in OF_FOLDING}
    if more:
        words = f"left besides: {more}, of {dict(expected)}; {sorted(taken)}"
        return Outcome("wrong", "lost", words, "relax")
    return Outcome("right")


def search(options: argparse.Namespace) -> int:
    """Graphs and back ends of many seeds."""
    report = Report("backends")
    items = range(options.seed, options.seed + options.count)
    for seed, outcome, _ in Pool(run, options.processes).run(items):
        if report.add(seed, outcome) and outcome.kind in FAULTS:
            path = Path(options.save) / f"{outcome.kind}-backends-{seed}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            note = f"{outcome.group()}\n{outcome.message[:800]}"
            saved = {"backends": seed, "graph": asdict(graph(seed)), "note": note}
            path.write_text(json.dumps(saved, indent=1) + "\n")
    print(report.text(), flush=True)
    return 1 if report.faults() else 0
