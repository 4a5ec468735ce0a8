"""Small helpers under TVM's names."""

from __future__ import annotations

from typing import Any

from .expr import Expr, as_expr
from .specialize import copy_with_new_vars  # noqa: F401
from .te_call import gen_call_tir_inputs  # noqa: F401


def convert_to_expr(value: Any) -> Expr:
    """A Relax expression from an expression, a number, a string, a scalar expression, or a list."""
    return as_expr(value)
