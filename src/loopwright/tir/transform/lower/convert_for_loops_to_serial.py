"""`ConvertForLoopsToSerial`: makes every loop serial.

Pass::

    ConvertForLoopsToSerial()

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32")):
    -     for i in T.parallel(4):
    -         for j in T.vectorized(8):
    +     for i in range(4):
    +         for j in range(8):
                  A[i, j] = T.float32(1)

With `keep_kinds` a vectorized loop keeps its kind as an annotation, which the C code generator reads, and
so do unrolled loops as far as the statements within are not written more than 32 times.
"""

from __future__ import annotations

from ....ir.literals import int_value
from ...stmt import For, ForKind, Stmt
from ...stmt_functor import ExprKeeper
from ..base import RewriterPass, StmtRewriter

TILE_KIND = "tile_kind"  # annotates a loop with the kind it had: vectorized, unrolled
_MOST_COPIES = 32  # of a body by nested unrolled loops: more get no pragma for gcc


class _Serial(ExprKeeper, StmtRewriter):
    def __init__(self, keep_kinds: bool) -> None:
        self.keep_kinds = keep_kinds
        self.copies = 1  # of the statements of the last loop that was visited

    def visit_For(self, node: For) -> Stmt:
        kind = ForKind.SERIAL if node.kind != ForKind.THREAD_BINDING else node.kind
        self.copies = 1
        body, notes = self.visit(node.body), node.annotations
        extent = int_value(node.extent) if self.keep_kinds else None
        if extent is not None and extent > 1:
            unrolls = node.kind == ForKind.VECTORIZED
            if node.kind == ForKind.UNROLLED:
                self.copies *= extent
                unrolls = self.copies <= _MOST_COPIES
            if unrolls:
                notes = {**notes, TILE_KIND: node.kind.name.lower()}
        return node.replace(kind=kind, body=body, annotations=notes)


class ConvertForLoopsToSerial(RewriterPass):
    """Makes every loop serial."""

    keep_kinds: bool = False

    def rewriter(self) -> _Serial:
        return _Serial(self.keep_kinds)
