"""The fusion kind of a PrimFunc, derived from its loop nest.

Each block is classified by how the indices of its loads relate to those of its stores, and by
whether it reduces; the function's kind is that of its most complex block.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ...ir.functor import Visitor
from ...ir.literals import is_one, is_zero
from ...ir.prim_expr import Add, Cast, IterVar, Mul, PrimExpr, Var
from ...ir.structural import structural_equal
from ...ir.variables import vars_in
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, LetStmt

if TYPE_CHECKING:
    from ..buffer import Buffer


class OpPattern(IntEnum):
    """Fusion kinds, from the simplest to the most complex."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_EWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


OP_PATTERN = "op_pattern"  # of a block: its kind, where its loads look like those of another

_ELEM, _BCAST, _INJ = OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE
_REDUCE, _FUSABLE, _OPAQUE = OpPattern.COMM_REDUCE, OpPattern.OUT_EWISE_FUSABLE, OpPattern.OPAQUE


def analyze_op_pattern(func: PrimFunc) -> OpPattern:
    """The kind of `func`: elementwise, broadcast, injective, reduction, a product or window with
    an elementwise epilogue, or opaque."""
    blocks = _Blocks()
    blocks.visit(func.body)
    if not blocks.blocks or blocks.loose:
        return _OPAQUE
    kind = _ELEM
    # Symbolic sizes are the same in every iteration.
    dims = (d for buffer in func.buffers for d in buffer.shape)
    symbols = {v for d in (*dims, *func.params) for v in vars_in(d)}
    for block in blocks.blocks:
        own = _block_pattern(block, symbols, blocks.local)
        if own is _OPAQUE:
            return _OPAQUE
        # A block that follows a reduction in the same function is an epilogue of it (softmax).
        follows = kind in (_REDUCE, _FUSABLE) and own <= _INJ
        kind = _FUSABLE if follows else max(kind, own)
    return kind


def gathers(func: PrimFunc) -> int:
    """Whether `func` reads elements at indices that are elements of a tensor: 0 if it does not, 2 if along
    the last axis, of which no vector is contiguous, else 1."""
    accesses = _Accesses()
    accesses.visit(func.body)
    lasts = [load.indices[-1] for load in accesses.loads if load.indices]
    if any(_loads(index) for index in lasts):
        return 2
    return int(any(_loads(i) for load in accesses.loads for i in load.indices))


def _loads(index: PrimExpr) -> bool:
    accesses = _Accesses()
    accesses.visit(index)
    return bool(accesses.loads)


class _Blocks(Visitor):
    """The innermost blocks in order, the buffers that are local to the function, and whether a store
    is outside of all blocks."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.local: set[Any] = set()
        self.loose = False

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        self.local.update(node.block.alloc_buffers)
        before, loose = len(self.blocks), self.loose
        self.visit(node.block.body)
        if len(self.blocks) == before and not (node.block.name_hint == "root" and not self.loose):
            self.blocks.append(node.block)
            self.loose = loose

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.loose = True

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass


class _Accesses(Visitor):
    def __init__(self) -> None:
        self.stores: list[BufferStore] = []
        self.loads: list[BufferLoad] = []
        self.lets: list[LetStmt] = []

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.lets.append(node)
        self.visit_default(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.stores.append(node)
        self.visit_default(node)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.loads.append(node)
        self.visit(node.indices)

    def visit_Buffer(self, node: Buffer) -> None:
        pass


def _block_pattern(block: Block, symbols: set[Any], local: set[Any]) -> OpPattern:
    if OP_PATTERN in block.annotations:
        return OpPattern(int(block.annotations[OP_PATTERN]))
    accesses = _Accesses()
    accesses.visit(block.body)
    if not accesses.stores:
        return _OPAQUE
    store = accesses.stores[0]
    for other in accesses.stores[1:]:  # several results of one computation, at one place
        if not _same_place(store, other):
            return _OPAQUE
    axes = {a.var for a in block.iter_vars if a.iter_type == IterVar.CommReduce}
    if any(let.var in store.indices for let in accesses.lets):
        return _OPAQUE
    symbols = symbols | _fixed_by(block, accesses.lets, symbols)
    kinds = [_pair_pattern(store, load, symbols) for load in accesses.loads]
    plain = max(kinds, default=_ELEM)
    if plain is _BCAST and _ELEM in kinds:
        plain = _ELEM  # a bias: one operand determines the loops, the other is broadcast
    if plain is not _OPAQUE and not axes:
        return plain
    if not axes:
        # The layout of an intermediate buffer (packed, tiled) does not matter outside.
        variables = {*(a.var for a in block.iter_vars), *symbols}
        inside = all(s.buffer in local for s in accesses.stores)
        return (
            _INJ
            if inside and all(_indices_in(load, variables) for load in accesses.loads)
            else _OPAQUE
        )
    if len(accesses.stores) == 1 and _is_multiply_add(store):
        return _FUSABLE
    pure = all(_reduces_whole_axes(load, axes) for load in accesses.loads)
    return _REDUCE if pure else _FUSABLE


def _fixed_by(block: Block, lets: list[LetStmt], symbols: set[Any]) -> set[Any]:
    """The let variables that follow from the block's axes, not from what it loads."""
    variables = {*(a.var for a in block.iter_vars), *symbols}
    fixed = set()
    for let in lets:
        loads = _Accesses()
        loads.visit(let.value)
        if not loads.loads and vars_in(let.value) <= variables | fixed:
            fixed.add(let.var)
    return fixed


def _same_place(a: BufferStore, b: BufferStore) -> bool:
    return a.buffer is not b.buffer and _same_indices(a.indices, b.indices)


def _same_indices(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> bool:
    return len(a) == len(b) and all(
        x is y or structural_equal(x, y) for x, y in zip(a, b, strict=True)
    )


def _pair_pattern(store: BufferStore, load: BufferLoad, symbols: set[Any]) -> OpPattern:
    same_shape = _same_indices(store.buffer.shape, load.buffer.shape)
    if same_shape and _same_indices(store.indices, load.indices):
        return _ELEM
    if _is_broadcast(store, load):
        return _BCAST
    if all(isinstance(i, Var) for i in store.indices):
        variables = {*store.indices, *symbols}
        if _indices_in(load, variables):
            return _INJ
    return _OPAQUE


def _indices_in(load: BufferLoad, variables: set[Any]) -> bool:
    return all(vars_in(i) <= variables for i in load.indices)


def _is_broadcast(store: BufferStore, load: BufferLoad) -> bool:
    """The load's axes are some of the store's, in their order; unit dims are read at 0."""
    axes = iter(store.indices)
    for index, dim in zip(load.indices, load.buffer.shape, strict=True):
        unit = is_one(dim)
        if unit and is_zero(index):
            continue
        if not any(axis is index for axis in axes):
            return False
    return True


def _is_multiply_add(store: BufferStore) -> bool:
    """C[i] = C[i] + A[...] * B[...], ignoring casts."""
    value = store.value
    if not isinstance(value, Add):
        return False
    for own, term in ((value.a, value.b), (value.b, value.a)):
        own, term = _uncast(own), _uncast(term)
        accumulates = (
            isinstance(own, BufferLoad)
            and own.buffer is store.buffer
            and _same_indices(own.indices, store.indices)
        )
        if accumulates and isinstance(term, Mul):
            a, b = _uncast(term.a), _uncast(term.b)
            return isinstance(a, BufferLoad) and isinstance(b, BufferLoad)
    return False


def _uncast(expr: PrimExpr) -> PrimExpr:
    while isinstance(expr, Cast):
        expr = expr.value
    return expr


def _reduces_whole_axes(load: BufferLoad, axes: set[Var]) -> bool:
    """Whether reduction axes are indices by themselves (not in a window's `i * stride + k`)."""
    return all(i in axes or not (vars_in(i) & axes) for i in load.indices)
