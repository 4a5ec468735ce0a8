"""`StorageRewrite`: allocations with disjoint live ranges share memory.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    -     x = T.allocate([8], "float32", "global")
    +     x = T.allocate([16], "float32", "global")
          y = T.allocate([8], "float32", "global")
    -     z = T.allocate([16], "float32", "global")
          X = T.Buffer((8,), data=x)
          Y = T.Buffer((8,), data=y)
    -     Z = T.Buffer((16,), data=z)
    +     Z = T.Buffer((16,), data=x)
          for i in range(8):
              X[i] = A[i] + T.float32(1)
          for i in range(8):
              Y[i] = X[7 - i]
          for i in range(16):
              Z[i] = Y[i % 8]
          for i in range(8):
              B[i] = Z[i + 8]

They share if the element type and storage scope are the same, and the sizes are constant or equal;
the result of an elementwise statement may take the place of an operand that is not used later.
Allocations move out of serial loops and branches, as far as their extents allow. A scope with a tag
("local.L0A") is a memory of its own: element types share there, and one allocation holds all; more
than there is of it (`tvm.info.mem.<scope>`) is an error.
"""

from __future__ import annotations

from typing import Any

from ...ir.functor import nodes_of
from ...ir.literals import is_true
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import IntImm, PrimExpr, Var
from ...ir.structural import StructuralKey
from ...ir.variables import substitute, uses_any
from ...tir.analysis.in_place import can_overwrite
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad, reads_memory
from ...tir.function import PrimFunc
from ...tir.memory_plan import Item, share
from ...tir.stmt import (
    Allocate,
    AttrStmt,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from ...tir.stmt_functor import ExprKeeper
from ...tir.transform.base import PrimFuncPass, StmtRewriter, StmtVisitor
from ...tir.transform.gpu.lower_device_storage_access_info import check_size
from .pointer_value_type_rewrite import declare_as_vectors

_RANKS = ("global", "shared", "local", "warp")
_ALIGN = 32  # bits: where memory in a tagged scope begins, at least


def _size(node: Allocate) -> int | None:
    """Bits; None if they are not constant."""
    total = node.dtype.bits * node.dtype.lanes
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        total *= extent.value
    return total


def _scope(node: Allocate) -> str:
    kind = node.buffer_var.type_annotation
    return kind[1] if kind else "global"


def _tagged(scope: str) -> bool:
    """Whether a scope is a memory of its own, which one allocation takes."""
    rank, _, tag = scope.partition(".")
    return rank in _RANKS and tag not in ("", "dyn", "workspace", "vtcm", "barrier")


def _uses(stmt: Stmt | PrimExpr, variables: set[Var]) -> set[Var]:
    """The pointers that a statement uses, directly or through a buffer."""
    nodes = nodes_of(stmt, Var, Buffer)
    return {n.data if isinstance(n, Buffer) else n for n in nodes} & variables


class _Share(ExprKeeper, StmtRewriter):
    """Takes the allocations out of statements, into `free`: those that may move further out."""

    def __init__(self) -> None:
        self.free: list[Allocate] = []
        # a pointer -> that whose memory it gets, and where in it, in bits
        self.placed: dict[Var, tuple[Var, int]] = {}

    def whole(self, stmt: Stmt) -> Stmt:
        """A statement out of which no allocation moves."""
        outside, self.free = self.free, []
        result = _wrapped(self.free_of(stmt), self.free)
        self.free = outside
        return result

    def visit_Allocate(self, node: Allocate) -> Stmt:
        return self.free_of(node)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        return self.free_of(node)

    def visit_For(self, node: For) -> Stmt:
        if node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return node.replace(body=self.whole(node.body))
        return self._scope_of(node, node.loop_var)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        return self._scope_of(node, node.var)

    def _scope_of(self, node: Stmt, var: Var) -> Stmt:
        """A statement that defines a variable: allocations that depend on it stay inside."""
        outside, self.free = self.free, []
        body = self.visit(node.body)
        inside = [n for n in self.free if uses_any(n.extents, (var,))]
        self.free = outside + [n for n in self.free if n not in inside]
        return node.replace(body=_wrapped(body, inside))

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        return node.replace(body=self.whole(node.body))

    def visit_BlockRealize(self, node: BlockRealize) -> Stmt:
        block = node.block
        return node.replace(block=block.replace(body=self.whole(block.body)))

    def free_of(self, stmt: Stmt) -> Stmt:
        """A chain of allocations and declarations around statements, without the allocations."""
        around: list[Any] = []
        stmts = _flat(stmt, around)
        outside, self.free = self.free, []
        done: list[Stmt] = []
        inner: list[tuple[Allocate, int]] = []
        for n, child in enumerate(stmts):
            done.append(self.visit(child))
            inner += [(node, n) for node in self.free]
            self.free = []
        fixed, pieces = _pieces(around, done, inner)
        self.free = outside
        result: Stmt = seq(*done)
        used = _uses(result, {w.buffer.data for w in around if isinstance(w, DeclBuffer)})
        for wrapper in reversed(around):
            if isinstance(wrapper, DeclBuffer):
                if wrapper.buffer.data in used or not _local(wrapper.buffer, around):
                    result = wrapper.replace(body=result)
            elif wrapper in fixed:
                result = wrapper.replace(body=result)
        for joined in _joined(pieces, done):
            first, size = joined[0][0], 0
            align = max([_ALIGN, *(n.dtype.bits * n.dtype.lanes for p in joined for n in p)])
            for piece in joined:
                size = -(-size // align) * align
                self.placed |= {n.buffer_var: (first.buffer_var, size) for n in piece}
                size += max(_size(n) or 0 for n in piece)
            del self.placed[first.buffer_var]
            if size > (_size(first) or 0):
                count = -(-size // (first.dtype.bits * first.dtype.lanes))
                first = first.replace(extents=(IntImm(first.extents[0].dtype, count),))
            self.free.append(first)
        return result

    def slot(self, var: Var) -> tuple[Var, int]:
        """The pointer of the memory that a pointer gets in the end, and where in it."""
        offset = 0
        while var in self.placed:
            var, more = self.placed[var]
            offset += more
        return var, offset


class _Move(StmtRewriter):
    """Makes buffers begin at the start of the memory that they are in, and shifts their indices."""

    def __init__(self, shifts: dict[Var, int]) -> None:
        self.shifts = shifts
        self.moved: dict[Buffer, Buffer] = {}

    def shift(self, buffer: Buffer) -> int:
        """Elements before those of a buffer."""
        return self.shifts.get(buffer.data, 0) // (buffer.dtype.bits * buffer.dtype.lanes)

    def visit_Buffer(self, node: Buffer) -> Buffer:
        shift = self.shift(node)
        if not shift:
            return node
        *outer, last = node.shape
        return self.moved.setdefault(node, node.replace(shape=(*outer, last + shift)))

    def visit_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:
        shift, node = self.shift(node.buffer), self.visit_default(node)
        *outer, last = node.indices
        return node.replace(indices=(*outer, last + shift)) if shift else node

    visit_BufferStore = visit_BufferLoad


def _local(buffer: Buffer, around: list[Any]) -> bool:
    """Whether the memory of a buffer is allocated in a chain."""
    return any(isinstance(w, Allocate) and w.buffer_var is buffer.data for w in around)


def _flat(stmt: Stmt, around: list[Any]) -> list[Stmt]:
    """The statements in a chain of allocations and declarations, which are put into `around`; those
    before such a chain at the end of a sequence come first."""
    stmts: list[Stmt] = []
    while True:
        if isinstance(stmt, (Allocate, DeclBuffer)):
            around.append(stmt)
            stmt = stmt.body
        elif isinstance(stmt, SeqStmt):
            stmts += stmt.seq[:-1]
            stmt = stmt.seq[-1]
        else:
            return [*stmts, stmt]


def _wrapped(body: Stmt, nodes: list[Allocate]) -> Stmt:
    for node in reversed(nodes):
        body = node.replace(body=body)
    return body


def _pieces(
    around: list[Any], done: list[Stmt], inner: list[tuple[Allocate, int]]
) -> tuple[list[Allocate], list[list[Allocate]]]:
    """(the allocations that stay as they are, the others grouped into pieces of memory)."""
    nodes = {n.buffer_var: n for n in around if isinstance(n, Allocate)}
    fixed = [
        n
        for n in nodes.values()
        if n.annotations or not is_true(n.condition) or any(map(reads_memory, n.extents))
    ]
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for node, n in inner:
        nodes[node.buffer_var] = node
        first[node.buffer_var] = n
    for n, stmt in enumerate(done):
        for var in _uses(stmt, set(nodes)):
            first.setdefault(var, n)
            last[var] = n
    order = sorted(
        (v for v, n in nodes.items() if v in first and n not in fixed), key=lambda v: first[v]
    )
    ends = {v: 2 * last[v] + 1 for v in order}
    starting = {n: [v for v in order if first[v] == n] for n in set(first.values())}
    for read in order:  # the only one that starts where it ends may take its place
        new = starting.get(last[read], [])
        if len(new) == 1 and new[0] is not read and _kind(nodes[new[0]]) == _kind(nodes[read]):
            written, step = new[0], PrimFunc([read, new[0]], done[last[read]])
            same = _size(nodes[written]) == _size(nodes[read])
            if same and not _aliased(done, (read, written)) and can_overwrite(step, read, written):
                ends[read] -= 2
    items = [Item(v.name, _size(nodes[v]) or 0, 2 * first[v], ends[v]) for v in order]
    depth = {v: n for n, v in enumerate(nodes)}
    pieces: dict[int, list[Allocate]] = {}
    shared = zip(order, share(items, [_kind(nodes[v]) for v in order]), strict=True)
    for var, piece in sorted(shared, key=lambda pair: depth[pair[0]]):
        pieces.setdefault(piece, []).append(nodes[var])
    return fixed, list(pieces.values())


class _Pointers(StmtVisitor):
    """Finds the variables that are used but by buffers."""

    def __init__(self) -> None:
        self.variables: set[Var] = set()

    def visit_Var(self, node: Var) -> None:
        self.variables.add(node)


def _joined(pieces: list[list[Allocate]], stmts: list[Stmt]) -> list[list[list[Allocate]]]:
    """Pieces that one allocation holds: those of a tagged scope, of which no pointer is used but by
    its buffers."""
    groups: dict[Any, list[list[Allocate]]] = {}
    pointers = _Pointers()
    pointers.visit(stmts)
    for n, piece in enumerate(pieces):
        raw = any(node.buffer_var in pointers.variables for node in piece)
        alone = raw or not _tagged(_scope(piece[0]))
        groups.setdefault(n if alone else _kind(piece[0]), []).append(piece)
    return list(groups.values())


def _aliased(stmts: list[Stmt], pointers: tuple[Var, Var]) -> bool:
    """Whether a pointer is bound to another name somewhere."""
    lets = (let for let in nodes_of(stmts, LetStmt) if let.var.dtype.is_handle)
    return any(_uses(let.value, set(pointers)) for let in lets)


def _kind(node: Allocate) -> Any:
    """The key that allocations sharing memory must agree on: symbolic sizes must be equal."""
    extents = (
        None if _size(node) is not None else tuple(StructuralKey(e, False) for e in node.extents)
    )
    dtype = "" if _tagged(_scope(node)) else str(node.dtype)
    return dtype, _scope(node), StructuralKey(node.condition, False), extents


class StorageRewrite(PrimFuncPass):
    """Allocations with disjoint live ranges share memory. Runs on flat buffers."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if ctx.option("tir.disable_storage_rewrite"):
            return func
        worker = _Share()
        body = worker.whole(func.body)
        slots = {var: worker.slot(var) for var in worker.placed}
        shifts = {var: shift for var, (_, shift) in slots.items() if shift}
        body = _Move(shifts).visit(body) if shifts else body
        for allocation in nodes_of(body, Allocate):
            check_size(allocation)
        table = {var: new for var, (new, _) in slots.items()}
        func = func.replace(body=substitute(body, table) if table else body)
        return declare_as_vectors(func, only_lets=True)
