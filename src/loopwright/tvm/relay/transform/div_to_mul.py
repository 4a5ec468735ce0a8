"""DivToMul: a division by a constant becomes a product with its reciprocal.

before: divide(%x, 4f)
after:  multiply(%x, 0.25f)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Constant, Expr, Function
from ..operators.core import VIEWS
from ..walk import rewrite
from .base import RelayPass


class DivToMul(RelayPass):
    """A division by a constant becomes a product with its reciprocal. Integers stay: their
    division is not a product."""

    def run_function(self, func: Function, mod: IRModule) -> Function:
        def post(old: Op | Expr, new: Op | Expr) -> Any:
            if not isinstance(new, Call) or new.op is not Op.get("divide"):
                return None
            divisor = new.args[1]
            if not isinstance(divisor, Constant) or not divisor.data.dtype.startswith("float"):
                return None
            values = divisor.data.numpy()
            if not np.all(values):
                return None
            return VIEWS["multiply"](new.args[0], Constant((1 / values).astype(values.dtype)))

        return rewrite(func, post)
