"""The init of a reduction that may have nothing to reduce.

The init of a block runs in the first iteration of its reduction axes. If such an axis is empty it
never runs, and the result would not be written: if one may be empty, the init becomes a nest of its
own before the loops of the reduction.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..arith import Analyzer
from ..ir.literals import conjunction, conjuncts
from ..ir.prim_expr import EQ, IterVar, PrimExpr, Var
from ..ir.variables import substitute, vars_in
from .stmt import Block, BlockRealize, For, ForKind, IfThenElse, SeqStmt, Stmt, seq
from .stmt_functor import ExprKeeper, LeafKeeper, SubstituteStmt


@dataclass
class _Reduction:
    """A reduction block, with the loops and conditions around it inside of the outermost loop of
    its reduction."""

    realize: BlockRealize
    loops: list[For]
    conditions: list[PrimExpr]


class EarlyInits(ExprKeeper, LeafKeeper):
    """Puts the inits of reductions that may be empty before their loops."""

    def __init__(self, ana: Analyzer | None = None) -> None:
        self.ana = ana or Analyzer()
        self.moved: set[Block] = set()
        self.around: set[Var] = set()  # variables of the loops and blocks around

    def visit_BlockRealize(self, node: BlockRealize) -> Any:
        with ExitStack() as scopes:
            self.around.update(axis.var for axis in node.block.iter_vars)
            for axis in node.block.iter_vars:
                scopes.enter_context(self.ana.loop_scope(axis.var, axis.dom))
            block = self.visit(node.block)
        return node if block is node.block else node.replace(block=block)

    def visit_Block(self, node: Block) -> Any:
        body = self.visit(node.body)
        if node in self.moved:
            own = {r.buffer for r in node.reads}
            reads = (*(r for r in node.writes if r.buffer not in own), *node.reads)
            return node.replace(body=body, init=None, reads=reads)
        return node if body is node.body else node.replace(body=body)

    def visit_For(self, node: For) -> Any:
        nests = [nest for reduction in self.reductions(node) for nest in self.nest(reduction)]
        self.around.add(node.loop_var)
        with self.ana.loop_scope(node.loop_var, node.range):
            body = self.visit(node.body)
        loop = node if body is node.body else node.replace(body=body)
        return seq(*nests, loop) if nests else loop

    def reductions(self, loop: For) -> list[_Reduction]:
        """The blocks under a loop whose reduction it begins and which may be empty."""
        reductions: list[_Reduction] = []

        def walk(stmt: Stmt, loops: list[For], conditions: list[PrimExpr]) -> None:
            if isinstance(stmt, For):
                walk(stmt.body, [*loops, stmt], conditions)
            elif isinstance(stmt, SeqStmt):
                for item in stmt.seq:
                    walk(item, loops, conditions)
            elif isinstance(stmt, IfThenElse) and stmt.else_case is None:
                walk(stmt.then_case, loops, [*conditions, stmt.condition])
            elif isinstance(stmt, BlockRealize) and stmt.block.init is not None:
                if stmt.block not in self.moved and self.begins(loop, stmt):
                    reductions.append(_Reduction(stmt, loops, conditions))

        walk(loop, [], [])
        return reductions

    def begins(self, loop: For, realize: BlockRealize) -> bool:
        """Whether a loop drives a reduction axis, and one of the axes may be empty."""
        pairs = zip(realize.block.iter_vars, realize.iter_values, strict=True)
        reduced = [(a, v) for a, v in pairs if a.iter_type == IterVar.CommReduce]
        if not any(loop.loop_var in vars_in(value) for _, value in reduced):
            return False
        return not all(self.ana.can_prove(axis.dom.extent > 0) for axis, _ in reduced)

    def nest(self, reduction: _Reduction) -> list[Stmt]:
        """The init in loops of its own; nothing where spatial and reduction loops are one. Where
        loops around drive the reduction as well, it runs in their first iteration."""
        realize, block = reduction.realize, reduction.realize.block
        values = dict(zip([a.var for a in block.iter_vars], realize.iter_values, strict=True))
        spatial = [a for a in block.iter_vars if a.iter_type != IterVar.CommReduce]
        reduced = [a for a in block.iter_vars if a.iter_type == IterVar.CommReduce]
        used: set[Var] = set().union(*(vars_in(values[a.var]) for a in spatial))
        outer = [f for f in reduction.loops if f.loop_var in used]
        dropped = {f.loop_var for f in reduction.loops if f.loop_var not in used}
        driving = set().union(*(vars_in(values[a.var]) for a in reduced))
        parts = [p for c in (*reduction.conditions, realize.predicate) for p in conjuncts(c)]
        around = self.around - {f.loop_var for f in reduction.loops}
        other = around | {f.loop_var for f in outer}
        parts = [p for p in parts if not vars_in(p) & dropped or vars_in(p) & other]
        mixed = driving & {f.loop_var for f in outer} or any(vars_in(p) & dropped for p in parts)
        if mixed or any(vars_in((f.min, f.extent)) & dropped for f in outer):
            return []
        first = {f.loop_var: f.min for f in reduction.loops}
        for axis in reduced:
            begin = substitute(values[axis.var], first)
            if vars_in(values[axis.var]) & around:
                parts.append(EQ(begin, axis.dom.min))
            elif not self.ana.can_prove_equal(begin, axis.dom.min):
                return []  # other loops begin the reduction
        assert block.init is not None
        init = Block(
            spatial,
            [],
            block.writes,
            f"{block.name_hint}_init",
            block.init,
            annotations=dict(block.annotations),
            span=block.span,
        )
        nest: Stmt = BlockRealize([values[a.var] for a in spatial], conjunction(parts), init)
        for f in reversed(outer):
            kind = ForKind.SERIAL if f.kind == ForKind.PARALLEL else f.kind
            nest = f.replace(kind=kind, body=nest)
        defined = [f.loop_var for f in outer] + [a.var for a in spatial]
        fresh = {v: v.copy_with_suffix("_init") for v in defined}
        nest = SubstituteStmt(fresh).visit(nest)
        self.moved.add(block)
        return [nest]
