"""FastMath: exp, tanh, erf and softmax become fast, less exact approximations.

before: exp(%x)
after:  fast_exp(%x)
"""

from __future__ import annotations

from typing import Any

from ....ir.op import Op
from ..expr import Call
from ..operators.core import ROWS
from ..walk import name_of
from .base import RelayPass

FAST = {name.replace("fast_", ""): name for name in ROWS if "fast_" in name}


class FastMath(RelayPass):
    """Exp, tanh, erf and softmax become fast, less exact approximations."""

    opt_level = 4

    operators = FAST

    def replaced(self, old: Call, new: Call) -> Any:
        return new.replace(op=Op.get(FAST[name_of(new)]))
