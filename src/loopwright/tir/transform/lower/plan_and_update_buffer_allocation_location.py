"""`PlanAndUpdateBufferAllocationLocation`: moves allocations as far inside as possible.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32"), C: T.Buffer((4, 8), "float32")):
          with T.block("root"):
              T.reads()
              T.writes()
    -         B = T.alloc_buffer((4, 8))
              for i in range(4):
    -             for j in range(8):
    -                 with T.block("B"):
    -                     vi, vj = T.axis.remap("SS", [i, j])
    -                     B[vi, vj] = A[vi, vj] + T.float32(1)
    -             for j in range(8):
    -                 with T.block("C"):
    -                     vi, vj = T.axis.remap("SS", [i, j])
    -                     C[vi, vj] = B[vi, vj] * T.float32(2)
    +             with T.block(""):
    +                 T.reads(A[i, 0:8])
    +                 T.writes(C[i, 0:8])
    +                 B = T.alloc_buffer((4, 8))
    +                 for j in range(8):
    +                     with T.block("B"):
    +                         vi, vj = T.axis.remap("SS", [i, j])
    +                         B[vi, vj] = A[vi, vj] + T.float32(1)
    +                 for j in range(8):
    +                     with T.block("C"):
    +                         vi, vj = T.axis.remap("SS", [i, j])
    +                         C[vi, vj] = B[vi, vj] * T.float32(2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ....ir.prim_expr import IntImm, IterVar, PrimExpr, Var
from ....ir.variables import uses_any, vars_in
from ...analysis.access import get_block_access_region
from ...buffer import Buffer
from ...function import PrimFunc
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, IfThenElse, Stmt
from ...stmt_functor import ExprKeeper
from ..base import PrimFuncPass, StmtRewriter, StmtVisitor

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Scope:
    """A scope in which buffers can be allocated: a block or a loop, with its enclosing scopes."""

    __slots__ = ("depth", "node", "parent")

    def __init__(self, node: Any, parent: _Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1


def common(a: _Scope, b: _Scope) -> _Scope:
    """The innermost scope around both."""
    while a is not b:
        if a.depth < b.depth:
            a, b = b, a
        assert a.parent is not None
        a = a.parent
    return a


class _Guards(StmtVisitor):
    """The loop variables that decide whether a buffer is written, by its data: those in the conditions
    around the blocks and the stores that write it."""

    def __init__(self) -> None:
        self.written: dict[Any, set[Any]] = {}
        self.conditions: set[Any] = set()
        self.bound: dict[Any, set[Any]] = {}  # a block's axis -> the loop variables in its value
        self.parts: dict[Any, Any] = {}  # data of a matched buffer -> of what it is part of

    def loops(self, expr: PrimExpr) -> set[Any]:
        """The loop variables that an expression depends on."""
        return {var for v in vars_in(expr) for var in self.bound.get(v, {v})}

    def under(self, condition: PrimExpr, *body: Stmt | None) -> None:
        """Visit statements that run if a condition holds, or if it does not."""
        outer, self.conditions = self.conditions, self.conditions | self.loops(condition)
        for part in body:
            if part is not None:
                self.visit(part)
        self.conditions = outer

    def visit_PrimExpr(self, node: PrimExpr) -> None:
        pass

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        self.under(node.condition, node.then_case, node.else_case)

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        block = node.block
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.bound[axis.var] = self.loops(value)
        for match in block.match_buffers:
            data = match.source.buffer.data
            self.parts[match.buffer.data] = self.parts.get(data, data)
        self.under(node.predicate, block)

    def visit_Block(self, node: Block) -> None:
        for region in node.writes:
            self.note(region.buffer)
        self.visit(node.body)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.note(node.buffer)

    def note(self, buffer: Buffer) -> None:
        """A buffer is written under the conditions around this statement."""
        data = self.parts.get(buffer.data, buffer.data)
        self.written.setdefault(data, set()).update(self.conditions)


class _Accesses(StmtVisitor):
    """The innermost scope around all accesses of each allocated buffer. guards: see `_Guards`."""

    def __init__(self, guards: dict[Any, set[Any]]) -> None:
        self.guards = guards
        self.scope = _Scope(None, None)
        self.lca: dict[Any, _Scope] = {}
        self.by_data: dict[Any, Any] = {}
        self.allocated: dict[Any, _Scope] = {}
        # Buffers that a reduction block writes are accessed outside of its loops: they live across
        # their iterations, and so do those that only some iterations write. Buffers that it only
        # reads may be allocated in each iteration, but not if the axis is opaque and one iteration
        # may need values of another. None: all buffers.
        self.limits: list[tuple[_Scope, set[Any] | None]] = []

    def access(self, buffer: Buffer) -> None:
        owner = self.by_data.get(buffer.data)
        if owner is None:
            return
        scope, home = self.scope, self.allocated[owner]
        for limit, written in self.limits:
            if (
                written is None or owner.data in written
            ) and scope.depth > limit.depth >= home.depth:
                scope = common(scope, limit)
        previous = self.lca.get(owner)
        self.lca[owner] = scope if previous is None else common(previous, scope)

    def visit_Var(self, node: Var) -> None:
        owner = self.by_data.get(node)
        if owner is not None:
            self.access(owner)

    def visit_Buffer(self, node: Buffer) -> None:
        self.access(node)

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        outer, self.scope = self.scope, _Scope(node, self.scope)
        self.visit(node.body)
        self.scope = outer

    def visit_BlockRealize(self, node: BlockRealize) -> None:
        for value in node.iter_values:
            self.visit(value)
        self.visit(node.predicate)
        before = len(self.limits)
        reduced = self._outside(node, lambda kind: kind == IterVar.CommReduce)
        written = {self._source(r.buffer.data) for r in node.block.writes}
        if reduced is not None:
            loops = self._loops_inside(reduced)
            written |= {data for data, guards in self.guards.items() if guards & loops}
        opaque = self._outside(node, lambda kind: kind not in (IterVar.CommReduce, IterVar.DataPar))
        limits = ((reduced, written), (opaque, None))
        self.limits += [(scope, buffers) for scope, buffers in limits if scope]
        outer, self.scope = self.scope, _Scope(node.block, self.scope)
        for buffer in node.block.alloc_buffers:
            self.by_data[buffer.data] = buffer
            self.allocated[buffer] = self.scope
        block = node.block
        for part in (block.match_buffers, block.init, block.body):
            if part is not None:
                self.visit(part)
        self.scope = outer
        del self.limits[before:]

    def _loops_inside(self, limit: _Scope) -> set[Any]:
        """The variables of the loops around this statement that are inside a scope."""
        loops, scope = set(), self.scope
        while scope is not limit and scope.parent is not None:
            if isinstance(scope.node, For):
                loops.add(scope.node.loop_var)
            scope = scope.parent
        return loops

    def _source(self, data: PrimExpr) -> Any:
        """The data of the allocation that a buffer is part of."""
        owner = self.by_data.get(data)
        return data if owner is None else owner.data

    def _outside(self, node: BlockRealize, among: Callable[[int], bool]) -> _Scope | None:
        """The scope outside all loops over the axes of a block that are of certain kinds."""
        values = [
            value
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True)
            if among(axis.iter_type) and not isinstance(value, IntImm)
        ]
        limit, scope = None, self.scope
        while values and scope.parent is not None and isinstance(scope.node, For):
            if uses_any(values, {scope.node.loop_var}):
                limit = scope.parent
            scope = scope.parent
        return limit


class _Move(ExprKeeper, StmtRewriter):
    """Allocates buffers where `moved` has them (id of a block or a loop -> its buffers), and `removed` ones no
    longer where they were."""

    def __init__(self, moved: dict[int, list[Any]], removed: set[Any]) -> None:
        self.moved = moved
        self.removed = removed
        self.inside: set[Any] = set()  # moved buffers that are allocated around this statement

    def visit_Block(self, node: Block) -> Block:
        here = self.moved.get(id(node), [])
        remaining = [b for b in node.alloc_buffers if b not in self.removed] + here
        hidden = self.removed - self.inside  # their regions are not listed here
        outer, self.inside = self.inside, self.inside.union(here)
        body = self.visit(node.body)
        init = self.visit(node.init)
        self.inside = outer
        same = len(remaining) == len(node.alloc_buffers) and not here
        buffers = node.alloc_buffers if same else tuple(remaining)
        node = node.replace(body=body, init=init, alloc_buffers=buffers)
        if not any(r.buffer in hidden for r in (*node.reads, *node.writes)):
            return node
        reads = tuple(r for r in node.reads if r.buffer not in hidden)
        return node.replace(
            reads=reads, writes=tuple(r for r in node.writes if r.buffer not in hidden)
        )

    def visit_For(self, node: For) -> For:
        buffers = self.moved.get(id(node))
        outer, self.inside = self.inside, self.inside.union(buffers or ())
        body = self.visit(node.body)
        self.inside = outer
        if buffers:
            block = Block([], [], [], "", body, alloc_buffers=buffers, span=node.span)
            reads, writes, opaque = get_block_access_region(block, {})
            block = block.replace(
                reads=tuple(reads) + tuple(opaque), writes=tuple(writes) + tuple(opaque)
            )
            body = BlockRealize([], True, block, span=node.span)
        return node.replace(body=body)


def _plan(body: Stmt) -> tuple[dict[int, list[Any]], set[Any]]:
    """(id of a block or a loop -> the buffers to allocate there, all these buffers)."""
    guards = _Guards()
    guards.visit(body)
    accesses = _Accesses(guards.written)
    accesses.visit(body)
    moved: dict[int, list[Any]] = {}
    removed: set[Any] = set()
    for buffer, home in accesses.allocated.items():
        target = _outside_vectors(accesses.lca.get(buffer))
        if target is not None and target.depth > home.depth:
            moved.setdefault(id(target.node), []).append(buffer)
            removed.add(buffer)
    return moved, removed


def _outside_vectors(scope: _Scope | None) -> _Scope | None:
    """The scope itself, or the one around the vectorized loop that it is in, so that the lanes of a
    vector are elements of one buffer."""
    outer = scope
    while scope is not None:
        if isinstance(scope.node, For) and scope.node.kind == ForKind.VECTORIZED:
            outer = scope.parent
        scope = scope.parent
    return outer


class PlanAndUpdateBufferAllocationLocation(PrimFuncPass):
    """Moves allocations as far inside as possible."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        moved, removed = _plan(func.body)
        return func.replace(body=_Move(moved, removed).visit(func.body)) if removed else func
