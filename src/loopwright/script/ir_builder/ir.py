"""The namespace `I` for an `IRBuilder`: that of scripts, and `ir_module` as a frame."""

from __future__ import annotations

from typing import Any

from ...ir.expr import GlobalVar
from ...ir.module import IRModule
from ...relax.expr import Function
from ...tir.function import PrimFunc
from .. import ir as _ir
from .base import IRBuilder, IRBuilderFrame


class IRModuleFrame(IRBuilderFrame):
    """`with I.ir_module()`: a module of the functions built inside."""

    def __init__(self) -> None:
        super().__init__()
        self.state = _ir.ModuleState()
        self.functions: dict[str, Any] = {}
        self.names: dict[str, GlobalVar] = {}

    def open(self) -> None:
        self.state.__enter__()
        IRBuilder.current().module = self

    def declare(self, name: str, function: Function | PrimFunc) -> GlobalVar:
        """The global variable of a function, which may be defined later."""
        var = self.names.setdefault(name, GlobalVar(name))
        var.struct_info = function.struct_info
        return var

    def define(self, name: str, function: Function | PrimFunc) -> None:
        """Add a function."""
        self.declare(name, function)
        self.functions[name] = function

    def close(self, failed: bool) -> None:
        builder = IRBuilder.current()
        builder.module = None
        self.state.__exit__()
        if not failed:
            functions = {self.names[name]: f for name, f in self.functions.items()}
            state = self.state
            mod = IRModule(functions, attrs=state.attrs, global_infos=state.global_infos)
            builder.results.append(mod)


def ir_module() -> IRModuleFrame:
    """A module."""
    return IRModuleFrame()


def decl_function(func_name: str, func_signature: PrimFunc) -> GlobalVar:
    """Declare a function of the module that is open; `def_function` sets its body."""
    return IRBuilder.current().module.declare(func_name, func_signature)


def def_function(func_name: str, func: PrimFunc) -> None:
    """Give the body of a function of the module that is open."""
    IRBuilder.current().module.define(func_name, func)


def __getattr__(name: str) -> Any:
    return getattr(_ir, name)
