"""SimplifyFCTranspose: a weight that is transposed before `nn.dense` is taken transposed.

before: fn (%x, %w: Tensor[(4, 8)]) { nn.dense(%x, transpose(%w)) }
after:  fn (%x, %"w.T": Tensor[(8, 4)]) { nn.dense(%x, %"w.T") }
"""

from __future__ import annotations

from typing import Any

from ....ir.module import IRModule
from ....ir.op import Op
from ..expr import Call, Expr, Function, Var
from ..types import TensorType
from ..walk import free_vars, name_of, rewrite
from .base import RelayPass


def transposed_weight(node: Op | Expr) -> Var | None:
    """`w` of `nn.dense(x, transpose(w))`, None for other expressions."""
    if name_of(node) != "nn.dense" or name_of(node.args[1]) != "transpose":
        return None
    weight, axes = node.args[1].args[0], node.args[1].attrs.axes
    is_transpose = not axes or [int(axis) % 2 for axis in axes] == [1, 0]
    return weight if isinstance(weight, Var) and is_transpose else None


class SimplifyFCTranspose(RelayPass):
    """Let functions take weights of these names transposed, as `<name>.T`.

    A weight that is used otherwise too stays a parameter."""

    target_weight_name: Any = ()

    def run_function(self, func: Function, mod: IRModule) -> Function:
        names = {str(name) for name in self.target_weight_name}
        new: dict[int, Var] = {}

        def turn(old: Op | Expr, copy: Op | Expr) -> Any:
            weight = transposed_weight(old)
            if weight is None or weight.name_hint not in names:
                return None
            if id(weight) not in new:
                kind = weight.checked_type
                transposed = TensorType(list(reversed(kind.shape)), kind.dtype)
                new[id(weight)] = Var(f"{weight.name_hint}.T", transposed)
            return Call(copy.op, (copy.args[0], new[id(weight)]), copy.attrs, span=copy.span)

        body = rewrite(func.body, post=turn)
        if not new:
            return func
        used = {id(var) for var in free_vars(body)}
        params = []
        for param in func.params:
            params += [param] if id(param) in used or id(param) not in new else []
            params += [new[id(param)]] if id(param) in new else []
        return Function(params, body, func.ret_type, func.type_params, func.attrs, func.span)
