"""TVM's `relax.vm_build`: graph functions to programs of the virtual machine, step by step.

    builder = relax.ExecBuilder()
    rest = _vmcodegen(builder, mod, exec_mode="bytecode")    # the functions that are not graphs
    exe = _vmlink(builder, "llvm", rest)

`mod` must be in the form that the last passes of the LLVM pipeline leave (`LowerRuntimeBuiltin`,
`VMShapeLower`). `loopwright.compile` does all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import explain
from ..codegen.vm import add_function, tir_function
from ..ir.expr import GlobalVar
from ..ir.module import IRModule
from ..relax.expr import Function
from ..runtime.module import Module
from ..runtime.vm import ExecBuilder, VMExecutable, VMFuncKind
from ..tir.function import PrimFunc
from .front import compile
from .options import EXEC_MODES
from .steps import relax_build as build
from .steps import symbol_of


def _vmcodegen(builder: ExecBuilder, mod: IRModule, exec_mode: str = "bytecode") -> IRModule:
    """Write a module's graph functions into a builder; returns the rest of the module.

    With exec_mode="compiled" the rest has them as TIR functions, too, for those who look at them or
    compile them elsewhere; the machine runs both modes as the code that it generates.
    """
    if exec_mode not in EXEC_MODES:
        what = "unknown exec_mode"
        raise ValueError(explain(what, got=exec_mode, instead='use "bytecode" or "compiled"'))
    compiled = exec_mode == "compiled"
    kind = VMFuncKind.VM_TIR_FUNC if compiled else VMFuncKind.VM_FUNC
    graphs = {symbol_of(g, f): f for g, f in mod.functions.items() if isinstance(f, Function)}
    rest = {g: f for g, f in mod.functions.items() if not isinstance(f, Function)}
    kernels = {symbol_of(g, f) for g, f in rest.items() if isinstance(f, PrimFunc)}
    for name in graphs:
        builder.declare_function(name, kind)
    for name, func in graphs.items():
        if compiled:
            function = tir_function(builder, name, func, kernels)
            rest[GlobalVar(str(function.attrs["global_symbol"]))] = function
        add_function(builder, name, func, kind=kind)
    return IRModule(rest, mod.attrs, mod.global_infos)


def _vmlink(
    builder: ExecBuilder, target: Any, tir_mod: IRModule | None = None,
    tir_pipeline: Any = "default", ext_libs: Sequence[Module] | None = None,
    params: Mapping[str, Any] | None = None, *, system_lib: bool | None = None,
) -> VMExecutable:  # fmt: skip
    """The program in a builder with the kernels that it calls. params, system_lib: accepted for
    compatibility; constants are in the program."""
    program = builder.get()
    graphs = {f"__vmtir__{f.name}" for f in program.own()}
    functions = {} if tir_mod is None else tir_mod.functions
    kernels = {g: f for g, f in functions.items() if symbol_of(g, f) not in graphs}
    if kernels:
        exe = compile(IRModule(kernels), target, tir_pipeline=tir_pipeline)
        program.natives.update(exe.kernels)
    for library in ext_libs or ():
        program.natives.update({n: library[n] for n in library.function_names()})
    return program


__all__ = ["VMExecutable", "build"]
