"""`NarrowDataType`: makes loops and indices as wide as `target_bits` if that is known to suffice.

Before (-) and after (+)::

      @T.prim_func
    - def main(A: T.Buffer((T.int64(64),), "float32")):
    -     for i in range(T.int64(64)):
    + def main(A: T.Buffer((64,), "float32")):
    +     for i in range(64):
              A[i] = T.float32(1)

Pass::

    NarrowDataType(32)

A function with symbolic extents, with a buffer that is too large, or with an index or condition that
may not fit, is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...arith import Analyzer
from ...arith.atoms import is_index
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import BinaryOpExpr, IntImm, PrimExpr
from ...tir.expr import reads_memory
from ...tir.function import PrimFunc
from ...tir.index_dtype import with_index_dtype
from ...tir.stmt import Allocate, Block, For
from ...tir.transform.base import PrimFuncPass, StmtVisitor


class _Sizes(StmtVisitor):
    """The number of elements and iterations, and the size of the expressions of loop variables;
    None once one is unknown."""

    def __init__(self) -> None:
        self.largest: int | None = 1
        self.computed = 0
        self.ana = Analyzer()

    def size(self, extents: Sequence[PrimExpr]) -> None:
        total = 1
        for extent in extents:
            if not isinstance(extent, IntImm) or self.largest is None:
                self.largest = None
                return
            total *= max(extent.value, 1)
        self.largest = max(self.largest or 1, total)

    def visit_BinaryOpExpr(self, node: BinaryOpExpr) -> None:
        """What may be computed in fewer bits, or is compared then."""
        self.visit_default(node)
        if self.largest is None or not is_index(node.a.dtype) or reads_memory(node):
            return
        for part in (node.a, node.b, node):
            if is_index(part.dtype):
                bound = self.ana.const_int_bound(part)
                size = max(-bound.min_value, bound.max_value)
                self.computed = max(self.computed, size)

    def visit_For(self, node: For) -> None:
        self.size((node.extent,))
        self.size((node.min,))
        with self.ana.loop_scope(node.loop_var, node.range):
            self.visit(node.body)

    def visit_Allocate(self, node: Allocate) -> None:
        self.size(node.extents)
        self.visit(node.body)

    def visit_Block(self, node: Block) -> None:
        for buffer in node.alloc_buffers:
            self.size(buffer.shape)
        for axis in node.iter_vars:
            self.ana.bind(axis.var, axis.dom)
        if node.init is not None:
            self.visit(node.init)
        self.visit(node.body)


class NarrowDataType(PrimFuncPass):
    """`target_bits`: 16, 32 or 64."""

    target_bits: int = 32

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        sizes = _Sizes()
        for buffer in func.buffers:
            sizes.size(buffer.shape)
        sizes.visit(func.body)
        if sizes.computed >= 1 << (self.target_bits - 1):
            return func
        # Half the range: an index may exceed its buffer before a predicate stops it.
        if sizes.largest is None or sizes.largest >= 1 << (self.target_bits - 2):
            return func
        return with_index_dtype(func, f"int{self.target_bits}")
