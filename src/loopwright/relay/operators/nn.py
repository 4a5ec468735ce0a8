"""Operators of neural networks."""

from __future__ import annotations

from typing import Any

from ..types import TensorType
from .core import Input, R, op


@op("nn.relu")
def relu(data: Input) -> Any:
    """max(data, 0)"""
    return R.nn.relu(data)


@relu.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    return types[0]


@op("nn.dense", attrs="DenseAttrs")
def dense(data: Input, weight: Input, units: Any = None, out_dtype: str = "") -> Any:
    """data @ weight.T, of the last axis of each."""
    return R.matmul(data, R.permute_dims(weight), out_dtype or None)


@dense.arguments
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data = types[0]
    if attrs["units"] is None or not isinstance(data, TensorType):
        return None
    return None, TensorType((attrs["units"], data.shape[-1]), data.dtype)
