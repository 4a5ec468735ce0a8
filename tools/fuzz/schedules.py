"""Random schedules of random programs: `tests/tir/schedule/long_run` as a search."""

from __future__ import annotations

import argparse
import time

from tests.tir.schedule.long_run import run_many


def search(options: argparse.Namespace) -> int:
    """Sequences of at least 8 primitives; what failed is printed with its trace made short."""
    started = time.monotonic()
    tally = run_many(options.seed, options.count, options.processes)
    print(tally.table())
    print(f"schedules: {options.count} cases in {time.monotonic() - started:.0f} s")
    return 1 if tally.failures else 0
