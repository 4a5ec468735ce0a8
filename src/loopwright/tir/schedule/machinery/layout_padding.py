"""Padding of a buffer's new layout: the nest that writes it, or the assumption about it.

- Nothing in the scope writes the buffer: a nest before it states the contents of the padding
  (`T.assume`); the caller provides that.
- A nest that runs over the whole buffer in its order, and does nothing else, runs over the new
  layout instead, and writes the pad value where that has no source.
- Else a nest after the last writer fills the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ....ir.functor import pre_order_visit
from ....ir.literals import is_one, is_zero
from ....ir.prim_expr import EQ, IterVar, PrimExpr, Range, Var
from ....ir.prim_op import logical_not, logical_or
from ....ir.structural import structural_equal
from ....ir.variables import vars_in
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...op import assume, if_then_else
from ...stmt import (
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
    seq,
    serial_nest,
)  # fmt: skip
from ...stmt_functor import ExprKeeper, LeafKeeper
from .rewriting import BlockRewriter, Substitute, substitute

if TYPE_CHECKING:
    from ....ir.node import Node


@dataclass
class Layout:
    """A buffer in a new layout. points: the new indices; sources: the old ones in their terms;
    padded: the condition on the new ones that holds in padding; value: what it holds at them."""

    old: Buffer
    new: Buffer
    points: Sequence[Var]
    sources: Sequence[PrimExpr]
    padded: PrimExpr
    value: Callable[[Sequence[PrimExpr]], PrimExpr]

    def nest(self, body: Stmt) -> Stmt:
        """Loops over the new indices."""
        return serial_nest(self.points, self.new.shape, body)

    def axes(self) -> list[IterVar]:
        """Axes of a block over the new indices."""
        return [
            IterVar(Range.upto(extent), Var(f"v_{p.name}", p.dtype), IterVar.DataPar)
            for p, extent in zip(self.points, self.new.shape, strict=True)
        ]

    def filling(self) -> Stmt:
        """A nest that writes the padding."""
        axes = self.axes()
        at = [axis.var for axis in axes]
        store = BufferStore(self.new, self.value(at), at)
        region = BufferRegion.from_point(self.new, at)
        block = Block(axes, [], [region], f"buffer_{self.new.name}_padding", store)
        return self.nest(BlockRealize(self.points, self.padded, block))

    def assumption(self) -> Stmt:
        """A nest that states the contents of the padding."""
        axes = self.axes()
        at = [axis.var for axis in axes]
        padded = substitute(self.padded, dict(zip(self.points, at, strict=True)))
        holds = EQ(BufferLoad(self.new, at), self.value(at))
        body = Evaluate(assume(logical_or(logical_not(padded), holds)))
        region = BufferRegion.from_point(self.new, at)
        block = Block(axes, [region], [], f"buffer_{self.new.name}_assumptions", body)
        return self.nest(BlockRealize(self.points, True, block))


@dataclass
class Write:
    """A store of the buffer. loops: those around it on which its place depends and those between
    them; values: what variables around it are bound to."""

    store: BufferStore
    realize: BlockRealize | None
    loops: list[For]
    values: dict[Var, PrimExpr]


@dataclass
class Plan:
    """The replacements of statements: nests in the place of loops, a statement behind another, one
    before all; which blocks became which."""

    nests: dict[int, Stmt] = field(default_factory=dict)
    behind: tuple[Stmt, Stmt] | None = None
    first: Stmt | None = None
    renamed: dict[Block, Block] = field(default_factory=dict)


def plan_padding(root: Block, layout: Layout, is_parameter: bool) -> Plan:
    """How the padding of a buffer that is accessed in `root` gets its value."""
    writes = Writes(layout.old)
    writes.visit(root)
    plan = Plan()
    if not writes.stores:
        plan.first = layout.assumption() if is_parameter else None
        return plan
    for write in writes.stores:
        if is_whole_traversal(write, layout):
            plan.nests[id(write.loops[0])] = padded_nest(write, layout, plan.renamed)
    if not plan.nests:
        last = writes.stores[-1]
        after = last.loops[0] if last.loops else last.realize
        assert after is not None  # the root is a block
        plan.behind = after, layout.filling()
    return plan


class Writes(ExprKeeper, LeafKeeper):
    """Collects the stores of a buffer."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.loops: list[For] = []
        self.realize: BlockRealize | None = None
        self.depths: dict[Var, set[int]] = {}
        self.values: dict[Var, PrimExpr] = {}
        self.stores: list[Write] = []
        self.tests: list[PrimExpr] = []

    def depths_of(self, *exprs: PrimExpr) -> set[int]:
        """Which of the loops values depend on."""
        depths = [self.depths[v] for e in exprs for v in vars_in(e) if v in self.depths]
        return set().union(*depths)

    def define(self, var: Var, value: PrimExpr) -> None:
        self.depths[var] = self.depths_of(value)
        self.values[var] = substitute(value, self.values)

    def visit_For(self, node: For) -> Any:
        self.depths[node.loop_var] = {len(self.loops)}
        self.loops.append(node)
        self.visit(node.body)
        self.loops.pop()
        return node

    def visit_LetStmt(self, node: LetStmt) -> Any:
        self.define(node.var, node.value)
        self.visit(node.body)
        return node

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
            self.define(axis.var, value)
        outer, self.realize = self.realize, node
        self.tests.append(node.predicate)
        self.visit_Block(node.block)
        self.tests.pop()
        self.realize = outer
        return node

    def visit_Block(self, node: Block) -> Any:
        self.visit(node.body)
        if node.init is not None:
            self.visit(node.init)
        return node

    def visit_BufferStore(self, node: BufferStore) -> Any:
        if node.buffer is self.buffer:
            depths = self.depths_of(*node.indices, *self.tests)
            loops = self.loops[min(depths) : max(depths) + 1] if depths else []
            self.stores.append(Write(node, self.realize, loops, dict(self.values)))
        return node


def is_whole_traversal(write: Write, layout: Layout) -> bool:
    """Whether the loops of a store run over the buffer in its order, and each iteration accesses
    only its own element of the written buffer."""
    loops, indices = write.loops, write.store.indices
    if not loops or len(loops) != len(indices):
        return False
    for loop, index, extent in zip(loops, indices, layout.old.shape, strict=True):
        plain = loop.kind == ForKind.SERIAL and not loop.annotations and is_zero(loop.min)
        replaces = substitute(index, write.values) is loop.loop_var
        if not (plain and replaces and structural_equal(loop.extent, extent)):
            return False
    if any(outer.body is not inner for outer, inner in pairwise(loops)):
        return False
    moving = {loop.loop_var for loop in loops}
    replaced = replaced_axes(write)
    fine = True

    def check(node: Node) -> bool:
        nonlocal fine
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is layout.old:
            fine = fine and structural_equal(node.indices, indices)
        elif isinstance(node, (BufferStore, Evaluate, IfThenElse, While, LetStmt)):
            fine = False
        elif isinstance(node, For):
            fine = fine and not vars_in(node.extent) & moving
        elif isinstance(node, BlockRealize):
            replaces = replaced if node is write.realize else ()
            rest = [v for n, v in enumerate(node.iter_values) if n not in replaces]
            fine = fine and is_one(node.predicate) and not any(vars_in(v) & moving for v in rest)
            fine = fine and not node.block.match_buffers
        return fine

    pre_order_visit(loops[-1].body, check)
    return fine


def replaced_axes(write: Write) -> range:
    """Which axes of the block are the indices of its store: consecutive ones, in their order."""
    axes = write.realize.block.iter_vars if write.realize is not None else ()
    indices = write.store.indices
    for first in range(len(axes) - len(indices) + 1):
        here = axes[first : first + len(indices)]
        if all(a.var is i for a, i in zip(here, indices, strict=True)):
            parallel = all(a.iter_type == IterVar.DataPar for a in here)
            return range(first, first + len(indices)) if parallel else range(0)
    return range(0)


def padded_nest(write: Write, layout: Layout, renamed: dict[Block, Block]) -> Stmt:
    """The nest of a store over the new layout."""
    table: dict[Var, Any] = {
        loop.loop_var: source for loop, source in zip(write.loops, layout.sources, strict=True)
    }
    replaced = replaced_axes(write)
    if not replaced:
        return layout.nest(PadStores(table, layout, layout.points, None, renamed).visit_body(write))
    axes = layout.axes()
    points = [axis.var for axis in axes]
    inside = dict(zip(layout.points, points, strict=True))
    for index, source in zip(write.store.indices, layout.sources, strict=True):
        assert isinstance(index, Var)
        table[index] = substitute(source, inside)
    worker = PadStores(table, layout, points, write.realize, renamed)
    worker.replaced, worker.axes = replaced, axes
    return layout.nest(worker.visit_body(write))


class PadStores(Substitute):
    """Writes the pad value in padding; the axes of one block are replaced by new ones."""

    def __init__(
        self,
        table: dict[Var, Any],
        layout: Layout,
        points: Sequence[Var],
        realize: BlockRealize | None,
        renamed: dict[Block, Block],
    ) -> None:
        super().__init__(table, None, renamed)
        self.layout, self.points, self.realize = layout, points, realize
        self.padded = substitute(layout.padded, dict(zip(layout.points, points, strict=True)))
        self.replaced, self.axes = range(0), list[IterVar]()

    def visit_body(self, write: Write) -> Stmt:
        return self.visit(write.loops[-1].body)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        value = if_then_else(self.padded, self.layout.value(self.points), self.visit(node.value))
        return BufferStore(self.layout.new, value, self.points)

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        if node is not self.realize:
            return self.visit_default(node)
        first, last = self.replaced.start, self.replaced.stop
        axes = node.block.iter_vars
        block = self.visit(node.block.replace(iter_vars=()))
        block = block.replace(iter_vars=(*axes[:first], *self.axes, *axes[last:]))
        self.renamed[node.block] = block
        values = list(node.iter_values)
        values[first:last] = self.layout.points
        return node.replace(iter_values=tuple(values), block=block)


class _Apply(ExprKeeper, BlockRewriter):
    """Carries out a plan."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan.renamed)
        self.plan = plan

    def visit_For(self, node: For) -> Any:
        nest = self.plan.nests.get(id(node))
        return self.with_behind(node, self.visit_default(node) if nest is None else nest)

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        return self.with_behind(node, self.visit_default(node))

    def with_behind(self, node: Stmt, new: Stmt) -> Stmt:
        behind = self.plan.behind
        return seq(new, behind[1]) if behind is not None and behind[0] is node else new


def with_padding(root: BlockRealize, plan: Plan) -> BlockRealize:
    """The block in which the padding has its value."""
    padded = _Apply(plan).visit(root)
    if plan.first is None:
        return padded
    items = (
        padded.block.body.seq if isinstance(padded.block.body, SeqStmt) else (padded.block.body,)
    )
    block = padded.block.replace(body=seq(plan.first, *items))
    plan.renamed[root.block] = block
    return padded.replace(block=block)
