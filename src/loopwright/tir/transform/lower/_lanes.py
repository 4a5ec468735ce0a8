"""Whether lanes of a vectorized loop may run a statement at once, for `VectorizeLoop`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....ir import prim_expr as pe
from ....ir.functor import any_node
from ....ir.op import Op
from ....ir.prim_expr import Call, IntImm, PrimExpr, Var
from ....ir.prim_op import not_equal
from ....ir.structural import structural_equal
from ....ir.variables import uses_any
from ... import stmt as st
from ...buffer import Buffer
from ...expr import BufferLoad
from ..base import StmtVisitor

if TYPE_CHECKING:
    from ....ir.node import Node


def maskable(stmt: st.Stmt, ana: Analyzer) -> bool:
    """Whether a condition on `stmt` can be expressed by masks of its loads and stores."""
    if isinstance(stmt, st.SeqStmt):
        return all(maskable(s, ana) for s in stmt.seq)
    if isinstance(stmt, st.BufferStore):
        return not may_trap(stmt, ana)
    if isinstance(stmt, st.IfThenElse):
        other = stmt.else_case
        return maskable(stmt.then_case, ana) and (other is None or maskable(other, ana))
    if isinstance(stmt, st.For):
        return stmt.kind in (st.ForKind.SERIAL, st.ForKind.UNROLLED) and maskable(stmt.body, ana)
    return False


def may_trap(node: PrimExpr | st.BufferStore, ana: Analyzer) -> bool:
    """Whether an inactive lane could divide by 0 or call a function."""

    def traps(n: Node) -> bool:
        if isinstance(n, (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod)):
            safe = isinstance(n.b, IntImm) or not n.dtype.is_integer
            return not (safe or ana.can_prove(not_equal(n.b, 0)))
        if isinstance(n, Call):
            return not (isinstance(n.op, Op) and n.op.get_attr("vector", False))
        return False

    return any_node(node, traps, skip=Buffer)


def reads(value: PrimExpr, buffer: Buffer) -> bool:
    return any_node(
        value, lambda n: isinstance(n, BufferLoad) and n.buffer.data is buffer.data, skip=Buffer
    )


class _Memory(StmtVisitor):
    """The pointers that a statement stores to, and the accesses of each pointer that it uses."""

    def __init__(self) -> None:
        self.stored: set[Var] = set()
        self.touched: dict[Var, list[Any]] = {}  # indices of accesses, None for an escaped pointer

    def visit_Var(self, node: Var) -> None:
        if node.dtype.is_handle:
            self.touched.setdefault(node, []).append(None)
            self.stored.add(node)  # escapes: the callee may store to it

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.touched.setdefault(node.buffer.data, []).append(node.indices)
        self.visit(node.indices)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.touched.setdefault(node.buffer.data, []).append(node.indices)
        self.stored.add(node.buffer.data)
        self.visit(node.value)
        self.visit(node.indices)


def separable(item: st.Stmt, stmts: tuple[st.Stmt, ...], var: Var) -> bool:
    """Whether one of some statements may run for all lanes before the next ones do: what it stores
    is not used by the others, or each lane has an element of its own there."""
    own, rest = _Memory(), _Memory()
    own.visit(item)
    rest.visit([other for other in stmts if other is not item])
    return all(
        _by_lane([*own.touched[data], *rest.touched[data]], var)
        for data in own.stored & rest.touched.keys()
    )


def _by_lane(accesses: list[Any], var: Var) -> bool:
    """Whether all accesses are to one element, another one in each lane."""
    first = accesses[0]
    if any(a is None or not structural_equal(a, first) for a in accesses):
        return False
    return any(_steps(index, var) for index in first)


def _steps(index: PrimExpr, var: Var) -> bool:
    """Whether an index is a sum with the variable as one term, and in no other."""
    if index is var:
        return True
    if type(index) is pe.Add:
        a, b = uses_any(index.a, {var}), uses_any(index.b, {var})
        return a != b and _steps(index.a if a else index.b, var)
    return False


def writes(stmt: st.Stmt) -> bool:
    """Whether running a statement once differs from running it for each lane."""
    return not isinstance(stmt, (st.BufferStore,)) or reads(stmt.value, stmt.buffer)
