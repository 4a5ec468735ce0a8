"""What a step of the virtual machine costs.

    python -m benchmarks.machine_steps [--turns N] [--size N]

The model finds the elements of a vector that are not 0 (NonZero, Gather), takes a branch that its
input decides (If), and adds to the result until a bound is reached (Loop). A clock is read after each
instruction of the machine's own code; what reading it costs is subtracted. A step is an instruction:
the dispatch, and what it calls (a native part, a builtin).
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from itertools import pairwise
from time import perf_counter_ns
from typing import Any

import numpy as np

import loopwright as lw
from loopwright.runtime.vm import Machine
from loopwright.runtime.vm.bytecode import Call
from loopwright.script import ir as I
from loopwright.script import relax as R
from loopwright.script import tir as T


@I.ir_module
class Model:
    @R.function(private=True)
    def loop(
        i: R.Tensor((), "int64"), limit: R.Tensor((), "int64"), v: R.Tensor(("m",), "float32")
    ) -> R.Tensor(("m",), "float32"):
        again = R.less(i, limit)
        if again:
            following = R.add(i, R.const(1, "int64"))
            more = R.add(v, R.const(1, "float32"))
            result = Model.loop(following, limit, more)
        else:
            result = v
        return result

    @R.function
    def main(c: R.Tensor((), "bool"), limit: R.Tensor((), "int64"), x: R.Tensor(("n",), "float32")):
        m = T.int64()
        places = R.nonzero(x)
        known = R.match_cast(places, R.Tensor((1, m), "int64"))
        kept = R.take(x, R.reshape(known, R.shape([m])), axis=0)
        if c:
            r = R.negative(kept)
        else:
            r = R.abs(kept)
        return Model.loop(R.const(0, "int64"), limit, r)


_NO_STEPS = ("return", "continue", "while", "if b ==", "b = 0")


def with_clock(machine: Machine, name: str, note: Any) -> None:
    """Make a function's code call `note` with the number of each instruction it has done."""
    source = machine.source(name)
    made, run = machine._translated[name], machine._by_name(name)
    lines = source.splitlines()
    timed = []
    for k, line in enumerate(lines, 1):
        timed.append(line)
        here, text = made.origin.get(k), line.strip()
        last = made.origin.get(k + 1) != here or lines[k].strip().startswith(_NO_STEPS)
        if here is not None and last and not text.startswith(_NO_STEPS):
            timed.append(f"{line[: len(line) - len(line.lstrip())]}note(({name!r}, {here}))")
    scope: Any = run.__globals__
    scope["note"] = note
    exec(compile("\n".join(timed), f"<timed {name}>", "exec"), scope)
    machine._linked[machine.program.index[name]] = scope["run"]


def steps(size: int, turns: int) -> dict[str, list[int]]:
    """Nanoseconds of each step, by what it does."""
    exe = lw.compile(Model)
    machine = exe.machine_runner
    assert machine is not None
    x = (np.arange(size) % 3).astype("float32")
    feeds = [lw.nd.tensor(a) for a in (np.array(True), np.array(turns), x)]
    seen: list[Any] = []
    for func in machine.program.own():  # before the first call: then functions are linked
        with_clock(machine, func.name, lambda at: seen.append((at, perf_counter_ns())))
    got = exe["main"](*feeds)
    np.testing.assert_allclose(got.numpy(), -x[x != 0] + turns)
    seen.clear()
    for _ in range(20):
        exe["main"](*feeds)
    times: dict[str, list[int]] = defaultdict(list)
    overhead = _overhead()
    for (_, before), ((name, at), after) in pairwise(seen):
        op = machine.program.function(name).code[at]
        what = machine.program.functions[op.func].name if isinstance(op, Call) else "jump"
        times[what].append(max(after - before - overhead, 0))
    return times


def _overhead() -> int:
    """Nanoseconds that noting a step costs."""
    seen: list[Any] = []

    def note(at: Any) -> None:
        seen.append((at, perf_counter_ns()))

    for _ in range(10_000):
        note(("", 0))
    gaps = [b - a for (_, a), (_, b) in pairwise(seen)]
    return int(statistics.median(gaps))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=500, help="how often the loop runs")
    parser.add_argument("--size", type=int, default=96, help="elements of the input")
    given = parser.parse_args()
    times = steps(given.size, given.turns)
    print(f"{'step':32s} {'count':>8s} {'median ns':>10s}")
    for what, found in sorted(times.items(), key=lambda item: -len(item[1])):
        print(f"{what:32s} {len(found):8d} {statistics.median(found):10.0f}")
    every = sorted(t for found in times.values() for t in found)
    print(f"all steps: {len(every)}, median {statistics.median(every):.0f} ns, ", end="")
    print(f"mean {statistics.fmean(every):.0f} ns, 99 % below {every[len(every) * 99 // 100]} ns")


if __name__ == "__main__":
    main()
