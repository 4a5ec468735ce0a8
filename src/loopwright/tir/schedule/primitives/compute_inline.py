"""`compute_inline`: a producer's expression replaces the loads of its result."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.functor import any_node
from ....ir.literals import is_one
from ....ir.prim_expr import Call, IntImm, PrimExpr, Var
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...expr import BufferLoad
from ...op import effect_of
from ...stmt import Block, BufferStore
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import MapLoads, check_no_pointer, index_axes, single_store
from ..machinery.buffer_lookup import check_allocated, drop_buffer
from ..machinery.leaving import check_may_leave
from ..machinery.parallel_checks import check_parallel_with_sources
from ..machinery.rewriting import BlockRewriter, Substitute
from ..machinery.scope import (
    check_bounds_keep,
    check_complete,
    consumers,
    read_buffers,
    siblings,
    write_buffers,
)


@primitive("ComputeInline", inputs="block")
def compute_inline(sch: ScheduleBase, block: BlockArg) -> None:
    """Compute a block's value where it is used, if it is, and remove the block and its buffer.

    Raises ScheduleError unless the block is complete, one store at an index of distinct axes, and
    its buffer is only used in the scope that allocates it.

    Before (-) and after (+) ``sch.compute_inline(sch.get_block("B"))``,
    with ``A: T.Buffer(8), C: T.Buffer(8)``::

        - B = T.alloc_buffer(8)
          for i in range(8):
        -     with T.block("B"):
        -         v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        - for i in range(8):
              with T.block("C"):
                  v = T.axis.spatial(8, i)
        -         C[v] = B[v] + 1.0
        +         C[v] = A[v] * 2.0 + 1.0
    """
    ref = sch.block(block)
    scope = ref.scope()
    store = single_store(ref)
    buffer = store.buffer
    check_allocated(ref, scope, buffer)
    check_bounds_keep(scope, [ref])
    if sch.enable_check:
        check_complete(ref)
        check_inputs_kept(ref)
        check_may_leave(ref, None)
    order = axis_order(ref, store)
    users = readers(ref, buffer)
    changes: dict[Ref, Any] = {ref: None}
    renamed: dict[Block, Block] = {}
    ana = sch.state.analyzer(ref)

    def inlined(load: BufferLoad) -> PrimExpr:
        values = dict(order.fixed)
        plain = True
        for var, n in order.dims.items():
            values[var] = load.indices[n]
            plain = plain and isinstance(load.indices[n], (Var, IntImm))
        value = Substitute(values).visit(store.value)
        return value if plain else _TidyIndices(ana).visit(value)

    for user in users:
        check_no_pointer(buffer, user)
        sch.state.analyzer(user)
        changes[user] = MapLoads(buffer, inlined, renamed, store.span).visit(user.realize)
    done = sch.state.update(ref.func, changes, renamed, {scope: drop_buffer(buffer)})
    if sch.enable_check:
        blocks = sch.state.index(ref.func).blocks
        for user in users:
            block_now = done.get(user.stmt) or user.stmt
            check_parallel_with_sources(sch.state, blocks[block_now])


class AxisOrder:
    """How the axes of a block follow from the indices of its store."""

    __slots__ = ("dims", "fixed")

    def __init__(self, dims: dict[Var, int], fixed: dict[Var, PrimExpr]) -> None:
        self.dims = dims
        self.fixed = fixed


def axis_order(ref: Ref, store: BufferStore) -> AxisOrder:
    """The store's dimension for each axis. Raises ScheduleError where an axis does not follow."""
    block = ref.stmt
    dims = index_axes(store.indices, block, store.buffer.shape)
    fixed = {a.var: a.dom.min for a in block.iter_vars if is_one(a.dom.extent)}
    needed = vars_in(store.value) & {a.var for a in block.iter_vars}
    if dims is None or not needed <= set(dims) | set(fixed):
        what = f"the axes of {block.name_hint!r} do not follow from the indices of its store"
        got = f"{store.buffer.name}[{', '.join(map(str, store.indices))}]"
        hint = "each dimension indexed by an axis of its own"
        raise ScheduleError(what, got=got, instead=hint, at=ref.node)
    return AxisOrder(dims, {v: e for v, e in fixed.items() if v not in dims})


def check_inputs_kept(ref: Ref) -> None:
    """Raise ScheduleError where a later block overwrites what this one reads."""
    inputs = read_buffers(ref.stmt)
    for other in consumers_and_later(ref):
        lost = inputs & write_buffers(other.stmt)
        if lost:
            name = next(iter(lost)).name
            what = f"block {other.stmt.name_hint!r} overwrites {name}, which {ref.stmt.name_hint!r} reads"
            raise ScheduleError(what, at=[ref.node, other.node])


def consumers_and_later(ref: Ref) -> list[Ref]:
    """The blocks of the scope after this one."""
    blocks = siblings(ref)
    return blocks[blocks.index(ref) + 1 :]


def readers(ref: Ref, buffer: Buffer) -> list[Ref]:
    """The blocks that read the buffer; there need be none for a value without effects."""
    users = [other for other in consumers(ref) if buffer in read_buffers(other.stmt)]
    if not users and any_node(single_store(ref).value, _has_effect):
        what = f"nothing reads {buffer.name}, but computing it has an effect"
        raise ScheduleError(what, instead="a block with a consumer in its scope", at=ref.node)
    for other in siblings(ref):
        accessed = read_buffers(other.stmt) | write_buffers(other.stmt)
        if other is not ref and other not in users and buffer in accessed:
            what = f"block {other.stmt.name_hint!r} accesses {buffer.name} before it is written"
            raise ScheduleError(what, at=[other.node, ref.node])
    return users


def _has_effect(node: PrimExpr | Buffer) -> bool:
    return isinstance(node, Call) and effect_of(node) not in ("pure", "read", "annotation")


class _TidyIndices(BlockRewriter):
    def __init__(self, ana: Analyzer) -> None:
        super().__init__()
        self.ana = ana

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        return load.replace(indices=tuple(self.ana.simplify(i) for i in load.indices))
