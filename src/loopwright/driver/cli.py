"""The command line: `loopwright show | explore | run | bench | compare | check | bisect | compile MODEL`,
`loopwright chat MODEL`, `loopwright doctor`, `loopwright report MODEL`, `loopwright plugins`.

MODEL is an ONNX or a TFLite file, a program that `torch.export.save` wrote (.pt2), or - for a pipe;
for `chat` and `bench` also a GGUF file, or a folder of Hugging Face's.

Inputs come from `--feeds FILE` (.npz or .json, arrays by input name); otherwise they are random.
Sizes that the model leaves open come from `--shape image=1,3,224,224`, `--dims n=4,height=32` (or one
number), the file's metadata, else from the kind of axis (batch 1, image 224, sequence 128); they are
printed. `show` and `compile` fix those of `--dims` in the code (`n<=8` is an upper bound).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from enum import StrEnum
from itertools import islice
from pathlib import Path
from platform import python_version
from typing import Annotated

import llvmlite
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..backend.base import backend_of
from ..base import __version__
from ..base.errors import LoopwrightError, explain
from ..base.late import VIEWS
from ..base.plugins import plugins
from ..codegen.llvm.library import c_name
from ..ir import trace as tracing
from ..ir.module import IRModule
from ..relax.byoc import get_backend
from ..relax.transform import BindSymbolicVars
from ..runtime.arena import Arena
from ..tir.byte_size import UPPER_BOUNDS
from . import bundle as bundle
from . import doctor as doctor
from .bench import LANGUAGE
from .commands import Build, Model, Threads, app, check_known, ports_of, symbols_of
from .comparing import bisect as bisect
from .conditions import Conditions
from .console import command, unwrapped
from .feeds import PIPE, Dims, Inputs, parts, save
from .front import compile
from .report import Report
from .sizes import read_dims, read_shapes
from .steps import as_module, as_target, compile_steps, lower

_FEW = 64  # arrays of one output that are printed


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


@app.callback(help=unwrapped(__doc__))
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
    build: Build,
    step: Annotated[str, typer.Option("--pass", help="Print what this pass changed.")] = "",
    kernel: Annotated[str, typer.Option(help="Print this kernel at every level.")] = "",
    schedule: Annotated[
        bool, typer.Option("--schedule", help="Print the steps of the kernel's schedule only.")
    ] = False,
    subject: Annotated[
        str, typer.Option("--explain", help="Print the decisions about this name.")
    ] = "",
    dims: Dims = "",
) -> Report:
    """Print the lowering steps, the changes of one pass, one kernel at every level, or its schedule."""
    mod, options, target = _fixed(model, dims), build.options(), build.target
    if schedule:
        steps = lower(mod, target, options=options).schedules
        kernel = check_known("scheduled kernel of this name", kernel, steps)
        return _page(f"{kernel}: the steps of its schedule", str(steps[kernel]))
    if kernel:
        with tracing.trace() as trace:
            compiled = compile_steps(as_module(mod), target, options)[0]
        kernel = check_known("kernel of this name", kernel, compiled.texts)
        forms = {}
        if kernel in compiled.lowered:
            before = trace.last("ApplyDefaultSchedule").before
            forms["TensorIR before schedules"] = before[kernel].script()
            forms["TensorIR after the loop passes"] = compiled.lowered[kernel].script()
        forms |= compiled.levels(kernel)
        text = "\n".join(f"=== {kernel}: {title}\n\n{text}\n" for title, text in forms.items())
        return Report({"kernel": kernel, "forms": forms}, text, paged=True)
    trace = lower(mod, target, options=options)
    if step:
        return _page(f"{step}: what it changed", trace[step].diff())
    if not subject:
        return _page(f"{model}: passes", trace.table())
    notes = trace.explain(subject)
    if not notes:
        subjects = [note.subject for note in trace.notes]
        subject = check_known("decision about this name", subject, subjects)
        notes = trace.explain(subject)
    return _page(f"{subject}: decisions", str(notes))


def _page(title: str, text: str) -> Report:
    return Report({"title": title, "text": text}, f"=== {title}\n\n{text}", paged=True)


@command(app)
def run(
    model: Model,
    build: Build,
    inputs: Inputs,
    threads: Threads = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write outputs (.npz, .json, - for a pipe).")
    ] = None,
) -> Report | None:
    """Run a model once and print or save its outputs."""
    if out is not None and out != PIPE:
        _check_writable(out)
    exe = build.compiled(model, threads)
    feeds = inputs.of(exe, model, overriding=True)
    with feeds.explained(exe.run):
        results = exe.run(feeds.arrays)
    conditions = Conditions.of(model, feeds, build.text, threads)
    if out is not None:
        save(out, results)
    if out == PIPE:
        return None
    data, lines = {}, []
    for output, value in results.items():
        rows = list(islice(parts(output, value), _FEW + 1))
        for name, array in rows[:_FEW]:
            lines.append(f"{name}: {array.dtype} {array.shape}")
            data[name] = {"dtype": str(array.dtype), "shape": list(array.shape)}
            if out is None:
                lines.append(np.array2string(array, threshold=64, precision=6))
                data[name]["values"] = array
        if not 0 < len(rows) <= _FEW:
            more = "more of it is written by -o FILE" if rows else "nothing"
            lines.append(f"{output}: {more}")
    result = {"conditions": conditions.data(), "outputs": data}
    text, said = ("\n".join(lines), "") if out is None else ("", "\n".join(lines))
    return Report(result, text, conditions.lines(), said)


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


@command(app, "compile")
def compile_to(
    model: Model,
    build: Build,
    out: Annotated[Path, typer.Option("-o", "--out", help="A .so, .a or .o; for C a folder, too.")],
    dims: Dims = "",
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="An input's: image=1,3,224,224; several.")
    ] = None,
    threads: Threads = None,
    arena: Annotated[
        list[str] | None, typer.Option(help="Memory to plan for: sram=256KiB, or dram; in order.")
    ] = None,
    weights: Annotated[Weights, typer.Option(help="Where C files have them.")] = Weights.arrays,
) -> Report:
    """Write a model as a library with a C header, or (--target c) as source files into a folder."""
    as_folder = not out.suffix
    _check_writable(out, as_folder)
    if as_folder and not backend_of(as_target(build.target)).result.suffix:
        what = "a folder is written for C source only"
        raise LoopwrightError(explain(what, got=build.target, instead="--target c, or -o FILE.so"))
    arenas = [
        Arena(name, limit or None) for name, _, limit in (a.partition("=") for a in arena or [])
    ]
    options = build.options(arenas=tuple(arenas), threads=threads)
    compiled = compile(_fixed(model, dims, shape or []), build.target, options=options)
    if as_folder:
        chosen = {} if weights is Weights.arrays else {"weights": weights.value}
        files = list(compiled.write(out, c_name(model.stem), project=True, **chosen))
    else:
        path = compiled.export_library(out)
        files = [path, path.with_suffix(".h")]
    plan = compiled.memory_plan if as_folder else None
    report = [] if plan is None else plan.report().splitlines()[:3]
    sizes = {str(path): path.stat().st_size for path in files}
    lines = [*(f"{path}: {size} bytes" for path, size in sizes.items()), *report]
    return Report({"files": sizes, "memory": report}, said="\n".join(lines))


@command(app, "explore")
def explore(
    model: Model,
    build: Build,
    inputs: Inputs,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page (.html).")] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve it on this machine only.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 0,
    number: Annotated[int, typer.Option(min=0, help="Runs that are timed; 0: none.")] = 10,
    against: Annotated[
        str, typer.Option(help="Show what changed since: a model, a page (.html), or a target.")
    ] = "",
) -> None:
    """Write or serve one page that shows all of a model: graph, passes, loops, machine code, times."""
    VIEWS.get().explore(
        model, build.target, out, serve, port, lambda e: inputs.of(e, model).arrays, number, against
    )


@command(app, "plugins")
def show_plugins() -> Report:
    """Print what installed plug-ins provide, and their errors."""
    table, data = Table("name", "group", "package", "brings", "usable", "error"), []
    for plugin in plugins():
        usable = ["no" if plugin.error else "yes"]
        if plugin.group == "loopwright.backends" and plugin.brings:
            usable = [get_backend(name).why_not() or "yes" for name in plugin.brings]
        shown = (plugin.name, plugin.group.removeprefix("loopwright."), plugin.package)
        table.add_row(
            *map(escape, (*shown, "\n".join(plugin.brings), "\n".join(usable), plugin.error))
        )
        data.append({**vars(plugin), "usable": usable})
    console = Console()
    with console.capture() as captured:
        console.print(table)
    return Report(data, captured.get().rstrip("\n"))


def _lines() -> Iterator[str]:
    """Lines of the input, up to its end."""
    while True:
        try:
            yield input("> ")
        except EOFError:
            return


def _fixed(model: Path, dims: str, shapes: list[str] | None = None) -> Path | IRModule:
    """The model with these symbolic sizes, or upper bounds of them (n<=8): its module, or the path if
    there are none."""
    if not dims and not shapes:
        return model
    mod = as_module(model)
    parts = dims.split(",")
    bounds = ",".join(part.replace("<=", "=") for part in parts if "<=" in part)
    limits = read_dims(bounds, symbols_of(mod))
    dims = ",".join(part for part in parts if "<=" not in part)
    sizes = read_dims(dims, symbols_of(mod)) | read_shapes(shapes or [], ports_of(mod))
    mod = BindSymbolicVars(sizes)(mod) if sizes else mod
    main = mod.get_global_var("main")
    return mod.with_functions({main: mod[main].with_attr(UPPER_BOUNDS, limits)}) if limits else mod


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
