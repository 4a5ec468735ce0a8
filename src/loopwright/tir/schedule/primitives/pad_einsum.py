"""`pad_einsum`: a sum of products over larger axes, its operands padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ....arith import Analyzer
from ....ir.literals import int_value
from ....ir.prim_expr import Add, Cast, IterVar, Mul, PrimExpr, Range, Var
from ....ir.prim_op import ceildiv, const, logical_and, maximum, multiply
from ...buffer import Buffer, decl_buffer
from ...expr import BufferLoad
from ...op import if_then_else
from ...stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt, seq, serial_nest
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import ReplaceBuffer, with_detected_regions
from ..machinery.copy_placement import item_index
from ..machinery.loop_nests import check_loops, equal_extents
from ..machinery.reducers import find_reducer
from ..machinery.scope import why_not_reduction


@primitive("PadEinsum", inputs="block", attrs="padding")
def pad_einsum(sch: ScheduleBase, block: BlockArg, padding: list[int]) -> None:
    """Round the extents of a block's axes up to multiples of `padding` (one number for each).

    The block must be a sum of products of elements indexed by single axes, under a loop for each
    axis. Operands are copied to padded buffers, the result is copied out of one.

    Raises ScheduleError for a block that is not such a sum, and another number of paddings than axes.

    Before (-) and after (+) ``sch.pad_einsum("B", [4, 1])``,
    with ``A: T.Buffer((5, 6)), B: T.Buffer(5)``::

        - for i, k in T.grid(5, 6):
        + A_pad = T.alloc_buffer((8, 6))
        + B_pad = T.alloc_buffer(8)
        + for ax0, ax1 in T.grid(8, 6):
        +     with T.block("A_pad"):
        +         v0, v1 = T.axis.remap("SS", [ax0, ax1])
        +         A_pad[v0, v1] = T.if_then_else(v0 < 5, A[v0, v1], 0.0)
        + for i, k in T.grid(8, 6):
              with T.block("B"):
                  v_i, v_k = T.axis.remap("SR", [i, k])
                  with T.init():
        -             B[v_i] = 0.0
        -         B[v_i] = B[v_i] + A[v_i, v_k]
        +             B_pad[v_i] = 0.0
        +         B_pad[v_i] = B_pad[v_i] + A_pad[v_i, v_k]
        + for ax0 in range(5):
        +     with T.block("B_pad"):
        +         v0 = T.axis.spatial(5, ax0)
        +         B[v0] = B_pad[v0]
    """
    ref = sch.block(block)
    node: Block = ref.stmt
    why = why_not_reduction(ref)
    if why is not None:
        what = f"block {node.name_hint!r} is not a reduction: {why}"
        raise ScheduleError(what, instead="a block with an init", at=ref.node)
    if len(padding) != len(node.iter_vars) or any(int(p) < 1 for p in padding):
        what = f"block {node.name_hint!r} has {len(node.iter_vars)} axes"
        raise ScheduleError(what, got=padding, instead="a number from 1 for each", at=ref.node)
    ana = sch.state.analyzer(ref)
    stores, operands = sum_of_products(ref, ana)
    larger: dict[Var, PrimExpr] = {}
    for axis, unit in zip(node.iter_vars, padding, strict=True):
        size = ana.simplify(multiply(ceildiv(axis.dom.extent, int(unit)), int(unit)))
        if not ana.can_prove_equal(size, axis.dom.extent):
            larger[axis.var] = size
    if not larger:
        return
    for load in (*stores, *operands):
        check_indices(ref, load)
    check_padded(ref, larger, stores, operands)
    chain = check_loops(ref)
    table: dict[Buffer, Buffer] = {}
    before: list[Stmt] = []
    for buffer in dict.fromkeys(load.buffer for load in operands):
        loads = [load for load in operands if load.buffer is buffer]
        if any(uses(load, larger) for load in loads):
            table[buffer] = padded(loads, larger, ana)
            before.append(pad_in(buffer, table[buffer]))
    after: list[Stmt] = []
    if uses(stores[0], larger):
        larger_buffer = table[stores[0].buffer] = padded(stores, larger, ana)
        after.append(copy_out(stores[0].buffer, larger_buffer))
    axes = tuple(
        a.replace(dom=Range.from_min_extent(a.dom.min, larger[a.var])) if a.var in larger else a
        for a in node.iter_vars
    )
    block_made = with_detected_regions(ReplaceBuffer(table).visit(node.replace(iter_vars=axes)))
    nest: Stmt = ref.realize.replace(block=block_made)
    sizes = {
        value: larger[a.var]
        for a, value in zip(node.iter_vars, ref.realize.iter_values, strict=True)
        if a.var in larger
    }
    for r in reversed(chain):
        extent = sizes.get(r.stmt.loop_var, r.stmt.extent)
        nest = r.stmt.replace(extent=extent, body=nest)
    scope = ref.scope()
    position = item_index(scope, ref)

    def change(b: Block) -> Block:
        items = list(b.body.seq if isinstance(b.body, SeqStmt) else (b.body,))
        items[position : position + 1] = [*before, items[position], *after]
        return b.replace(body=seq(*items), alloc_buffers=(*b.alloc_buffers, *table.values()))

    sch.state.update(ref.func, {chain[0]: nest}, {node: block_made}, {scope: change})


def sum_of_products(ref: Ref, ana: Analyzer) -> tuple[list[BufferLoad], list[BufferLoad]]:
    """(the result's elements, the factors' loads) of a block `C = C + A * B`."""
    reducer = find_reducer(ana, ref.realize)
    single = len(reducer.stores) == 1 and isinstance(reducer.results[0], Add)
    operands = factors(reducer.values[0]) if single else None
    if operands is None:
        what = f"block {ref.stmt.name_hint!r} is not a sum of products"
        raise ScheduleError(what, got=reducer.values[0], instead="C + A * B", at=ref.node)
    return [BufferLoad(s.buffer, s.indices) for s in reducer.stores], operands


def factors(value: PrimExpr) -> list[BufferLoad] | None:
    """The loads of a product (through casts), or None."""
    if isinstance(value, Cast):
        return factors(value.value)
    if isinstance(value, BufferLoad):
        return [value]
    if isinstance(value, Mul):
        a, b = factors(value.a), factors(value.b)
        return None if a is None or b is None else a + b
    return None


def uses(load: BufferLoad, larger: dict[Var, PrimExpr]) -> bool:
    """Whether an access has an axis that grows."""
    return any(i in larger for i in load.indices if isinstance(i, Var))


def check_indices(ref: Ref, load: BufferLoad) -> None:
    """Raise ScheduleError unless each index is an axis over the whole dimension."""
    doms = {a.var: a.dom for a in ref.stmt.iter_vars}
    for index, extent in zip(load.indices, load.buffer.shape, strict=True):
        dom = doms.get(index) if isinstance(index, Var) else None
        same = dom is not None and int_value(dom.min) == 0 and equal_extents(dom.extent, extent)
        if not same:
            what = f"{load.buffer.name} is not indexed by whole axes"
            hint = "one axis for each dimension, as in an einsum"
            raise ScheduleError(what, got=load, instead=hint, at=ref.node)


def check_padded(
    ref: Ref, larger: dict[Var, PrimExpr], stores: list[BufferLoad], operands: list[BufferLoad]
) -> None:
    """Raise ScheduleError where more iterations of an axis would add something: a spatial axis has
    elements of its own in the result, a reduction has zeros in an operand."""
    for axis in ref.stmt.iter_vars:
        spatial = axis.iter_type == IterVar.DataPar
        used = any(axis.var in load.indices for load in (stores if spatial else operands))
        if axis.var in larger and not used:
            what = f"axis {axis.var.name!r} of block {ref.stmt.name_hint!r} cannot be padded"
            got = f"it indexes no {'element of the result' if spatial else 'operand'}"
            raise ScheduleError(what, got=got, instead="a padding of 1", at=ref.node)


def padded(loads: list[BufferLoad], larger: dict[Var, PrimExpr], ana: Analyzer) -> Buffer:
    """The larger buffer for all accesses of a buffer: two axes may index one dimension."""
    old = loads[0].buffer
    shape = list(old.shape)
    for n in range(len(shape)):
        axes = {load.indices[n] for load in loads}
        sizes = [size for axis, size in larger.items() if axis in axes]
        if sizes:
            shape[n] = ana.simplify(reduce(maximum, sizes))
    return decl_buffer(shape, old.dtype, f"{old.name}_pad", scope=old.scope())


def pad_in(source: Buffer, target: Buffer) -> Stmt:
    """The nest that fills a padded operand."""
    axes = [Var(f"v{n}", e.dtype) for n, e in enumerate(target.shape)]
    inside: PrimExpr = const(True, "bool")
    for axis, size, extent in zip(axes, target.shape, source.shape, strict=True):
        if size is not extent:
            inside = logical_and(inside, axis < extent)
    value = if_then_else(inside, BufferLoad(source, axes), const(0, target.dtype))
    return _nest(target.name, axes, target.shape, BufferStore(target, value, axes))


def copy_out(target: Buffer, source: Buffer) -> Stmt:
    """The nest that copies the result out of its padded buffer."""
    axes = [Var(f"v{n}", e.dtype) for n, e in enumerate(target.shape)]
    body = BufferStore(target, BufferLoad(source, axes), axes)
    return _nest(source.name, axes, target.shape, body)


def _nest(name: str, axes: list[Var], shape: Sequence[PrimExpr], body: Stmt) -> Stmt:
    doms = [Range.upto(e) for e in shape]
    iters = [IterVar(d, a, IterVar.DataPar) for a, d in zip(axes, doms, strict=True)]
    block = with_detected_regions(Block(iters, (), (), name, body))
    loops = [Var(f"ax{n}", a.dtype) for n, a in enumerate(axes)]
    return serial_nest(loops, shape, BlockRealize(loops, True, block))
