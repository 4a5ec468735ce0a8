"""`rfactor`: a reduction in two steps: along all but one loop, then along that loop."""

from __future__ import annotations

from typing import Any

from ....ir.literals import conjunction, conjuncts, is_one
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Var
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion, decl_buffer
from ...expr import BufferLoad
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from ..machinery import BlockRV, LoopRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.axis_bindings import driven
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.loop_nests import only_block, single_path
from ..machinery.reducers import Reducer, find_reducer
from ..machinery.regions import axis_values
from ..machinery.rewriting import substitute
from ..machinery.scope import read_buffers, why_not_reduction, write_buffers


@primitive("RFactor", inputs="loop", attrs="factor_axis")
def rfactor(sch: ScheduleBase, loop: LoopRV, factor_axis: int) -> BlockRV:
    """Reduce each iteration of `loop` separately into a buffer with one more dimension, at
    `factor_axis`; then reduce that. Returns the first step's block; the old block is the second's.

    Several buffers that are reduced together (argmax) get one buffer each. Where elements are
    equal, which of them an argmax finds follows the new order of the loops.

    Raises ScheduleError when the loop drives a spatial axis, several blocks are below it, or the
    combiner is not a sum, product, minimum, maximum, or a selection by comparisons.

    Before (-) and after (+) ``sch.rfactor(sch.get_loops("B")[1], 0)``,
    with ``A: T.Buffer((8, 16)), B: T.Buffer(8)``::

        + B_rf = T.alloc_buffer((4, 8))
          for i, k0, k1 in T.grid(8, 4, 4):
        +     with T.block("B_rf"):
        +         vk0, v_i, vk1 = T.axis.remap("SSR", [k0, i, k1])
        +         with T.init():
        +             B_rf[vk0, v_i] = 0.0
        +         B_rf[vk0, v_i] = B_rf[vk0, v_i] + A[v_i, vk0 * 4 + vk1]
        + for i, k0 in T.grid(8, 4):
              with T.block("B"):
        -         v_i = T.axis.spatial(8, i)
        -         v_k = T.axis.reduce(16, k0 * 4 + k1)
        +         vk0, v_i = T.axis.remap("RS", [k0, i])
                  with T.init():
                      B[v_i] = 0.0
        -         B[v_i] = B[v_i] + A[v_i, v_k]
        +         B[v_i] = B[v_i] + B_rf[vk0, v_i]
    """
    at = sch.loop(loop)
    ref = only_block(at, "rfactor")
    node: Block = ref.stmt
    why = why_not_reduction(ref)
    if why is not None:
        what = f"block {node.name_hint!r} is not a reduction: {why}"
        raise ScheduleError(what, instead="a block with an init", at=ref.node)
    reducer = find_reducer(sch.state.analyzer(ref), ref.realize)
    chain = single_path(ref)
    spatial_loops, reduce_loops = driven(ref)
    check(sch, ref, at, chain, spatial_loops, reduce_loops)
    old = reducer.stores[0].buffer
    axis = factor_axis + len(old.shape) + 1 if factor_axis < 0 else factor_axis
    if not 0 <= axis <= len(old.shape):
        what = f"{old.name} has {len(old.shape)} dimensions"
        hint = f"a factor_axis of 0 to {len(old.shape)}, or negative"
        raise ScheduleError(what, got=factor_axis, instead=hint, at=at.stmt)
    partial = []
    for store in reducer.stores:
        buffer = store.buffer
        shape = list(buffer.shape)
        shape.insert(axis, at.stmt.extent)
        partial.append(decl_buffer(shape, buffer.dtype, f"{buffer.name}_rf", scope=buffer.scope()))

    first, first_values = _first_block(ref, at, reducer, partial, axis)
    own_loops = ref.loops() if _comes_first(ref) else chain
    fresh = {r.stmt.loop_var: r.stmt.loop_var.copy_with_suffix("") for r in own_loops}
    nest: Stmt = BlockRealize._make(
        first_values, ref.realize.predicate, first, span=ref.realize.span
    )
    for r in reversed(own_loops):
        nest = r.stmt.replace(body=nest)
    renamed: dict[Block, Block] = {}
    nest = substitute(nest, fresh, renamed)
    first = renamed.get(first, first)

    second, second_values = _second_block(ref, at, reducer, partial, axis)
    dropped = reduce_loops - {at.stmt.loop_var}
    predicate = conjunction(
        p for p in conjuncts(ref.realize.predicate) if not vars_in(p) & reduce_loops
    )
    back: Stmt = BlockRealize._make(second_values, predicate, second, span=ref.realize.span)
    for r in reversed(chain):
        if r.stmt.loop_var not in dropped:
            back = r.stmt.replace(body=back)

    def allocate(block: Block) -> Block:
        return block.replace(alloc_buffers=(*block.alloc_buffers, *partial))

    outermost = own_loops[0]
    blocks = {ref.scope(): allocate, outermost: lambda loop: seq(nest, loop)}
    if outermost is chain[0]:
        back = seq(nest, back)
        del blocks[outermost]
    sch.state.update(ref.func, {chain[0]: back}, {node: second}, blocks)
    return sch.new_block(ref.func, first)


def _comes_first(ref: Ref) -> bool:
    """Whether a block is the first in loops around other blocks too, which write nothing that it reads:
    its first step may run in loops of its own, before all of them."""
    loops = ref.loops()
    inner: Any = ref.node
    for above in reversed(loops):
        body = above.stmt.body
        if inner is not (body.seq[0] if isinstance(body, SeqStmt) else body):
            return False
        inner = above.stmt
    written = (write_buffers(block.stmt) for block in loops[0].blocks() if block is not ref)
    return all(read_buffers(ref.stmt).isdisjoint(buffers) for buffers in written)


def check(
    sch: ScheduleBase, ref: Ref, at: Ref, chain: list[Ref], spatial: set[Var], reduced: set[Var]
) -> None:
    """Raise ScheduleError unless the loops are purely spatial or purely of the reduction."""
    var = at.stmt.loop_var
    name = ref.stmt.name_hint
    if var in spatial or not (var in reduced or is_one(at.stmt.extent)):
        what = f"loop {var.name!r} does not drive the reduction of block {name!r} alone"
        raise ScheduleError(what, instead="a loop of the reduction", at=at.stmt)
    if at.stmt.kind in (ForKind.PARALLEL, ForKind.VECTORIZED):
        what = f"loop {var.name!r} drives a reduction and does not run in order"
        raise ScheduleError(what, got=at.stmt.kind, instead="a serial loop", at=at.stmt)
    own = {r.stmt.loop_var for r in chain}
    around = {r.stmt.loop_var for r in ref.loops()}
    if spatial & reduced or not reduced & around <= own:
        what = f"the loops of block {name!r} do not separate into spatial and reduction loops"
        hint = "loops around this block only, each for one kind of axis"
        raise ScheduleError(what, instead=hint, at=[at.stmt, ref.node])
    if not isinstance(at.stmt.min, IntImm) or at.stmt.min.value != 0:
        raise ScheduleError("rfactor is for a loop from 0", got=at.stmt.min, at=at.stmt)
    for r in chain:
        others = vars_in(r.stmt.range) & around
        if others & reduced or (others and (r is at or r.stmt.loop_var in reduced)):
            what = f"the range of loop {r.stmt.loop_var.name!r} depends on other loops"
            raise ScheduleError(what, instead="reduction loops of their own length", at=r.stmt)
    ana = sch.state.analyzer(ref)
    starts = {
        r.stmt.loop_var: r.stmt.min for r in chain if r.stmt.loop_var in reduced and r is not at
    }
    # Without checks, the caller vouches that such an iteration keeps the identity.
    parts = conjuncts(ref.realize.predicate) if sch.state.enable_check else []
    for part in parts:
        if vars_in(part) & reduced and not ana.can_prove(substitute(part, starts)):
            what = "some iterations of the loop have nothing to reduce"
            raise ScheduleError(
                what, got=f"predicate {part}", instead="factors that divide", at=at.stmt
            )


def _axis(node: For, kind: int) -> IterVar:
    dom = node.range
    return IterVar(dom, Var(f"v{node.loop_var.name}", node.loop_var.dtype), kind)


def _first_block(
    ref: Ref, at: Ref, reducer: Reducer, partial: list[Buffer], axis: int
) -> tuple[Block, tuple[PrimExpr, ...]]:
    """The block that reduces within one iteration of the loop."""
    node: Block = ref.stmt
    loops = {r.stmt.loop_var: r.stmt for r in ref.loops()}
    bound = axis_values(ref)
    new_axis = _axis(at.stmt, IterVar.DataPar)
    axes: list[IterVar] = [new_axis]
    values: list[PrimExpr] = [at.stmt.loop_var]
    stand_in: dict[Var, Any] = {at.stmt.loop_var: new_axis.var}
    replaced: dict[Var, PrimExpr] = {}
    for old in node.iter_vars:
        value = bound[old.var]
        if old.iter_type == IterVar.DataPar or at.stmt.loop_var not in vars_in(value):
            fresh = old.replace(var=old.var.copy_with_suffix(""))
            axes.append(fresh)
            values.append(value)
            replaced[old.var] = fresh.var
            continue
        for var in sorted(vars_in(value) & set(loops), key=list(loops).index):
            if var not in stand_in:
                inner = _axis(loops[var], IterVar.CommReduce)
                axes.append(inner)
                values.append(var)
                stand_in[var] = inner.var
        replaced[old.var] = substitute(value, stand_in)
    indices = [substitute(i, replaced) for i in reducer.stores[0].indices]
    indices.insert(axis, new_axis.var)
    terms = [substitute(v, replaced) for v in reducer.values]
    body, init = reducer.update(partial, indices, terms), reducer.start(partial, indices)
    if all(axis.iter_type == IterVar.DataPar for axis in axes):  # nothing left to reduce
        body, init = seq(*map(BufferStore, partial, terms, [indices] * len(terms))), None
    block = Block(
        axes,
        (),
        (),
        f"{node.name_hint}_rf",
        body,
        None if init is None else substitute(init, replaced),
        annotations=node.annotations,
        span=node.span,
    )
    order = [region.buffer for region in node.reads]
    block = with_detected_regions(block)
    reads = sorted(block.reads, key=lambda r: order.index(r.buffer) if r.buffer in order else -1)
    return block.replace(reads=tuple(reads)), tuple(values)


def _second_block(
    ref: Ref, at: Ref, reducer: Reducer, partial: list[Buffer], axis: int
) -> tuple[Block, tuple[PrimExpr, ...]]:
    """The block that reduces the results of the loop's iterations."""
    node: Block = ref.stmt
    bound = axis_values(ref)
    new_axis = _axis(at.stmt, IterVar.CommReduce)
    spatial = [a for a in node.iter_vars if a.iter_type == IterVar.DataPar]
    own = reducer.stores[0].indices
    indices = list(own)
    indices.insert(axis, new_axis.var)
    parts = [BufferLoad(buffer, indices) for buffer in partial]
    buffers = [s.buffer for s in reducer.stores]
    block = node.replace(
        iter_vars=(new_axis, *spatial),
        init=reducer.start(buffers, own),
        body=reducer.update(buffers, own, parts),
        reads=tuple(BufferRegion.from_point(buffer, indices) for buffer in partial),
    )
    return block, (at.stmt.loop_var, *(bound[a.var] for a in spatial))
