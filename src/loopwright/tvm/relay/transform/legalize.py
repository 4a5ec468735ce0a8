"""Legalize: calls of operators are replaced by their rules for the target.

A rule is the fact "FTVMLegalize" of an operator: `rule(attrs, inputs, types) -> expression`, where `types`
are those of the arguments and of the result. None leaves the call as it is.

    before: nn.conv2d(%x, %w)      # a rule doubles the weight
    after:  nn.conv2d(%x, multiply(%w, 2f))
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import BaseExpr
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Function, TupleWrapper
from ..walk import rewrite
from .base import RelayPass


class Legalize(RelayPass):
    """Calls of operators are replaced by their rules for the target. legalize_map_attr_name: the
    fact that has the rules."""

    legalize_map_attr_name: str = "FTVMLegalize"

    opt_level = 1

    def run_function(self, func: Function, mod: IRModule) -> Function:
        def post(old: Any, new: BaseExpr) -> Any:
            if not isinstance(new, Call) or not isinstance(new.op, Op):
                return None
            rule = new.op.get_attr(self.legalize_map_attr_name)
            if rule is None:
                return None
            types = [*(a.checked_type for a in old.args), old.checked_type]
            result = rule(new.attrs, list(new.args), types)
            return result.tuple_value if isinstance(result, TupleWrapper) else result

        return rewrite(func, post)
