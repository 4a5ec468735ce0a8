"""The results of `relay.build`: a compiled model, the parameters in it, and how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ....ir.module import IRModule
from ....ir.target import Target
from ....relax.expr import Function
from ....tir.function import PrimFunc
from ....tir.signature import signature_of
from ...graph_executor import GraphRuntime
from .config import Executor


def is_kernel(func: Function | PrimFunc) -> bool:
    """Whether a lowered function is a kernel, no entry."""
    return isinstance(func, PrimFunc) and signature_of(func) is None


class ExecutorFactoryModule:
    """A built module.

    ir_mod: the module of Relay after its passes. lib: the compiled model. params: the arrays that
    were compiled into it, by name. lowered_ir_mods: by target the kernels as they were scheduled.
    """

    def __init__(
        self, ir_mod: IRModule, target: Target, executor: Executor, lib: Any, libmod_name: str,
        params: dict[str, Any], graph_json: str,
    ) -> None:  # fmt: skip
        self.ir_mod, self.target, self.executor = ir_mod, target, executor
        self.lib, self.libmod_name, self.params = lib, libmod_name, params
        lib.graph_name, lib.fixed_params = libmod_name, params
        self.graph_json = graph_json
        entries = [g for g, f in lib.mod.functions.items() if not is_kernel(f)]
        self.lowered_ir_mods = {target: lib.mod.with_functions(remove=entries)}

    @property
    def module(self) -> ExecutorFactoryModule:
        """Itself: TVM keeps the factory of the runtime here."""
        return self

    def get_lib(self) -> Any:
        """The compiled model."""
        return self.lib

    def get_params(self) -> dict[str, Any]:
        """The parameters that are part of the model, by name."""
        return self.params

    def get_executor_config(self) -> str | None:
        """The graph that the executor runs, as text; None where it runs code."""
        return None

    def get_devices(self) -> list[str]:
        """The kinds of devices that the model runs on, without the host."""
        return []

    def get_function(self, name: str) -> Callable[..., Any]:
        """`name of the model`: makes the runtime on a device; or one of the getters."""
        if name == self.libmod_name:
            return lambda *devices: GraphRuntime(self.lib, list(devices), self.params)
        getters = {"get_graph_json": self.get_executor_config, "get_params": self.get_params}
        return getters[name] if name in getters else self.lib[name]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.get_executor_config(), self.lib, self.params))

    def export_library(self, file_name: str | Path, fcompile: Any = None, **options: Any) -> Any:
        """Write the model as a library that `runtime.load_module` loads; `fcompile` makes the file of
        its objects (`contrib.cc.create_shared`), with the options."""
        return self.lib.export_library(file_name, fcompile=fcompile, **options)


class GraphExecutorFactoryModule(ExecutorFactoryModule):
    """A module built for the graph executor."""

    def get_graph_json(self) -> str:
        """The graph of kernels in TVM's form, as JSON."""
        return self.graph_json

    def get_executor_config(self) -> str:
        """The graph of kernels."""
        return self.graph_json


class AOTExecutorFactoryModule(ExecutorFactoryModule):
    """A module built ahead of time, as all are here."""

    def get_devices(self) -> list[str]:
        """The kinds of devices that the model runs on."""
        return [self.target.kind.name]
