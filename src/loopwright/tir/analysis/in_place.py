"""Whether a kernel may overwrite an input that is not needed any more with its result.

It may where every element is read before it is overwritten. Each read comes before all writes; or
before all writes of its row, where no row writes what another one reads; or it is at the index of a
later write of the same iteration, where no element is written twice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import LoopwrightError, explain
from ...ir import prim_expr as pe
from ...ir.functor import Visitor
from ...ir.literals import is_zero
from ...ir.structural import structural_equal
from .. import stmt as st
from ..buffer import Buffer
from ..expr import BufferLoad
from ..function import PrimFunc
from ..index_map import NUMPY

MAY_ALIAS = "may_alias"  # attribute of a kernel: pairs [written parameter, read parameter]
MOST = 1 << 23  # elements that are enumerated; larger results are not analyzed


def declared(func: PrimFunc) -> list[tuple[int, int]]:
    """The pairs (written parameter, read parameter) of the attribute "may_alias", as positions.

    Raises LoopwrightError for a parameter that the function does not have.
    """
    names = [getattr(func.buffer_map.get(p), "name", p.name) for p in func.params]

    def position(param: str | int) -> int:
        value = getattr(param, "value", param)
        if isinstance(value, int) and 0 <= value < len(names):
            return value
        for name in (value, f"{value}_data"):  # a buffer's pointer is called after it
            if name in names:
                return names.index(name)
        what = f'"{MAY_ALIAS}" names pairs [written, read] of parameters'
        raise LoopwrightError(explain(what, got=value, instead=f"of {', '.join(names)}"))

    return [(position(w), position(r)) for w, r in func.attrs.get(MAY_ALIAS, ())]


def can_overwrite(func: PrimFunc, read: pe.Var, written: pe.Var) -> bool:
    """Whether the parameters `read` and `written` of a lowered function may share memory without
    changing its result. False where that is not known."""
    seen = _Accesses(read, written)
    seen.visit(func.body)
    if seen.strange or not seen.stores:
        return False
    stores = seen.stores
    loads = [a for a in seen.loads if not _before(a, stores, 0)]
    if not loads:
        return True
    # Of one type: C compilers assume that an int and a float do not share memory.
    if len({a.buffer.dtype for a in loads + stores}) > 1:
        return False
    around = _common([a.loops for a in loads + stores])
    in_turn = [a for a in loads if _before(a, stores, around)]
    others = [a for a in loads if not _before(a, stores, around)]
    if in_turn and not _rows_apart(in_turn, stores, around):
        return False
    return not others or (all(_matched(a, stores) for a in others) and _each_once(stores))


@dataclass(frozen=True, eq=False)
class _Access:
    """A load or store: its index, the loops and lets around it, its place in the order."""

    buffer: Buffer
    index: pe.PrimExpr
    loops: tuple[st.For, ...]
    lets: tuple[st.LetStmt, ...]
    time: int


class _Accesses(Visitor):
    """Collects the accesses of two pointers; `strange` when one is used in any other way."""

    def __init__(self, read: pe.Var, written: pe.Var) -> None:
        self.read, self.written = read, written
        self.loads: list[_Access] = []
        self.stores: list[_Access] = []
        self.strange = False
        self.shapes: dict[int, Any] = {}  # of the buffers, by their ranks
        self.loops: tuple[st.For, ...] = ()
        self.lets: tuple[st.LetStmt, ...] = ()
        self.time = 0

    def access(self, node: BufferLoad | st.BufferStore) -> _Access:
        """An access of one of the two."""
        buffer = node.buffer
        at_start = buffer.elem_offset is None or is_zero(buffer.elem_offset)
        first = self.shapes.setdefault(len(node.indices), buffer.shape)
        same_shape = len(self.shapes) == 1 and (
            len(node.indices) == 1 or structural_equal(first, buffer.shape)
        )
        if buffer.strides or not at_start or not same_shape:
            self.strange = True
        index: pe.PrimExpr = pe.IntImm("int32", 0)
        for k, (size, part) in enumerate(zip(buffer.shape, node.indices, strict=True)):
            index = index * size + part if k else part
        return _Access(buffer, index, self.loops, self.lets, self.time)

    def visit_Var(self, node: pe.Var) -> None:
        if node is self.read or node is self.written:
            self.strange = True

    def visit_Buffer(self, node: Buffer) -> None:
        self.visit(node.data)

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit(node.indices)
        self.visit(node.predicate)
        if node.buffer.data is self.read:
            self.loads.append(self.access(node))

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.time += 1
        self.visit((node.value, node.indices, node.predicate))
        if node.buffer.data is self.read:
            self.strange = True
        elif node.buffer.data is self.written:
            self.stores.append(self.access(node))

    def visit_DeclBuffer(self, node: st.DeclBuffer) -> None:
        self.visit(node.body)

    def visit_LetStmt(self, node: st.LetStmt) -> None:
        self.time += 1
        self.visit(node.value)
        before = self.lets
        self.lets = (*before, node)
        self.visit(node.body)
        self.lets = before

    def visit_For(self, node: st.For) -> None:
        self.time += 1
        self.visit((node.min, node.extent))
        before = self.loops
        self.loops = (*before, node)
        self.visit(node.body)
        self.loops = before

    def visit_While(self, node: st.While) -> None:
        count = len(self.loads) + len(self.stores)
        self.visit_default(node)
        if len(self.loads) + len(self.stores) != count:
            self.strange = True

    def visit_Evaluate(self, node: st.Evaluate) -> None:
        self.time += 1
        self.visit(node.value)


def _before(load: _Access, stores: list[_Access], around: int) -> bool:
    """Whether a load is done, with all its loops but the outer `around`, before any store."""
    own = load.loops[around:]
    apart = not any(
        loop is own_loop for s in stores for loop in s.loops[around:] for own_loop in own
    )
    return apart and load.time < min(s.time for s in stores)


def _common(loops: list[tuple[st.For, ...]]) -> int:
    """How many loops are around all accesses."""
    count = 0
    for same in zip(*loops, strict=False):
        if any(loop is not same[0] for loop in same):
            break
        count += 1
    return count


def _rows_apart(loads: list[_Access], stores: list[_Access], around: int) -> bool:
    """Whether no iteration of the outer `around` loops, which are around all accesses, writes
    where another reads or writes."""
    written, read = _elements(stores, around), _elements(loads, around)
    if written is None or read is None:
        return False
    size = int(max(written[0].max(initial=0), read[0].max(initial=0))) + 1
    if size > 4 * MOST or min(written[0].min(initial=0), read[0].min(initial=0)) < 0:
        return False
    owner = np.full(size, -1, np.int64)
    owner[written[0]] = written[1]
    writer = owner[read[0]]
    return bool(
        (owner[written[0]] == written[1]).all() and ((writer == read[1]) | (writer < 0)).all()
    )


def _elements(accesses: list[_Access], around: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The accessed elements, each with the iteration of the outer loops; None where that depends on
    data, or there are too many."""
    elements, rows, total = [], [], 0
    for a in accesses:
        sizes = [_extent(loop) for loop in a.loops]
        total += math.prod(n or 0 for n in sizes) * a.index.dtype.lanes
        if None in sizes or total > MOST:
            return None
        extents = [n or 0 for n in sizes]
        indices = _indices(a, extents)
        if indices is None:
            return None
        count = math.prod(extents[:around])
        row = np.arange(count).reshape(*extents[:around], *[1] * (indices.ndim - around))
        elements.append(indices.reshape(-1))
        rows.append(np.broadcast_to(row, indices.shape).reshape(-1))
    return np.concatenate(elements), np.concatenate(rows)


def _matched(load: _Access, stores: list[_Access]) -> bool:
    """Whether a store of the same iteration, not before the load, writes the element that it
    reads."""
    return any(
        s.time >= load.time
        and len(s.loops) == len(load.loops)
        and all(a is b for a, b in zip(s.loops, load.loops, strict=True))
        and structural_equal(s.index, load.index)
        for s in stores
    )


def _each_once(stores: list[_Access]) -> bool:
    """Whether no element is written twice."""
    if len(stores) == 1 and not stores[0].loops and stores[0].index.dtype.lanes == 1:
        return True
    elements = _elements(stores, 0)
    if elements is None:
        return False
    every = elements[0]
    if not every.size:
        return True
    low, high = int(every.min()), int(every.max())
    if high - low > 4 * MOST:
        return False
    return int(np.bincount(every - low).max()) <= 1


def _extent(loop: st.For) -> int | None:
    constant = isinstance(loop.extent, pe.IntImm) and isinstance(loop.min, pe.IntImm)
    return loop.extent.value if constant else None


def _indices(store: _Access, sizes: list[int]) -> np.ndarray | None:
    """The indices of all iterations and lanes of a store; None where they depend on data."""
    values: dict[pe.Var, np.ndarray] = {}
    rank = len(sizes)
    for k, (loop, n) in enumerate(zip(store.loops, sizes, strict=True)):
        shape = [1] * (rank + 1)
        shape[k] = n
        low = loop.min.value if isinstance(loop.min, pe.IntImm) else 0
        values[loop.loop_var] = (np.arange(n, dtype=np.int64) + low).reshape(shape)
    try:
        for let in store.lets:
            if let.var.dtype.is_int and let.var.dtype.lanes == 1:
                values[let.var] = _value(let.value, values)
    except _Unknown:
        pass  # the index says whether it needs that value
    try:
        indices = _value(store.index, values)
    except _Unknown:
        return None
    return np.broadcast_to(indices, (*sizes, store.index.dtype.lanes))


class _Unknown(Exception):
    """An expression that is not arithmetic on loop variables."""


def _value(expr: Any, values: dict[pe.Var, np.ndarray]) -> Any:
    """The values of an expression over all iterations, lanes on the last axis."""
    kind = type(expr)
    if kind is pe.IntImm:
        return np.int64(expr.value)
    if kind is pe.Var and expr in values:
        return values[expr]
    if kind in NUMPY:
        return NUMPY[kind](_value(expr.a, values), _value(expr.b, values))
    if kind is pe.Cast and expr.dtype.is_int and expr.value.dtype.is_int:
        return _value(expr.value, values)
    if kind is pe.Ramp:
        lanes = np.arange(expr.dtype.lanes, dtype=np.int64)
        return _value(expr.base, values) + lanes * _value(expr.stride, values)
    if kind is pe.Broadcast:
        return _value(expr.value, values)
    raise _Unknown
