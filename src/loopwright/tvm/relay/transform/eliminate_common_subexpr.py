"""EliminateCommonSubexpr: values computed twice are computed once.

before: add(nn.relu(%x), nn.relu(%x))
after:  %0 = nn.relu(%x); add(%0, %0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.structural import structural_equal, structural_hash
from ..expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from ..walk import rewrite
from .base import RelayPass

STATEFUL = "TOpIsStateful"


class EliminateCommonSubexpr(RelayPass):
    """Values computed twice are computed once. fskip: calls for which it holds are left alone."""

    fskip: Callable[[Expr], bool] | None = None

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        calls: dict[Any, list[Call]] = {}
        fields: dict[tuple[int, int], TupleGetItem] = {}

        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if isinstance(new, TupleGetItem):
                return fields.setdefault((id(new.tuple_value), new.index), new)
            if not isinstance(new, Call) or not isinstance(new.op, Op):
                return None
            if new.op.get_attr(STATEFUL) or (self.fskip is not None and self.fskip(new)):
                return None
            same = calls.setdefault((new.op.name, structural_hash(new.attrs)), [])
            earlier = next((c for c in same if _same_call(c, new)), None)
            if earlier is None:
                same.append(new)
            return earlier

        return rewrite(func, post)


def _same_call(a: Call, b: Call) -> bool:
    """Whether two calls of an operator have the same attributes and arguments."""
    return structural_equal(a.attrs, b.attrs) and _same_values(a.args, b.args)


def _same_values(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_same_value, a, b))


def _same_value(a: Expr, b: Expr) -> bool:
    if a is b:
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        return a.data.shape == () and structural_equal(a, b)
    return isinstance(a, Tuple) and isinstance(b, Tuple) and _same_values(a.fields, b.fields)
