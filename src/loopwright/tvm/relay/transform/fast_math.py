"""FastMath: exp, tanh, erf and softmax become fast, less exact approximations.

before: exp(%x)
after:  fast_exp(%x)
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..walk import rewrite
from .base import RelayPass

FAST = {
    "exp": "fast_exp", "tanh": "fast_tanh", "erf": "fast_erf", "nn.softmax": "nn.fast_softmax",
}  # fmt: skip


class FastMath(RelayPass):
    """Exp, tanh, erf and softmax become fast, less exact approximations."""

    opt_level = 4

    def run_function(self, func: Function, mod: IRModule) -> Function:
        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if isinstance(new, Call) and isinstance(new.op, Op) and new.op.name in FAST:
                return new.replace(op=Op.get(FAST[new.op.name]))
            return None

        return rewrite(func, post)
