"""`relay.build`, `relay.optimize` and `relay.create_executor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.module import IRModule
from ...runtime.device import Device, cpu
from ..graph_executor import GraphRuntime  # noqa: F401
from .backend import interpreter
from .backend.compiling import (
    as_relay_module,
    bind_params_by_name,
    compiled,
    lowered,
    one_target,
    optimized,
)
from .backend.config import Executor, Runtime
from .backend.executor_factory import (
    AOTExecutorFactoryModule,
    ExecutorFactoryModule,
    GraphExecutorFactoryModule,
)
from .backend.vm import VMExecutor
from .expr import Expr, Function


def build(
    ir_mod: IRModule | Expr,
    target: str | None = None,
    target_host: str | None = None,
    executor: Executor = Executor("graph"),  # noqa: B008
    runtime: Runtime = Runtime("cpp"),  # noqa: B008
    workspace_memory_pools: int | None = None,
    constant_memory_pools: int | None = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> ExecutorFactoryModule:
    """Compile a module of Relay.

    params: arrays by the names of parameters of `main`; they become part of the code.
    target_host, runtime: accepted for compatibility; the host runs the code.
    """
    for pools, name in ((workspace_memory_pools, "workspace"), (constant_memory_pools, "constant")):
        if pools is not None:
            what = f"{name}_memory_pools has no meaning here"
            raise ValueError(explain(what, instead="loopwright.compile(mod, arenas=[...])"))
    chosen = one_target(target)
    mod = optimized(as_relay_module(ir_mod), chosen, params)
    lib, graph = compiled(mod, chosen, mod_name)
    bound_params = {} if params is None else dict(params)
    factory = {"graph": GraphExecutorFactoryModule, "aot": AOTExecutorFactoryModule}[executor.name]
    return factory(mod, chosen, executor, lib, mod_name, bound_params, graph)


def lower(
    mod: IRModule | Function,
    target: str | None = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> IRModule:
    """The kernels that a module of Relay becomes for a target, each once, as they are scheduled; no
    code is generated. Arguments as of `build`."""
    chosen = one_target(target)
    return lowered(optimized(as_relay_module(mod), chosen, params), chosen, mod_name)[0]


def optimize(
    mod: IRModule, target: str | None = None, params: Mapping[str, Any] | None = None
) -> tuple[IRModule, dict[str, Any]]:
    """The module after the passes of a build, and its parameters."""
    return optimized(as_relay_module(mod), one_target(target), params), dict(params or {})


class BuildModule:
    """Builds step by step: the last `build`, by its parts."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._outputs: Any = None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """The parameters of `main` to be part of the code of the next build."""
        self.params = dict(params)

    def build(
        self,
        mod: IRModule,
        target: str | None = None,
        target_host: str | None = None,
        **options: Any,
    ) -> tuple[Any, Any, dict[str, Any]]:
        """(the graph as text, the compiled model, its parameters). Options as of `relay.build`."""
        self.set_params(options.pop("params", None) or self.params)
        self._outputs = build(mod, target, target_host, params=self.params, **options)
        return tuple(self._outputs)

    def optimize(
        self,
        mod: IRModule,
        target: str | None = None,
        target_host: str | None = None,
        params: Mapping[str, np.ndarray[Any, Any]] | None = None,
    ) -> tuple[IRModule, dict[str, Any]]:
        """As `relay.optimize`."""
        return optimize(mod, target, params or self.params)

    def _built(self) -> Any:
        if self._outputs is None:
            raise ValueError(explain("nothing was built", instead="call build(mod, target) before"))
        return self._outputs

    def get_graph_json(self) -> str:
        """The graph of kernels as text."""
        return self._built().get_executor_config()

    def get_module(self) -> Any:
        """The compiled model."""
        return self._built().get_lib()

    def get_params(self) -> dict[str, Any]:
        """The parameters that are part of the model."""
        return self._built().get_params()

    def get_irmodule(self) -> IRModule:
        """The module of Relay after its passes."""
        return self._built().ir_mod

    def get_devices(self) -> list[str]:
        """The kinds of devices that the model runs on, without the host."""
        return self._built().get_devices()


class GraphExecutor(interpreter.Executor):
    """The "graph" executor."""

    def _make_function(self, mod: IRModule) -> Callable[..., Any]:
        return build(mod, self.target).lib["main"]


class AotExecutor(interpreter.Executor):
    """The "aot" executor."""

    def _make_function(self, mod: IRModule) -> Callable[..., Any]:
        return build(mod, self.target, executor=Executor("aot")).lib["main"]


EXECUTORS: dict[str, type[interpreter.Executor]] = {
    "debug": interpreter.Interpreter,
    "graph": GraphExecutor,
    "vm": VMExecutor,
    "aot": AotExecutor,
}


def create_executor(
    kind: str = "debug",
    mod: IRModule | None = None,
    device: Device | None = None,
    target: str = "llvm",
    params: Mapping[str, Any] | None = None,
) -> interpreter.Executor:
    """What evaluates expressions in a module: "debug", "graph", "vm" or "aot".

    params: values of parameters of `main`.
    """
    if kind not in EXECUTORS:
        what = "unknown execution strategy"
        raise RuntimeError(explain(what, got=kind, instead=f"one of: {', '.join(EXECUTORS)}"))
    if mod is None:
        mod = IRModule()
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    return EXECUTORS[kind](mod, cpu() if device is None else device, target)
