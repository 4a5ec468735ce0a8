"""A model becomes an `Executable`; `lower`: the trace of every step on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..arith import Analyzer
from ..backend import c, llvm
from ..backend.pipeline import get_pipeline
from ..base.errors import LoopwrightError, explain
from ..codegen.c.model import CModel
from ..codegen.llvm.build import build_program
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.jit import gc_paused
from ..codegen.llvm.vm import GraphMachine
from ..frontend.onnx import from_path_or_proto
from ..ir import trace as tracing
from ..ir.module import IRModule
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, const, multiply
from ..ir.target import Target
from ..ir.transform import Pass, Sequential, unwatched
from ..relax import transform as rt
from ..relax.byoc.plugins import load_extensions
from ..relax.expr import Function
from ..runtime.arena import Arena, as_arenas
from ..runtime.extern import EXTERNAL_MODS, ExternLibrary
from ..runtime.signature import Argument, Signature
from ..tir.buffer import Buffer
from ..tir.function import PrimFunc
from ..tir.signature import signature_of
from ..tir.transform.lower.make_unpacked_api import symbolic_dims
from .front import DEFAULT_TARGET, compile

IMPORTERS: list[Callable[[Any], IRModule | None]] = [from_path_or_proto]
PIPELINES = {"llvm": llvm, "c": c}  # where a target's pipelines are


def compile_steps(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    backends: Sequence[Any] = (),
    arenas: Sequence[Arena | str] = (),
) -> tuple[Any, dict[str, float]]:
    """`compile` without a look at what is kept, and the seconds that its steps took."""
    mod = as_module(model)
    target = as_target(target)
    arenas = as_arenas(arenas) if arenas else ()
    pipelines, generator = _pipelines(target), target.kind.code_generator
    with gc_paused(), target:
        start = time.perf_counter()
        graph = _lower_graph(mod, target, params, relax_pipeline, backends, arenas)
        passes = as_passes(tir_pipeline, partial(pipelines.loop_pipeline, arenas=arenas), target)
        alone = tir_pipeline == "default" and unwatched() and generator == "llvm"
        alone = alone and not arenas  # which are planned for all functions together
        lowered = _OneByOne(graph, passes) if alone else passes(graph)
        seconds = time.perf_counter() - start
        exe: Executable | CModel
        if generator == "c" and isinstance(lowered, IRModule):
            exe = _c_model(graph, lowered, target)
        else:
            exe = link(graph, lowered, target)
        if isinstance(lowered, _OneByOne):
            seconds += lowered.seconds
    return exe, {"passes": seconds, "machine code": time.perf_counter() - start - seconds}


def lower(
    model: Any,
    target: Any = None,
    *,
    params: dict[str, Any] | None = None,
    relax_pipeline: Any = "default",
    tir_pipeline: Any = "default",
    backends: Sequence[Any] = (),
    arenas: Sequence[Arena | str] = (),
) -> tracing.Trace:
    """Run every step of `compile` up to the code generator and return the trace of them."""
    with tracing.trace() as trace:
        started = time.perf_counter()
        mod = as_module(model)
        trace.note("import", "module", ms=(time.perf_counter() - started) * 1e3)
        target = as_target(target)
        arenas = as_arenas(arenas) if arenas else ()
        with gc_paused(), target:
            graph = _lower_graph(mod, target, params, relax_pipeline, backends, arenas)
            loops = partial(_pipelines(target).loop_pipeline, arenas=arenas)
            as_passes(tir_pipeline, loops, target)(graph)
    return trace


def as_target(target: Any) -> Target:
    """A Target from itself, its text, or None (the current one, else this machine)."""
    if target is None:
        target = Target.current(allow_none=True) or DEFAULT_TARGET
    return target if isinstance(target, Target) else Target(target)


def _pipelines(target: Target) -> Any:
    """The default pipelines for a target."""
    found = PIPELINES.get(target.kind.code_generator)
    if found is None:
        name = target.kind.name
        what = f"target {name} has no code generator here"
        known = " or ".join(f'target="{generator}"' for generator in PIPELINES)
        hint = f'use {known}, or register_target_kind("{name}", parent="llvm", override=True)'
        raise LoopwrightError(explain(what, instead=hint))
    return found


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


def _lower_graph(
    mod: IRModule,
    target: Target,
    params: Any,
    relax_pipeline: Any,
    backends: Sequence[Any],
    arenas: Sequence[Arena | str],
) -> IRModule:
    """The module after the graph passes."""
    load_extensions()
    if params:
        mod = rt.BindParams("main", params)(mod)
    if isinstance(relax_pipeline, str) and relax_pipeline != "default":
        relax_pipeline = get_pipeline(relax_pipeline)
    default = partial(_pipelines(target).graph_pipeline, backends=backends, arenas=arenas)
    graph = as_passes(relax_pipeline, default, target)(mod)
    if not any(signature_of(f) for f in graph.functions.values()):
        graph = rt.GraphToTIR()(graph)
    return graph


class _OneByOne(Mapping[str, Any]):
    """The functions of a module by name, each lowered when it is asked for: the code generator
    compiles the first ones while the others are lowered."""

    def __init__(self, graph: IRModule, passes: Pass) -> None:
        self.graph = graph
        self.passes = passes
        self.names = {gvar.name_hint: gvar for gvar in graph.functions}
        self.done: dict[str, Any] = {}
        self.seconds = 0.0

    def __getitem__(self, name: str) -> Any:
        if name not in self.done:
            start = time.perf_counter()
            gvar = self.names[name]
            others = [g for g in self.graph.functions if g is not gvar]
            self.done[name] = self.passes(self.graph.with_functions(remove=others))[gvar]
            self.seconds += time.perf_counter() - start
        return self.done[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def module(self) -> IRModule:
        """All of them, lowered."""
        return self.graph.with_functions({gvar: self[name] for name, gvar in self.names.items()})


class _Part(Mapping[str, Any]):
    """Some of a mapping's items, looked up when they are asked for."""

    def __init__(self, whole: Mapping[str, Any], names: list[str]) -> None:
        self.whole = whole
        self.names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return self.whole[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def _entries(
    graph: IRModule, known: Mapping[str, Any]
) -> tuple[dict[str, Signature], list[str], list[str], dict[str, Function]]:
    """How the functions of a lowered module are called; the names of its kernels and of its native
    graph functions; what is left for the virtual machine."""
    entries: dict[str, Signature] = {}
    kernels: list[str] = []
    graphs: list[str] = []
    machine: dict[str, Function] = {}
    for name, func in known.items():
        found = signature_of(func)
        if isinstance(func, Function):
            machine[name] = func
        elif found is not None:
            entries[name] = found
            graphs.append(name)
        elif isinstance(func, PrimFunc):
            kernels.append(name)
    for name in kernels:
        if machine or not graphs or not _is_private(graph, name):
            entries[name] = kernel_entry(graph[name])
    return entries, kernels, graphs, machine


def _c_model(graph: IRModule, lowered: IRModule, target: Target) -> CModel:
    """The C source of a lowered module."""
    known = {g.name_hint: f for g, f in lowered.functions.items()}
    entries, _, _, machine = _entries(graph, known)
    if machine:
        what = "only native functions have C code"
        hint = 'trace.explain(NAME, "native") of loopwright.lower says why they are not native'
        raise LoopwrightError(explain(what, got=", ".join(machine), instead=hint))
    libraries, imports = externals(graph)
    if imports:
        what = "C code cannot call functions of this Python process"
        hint = "offload to C functions (ExternLibrary) instead"
        raise LoopwrightError(explain(what, got=", ".join(imports), instead=hint))
    return CModel(graph, lowered, entries, target, libraries)


def link(graph: IRModule, lowered: IRModule | _OneByOne, target: Target) -> Executable:
    """Generate code for a lowered module and load it."""
    alone = isinstance(lowered, _OneByOne)
    known = {g.name_hint: f for g, f in (graph if alone else lowered).functions.items()}
    functions = lowered if alone else known
    entries, kernels, graphs, machine = _entries(graph, known)
    libraries, imports = externals(graph)
    program = build_program(
        _Part(functions, kernels),
        _Part(functions, graphs),
        entries,
        target,
        libraries=libraries,
        imports=imports,
    )
    whole = lowered.module() if isinstance(lowered, _OneByOne) else lowered
    exe = Executable(program, entries, graph, whole, machine)
    if machine:
        exe.add_machine(GraphMachine(exe))
    return exe


def externals(mod: IRModule) -> tuple[list[ExternLibrary], dict[str, Callable[..., Any]]]:
    """The C libraries and the packed functions that external code generators left with a module.

    Raises LoopwrightError where two of them bring a function of one name.
    """
    libraries: list[ExternLibrary] = []
    imports: dict[str, Callable[..., Any]] = {}
    for made in (mod.attrs or {}).get(EXTERNAL_MODS) or ():
        if isinstance(made, ExternLibrary):
            libraries.append(made)
            continue
        for name in made.function_names():
            if name in imports:
                what = f"two external modules bring a function {name}"
                raise LoopwrightError(explain(what, instead="give one of them another name"))
            imports[name] = made.get_function(name)
    return libraries, imports


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


def kernel_entry(func: PrimFunc) -> Signature:
    """How a kernel is called from outside: its buffers and scalars in order, no results."""
    params: list[Argument] = []
    for p in func.params:
        buffer = func.buffer_map.get(p)
        if buffer is None:
            params.append(Argument(p.name, str(p.dtype)))
        else:
            _check_compact(buffer, func)
            params.append(Argument(buffer.name, str(buffer.dtype), tuple(buffer.shape)))
    return Signature(tuple(params), (), tuple(symbolic_dims(func)))


def _check_compact(buffer: Buffer, func: PrimFunc) -> None:
    """Entries take contiguous tensors: with other strides a kernel would read outside of them."""
    expected: PrimExpr = const(1, "int64")
    prove = Analyzer().can_prove_equal
    for extent, stride in zip(reversed(buffer.shape), reversed(buffer.strides), strict=False):
        if not prove(cast("int64", stride), expected):
            what = f"parameter {buffer.name} has strides, which a compiled function's may not have"
            hint = "make the array contiguous and declare it without strides"
            got = ", ".join(str(s) for s in buffer.strides)
            raise LoopwrightError(explain(what, got=got, instead=hint, span=func.span))
        expected = multiply(expected, cast("int64", extent))


__all__ = ["compile", "link", "lower", "relax_build"]
