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

They share if the element type and storage scope are the same, and the sizes are constant or equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ....ir.functor import post_order_visit
from ....ir.prim_expr import IntImm, Var
from ....ir.structural import StructuralKey
from ....ir.variables import substitute
from ...buffer import Buffer
from ...function import PrimFunc
from ...memory_plan import Item, share
from ...stmt import Allocate, AttrStmt, DeclBuffer, LetStmt, SeqStmt, Stmt
from .._base import PrimFuncPass, StmtRewriter


def _size(node: Allocate) -> int | None:
    total = 1
    for extent in node.extents:
        if not isinstance(extent, IntImm):
            return None
        total *= extent.value
    return total


def _scope(node: Allocate) -> str:
    kind = node.buffer_var.type_annotation
    return kind[1] if kind else "global"


def _uses(stmt: Any, wanted: set[Var]) -> set[Var]:
    """The pointers that a statement uses, directly or through a buffer."""
    used: set[Var] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Var) and node in wanted:
            used.add(node)
        elif isinstance(node, Buffer) and node.data in wanted:
            used.add(node.data)

    post_order_visit(stmt, visit)
    return used


class _Share(StmtRewriter):
    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_Allocate(self, node: Allocate) -> Stmt:
        """A chain of allocations around a sequence."""
        around: list[Any] = []
        body: Any = node
        while isinstance(body, (Allocate, DeclBuffer, AttrStmt, LetStmt)):
            around.append(body)
            body = body.body
        if not isinstance(body, SeqStmt):
            return node.replace(body=self.visit(node.body))
        pieces = _pieces(around, body)
        same = {n.buffer_var: piece[0].buffer_var for piece in pieces for n in piece[1:]}
        sizes = {piece[0]: max(_size(n) or 0 for n in piece) for piece in pieces}
        result = self.visit(body)
        for wrapper in reversed(around):
            if not isinstance(wrapper, Allocate):
                result = wrapper.replace(body=result)
            elif wrapper in sizes:
                extents = wrapper.extents
                if sizes[wrapper] > (_size(wrapper) or 0):
                    extents = (IntImm(extents[0].dtype, sizes[wrapper]),)
                result = wrapper.replace(extents=extents, body=result)
        return substitute(result, same) if same else result


def _pieces(around: list[Any], body: SeqStmt) -> list[list[Allocate]]:
    """The allocations grouped into pieces of memory, outer ones first."""
    nodes = {n.buffer_var: n for n in around if isinstance(n, Allocate)}
    pinned = set[Var]()  # in an annotation or a bound value: unknown uses
    for wrapper in around:
        if isinstance(wrapper, AttrStmt):
            pinned |= _uses((wrapper.node, wrapper.value), set(nodes))
        elif isinstance(wrapper, LetStmt):
            pinned |= _uses(wrapper.value, set(nodes))
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for n, stmt in enumerate(body.seq):
        for var in _uses(stmt, set(nodes)):
            first.setdefault(var, n)
            last[var] = n
    order = sorted((v for v in nodes if v in first and v not in pinned), key=lambda v: first[v])
    items = [Item(v.name, _size(nodes[v]) or 0, first[v], last[v]) for v in order]
    depth = {v: n for n, v in enumerate(nodes)}
    pieces: dict[int, list[Allocate]] = {}
    shared = zip(order, share(items, [_kind(nodes[v]) for v in order]), strict=True)
    # The outermost one of a piece stays: others' buffers are declared below it.
    for var, piece in sorted(shared, key=lambda pair: depth[pair[0]]):
        pieces.setdefault(piece, []).append(nodes[var])
    return [*([n] for v, n in nodes.items() if v in pinned), *pieces.values()]


def _kind(node: Allocate) -> Any:
    """The key that allocations sharing memory must agree on: annotated ones are separate, symbolic
    sizes must be equal."""
    if node.annotations:
        return node
    extents = (
        None if _size(node) is not None else tuple(StructuralKey(e, False) for e in node.extents)
    )
    return str(node.dtype), _scope(node), StructuralKey(node.condition, False), extents


@dataclass(frozen=True)
class StorageRewrite(PrimFuncPass):
    """See the file's docstring. Runs on flat buffers."""

    name = "tir.StorageRewrite"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        if ctx.option("tir.disable_storage_rewrite"):
            return func
        return func.replace(body=_Share().visit(func.body))


__all__ = ["StorageRewrite"]
