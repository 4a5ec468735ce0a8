"""The memory plan over time: the offset of each tensor, and the calls between which it is live."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..ir.dtype import DataType
from ..ir.functor import nodes_of, post_order_visit
from ..ir.prim_expr import IntImm, PrimExpr, Var
from ..relax.expr import Call, Expr, Function
from ..relax.expr import Var as RelaxVar
from ..tir.function import PrimFunc
from .explored import Explored
from .origins import names_of
from .work import integer

_STORAGE, _TENSOR = "relax.memory.alloc_storage", "relax.memory.alloc_tensor"


def memory_of(
    explored: Explored, sizes: Mapping[str, int], set_of: Callable[[Iterable[str]], int]
) -> dict[str, Any] | None:
    """Storages one above the other, and in each the tensors with the first and last call that uses
    them; None where memory was not planned."""
    for record in explored.steps:
        main = record.after.get("main")
        if record.name == "StaticPlanBlockMemory" and isinstance(main, Function):
            return _Plan(main, sizes, set_of).data()
    return None


class _Plan:
    def __init__(
        self, func: PrimFunc | Function | str, sizes: Mapping[str, int], set_of: Callable[..., Any]
    ) -> None:
        self.func, self.sizes, self.set_of = func, sizes, set_of
        self.storages: dict[Any, tuple[int, int]] = {}  # variable -> offset, bytes
        self.tensors: dict[Any, dict[str, Any]] = {}
        self.steps: list[str] = []
        self.top = 0

    def data(self) -> dict[str, Any] | None:
        for block in self.func.body.blocks:
            for binding in block.bindings:
                self.binding(binding)
        self.use(self.func.body.body)
        tensors = [t for t in self.tensors.values() if "first" in t]
        if not tensors:
            return None
        return {"steps": self.steps, "bytes": self.top, "tensors": tensors}

    def binding(self, binding: Any) -> None:
        value = binding.value
        op = getattr(getattr(value, "op", None), "name", "") if isinstance(value, Call) else ""
        if op == _STORAGE:
            bytes_ = self.product(value.args[0].values)
            self.storages[binding.var] = self.top, bytes_
            self.top += -(-bytes_ // 64) * 64
        elif op == _TENSOR and value.args[0] in self.storages:
            info = binding.var.struct_info
            offset, _ = self.storages[value.args[0]]
            bytes_ = self.product(info.get_shape()) * DataType(info.dtype).bits // 8
            row = {"name": binding.var.name_hint, "offset": offset, "bytes": bytes_}
            self.tensors[binding.var] = {**row, "set": 0}
        elif isinstance(value, RelaxVar):
            if value in self.tensors:
                self.tensors[binding.var] = self.tensors[value]
        elif isinstance(value, Call) and not op.startswith("relax.memory.kill"):
            callee = getattr(value.op, "name_hint", op)
            nodes = names_of(binding.span or value.span)
            used = self.use(value)
            if used:
                result = used[-1]
                result["set"] = result["set"] or self.set_of(nodes)
                self.steps.append(callee)

    def use(self, node: Expr) -> list[dict[str, Any]]:
        """The tensors in a call, whose lives reach to it."""
        used: list[Any] = []
        post_order_visit(node, lambda n: used.append(n) if n in self.tensors else None)
        rows = [self.tensors[var] for var in used]
        for row in rows:
            row.setdefault("first", len(self.steps))
            row["last"] = len(self.steps)
        return rows

    def product(self, dims: Sequence[PrimExpr]) -> int:
        """The product of extents; a symbolic size that is not given counts as 1."""
        values = [self.number(dim) for dim in dims]
        return math.prod(values)

    def number(self, dim: PrimExpr) -> int:
        fixed = {v: IntImm(v.dtype, self.sizes.get(v.name, 1)) for v in nodes_of(dim, Var)}
        return integer(dim, fixed) or 0
