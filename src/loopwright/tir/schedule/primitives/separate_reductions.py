"""`separate_reductions`: a nest for each of several values that a block reduces to."""

from __future__ import annotations

from ....ir.functor import nodes_of, rewrite
from ....ir.prim_expr import IterVar, PrimExpr, Var
from ...expr import BufferLoad
from ...stmt import Block, BlockRealize, BufferStore, LetStmt, SeqStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, keep_buffers, renew_defs
from ..machinery import BlockArg, BlockRV, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.loop_nests import single_path


@primitive("SeparateReductions", inputs="block")
def separate_reductions(sch: ScheduleBase, block: BlockArg) -> list[BlockRV]:
    """Give each of the buffers that a block reduces to a nest of its own, named after the buffer.

    The input is read once for each, and each can be vectorized. Raises ScheduleError if one of the
    values needs another's (argmax).

    Before (-) and after (+) ``sch.separate_reductions("sums")``,
    with ``A: T.Buffer(8), S: T.Buffer(1), Q: T.Buffer(1)``::

          for i in range(8):
        -     with T.block("sums"):
        +     with T.block("S"):
                  v = T.axis.reduce(8, i)
                  with T.init():
                      S[0] = 0.0
        -             Q[0] = 0.0
                  S[0] = S[0] + A[v]
        +
        + for i in range(8):
        +     with T.block("Q"):
        +         v = T.axis.reduce(8, i)
        +         with T.init():
        +             Q[0] = 0.0
                  Q[0] = Q[0] + A[v] * A[v]
    """
    ref = sch.block(block)
    parts = independent_reductions(ref.stmt)
    if parts is None:
        what = f"block {ref.stmt.name_hint!r} does not reduce to several independent values"
        raise ScheduleError(what, instead="an init and an update for each buffer", at=ref.node)
    loops = single_path(ref)
    nest = loops[0] if loops else ref
    copies = [renew_defs(_Single(*part).visit(nest.node)) for part in parts]
    sch.state.update(ref.func, {nest: seq(*copies)})
    return [sch.new_block(ref.func, nodes_of(copy, Block)[0]) for copy in copies]


def independent_reductions(block: Block) -> list[tuple[str, Stmt, Stmt]] | None:
    """(name, update, init) of each reduction of a block with several, none of which reads another's
    result; None for other blocks."""
    kinds = {v.iter_type for v in block.iter_vars}
    if IterVar.CommReduce not in kinds or not isinstance(block.init, SeqStmt):
        return None
    values: dict[Var, PrimExpr] = {}
    body = block.body
    while isinstance(body, LetStmt):
        values[body.var] = body.value
        body = body.body
    starts = block.init.seq
    if not isinstance(body, SeqStmt) or len(body.seq) != len(starts):
        return None
    parts: list[tuple[str, Stmt, Stmt]] = []
    results = {s.buffer for s in body.seq if isinstance(s, BufferStore)}
    for store, start in zip(body.seq, starts, strict=True):
        if not isinstance(store, BufferStore) or not isinstance(start, BufferStore):
            return None
        full = rewrite(store, lambda n: values.get(n) if isinstance(n, Var) else None, keep_buffers)
        others = results - {store.buffer}
        if start.buffer is not store.buffer:
            return None
        if any(load.buffer in others for load in nodes_of(full, BufferLoad)):
            return None
        parts.append((store.buffer.name, full, start))
    return parts if len(parts) > 1 else None


class _Single(ExprKeeper):
    """Copies a nest with only one of its block's reductions."""

    def __init__(self, name: str, store: Stmt, start: Stmt) -> None:
        self.name, self.store, self.start = name, store, start

    def visit_BlockRealize(self, node: BlockRealize) -> BlockRealize:
        block = node.block.replace(name_hint=self.name, body=self.store, init=self.start)
        return node.replace(block=with_detected_regions(block))
