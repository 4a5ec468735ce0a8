"""AlterOpLayout: calls become others, in other layouts, by the rules of their operators.

A rule is the fact "FTVMAlterOpLayout": `rule(attrs, inputs, tinfos, out_type) -> call`, with `tinfos` a
te placeholder for each argument. None leaves the call as it is. What follows is kept in that layout as
long as the rules of `operators.layouts` allow.

    before: nn.relu(nn.conv2d(%x, %w))      # a rule asks for NCHW16c
    after:  %0 = nn.conv2d(layout_transform(%x, "NCHW", "NCHW16c"), %w, data_layout="NCHW16c")
            layout_transform(nn.relu(%0), "NCHW16c", "NCHW")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.module import IRModule
from ..expr import Call, Function
from ..strategy import placeholders
from .base import RelayPass
from .layout_rewrite import LayoutRewriter, as_call

RULE = "FTVMAlterOpLayout"


@dataclass(frozen=True)
class AlterOpLayout(RelayPass):
    """See the file's docstring."""

    name = "relay.AlterOpLayout"
    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        return LayoutRewriter(_altered, lambda op: op.get_attr(RULE) is not None).run(func)


def _altered(call: Call, attrs: Any, args: list[Any]) -> Any:
    rule = call.op.get_attr(RULE)
    if rule is None:
        return None
    infos = [p for a in call.args for p in placeholders(a.checked_type)]
    return as_call(rule(attrs, args, infos, call.checked_type), call.op.name)
