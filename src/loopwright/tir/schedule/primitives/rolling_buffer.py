"""`rolling_buffer`: rows that adjacent iterations share are kept, not computed again."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ....arith import Analyzer
from ....ir.functor import any_node
from ....ir.literals import conjunction, conjuncts, int_value, is_one
from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, const, floormod, logical_or, subtract
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...stmt import Block, BufferStore, For, ForKind, MatchBufferRegion
from ..machinery import BlockArg, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.buffer_accesses import with_detected_regions
from ..machinery.buffer_lookup import alloc_site, buffer_at
from ..machinery.loop_nests import single_path
from ..machinery.regions import axis_values, relaxed_region
from ..machinery.rewriting import BlockRewriter, substitute
from ..machinery.scope import (
    check_complete_or_reduction,
    read_buffers,
    why_not_complete,
    why_not_reduction,
    write_buffers,
)

if TYPE_CHECKING:
    from ....ir.node import Node

LONGEST = 1024  # iterations of a loop whose begins are computed one by one


@primitive("RollingBuffer", inputs="block", attrs="write_buffer_index")
def rolling_buffer(sch: ScheduleBase, block: BlockArg, write_buffer_index: int) -> None:
    """Fold a dimension of a buffer to what one iteration needs, and compute in each iteration
    only the rows that the previous one has not computed.

    The block has been moved into a loop by `compute_at`, and a loop around drives an axis in steps
    smaller than the extent computed at once. Of several such axes, that of the outermost loop is
    folded.

    Raises ScheduleError where no axis is such, elements may change between iterations, or a block
    reads others than the iteration's own.

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
        -             v = T.axis.spatial(8, i * 2 + j)
        +             v = T.axis.opaque(8, i * 2 + j)
        -             C[v] = B[v] + B[v + 2]
        +             T.reads(B[0:4])
        +             C[v] = B[v % 4] + B[(v + 2) % 4]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, write_buffer_index, write=True)
    site = alloc_site(ref, buffer)
    check_complete_or_reduction(ref)
    chain = single_path(ref)
    around = chain[0].parent if chain else ref.parent
    if around is None or around.is_block:
        what = f"block {ref.stmt.name_hint!r} is not inside a loop of its consumers"
        raise ScheduleError(what, instead="compute_at it first", at=ref.node)
    users = []
    for other in ref.scope().blocks():
        if buffer not in read_buffers(other.stmt) | write_buffers(other.stmt):
            continue
        if not other.is_under(around):
            what = f"block {other.stmt.name_hint!r} uses {buffer.name} outside of the loop"
            raise ScheduleError(
                what, instead="a loop around all that use it", at=[around.stmt, other.node]
            )
        if other is not ref:
            users.append(other)
    ana = sch.state.analyzer(ref)
    first, *rest = _overlaps(ana, ref, buffer, around, chain)
    if sch.enable_check:
        _check_order(ref, first, site)
        _check_same_values(ref, first.loop)
        for one in (ref, *users):
            _check_rows(one, buffer, first.dim)
        for user in users:
            _check_window(sch, ref, user, buffer, around, first)
    tests = [overlap.test for overlap in sorted((first, *rest), key=lambda o: o.dim)]
    predicate = conjunction([*conjuncts(ref.realize.predicate), *tests])
    shape = list(buffer.shape)
    shape[first.dim] = const(first.size, shape[first.dim].dtype)
    rolled = buffer.replace(shape=tuple(shape))
    # Elements are overwritten by later iterations: the iterations run in this order.
    changes: dict[Ref, Any] = {}
    ordered: dict[Block, Block] = {}
    for one in (ref, *users):
        axes = tuple(
            a.replace(iter_type=IterVar.DimInfo)
            if a.iter_type == IterVar.DataPar and first.loop.stmt.loop_var in vars_in(v)
            else a
            for a, v in zip(one.stmt.iter_vars, one.realize.iter_values, strict=True)
        )
        ordered[one.stmt] = one.stmt.replace(iter_vars=axes)
        changes[one] = one.realize.replace(block=ordered[one.stmt])
    changes[ref] = changes[ref].replace(predicate=predicate)
    renamed = sch.state.update(ref.func, changes, ordered)
    site = sch.state.index(ref.func).blocks[renamed.get(site.stmt) or site.stmt]
    fold = _Fold(buffer, rolled, first.dim, first.size)
    sch.state.update(ref.func, {site: fold.visit(site.realize)}, fold.renamed)


class _Overlap(NamedTuple):
    """A dimension of which adjacent iterations of `loop` compute parts that overlap."""

    dim: int
    loop: Ref
    begin: PrimExpr  # of what an iteration computes
    inner: Var  # the loop over what an iteration computes
    size: int  # of it
    new: int  # elements at most of it that the iteration before has not computed

    @property
    def test(self) -> PrimExpr:
        """Whether an element is computed for the first time."""
        node = self.loop.stmt
        old_rows = const(self.size - self.new, self.inner.dtype)
        return logical_or(node.loop_var < node.min + 1, old_rows <= self.inner)


def _overlaps(
    ana: Analyzer, ref: Ref, buffer: Buffer, around: Ref, chain: list[Ref]
) -> list[_Overlap]:
    """The overlapping dimensions, that of the outermost loop first.

    What an iteration leaves out has been computed by the one before of the same loop, which runs
    earlier with all other loops at the same place.
    """
    own = {r.stmt.loop_var: r.stmt for r in chain}
    outer = [r for r in ref.loops() if r.stmt.loop_var not in own]
    values = axis_values(ref)
    overlaps: list[_Overlap] = []
    for axis, value in values.items():
        dim = _dimension(ref, buffer, axis)
        used = vars_in(value)
        inner = [v for v in used if v in own]
        loops = [r for r in outer if r.stmt.loop_var in used and not is_one(r.stmt.extent)]
        if dim is None or len(inner) != 1 or len(loops) != 1:
            continue
        (var,), (loop,) = inner, loops
        node, size = own[var], int_value(own[var].extent)
        begin = ana.simplify(substitute(value, {var: const(0, var.dtype)}))
        plain = size is not None and int_value(node.min) == 0 and loop.stmt.kind == ForKind.SERIAL
        alone = sum(loop.stmt.loop_var in vars_in(v) for v in values.values()) == 1
        if not plain or not alone or not ana.can_prove_equal(value, add(begin, var)):
            continue
        new = _most_new(ana, begin, loop)
        if size is None or new is None or not 0 < new < size:
            continue
        overlap = _Overlap(dim, loop, begin, var, size, new)
        if _keeps_predicate(ana, ref, overlap):
            overlaps.append(overlap)
    overlaps.sort(key=lambda o: outer.index(o.loop))
    if not overlaps or not _shorter(buffer, overlaps[0]):
        what = f"no axis of block {ref.stmt.name_hint!r} overlaps between iterations of the loop"
        hint = "a serial loop i around it and a binding i * step + j, with j reaching beyond step"
        raise ScheduleError(what, instead=hint, at=[around.stmt, ref.node])
    return overlaps


def _shorter(buffer: Buffer, overlap: _Overlap) -> bool:
    extent = int_value(buffer.shape[overlap.dim])
    return extent is None or overlap.size < extent


def _most_new(ana: Analyzer, begin: PrimExpr, loop: Ref) -> int | None:
    """The largest distance that the begin moves in one iteration of a loop; None where it may move
    back or that is not known."""
    node: For = loop.stmt
    low = int_value(node.min)
    step = ana.simplify(subtract(substitute(begin, {node.loop_var: node.loop_var + 1}), begin))
    if isinstance(step, IntImm) or low is None:
        return step.value if isinstance(step, IntImm) and low is not None else None
    extent = int_value(node.extent)
    if extent is None or extent > LONGEST or vars_in(begin) != {node.loop_var}:
        return None
    points = (const(low + n, node.loop_var.dtype) for n in range(extent))
    at = [int_value(ana.simplify(substitute(begin, {node.loop_var: point}))) for point in points]
    steps = [None if a is None or b is None else b - a for a, b in pairwise(at)]
    forward = [step for step in steps if step is not None and step >= 0]
    return max(forward) if forward and len(forward) == len(steps) else None


def _keeps_predicate(ana: Analyzer, ref: Ref, overlap: _Overlap) -> bool:
    """Whether the block's predicate is one of elements: the iteration before has it, too."""
    values = [v for v in ref.realize.iter_values if overlap.inner in vars_in(v)]
    stand_in = Var("element", overlap.inner.dtype)
    moved = subtract(stand_in, overlap.begin)
    variables = {overlap.inner, overlap.loop.stmt.loop_var}
    return len(values) == 1 and all(
        not variables & vars_in(ana.simplify(substitute(part, {overlap.inner: moved})))
        for part in conjuncts(ref.realize.predicate)
    )


def _check_order(ref: Ref, overlap: _Overlap, site: Ref) -> None:
    """Raise ScheduleError unless the loops around run one iteration after the other, up to where the
    buffer is allocated."""
    own = {overlap.inner}
    for at in ref.ancestors():
        if at is site:
            return
        if at.is_block or at.stmt.loop_var in own or at in single_path(ref):
            continue
        if at.stmt.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            what = f"loop {at.stmt.loop_var.name!r} does not run in order"
            hint = "rolling_buffer before other steps of this loop"
            raise ScheduleError(what, got=at.stmt.kind, instead=hint, at=at.stmt)


def _check_same_values(ref: Ref, loop: Ref) -> None:
    """Raise ScheduleError unless an element has the same value in whatever iteration of the loop it is
    computed: what it is computed from is written outside, or by blocks of which this holds."""
    own = {b for at in ref.ancestors() if at.is_block for b in at.stmt.alloc_buffers}
    todo, done = [ref], set()
    while todo:
        block = todo.pop()
        done.add(block)
        inputs = read_buffers(block.stmt) - write_buffers(block.stmt)
        for other in ref.scope().blocks():
            if other in done or not other.is_under(loop):
                continue
            changed = inputs & write_buffers(other.stmt)
            if not changed:
                continue
            once = why_not_complete(other) is None or why_not_reduction(other) is None
            if not (once and changed <= own):
                what = f"block {other.stmt.name_hint!r} changes what {ref.stmt.name_hint!r} reads"
                hint = "roll the buffers of consumers before those of their producers"
                raise ScheduleError(what, instead=hint, at=[ref.node, other.node])
            todo.append(other)


def _check_window(
    sch: ScheduleBase, ref: Ref, user: Ref, buffer: Buffer, around: Ref, overlap: _Overlap
) -> None:
    """Raise ScheduleError unless a block reads only elements of the iteration's own part."""
    if user.realize is None or buffer in write_buffers(user.stmt):
        raise ScheduleError(f"another block writes {buffer.name}", at=[ref.node, user.node])
    box = relaxed_region(sch.state, user, around, buffer, write=False)
    if box is None:
        return
    ana = sch.state.analyzer(user)
    low, high = box[overlap.dim]
    end = add(overlap.begin, overlap.size - 1)
    last = subtract(buffer.shape[overlap.dim], 1)
    above = ana.can_prove(high <= end) or (ana.can_prove(last <= end))
    if not ana.can_prove(overlap.begin <= low) or not above:
        what = f"block {user.stmt.name_hint!r} reads {buffer.name} outside of the computed range"
        got = f"{low} to {high} of {overlap.begin} to {ana.simplify(end)}"
        hint = "compute_at in the loop of the consumers, and before other steps of theirs"
        raise ScheduleError(what, got=got, instead=hint, at=[ref.node, user.node])


def _check_rows(ref: Ref, buffer: Buffer, dim: int) -> None:
    """Raise ScheduleError where a block, or one inside of it, sees several rows as one buffer: they
    may wrap around."""

    def several(node: Node) -> bool:
        match = isinstance(node, MatchBufferRegion) and node.source.buffer is buffer
        return match and not is_one(node.source.region[dim].extent)

    if any_node(ref.stmt, several):
        what = f"block {ref.stmt.name_hint!r} sees several rows of {buffer.name} as one buffer"
        raise ScheduleError(what, instead="roll it before tensorize", at=ref.node)


def _dimension(ref: Ref, buffer: Buffer, axis: Var) -> int | None:
    """The dimension of a buffer that an axis indexes alone."""
    for region in ref.stmt.writes:
        if region.buffer is buffer:
            for n, r in enumerate(region.region):
                if r.min is axis:
                    return n
    return None


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

    def visit_MatchBufferRegion(self, node: MatchBufferRegion) -> Any:
        if node.source.buffer is not self.old:
            return node
        ranges: Any = list(node.source.region)
        row = ranges[self.dim]
        ranges[self.dim] = row.replace(min=floormod(row.min, self.size))
        return node.replace(source=BufferRegion(self.new, ranges))

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
