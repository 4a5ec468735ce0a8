"""`rolling_buffer`: rows that neighbouring iterations share are kept, not computed again."""

from __future__ import annotations

from typing import Any

from ....ir.literals import conjunction, conjuncts, int_value, is_one
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import const, floormod, logical_or
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...stmt import Block, BufferStore, ForKind
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.axis_bindings import linear_terms
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.buffer_lookup import alloc_site, buffer_at
from ..machinery.loop_nests import single_path
from ..machinery.rewriting import BlockRewriter
from ..machinery.scope import check_complete, read_buffers, write_buffers


@primitive("RollingBuffer", inputs="block", attrs="write_buffer_index")
def rolling_buffer(sch: ScheduleBase, block: BlockArg, write_buffer_index: int) -> None:
    """Fold a dimension of a buffer to what one iteration needs, and compute in each iteration
    only what the previous one has not.

    The block has been moved into a loop by `compute_at`, and the loop around its own drives an
    axis in steps smaller than what is computed at once.

    Before (-) and after (+) ``sch.rolling_buffer("B", 0)``,
    with ``A: T.Buffer(10), C: T.Buffer(8)``::

        - B = T.alloc_buffer(10)
        + B = T.alloc_buffer(4)
          for i in range(4):
              for j in range(4):
                  with T.block("B"):
        -             v = T.axis.spatial(10, i * 2 + j)
        -             B[v] = A[v] * 2.0
        +             v = T.axis.opaque(10, i * 2 + j)
        +             T.where(i < 1 or 2 <= j)
        +             B[v % 4] = A[v] * 2.0
              for j in range(2):
                  with T.block("C"):
                      v = T.axis.spatial(8, i * 2 + j)
        -             C[v] = B[v] + B[v + 2]
        +             T.reads(B[0:4])
        +             C[v] = B[v % 4] + B[(v + 2) % 4]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, write_buffer_index, write=True)
    site = alloc_site(ref, buffer)
    check_complete(ref)
    chain = single_path(ref)
    around = chain[0].parent if chain else ref.parent
    if around is None or around.is_block:
        what = f"block {ref.stmt.name_hint!r} is not inside a loop of its consumers"
        raise ScheduleError(what, instead="compute_at it first", at=ref.node)
    for other in ref.scope().blocks():
        uses = buffer in read_buffers(other.stmt) | write_buffers(other.stmt)
        if uses and not other.is_under(around):
            what = f"block {other.stmt.name_hint!r} uses {buffer.name} outside of the loop"
            raise ScheduleError(what, at=[around.stmt, other.node])
    axis, step, inner, size = _rolling_axis(ref, around, chain)
    dim = _dimension(ref, buffer, axis)
    node = around.stmt
    test = logical_or(node.loop_var < node.min + 1, const(size - step, inner.dtype) <= inner)
    predicate = conjunction([*conjuncts(ref.realize.predicate), test])
    shape = list(buffer.shape)
    shape[dim] = const(size, shape[dim].dtype)
    rolled = buffer.replace(shape=tuple(shape))
    # Elements are overwritten by later iterations: the iterations run in this order.
    axes = tuple(
        a.replace(iter_type=IterVar.DimInfo) if a is axis else a for a in ref.stmt.iter_vars
    )
    ordered = ref.stmt.replace(iter_vars=axes)
    realize = ref.realize.replace(predicate=predicate, block=ordered)
    renamed = sch.state.update(ref.func, {ref: realize}, {ref.stmt: ordered})
    site = sch.state.index(ref.func).blocks[renamed.get(site.stmt) or site.stmt]
    fold = _Fold(buffer, rolled, dim, size)
    sch.state.update(ref.func, {site: fold.visit(site.realize)}, fold.renamed)


def _rolling_axis(ref: Ref, around: Ref, chain: list[Ref]) -> tuple[IterVar, int, Var, int]:
    """(axis, step of the loop around, inner loop, its extent) of the axis whose parts overlap."""
    own = {r.stmt.loop_var: r.stmt for r in chain}
    var = around.stmt.loop_var
    serial = around.stmt.kind == ForKind.SERIAL and isinstance(around.stmt.min, IntImm)
    for axis, value in zip(ref.stmt.iter_vars, ref.realize.iter_values, strict=True):
        terms = linear_terms(value)
        if not serial or terms is None or var not in vars_in(value):
            continue
        steps = [f for atom, f in terms if atom is var]
        inner = [(atom, f) for atom, f in terms if atom in own]
        if len(steps) == 1 and len(inner) == 1 and inner[0][1] == 1 and len(terms) == 2:
            loop = own[inner[0][0]]
            extent = loop.extent
            if (
                isinstance(extent, IntImm)
                and 0 < steps[0] < extent.value
                and int_value(loop.min) == 0
            ):
                alone = all(
                    var not in vars_in(v)
                    for a, v in zip(ref.stmt.iter_vars, ref.realize.iter_values, strict=True)
                    if a is not axis
                )
                if alone:
                    return axis, steps[0], loop.loop_var, extent.value
    what = f"no axis of block {ref.stmt.name_hint!r} overlaps between iterations of the loop"
    hint = "a serial loop i around it and a binding i * step + j, with j reaching beyond step"
    raise ScheduleError(what, instead=hint, at=[around.stmt, ref.node])


def _dimension(ref: Ref, buffer: Buffer, axis: IterVar) -> int:
    for region in ref.stmt.writes:
        if region.buffer is buffer:
            for n, r in enumerate(region.region):
                if r.min is axis.var:
                    return n
    what = f"{buffer.name} is not indexed by axis {axis.var.name!r} alone"
    raise ScheduleError(what, at=ref.node)


class _Fold(BlockRewriter):
    """Indices of one dimension modulo its new size."""

    def __init__(self, old: Buffer, new: Buffer, dim: int, size: int) -> None:
        super().__init__()
        self.old, self.new, self.dim, self.size = old, new, dim, size

    def folded(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The new indices."""
        result = list(indices)
        result[self.dim] = floormod(result[self.dim], self.size)
        return tuple(result)

    def whole(self, region: BufferRegion) -> BufferRegion:
        """A region of several rows may wrap around: it becomes the whole dimension."""
        r = region.region[self.dim] if region.buffer is self.new else None
        if r is None or is_one(r.extent):
            return region
        ranges = list(region.region)
        dtype = r.min.dtype
        ranges[self.dim] = Range.from_min_extent(const(0, dtype), const(self.size, dtype))
        return region.replace(region=tuple(ranges))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        if load.buffer is not self.old:
            return load
        return BufferLoad._make(self.new, self.folded(load.indices), load.predicate)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        if store.buffer is not self.old:
            return store
        return store.replace(buffer=self.new, indices=self.folded(store.indices))

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return node

    def visit_Block(self, node: Block) -> Any:
        regions = (*node.reads, *node.writes)
        block = self.visit_default(node)
        if self.old in block.alloc_buffers:
            buffers = tuple(self.new if b is self.old else b for b in block.alloc_buffers)
            block = block.replace(alloc_buffers=buffers)
        if any(r.buffer is self.old for r in regions):
            block = with_detected_regions(block)
            block = block.replace(reads=tuple(map(self.whole, block.reads)))
        if block is not node:
            self.renamed[node] = block
        return block
