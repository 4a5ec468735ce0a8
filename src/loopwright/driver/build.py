"""`compile`: a model becomes an `Executable`; `lower`: the trace of every step on the way."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..backend import cpu
from ..base.errors import LoopwrightError, explain
from ..codegen.llvm.build import build_program
from ..frontend.onnx import from_path_or_proto
from ..ir import trace as tracing
from ..ir.module import IRModule
from ..ir.target import Target
from ..ir.transform import Pass, Sequential
from ..relax import transform as rt
from ..relax.expr import Function
from ..relax.transform.graph_to_tir import EntrySpec, ScalarSpec, TensorSpec, entry_of
from ..tir.function import PrimFunc
from ..tir.transform.make_unpacked_api import symbolic_dims
from .executable import Executable
from .vm import GraphMachine

DEFAULT_TARGET = "llvm -mcpu=native"
IMPORTERS: list[Callable[[Any], IRModule | None]] = [from_path_or_proto]


def compile(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
) -> Executable:
    """Compile a model for a target and load it.

    model: a path or ModelProto (ONNX), an IRModule, a PrimFunc, or a relax Function.
    target: a Target or its text; the current target, else this machine.
    params: arrays bound to parameters of `main` by name.
    relax_pipeline, tir_pipeline: "default", or passes (a Pass, a list of them) to run instead.

    Raises LoopwrightError for a target without a code generator, and what the passes raise.
    """
    options = {"params": params, "relax_pipeline": relax_pipeline, "tir_pipeline": tir_pipeline}
    return compile_steps(model, target, **options)[0]


def compile_steps(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
) -> tuple[Executable, dict[str, float]]:
    """`compile`, and the seconds that its steps took."""
    mod = as_module(model)
    target = as_target(target)
    if target.kind.name != "llvm":
        what = f"target {target.kind.name} has no code generator yet"
        raise LoopwrightError(explain(what, instead='use target="llvm"'))
    with _collector_off(), target:
        start = time.perf_counter()
        graph, kernels = _lower_module(mod, target, params, relax_pipeline, tir_pipeline)
        lowered = time.perf_counter()
        exe = link(graph, kernels, target)
    return exe, {"passes": lowered - start, "machine code": time.perf_counter() - lowered}


def lower(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
) -> tracing.Trace:
    """Run every step of `compile` up to the code generator and return the trace of them."""
    with tracing.trace() as trace:
        started = time.perf_counter()
        mod = as_module(model)
        trace.note("import", "module", ms=(time.perf_counter() - started) * 1e3)
        target = as_target(target)
        with _collector_off(), target:
            _lower_module(mod, target, params, relax_pipeline, tir_pipeline)
    return trace


@contextmanager
def _collector_off() -> Iterator[None]:
    """Python's garbage collector finds nothing to do while a module is compiled."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def as_target(target: Any) -> Target:
    """A Target from itself, its text, or None (the current one, else this machine)."""
    if target is None:
        target = Target.current(allow_none=True) or DEFAULT_TARGET
    return target if isinstance(target, Target) else Target(target)


def as_module(model: Any) -> IRModule:
    """An IRModule from what `compile` takes."""
    if isinstance(model, IRModule):
        return model
    if isinstance(model, (PrimFunc, Function)):
        name = model.attrs.get("global_symbol", "main")
        return IRModule({name: model})
    for importer in IMPORTERS:
        made = importer(model)
        if made is not None:
            return made
    what = "this model cannot be imported"
    hint = "give an ONNX file's path, a ModelProto, an IRModule or a function"
    got = model if isinstance(model, (str, os.PathLike)) else type(model).__name__
    raise TypeError(explain(what, got=got, instead=hint))


def as_passes(pipeline: Any, default: Callable[[Target], Sequential], target: Target) -> Pass:
    """The pipeline to run: the target's own for "default", else the given passes."""
    if pipeline is None or (isinstance(pipeline, str) and pipeline == "default"):
        return default(target)
    if isinstance(pipeline, (list, tuple)):
        return Sequential(list(pipeline))
    if isinstance(pipeline, Pass):
        return pipeline
    what = "a pipeline is a pass or a list of passes"
    raise TypeError(explain(what, got=repr(pipeline), instead='or "default"'))


def _lower_module(
    mod: IRModule, target: Target, params: Any, relax_pipeline: Any, tir_pipeline: Any
) -> tuple[IRModule, IRModule]:
    """(the module after the graph passes, the module after the loop passes)."""
    if params:
        mod = rt.BindParams("main", params)(mod)
    graph = as_passes(relax_pipeline, cpu.graph_pipeline, target)(mod)
    if not any(entry_of(f) for f in graph.functions.values()):
        graph = rt.GraphToTIR()(graph)
    return graph, as_passes(tir_pipeline, cpu.loop_pipeline, target)(graph)


def link(graph: IRModule, lowered: IRModule, target: Target) -> Executable:
    """Generate code for a lowered module and load it."""
    found = {g.name_hint: entry_of(f) for g, f in lowered.functions.items()}
    entries: dict[str, EntrySpec] = {n: e for n, e in found.items() if e is not None}
    kernels: dict[str, PrimFunc] = {}
    graphs: dict[str, PrimFunc] = {}
    machine: dict[str, Function] = {}
    for gvar, func in lowered.functions.items():
        if isinstance(func, Function):
            machine[gvar.name_hint] = func
        elif gvar.name_hint in entries:
            graphs[gvar.name_hint] = func
        elif isinstance(func, PrimFunc):
            kernels[gvar.name_hint] = func
    for name in kernels:
        if machine or not graphs or not _is_private(graph, name):
            entries[name] = kernel_entry(graph[name])
    program = build_program(kernels, graphs, entries, target)
    exe = Executable(program, entries, graph, lowered, machine)
    if machine:
        exe.add_machine(GraphMachine(exe))
    return exe


def relax_build(
    mod: Any,
    target: Any = None,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    exec_mode: str = "bytecode",
    *,
    system_lib: bool | None = None,
) -> Executable:
    """TVM's `relax.build`: `compile` with its parameters. Both `exec_mode`s give native code."""
    if exec_mode not in ("bytecode", "compiled"):
        what = "unknown exec_mode"
        raise ValueError(explain(what, got=exec_mode, instead='use "bytecode" or "compiled"'))
    return compile(
        mod, target, params=params, relax_pipeline=relax_pipeline, tir_pipeline=tir_pipeline
    )


def _is_private(mod: IRModule, name: str) -> bool:
    return "global_symbol" not in mod[name].attrs


def kernel_entry(func: PrimFunc) -> EntrySpec:
    """How a kernel is called from outside: its buffers and scalars in order, no results."""
    params: list[TensorSpec | ScalarSpec] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            params.append(ScalarSpec(p.name, str(p.dtype)))
        else:
            params.append(TensorSpec(buffer.name, str(buffer.dtype), tuple(buffer.shape)))
    return EntrySpec(tuple(params), (), tuple(symbolic_dims(func)))


def model_path(model: Any) -> Path | None:
    """The path of a model given as text or a path, else None."""
    return Path(model) if isinstance(model, (str, os.PathLike)) else None


__all__ = ["compile", "link", "lower", "relax_build"]
