"""`compile`, in front of the compiler: a model that was compiled before is loaded without it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ..codegen.llvm.executable import Executable
from ..runtime.arena import Arena
from . import kept

DEFAULT_TARGET = "llvm -mcpu=native"


def compile(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    backends: Sequence[Any] = (),
    arenas: Sequence[Arena | str] = (),
) -> Any:
    """Compile a model for a target and load it; for target "c" its C source (`codegen.c.model`).

    model: a path or ModelProto (ONNX), an IRModule, a PrimFunc, or a relax Function.
    target: a Target or its text; the current target, else this machine.
    params: arrays bound to parameters of `main` by name.
    backends: names of external back ends (`relax.byoc`) to offload to where they pay.
    arenas: memory (`Arena`) that all tensors are placed in at compile time, by preference.
    relax_pipeline, tir_pipeline: "default", or passes (a Pass, a list of them) to run instead.

    What the default pipelines make of an ONNX model is kept in the cache folder and loaded from
    there the next time (see `driver.kept`); `LOOPWRIGHT_CACHE=0` switches that off.

    Raises LoopwrightError for a target without a code generator, and what the passes raise.
    """
    options = {"params": params, "relax_pipeline": relax_pipeline, "tir_pipeline": tir_pipeline}

    def anew() -> Executable:
        # Not at the top: importing the compiler takes longer than loading what it made.
        build = importlib.import_module(f"{__package__}.build")
        return build.compile_steps(model, target, **options)[0]

    if backends:
        options["backends"] = backends
    if arenas:
        options["arenas"] = arenas
    plain = (
        not params
        and not backends
        and not arenas
        and all(_is_default(p) for p in (relax_pipeline, tir_pipeline))
    )
    place = kept.place_of(model, target, DEFAULT_TARGET) if plain else None
    if place is None:
        return anew()
    found = kept.find(place, anew)
    if found is not None:
        return found
    made = anew()
    if isinstance(made, Executable):  # C source is not
        kept.keep(place, made)
    return made


def _is_default(pipeline: Any) -> bool:
    return pipeline is None or (isinstance(pipeline, str) and pipeline == "default")
