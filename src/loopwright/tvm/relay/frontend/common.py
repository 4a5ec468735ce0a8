"""Queries of importers on expressions that they have built: types, shapes, values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....ir.module import IRModule
from ....ir.prim_expr import IntImm
from ....runtime.tensor import Tensor, tensor
from ..build_module import create_executor
from ..expr import Constant, Expr, bind
from ..infer import infer_function
from ..walk import free_vars


def infer_type(node: Expr, mod: IRModule | None = None) -> Any:
    """An expression with its types."""
    return infer_function(node, mod)


def infer_shape(inputs: Expr, mod: IRModule | None = None) -> tuple[Any, ...]:
    """The shape of an expression's value: ints, and unknown extents unchanged."""
    type_ = infer_type(inputs, mod).checked_type
    return tuple(d.value if isinstance(d, IntImm) else d for d in type_.shape)


def infer_channels(inputs: Expr, transpose: bool = False) -> Any:
    """The channels of a convolution's weights: the first axis, of transposed ones the second."""
    return infer_shape(inputs)[1 if transpose else 0]


def infer_value(input_val: Expr, params: Mapping[str, Any], mod: IRModule | None = None) -> Any:
    """The value of an expression whose free variables are parameters with these arrays."""
    binds = {v: _constant(params[v.name_hint]) for v in free_vars(input_val)}
    return create_executor("debug", mod).evaluate(bind(input_val, binds))


def _constant(value: np.ndarray[Any, Any]) -> Any:
    return Constant(value if isinstance(value, Tensor) else tensor(value))
