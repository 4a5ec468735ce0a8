"""Visitors and mutators of Relay's graphs for users: a hook for each kind of node.

    class Renamer(ExprMutator):
        def visit_call(self, call):
            call = super().visit_call(call)
            return Call(op.get("subtract"), call.args) if call.op.name == "add" else call

Each node is visited once. The passes of the house use the leaner walks of `walk`.
"""

from __future__ import annotations

from typing import Any

from ...ir.functor import allow_deep_programs
from ...ir.op import Op
from .expr import Call, Constant, Expr, Function, GlobalVar, If, Let, Tuple, TupleGetItem, Var
from .hooks import fill, hook_of
from .types import TensorType
from .walk import children, rebuilt

HOOKS: dict[type, str] = {
    Function: "visit_function",
    Call: "visit_call",
    Let: "visit_let",
    Var: "visit_var",
    GlobalVar: "visit_global_var",
    If: "visit_if",
    Tuple: "visit_tuple",
    TupleGetItem: "visit_tuple_getitem",
    Constant: "visit_constant",
    Op: "visit_op",
}


class ExprFunctor:
    """Dispatches an expression to the hook of its kind, once; hooks have no defaults."""

    def __init__(self) -> None:
        allow_deep_programs()
        self.memo_map: dict[Any, Any] = {}

    def visit(self, expr: Op | Expr) -> Any:
        """The result of the hook for an expression; of one visited before, the earlier result."""
        if expr in self.memo_map:
            return self.memo_map[expr]
        name = hook_of(HOOKS, expr, "expression")
        result = self.memo_map[expr] = getattr(self, name)(expr)
        return result

    def visit_type(self, typ: TensorType) -> Any:
        """The type itself."""
        return typ


class ExprVisitor(ExprFunctor):
    """Visits all expressions inside one."""


class ExprMutator(ExprFunctor):
    """Rebuilds a graph; what does not change is the same object."""


def _visit_children(self: ExprVisitor, node: Op | Expr) -> None:
    for child in children(node):
        self.visit(child)


def _rebuilt(self: ExprMutator, node: Op | Expr) -> Any:
    return rebuilt(node, {id(child): self.visit(child) for child in children(node)})


fill(ExprFunctor, HOOKS, "Called for")
fill(ExprVisitor, HOOKS, "Visit the parts", _visit_children)
fill(ExprMutator, HOOKS, "Rebuild", _rebuilt)
