"""Random programs of loops under the default schedule of a CPU: what a user writes need not have the form of
what operators become."""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from functools import cache

import loopwright as lw
from loopwright.sched.machine import Machine, register_machine
from tests.tir.schedule.families import random_program
from tests.tir.schedule.long_run import Wrong, compare, outcomes

from .files import clear
from .judge import Outcome
from .report import Report
from .workers import Pool

GRAIN = 64  # elements of a task: small programs run in parallel, too
CPUS = "haswell", "skylake-avx512", "x86-64"  # besides the host, those whose instructions it has


@cache
def cpus() -> list[str]:
    """The CPUs whose code runs here."""
    have = lw.Target("llvm -mcpu=native").features
    others = CPUS if "sse2" in have else ()
    return ["native", *(c for c in others if lw.Target(f"llvm -mcpu={c}").features <= have)]


def judged(seed: int, say: Callable[[str], None]) -> Outcome:
    """Whether the program of a seed computes, compiled, what the interpreter does."""
    rng = random.Random(seed)
    register_machine(Machine(grain=GRAIN))
    program, target = random_program(rng), f"llvm -mcpu={rng.choice(cpus())}"
    say(target)
    expected, made = outcomes(program, program.func), []
    try:
        main = lw.compile(program.func, target)["main"]
        for sizes in program.sizes:
            made.append(program.arguments(sizes))
            main(*made[-1])
        compare(expected, made, "compiled")
    except Wrong as error:
        return Outcome("wrong", target, str(error))
    except Exception as error:
        kind = "refused" if clear(error) else "raw"
        return Outcome(kind, target, f"{type(error).__name__}: {error}")
    return Outcome("right")


def search(options: argparse.Namespace) -> int:
    """Programs of a range of seeds; 1 where one was wrong."""
    report = Report("kernels")
    for seed, outcome, _ in Pool(judged, options.processes).run(
        range(options.seed, options.seed + options.count)
    ):
        report.add(seed, outcome)
    print(report.text(), flush=True)
    return 1 if report.faults() else 0
