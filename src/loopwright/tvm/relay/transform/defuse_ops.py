"""DefuseOps: calls of functions where they are defined become their bodies: the inverse of FuseOps.

before: fn (%p0, Primitive=1) { exp(negative(%p0)) }(%x)
after:  exp(negative(%x))
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..walk import bind, rewrite
from .base import RelayPass


class DefuseOps(RelayPass):
    """Calls of functions where they are defined become their bodies: the inverse of FuseOps."""

    def run_function(self, func: Function, mod: IRModule) -> Function:
        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if isinstance(new, Call) and isinstance(new.op, Function):
                table = dict(zip(new.op.params, new.args, strict=True))
                return bind(new.op.body, table)
            return None

        return rewrite(func, post)
