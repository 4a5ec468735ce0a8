"""Splits independent reductions of several values into one nest each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ir.functor import rewrite
from ..ir.prim_expr import IterVar, PrimExpr, Var
from ..tir import stmt as st
from ..tir.analysis.access import get_block_read_write_region
from ..tir.function import PrimFunc
from ..tir.stmt_functor import ExprKeeper, keep_buffers, renew_defs
from .analysis import loads_in

if TYPE_CHECKING:
    pass


def separate_reductions(func: PrimFunc) -> PrimFunc:
    """Split blocks that reduce to several buffers (the sum and the sum of squares of a layer
    norm) if no buffer's value needs another's; the input is read again, but each nest is
    vectorized. Other blocks (argmax) are unchanged."""
    return func.replace(body=_Separate().visit(func.body))


class _Separate(ExprKeeper):
    def visit_SeqStmt(self, node: st.SeqStmt) -> Any:
        stmts = self.visit(node.seq)
        return node if stmts is node.seq else st.seq(*stmts)

    def visit_For(self, node: st.For) -> Any:
        block = _inner_block(node)
        parts = None if block is None else _parts(block.block)
        if parts is None:
            return self.visit_default(node)
        nests = []
        for name, store, start in parts:
            nests.append(renew_defs(_Single(name, store, start).visit(node)))
        return st.seq(*nests)


def _inner_block(node: st.For) -> st.BlockRealize | None:
    """The block of a perfect nest."""
    inner: Any = node
    while isinstance(inner, st.For):
        inner = inner.body
    return inner if isinstance(inner, st.BlockRealize) else None


def _parts(block: st.Block) -> list[tuple[str, st.BufferStore, st.BufferStore]] | None:
    """(name, update, init) of each independent reduction of a block with several."""
    kinds = {v.iter_type for v in block.iter_vars}
    if IterVar.CommReduce not in kinds or not isinstance(block.init, st.SeqStmt):
        return None
    values: dict[Var, PrimExpr] = {}
    body: Any = block.body
    while isinstance(body, st.LetStmt):
        values[body.var] = body.value
        body = body.body
    starts = block.init.seq
    if not isinstance(body, st.SeqStmt) or len(body.seq) != len(starts):
        return None
    parts = []
    results = {s.buffer for s in body.seq if isinstance(s, st.BufferStore)}
    for store, start in zip(body.seq, starts, strict=True):
        if not isinstance(store, st.BufferStore) or not isinstance(start, st.BufferStore):
            return None
        full = rewrite(store, lambda n: values.get(n) if isinstance(n, Var) else None, keep_buffers)
        others = results - {store.buffer}
        if start.buffer is not store.buffer or any(x.buffer in others for x in loads_in(full)):
            return None
        parts.append((store.buffer.name, full, start))
    return parts if len(parts) > 1 else None


class _Single(ExprKeeper):
    """Copies a nest with only one of its block's reductions."""

    def __init__(self, name: str, store: st.BufferStore, start: st.BufferStore) -> None:
        self.name, self.store, self.start = name, store, start

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        block = node.block.replace(name_hint=self.name, body=self.store, init=self.start)
        reads, writes = get_block_read_write_region(block, {})
        return node.replace(block=block.replace(reads=tuple(reads), writes=tuple(writes)))
