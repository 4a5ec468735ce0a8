"""How much there is in a program: layers, operators, multiply-accumulates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ....base.errors import explain
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..operators.core import row_of
from ..types import is_dynamic
from ..walk import children, post_order


def main_of(mod: IRModule | Expr) -> Any:
    """The function `main` of a module; an expression is itself."""
    return mod["main"] if isinstance(mod, IRModule) else mod


def count_layers(expr: IRModule | Expr, valid_ops: Sequence[str]) -> int:
    """The calls of some operators on the longest path through an expression, or through the
    function `main` of a module."""
    counted = {Op.get(name) for name in valid_ops}
    depth: dict[int, int] = {}
    root = main_of(expr)
    for node in post_order(root):
        below = max((depth[id(child)] for child in children(node)), default=0)
        depth[id(node)] = below + (isinstance(node, Call) and node.op in counted)
    return depth[id(root)]


class LayerCounter:
    """Counts the layers of what it has visited."""

    def __init__(self, valid_ops: Sequence[str]) -> None:
        self.valid_ops, self._count = valid_ops, 0

    def visit(self, expr: Expr) -> None:
        """Count the layers of an expression."""
        self._count = count_layers(expr, self.valid_ops)

    def count(self) -> int:
        """The layers of the expression visited last."""
        return self._count


def list_op_freqs(mod: IRModule | Function) -> dict[str, int]:
    """How many calls of each operator `main` has; those inside functions that it calls where they
    are defined count."""
    calls = (node for node in post_order(main_of(mod)) if isinstance(node, Call))
    return dict(Counter(call.op.name for call in calls if isinstance(call.op, Op)))


def get_total_mac_number(expr: Function) -> int:
    """The multiply-accumulates of the convolutions and matrix products in an expression. Raises
    ValueError where the types are not inferred or an extent is not known."""
    total = 0
    for node in post_order(main_of(expr)):
        row = row_of(node.op) if isinstance(node, Call) else None
        if row is None or "macs" not in row.hooks:
            continue
        types = [arg.checked_type for arg in node.args]
        if any(map(is_dynamic, [*types, node.checked_type])):
            what = f"the multiply-accumulates of {row.name} cannot be counted"
            got = f"{', '.join(map(str, types))} returns {node.checked_type}"
            hint = "give main's parameters shapes of numbers"
            raise ValueError(explain(what, got=got, instead=hint, span=node.span))
        total += row.hooks["macs"](types, row.values_of(node), node.checked_type)
    return total
