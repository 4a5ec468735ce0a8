"""Weights that a function transposes before `nn.dense`, transposed in the parameters instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....ir.module import IRModule
from ....runtime.tensor import Tensor, tensor
from ..analysis import search_fc_transpose
from ..expr import Function
from ..transform.simplify_fc_transpose import SimplifyFCTranspose


def convert(func: Function, params: Mapping[str, Any]) -> tuple[Function, dict[str, Any]]:
    """The function that takes `w.T` instead of `w` where it computes `nn.dense(x, transpose(w))`,
    and its parameters: all that were given, and the transposed ones."""
    names = [name for name in search_fc_transpose(func) if name in params]
    arrays = dict(params)
    for name in names:
        value = params[name]
        array = value.numpy() if isinstance(value, Tensor) else value
        arrays[f"{name}.T"] = tensor(array.T.copy())
    new = SimplifyFCTranspose(names)(IRModule.from_expr(func))["main"]
    used_names = {param.name_hint for param in new.params}
    return new, {name: v for name, v in arrays.items() if name in used_names or name not in names}
