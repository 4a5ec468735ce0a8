"""The command line: `loopwright show | run | bench | check | compile MODEL`, `loopwright plugins`.

MODEL is an ONNX file. Inputs come from `--feeds FILE.npz` (arrays by input name); without it they
are random, symbolic sizes being `--size`.
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

from ..base.errors import LoopwrightError, explain
from ..codegen.c.model import CModel
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.library import c_name
from ..ir import trace as tracing
from ..ir.dtype import numpy_dtype
from ..relax.byoc import get_backend, plugins
from ..relax.interpreter import Interpreter
from ..relax.transform import BindSymbolicVars
from ..runtime.arena import Arena
from .build import as_module, as_target, compile_steps, lower
from .front import DEFAULT_TARGET, compile

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)

Model = Annotated[Path, typer.Argument(help="An ONNX file.")]
TargetText = Annotated[str, typer.Option("--target", help="A target, as in TVM.")]
Feeds = Annotated[Path | None, typer.Option("--feeds", help="Arrays by input name (.npz).")]
Size = Annotated[int, typer.Option("--size", help="What symbolic sizes are taken for.")]


def make_feeds(exe: Executable, path: Path | None, size: int) -> dict[str, np.ndarray]:
    """The inputs' arrays in a file, or random ones of the inputs' shapes."""
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
    """Print the steps of the lowering, what one of them did, or one kernel at every level."""
    if kernel:
        with tracing.trace() as trace:
            exe = compile_steps(as_module(str(model)), _machine(target))[0]
        assert isinstance(exe, Executable)
        if kernel not in exe.program.texts:
            known = ", ".join(sorted(exe.program.texts))
            raise typer.BadParameter(f"no kernel {kernel!r}; there are: {known}")
        typer.echo(trace.last("NameDimensions").after[kernel].script())
        typer.echo(exe.lowered[kernel].script())
        typer.echo(exe.program.text(kernel))
        typer.echo(exe.program.assembly(kernel))
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
    """Run a model once and print or keep its outputs."""
    exe = _executable(str(model), target)
    results = {k: v.numpy() for k, v in exe.run(make_feeds(exe, feeds, size)).items()}
    if out is not None:
        np.savez(out, **results)  # type: ignore[arg-type]
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
    exe = _executable(str(model), target)
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
    """Compare compiled results with what the model's operators mean, said by numpy."""
    mod = as_module(str(model))
    exe = _executable(mod, target)
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
    dims: Annotated[str, typer.Option(help="Numbers of symbolic sizes: n=1,height=32.")] = "",
    arena: Annotated[
        list[str] | None, typer.Option(help="Memory to plan for: sram=256KiB, or dram; in order.")
    ] = None,
    weights: Annotated[str, typer.Option(help='Of C files: "arrays" or "binary".')] = "arrays",
) -> None:
    """Write a model as a library with a C header, or (--target c) as C source into a folder."""
    mod = as_module(str(model))
    if dims:
        pairs = (part.split("=") for part in dims.split(","))
        mod = BindSymbolicVars({name.strip(): int(number) for name, number in pairs})(mod)
    arenas = [
        Arena(name, limit or None) for name, _, limit in (a.partition("=") for a in arena or [])
    ]
    if out.suffix:
        made = compile(mod, target, arenas=arenas)
        path = made.export_library(out)
        typer.echo(f"{path}: {path.stat().st_size} bytes")
        typer.echo(str(path.with_suffix(".h")))
        return
    if as_target(target).kind.code_generator != "c":
        what = "a folder is written for C source only"
        raise LoopwrightError(explain(what, got=target, instead="--target c, or -o FILE.so"))
    made = compile(mod, target, arenas=arenas)
    assert isinstance(made, CModel)
    for path in made.write(out, c_name(model.stem), weights):
        typer.echo(f"{path}: {path.stat().st_size} bytes")
    if made.memory_plan is not None:
        typer.echo("\n".join(made.memory_plan.report().splitlines()[:3]))


@app.command("plugins")
def show_plugins() -> None:
    """Print what installed packages bring, and what is wrong with it."""
    table = Table("name", "group", "package", "back ends", "available", "error")
    for plugin in plugins():
        why = {name: get_backend(name).why_not() for name in plugin.backends}
        usable = "\n".join(reason or "yes" for reason in why.values())
        shown = (plugin.name, plugin.group.removeprefix("loopwright."), plugin.package)
        table.add_row(*map(escape, (*shown, "\n".join(why), usable, plugin.error)))
    Console().print(table)


def _machine(target: str) -> str:
    """A target whose code runs here. Raises LoopwrightError for C source."""
    if as_target(target).kind.code_generator == "c":
        what = "C source is not run from here"
        hint = "loopwright compile MODEL -o FOLDER --target c"
        raise LoopwrightError(explain(what, got=target, instead=hint))
    return target


def _executable(model: Any, target: str) -> Executable:
    return compile(model, _machine(target))


def _flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in _flat(v)]
    return [np.asarray(value)]


def main() -> None:
    """Run the command line; an error of ours is printed without Python's frames."""
    try:
        app()
    except (LoopwrightError, ValueError, TypeError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(1) from None
