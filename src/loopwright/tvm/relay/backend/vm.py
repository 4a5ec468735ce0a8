"""`relay.vm`: modules compiled for the virtual machine; here, native code where possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.module import IRModule
from ....ir.target import Target
from ....runtime.vm import Executable
from ..expr import Function
from .compiling import as_relay_module, compiled, optimized
from .interpreter import Executor


def compile(
    mod: IRModule | Function,
    target: Any = None,
    target_host: str | None = None,
    params: dict[str, np.ndarray[Any, Any]] | None = None,
) -> Any:
    """The compiled model, for `runtime.vm.VirtualMachine`."""
    compiler = VMCompiler()
    if params:
        compiler.set_params(params)
    compiler.lower(mod, target, target_host)
    compiler.codegen()
    return compiler.get_exec()


class VMCompiler:
    """Compiles step by step: `lower`, `codegen`, `get_exec`."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._mod: IRModule | None = None
        self._target: Any = None
        self._exec: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """The parameters of `main` to be part of the code."""
        self.params = dict(params)

    def get_params(self) -> dict[str, Any]:
        """The parameters that are part of the code."""
        return self.params

    def lower(
        self,
        mod: IRModule | Function,
        target: str | Target | None = None,
        target_host: str | None = None,
    ) -> None:
        """Take a module to be compiled, after the passes of `optimize`."""
        self._mod, self._target = optimized(as_relay_module(mod), target, self.params), target

    def codegen(self) -> None:
        """Generate the code."""
        self._exec = Executable(compiled(self._mod, self._target)[0])

    def optimize(
        self,
        mod: IRModule,
        target: str | None = None,
        target_host: str | None = None,
        params: dict[str, np.ndarray[Any, Any]] | None = None,
    ) -> tuple[IRModule, dict[str, Any]]:
        """The module after the passes on Relay, and its parameters."""
        if params:
            self.set_params(params)
        return optimized(as_relay_module(mod), target, self.params), self.params

    def get_exec(self) -> Any:
        """The compiled model."""
        return self._exec


class VMExecutor(Executor):
    """The "vm" executor."""

    def _make_function(self, mod: IRModule) -> Callable[..., Any]:
        return compile(mod, self.target)["main"]
