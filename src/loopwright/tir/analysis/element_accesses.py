"""Every access of a function with the loops and conditions it is under."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...ir.functor import Visitor
from ...ir.literals import is_true
from ...ir.prim_expr import EQ, And, Call, IterVar, Let, Not, PrimExpr, Select, Var
from ...ir.prim_op import add
from .. import stmt as st
from ..buffer import Buffer, BufferRegion
from ..expr import BufferLoad
from ..op import is_call_to
from ..stmt_functor import substitute


@dataclass(frozen=True)
class ElementAccess:
    """One load or store. Indices and guards use only loop variables and parameters; None for a
    guard that cannot be expressed in them."""

    node: Any
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    loops: tuple[st.For, ...]
    guards: tuple[PrimExpr | None, ...]
    block: st.Block | None

    @property
    def is_write(self) -> bool:
        """Whether it is a store."""
        return isinstance(self.node, st.BufferStore)

    @property
    def span(self) -> Any:
        """Its span, else that of its block or loop."""
        for node in (self.node, self.block, *reversed(self.loops)):
            if node is not None and node.span is not None:
                return node.span
        return None


class ChoiceVisitor(Visitor):
    """Visits both ways to choose between two values by `choice(condition, yes, no)`."""

    def visit_Select(self, node: Select) -> None:
        self.choice(node.condition, node.true_value, node.false_value)

    def visit_Call(self, node: Call) -> None:
        if is_call_to(node, "if_then_else"):
            self.choice(*node.args)
        else:
            self.visit(node.args)

    def choice(self, condition: Any, yes: Any, no: Any) -> None:
        """Visit the parts of a choice."""
        self.visit((condition, yes, no))


class ElementAccesses(ChoiceVisitor):
    """Collects the accesses in program order.

    `allocated`: pointer to the loops around its allocation; `by_block`: pointers allocated by a
    block, as far inside as they are used.
    """

    def __init__(self) -> None:
        self.accesses: list[ElementAccess] = []
        self.allocated: dict[Var, tuple[st.For, ...]] = {}
        self.by_block: set[Var] = set()
        self.loops: tuple[st.For, ...] = ()
        self.guards: tuple[PrimExpr | None, ...] = ()
        self.block: st.Block | None = None
        self.values: dict[Var, PrimExpr] = {}
        self.matched: dict[Buffer, BufferRegion | None] = {}

    def resolved(self, expr: Any) -> Any:
        """An expression with block axes and let variables replaced by their values."""
        return substitute(expr, self.values) if self.values else expr

    def under(self, guard: PrimExpr | None, *nodes: Any) -> None:
        """Visit nodes where a condition holds."""
        outer = self.guards
        if not is_true(guard):
            self.guards = (*outer, guard)
        for node in nodes:
            self.visit(node)
        self.guards = outer

    def note(self, node: Any) -> None:
        buffer, indices = node.buffer, tuple(self.resolved(i) for i in node.indices)
        guards = self.guards if node.predicate is None else (*self.guards, None)
        while buffer in self.matched:
            source = self.matched[buffer]
            if source is None:
                return
            indices = tuple(add(r.min, i) for r, i in zip(source.region, indices, strict=True))
            buffer = source.buffer
        self.accesses.append(ElementAccess(node, buffer, indices, self.loops, guards, self.block))

    def visit_Buffer(self, node: Buffer) -> None:
        pass

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.visit(node.indices)
        self.note(node)

    def visit_BufferStore(self, node: st.BufferStore) -> None:
        self.visit(node.indices)
        self.visit(node.value)
        self.note(node)

    def visit_For(self, node: st.For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        outer = self.loops
        same = node.replace(min=self.resolved(node.min), extent=self.resolved(node.extent))
        self.loops = (*outer, same)
        self.visit(node.body)
        self.loops = outer

    def visit_While(self, node: st.While) -> None:
        self.visit(node.condition)
        self.under(None, node.body)

    def visit_And(self, node: And) -> None:
        """The second operand counts where the first holds."""
        self.visit(node.a)
        self.under(self.resolved(node.a), node.b)

    def visit_IfThenElse(self, node: st.IfThenElse) -> None:
        self.visit(node.condition)
        condition = self.resolved(node.condition)
        self.under(condition, node.then_case)
        if node.else_case is not None:
            self.under(Not(condition), node.else_case)

    def choice(self, condition: Any, yes: Any, no: Any) -> None:
        self.visit(condition)
        condition = self.resolved(condition)
        if condition.dtype.lanes > 1:
            self.under(None, yes, no)
            return
        self.under(condition, yes)
        self.under(Not(condition), no)

    def visit_LetStmt(self, node: st.LetStmt | Let) -> None:
        self.visit(node.value)
        self.values[node.var] = self.resolved(node.value)
        self.visit(node.body)
        del self.values[node.var]

    visit_Let = visit_LetStmt

    def visit_Allocate(self, node: st.Allocate | st.AllocateConst) -> None:
        self.allocated[node.buffer_var] = self.loops
        self.visit(node.extents)
        self.visit(node.body)

    visit_AllocateConst = visit_Allocate

    def visit_BlockRealize(self, node: st.BlockRealize) -> None:
        block, outer_block, outer_values = node.block, self.block, dict(self.values)
        self.visit(node.predicate)
        predicate = self.resolved(node.predicate)
        self.under(predicate, node.iter_values)
        first: list[PrimExpr] = []
        for axis, value in zip(block.iter_vars, node.iter_values, strict=True):
            self.values[axis.var] = substitute(value, outer_values) if outer_values else value
            if axis.iter_type == IterVar.CommReduce:
                first.append(EQ(self.values[axis.var], self.resolved(axis.dom.min)))
        self.block = block
        for buffer in block.alloc_buffers:
            self.allocated[buffer.data] = self.loops
            self.by_block.add(buffer.data)
        for match in block.match_buffers:
            same_rank = len(match.buffer.shape) == len(match.source.region)
            source = self.resolved(match.source.region) if same_rank else None
            self.matched[match.buffer] = (
                match.source.replace(region=source) if source is not None else None
            )
        if block.init is not None:
            outer = self.guards
            self.guards = (*outer, *first)
            self.under(predicate, block.init)
            self.guards = outer
        self.under(predicate, block.body)
        self.block, self.values = outer_block, outer_values


def accesses_of(node: Any) -> ElementAccesses:
    """The accesses of a function or statement."""
    walk = ElementAccesses()
    walk.visit(getattr(node, "body", node))
    return walk
