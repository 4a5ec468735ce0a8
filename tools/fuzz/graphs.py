"""Random graphs, judged by everyone who can compute them."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path

from .case import Case
from .judge import Outcome, judge
from .onnx_graphs import onnx_case
from .relax_graphs import relax_case
from .report import FAULTS, Report
from .shrink import shrink
from .workers import Pool

Say = Callable[[str], None]


def make(seed: int) -> Case:
    """The case of a seed: even ones are ONNX graphs, odd ones graphs of our operators."""
    return relax_case(seed) if seed % 2 else onnx_case(seed)


def by_seed(seed: int, say: Say) -> Outcome:
    """Make a case and judge it."""
    say("make")
    return judge(make(seed), say)


def search(options: argparse.Namespace) -> int:
    """Run cases; the first of each group of faults is made small and saved."""
    return search_in("graphs", make, by_seed, options)


def search_in(
    name: str,
    make: Callable[[int], Case],
    by_seed: Callable[[int, Say], Outcome],
    options: argparse.Namespace,
) -> int:
    """`search` among the cases that `make` makes and `by_seed` judges."""
    report = Report(name)
    found: list[tuple[int, Outcome]] = []
    pool = Pool(by_seed, options.processes, name=lambda seed: make(seed).operators())
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
