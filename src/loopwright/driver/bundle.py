"""The command `report`: a zip file from which others see an error again, without the weights of the model."""

from __future__ import annotations

import io
import json
import traceback
import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base.errors import LoopwrightError, explain
from ..frontend.onnx.bare import with_values, without_values
from ..frontend.onnx.reader import load
from ..ir import trace as tracing
from .commands import Build, Model, app
from .console import command
from .doctor import sections
from .feeds import Inputs
from .report import Report
from .steps import compile_steps

_MODEL, _FACTS, _PASSES = "model.onnx", "report.json", "passes.txt"
_MOST = 1 << 31  # bytes of a model in a bundle


@command(app)
def report(
    model: Model,
    build: Build,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")] = Path(
        "report.zip"
    ),
) -> Report:
    """Write a file for a report of an error: the model's structure, with random weights in place of its
    own, the versions and the machine, the passes that ran, the error. Names and small tensors stay:
    look at the file before you send it. For such a file: compile and run it again, and compare."""
    if zipfile.is_zipfile(model):
        return _again(model, build)
    bare = without_values(load(model).proto)
    outcome, passes = _outcome(bare, build)
    facts = {"outcome": outcome, "target": build.target, "model": model.name, **sections()}
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr(_MODEL, bare.SerializeToString())
        bundle.writestr(_FACTS, json.dumps(facts, indent=1))
        bundle.writestr(_PASSES, passes)
    said = (
        f"{out}: {out.stat().st_size} bytes, without weights\nwith random ones: {outcome['said']}"
    )
    return Report(facts, said)


def _again(path: Path, build: Build) -> Report:
    """The outcome of a bundle here, compared with the one in it."""
    with zipfile.ZipFile(path) as bundle:
        try:
            facts = json.loads(_read(bundle, _FACTS))
            bare = load(_read(bundle, _MODEL)).proto
            before = facts["outcome"]["said"]
        except (KeyError, ValueError, TypeError) as error:
            what, hint = f"{path} is not a report", "loopwright report MODEL -o report.zip"
            raise LoopwrightError(explain(what, got=str(error), instead=hint)) from error
    outcome, _ = _outcome(bare, build)
    same = outcome["said"] == before
    text = f"there: {before}\nhere:  {outcome['said']}\n{'the same' if same else 'ANOTHER'} outcome"
    return Report(
        {"there": facts["outcome"], "here": outcome, "same": same}, text, status=int(not same)
    )


def _read(bundle: zipfile.ZipFile, name: str) -> bytes:
    if bundle.getinfo(name).file_size > _MOST:
        raise ValueError(f"{name} has {bundle.getinfo(name).file_size} bytes")
    return bundle.read(name)


def _outcome(bare: Any, build: Build) -> tuple[dict[str, str], str]:
    """The error of compiling and running a model with drawn weights, or the types of its results; the
    passes that ran."""
    proto, frames = with_values(bare), ""
    with tracing.trace() as trace:
        try:
            exe = compile_steps(proto, build.target, build.options())[0]
            results = exe.run(Inputs().of(exe).arrays) if exe.runs else {}
            said = "no error: " + ", ".join(
                f"{k} {v.dtype}{list(v.shape)}" for k, v in results.items()
            )
        except Exception as error:  # the report says it
            said, stream = f"{type(error).__name__}: {error}", io.StringIO()
            traceback.print_exception(error, file=stream)
            frames = stream.getvalue()
    return {"said": said, "traceback": frames}, trace.table()
