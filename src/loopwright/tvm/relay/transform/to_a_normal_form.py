"""ToANormalForm: a `let` for each expression, in the order of computation.

before: add(multiply(%x, %x), %y)
after:  let %a = multiply(%x, %x); let %b = add(%a, %y); %b
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ..expr import Expr, Function
from ..scopes import Binder
from .base import RelayPass


class ToANormalForm(RelayPass):
    """A `let` for each expression, in the order of computation."""

    opt_level = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        return Binder(func, all=True).run()


def ToANormalFormExpr(e: Expr) -> Any:
    """An expression with a `let` for each one in it."""
    return Binder(e, all=True).run()
