"""Default schedules of which one decision is taken otherwise, and whether their steps replay."""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable

from tests.sched.kernels import random_case
from tests.sched.test_decisions import check_decided

from .judge import Outcome
from .report import Report
from .workers import Pool


def judged(seed: int, say: Callable[[str], None]) -> Outcome:
    """Whether the case of a seed keeps its numbers."""
    say("make")
    name = random_case(seed).name
    try:
        check_decided(seed)
    except AssertionError as error:
        return Outcome("wrong", name, str(error))
    except Exception:
        return Outcome("raw", name, traceback.format_exc()[-1500:])
    return Outcome("right", name)


def search(options: argparse.Namespace) -> int:
    """Run the cases of a range of seeds; 1 where one was wrong."""
    started, report = time.monotonic(), Report("decisions")
    pool = Pool(judged, options.processes, name=lambda seed: random_case(seed).name)
    for seed, outcome, _ in pool.run(range(options.seed, options.seed + options.count)):
        report.add(seed, outcome)
    print(report.text(), flush=True)
    print(f"decisions: {options.count} cases in {time.monotonic() - started:.0f} s")
    return 1 if report.faults() else 0
