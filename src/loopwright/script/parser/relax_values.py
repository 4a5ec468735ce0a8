"""Values of statements of a graph function: what counts as one, and the variables in it."""

from __future__ import annotations

from typing import Any

from ...ir.expr import RelaxExpr
from ...ir.prim_expr import PrimExpr
from ...relax.expr import Expr, Tuple, Var, VarBinding
from ...relax.normalize import is_leaf
from .. import relax as R


def take_last(blocks: list[Any], kind: str) -> tuple[str, Any]:
    """(name, value) bound last in a branch. A binding of what can be the result itself (another
    variable, a constant) is taken out."""
    last = blocks[-1].bindings[-1]
    name = last.var.name_hint
    if isinstance(last, VarBinding) and is_leaf(last.value):
        rest = blocks[-1].bindings[:-1]
        if rest:
            blocks[-1] = blocks[-1].replace(bindings=rest)
        else:
            blocks.pop()
        return name, last.value
    last.var.name_hint = f"{name}_{kind}"
    return name, last.var


def variables_of(value: Expr) -> list[Any]:
    """The variables of a result, through tuples."""
    if isinstance(value, Tuple):
        return [v for field in value.fields for v in variables_of(field)]
    return [value] if isinstance(value, Var) else []


def is_graph_tuple(value: Any) -> bool:
    """Whether a Python tuple or list is one of the graph: empty, or with expressions in it."""
    if not isinstance(value, (tuple, list)):
        return False
    inside = any(isinstance(v, (RelaxExpr, PrimExpr)) or is_graph_tuple(v) for v in value)
    return inside or value == ()


def instance(value: object) -> Any:
    """`R.Tensor` without parentheses as `R.Tensor()`, in lists too; `R.Any` is newer TVM's
    `R.Object`."""
    if value is Any:
        return R.Object()
    if isinstance(value, type) and issubclass(value, R.StructInfoProxy):
        return value()
    if type(value) is list:
        return [instance(v) for v in value]
    if type(value) is tuple:
        return tuple(instance(v) for v in value)
    return value
