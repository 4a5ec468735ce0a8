"""Legalize: calls of operators are replaced by their rules for the target.

A rule is the fact "FTVMLegalize" of an operator: `rule(attrs, inputs, types) -> expression`, where `types`
are those of the arguments and of the result. None leaves the call as it is.

    before: nn.conv2d(%x, %w)      # a rule doubles the weight
    after:  nn.conv2d(%x, multiply(%w, 2f))
"""

from __future__ import annotations

from typing import Any

from ..expr import TupleWrapper
from ..walk import name_of
from .base import RelayPass


class Legalize(RelayPass):
    """Calls of operators are replaced by their rules for the target. legalize_map_attr_name: the
    fact that has the rules."""

    legalize_map_attr_name: str = "FTVMLegalize"

    opt_level = 1

    def replaced(self, old: Any, new: Any) -> Any:
        rule = new.op.get_attr(self.legalize_map_attr_name) if name_of(new) else None
        if rule is None:
            return None
        types = [*(a.checked_type for a in old.args), old.checked_type]
        result = rule(new.attrs, list(new.args), types)
        return result.tuple_value if isinstance(result, TupleWrapper) else result
