"""`TransposeInRegisters`: reads square tiles of a transposed operand row by row.

A vector whose lanes are not adjacent in memory is gathered element by element. Where an unrolled
loop reads adjacent vectors of this kind, their number equal to that of their lanes, each row of
that tile is one vector in
memory: they are loaded, and transposed in registers.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((16,), "float32")):
    -     for i in T.unroll(4):
    -         B[i * 4:i * 4 + 4] = A[i:i + 64:16]
    +     tile: T.float32x4 = A[0:4]
    +     tile_1: T.float32x4 = A[16:20]
    +     tile_2: T.float32x4 = A[32:36]
    +     tile_3: T.float32x4 = A[48:52]
    +     tile_4: T.float32x4 = tir.Shuffle([tile, tile_2], [0, 4, 1, 5])
    +     tile_5: T.float32x4 = tir.Shuffle([tile, tile_2], [2, 6, 3, 7])
    +     tile_6: T.float32x4 = tir.Shuffle([tile_1, tile_3], [0, 4, 1, 5])
    +     tile_7: T.float32x4 = tir.Shuffle([tile_1, tile_3], [2, 6, 3, 7])
    +     tile_8: T.float32x4 = tir.Shuffle([tile_4, tile_6], [0, 4, 1, 5])
    +     tile_9: T.float32x4 = tir.Shuffle([tile_4, tile_6], [2, 6, 3, 7])
    +     tile_10: T.float32x4 = tir.Shuffle([tile_5, tile_7], [0, 4, 1, 5])
    +     tile_11: T.float32x4 = tir.Shuffle([tile_5, tile_7], [2, 6, 3, 7])
    +     B[0:4] = tile_8
    +     B[4:8] = tile_9
    +     B[8:12] = tile_10
    +     B[12:16] = tile_11

Shuffles interleave two vectors within 16 bytes, then separate even and odd groups of 16 bytes: each
is one instruction of x86 and of NEON. The loop's statement must be one store, without conditions,
to another buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....ir.functor import any_node, post_order_visit, rewrite
from ....ir.literals import int_value, is_one
from ....ir.prim_expr import PrimExpr, Ramp, Shuffle, Var
from ....ir.prim_op import add, const, multiply
from ....ir.variables import substitute, uses_any
from ... import stmt as st
from ...expr import BufferLoad
from ...op import is_call_to
from ...stmt_functor import ExprKeeper, keep_buffers
from ..base import RewriterPass, StmtRewriter, Substitute, under_names

if TYPE_CHECKING:
    from ...buffer import Buffer

GROUP_BITS = 128  # of the groups within which vectors are interleaved
SIZES = (2, 4, 8, 16)  # of tiles that fit the registers


class _Transpose(ExprKeeper, StmtRewriter):
    def __init__(self) -> None:
        self.ana = Analyzer()

    def visit_For(self, node: st.For) -> Any:
        size = int_value(node.extent)
        if node.kind != st.ForKind.UNROLLED or size not in SIZES:
            return self.visit_default(node)

        def change(store: st.BufferStore) -> st.Stmt | None:
            loads = self.tiles(node.loop_var, size, store)
            return transposed(node.loop_var, size, store, loads) if loads else None

        return under_names(node.body, change) or self.visit_default(node)

    def tiles(self, var: Var, size: int, store: st.BufferStore) -> dict[BufferLoad, Any]:
        """The loads of a store that read a tile of `size` rows, with the index of its first one."""
        if any_node(store.value, lambda n: is_call_to(n, "if_then_else")):
            return {}
        bases: dict[BufferLoad, Any] = {}

        def visit(load: PrimExpr | Buffer) -> None:
            if not isinstance(load, BufferLoad) or load.predicate is not None:
                return
            indices: Any = load.indices
            if len(indices) > 1 or load.buffer.strides:
                return
            index = indices[0]
            if not isinstance(index, Ramp) or index.lanes != size or is_one(index.stride):
                return
            if load.buffer.data is store.buffer.data or uses_any(index.stride, (var,)):
                return
            first = self.ana.simplify(substitute(index.base, {var: const(0, var.dtype)}))
            if self.ana.can_prove_equal(index.base, add(first, var)):
                bases[load] = index.replace(base=first)

        post_order_visit(store.value, visit)
        return bases


def transposed(
    var: Var, size: int, store: st.BufferStore, loads: dict[BufferLoad, Ramp]
) -> st.Stmt:
    """The stores of a loop over `var`, after what they read is transposed."""
    bound: list[tuple[Var, PrimExpr]] = []

    def bind(value: PrimExpr) -> Var:
        bound.append((Var("tile", value.dtype), value))
        return bound[-1][0]

    columns: dict[BufferLoad, list[Var]] = {}
    for load, index in loads.items():
        rows = []
        for k in range(size):
            at = add(index.base, multiply(index.stride, const(k, index.stride.dtype)))
            rows.append(bind(load.replace(indices=(Ramp(at, const(1, at.dtype), size),))))
        group = min(GROUP_BITS // (8 * load.dtype.lane_bytes), size)
        columns[load] = transpose(rows, group, bind)
    stmts: list[st.Stmt] = []
    for k in range(size):
        column = {load: body[k] for load, body in columns.items()}
        value = rewrite(store.value, {BufferLoad: column.get}, keep_buffers)
        stmts.append(Substitute({var: const(k, var.dtype)}).visit(store.replace(value=value)))
    body = st.seq(*stmts)
    for name, value in reversed(bound):
        body = st.LetStmt(name, value, body)
    return body


def transpose(rows: list[Var], group: int, bind: Callable[[PrimExpr], Var]) -> list[Var]:
    """The columns of a square, whose rows are vectors: networks of perfect shuffles, first of the
    lanes of each group and of the rows of each, then of whole groups."""
    size = len(rows)
    low = [k + lane for k in range(0, size, group) for lane in range(group // 2)]
    zipped = [
        [pick for lane in low for pick in (lane + h, lane + h + size)] for h in (0, group // 2)
    ]
    lanes = range(2 * size)
    parted = [[k for k in lanes if k // group % 2 == h] for h in (0, 1)]
    for _ in range(group.bit_length() - 1):
        halves = [
            (rows[k + r], rows[k + r + group // 2], picks)
            for k in range(0, size, group)
            for r in range(group // 2)
            for picks in zipped
        ]
        rows = [bind(Shuffle([a, b], picks)) for a, b, picks in halves]
    for _ in range((size // group).bit_length() - 1):
        pairs = [
            (rows[2 * k * group + r], rows[(2 * k + 1) * group + r], picks)
            for picks in parted
            for k in range(size // group // 2)
            for r in range(group)
        ]
        rows = [bind(Shuffle([a, b], picks)) for a, b, picks in pairs]
    return rows


class TransposeInRegisters(RewriterPass):
    """Reads square tiles of a transposed operand row by row."""

    rewriter = _Transpose
