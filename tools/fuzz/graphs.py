"""Random graphs, judged by everyone who can compute them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .case import Case
from .judge import Outcome, judge
from .onnx_graphs import onnx_case
from .relax_graphs import relax_case
from .report import FAULTS, Report
from .shrink import shrink
from .workers import Pool, Task

Say = Callable[[str], None]
Make = Callable[[int], Case]


def make(seed: int) -> Case:
    """The case of a seed: even ones are ONNX graphs, odd ones graphs of our operators."""
    return relax_case(seed) if seed % 2 else onnx_case(seed)


def judged(make: Make) -> Task:
    """What makes the case of a seed and judges it."""

    def by_seed(seed: int, say: Say) -> Outcome:
        say("make")
        return judge(make(seed), say)

    return by_seed


def searching(name: str, make: Make) -> Callable[[argparse.Namespace], int]:
    """A search among the cases that `make` makes: it runs them; the first of each group of faults is made
    small and saved."""
    return partial(_search, name, make)


def _search(name: str, make: Make, options: argparse.Namespace) -> int:
    report = Report(name)
    found: list[tuple[int, Outcome]] = []
    pool = Pool(judged(make), options.processes, name=lambda seed: make(seed).operators())
    with contextlib.suppress(KeyboardInterrupt):  # what came out so far counts
        for seed, outcome, _ in pool.run(range(options.seed, options.seed + options.count)):
            if report.add(seed, outcome) and outcome.kind in FAULTS:
                found.append((seed, outcome))
    print(report.text(), flush=True)
    found.sort(key=lambda item: FAULTS.index(item[1].kind))
    shrunk: set[str] = set()
    for seed, outcome in found[: options.shrink]:
        save(make(seed), outcome, options, shrunk)
    return 1 if report.faults() else 0


def save(case: Case, outcome: Outcome, options: argparse.Namespace, known: set[str]) -> None:
    """Make a case small and write it, unless what is left is known."""
    case, outcome = shrink(case, outcome, options.processes)
    if outcome.group() in known:
        return
    known.add(outcome.group())
    path = Path(options.save) / f"{outcome.kind}-{case.kind}-{case.seed}.json"
    case.save(path, f"{outcome.group()}\n{outcome.message}"[:1500])
    print(f"{path}: {outcome.group()}\n    {outcome.message[:300]}", flush=True)
