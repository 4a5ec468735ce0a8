"""InferType: the type of every expression.

before: def @main(%x: Tensor[(2, 3), float32]) { nn.relu(%x) }
after:  def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { nn.relu(%x) }
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.pass_context import PassContext
from ..expr import Expr, Function
from ..infer import Typer, with_types
from .base import RelayPass


class InferType(RelayPass):
    """Find the types of all functions of Relay in a module.

    Raises DiagnosticError where types do not match."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        typer = Typer(mod)
        funcs = {g: f for g, f in mod.functions.items() if isinstance(f, Function)}
        for func in funcs.values():
            typer.run(func)
        return mod.with_functions({g: typer.typed(f) for g, f in funcs.items()})


def InferTypeLocal(expr: Expr) -> Any:
    """The type of an expression, which stores it from now on, as do its parts."""
    return with_types(expr).checked_type
