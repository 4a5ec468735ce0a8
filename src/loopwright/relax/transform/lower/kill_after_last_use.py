"""KillAfterLastUse: drops values after their last use.

Aliases are removed first (CanonicalizeBindings). Then a kill is inserted after the last use of
every storage, allocated tensor and call result.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
          R.func_attr({"relax.force_pure": True})
          storage: R.Object = R.memory.alloc_storage(R.shape([16]), R.prim_value(0), R.str("global"), R.dtype("uint8"))
          alloc: R.Tensor((4,), dtype="float32") = R.memory.alloc_tensor(storage, R.prim_value(0), R.shape([4]), R.dtype("float32"))
    +     R.memory.kill_storage(storage)
          y: R.Tensor((4,), dtype="float32") = R.add(alloc, x)
    +     R.memory.kill_tensor(alloc)
          return y
"""

from __future__ import annotations

from typing import Any

from ....ir.op import Op
from ....ir.transform import FunctionPass, IRModule, PassContext
from ...expr import Binding, Call, DataflowBlock, Function, MatchCast, Var, VarBinding
from ...op.storage import (
    MEMORY_ALLOC_STORAGE,
    MEMORY_KILL_STORAGE,
    MEMORY_KILL_TENSOR,
    VM_ALLOC_STORAGE,
    VM_KILL_OBJECT,
)
from ...struct_info import TensorStructInfo, TupleStructInfo
from ..graph.canonicalize import canonicalize
from ..queries import BodyRewriter, used_vars

_KILLS = (MEMORY_KILL_STORAGE, MEMORY_KILL_TENSOR, VM_KILL_OBJECT)


class KillAfterLastUse(FunctionPass):
    """Drop storages and tensors after their last use."""

    function_type = Function

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Killer(mod).function(canonicalize(func, mod))


class _Killer(BodyRewriter):
    def block(self, block: Any, live_out: dict[Var, None]) -> Any:
        if isinstance(block, DataflowBlock):
            return block
        last: dict[Var, int] = {}
        kills: dict[Var, Op] = {}
        killed: set[Var] = set()
        for n, binding in enumerate(block.bindings):
            value = binding.value
            if isinstance(value, Call) and value.op in _KILLS:
                killed.update(used_vars(value))
            for var in used_vars(value):
                last[var] = n
            kill = _kill_of(binding)
            if kill is not None:
                kills[binding.var] = kill
                last.setdefault(binding.var, n)
        at: dict[int, list[Var]] = {}
        for var in kills:
            if var not in live_out and var not in killed:
                at.setdefault(last[var], []).append(var)
        bindings = []
        for n, binding in enumerate(block.bindings):
            bindings.append(binding.replace(value=self.value(binding.value)))
            dying = at.get(n, ())
            # Tensors before their storage.
            for var in sorted(dying, key=lambda v: kills[v] is MEMORY_KILL_STORAGE):
                bindings.append(_kill(kills[var], var))
        same = len(bindings) == len(block.bindings) and all(
            a is b for a, b in zip(bindings, block.bindings, strict=True)
        )
        return block if same else type(block)(bindings, span=block.span)


def _kill_of(binding: Binding) -> Op | None:
    """The kill operator for a binding's value, or None if it needs none."""
    value = binding.value
    if type(binding) is MatchCast:  # the virtual machine has another register for it
        is_tensor = isinstance(binding.var.struct_info, TensorStructInfo)
        return MEMORY_KILL_TENSOR if is_tensor else None
    if not isinstance(value, Call):
        return None
    if value.op is MEMORY_ALLOC_STORAGE or value.op is VM_ALLOC_STORAGE:
        return MEMORY_KILL_STORAGE
    return MEMORY_KILL_TENSOR if isinstance(value.struct_info, TensorStructInfo) else None


def _kill(op: Op, var: Var) -> VarBinding:
    call = Call(op, [var])
    call._update_struct_info(TupleStructInfo([]))
    return VarBinding(Var("_", call.struct_info), call)
