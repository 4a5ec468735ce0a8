"""Rewriters of schedules: substitution that folds, and records which blocks became which."""

from __future__ import annotations

from typing import Any

from ....arith import Analyzer
from ....ir.literals import conjunction, conjuncts
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.prim_op import const, logical_and
from ...buffer import Buffer
from ...expr import reads_memory
from ...op import if_then_else
from ...stmt import Block, BlockRealize, BufferStore, For, IfThenElse, SeqStmt, Stmt, seq
from ...stmt_functor import ExprKeeper, LeafKeeper, SubstituteStmt


class BlockRewriter(LeafKeeper):
    """Rebuilds statements; `renamed` collects the blocks that changed. Buffers stay."""

    def __init__(self, renamed: dict[Block, Block] | None = None) -> None:
        self.renamed = {} if renamed is None else renamed

    def visit_SeqStmt(self, node: SeqStmt) -> Any:
        items = self.visit(node.seq)
        return node if items is node.seq else seq(*items)

    def visit_Block(self, node: Block) -> Any:
        block = self.visit_default(node)
        if block is not node:
            self.renamed[node] = block
        return block


class Substitute(SubstituteStmt, BlockRewriter):
    """Replaces variables and buffers, folds literals, and says which blocks became which."""

    def __init__(
        self,
        table: dict[Var, Any],
        buffers: dict[Buffer, Buffer] | None = None,
        renamed: dict[Block, Block] | None = None,
    ) -> None:
        SubstituteStmt.__init__(self, table, buffers)
        self.renamed = {} if renamed is None else renamed


def substitute(node: Any, values: dict[Var, Any], renamed: dict[Block, Block] | None = None) -> Any:
    """`node` with variables replaced."""
    return Substitute(values, renamed=renamed).visit(node) if values else node


class _Renew(ExprKeeper):
    """Renames the variables of loops and axes that an earlier loop or axis has, too."""

    def __init__(self) -> None:
        self.seen: set[Var] = set()

    def visit_For(self, node: For) -> Any:
        var = node.loop_var
        if var in self.seen:
            fresh = var.copy_with_suffix("")
            node = node.replace(loop_var=fresh, body=substitute(node.body, {var: fresh}))
        self.seen.add(node.loop_var)
        thread = node.thread_binding
        if thread is not None:
            if thread.var in self.seen:
                thread = thread.replace(var=thread.var.copy_with_suffix(""))
                node = node.replace(thread_binding=thread)
            self.seen.add(thread.var)
        return node.replace(body=self.visit(node.body))

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        return node.replace(block=fresh_axes(node.block, self.seen, self))


def fresh_axes(block: Block, seen: set[Var], inner: _Renew) -> Block:
    """A copy of a block whose axes, and those inside of it, are not among `seen`."""
    values = {a.var: a.var.copy_with_suffix("") for a in block.iter_vars if a.var in seen}
    seen.update(a.var for a in block.iter_vars)
    fields = block.field_values()
    fresh = Block._make(*fields, span=block.span)  # an object of its own
    if values:
        fresh = renew_axes(fresh, values)
    init = None if fresh.init is None else inner.visit(fresh.init)
    return Block._make(
        *[
            init if f.name == "init" else inner.visit(fresh.body) if f.name == "body" else v
            for f, v in zip(fresh.__fields__, fresh.field_values(), strict=True)
        ],
        span=fresh.span,
    )


def renew_axes(block: Block, values: dict[Var, Var]) -> Block:
    """The block with other variables for its axes."""
    axes = tuple(a.replace(var=values.get(a.var, a.var)) for a in block.iter_vars)
    renewed = substitute(block.replace(iter_vars=()), values)
    return renewed.replace(iter_vars=axes)


def renew_repeated(stmt: Stmt) -> Any:
    """`stmt` in which each loop and each axis has a variable of its own."""
    return _Renew().visit(stmt)


class Rebind(Substitute):
    """Replaces loop variables below a loop; the bindings of the blocks directly below are
    simplified, to flat sums, and `predicate` restricts what runs below."""

    def __init__(
        self, values: dict[Var, Any], ana: Analyzer, predicate: PrimExpr | None = None
    ) -> None:
        super().__init__(values)
        self.ana = ana
        self.predicate = predicate
        self.inside = False

    def visit_For(self, node: For) -> Any:
        loop = self.visit_default(node)
        if loop.min is node.min and loop.extent is node.extent:
            return loop
        return loop.replace(min=self.bound(loop.min), extent=self.bound(loop.extent))

    def bound(self, expr: PrimExpr) -> PrimExpr:
        """A bound of a loop, which reads memory only where the predicate holds."""
        expr = self.ana.simplify(expr)
        if self.predicate is None or self.inside or not reads_memory(expr):
            return expr
        return if_then_else(self.predicate, expr, const(0, expr.dtype))

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        if self.inside:
            return self.visit_default(node)
        values = []
        for old in node.iter_values:
            new = self.visit(old)
            values.append(new if new is old or isinstance(old, Var) else self.ana.expand(new))
        predicate = node.predicate
        if not isinstance(predicate, IntImm):
            parts = conjuncts(predicate)
            rebound = [self.visit(part) for part in parts]
            if any(a is not b for a, b in zip(rebound, parts, strict=True)):
                # Part by part: simplifying a conjunction as a whole compares all pairs of parts.
                predicate = conjunction(
                    b if a is b else self.ana.simplify(b)
                    for a, b in zip(parts, rebound, strict=True)
                )
        if self.predicate is not None:
            # Tests that read memory may do so only where the loop variables are in range.
            first = reads_memory(predicate)
            parts = (self.predicate, predicate) if first else (predicate, self.predicate)
            predicate = logical_and(*parts)
        self.inside = True
        block = self.visit(node.block)
        self.inside = False
        return BlockRealize._make(tuple(values), predicate, block, span=node.span)

    def guarded(self, node: BufferStore) -> Any:
        """A statement outside of blocks, under the predicate."""
        stmt = self.visit_default(node)
        if self.predicate is None or self.inside:
            return stmt
        return IfThenElse(self.predicate, stmt)

    visit_BufferStore = guarded
    visit_Evaluate = guarded
