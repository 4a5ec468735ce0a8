"""Tensor expressions of the operators, under TVM's names: `topi.add(a, b)`, `topi.nn.relu(x)`.

A view of `ops/`: every operator's body is here under its name as a tensor expression. Where topi's
signature is another than the graph operator's, a short function here puts the arguments in order.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..ops import OPERATORS
from ..ops.create import full as _full
from ..ops.manipulate import transpose as transpose
from . import nn as nn

for _operator in OPERATORS.values():
    if _operator.name.count(".") == 1:
        globals().setdefault(_operator.te_name, _operator)
        globals().setdefault(_operator.name.removeprefix("relax."), _operator)


def full(shape: Any, dtype: Any, fill_value: Any) -> te.Tensor:
    """A tensor of `shape` whose elements are all `fill_value`."""
    return _full(shape, te.const(fill_value, dtype), dtype)


def full_like(x: te.Tensor, fill_value: Any) -> te.Tensor:
    """A tensor of x's shape and dtype whose elements are all `fill_value`."""
    return full(x.shape, x.dtype, fill_value)


def trilu(data: te.Tensor, k: Any, upper: bool) -> te.Tensor:
    """The upper (or lower) triangle from diagonal `k` on; the rest is 0."""
    return OPERATORS["relax.triu" if upper else "relax.tril"](data, k)


def __getattr__(name: str) -> Any:
    raise AttributeError(f"topi has no {name!r}")
