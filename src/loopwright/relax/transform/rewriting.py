"""The bases of passes that replace some values by others: by patterns, and call by call."""

from __future__ import annotations

from typing import Any

from ...ir.transform import IRModule, PassContext
from ..analysis.variables import remove_all_unused
from ..dpl import rewrite
from ..dpl.nodes import DFPattern
from ..dpl.pattern import CallPattern, is_op
from ..expr import Function
from ..functor import GraphRewriter
from .decorators import FunctionPass


class PatternPass(FunctionPass, abstract=True):
    """Rewrites each graph function by `rules(func)` until none of them matches."""

    def rules(self, func: Function) -> list[Any]:
        """[(pattern, callback(value, matches))], as `PatternMatchingRewriter.from_pattern` takes
        them."""
        raise NotImplementedError(f"{type(self).__name__} has no method rules")

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        rules = [rewrite.ExprRule(pattern, replace) for pattern, replace in self.rules(func)]
        return rewrite.PatternMatchingRewriter(rules)(func)


def calls(name: str, *args: DFPattern) -> CallPattern:
    """The pattern of the calls of an operator."""
    return is_op(f"relax.{name}")(*args)


class SweepingRewriter(GraphRewriter):
    """Removes unused bindings from each function that it changes."""

    def function(self, func: Function) -> Function:
        new = super().function(func)
        return func if new is func else remove_all_unused(new)
