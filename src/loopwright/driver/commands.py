"""Shared parts of the commands: the program, the model's argument, the options of compiling it."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Unpack

import typer

from ..backend.base import backend_of
from ..base.errors import LoopwrightError, UnknownName, explain, suggest
from ..codegen.compiled import CompiledModel
from ..ir.module import IRModule
from ..relax.analysis import defined_symbolic_vars
from ..relax.byoc import get_backend
from ..relax.expr import Function
from .feeds import PIPE
from .front import DEFAULT_TARGET, compile
from .options import CompileOptions, Keywords
from .sizes import Described
from .steps import as_target

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def from_pipe(path: Path) -> Path:
    """The path of a model, that of a temporary file for the content of a pipe."""
    if path != PIPE:
        return path
    data = sys.stdin.buffer.read()
    folder = tempfile.mkdtemp(prefix="loopwright-pipe-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / ("model.tflite" if data[4:8] == b"TFL3" else "model.onnx")
    file.write_bytes(data)
    return file


Model = Annotated[
    Path, typer.Argument(help="An ONNX or a TFLite file, - for a pipe.", callback=from_pipe)
]
TargetText = Annotated[str, typer.Option("--target", help="A target, as in TVM.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="How many threads the model uses.")
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0, help="Greatest relative difference.")
]


@dataclass(frozen=True)
class Build:
    """The options that say how a model is compiled."""

    target: TargetText = DEFAULT_TARGET
    decide: Annotated[
        list[str] | None,
        typer.Option("--decide", help="A decision of a schedule: KERNEL.NAME=VALUE; several."),
    ] = None
    backend: Annotated[
        list[str] | None,
        typer.Option("--backend", help="Offload to it where that pays: onednn; several."),
    ] = None

    @property
    def text(self) -> str:
        """The options as they were written."""
        chosen = (("--decide", self.decide), ("--backend", self.backend))
        return " ".join([self.target, *(f"{o} {v}" for o, values in chosen for v in values or ())])

    def options(self, **more: Unpack[Keywords]) -> CompileOptions:
        """The options of `compile`. Raises LoopwrightError for a back end that cannot be used here."""
        for name in self.backend or ():
            get_backend(name).check_usable()
        backends = tuple(self.backend or ())
        return CompileOptions(decisions=decisions(self.decide), backends=backends, **more)

    def compiled(self, model: object, threads: int | None = None) -> CompiledModel:
        """A compiled model that runs here. Raises LoopwrightError if the target's cannot."""
        self.check_runs()
        return compile(model, self.target, options=self.options(threads=threads))

    def check_runs(self) -> None:
        """Raise LoopwrightError for a target whose code is not run from here."""
        result = backend_of(as_target(self.target)).result
        if not result.runs:
            what = f"{result.form} is not run from here"
            hint = f"loopwright compile MODEL -o FOLDER --target {self.target}"
            raise LoopwrightError(explain(what, got=self.target, instead=hint))
        for name in self.backend or ():
            if needs := get_backend(name).needs:
                what = "this back end describes what it takes, and does not run it here"
                raise LoopwrightError(explain(what, got=name, instead=needs))


def decisions(texts: Iterable[str] | None) -> dict[str, dict[str, int]]:
    """The decisions of `--decide` by kernel. Raises LoopwrightError for another form."""
    by_kernel: dict[str, dict[str, int]] = {}
    for text in texts or ():
        match = re.fullmatch(r"(\w+)\.(\w+)=(-?\d+)", text)
        if match is None:
            what, hint = "this is not a decision", "KERNEL.NAME=VALUE, as fused_matmul_add.rows=6"
            raise LoopwrightError(explain(what, got=text, instead=hint))
        kernel, name, value = match.groups()
        by_kernel.setdefault(kernel, {})[name] = int(value)
    return by_kernel


def numbers(text: str, option: str) -> list[int]:
    """The numbers of an option such as "1,2,4". Raises LoopwrightError for other texts."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise LoopwrightError(
            explain(f"{option} takes positive numbers", got=text, instead="1,2,4")
        )
    return [int(part) for part in parts]


def ports_of(mod: IRModule) -> list[Described]:
    """The inputs of `main`: name, dtype, shape, whose symbolic sizes are names."""
    main = next((f for g, f in mod.functions.items() if g.name_hint == "main"), None)
    if not isinstance(main, Function):
        return []
    shapes = [getattr(p.struct_info, "get_shape", lambda: None)() or () for p in main.params]
    return [
        (
            p.name_hint,
            str(getattr(p.struct_info, "dtype", "")),
            [getattr(d, "name", d) for d in dims],
        )
        for p, dims in zip(main.params, shapes, strict=True)
    ]


def symbols_of(mod: IRModule) -> list[str]:
    """The symbolic sizes of a module's graphs."""
    graphs = (func for func in mod.functions.values() if isinstance(func, Function))
    return [var.name for graph in graphs for var in defined_symbolic_vars(graph)]


def check_known(what: str, name: str, choices: Iterable[str]) -> str:
    """The choice of that name, or the only one that a shortened name (`report.shortened`) may be.
    Raises UnknownName for a name that is not known."""
    names = sorted(filter(None, choices))
    head, dots, tail = name.partition("...")
    matches = [n for n in names if dots and n.startswith(head) and n.endswith(tail)]
    if name not in names and len(matches) != 1:
        instead = suggest(name, matches or names)
        raise UnknownName(explain(f"no {what}", got=name, instead=instead))
    return name if name in names else matches[0]
