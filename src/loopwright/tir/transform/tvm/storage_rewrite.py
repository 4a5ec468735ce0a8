"""`StorageRewrite`: allocations that are not needed at the same time share memory.

Before::

    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        x = T.allocate([8], "float32", "global")
        y = T.allocate([8], "float32", "global")
        z = T.allocate([16], "float32", "global")
        X = T.Buffer((8,), data=x)
        Y = T.Buffer((8,), data=y)
        Z = T.Buffer((16,), data=z)
        for i in range(8):
            X[i] = A[i] + T.float32(1)
        for i in range(8):
            Y[i] = X[7 - i]
        for i in range(16):
            Z[i] = Y[i % 8]
        for i in range(8):
            B[i] = Z[i + 8]

After::

    @T.prim_func
    def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        x = T.allocate([16], "float32", "global")
        y = T.allocate([8], "float32", "global")
        X = T.Buffer((8,), data=x)
        Y = T.Buffer((8,), data=y)
        Z = T.Buffer((16,), data=x)
        for i in range(8):
            X[i] = A[i] + T.float32(1)
        for i in range(8):
            Y[i] = X[7 - i]
        for i in range(16):
            Z[i] = Y[i % 8]
        for i in range(8):
            B[i] = Z[i + 8]

They share where the element type and storage scope are the same, and the sizes are known or equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....ir.functor import post_order_visit, rewrite
from ....ir.prim_expr import IntImm, Var
from ....ir.structural import structural_equal
from ...buffer import Buffer
from ...function import PrimFunc
from ...stmt import Allocate, AttrStmt, DeclBuffer, LetStmt, SeqStmt, Stmt
from .._base import PrimFuncPass, StmtRewriter


@dataclass
class _Slot:
    """Memory: the allocation that stays, and the last statement that uses it."""

    node: Allocate
    last: int
    size: int | None
    users: list[Var] = field(default_factory=list)


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
    """The pointers that a statement uses, by themselves or through a buffer."""
    found: set[Var] = set()

    def visit(node: Any) -> None:
        if isinstance(node, Var) and node in wanted:
            found.add(node)
        elif isinstance(node, Buffer) and node.data in wanted:
            found.add(node.data)

    post_order_visit(stmt, visit)
    return found


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
        slots = self.assign(around, body)
        same = {user: slot.node.buffer_var for slot in slots for user in slot.users}
        grown = {slot.node: slot for slot in slots}
        made = self.visit(body)
        for wrapper in reversed(around):
            if not isinstance(wrapper, Allocate):
                made = wrapper.replace(body=made)
            elif wrapper in grown:
                size = grown[wrapper].size
                extents = wrapper.extents
                if size is not None and size != _size(wrapper):
                    extents = (IntImm(wrapper.extents[0].dtype, size),)
                made = wrapper.replace(extents=extents, body=made)
        return rewrite(made, {Var: same.get}) if same else made

    def assign(self, around: list[Any], body: SeqStmt) -> list[_Slot]:
        """The memory that is left, in the order of first use."""
        nodes = {n.buffer_var: n for n in around if isinstance(n, Allocate)}
        pinned = set[Var]()  # named by a note or a bound value: of unknown use
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
        slots = [_Slot(node, len(body), _size(node)) for v, node in nodes.items() if v in pinned]
        order = [v for v in nodes if v in first and v not in pinned]
        for var in sorted(order, key=lambda v: first[v]):
            node = nodes[var]
            slot = self.fitting(slots, node, first[var])
            if slot is None:
                slots.append(_Slot(node, last[var], _size(node)))
                continue
            slot.last = last[var]
            slot.users.append(var)
            if slot.size is not None:
                slot.size = max(slot.size, _size(node) or 0)
        return slots

    def fitting(self, slots: list[_Slot], node: Allocate, begin: int) -> _Slot | None:
        """Memory that is free when a statement begins: the one nearest in size."""
        size = _size(node)
        free = []
        for slot in slots:
            other = slot.node
            if slot.last >= begin or other.dtype != node.dtype or _scope(other) != _scope(node):
                continue
            if not structural_equal(other.condition, node.condition):
                continue
            if other.annotations or node.annotations:
                continue
            if slot.size is not None and size is not None:
                free.append((abs(slot.size - size), len(free), slot))
            elif structural_equal(other.extents, node.extents):
                free.append((0, len(free), slot))
        return min(free)[2] if free else None


@dataclass(frozen=True)
class StorageRewrite(PrimFuncPass):
    """See the file's docstring. Runs when buffers are flat."""

    name = "tir.StorageRewrite"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        if ctx.option("tir.disable_storage_rewrite"):
            return func
        return func.replace(body=_Share().visit(func.body))


__all__ = ["StorageRewrite"]
