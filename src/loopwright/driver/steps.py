"""Compiles a model; `lower` returns the trace of every step."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from ..backend.base import backend_of
from ..backend.pipeline import get_pipeline
from ..base import budget, progress
from ..base.errors import LoopwrightError, explain
from ..base.foreign import note
from ..base.frames import boundary
from ..base.late import Slot
from ..base.plugins import load_extensions
from ..base.stack import roomy
from ..codegen.compiled import CompiledModel
from ..codegen.llvm.jit import gc_paused
from ..codegen.lowered import Lowered
from ..frontend.importers import IMPORTERS, importers
from ..frontend.onnx import from_onnx, from_path_or_proto
from ..frontend.torch.models import exported, from_model
from ..ir import trace as tracing
from ..ir.expr import GlobalVar
from ..ir.target import Target
from ..ir.transform import IRModule, Sequential, unwatched
from ..relax import transform as rt
from ..relax.expr import Function
from ..sched import deciding
from ..tir.function import PrimFunc
from ..tir.signature import signature_of
from .front import DEFAULT_TARGET, compile
from .options import DEFAULTS, EXEC_MODES, CompileOptions, Described, Keywords

TFLITE: Slot[ModuleType] = Slot("frontend.tflite")


def from_tflite_path(model: object) -> IRModule | None:
    """`from_tflite` for what looks like a path of a TFLite model, else None."""
    is_path = isinstance(model, (str, os.PathLike)) and Path(model).suffix == ".tflite"
    return TFLITE.get().from_tflite(model) if is_path else None


IMPORTERS.register("onnx", from_path_or_proto, origin=__name__)
IMPORTERS.register("tflite", from_tflite_path, origin=__name__)
IMPORTERS.register("torch", from_model, origin=__name__)


@roomy
def compile_steps(
    model: Any, target: Target | str | None = None, options: CompileOptions = DEFAULTS
) -> tuple[Any, dict[str, float]]:
    """`compile` without the cache, and the seconds that its steps took."""
    target = as_target(target)
    record = backend_of(target)
    record.check(target)
    record.prepare()
    with progress.step("model", "compile"), bounded(model), gc_paused(), target:
        mod = as_module(model, options)
        start = time.perf_counter()
        lowered = _lowered(mod, target, options)
        before = time.perf_counter() - start - lowered.seconds
        try:
            compiled = record.emit(lowered)
        except Exception as error:
            note(error, f"the code generator of target {record.kind}", record.emit)
            raise
        passed = before + lowered.seconds
        return compiled, {"passes": passed, "machine code": time.perf_counter() - start - passed}


def _lowered(mod: IRModule, target: Target, options: CompileOptions) -> Lowered:
    """The input of the code generator: the module after the graph passes, and the loop passes, which have
    run, or run for each function when it is generated."""
    graph, passes = _lower_graph(mod, target, options), _loop_passes(target, options)
    # Arenas are planned for all functions together; a trace shows each pass on the whole module.
    alone = options.tir_pipeline == "default" and unwatched() and not options.arenas
    one_by_one = alone and backend_of(target).one_by_one
    return Lowered(graph, passes, target, one_by_one=one_by_one, threads=options.threads)


@boundary
@roomy
def lower(
    model: Any, target: Target | str | None = None, **keywords: Unpack[Keywords]
) -> tracing.Trace:
    """Run every step of `compile` up to the code generator and return the trace."""
    options = CompileOptions.of(keywords)
    with progress.step("model", "lower"), tracing.trace() as trace, bounded(model):
        started = time.perf_counter()
        mod = as_module(model, options)
        trace.note("import", "module", ms=(time.perf_counter() - started) * 1e3)
        target = as_target(target)
        backend_of(target).check(target)
        with gc_paused(), target:
            _lowered(mod, target, options)
    return trace


def bounded(model: object) -> AbstractContextManager[None]:
    """Work on a model that is imported has a budget; one that Python code built has none."""
    built = isinstance(model, (IRModule, PrimFunc, Function))
    return nullcontext() if built else budget.started()


def as_target(target: Target | str | None) -> Target:
    """A Target from a Target, its text, or None (the current one, else the host)."""
    if target is None:
        target = Target.current(allow_none=True) or DEFAULT_TARGET
    return target if isinstance(target, Target) else Target(target)


def symbol_of(gvar: GlobalVar, func: Function | PrimFunc) -> str:
    """The name of a function outside its module."""
    return str(getattr(func, "attrs", {}).get("global_symbol", gvar.name_hint))


def as_module(model: object, options: CompileOptions = DEFAULTS) -> IRModule:
    """An IRModule from any model that `compile` takes, with functions named by their global_symbol."""
    if options.args is not None:
        model = exported(model, options.args)
    if isinstance(model, Described):
        model = model.build()
    if isinstance(model, IRModule):
        names = {g.name_hint: symbol_of(g, f) for g, f in model.functions.items()}
        other = {name: symbol for name, symbol in names.items() if name != symbol}
        return model.replace_global_vars(other) if other else model
    if isinstance(model, (PrimFunc, Function)):
        name = model.attrs.get("global_symbol", "main")
        return IRModule({name: model})
    with progress.step("import", "import"):
        imported = (importer(model) for importer in importers())
        mod = next((mod for mod in imported if mod is not None), None)
    if mod is not None:
        return mod
    hint = "the path of an ONNX or TFLite file, a ModelProto, an ExportedProgram, an IRModule or a function"
    if isinstance(model, (str, os.PathLike)) and not Path(model).exists():
        what = "the model file does not exist"
        raise FileNotFoundError(explain(what, got=model, instead=f"looked from {Path.cwd()}"))
    what = "this model cannot be imported"
    got = model if isinstance(model, (str, os.PathLike)) else type(model).__name__
    raise TypeError(explain(what, got=got, instead=hint))


def overriding(compiled: CompiledModel, names: Sequence[str]) -> CompiledModel:
    """A compiled model with initializers as inputs. Raises LoopwrightError where they are folded into the
    module that it was made from."""
    model, target, options = compiled.compilation or (None, None, None)
    if model is None or isinstance(model, (IRModule, Function)):
        what = "the module that was compiled has these initializers folded in"
        hint = (
            f"from_onnx(model, overridable_initializers={list(names)}), or compile the model itself"
        )
        raise LoopwrightError(explain(what, got=", ".join(names), instead=hint))
    mod = from_onnx(model, overridable_initializers=names)
    return compile(mod, target, options=options)


def _lower_graph(mod: IRModule, target: Target, options: CompileOptions) -> IRModule:
    """The module after the graph passes."""
    record = backend_of(target)
    load_extensions()
    if options.params:
        mod = rt.BindParams("main", options.params)(mod)
    pipeline = options.relax_pipeline
    if pipeline == "default":
        passes = record.graph_pipeline(target, backends=options.backends, arenas=options.arenas)
    else:
        passes = get_pipeline(pipeline) if isinstance(pipeline, str) else as_pass(pipeline)
    with deciding(options.decisions):
        graph = passes(mod)
    if record.native_graphs and not any(signature_of(f) for f in graph.functions.values()):
        graph = rt.GraphToTIR()(graph)
    return graph


def _loop_passes(target: Target, options: CompileOptions) -> Any:
    if options.tir_pipeline == "default":
        return backend_of(target).loop_pipeline(target, arenas=options.arenas)
    return as_pass(options.tir_pipeline)


def as_pass(pipeline: Any) -> Any:
    """A pass from a pass or a list of passes."""
    return Sequential(list(pipeline)) if isinstance(pipeline, (list, tuple)) else pipeline


def relax_build(
    mod: Any, target: Any = None, params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default", tir_pipeline: Any = "default", exec_mode: str = "bytecode", *,
    system_lib: bool | None = None,
) -> CompiledModel:  # fmt: skip
    """TVM's `relax.build`: `compile` with its parameters. Both `exec_mode`s give native code."""
    if exec_mode not in EXEC_MODES:
        what = "unknown exec_mode"
        raise ValueError(explain(what, got=exec_mode, instead='use "bytecode" or "compiled"'))
    return compile(
        mod, target, params=params, relax_pipeline=relax_pipeline, tir_pipeline=tir_pipeline
    )


__all__ = ["compile", "lower", "relax_build"]
