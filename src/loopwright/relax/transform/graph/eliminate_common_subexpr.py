"""EliminateCommonSubexpr: computes equal values once.

Values that an in-place call writes over stay apart.

Before (-) and after (+)::

      @R.function
      def main(x: R.Tensor((2,), dtype="float32")) -> R.Tensor((2,), dtype="float32"):
          with R.dataflow():
              lv = R.exp(x)
    -         lv1 = R.exp(x)
    -         gv = R.add(lv, lv1)
    +         lv1 = lv
    +         gv = R.add(lv, lv)
              R.output(gv)
          return gv
"""

from __future__ import annotations

from typing import Any

from ....ir.op import Op
from ....ir.structural import StructuralKey
from ....ir.transform import FunctionPass, IRModule, PassContext
from ...analysis.variables import overwritten_vars
from ...expr import Call, DataflowVar, Expr, Function, MatchCast, SeqExpr, Var, VarBinding
from ...functor import GraphRewriter
from ...op.storage import (
    BUILTIN_ALLOC_TENSOR,
    MEMORY_ALLOC_STORAGE,
    MEMORY_ALLOC_TENSOR,
    VM_ALLOC_STORAGE,
    VM_ALLOC_TENSOR,
)
from ..queries import is_pure

_FRESH = (
    BUILTIN_ALLOC_TENSOR,
    MEMORY_ALLOC_STORAGE,
    MEMORY_ALLOC_TENSOR,
    VM_ALLOC_STORAGE,
    VM_ALLOC_TENSOR,
)


class EliminateCommonSubexpr(FunctionPass, repr=False):
    """Reuse the first of equal pure values.

    call_only: consider calls only, not tuples and fields.
    """

    opt_level = 1
    function_type = Function
    call_only: bool = False

    def run_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Any:
        return _Reuser(mod, self.call_only, overwritten_vars(func)).function(func)


class _Reuser(GraphRewriter):
    def __init__(self, mod: IRModule, call_only: bool, unique: set[Var]) -> None:
        super().__init__(mod)
        self.call_only = call_only
        self.unique = unique
        self.seen: dict[Any, Var] = {}
        self.outputs: dict[Var, Any] = {}  # a block's outputs that dataflow variables hold -> key

    def block(self, block: Any) -> Any:
        outer, self.outputs = self.outputs, {}
        new = super().block(block)
        # Dataflow variables leave the scope with their block; after it, outputs are used.
        for var, key in self.outputs.items():
            del self.var_map[var]
            self.seen[key] = var
        self.seen = {k: v for k, v in self.seen.items() if not isinstance(v, DataflowVar)}
        self.outputs = outer
        return new

    def seq(self, seq: SeqExpr, in_dataflow: bool = False) -> Any:
        outer = dict(self.seen)
        new = super().seq(seq, in_dataflow)
        self.seen = outer  # values computed in a branch are visible only there
        return new

    def binding(self, binding: VarBinding) -> None:
        value = self.value(binding.value)
        var = binding.var
        cast = isinstance(binding, MatchCast)
        if var in self.unique or not (cast or self.reusable(value)):
            self.emit(binding, value)
            return
        if value.struct_info is None:
            value = self.builder.normalize(value)
        key: Any = StructuralKey(value, map_free_vars=False)
        if cast:  # an equal one defines no new symbols
            key = key, StructuralKey(binding.struct_info, map_free_vars=False)
        first = self.seen.get(key)
        if first is None:
            self.emit(binding, value)
            self.seen[key] = self.var_map.get(var, var)
            return
        if isinstance(first, DataflowVar) and not isinstance(var, DataflowVar):
            self.outputs[var] = key
        self.var_map[var] = first
        self.builder.emit_normalized(VarBinding._make(var, first, span=binding.span))

    def reusable(self, value: Expr) -> bool:
        """Whether equal values of this kind are interchangeable."""
        if isinstance(value, Call):
            fresh = value.op in _FRESH if isinstance(value.op, Op) else False
            return not fresh and is_pure(value)
        return not self.call_only and type(value).__name__ in ("Tuple", "TupleGetItem")
