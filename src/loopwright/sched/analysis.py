"""Facts about a kernel that schedule rules need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..arith import detect_linear_equation
from ..ir.functor import nodes_of
from ..ir.literals import is_one, is_true
from ..ir.prim_expr import Add, Call, IntImm, IterVar, Max, Min, Mul, PrimExpr, Var
from ..ir.structural import structural_equal
from ..ir.variables import uses_any
from ..ops.common import EXACT_READS, NO_INLINE
from ..tir import stmt as st
from ..tir.buffer import Buffer
from ..tir.expr import BufferLoad
from ..tir.function import PrimFunc
from ..tir.op import is_call_to

SPATIAL, REDUCE = IterVar.DataPar, IterVar.CommReduce


@dataclass
class BlockInfo:
    """A block of a kernel, its loops (outermost first), the values of its axes, and what it computes."""

    name: str
    block: st.Block
    loops: list[st.For]
    values: Sequence[PrimExpr] = ()

    @property
    def spatial(self) -> list[IterVar]:
        """The data-parallel axes in order."""
        return [v for v in self.block.iter_vars if v.iter_type == SPATIAL]

    @property
    def reduce(self) -> list[IterVar]:
        """The reduction axes in order."""
        return [v for v in self.block.iter_vars if v.iter_type == REDUCE]

    @property
    def own_loops(self) -> list[st.For] | None:
        """The loops of the spatial axes, then of the reduction; None unless each axis has one of its own over
        its whole domain, without others. A single point has none."""
        axes = self.block.iter_vars
        if not self.loops and all(is_one(axis.dom.extent) for axis in axes):
            return []
        values = {axis.var: value for axis, value in zip(axes, self.values, strict=True)}
        order = [values[axis.var] for axis in (*self.spatial, *self.reduce)]
        loops = [f for value in order for f in self.loops if f.loop_var is value]
        if not len(axes) == len(order) == len(loops) == len(self.loops) == len({*map(id, loops)}):
            return None
        domains = [axis.dom for axis in (*self.spatial, *self.reduce)]
        return loops if structural_equal([f.range for f in loops], domains) else None

    @property
    def is_in_order(self) -> bool:
        """Whether its loops are `own_loops` in this order: rules count loops by axes."""
        own = self.own_loops
        return own is not None and all(a is b for a, b in zip(own, self.loops, strict=True))

    @property
    def is_spatial(self) -> bool:
        """Whether each iteration writes distinct elements."""
        return all(v.iter_type == SPATIAL for v in self.block.iter_vars)

    @property
    def is_reduction(self) -> bool:
        """Whether it is a standard reduction: reduce axes, maybe spatial ones, and an init."""
        kinds = {v.iter_type for v in self.block.iter_vars}
        return kinds - {SPATIAL} == {REDUCE} and self.block.init is not None

    @property
    def writes(self) -> list[Buffer]:
        """The buffers written."""
        return [r.buffer for r in self.block.writes]

    @property
    def store(self) -> st.BufferStore | None:
        """The block's only store, or None: a sum over no axis has a second store, its init."""
        body = self.block.body
        plain = self.block.init is None or self.reduce
        return body if plain and isinstance(body, st.BufferStore) else None


def blocks_of(func: PrimFunc) -> list[BlockInfo] | None:
    """The kernel's blocks in order; None unless it is a plain sequence of perfect nests, with ranges that
    do not depend on each other: blocks that move run over all of their domains."""
    body = func.body
    if isinstance(body, st.BlockRealize) and not body.block.iter_vars:
        body = body.block.body
    parts = body.seq if isinstance(body, st.SeqStmt) else (body,)
    blocks: list[BlockInfo] = []
    for part in parts:
        loops = []
        while isinstance(part, st.For):
            if part.kind != st.ForKind.SERIAL or uses_any(part.range, {f.loop_var for f in loops}):
                return None
            loops.append(part)
            part = part.body
        if not isinstance(part, st.BlockRealize) or nodes_of(part.block.body, st.Block):
            return None
        if not is_true(part.predicate):
            return None
        values = part.iter_values
        blocks.append(BlockInfo(part.block.name_hint, part.block, loops, values))
    return blocks


def blocks_in(func: PrimFunc) -> list[st.Block]:
    """The blocks that write, in order."""
    return [block for block in nodes_of(func.body, st.Block) if block.writes]


def loads_in(node: PrimExpr | st.Stmt) -> list[BufferLoad]:
    """The loads in an expression or statement."""
    return nodes_of(node, BufferLoad)


def has_condition(block: st.Block) -> bool:
    """Whether a block loads something only under a condition: padding, or an operand's end."""
    return any(is_call_to(call, "if_then_else") for call in nodes_of(block.body, Call))


# Loads of an expression into which others are inlined: a bound for models that join very many tensors.
_MOST_LOADS = 128


@dataclass
class Product:
    """A reduction acc + lhs * rhs whose last spatial axis indexes rhs contiguously (and not lhs):
    matmul, convolution. `depthwise` if it indexes both."""

    info: BlockInfo
    depthwise: bool


def as_product(info: BlockInfo) -> Product | None:
    """The `Product` of a reduction, or None."""
    store = info.store
    if store is None or not isinstance(store.value, Add):
        return None
    terms = [store.value.a, store.value.b]
    rest = [t for t in terms if not (isinstance(t, BufferLoad) and t.buffer is store.buffer)]
    if len(rest) != 1:
        return None
    loads = [x for x in loads_in(rest[0]) if x.buffer is not store.buffer]
    lanes = info.spatial[-1].var if info.spatial else None
    if lanes is None or not nodes_of(rest[0], Mul):
        return None
    along = [any(uses_any(i, (lanes,)) for i in x.indices) for x in loads]
    if not along or not any(along):
        return None
    return Product(info, depthwise=all(along))


_COSTLY = {f"tir.{name}" for name in ("exp", "erf", "tanh", "sigmoid", "pow", "log", "sin", "cos")}


def is_costly(block: st.Block) -> bool:
    """Whether a block calls a function that takes many instructions."""
    return costly_calls(block) > 0


def costly_calls(block: st.Block) -> int:
    """How many such calls a block has."""
    return sum(call.op.name in _COSTLY for call in nodes_of(block.body, Call))


def constant(extent: PrimExpr) -> int | None:
    """The value of a literal extent."""
    return extent.value if isinstance(extent, IntImm) else None


def has_free_layout(func: PrimFunc, buffer: Buffer | None) -> bool:
    """Whether a buffer holds a constant, whose layout may be changed when the kernel is compiled."""
    return any(func.buffers[int(k)] is buffer for k in func.attrs.get("layout_free_buffers", ()))


def is_fold(info: BlockInfo) -> bool:
    """Whether a reduction adds, multiplies or compares its result with a term that does not read it: then
    the terms may be folded in another order."""
    store = info.store
    if store is None or not isinstance(info.block.init, st.BufferStore):
        return False
    value = store.value
    if not isinstance(value, Add | Mul | Max | Min) or not isinstance(value.a, BufferLoad):
        return False
    return value.a.buffer is store.buffer and all(
        load.buffer is not store.buffer for load in loads_in(value.b)
    )


FAR = 8  # elements apart, along which lanes read no fewer cache lines than a sum does


def vectors_fit(reduction: BlockInfo) -> bool:
    """Whether the last spatial axis is long enough for vectors and contiguous in memory, or its elements are
    not far apart."""
    store = reduction.store
    if store is None or not reduction.spatial:
        return False
    last = reduction.spatial[-1]
    extent = constant(last.dom.extent) if last.dom is not None else None
    if store.indices[-1] is not last.var:
        return False
    for load in loads_in(store.value):
        if load.buffer is not store.buffer and any(
            uses_any(i, (last.var,)) for i in load.indices[:-1]
        ):
            return False
        if load.indices and load.indices[-1] is not last.var and reduction.reduce:
            both = [last.var, reduction.reduce[-1].var]
            steps = [constant(s) for s in detect_linear_equation(load.indices[-1], both)[:2]]
            if len(steps) == 2 and steps[1] == 1 and (steps[0] or 0) >= FAR:
                return False
    return extent is None or extent >= 4


@dataclass
class Stage:
    """Blocks that are scheduled together: those inlined into others, at most one reduction, and
    the block that stores the result (the reduction itself without an epilogue)."""

    inlined: list[BlockInfo]
    reduction: BlockInfo | None
    last: BlockInfo


def split_stages(
    func: PrimFunc, blocks: list[BlockInfo], keep: Callable[[BlockInfo], bool] = lambda info: False
) -> list[Stage] | None:
    """The stages of a kernel in order; None if a block is neither data-parallel nor a
    reduction, or writes several buffers. What several blocks read is not computed in each of them if
    `keep` says so."""
    for b in blocks:
        plain = b.is_spatial or (b.is_reduction and b.store is not None)
        if not plain or len(b.writes) != 1:
            return None
    outputs = set(func.buffer_map.values())
    readers: dict[Buffer, list[int]] = {}
    for k, b in enumerate(blocks):
        for buffer in {r.buffer for r in b.block.reads} - {b.writes[0]}:
            readers.setdefault(buffer, []).append(k)
    lost = _overwritten(blocks)
    exact = {r.buffer for b in blocks if EXACT_READS in b.block.annotations for r in b.block.reads}
    stages: list[Stage] = []
    waiting: list[BlockInfo] = []
    inlined: dict[Buffer, int] = {}
    k = 0
    while k < len(blocks):
        b = blocks[k]
        if b.is_reduction:
            after = _epilogue(blocks, k, readers, outputs, lost)
            group = [b, *after]
            stages.append(Stage([*waiting, *after[:-1]], b, group[-1]))
            waiting, k = [], k + len(group)
            continue
        loads = _loads_inlined(b, inlined)
        read = b.writes[0] in readers and b.writes[0] not in outputs
        moves = _can_be_inlined(b, blocks) and not lost.intersection(
            r.buffer for r in b.block.reads
        )
        several = read and len(readers[b.writes[0]]) > 1
        stays = several and (keep(b) or b.writes[0] in exact)
        if not read or loads > _MOST_LOADS or not moves or stays:
            stages.append(Stage(waiting, None, b))
            waiting = []
        else:
            inlined[b.writes[0]] = loads
            waiting.append(b)
        k += 1
    return None if waiting else stages


def _overwritten(blocks: list[BlockInfo]) -> set[Buffer]:
    """The buffers that a block writes after another one has read them: neither block may move."""
    seen: set[Buffer] = set()
    lost: set[Buffer] = set()
    for b in blocks:
        lost |= seen.intersection(b.writes)
        seen.update(r.buffer for r in b.block.reads)
    return lost


def _loads_inlined(info: BlockInfo, inlined: dict[Buffer, int]) -> int:
    """The loads of a block once it reads other blocks' values in place: doubled by each block that
    reads the one before it twice (x * sigmoid(x))."""
    loads = [] if info.store is None else loads_in(info.store.value)
    return sum(inlined.get(load.buffer, 1) for load in loads)


def _can_be_inlined(info: BlockInfo, blocks: list[BlockInfo]) -> bool:
    """Whether it is the only writer of its buffer and indexes each dimension by a distinct axis. (A
    block that packs, `B[j // 16, k, j % 16]`, is not inlined.)"""
    store = info.store
    if store is None or sum(b.writes[0] is info.writes[0] for b in blocks) > 1:
        return False
    if NO_INLINE in info.block.annotations:
        return False
    moved = [index for index in store.indices if constant(index) != 0]
    return all(isinstance(i, Var) for i in moved) and len(set(moved)) == len(moved)


def _epilogue(
    blocks: list[BlockInfo],
    k: int,
    readers: dict[Buffer, list[int]],
    outputs: set[Buffer],
    lost: set[Buffer],
) -> list[BlockInfo]:
    """The blocks after reduction `k` that form a chain of elementwise consumers, each read only by
    the next, and write over nothing that was read before."""
    epilogue: list[BlockInfo] = []
    inlined: dict[Buffer, int] = {}
    current = blocks[k]
    while True:
        at = k + len(epilogue) + 1
        result = current.writes[0]
        if result in outputs or readers.get(result) != [at] or not blocks[at].is_spatial:
            return epilogue
        if not elementwise_on(blocks[at], result) or blocks[at].writes[0] in lost:
            return epilogue
        loads = _loads_inlined(blocks[at], inlined)
        if loads > _MOST_LOADS:
            return epilogue
        current = blocks[at]
        inlined[current.writes[0]] = loads
        epilogue.append(current)


def elementwise_on(info: BlockInfo, buffer: Buffer) -> bool:
    """Whether a block reads and writes with identity indices on all axes."""
    store = info.store
    if store is None:
        return False
    axes = info.spatial
    reads = [x.indices for x in loads_in(store.value) if x.buffer is buffer]
    return all(is_identity(at, axes, buffer) for at in (*reads, store.indices))


def is_identity(indices: Sequence[PrimExpr], axes: list[IterVar], buffer: Buffer) -> bool:
    if len(indices) != len(axes):
        return False
    for index, axis, extent in zip(indices, axes, buffer.shape, strict=True):
        single = constant(extent) == 1 and axis.dom is not None and constant(axis.dom.extent) == 1
        if index is not axis.var and not (single and constant(index) == 0):
            return False
    return True
