"""ToGraphNormalForm: a value bound by `let` moves to its uses; one that is used twice is shared.

before: let %a = exp(%x); add(%a, %a)
after:  %0 = exp(%x); add(%0, %0)
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Expr, Function, Let, Var
from ..walk import children, post_order, rebuilt
from .base import RelayPass


class ToGraphNormalForm(RelayPass):
    """A value bound by `let` moves to its uses; one that is used twice is shared. A function that
    calls itself keeps its `let`."""

    opt_level = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        new: dict[int, Any] = {}
        waiting: dict[int, list[Let]] = {}  # by the value

        def parts(node: Op | Expr) -> tuple[Any, ...]:
            if not isinstance(node, Let):
                return children(node)
            if id(node.value) in new:
                new[id(node.var)] = _unbound(node, new[id(node.value)])
            else:
                waiting.setdefault(id(node.value), []).append(node)
            return (node.value, node.body)

        for node in post_order(func, parts=parts):
            if isinstance(node, Let):
                new[id(node)] = new[id(node.body)]
            elif not isinstance(node, Var) or id(node) not in new:
                new[id(node)] = rebuilt(node, new)
            for let in waiting.pop(id(node), ()):
                new[id(let.var)] = _unbound(let, new[id(node)])
        return new[id(func)]


def _unbound(let: Let, value: Expr) -> Any:
    """The value of a `let`'s variable."""
    recursive = isinstance(value, Function) and any(n is let.var for n in post_order(value))
    return Let(let.var, value, let.var) if recursive else value
