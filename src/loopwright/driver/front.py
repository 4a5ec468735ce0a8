"""`compile`, without importing the compiler: a model that was compiled before is loaded from the
cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from ..base.frames import boundary
from ..base.late import Slot
from ..codegen.compiled import CompiledModel
from ..codegen.llvm.executable import Executable
from ..codegen.llvm.jit import gc_paused
from . import disk_cache
from .options import CompileOptions, Keywords

if TYPE_CHECKING:
    from ..codegen.c.model import CModel
    from ..ir.target import Target

DEFAULT_TARGET = "llvm -mcpu=native"
# Importing the compiler takes longer than loading its output.
COMPILE_STEPS: Slot[Callable[..., Any]] = Slot("driver.compile_steps")


@overload
def compile(
    model: Any,
    target: Literal["llvm", "llvm -mcpu=native"] | None = None,
    **keywords: Unpack[Keywords],
) -> Executable: ...
@overload
def compile(model: Any, target: Literal["c"], **keywords: Unpack[Keywords]) -> CModel: ...
@overload
def compile(model: Any, target: Any, **keywords: Unpack[Keywords]) -> CompiledModel: ...
@boundary
def compile(model: Any, target: Any = None, **keywords: Unpack[Keywords]) -> CompiledModel:
    """Compile a model for a target: an `Executable`, for target "c" its C source (a `CModel`), for
    a plug-in's target the result of its code generator.

    model: a path (ONNX, TFLite) or ModelProto (ONNX), an ExportedProgram, an nn.Module with `args`, an
        IRModule, a PrimFunc, a relax Function, or an IRModule that is `Described`.
    target: a Target or its text; by default the current target, else the host.
    keywords: the fields of a `CompileOptions` (params, backends, arenas, threads,
        relax_pipeline, tir_pipeline, args, decisions), or one as `options`, whose fields the other keywords replace.

    The result of the default pipelines for a model file is kept in the cache folder and loaded
    from there the next time (see `driver.disk_cache`); `LOOPWRIGHT_CACHE=0` disables this.

    Raises LoopwrightError for a target without a code generator, and the errors of passes.

    >>> exe = lw.compile("model.onnx", threads=1)
    >>> exe.inputs()
    [('image', 'float32', ('n', 1, 16, 16))]
    >>> exe.run({"image": np.zeros((3, 1, 16, 16), "float32")})["probability"].shape
    (3, 10)
    """
    options = CompileOptions.of(keywords)

    def compile_model() -> CompiledModel:
        with gc_paused():  # importing the compiler creates many objects, too
            return COMPILE_STEPS.get()(model, target, options)[0]

    compiled = _cached_or_compiled(model, target, options, compile_model)
    return compiled.compiled_from(model, target, options)


def _cached_or_compiled(
    model: Any,
    target: Target | str | None,
    options: CompileOptions,
    compile_model: Callable[[], CompiledModel],
) -> CompiledModel:
    """The cached executable of a model, else a new one."""
    entry = disk_cache.entry_for(model, target, DEFAULT_TARGET, options)
    if entry is None:
        return compile_model()
    cached = disk_cache.find(entry, compile_model, options.threads)
    if cached is not None:
        return cached
    compiled = compile_model()
    if isinstance(compiled, Executable):  # C source is not kept
        disk_cache.keep(entry, compiled)
    return compiled
