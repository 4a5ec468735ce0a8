"""AlterOpLayout: calls become others, in other layouts, by the rules of their operators.

A rule is the fact "FTVMAlterOpLayout": `rule(attrs, inputs, tinfos, out_type) -> call`, with `tinfos` a
te placeholder for each argument. None leaves the call as it is. What follows is kept in that layout as
long as the rules of `operators.layouts` allow.

    before: nn.relu(nn.conv2d(%x, %w))      # a rule requests NCHW16c
    after:  %0 = nn.conv2d(layout_transform(%x, "NCHW", "NCHW16c"), %w, data_layout="NCHW16c")
            layout_transform(nn.relu(%0), "NCHW16c", "NCHW")
"""

from __future__ import annotations

from typing import Any

from ....ir.expr import Attrs
from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Function
from ..strategy import placeholders
from ..walk import post_order
from .base import RelayPass
from .layout_rewrite import LayoutRewriter, as_call

RULE = "FTVMAlterOpLayout"


class AlterOpLayout(RelayPass):
    """Calls become others, in other layouts, by the rules of their operators."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        calls = (n.op for n in post_order(func) if isinstance(n, Call) and isinstance(n.op, Op))
        if not any(map(_has_rule, calls)):
            return func
        return LayoutRewriter(_altered, _has_rule).run(func)


def _has_rule(op: Op) -> bool:
    return op.get_attr(RULE) is not None


def _altered(call: Call, attrs: Attrs | None, args: list[Any]) -> Any:
    rule = call.op.get_attr(RULE)
    if rule is None:
        return None
    infos = [p for a in call.args for p in placeholders(a.checked_type)]
    return as_call(rule(attrs, args, infos, call.checked_type), call.op.name)
