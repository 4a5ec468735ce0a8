"""`MergeSharedMemoryAllocations`: merges the dynamic shared memory of a kernel into one allocation.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float16")):
          tx = T.launch_thread("threadIdx.x", 8)
    -     a = T.allocate([8], "float32", "shared.dyn")
    -     b = T.allocate([8], "float16", "shared.dyn")
    -     a_1 = T.Buffer((8,), data=a, scope="shared.dyn")
    -     b_1 = T.Buffer((8,), "float16", data=b, scope="shared.dyn")
    +     shared_memory = T.allocate([48], "uint8", "shared.dyn")
    +     a_1 = T.Buffer((8,), data=shared_memory, scope="shared.dyn")
    +     b_1 = T.Buffer((24,), "float16", data=shared_memory, scope="shared.dyn")
          a_1[tx] = A[tx]
    -     b_1[tx] = B[tx]
    +     b_1[tx + 16] = B[tx]
          T.tvm_storage_sync("shared.dyn")
          A[tx] = a_1[7 - tx]
    -     B[tx] = b_1[7 - tx]
    +     B[tx] = b_1[23 - tx]

Each buffer starts at a multiple of 16 bytes. It runs on flat buffers of constant size; buffers with
disjoint live ranges do not share memory (`StorageRewrite` does that before).
"""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.functor import nodes_of
from ....ir.prim_expr import Call, IterVar, Var
from ....ir.prim_op import add, const
from ...analysis.liveness import size_of
from ...buffer import Buffer
from ...expr import BufferLoad
from ...memory_plan import Item, Problem, place_in_order
from ...op import handle_add_byte_offset, is_call_to
from ...stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Stmt
from ...stmt_functor import ExprKeeper
from ..base import RewriterPass, StmtRewriter

_ALIGN = 16  # bytes: the widest access of a thread, a vector of four float32
_SCOPE = "shared.dyn"


def _dynamic(body: Stmt) -> dict[Var, tuple[int, int]]:
    """(offset, size) in bytes of each allocation of constant size, outermost first."""
    sizes: dict[Var, int] = {}
    for node in reversed(nodes_of(body, Allocate)):
        kind, size = node.buffer_var.type_annotation, size_of(node)
        if kind is not None and kind[1] == _SCOPE and size is not None:
            sizes.setdefault(node.buffer_var, size)
    # All are treated as live at the same time: other readers within the launch are not known here.
    items = tuple(Item(var.name, size, 0, 0, _ALIGN) for var, size in sizes.items())
    offsets = place_in_order(Problem(items), range(len(items))).places
    return {
        var: (slot[1], size)
        for (var, size), slot in zip(sizes.items(), offsets, strict=True)
        if slot is not None
    }


class _Merge(StmtRewriter):
    """Redirects the accesses of one launch to the merged memory."""

    def __init__(self, offsets: dict[Var, tuple[int, int]], memory: Var) -> None:
        self.offsets, self.memory = offsets, memory
        self.buffers: dict[Buffer, tuple[Buffer, int]] = {}
        self.ana = Analyzer()

    def moved(self, buffer: Buffer) -> tuple[Buffer, int] | None:
        """(the buffer in the merged memory, its offset in elements)"""
        slot = self.offsets.get(buffer.data)
        if slot is None:
            return None
        moved = self.buffers.get(buffer)
        if moved is None:
            first = slot[0] // (buffer.dtype.lane_bytes * buffer.dtype.lanes)
            shape = (add(buffer.shape[0], const(first, buffer.shape[0].dtype)),)
            common = buffer.replace(data=self.memory, shape=shape)
            moved = self.buffers[buffer] = (common, first)
        return moved

    def access(self, node: BufferLoad | BufferStore) -> Any:
        moved = self.moved(node.buffer)
        if moved is None:
            return node
        buffer, first = moved
        (index,) = node.indices
        at = self.ana.simplify(add(index, const(first, index.dtype))) if first else index
        return node.replace(buffer=buffer, indices=(at,))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.access(self.visit_default(node))

    visit_BufferStore = visit_BufferLoad

    def visit_Allocate(self, node: Allocate) -> Stmt:
        body = self.visit(node.body)
        return body if node.buffer_var in self.offsets else node.replace(body=body)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        body = self.visit(node.body)
        return body if node.buffer.data in self.offsets else node.replace(body=body)

    def visit_Call(self, node: Call) -> Any:
        if is_call_to(node, "tvm_access_ptr") and node.args[1] in self.offsets:
            tag, data, offset = node.args[:3]
            size = tag.dtype.lane_bytes * tag.dtype.lanes
            first = const(self.offsets[data][0] // size, offset.dtype)
            args = (tag, self.memory, add(self.visit(offset), first), *node.args[3:])
            return node.replace(args=args)
        return self.visit_default(node)

    def visit_Var(self, node: Var) -> Any:
        slot = self.offsets.get(node)
        if slot is None:
            return node
        return handle_add_byte_offset(self.memory, const(slot[0], "int32"))


class _Launches(ExprKeeper, StmtRewriter):
    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        """The merged allocation is placed within the innermost enclosing launch."""
        threads = node.attr_key == "thread_extent" and isinstance(node.node, IterVar)
        inner = node.body
        if isinstance(inner, AttrStmt) and inner.attr_key == "thread_extent":
            return self.visit_default(node)
        offsets = _dynamic(inner) if threads else {}
        if len(offsets) < 2:
            return self.visit_default(node)
        memory = Var("shared_memory", "handle", type_annotation=("uint8", _SCOPE))
        total = max(offset + size for offset, size in offsets.values())
        body = _Merge(offsets, memory).visit(inner)
        size = (const(total, "int32"),)
        return node.replace(body=Allocate(memory, "uint8", size, const(True), body))


class MergeSharedMemoryAllocations(RewriterPass):
    """Merges the dynamic shared memory of a kernel into one allocation."""

    rewriter = _Launches
