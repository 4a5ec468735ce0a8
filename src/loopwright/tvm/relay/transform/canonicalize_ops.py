"""CanonicalizeOps: nn.bias_add becomes an addition of a broadcast vector.

before: nn.bias_add(%x, %b)       # %x: Tensor[(1, 3, 8, 8), float32]
after:  add(%x, expand_dims(%b, axis=1, num_newaxis=2))
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function
from ..operators.core import VIEWS
from ..walk import rewrite
from .base import RelayPass
from .simplify_inference import spread


class CanonicalizeOps(RelayPass):
    """nn.bias_add becomes an addition of a broadcast vector."""

    opt_level = 3

    def run_function(self, func: Function, mod: IRModule) -> Function:
        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if not isinstance(new, Call) or new.op is not Op.get("nn.bias_add"):
                return None
            rank = len(old.args[0].checked_type.shape)
            data, bias = new.args
            return VIEWS["add"](data, spread(bias, rank, int(new.attrs.axis)))

        return rewrite(func, post)
