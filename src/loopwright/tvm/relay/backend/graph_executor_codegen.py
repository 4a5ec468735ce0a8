"""The graph of a function and its kernels, step by step."""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.target import Target
from ..expr import Constant, Function
from ..walk import post_order
from .compiling import lowered, one_target


class GraphExecutorCodegen:
    """Makes the graph and the kernels of functions, for a target.

    mod: accepted for compatibility."""

    def __init__(self, mod: IRModule, target: Any) -> None:
        self.target = one_target(target)

    def codegen(
        self, ir_module: IRModule, func: Function
    ) -> tuple[str, dict[Target, IRModule], dict[str, Any]]:
        """The graph as JSON, the kernels by target, and the function's constants by name."""
        module = ir_module.clone()
        module["main"] = func
        kernels, graph = lowered(module, self.target)
        constants = [node for node in post_order(func) if isinstance(node, Constant)]
        params = {f"p{k}": constant.data for k, constant in enumerate(constants)}
        return graph, {self.target: kernels}, params
