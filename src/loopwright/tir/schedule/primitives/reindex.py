"""Copies of buffers laid out by the axes of a block: `reindex`, `reindex_cache_read`,
`reindex_cache_write`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....arith import IterMapLevel, detect_iter_map
from ....arith.interval import Evaluator
from ....ir.functor import nodes_of
from ....ir.literals import int_value
from ....ir.prim_expr import IterVar, PrimExpr, Range, Var
from ....ir.prim_op import add, const, convert
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion, decl_buffer
from ...expr import BufferLoad
from ...index_map import IndexMap
from ...stmt import Block, BufferStore, For, Stmt
from ..machinery import BlockArg, BlockRV, Ref, ScheduleBase, ScheduleError, primitive
from ..machinery.axis_domains import Span
from ..machinery.buffer_accesses import check_no_pointer, with_detected_regions
from ..machinery.buffer_lookup import BufferArg, buffer_at, buffer_name, pick_buffer
from ..machinery.copy_placement import (
    check_fills,
    check_reduces_inside,
    check_storage_scope,
    copy_loops,
    domain_box,
    holding_item,
    insert,
    levels,
    steady,
)
from ..machinery.predicates import check_runs_everywhere, tests_around
from ..machinery.regions import axis_values, interval, loop_domain, loops_between
from ..machinery.rewriting import BlockRewriter, substitute
from ..machinery.scope import is_dominant, read_buffers, write_buffers
from .cache_read_write import check_one_writer


@primitive("ReIndex", inputs="block", attrs="buffer")
def reindex(sch: ScheduleBase, block: BlockArg, buffer: tuple[str, int] | str | Buffer) -> BlockRV:
    """Copy the region of a buffer that a block reads (or writes) so that it is indexed by the
    block's axes.

    Returns the copying block. buffer: ("read", n), ("write", n), a name, or the buffer.

    Before (-) and after (+) ``sch.reindex("B", ("read", 0))``,
    with ``A: T.Buffer(10), B: T.Buffer(8)``::

        + A_reindex = T.alloc_buffer((8, 3))
        + for ax0, ax1 in T.grid(8, 3):
        +     with T.block("A_reindex"):
        +         v_i, v_k = T.axis.remap("SS", [ax0, ax1])
        +         A_reindex[v_i, v_k] = A[v_i + v_k]
          for i, k in T.grid(8, 3):
              with T.block("B"):
                  v_i, v_k = T.axis.remap("SR", [i, k])
                  with T.init():
                      B[v_i] = 0.0
        -         B[v_i] = B[v_i] + A[v_i + v_k]
        +         B[v_i] = B[v_i] + A_reindex[v_i, v_k]
    """
    ref = sch.block(block)
    target = pick_buffer(ref, buffer)
    name = list(buffer) if isinstance(buffer, (tuple, list)) else buffer_name(ref, target)
    write = isinstance(name, list) and name[0] == "write"
    sch.record_as(buffer=name)
    indices = access_indices(sch, ref, target)
    used = set().union(*map(vars_in, indices)) if indices else set()
    axes = [a.var for a in ref.stmt.iter_vars if a.var in used]
    copy = cached(sch, ref, target, write, f"{target.name}_reindex", target.scope(), axes)
    return sch.new_block(ref.func, copy)


@primitive("ReindexCacheRead", inputs="block", attrs="read_buffer_index storage_scope index_map")
def reindex_cache_read(
    sch: ScheduleBase,
    block: BlockArg,
    read_buffer_index: BufferArg,
    storage_scope: str,
    index_map: IndexMap | Callable[..., Any],
) -> BlockRV:
    """Copy the region of a buffer that a block reads to one indexed by `index_map` of the axes.

    Before (-) and after (+) ``sch.reindex_cache_read("B", 0, "local", lambda i, j: (j, i))``,
    with ``A: T.Buffer((8, 8)), B: T.Buffer((8, 8))``::

        + A_local = T.alloc_buffer((8, 8), scope="local")
        + for ax0, ax1 in T.grid(8, 8):
        +     with T.block("A_local"):
        +         v_i, v_j = T.axis.remap("SS", [ax0, ax1])
        +         A_local[v_j, v_i] = A[v_i, v_j]
          for i, j in T.grid(8, 8):
              with T.block("B"):
                  v_i, v_j = T.axis.remap("SS", [i, j])
        -         B[v_i, v_j] = A[v_i, v_j] * 2.0
        +         B[v_i, v_j] = A_local[v_j, v_i] * 2.0
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, read_buffer_index, write=False)
    return _by_map(sch, ref, buffer, False, storage_scope, index_map)


@primitive("ReindexCacheWrite", inputs="block", attrs="write_buffer_index storage_scope index_map")
def reindex_cache_write(
    sch: ScheduleBase,
    block: BlockArg,
    write_buffer_index: BufferArg,
    storage_scope: str,
    index_map: IndexMap | Callable[..., Any],
) -> BlockRV:
    """Let a block write to a buffer indexed by `index_map` of the axes, which is then copied to the
    old one.

    Before (-) and after (+)
    ``sch.reindex_cache_write("B", 0, "local", lambda i: (i // 4, i % 4))``,
    with ``A: T.Buffer(8), B: T.Buffer(8)``::

        + B_local = T.alloc_buffer((2, 4), scope="local")
          for i in range(8):
              with T.block("B"):
                  v = T.axis.spatial(8, i)
        -         B[v] = A[v] * 2.0
        +         B_local[v // 4, v % 4] = A[v] * 2.0
        + for ax0 in range(8):
        +     with T.block("B_local"):
        +         v = T.axis.spatial(8, ax0)
        +         B[v] = B_local[v // 4, v % 4]
    """
    ref = sch.block(block)
    buffer = buffer_at(ref, write_buffer_index, write=True)
    return _by_map(sch, ref, buffer, True, storage_scope, index_map)


def map_of_axes(sch: ScheduleBase, ref: Ref, index_map: IndexMap | Callable[..., Any]) -> IndexMap:
    """The map of a block's axes that a user gave, in their type, recorded in the trace."""
    axes = ref.stmt.iter_vars
    dtype = str(axes[0].var.dtype) if axes else "int32"
    if not isinstance(index_map, IndexMap):
        index_map = IndexMap.from_func(index_map, ndim=len(axes), index_dtype=dtype)
    if len(index_map.initial_indices) != len(axes):
        what = f"block {ref.stmt.name_hint!r} has {len(axes)} axes"
        got = f"a map of {len(index_map.initial_indices)}"
        raise ScheduleError(what, got=got, instead="a map of each axis", at=ref.node)
    index_map = index_map.with_dtype(dtype)
    sch.record_as(index_map=index_map)
    return index_map


def _by_map(
    sch: ScheduleBase,
    ref: Ref,
    buffer: Buffer,
    write: bool,
    storage_scope: str,
    index_map: IndexMap | Callable[..., Any],
) -> BlockRV:
    check_storage_scope(storage_scope)
    check_one_writer(sch, ref, buffer)
    index_map = map_of_axes(sch, ref, index_map)
    axes = [a.var for a in ref.stmt.iter_vars]
    axis_values = dict(zip(index_map.initial_indices, axes, strict=True))
    indices = [substitute(convert(e), axis_values) for e in index_map.final_indices]
    name = f"{buffer.name}_{storage_scope}"
    copy = cached(sch, ref, buffer, write, name, storage_scope, indices)
    return sch.new_block(ref.func, copy)


class _Accesses(BlockRewriter):
    """Collects the indices of a buffer's accesses; with `to`, other accesses take their place."""

    def __init__(self, buffer: Buffer, to: tuple[Buffer, list[PrimExpr]] | None = None) -> None:
        super().__init__()
        self.buffer, self.to = buffer, to
        self.indices: list[tuple[PrimExpr, ...]] = []

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        if load.buffer is not self.buffer:
            return load
        self.indices.append(load.indices)
        return load if self.to is None else BufferLoad(*self.to)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        store = self.visit_default(node)
        if store.buffer is not self.buffer:
            return store
        self.indices.append(store.indices)
        return store if self.to is None else BufferStore(self.to[0], store.value, self.to[1])

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        return node if self.to is None else self.visit_default(node)

    def visit_Block(self, node: Block) -> Any:
        block = super().visit_Block(node)
        if block is node or self.to is None:
            return block
        detected = with_detected_regions(block)
        new = self.to[0]
        # A region that is not detected is the element that a reduction updates, where that is
        # declared.
        own = [r for r in (*detected.reads, *detected.writes) if r.buffer is new][:1]
        reads, writes = (
            tuple(m for r in declared for m in (own if r.buffer is self.buffer else (r,)))
            for declared in (block.reads, block.writes)
        )
        self.renamed[node] = block = block.replace(reads=reads, writes=writes)
        return block


def access_indices(sch: ScheduleBase, ref: Ref, buffer: Buffer) -> tuple[PrimExpr, ...]:
    """The one way in which a block indexes a buffer."""
    check_no_pointer(buffer, ref)
    accesses = _Accesses(buffer)
    accesses.visit(ref.stmt)
    every = accesses.indices
    key = sch.state.analyzer(ref).key
    if not every or any(key(indices) != key(every[0]) for indices in every):
        what = f"block {ref.stmt.name_hint!r} indexes {buffer.name} in several ways"
        got = "; ".join(", ".join(map(str, indices)) for indices in every)
        raise ScheduleError(what, got=got, instead="one index for all accesses", at=ref.node)
    axes = {a.var for a in ref.stmt.iter_vars}
    loops = {r.stmt.loop_var for r in ref.loops()}
    used = set().union(*map(vars_in, every[0])) if every[0] else set()
    if used & loops or not all(v in axes or not _local(v, ref) for v in used):
        raise ScheduleError("the index uses variables bound inside the block", at=ref.node)
    simplify = sch.state.analyzer(ref).simplify  # without axes that make no difference
    return tuple(i if isinstance(i, Var) else simplify(i) for i in every[0])


def _local(var: Var, ref: Ref) -> bool:
    """Whether a variable is bound inside the block."""
    defined = []

    class _Loops(BlockRewriter):
        def visit_For(self, node: For) -> Any:
            defined.append(node.loop_var)
            return self.visit_default(node)

        def visit_IterVar(self, node: IterVar) -> Any:
            defined.append(node.var)
            return node

    _Loops().visit(ref.stmt.body)
    return var in defined


def cached(
    sch: ScheduleBase,
    ref: Ref,
    buffer: Buffer,
    write: bool,
    name: str,
    storage_scope: str,
    indices: list[Any],
) -> Block:
    """Replace a buffer by one indexed by `indices` (of the block's axes), with a block that copies.
    Returns that block."""
    node: Block = ref.stmt
    scope = ref.scope()
    old = access_indices(sch, ref, buffer)
    both = buffer in read_buffers(node) and buffer in write_buffers(node)
    if (not write and buffer in write_buffers(node)) or (both and node.init is None):
        what = f"block {node.name_hint!r} updates {buffer.name} in place"
        raise ScheduleError(
            what, instead="a buffer that is only read, or only written", at=ref.node
        )
    check_inside(sch, ref, buffer, old)
    used = set().union(*map(vars_in, (*old, *indices)))
    axes = [a for a in node.iter_vars if a.var in used]
    check_same_elements(sch, ref, axes, old, indices, write)
    ana = sch.state.analyzer(ref)
    doms = [a.dom for a in axes]
    shape = IndexMap([a.var for a in axes], indices).map_ranges(doms) if axes else []
    extents = [ana.simplify(add(r.min, r.extent)) for r in shape]
    cache = decl_buffer(extents, buffer.dtype, name, scope=storage_scope)

    fresh = {a.var: a.var.copy_with_suffix("") for a in axes}
    cache_indices = [substitute(i, fresh) for i in indices]
    buffer_indices = [substitute(i, fresh) for i in old]
    source, target = (
        ((cache, cache_indices), (buffer, buffer_indices))
        if write
        else ((buffer, buffer_indices), (cache, cache_indices))
    )
    copy = Block(
        [IterVar(a.dom, fresh[a.var], IterVar.DataPar) for a in axes],
        (),
        (),
        name,
        BufferStore(target[0], BufferLoad(*source), target[1]),
    )
    copy = with_detected_regions(copy)
    at, position = place_beside(ref, scope, copy, write)
    if write and sch.enable_check:
        if at is scope:
            check_runs_everywhere(sch.state, ref)
        else:
            check_reduces_inside(ref, at)
            domain_box(sch.state, [ref], buffer)  # no predicate of its own
            check_fills(sch.state, ref, at, buffer.name, _points(ref, axes))
        if not is_dominant(ref):
            what = f"another block also writes {buffer.name}"
            raise ScheduleError(what, instead="the only writer of a buffer", at=ref.node)
    nest = around(sch, ref, scope, at, axes, copy, write)
    accesses = _Accesses(buffer, (cache, indices))
    block = accesses.visit(node)
    changes = {ref: ref.realize.replace(block=block)}
    positions = [(position + 1 if write else position, nest, copy)]
    insert(sch.state, ref.func, changes, accesses.renamed, scope, at, positions, cache)
    return copy


def values(ref: Ref, axes: list[IterVar]) -> list[PrimExpr]:
    """The values of some of a block's axes."""
    bound = axis_values(ref)
    return [bound[a.var] for a in axes]


def _points(ref: Ref, axes: list[IterVar]) -> list[tuple[PrimExpr, PrimExpr]]:
    return [(v, const(1, v.dtype)) for v in values(ref, axes)]


def around(
    sch: ScheduleBase, ref: Ref, scope: Ref, at: Ref, axes: list[IterVar], copy: Block, write: bool
) -> Stmt:
    """The loops of a copy in the body of `at`: over the domains of the axes or, in a loop, over
    the values that they take in one iteration."""
    spans: list[Span | None] = [None] * len(axes)
    ana = sch.state.analyzer(ref)
    if at is not scope:
        domain = Evaluator(ana, loop_domain(loops_between(ref, at)))
        box = []
        for axis, value in zip(axes, values(ref, axes), strict=True):
            rng = Range.from_min_extent(value, const(1, value.dtype))
            box.append(interval(domain, rng, add(axis.dom.min, axis.dom.extent)))
        spans = [
            span if int_value(axis.dom.min) == 0 else None
            for axis, span in zip(axes, steady(sch.state.analyzer(at), box, scope), strict=True)
        ]
        if write and None in spans:
            what = f"what block {ref.stmt.name_hint!r} writes in one iteration is not known"
            raise ScheduleError(what, instead="reindex before the blocks share loops", at=ref.node)
    limits = [[span] if span is not None and write else [] for span in spans]
    tests = tests_around([ref], at)
    return copy_loops(ana, list(copy.iter_vars), spans, copy, limits, tests, at is scope)


def check_inside(sch: ScheduleBase, ref: Ref, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
    """Raise ScheduleError where only a condition keeps an access, or one of an index, inside the
    buffer."""
    ana = sch.state.analyzer(ref)
    for node in nodes_of(BufferLoad(buffer, indices), BufferLoad):
        for index, extent in zip(node.indices, node.buffer.shape, strict=True):
            if not (ana.can_prove(index >= 0) and ana.can_prove(index < extent)):
                name = node.buffer.name
                what = f"{name} is indexed out of its bounds where a condition does not hold"
                hint = "an access that is inside for all values of the axes"
                raise ScheduleError(what, got=index, instead=hint, at=ref.node)


def place_beside(ref: Ref, scope: Ref, copy: Block, write: bool) -> tuple[Ref, int]:
    """The outermost loop (or the scope) whose statement that holds the block holds no other block
    that writes the copied buffer before it (or the indices of the copy), or reads the copied buffer
    after it; and the position of that statement."""

    def clashes(other: Ref) -> bool:
        clash = write_buffers(other.stmt) & (read_buffers(copy) | write_buffers(copy))
        if write:
            clash |= read_buffers(other.stmt) & write_buffers(copy)
        return bool(clash)

    others = [b for b in scope.blocks() if b is not ref and clashes(b)]
    for at, (position,) in levels(scope, [ref]):
        if not any(b.is_under(at) and holding_item(at, b) == position for b in others):
            return at, position
    what = f"block {ref.stmt.name_hint!r} is under a condition, or another block in it"
    raise ScheduleError(what, instead="loops and blocks only", at=ref.node)


def check_same_elements(
    sch: ScheduleBase,
    ref: Ref,
    axes: list[IterVar],
    old: Sequence[PrimExpr],
    indices: list[Any],
    write: bool,
) -> None:
    """Raise ScheduleError unless each element of the new buffer corresponds to one of the old."""
    needed = set().union(*map(vars_in, old)) if old else set()
    if write:
        reduced = [a for a in axes if a.iter_type != IterVar.DataPar]
        if reduced:
            what = f"{ref.stmt.name_hint!r} would write an element for each step of its reduction"
            raise ScheduleError(what, instead="spatial axes only", at=ref.node)
    iters = {a.var: a.dom for a in axes if a.var in needed}
    moving = [i for i in indices if vars_in(i) & set(iters)]
    iter_map = detect_iter_map(moving, iters, True, IterMapLevel.Bijective)
    if iter_map.errors:
        what = "elements of the new buffer would correspond to several of the old one"
        got = f"{iter_map.errors[0]}: {', '.join(map(str, indices))}"
        hint = "a map that keeps all axes of the index apart"
        raise ScheduleError(what, got=got, instead=hint, at=ref.node)
