"""The command line: `loopwright show | run | bench | check | compile MODEL`, `loopwright plugins`.

MODEL is an ONNX file. Inputs come from `--feeds FILE.npz` (arrays by input name); otherwise they
are random, with symbolic sizes set to `--size`.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..backend.base import backend_of
from ..base.errors import LoopwrightError, explain
from ..base.plugins import plugins
from ..codegen.compiled import CompiledModel
from ..codegen.llvm.library import c_name
from ..ir import trace as tracing
from ..ir.dtype import numpy_dtype
from ..relax.byoc import get_backend
from ..relax.interpreter import Interpreter
from ..relax.transform import BindSymbolicVars
from ..runtime.arena import Arena
from .build import as_module, as_target, compile_steps, lower
from .front import DEFAULT_TARGET, compile
from .options import CompileOptions

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Model = Annotated[Path, typer.Argument(help="An ONNX file.")]
TargetText = Annotated[str, typer.Option("--target", help="A target, as in TVM.")]
Feeds = Annotated[Path | None, typer.Option("--feeds", help="Arrays by input name (.npz).")]
Size = Annotated[int, typer.Option("--size", help="The value of symbolic sizes.")]


def make_feeds(exe: CompiledModel, path: Path | None, size: int) -> dict[str, np.ndarray]:
    """The input arrays from a file, or random ones of the inputs' shapes."""
    if path is not None:
        with np.load(path) as arrays:
            return {name: arrays[name] for name in exe.input_names() if name in arrays}
    rng, feeds = np.random.default_rng(0), {}
    for (_, dtype, shape), name in zip(exe.inputs(), exe.input_names(), strict=True):
        dims = [d if isinstance(d, int) else size for d in shape]
        feeds[name] = rng.standard_normal(dims).astype(numpy_dtype(dtype))
    return feeds


@app.command()
def show(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    step: Annotated[str, typer.Option("--pass", help="Print what this pass changed.")] = "",
    kernel: Annotated[str, typer.Option(help="Print this kernel at every level.")] = "",
    explain: Annotated[str, typer.Option(help="Print the decisions about this name.")] = "",
) -> None:
    """Print the lowering steps, the changes of one pass, or one kernel at every level."""
    if kernel:
        with tracing.trace() as trace:
            compiled = compile_steps(as_module(str(model)), target)[0]
        if kernel not in compiled.texts:
            known = ", ".join(sorted(compiled.texts))
            raise typer.BadParameter(f"no kernel {kernel!r}; there are: {known}")
        typer.echo(trace.last("ApplyDefaultSchedule").before[kernel].script())
        typer.echo(compiled.lowered[kernel].script())
        typer.echo("\n".join(compiled.levels(kernel)))
        return
    trace = lower(str(model), target)
    if step:
        typer.echo(trace[step].diff())
    elif explain:
        typer.echo(str(trace.explain(explain)))
    else:
        trace.show()


@app.command()
def run(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    size: Size = 1,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write outputs (.npz).")] = None,
) -> None:
    """Run a model once and print or save its outputs."""
    exe = _compiled(str(model), target)
    results = {k: v.numpy() for k, v in exe.run(make_feeds(exe, feeds, size)).items()}
    if out is not None:
        np.savez(out, **results)
    for name, array in results.items():
        typer.echo(f"{name}: {array.dtype} {array.shape}")
        if out is None:
            typer.echo(np.array2string(array, threshold=64, precision=6))


@app.command()
def bench(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    size: Size = 1,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 2.0,
) -> None:
    """Print the median time of a call and the kernels that take most of it."""
    exe = _compiled(str(model), target)
    given = make_feeds(exe, feeds, size)
    exe.run(given)
    took, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(took) < 3:
        start = time.perf_counter()
        exe.run(given)
        took.append((time.perf_counter() - start) * 1e3)
    typer.echo(f"median of {len(took)} calls: {statistics.median(took):.4f} ms")
    args = [given[name] for name in exe.input_names()]
    typer.echo(exe.profile(*args, number=10).table(limit=12))


@app.command()
def check(
    model: Model,
    target: TargetText = DEFAULT_TARGET,
    feeds: Feeds = None,
    size: Size = 1,
    tolerance: Annotated[float, typer.Option(help="Greatest relative difference.")] = 1e-4,
) -> None:
    """Compare compiled results with a numpy evaluation of the model's operators."""
    mod = as_module(str(model))
    exe = _compiled(mod, target)
    given = make_feeds(exe, feeds, size)
    args = [given[name] for name in exe.input_names()]
    worst = 0.0
    pairs = zip(_flat(exe["main"](*args)), _flat(Interpreter(mod)["main"](*args)), strict=True)
    for name, (got, want) in zip(exe.output_names(), pairs, strict=True):
        scale = float(np.abs(want).max()) if want.size else 1.0
        error = (
            float(np.abs(got.astype(np.float64) - want).max()) / (scale or 1.0)
            if want.size
            else 0.0
        )
        worst = max(worst, error)
        typer.echo(f"{name}: greatest relative difference {error:.1e}")
    if worst > tolerance:
        raise typer.Exit(1)


@app.command("compile")
def compile_to(
    model: Model,
    out: Annotated[Path, typer.Option("-o", "--out", help="A .so, .a or .o; for C a folder, too.")],
    target: TargetText = DEFAULT_TARGET,
    dims: Annotated[str, typer.Option(help="Values of symbolic sizes: n=1,height=32.")] = "",
    arena: Annotated[
        list[str] | None, typer.Option(help="Memory to plan for: sram=256KiB, or dram; in order.")
    ] = None,
    weights: Annotated[str, typer.Option(help='Of C files: "arrays" or "binary".')] = "arrays",
) -> None:
    """Write a model as a library with a C header, or (--target c) as source files into a folder."""
    mod = as_module(str(model))
    if dims:
        pairs = (part.split("=") for part in dims.split(","))
        mod = BindSymbolicVars({name.strip(): int(number) for name, number in pairs})(mod)
    arenas = [
        Arena(name, limit or None) for name, _, limit in (a.partition("=") for a in arena or [])
    ]
    options = CompileOptions(arenas=tuple(arenas))
    if out.suffix:
        path = compile(mod, target, options=options).export_library(out)
        typer.echo(f"{path}: {path.stat().st_size} bytes")
        typer.echo(str(path.with_suffix(".h")))
        return
    if not backend_of(as_target(target)).result.suffix:
        what = "a folder is written for C source only"
        raise LoopwrightError(explain(what, got=target, instead="--target c, or -o FILE.so"))
    compiled = compile(mod, target, options=options)
    chosen = {} if weights == "arrays" else {"weights": weights}
    for path in compiled.write(out, c_name(model.stem), **chosen):
        typer.echo(f"{path}: {path.stat().st_size} bytes")
    if compiled.memory_plan is not None:
        typer.echo("\n".join(compiled.memory_plan.report().splitlines()[:3]))


@app.command("plugins")
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


def _compiled(model: Any, target: str) -> Any:
    """A compiled model that runs here. Raises LoopwrightError if the target's cannot."""
    result = backend_of(as_target(target)).result
    if not result.runs:
        what = f"{result.form} is not run from here"
        hint = f"loopwright compile MODEL -o FOLDER --target {target}"
        raise LoopwrightError(explain(what, got=target, instead=hint))
    return compile(model, target)


def _flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _flat(v)]
    return [np.asarray(value)]


def main() -> None:
    """Run the command line; a LoopwrightError is printed without a traceback."""
    try:
        app()
    except (LoopwrightError, ValueError, TypeError, OSError) as error:
        notes = getattr(error, "__notes__", ())
        typer.echo("\n".join([f"error: {error}", *notes]), err=True)
        raise SystemExit(1) from None
