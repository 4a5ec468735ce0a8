"""Random programs under random sequences of primitives, by the thousand.

    python -m tests.tir.schedule.long_run --sequences 2000 --seed 0

Each sequence has at least 8 steps that were done. The program is verified after each step; in the
end it computes what the unscheduled one does, in the interpreter and compiled; its text can be read
back; its trace, done again through JSON and as Python, gives the same text. What failed
is printed with its seed, the program and the trace, both made short.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from loopwright import tir
from loopwright.codegen.llvm.build import build_program
from loopwright.codegen.lowered import kernel_entry
from loopwright.ir.module import IRModule
from loopwright.ir.structural import assert_structural_equal
from loopwright.ir.target import Target
from loopwright.script import from_source
from loopwright.script import tir as T
from loopwright.tir.analysis import out_of_bounds_errors, race_errors, verify_well_formed
from loopwright.tir.interpreter import run
from loopwright.tir.transform import default_tir_pipeline

from .families import random_program
from .generate import Program
from .walk import Walk

STEPS = 8
BATCH = 100  # programs that are compiled together


class Wrong(AssertionError):
    """A schedule that is not right, with the stage at which it shows."""


# ---------------------------------------------------------------------- one sequence


def sequence(seed: int) -> tuple[Program, Walk]:
    """The program and the walk of a seed. A walk that gets stuck (a program of a single point has
    few moves) is taken anew."""
    for attempt in range(20):
        program = random_program(random.Random(seed * 100 + attempt))
        walk = Walk(program.func, seed * 100 + attempt)
        try:
            walk.go(STEPS + random.Random(seed).choice([0, 0, 2, 6]))
        except Exception as error:
            error.walk, error.program = walk, program  # type: ignore[attr-defined]
            raise
        if len(walk.done) >= STEPS:
            return program, walk
    raise Wrong(f"seed {seed}: no sequence of {STEPS} steps was found")


def outcomes(program: Program, func: tir.PrimFunc) -> list[list[np.ndarray]]:
    """For each binding of the symbolic sizes the parameters after the interpreter has run."""
    made = []
    for sizes in program.sizes:
        args = program.arguments(sizes)
        run(func, args)
        made.append(args)
    return made


def compare(want: Iterable[list[np.ndarray]], got: Iterable[list[np.ndarray]], stage: str) -> None:
    """Exactly equal arrays."""
    for a, b in zip(want, got, strict=True):
        for n, (x, y) in enumerate(zip(a, b, strict=True)):
            if not np.array_equal(x, y):
                at = tuple(int(k) for k in np.argwhere(~(x == y))[0])
                what = f"parameter {n} at {at} is {y[at]} and should be {x[at]}"
                raise Wrong(f"{stage}: {what}")


@lru_cache(2 * BATCH)
def expected(program: Program) -> list[list[np.ndarray]]:
    """What the unscheduled program computes."""
    return outcomes(program, program.func)


def check_values(program: Program, sch: tir.Schedule) -> None:
    """What is computed, in the interpreter; no access out of bounds, no race."""
    func = sch.mod["main"]
    verify_well_formed(func)
    compare(expected(program), outcomes(program, func), "interpreter")
    for error in (*out_of_bounds_errors(func), *race_errors(func)):
        raise Wrong(f"analysis: {error}")


def check_texts(program: Program, sch: tir.Schedule) -> None:
    """The program's text read back, and the trace done again: through JSON, and what that records
    as Python without the look-ups that no step uses."""
    text = sch.mod.script()
    assert_structural_equal(from_source(text), sch.mod)
    trace = sch.trace
    first = tir.Schedule(program.func)
    type(trace).apply_json_to_schedule(json.dumps(trace.as_json()), first)
    second = tir.Schedule(program.func)
    _python(str(first.trace.simplified(False)))(second)
    for name, again in (("JSON", first), ("Python", second)):
        if again.mod.script() != text:
            raise Wrong(f"replay of {name}: another text\n{again.mod.script()}")
    if str(first.trace) != str(trace):
        raise Wrong(f"replay of JSON: another trace\n{first.trace}")


def _python(text: str) -> Callable[[tir.Schedule], None]:
    scope: dict[str, Any] = {"tir": tir, "T": T}
    exec(text, scope)
    return scope["apply_trace"]


def compiled(functions: dict[str, tir.PrimFunc]) -> dict[str, Any]:
    """The native functions."""
    mod = IRModule({n: f.with_attr("global_symbol", n) for n, f in functions.items()})
    lowered = default_tir_pipeline()(mod)
    kernels = {g.name_hint: f for g, f in lowered.functions.items()}
    entries = {g.name_hint: kernel_entry(f) for g, f in mod.functions.items()}
    return build_program(kernels, {}, entries, Target("llvm"), jobs=1).load()


def check_native(program: Program, native: Any) -> None:
    """What the compiled function computes."""
    made = []
    for sizes in program.sizes:
        args = program.arguments(sizes)
        native(*args)
        made.append(args)
    compare(expected(program), made, "LLVM")


# ---------------------------------------------------------------------- many


@dataclass
class Tally:
    """What was tried, and what went wrong."""

    sequences: int = 0
    steps: int = 0
    families: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def count(self, walk: Walk, program: Program) -> None:
        """Add a walk."""
        self.sequences += 1
        self.steps += len(walk.done)
        self.families.update(program.families)
        self.tried.update(walk.tried)
        self.refused.update(walk.refused)
        self.reasons.update(walk.reasons)

    def add(self, other: Tally) -> None:
        """Add what another process has counted."""
        self.sequences += other.sequences
        self.steps += other.steps
        for name in ("families", "tried", "refused", "reasons"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures

    def table(self, reasons: int = 0) -> str:
        """The counts as text."""
        lines = [f"{'primitive':<26}{'tried':>8}{'done':>8}{'refused':>9}"]
        for name, tried in sorted(self.tried.items(), key=lambda item: -item[1]):
            refused = self.refused[name]
            lines.append(f"{name:<26}{tried:>8}{tried - refused:>8}{refused:>9}")
        tried, refused = sum(self.tried.values()), sum(self.refused.values())
        lines.append(f"{'all':<26}{tried:>8}{tried - refused:>8}{refused:>9}")
        for (name, what), count in self.reasons.most_common(reasons):
            lines.append(f"{count:>6}  {name}: {what}")
        lines.append("programs of " + ", ".join(f"{n} {f}" for f, n in self.families.most_common()))
        head = f"{self.sequences} sequences of {self.steps} steps, {len(self.failures)} wrong"
        return "\n".join([*lines, head])


def run_seeds(seeds: Iterable[int], *, native: bool = True) -> Tally:
    """Try sequences; what fails is described, and the others go on."""
    tally = Tally()
    waiting: list[tuple[int, Program, Walk]] = []
    for seed in seeds:
        program = walk = None
        try:
            program, walk = sequence(seed)
            tally.count(walk, program)
            check_values(program, walk.sch)
            check_texts(program, walk.sch)
        except Exception as error:
            program = program or getattr(error, "program", None)
            walk = walk or getattr(error, "walk", None)
            tally.failures.append(describe(seed, program, walk, error))
            continue
        waiting.append((seed, program, walk))
        if len(waiting) == BATCH and native:
            tally.failures += native_failures(waiting)
            waiting.clear()
    if waiting and native:
        tally.failures += native_failures(waiting)
    return tally


def native_failures(batch: list[tuple[int, Program, Walk]]) -> list[str]:
    """Compile the scheduled programs, and some unscheduled ones, and compare; in a process of its
    own, which may die of a wrong access."""
    try:
        wrong = in_child(lambda: _native_failures(batch))
    except Exception as error:
        if len(batch) > 1:
            half = len(batch) // 2
            return native_failures(batch[:half]) + native_failures(batch[half:])
        return [describe(*batch[0], error)]
    by_seed = {seed: (program, walk) for seed, program, walk in batch}
    return [describe(seed, *by_seed[seed], error) for seed, error in wrong]


def _native_failures(batch: list[tuple[int, Program, Walk]]) -> list[tuple[int, Exception]]:
    functions: dict[str, tir.PrimFunc] = {}
    for seed, program, walk in batch:
        if seed % 8 == 0:
            functions[f"before{seed}"] = program.func
        functions[f"after{seed}"] = walk.sch.mod["main"]
    built = compiled(functions)
    wrong: list[tuple[int, Exception]] = []
    for seed, program, _ in batch:
        for name in (f"before{seed}", f"after{seed}"):
            try:
                if name in functions:
                    check_native(program, built[name])
            except Exception as error:
                wrong.append((seed, error))
                break
    return wrong


def in_child(fn: Callable[[], Any]) -> Any:
    """What `fn` gives in a copy of this process."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        try:
            made: tuple[bool, Any] = (True, fn())
        except BaseException as error:
            made = (False, f"{type(error).__name__}: {error}"[:4000])
        with os.fdopen(writable, "wb") as pipe:
            pickle.dump(made, pipe)
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not data:
        raise Wrong(f"LLVM: the compiled program died of signal {os.WTERMSIG(status)}")
    good, value = pickle.loads(data)
    if not good:
        raise Wrong(f"LLVM: {value}")
    return value


# ---------------------------------------------------------------------- failures


def describe(seed: int, program: Program | None, walk: Walk | None, error: Exception) -> str:
    """The failure with what is needed to see it again."""
    text = [f"seed {seed}: {type(error).__name__}: {error}"[:2000]]
    if not isinstance(error, Wrong):
        text.append("".join(traceback.format_exception(error)[-6:])[-2500:])
    if program is not None:
        text.append(program.text)
    if program is not None and walk is not None:
        text.append(str(shrink(program, walk, error)))
    return "\n".join(text)


def full_check(program: Program, sch: tir.Schedule, *, native: bool) -> None:
    """All checks on one schedule."""
    check_values(program, sch)
    check_texts(program, sch)
    if native:
        in_child(lambda: check_native(program, compiled({"f": sch.mod["main"]})["f"]))


def shrink(program: Program, walk: Walk, error: Exception) -> Any:
    """The trace without the steps that the failure does not need."""
    trace = walk.sch.trace.simplified(False)
    native = str(error).startswith("LLVM") or not isinstance(error, AssertionError)

    def fails(insts: list[Any]) -> bool:
        sch = tir.Schedule(program.func, debug_mask="all")
        try:
            type(trace)(insts, trace.decisions).apply_to_schedule(sch)
        except Exception:
            return False
        try:
            full_check(program, sch, native=native)
        except Exception as found:
            return _kind(found) == _kind(error)
        return False

    insts = list(trace.insts)
    try:
        if not fails(insts):
            return trace
        for inst in reversed(trace.insts):
            gone = {id(o) for o in inst.outputs}
            less = []
            for other in insts:
                if other is inst or any(id(i) in gone for i in _flat(other.inputs)):
                    gone.update(id(o) for o in other.outputs)
                else:
                    less.append(other)
            if len(less) < len(insts) and fails(less):
                insts = less
    except Exception:
        pass  # the trace as it is will do
    return type(trace)(insts, trace.decisions).simplified(False)


def _kind(error: Exception) -> tuple[type, str]:
    return type(error), str(error).split(":")[0] if isinstance(error, Wrong) else ""


def _flat(values: Any) -> list[Any]:
    return [x for v in values for x in (_flat(v) if isinstance(v, (list, tuple)) else [v])]


def run_many(seed: int, sequences: int, processes: int = 2) -> Tally:
    """Sequences of the seeds from `seed` on, in several processes; failures are printed as they
    come."""
    size = max(1, min(100, sequences // max(processes, 1)))
    chunks = [
        range(start, min(start + size, seed + sequences))
        for start in range(seed, seed + sequences, size)
    ]
    total = Tally()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = map(run_seeds, chunks) if processes == 1 else pool.map(run_seeds, chunks)
        for part in parts:
            total.add(part)
            print(*part.failures, sep="\n\n", end="\n\n" * bool(part.failures), flush=True)
            done, wrong = total.sequences, len(total.failures)
            print(f"{done} of {sequences}, {wrong} wrong", file=sys.stderr, flush=True)
    return total


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first sequence")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--reasons", type=int, default=20, help="how many refusals to list")
    options = parser.parse_args()
    start = time.perf_counter()
    tally = run_many(options.seed, options.sequences, options.processes)
    print(tally.table(options.reasons))
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
