"""The command line: `loopwright show | explore | run | bench | check | bisect | compile MODEL`,
`loopwright chat MODEL`, `loopwright plugins`.

MODEL is an ONNX or a TFLite file; for `chat` and `bench` a GGUF file, or a folder of Hugging Face's. Inputs come from `--feeds FILE` (.npz or .json, arrays by input
name); otherwise they are random. `--dims n=4,height=32`, or one number, sets symbolic sizes:
`run`, `bench`, `check` and `bisect` make random inputs of these sizes (default 1), `show` and
`compile` fix them in the code.
"""

from __future__ import annotations

import errno
import os
import re
import statistics
import time
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Annotated, Any

import llvmlite
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..backend.base import backend_of
from ..base import __version__
from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..base.late import VIEWS, Slot
from ..base.plugins import plugins
from ..codegen.llvm.library import c_name
from ..frontend.onnx.survey import survey
from ..ir import trace as tracing
from ..relax.analysis import defined_symbolic_vars
from ..relax.byoc import get_backend
from ..relax.expr import Function
from ..relax.interpreter import Interpreter
from ..relax.transform import BindSymbolicVars
from ..runtime.arena import Arena
from .console import command, page, say
from .differences import apart
from .feeds import make_feeds, parts, read_dims, save
from .front import DEFAULT_TARGET, compile
from .options import CompileOptions
from .steps import as_module, as_target, compile_steps, lower

LANGUAGE: Slot[Any] = Slot("driver.llm")  # chat and bench of models of language
_FEW = 64  # arrays of one output that are printed
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Model = Annotated[Path, typer.Argument(help="An ONNX or a TFLite file.")]
TargetText = Annotated[str, typer.Option("--target", help="A target, as in TVM.")]
Feeds = Annotated[Path | None, typer.Option("--feeds", help="Arrays by input name (.npz, .json).")]
Dims = Annotated[
    str,
    typer.Option("--dims", "--size", help="Symbolic sizes: n=1,height=32, or one number for all."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="How many threads the model uses.")
]
Decide = Annotated[
    list[str] | None,
    typer.Option("--decide", help="A decision of a default schedule: KERNEL.NAME=VALUE; several."),
]


class Weights(StrEnum):
    """The form of the weights in C source."""

    arrays = "arrays"
    binary = "binary"


def _version(asked: bool) -> None:
    if asked:
        release = ".".join(map(str, llvmlite.binding.llvm_version_info))
        parts = (f"loopwright {__version__}", f"LLVM {release} (llvmlite {llvmlite.__version__})")
        typer.echo(", ".join((*parts, f"numpy {np.__version__}", f"Python {python_version()}")))
        raise typer.Exit


@app.callback(help=__doc__)
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print what runs here."),
    ] = False,
) -> None:
    """The options before a command's name."""


@command(app)
def show(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    step: Annotated[str, typer.Option("--pass", help="Print what this pass changed.")] = "",
    kernel: Annotated[str, typer.Option(help="Print this kernel at every level.")] = "",
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Print the steps of the kernel's schedule only.")
    ] = False,
    subject: Annotated[
        str, typer.Option("--explain", help="Print the decisions about this name.")
    ] = "",
    dims: Dims = "",
    decide: Decide = None,
) -> None:
    """Print the lowering steps, the changes of one pass, one kernel at every level, or its schedule."""
    mod, options = _fixed(model, dims), CompileOptions(decisions=_decisions(decide))
    if schedule:
        steps = lower(mod, target, options=options).schedules
        _check_known("scheduled kernel of this name", kernel, steps)
        page(f"=== {kernel}: the steps of its schedule\n\n{steps[kernel]}")
        return
    if kernel:
        with tracing.trace() as trace:
            compiled = compile_steps(as_module(mod), target, options)[0]
        _check_known("kernel of this name", kernel, compiled.texts)
        forms = {}
        if kernel in compiled.lowered:
            before = trace.last("ApplyDefaultSchedule").before
            forms["TensorIR before schedules"] = before[kernel].script()
            forms["TensorIR after the loop passes"] = compiled.lowered[kernel].script()
        forms |= compiled.levels(kernel)
        page("\n".join(f"=== {kernel}: {title}\n\n{text}\n" for title, text in forms.items()))
        return
    trace = lower(mod, target, options=options)
    if step:
        page(f"=== {step}: what it changed\n\n{trace[step].diff()}")
    elif subject:
        notes = trace.explain(subject)
        if not notes:
            _check_known(
                "decision about this name", subject, [note.subject for note in trace.notes]
            )
        page(f"=== {subject}: decisions\n\n{notes}")
    else:
        page(f"=== {model}: passes\n\n{trace.table()}")


@command(app)
def run(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    dims: Dims = "",
    threads: Threads = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write outputs (.npz, .json).")
    ] = None,
) -> None:
    """Run a model once and print or save its outputs."""
    if out is not None:
        _check_writable(out)
    exe = _compiled(model, target, threads)
    results = exe.run(make_feeds(exe, feeds, dims, True))
    if out is not None:
        save(out, results)
    for output, value in results.items():
        rows = list(islice(parts(output, value), _FEW + 1))
        for name, array in rows[:_FEW]:
            shown = f"{name}: {array.dtype} {array.shape}"
            if out is None:
                typer.echo(f"{shown}\n{np.array2string(array, threshold=64, precision=6)}")
            else:
                say(shown)
        if not 0 < len(rows) <= _FEW:
            say(f"{output}: {'more of it is written by -o FILE' if rows else 'nothing'}")


@command(app)
def bench(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    dims: Dims = "",
    threads: Threads = None,
    seconds: Annotated[float, typer.Option(min=0, help="How long to measure.")] = 2.0,
    nodes: Annotated[
        bool, typer.Option("--nodes", help="Print nodes of the model instead of kernels.")
    ] = False,
    save: Annotated[Path | None, typer.Option(help="Write what was measured (.json).")] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Print what changed since the run that --save wrote.")
    ] = None,
    decide: Decide = None,
) -> None:
    """Print the median time of a call and its most expensive kernels: time, GFLOP/s, GB/s and the part of
    this machine's roof; for a language model tokens a second behind contexts of the lengths of --dims."""
    if LANGUAGE.get().is_model(model):
        lengths = [int(n) for n in dims.split(",")] if dims else [32, 512]
        for line in LANGUAGE.get().bench(model, lengths, threads):
            typer.echo(line)
        return
    old = None if compare is None else VIEWS.get().Costs.load(compare)
    exe = _compiled(model, target, threads, decide)
    inputs = make_feeds(exe, feeds, dims)
    exe.run(inputs)
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 3:
        start = time.perf_counter()
        exe.run(inputs)
        took.append((time.perf_counter() - start) * 1e3)
    typer.echo(f"median of {len(took)} calls: {statistics.median(took):.4f} ms")
    costs = VIEWS.get().costs_of(exe, inputs, 10)
    typer.echo(costs.table(12, nodes) if old is None else costs.compare(old, 12, nodes))
    if save is not None:
        costs.save(save)


@command(app)
def chat(
    model: Annotated[Path, typer.Argument(help="A GGUF file, or a folder of Hugging Face's.")],
    prompt: Annotated[str, typer.Option(help="Answer this, and end.")] = "",
    system: Annotated[str, typer.Option(help="Instructions for the model.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, help="0: the most probable token.")] = 0.0,
    top_k: Annotated[int, typer.Option(min=0)] = 0,
    top_p: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
    min_p: Annotated[float, typer.Option(min=0, max=1)] = 0.0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens of the conversation.")] = None,
    threads: Threads = None,
) -> None:
    """Converse with a language model: lines of the input are questions."""
    questions = [prompt] if prompt else _lines()
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    options |= {"seed": seed, "max_new_tokens": max_new_tokens}
    parts = LANGUAGE.get().chat(model, questions, system, context, threads, **options)
    for part in parts:
        typer.echo(part, nl=not part)


@command(app)
def check(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    dims: Dims = "",
    threads: Threads = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Greatest relative difference.")] = 1e-4,
    run: Annotated[bool, typer.Option(help="Compile and compare, after the report.")] = True,
    decide: Decide = None,
) -> None:
    """Report what becomes of each operator (native, decomposed, interpreted, missing), which values
    are known only at run time, and what will be slow; then compare compiled results with a numpy evaluation."""
    report = survey(str(model))
    mod = None if report.missing or report.error or not run else as_module(str(model))
    if run:
        _check_runs(target)
    if mod is not None and feeds is None:
        read_dims(dims, (v.name for f in mod.functions.values() for v in defined_symbolic_vars(f)))
    for line in report.lines():
        typer.echo(line)
    if report.missing or report.error:
        raise typer.Exit(1)
    if mod is None:
        return
    exe = _compiled(mod, target, threads, decide)
    inputs = make_feeds(exe, feeds, dims)
    args = [inputs[name] for name in exe.input_names()]
    expected = exe.signature("main").leaves(Interpreter(mod)["main"](*args))
    worst = 0.0
    for (name, got), want in zip(exe.run(inputs).items(), expected, strict=True):
        error = apart(got, want)
        worst = max(worst, error)
        typer.echo(f"{name}: greatest relative difference {error:.1e}")
    if worst > tolerance:
        raise typer.Exit(1)


@command(app)
def bisect(
    model: Model,
    against: Annotated[
        str, typer.Option(help="The reference: interpreter, onnxruntime, reference (of ONNX).")
    ] = "interpreter",
    tolerance: Annotated[float, typer.Option(min=0, help="Greatest relative difference.")] = 1e-4,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    dims: Dims = "",
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="A folder for both modules and a script.")
    ] = None,
) -> None:
    """Find the first pass, kernel and statement after which the numbers of a model differ."""
    _check_runs(target)
    fault = VIEWS.get().bisect(
        model, lambda exe: make_feeds(exe, feeds, dims), against, tolerance, target
    )
    typer.echo(str(fault))
    if fault and out is not None:
        say(fault.save(out))
    if fault:
        raise typer.Exit(1)


@command(app, "compile")
def compile_to(
    model: Model,
    out: Annotated[Path, typer.Option("-o", "--out", help="A .so, .a or .o; for C a folder, too.")],
    target: TargetText = DEFAULT_TARGET,
    dims: Dims = "",
    threads: Threads = None,
    arena: Annotated[
        list[str] | None, typer.Option(help="Memory to plan for: sram=256KiB, or dram; in order.")
    ] = None,
    weights: Annotated[Weights, typer.Option(help="Where C files have them.")] = Weights.arrays,
    decide: Decide = None,
) -> None:
    """Write a model as a library with a C header, or (--target c) as source files into a folder."""
    as_folder = not out.suffix
    _check_writable(out, as_folder)
    if as_folder and not backend_of(as_target(target)).result.suffix:
        what = "a folder is written for C source only"
        raise LoopwrightError(explain(what, got=target, instead="--target c, or -o FILE.so"))
    arenas = [
        Arena(name, limit or None) for name, _, limit in (a.partition("=") for a in arena or [])
    ]
    options = CompileOptions(arenas=tuple(arenas), threads=threads, decisions=_decisions(decide))
    compiled = compile(_fixed(model, dims), target, options=options)
    if not as_folder:
        path = compiled.export_library(out)
        say(f"{path}: {path.stat().st_size} bytes\n{path.with_suffix('.h')}")
        return
    chosen = {} if weights is Weights.arrays else {"weights": weights.value}
    for path in compiled.write(out, c_name(model.stem), project=True, **chosen):
        say(f"{path}: {path.stat().st_size} bytes")
    if compiled.memory_plan is not None:
        say("\n".join(compiled.memory_plan.report().splitlines()[:3]))


@command(app, "explore")
def explore(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page (.html).")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve it on this machine only.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    feeds: Feeds = None,
    dims: Dims = "",
    number: Annotated[int, typer.Option(min=0, help="Runs that are timed; 0: none.")] = 10,
) -> None:
    """Write or serve one page that shows all of a model: graph, passes, loops, machine code, times."""
    VIEWS.get().explore(
        model, target, out, serve, port, lambda e: make_feeds(e, feeds, dims), number
    )


@command(app, "plugins")
def show_plugins() -> None:
    """Print what installed plug-ins provide, and their errors."""
    table = Table("name", "group", "package", "brings", "usable", "error")
    for plugin in plugins():
        usable = ["no" if plugin.error else "yes"]
        if plugin.group == "loopwright.backends" and plugin.brings:
            usable = [get_backend(name).why_not() or "yes" for name in plugin.brings]
        shown = (plugin.name, plugin.group.removeprefix("loopwright."), plugin.package)
        table.add_row(
            *map(escape, (*shown, "\n".join(plugin.brings), "\n".join(usable), plugin.error))
        )
    Console().print(table)


def _lines() -> Iterator[str]:
    """Lines of the input, up to its end."""
    while True:
        try:
            yield input("> ")
        except EOFError:
            return


def _compiled(
    model: Any, target: str, threads: int | None, decide: Iterable[str] | None = None
) -> Any:
    """A compiled model that runs here. Raises LoopwrightError if the target's cannot."""
    _check_runs(target)
    return compile(model, target, threads=threads, decisions=_decisions(decide))


def _decisions(texts: Iterable[str] | None) -> dict[str, dict[str, int]]:
    """The decisions of `--decide` by kernel. Raises LoopwrightError for another form."""
    decisions: dict[str, dict[str, int]] = {}
    for text in texts or ():
        match = re.fullmatch(r"(\w+)\.(\w+)=(-?\d+)", text)
        if match is None:
            what, hint = "this is not a decision", "KERNEL.NAME=VALUE, as fused_matmul_add.rows=6"
            raise LoopwrightError(explain(what, got=text, instead=hint))
        kernel, name, value = match.groups()
        decisions.setdefault(kernel, {})[name] = int(value)
    return decisions


def _check_runs(target: str) -> None:
    result = backend_of(as_target(target)).result
    if not result.runs:
        what = f"{result.form} is not run from here"
        hint = f"loopwright compile MODEL -o FOLDER --target {target}"
        raise LoopwrightError(explain(what, got=target, instead=hint))


def _fixed(model: Path, dims: str) -> Any:
    """The model with these symbolic sizes: its module, or the path if there are none."""
    if not dims:
        return model
    mod = as_module(model)
    graphs = (func for func in mod.functions.values() if isinstance(func, Function))
    names = [var.name for graph in graphs for var in defined_symbolic_vars(graph)]
    sizes = read_dims(dims, names)
    return BindSymbolicVars(sizes)(mod) if sizes else mod


def _check_known(what: str, name: str, choices: Iterable[str]) -> None:
    """Raise UnknownName for a name that is not known."""
    names = sorted(filter(None, choices))
    if name not in names:
        raise UnknownName(explain(f"no {what}", got=name, instead=suggest(name, names)))


def _check_writable(path: Path, as_folder: bool = False) -> None:
    """Find out before work is done whether a file, or a folder of files, can be made; nothing is.
    Raises OSError."""
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder to write to does not exist", str(folder))
    if not as_folder and path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder, not a file to write", str(path))
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise PermissionError(errno.EACCES, "this may not be written", str(path))


def main() -> None:
    """Run the command line."""
    app()
