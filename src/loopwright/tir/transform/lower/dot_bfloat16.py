"""`DotBfloat16`: two products of bfloat16 numbers and their sum are one instruction.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((2,), "bfloat16"), B: T.Buffer((32,), "bfloat16"), C: T.Buffer((16,), "float32")):
          T.func_attr({"target": T.target("llvm -mtriple=x86_64-linux-gnu -mcpu=cooperlake")})
    -     for k in T.unroll(2, annotations={"dot_bfloat16": 1}):
    -         C[0:16] = C[0:16] + T.Broadcast(T.Cast("float32", A[k]), 16) * T.Cast("float32x16", B[k:k + 32:2])
    +     C[0:16] = T.call_llvm_pure_intrin("float32x16", "llvm.x86.avx512bf16.dpbf16ps.512", C[0:16], T.reinterpret("bfloat16x32", T.Broadcast(T.reinterpret("int32", A[0:2]), 16)), B[0:32])

Only loops that a schedule annotates `dot_bfloat16`, for a target with the feature avx512bf16: the
instruction takes subnormal numbers for 0 and rounds the sum of the two products on its own. Elsewhere
the annotation does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....ir.literals import int_value
from ....ir.prim_expr import Add, Broadcast, Cast, Mul, PrimExpr, Ramp, Var
from ....ir.prim_op import add, const
from ....ir.structural import structural_equal
from ....ir.target import Target
from ....ir.variables import substitute
from ... import stmt as st
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import call_llvm_pure_intrin, reinterpret
from ...stmt_functor import ExprKeeper
from ..base import PrimFuncPass, StmtRewriter, under_names

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

MARK = "dot_bfloat16"
FEATURE = "avx512bf16"


class _Dots(ExprKeeper, StmtRewriter):
    def __init__(self) -> None:
        self.ana = Analyzer()

    def visit_For(self, node: st.For) -> Any:
        if MARK not in node.annotations or int_value(node.extent) != 2:
            return self.visit_default(node)
        return under_names(node.body, lambda store: self.dot(store, node.loop_var)) or node

    def dot(self, store: st.BufferStore, var: Var) -> st.Stmt | None:
        """Both steps of an accumulation at once."""
        value = store.value
        if not isinstance(value, Add) or not isinstance(value.b, Mul):
            return None
        total = value.a
        same = isinstance(total, BufferLoad) and total.buffer is store.buffer
        if not same or not structural_equal(total.indices, store.indices):
            return None
        parts = [self.pairs(f, var, value.dtype.lanes) for f in (value.b.a, value.b.b)]
        if None in parts:
            return None
        name = f"llvm.x86.{FEATURE}.dpbf16ps.{32 * value.dtype.lanes}"
        return store.replace(value=call_llvm_pure_intrin(str(value.dtype), name, total, *parts))

    def pairs(self, factor: PrimExpr, var: Var, lanes: int) -> PrimExpr | None:
        """Both numbers of each lane side by side; None if they are not adjacent in memory."""
        if isinstance(factor, Broadcast) and isinstance(factor.value, Cast):
            load: Any = factor.value.value
            at = load.indices[-1] if isinstance(load, BufferLoad) else None
            pair = None if at is None else self.contiguous(load, at, var, 2)
            if pair is None:
                return None
            both = Broadcast(reinterpret("int32", pair), lanes)
            return reinterpret(f"bfloat16x{2 * lanes}", both)
        load = factor.value if isinstance(factor, Cast) else None
        index = load.indices[-1] if isinstance(load, BufferLoad) else None
        if not isinstance(index, Ramp) or int_value(index.stride) != 2:
            return None
        return self.contiguous(load, index.base, var, 2 * lanes)

    def contiguous(self, load: BufferLoad, at: PrimExpr, var: Var, count: int) -> PrimExpr | None:
        """`count` elements from where `at` begins, if it moves with the variable."""
        first = self.ana.simplify(substitute(at, {var: const(0, var.dtype)}))
        if str(load.buffer.dtype) != "bfloat16" or load.predicate is not None:
            return None
        if len(load.indices) > 1 or not self.ana.can_prove_equal(at, add(first, var)):
            return None
        return load.replace(indices=(Ramp(first, const(1, first.dtype), count),))


class DotBfloat16(PrimFuncPass):
    """Two products of bfloat16 numbers and their sum are one instruction."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        target = func.attrs.get("target") or Target.current(allow_none=True)
        if target is None or FEATURE not in target.features:
            return func
        return func.replace(body=_Dots().visit(func.body))
