"""ChangeBatch: parameters of another batch size.

before: fn (%x: Tensor[(1, 8), float32]) { nn.relu(%x) }
after:  fn (%x: Tensor[(16, 8), float32]) { nn.relu(%x) }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ....base.errors import explain
from ....ir.module import IRModule
from ..expr import Function, Var
from ..types import TensorType
from ..walk import rewrite
from .base import RelayPass


class ChangeBatch(RelayPass):
    """Give parameters another extent along an axis.

    data: the axis by the parameter. Types are inferred again; those of other parameters stay."""

    data: Mapping[Var, int] = field(default_factory=dict)
    batch_size: int = 16

    def run_function(self, func: Function, mod: IRModule) -> Function:
        new: dict[int, Any] = {}
        for param in func.params:
            if param in self.data:
                new[id(param)] = self._changed(param)
        if not new:
            return func
        body = rewrite(func.body, pre=lambda node: new.get(id(node)))
        params = [new.get(id(p), p) for p in func.params]
        return Function(params, body, None, func.type_params, func.attrs, func.span)

    def _changed(self, param: Var) -> Var:
        kind, axis = param.type_annotation, self.data[param]
        if not isinstance(kind, TensorType) or not -len(kind.shape) <= axis < len(kind.shape):
            what = f"the parameter {param.name_hint} has no axis {axis}"
            raise ValueError(explain(what, got=str(kind)))
        shape: list[Any] = list(kind.shape)
        shape[axis] = self.batch_size
        return Var(param.name_hint, TensorType(shape, kind.dtype), param.span)
