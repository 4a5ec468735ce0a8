"""`JoinStores`: adjacent stores of a few bytes become one.

A tile of channels ends in vectors of 32 bits, which become bytes one by one: on a processor of 8 lanes each takes a
few shuffles and a store of 8 bytes. Of several, what makes them narrower is done at once.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "uint8")):
    -     B[0:8] = T.Cast("uint8x8", A[0:8])
    -     B[8:16] = T.Cast("uint8x8", A[8:16])
    +     B[0:16] = T.Cast("uint8x16", T.Shuffle([A[0:8], A[8:16]], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]))

The stores must be next to each other in the program, without conditions, of values that do not read the memory.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any

from ....arith import Analyzer
from ....ir.functor import any_node
from ....ir.literals import int_value, is_one
from ....ir.node import Node
from ....ir.prim_expr import Add, Broadcast, Cast, PrimExpr, Ramp, Shuffle, Sub
from ....ir.prim_op import subtract
from ....ir.structural import structural_equal
from ... import stmt as st
from ...analysis.effects import has_effect
from ...buffer import Buffer
from ...expr import BufferLoad
from ...stmt_functor import ExprKeeper
from ..base import RewriterPass, StmtRewriter

FEW, MOST = 16, 32  # bytes of a store that is joined with others, and of them together


class _Join(ExprKeeper, StmtRewriter):
    def __init__(self) -> None:
        self.ana = Analyzer()

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        new = super().visit_SeqStmt(node)
        if not isinstance(new, st.SeqStmt) or not any(map(_target, new.seq)):
            return new
        stmts: list[st.Stmt] = []
        for key, run in ((k, list(group)) for k, group in groupby(new.seq, _target)):
            stmts += run if key is None else self.joined(run)
        return st.seq(*stmts)

    def joined(self, run: list[Any]) -> list[Any]:
        """Stores of one size to one memory, those of adjacent elements joined."""
        lanes, first = run[0].value.dtype.lanes, run[0].indices[0].base
        if len(run) == 1 or any(any_node(s.value, lambda n, b=s.buffer: _reads(n, b)) for s in run):
            return run
        distances = (int_value(self.ana.simplify(subtract(s.indices[0].base, first))) for s in run)
        at = [n for n in distances if n is not None]
        if len(at) < len(run) or any(b - a < lanes for a, b in pairwise(sorted(at))):
            return run  # at unknown distances, or the last one of some elements wins
        left: dict[Any, Any] = dict(zip(at, run, strict=True))
        stmts: list[Any] = []
        while left:
            start, count = min(left), MOST // (lanes * run[0].value.dtype.lane_bytes)
            while any(start + k * lanes not in left for k in range(count)):
                count //= 2
            some = [left.pop(start + k * lanes) for k in range(count)]
            index = some[0].indices[0].replace(lanes=count * lanes)
            value = together([s.value for s in some])
            stmts.append(some[0].replace(value=value, indices=(index,)) if count > 1 else some[0])
        return stmts


def _target(stmt: st.Stmt) -> tuple[int, int] | None:
    """The memory and the bytes of a store of a few that were wider, else None."""
    if not isinstance(stmt, st.BufferStore) or stmt.predicate is not None:
        return None
    if has_effect(stmt.value):
        return None
    index, dtype = stmt.indices[0], stmt.value.dtype
    size = dtype.lanes * dtype.lane_bytes
    adjacent = len(stmt.indices) == 1 and isinstance(index, Ramp) and is_one(index.stride)
    fits = size < FEW and MOST % size == 0 and _is_narrow(stmt.value)
    return (id(stmt.buffer), size) if adjacent and fits else None


def _reads(node: Node, buffer: Buffer) -> bool:
    return isinstance(node, BufferLoad) and node.buffer.data is buffer.data


def _is_narrow(node: Node) -> bool:
    return isinstance(node, Cast) and node.dtype.lane_bytes < node.value.dtype.lane_bytes


def together(values: list[Any]) -> PrimExpr:
    """Vectors one after another; what makes them narrower, of all at once."""
    first, count = values[0], sum(v.dtype.lanes for v in values)
    if all(isinstance(v, Broadcast) and structural_equal(v, first) for v in values):
        return Broadcast(first.value, count)
    if all(type(v) is type(first) and v.dtype == first.dtype for v in values):
        if isinstance(first, Cast) and any_node(first, _is_narrow):
            value = together([v.value for v in values])
            return Cast(first.dtype.with_lanes(count), value)
        if isinstance(first, Add | Sub) and any_node(first, _is_narrow):
            return type(first)(together([v.a for v in values]), together([v.b for v in values]))
    return Shuffle(values, list(range(count)))


class JoinStores(RewriterPass):
    """Joins adjacent stores of a few bytes."""

    rewriter = _Join
