"""Bases of the passes on graph functions and on dataflow blocks, and the decorators that make such
passes of a user's function or class."""

from __future__ import annotations

from typing import Any, ClassVar

from ...ir.module import IRModule
from ...ir.transform import FunctionPass as _FunctionPass
from ...ir.transform import PassContext, make_pass_decorator, wrong_result
from ..expr import DataflowBlock, Function
from ..functor import GraphRewriter


class FunctionPass(_FunctionPass, abstract=True):
    """A pass on each graph function: `run_function(func, mod, ctx) -> func`."""

    function_type = Function


class RewriterPass(FunctionPass, abstract=True):
    """Rewrites each graph function by a new rewriter of the class `rewriter`."""

    rewriter: ClassVar[Any]

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        return self.rewriter(mod).function(func)


class DataflowBlockPass(_FunctionPass, abstract=True):
    """A pass on each dataflow block: `run_block(block, mod, ctx) -> block`."""

    function_type = Function

    def run_block(self, block: Any, mod: IRModule, ctx: PassContext) -> Any:
        """The new block; the same object if nothing changes."""
        raise NotImplementedError(f"{type(self).__name__} has no method run_block")

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Blocks(self, mod, ctx).function(func)


class _Blocks(GraphRewriter):
    def __init__(self, owner: DataflowBlockPass, mod: IRModule, ctx: PassContext) -> None:
        super().__init__(mod)
        self.owner = owner
        self.module = mod
        self.ctx = ctx

    def block(self, block: Any) -> Any:
        if isinstance(block, DataflowBlock):
            new = self.owner.run_block(block, self.module, self.ctx)
            if not isinstance(new, DataflowBlock):
                raise wrong_result(self.owner.info.name, new, DataflowBlock, self.owner.user_code())
            block = new
        return super().block(block)


# A decorated `f(func, mod, ctx)`, or a class with `transform_function`, is a pass on functions;
# `f(block, mod, ctx)`, or a class with `transform_dataflowblock`, one on dataflow blocks.
function_pass = make_pass_decorator(FunctionPass)
dataflowblock_pass = make_pass_decorator(DataflowBlockPass, "transform_dataflowblock", "run_block")
