"""DivToMul: a division by a constant becomes a product with its reciprocal.

before: divide(%x, 4f)
after:  multiply(%x, 0.25f)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..expr import Call, Constant
from ..operators.core import VIEWS
from .base import RelayPass


class DivToMul(RelayPass):
    """A division by a constant becomes a product with its reciprocal. Integers stay: their
    division is not a product."""

    operators = ("divide",)

    def replaced(self, old: Call, new: Call) -> Any:
        divisor = new.args[1]
        if not isinstance(divisor, Constant) or not divisor.data.dtype.startswith("float"):
            return None
        values = divisor.data.numpy()
        if not np.all(values):
            return None
        return VIEWS["multiply"](new.args[0], Constant((1 / values).astype(values.dtype)))
