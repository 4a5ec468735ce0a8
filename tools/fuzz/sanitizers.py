"""Random graphs as C programs built with the address and undefined behaviour sanitizers."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable

import loopwright as lw
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BindSymbolicVars
from tests.codegen.c_programs import SANITIZERS, Program

from .graphs import make
from .judge import NOT_IN_C, Outcome
from .onnx_model import to_onnx
from .relax_module import to_module
from .report import Report
from .tolerance import arrays
from .workers import Limits, Pool


def judge_c(seed: int, say: Callable[[str], None]) -> Outcome:
    """Build the graph of a seed and run it; only what the sanitizers say counts."""
    case = make(seed)
    if NOT_IN_C & {node[0] for node in case.nodes}:
        return Outcome("invalid", "make", "no C for sizes from data")
    run, used = seed % len(case.sizes), {d for s in case.inputs.values() for d in s["shape"]}
    feeds = case.feeds(run)
    try:
        mod = from_onnx(to_onnx(case)) if case.kind == "onnx" else to_module(case)
        results = arrays(Interpreter(mod)["main"](*feeds))
        sizes = {n: v for n, v in case.sizes[run].items() if n in used}
        model = lw.compile(BindSymbolicVars(sizes)(mod) if sizes else mod, target="c")
    except Exception as error:  # `graphs` says what is refused
        return Outcome("invalid", "compile", str(error))
    say("run")
    with tempfile.TemporaryDirectory() as folder:
        try:
            Program(model, folder, feeds, results).outputs("cc", *SANITIZERS)
        except AssertionError as error:
            found = re.search(r"runtime error: .*|AddressSanitizer: [\w-]+|error: .*", str(error))
            words = found.group() if found else str(error)[:500]
            return Outcome("wrong", "sanitizer", words, case.operators())
    return Outcome("right")


def search(options: argparse.Namespace) -> int:
    """Graphs of the seeds that `graphs` has, too."""
    report = Report("sanitizers")
    seeds = range(options.seed, options.seed + options.count)
    # AddressSanitizer reserves much address space.
    for seed, outcome, _ in Pool(judge_c, options.processes, Limits(60, 1 << 46)).run(seeds):
        report.add(seed, outcome)
    print(report.text())
    return 1 if report.faults() else 0
