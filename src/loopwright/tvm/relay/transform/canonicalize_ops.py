"""CanonicalizeOps: nn.bias_add becomes an addition of a broadcast vector.

before: nn.bias_add(%x, %b)       # %x: Tensor[(1, 3, 8, 8), float32]
after:  add(%x, expand_dims(%b, axis=1, num_newaxis=2))
"""

from __future__ import annotations

from typing import Any

from ..expr import Call
from ..operators.core import VIEWS
from .base import RelayPass
from .simplify_inference import spread


class CanonicalizeOps(RelayPass):
    """nn.bias_add becomes an addition of a broadcast vector."""

    opt_level = 3

    operators = ("nn.bias_add",)

    def replaced(self, old: Call, new: Call) -> Any:
        data, bias = new.args
        rank = len(old.args[0].checked_type.shape)
        return VIEWS["add"](data, spread(bias, rank, int(new.attrs.axis)))
