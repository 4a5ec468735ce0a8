"""`transform_layout`: a buffer in another layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....arith import Analyzer
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import const
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...index_map import IndexMap
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.buffer_lookup import buffer_name, pick_buffer
from ..machinery.parallel_checks import is_private
from ..machinery.rewriting import BlockRewriter, substitute
from ..machinery.scope import write_buffers
from ..machinery.state import bind_range


@primitive(
    "TransformLayout",
    inputs="block",
    attrs="buffer index_map pad_value assume_injective_transform",
)
def transform_layout(
    sch: ScheduleBase,
    block: BlockArg,
    buffer: tuple[str, int] | str | Buffer,
    index_map: IndexMap | Callable[..., Any],
    pad_value: Any = None,
    *,
    assume_injective_transform: bool = False,
) -> None:
    """Store the elements of a buffer in another order: element `i` lies at `index_map(i)`.

    buffer: ("read", n) or ("write", n), the name, or the buffer. A parameter's buffer changes its
    shape. Where the new layout is larger, `pad_value` is written to the padding (for a parameter
    that is up to the caller).

    Raises ScheduleError when the map is not injective, or leaves padding without a `pad_value`.

    Before (-) and after (+)
    ``sch.transform_layout("B", ("write", 0), lambda i, j: (j // 4, i, j % 4))``,
    with ``A: T.Buffer((8, 8)), B: T.Buffer((8, 8))`` that become
    ``A: T.Buffer((8, 8)), B: T.Buffer((2, 8, 4))``::

          for i, j in T.grid(8, 8):
              with T.block("B"):
                  vi, vj = T.axis.remap("SS", [i, j])
        -         B[vi, vj] = A[vi, vj] * 2.0
        +         B[vj // 4, vi, vj % 4] = A[vi, vj] * 2.0
    """
    ref = sch.block(block)
    old = pick_buffer(ref, buffer)
    dtype = old.shape[0].dtype if old.shape else "int32"
    separators: tuple[int, ...] = ()
    if not isinstance(index_map, IndexMap):
        mapped, places = IndexMap.from_func_with_separators(
            index_map, ndim=len(old.shape), index_dtype=str(dtype)
        )
        index_map, separators = mapped, tuple(places)
    index_map = index_map.with_dtype(dtype)
    sch.record_as(index_map=index_map, buffer=buffer_name(ref, old))
    ana = sch.state.analyzer(ref)
    try:
        shape = tuple(ana.simplify(s) for s in index_map.map_shape(old.shape))
        padded = const(False, "bool")
        if not assume_injective_transform and sch.enable_check:
            inverse, padded = index_map.non_surjective_inverse(list(old.shape))
    except ValueError as error:
        what = f"the layout of {old.name} cannot be changed by this map"
        hint = "a map that keeps every element, such as lambda i, j: (j // 4, i, j % 4)"
        raise ScheduleError(what, got=error, instead=hint, at=ref.node) from None
    has_padding = not (isinstance(padded, IntImm) and not padded.value)
    if has_padding and pad_value is None:
        what = f"the new layout of {old.name} has elements that hold nothing"
        before, after = (", ".join(map(str, s)) for s in (old.shape, shape))
        got = f"shape ({before}) becomes ({after})"
        raise ScheduleError(what, got=got, instead="give pad_value=", at=ref.node)
    new = old.replace(shape=shape, strides=(), axis_separators=separators)
    site = next(
        (r for r in (ref, *ref.ancestors()) if r.is_block and old in r.stmt.alloc_buffers), None
    )
    fill = None
    if has_padding and any(old in write_buffers(b.stmt) for b in ref.scope().blocks()):
        check_shared(ref, old)
        fill = fill_padding(sch, new, inverse, padded, pad_value)
    apply_map(sch, ref, site, old, new, index_map, fill)


def check_shared(ref: Ref, buffer: Buffer) -> None:
    """Raise ScheduleError where each iteration of a loop that does not run serially has a copy of
    the buffer: filling its padding before the loop would merge the copies."""
    for writer in ref.scope().blocks():
        if buffer not in write_buffers(writer.stmt):
            continue
        for above in writer.ancestors():
            if above.is_block or above.stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED):
                continue
            if is_private(above, writer):
                name = above.stmt.loop_var.name
                what = f"each iteration of loop {name!r} has a copy of {buffer.name}"
                hint = "change the layout first, then the kind of the loop"
                raise ScheduleError(what, instead=hint, at=[above.stmt, writer.node])


class MapAccesses(BlockRewriter):
    """Changes the indices of a buffer's accesses; the regions of the blocks follow."""

    def __init__(
        self,
        ana: Analyzer,
        old: Buffer,
        new: Buffer,
        index_map: IndexMap,
        renamed: dict[Block, Block],
    ) -> None:
        super().__init__(renamed)
        self.ana, self.old, self.new, self.map = ana, old, new, index_map

    def mapped(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """The new indices."""
        values = dict(zip(self.map.initial_indices, indices, strict=True))
        return tuple(self.ana.simplify(substitute(e, values)) for e in self.map.final_indices)

    def regions(
        self, declared: tuple[BufferRegion, ...], found: tuple[BufferRegion, ...]
    ) -> tuple[BufferRegion, ...]:
        """The declared regions, with those found for the new buffer in the old one's place."""
        places = [n for n, region in enumerate(declared) if region.buffer is self.old]
        kept = [region for region in declared if region.buffer is not self.old]
        at = places[0] if places else len(kept)
        kept[at:at] = [region for region in found if region.buffer is self.new]
        return tuple(kept)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        if load.buffer is not self.old:
            return load
        return BufferLoad._make(self.new, self.mapped(load.indices), load.predicate, span=load.span)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        if store.buffer is not self.old:
            return store
        return BufferStore._make(
            self.new, store.value, self.mapped(store.indices), store.predicate, span=store.span
        )

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return node

    def visit_Block(self, node: Block) -> Any:
        regions = (*node.reads, *node.writes)
        mine = any(r.buffer is self.old for r in regions)
        for axis in node.iter_vars:
            bind_range(self.ana, axis.var, axis.dom.min, axis.dom.extent)
        if any(m.source.buffer is self.old for m in node.match_buffers):
            what = f"block {node.name_hint!r} matches a region of {self.old.name}"
            raise ScheduleError(what, instead="change the layout before tensorize", at=node)
        block = self.visit_default(node)
        if self.old in block.alloc_buffers:
            buffers = tuple(self.new if b is self.old else b for b in block.alloc_buffers)
            block = block.replace(alloc_buffers=buffers)
        if mine:
            found = with_detected_regions(block)
            block = block.replace(
                reads=self.regions(block.reads, found.reads),
                writes=self.regions(block.writes, found.writes),
            )
        if block is not node:
            self.renamed[node] = block
        return block


def apply_map(
    sch: ScheduleBase,
    ref: Ref,
    site: Ref | None,
    old: Buffer,
    new: Buffer,
    index_map: IndexMap,
    fill: Stmt | None,
) -> None:
    """Replace the old buffer by the new one everywhere."""
    renamed: dict[Block, Block] = {}
    ana = sch.state.analyzer(ref)
    func = sch.state.func(ref.func)
    root = site if site is not None else sch.state.index(ref.func).root
    assert root is not None
    body = MapAccesses(ana, old, new, index_map, renamed).visit(root.realize)
    if fill is not None:
        block = body.block
        items = block.body.seq if isinstance(block.body, SeqStmt) else (block.body,)
        filled = block.replace(body=seq(fill, *items))
        renamed[root.stmt] = filled
        body = body.replace(block=filled)
    if site is not None:
        sch.state.update(ref.func, {site: body}, renamed)
        return
    params = {p: new if b is old else b for p, b in func.buffer_map.items()}
    sch.state.set_func(ref.func, func.replace(body=body, buffer_map=params), renamed)


def fill_padding(
    sch: ScheduleBase, new: Buffer, inverse: IndexMap, padded: PrimExpr, pad_value: Any
) -> Stmt:
    """A nest that writes the padding of a buffer."""
    axes, loops = [], []
    for n, extent in enumerate(new.shape):
        axis = Var(f"v{n}", extent.dtype)
        dom = Range.upto(extent)
        axes.append(IterVar(dom, axis, IterVar.DataPar))
        loops.append((Var(f"ax{n}", extent.dtype), extent))
    points = [a.var for a in axes]
    if isinstance(pad_value, IndexMap):
        (value,) = pad_value.map_indices(points)
    elif callable(pad_value) and not isinstance(pad_value, PrimExpr):
        value = pad_value(*points)
        value = value[0] if isinstance(value, (list, tuple)) else value
    else:
        value = pad_value
    if not isinstance(value, PrimExpr):
        value = const(value, new.dtype)
    condition = substitute(padded, dict(zip(inverse.initial_indices, points, strict=True)))
    body = IfThenElse(condition, BufferStore(new, value, points))
    block = Block(axes, [], [BufferRegion.from_point(new, points)], f"{new.name}_pad", body)
    nest: Stmt = BlockRealize([v for v, _ in loops], True, block)
    for var, extent in reversed(loops):
        nest = For(var, 0, extent, ForKind.SERIAL, nest)
    return nest
