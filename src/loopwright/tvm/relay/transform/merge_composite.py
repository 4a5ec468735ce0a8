"""MergeComposite: a match of a pattern becomes the call of a function with the pattern's name.

before: nn.relu(add(%x, %y))
after:  fn (%a, %b, Composite="add_relu") { nn.relu(add(%a, %b)) }(%x, %y)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ....base.errors import explain
from ....ir.module import IRModule
from ..dataflow_pattern import partition
from ..dataflow_pattern.nodes import CallPattern
from ..expr import Function
from ..infer import infer_function
from .base import RelayPass


class MergeComposite(RelayPass):
    """A match of a pattern becomes the call of a function with the pattern's name. pattern_table:
    (name, pattern) or (name, pattern, check), the first one first; `check(expr)` says of a match,
    by its last expression, whether it is taken."""

    def __init__(self, pattern_table: Iterable[Any]) -> None:
        self.pattern_table = [_row(row) for row in pattern_table]

    def run_function(self, func: Function, mod: IRModule) -> Function:
        for name, pattern, check in self.pattern_table:
            merged = partition(pattern, func, {"Composite": name}, check)
            func = func if merged is func else infer_function(merged, mod)
        return func


def _row(row: CallPattern | Sequence[Any]) -> tuple[str, Any, Any]:
    if isinstance(row, (tuple, list)) and len(row) in (2, 3):
        name, pattern, *check = row
        return name, pattern, check[0] if check else lambda match: True
    what = "a row of a pattern table is (name, pattern) or (name, pattern, check)"
    raise ValueError(explain(what, got=repr(row)))
