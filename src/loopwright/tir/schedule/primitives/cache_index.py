"""`cache_index`: index computations done once, kept in a buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.prim_expr import Call, Cast, IntImm, IterVar, PrimExpr, Var
from ....ir.variables import vars_in
from ...buffer import decl_buffer
from ...expr import BufferLoad
from ...stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt, seq, serial_nest
from ..machinery import BlockArg, BlockRV, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.copy_placement import check_storage_scope, item_index
from ..machinery.rewriting import BlockRewriter, substitute


@primitive("CacheIndex", inputs="block", attrs="storage_scope cse_thresh")
def cache_index(
    sch: ScheduleBase, block: BlockArg, storage_scope: str, cse_thresh: int = 0
) -> list[BlockRV]:
    """Compute the index expressions of a block's loads in front of it, into buffers over the axes
    they depend on; those that occur more than `cse_thresh` times and are more than an axis.

    Returns the blocks that compute them.

    Raises ScheduleError for a block under a condition.

    Before (-) and after (+) ``sch.cache_index("B", "global")``,
    with ``A: T.Buffer(4), B: T.Buffer(8)``::

        + index_0 = T.alloc_buffer(8, "int32")
        + for ax0 in range(8):
        +     with T.block("index_0"):
        +         v = T.axis.spatial(8, ax0)
        +         index_0[v] = v * 3 // 7
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = A[v * 3 // 7] * 2.0
        +         T.reads(A[v * 3 // 7], index_0[v])
        +         B[v] = A[index_0[v]] * 2.0
    """
    ref = sch.block(block)
    check_storage_scope(storage_scope)
    node: Block = ref.stmt
    scope = ref.scope()
    position = item_index(scope, ref)
    if position < 0:
        raise ScheduleError("the block is under a condition", at=ref.node)
    ana = sch.state.analyzer(ref)
    axes = {a.var: a for a in node.iter_vars}
    seen = _Indices(set(axes), ana.key)
    seen.visit(node.body)
    table: dict[Any, BufferLoad] = {}
    nests: list[Stmt] = []
    blocks: list[Block] = []
    buffers = []
    for key, (expr, count) in seen.seen.items():
        if count <= cse_thresh:
            continue
        used = [a for v, a in axes.items() if v in vars_in(expr)]
        name = f"index_{len(blocks)}"
        extents = [a.dom.extent for a in used]
        buffer = decl_buffer(extents, expr.dtype, name, scope=storage_scope)
        fresh = {a.var: a.var.copy_with_suffix("") for a in used}
        points = [fresh[a.var] - a.dom.min for a in used]
        iters = [IterVar(a.dom, fresh[a.var], IterVar.DataPar) for a in used]
        store = BufferStore(buffer, substitute(expr, fresh), points)
        copy = with_detected_regions(Block(iters, (), (), name, store))
        loops = [Var(f"ax{n}", a.var.dtype) for n, a in enumerate(used)]
        values = [loop + a.dom.min for loop, a in zip(loops, used, strict=True)]
        nest = serial_nest(loops, extents, BlockRealize(values, True, copy))
        table[key] = BufferLoad(buffer, [a.var - a.dom.min for a in used])
        nests.append(nest)
        blocks.append(copy)
        buffers.append(buffer)
    if not blocks:
        return []
    replace = _Replace(table, ana.key)
    realize = ref.realize.replace(block=replace.visit(node))

    def change(b: Block) -> Block:
        items = list(b.body.seq if isinstance(b.body, SeqStmt) else (b.body,))
        items[position:position] = nests
        return b.replace(body=seq(*items), alloc_buffers=(*b.alloc_buffers, *buffers))

    sch.state.update(ref.func, {ref: realize}, replace.renamed, {scope: change})
    return [sch.new_block(ref.func, copy) for copy in blocks]


class _Indices(BlockRewriter):
    """Counts the index expressions of loads that depend on the axes alone."""

    def __init__(self, axes: set[Var], key: Callable[..., Any]) -> None:
        super().__init__()
        self.axes, self.key = axes, key
        self.seen: dict[Any, tuple[PrimExpr, int]] = {}

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        for index in node.indices:
            if worth(index) and vars_in(index) <= self.axes:
                key = self.key(index)
                expr, count = self.seen.get(key, (index, 0))
                self.seen[key] = (expr, count + 1)
            else:
                self.visit(index)
        return node


def worth(index: PrimExpr) -> bool:
    """Whether an index is a computation, and on numbers alone."""
    if isinstance(index, (Var, IntImm)):
        return False
    return bool(vars_in(index)) and not _reads(index)


def _reads(expr: PrimExpr) -> bool:
    if isinstance(expr, (BufferLoad, Call)) and not isinstance(expr, Cast):
        return True
    return any(_reads(child) for child in expr.children() if isinstance(child, PrimExpr))


class _Replace(BlockRewriter):
    def __init__(self, table: dict[Any, BufferLoad], key: Callable[..., Any]) -> None:
        super().__init__()
        self.table, self.key = table, key
        self.buffers = {load.buffer for load in table.values()}

    def visit_Block(self, node: Block) -> Block:
        """The block, and each around it, reads the new buffers."""
        block = self.visit_default(node)
        if block is not node:
            loads = [r for r in with_detected_regions(block).reads if r.buffer in self.buffers]
            block = self.renamed[node] = block.replace(reads=(*node.reads, *loads))
        return block

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        indices = []
        for index in node.indices:
            entry = self.table.get(self.key(index)) if worth(index) else None
            indices.append(self.visit(index) if entry is None else entry)
        if all(a is b for a, b in zip(indices, node.indices, strict=True)):
            return node
        return BufferLoad(node.buffer, indices, node.predicate)
