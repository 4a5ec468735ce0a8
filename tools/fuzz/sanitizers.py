"""Random graphs and small models under sanitizers: as C (address and undefined behaviour; that code has
no threads), and as LLVM text with its support code and thread pool (address, races of threads)."""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import loopwright as lw
from loopwright.backend.llvm import graph_pipeline
from loopwright.codegen.llvm.executable import Executable
from loopwright.frontend.onnx import from_onnx
from loopwright.relax.interpreter import Interpreter
from loopwright.relax.transform import BindSymbolicVars, GraphToTIR
from loopwright.sched.machine import MACHINES, Machine, register_machine
from tests.codegen.c_programs import SANITIZERS, Program
from tests.codegen.test_c_models import MODELS
from tools.demo import BUNDLED

from . import instrumented
from .graphs import make
from .judge import Outcome, in_c
from .onnx_model import to_onnx
from .relax_module import to_module
from .report import Report
from .tolerance import arrays, differences, spread
from .workers import Limits, Pool

SMALL = ("digits", "mlp", "transformer")
# AddressSanitizer reserves much address space.
LIMITS = Limits(60, 1 << 46)


@dataclass
class _Model:
    """A graph, its feeds and results."""

    mod: Any
    feeds: list[np.ndarray]
    results: list[np.ndarray]
    sizes: dict[str, int]
    function: str = "main"
    operators: str = ""


def _model(item: int | str) -> _Model:
    """The random graph of a seed, or a model by name."""
    if isinstance(item, str):
        if item == "digits":
            sizes = {"n": 21}
            feeds = [np.random.default_rng(0).random((21, 1, 16, 16), "float32")]
            mod, function = from_onnx(onnx.load(BUNDLED)), "main"
        else:
            mod, function, x = MODELS[item]()
            feeds, sizes = [x], {}
        results = arrays(Interpreter(mod)[function](*feeds))
        return _Model(mod, feeds, results, sizes, function, item)
    case = make(item)
    run, used = item % len(case.sizes), {d for s in case.inputs.values() for d in s["shape"]}
    feeds = case.feeds(run)
    mod = from_onnx(to_onnx(case)) if case.kind == "onnx" else to_module(case)
    sizes = {n: v for n, v in case.sizes[run].items() if n in used}
    results = arrays(Interpreter(mod)["main"](*feeds))
    return _Model(mod, feeds, results, sizes, operators=case.operators())


def judge_c(item: int | str, say: Callable[[str], None]) -> Outcome:
    """Build a graph as C and run it; only what the sanitizers say counts."""
    if isinstance(item, int) and not in_c(make(item)):
        return Outcome("skipped", "make", "no C for sizes from data")
    try:
        model = _model(item)
        mod = BindSymbolicVars(model.sizes)(model.mod) if model.sizes else model.mod
        compiled = lw.compile(mod, target="c")
    except Exception as error:  # `graphs` says what is refused
        return Outcome("refused", "compile", str(error))
    say("run")
    with tempfile.TemporaryDirectory() as folder:
        try:
            program = Program(compiled, folder, model.feeds, model.results, model.function)
            program.outputs("cc", *SANITIZERS)
        except AssertionError as error:
            found = re.search(r"runtime error: .*|AddressSanitizer: [\w-]+|error: .*", str(error))
            words = found.group() if found else str(error)[:500]
            return Outcome("wrong", "sanitizer", words, model.operators)
    return Outcome("right")


def judge_llvm(item: tuple[int | str, str], say: Callable[[str], None]) -> Outcome:
    """Instrument the LLVM text of a graph and call it; what the sanitizer says and results count."""
    what, sanitizer = item[0], instrumented.SANITIZERS[item[1]]
    try:
        instrumented.runtime_of(sanitizer)
    except instrumented.Missing as error:
        return Outcome("skipped", "tools", str(error))
    # Half of them with each tensor in a block of its own.
    apart = sanitizer.name == "address" and (isinstance(what, str) or what % 4 < 2)
    try:
        model = _model(what)
        target, mod, pipeline = lw.Target(sanitizer.target()), model.mod, None
        if apart:
            pipeline = graph_pipeline(target).remove("StaticPlanBlockMemory")
            pipeline = pipeline.replace("GraphToTIR", GraphToTIR(workspace="tensors"))
            mod = BindSymbolicVars(model.sizes)(mod) if model.sizes else mod
        with MACHINES.registry.snapshot():
            register_machine(Machine(grain=1))  # small loops have several tasks, too
            exe = lw.compile(mod, target=target, relax_pipeline=pipeline)
        assert isinstance(exe, Executable)
    except Exception as error:
        return Outcome("refused", "compile", str(error))
    with tempfile.TemporaryDirectory() as folder:
        try:
            say("build")
            library = instrumented.build(exe, sanitizer, Path(folder), apart)
        except Exception as error:
            return Outcome("skipped", "build", str(error), model.operators)
        try:
            say("run")
            made = instrumented.call(library, model.function, model.feeds, sanitizer)
        except instrumented.Report as report:
            return Outcome("wrong", "sanitizer", str(report), model.operators)
        except instrumented.Refused as error:
            return Outcome("refused", "run", str(error), model.operators)
    slack = spread(model.mod, model.feeds, model.results) if isinstance(what, int) else None
    for got in made:
        allowed = slack or [1e-5 * np.abs(r).max() for r in model.results]
        found = differences(got, model.results, allowed, overflows=True)
        if found:
            return Outcome("wrong", "values", found, model.operators)
    return Outcome("right")


def search(options: argparse.Namespace) -> int:
    """The small models, and graphs of the seeds that `graphs` has, too."""
    items: list[int | str] = [*SMALL, *range(options.seed, options.seed + options.count)]
    faults = 0
    for name in ("C, address and undefined", *instrumented.SANITIZERS):
        llvm = name in instrumented.SANITIZERS
        report = Report(f"sanitizers: {'LLVM, ' * llvm}{name}")
        task, given = (judge_llvm, [(i, name) for i in items]) if llvm else (judge_c, items)
        for item, outcome, _ in Pool(task, options.processes, LIMITS).run(given):
            report.add(item, outcome)
        print(report.text(), flush=True)
        faults += report.faults()
    return 1 if faults else 0
