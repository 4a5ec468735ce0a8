"""Shared by the passes: their base classes, and rewriters that keep buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ...arith import Analyzer
from ...ir import prim_expr as pe
from ...ir.functor import Visitor
from ...ir.literals import conjunction, int_value
from ...ir.prim_op import add, cast, const
from ...ir.transform import FunctionPass
from ...ir.variables import uses_any
from .. import stmt as st
from ..analysis.effects import can_change, has_effect
from ..buffer import Buffer
from ..expr import BufferLoad
from ..function import PrimFunc
from ..stmt_functor import LeafKeeper, SubstituteStmt

if TYPE_CHECKING:
    from ...base.span import Span
    from ...ir.module import IRModule
    from ...ir.node import Node
    from ...ir.pass_context import PassContext


class PrimFuncPass(FunctionPass, abstract=True):
    """A pass on each PrimFunc: `run_function(func, mod, ctx)`."""

    prefix = "tir."
    function_type = PrimFunc


class RewriterPass(PrimFuncPass, abstract=True):
    """Rewrites the body of each PrimFunc with a new rewriter. A `Simplifying` one is given the
    facts about the variables of the signature.

    rewriter: its class, or a method that creates one with the options of the pass.
    """

    rewriter: ClassVar[Any]

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        rewriter = self.rewriter()
        if isinstance(rewriter, Simplifying):
            bind_function(rewriter.ana, func)
        return func.replace(body=rewriter.visit(func.body))


class StmtRewriter(LeafKeeper):
    """Rebuilds statements and their expressions; buffers, variables and literals are kept."""

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        stmts = self.visit(node.seq)
        if stmts is node.seq:
            return node
        left = [s for s, old in zip(stmts, node.seq, strict=True) if s is old or not is_no_op(s)]
        return st.seq(*left) if left else NO_OP


class StmtVisitor(Visitor):
    """Visits statements and expressions, but not buffers."""

    def visit_Buffer(self, node: Node) -> None:
        pass

    visit_Var = visit_ConstExpr = visit_Op = visit_Buffer


class Substitute(SubstituteStmt, StmtRewriter):
    """Replaces variables and buffers, folds literals, and drops the branches that never run."""

    def folded(self, kind: type, a: pe.PrimExpr, b: pe.PrimExpr, span: Span | None) -> pe.PrimExpr:
        folded = super().folded(kind, a, b, span)
        is_sum = kind is pe.Add and type(folded) is pe.Add and a.dtype.is_int
        return _add(a, b, span) if is_sum else folded

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        condition = self.visit(node.condition)
        if isinstance(condition, pe.IntImm):
            case = node.then_case if condition.value else node.else_case
            return NO_OP if case is None else self.visit(case)
        then = self.visit(node.then_case)
        other = self.visit(node.else_case)
        if condition is node.condition and then is node.then_case and other is node.else_case:
            return node
        return st.IfThenElse._make(condition, then, other, span=node.span)

    def visit_Call(self, node: pe.Call) -> Any:
        new = self.visit_default(node)
        if new is not node and getattr(new.op, "name", "") == "tir.if_then_else":
            condition = new.args[0]
            if isinstance(condition, pe.IntImm):
                return new.args[1] if condition.value else new.args[2]
        return new


def _add(a: pe.PrimExpr, b: pe.PrimExpr, span: Span | None) -> Any:
    """a + b with a literal last, so that sums that differ by a literal share the rest."""
    if isinstance(a, pe.IntImm):
        a, b = b, a
    if type(a) is pe.Add and isinstance(a.b, pe.IntImm):
        if isinstance(b, pe.IntImm):
            total = add(a.b, b)
            return a.a if int_value(total) == 0 else pe.Add._make(a.a, total, span=span)
        return pe.Add._make(pe.Add._make(a.a, b), a.b, span=span)
    return pe.Add._make(a, b, span=span)


def under_names(
    stmt: st.Stmt, change: Callable[[st.BufferStore], st.Stmt | None]
) -> st.Stmt | None:
    """The result of `change` for a store, inside the names of memory around it; None for another
    statement, or if `change` returns None."""
    if isinstance(stmt, st.DeclBuffer):
        body = under_names(stmt.body, change)
        return None if body is None else stmt.replace(body=body)
    return change(stmt) if isinstance(stmt, st.BufferStore) else None


NO_OP = st.Evaluate(pe.IntImm("int32", 0))


def is_no_op(stmt: st.Stmt) -> bool:
    """Whether a statement does nothing."""
    return isinstance(stmt, st.Evaluate) and isinstance(stmt.value, pe.IntImm)


class Simplifying(StmtRewriter):
    """A rewriter that knows the ranges of the enclosing loops and the enclosing conditions."""

    def __init__(self, ana: Analyzer | None = None) -> None:
        self.ana = ana or Analyzer()

    def loop(self, node: st.For) -> Any:
        """A scope in which the range of a loop is known."""
        if can_change(node.body, node.range):
            return nullcontext()
        return self.ana.loop_scope(node.loop_var, node.range)

    def assuming(self, condition: pe.PrimExpr, body: st.Stmt, holds: bool = True) -> Any:
        """A scope in which a condition is known to hold, or not to: those parts of it that `body`
        does not change by what it stores."""
        parts = [c for c in parts_of(condition, holds) if not can_change(body, c)]
        return self.ana.constraint_scope(conjunction(parts)) if parts else nullcontext()

    def stores_itself(self, node: st.BufferStore) -> bool:
        """Whether a statement stores the value that the memory already holds."""
        value = node.value
        same = isinstance(value, BufferLoad) and value.buffer is node.buffer
        if not same or node.predicate is not None or value.predicate is not None:
            return False
        both = (*value.indices, *node.indices)
        if any(i.dtype.lanes > 1 or has_effect(i) for i in both):
            return False
        return all(map(self.ana.can_prove_equal, value.indices, node.indices))

    def visit_For(self, node: st.For) -> Any:
        with self.loop(node):
            return self.visit_default(node)

    def visit_IterVar(self, node: pe.IterVar) -> Any:
        dom = self.visit(node.dom)
        return node if dom is node.dom else node.replace(dom=dom)

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        """Inside, each axis is in its domain."""
        values, predicate = self.visit(node.iter_values), self.visit(node.predicate)
        with ExitStack() as scopes:
            for axis in node.block.iter_vars:
                scopes.enter_context(self.ana.loop_scope(axis.var, axis.dom))
            block = self.visit(node.block)
        if values is node.iter_values and predicate is node.predicate and block is node.block:
            return node
        return node.replace(iter_values=values, predicate=predicate, block=block)

    def visit_AttrStmt(self, node: st.AttrStmt) -> Any:
        """The annotated node is kept; a thread index is less than the number of threads."""
        value = self.visit(node.value)
        if node.attr_key in ("thread_extent", "virtual_thread") and isinstance(
            node.node, pe.IterVar
        ):
            var = node.node.var
            low = const(0, var.dtype)
            with self.ana.loop_scope(var, pe.Range.from_min_extent(low, cast(var.dtype, value))):
                body = self.visit(node.body)
        else:
            body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return st.AttrStmt._make(node.node, node.attr_key, value, body, span=node.span)

    def visit_LetStmt(self, node: st.LetStmt) -> Any:
        value = self.visit(node.value)
        self.ana.bind_value_bounds(node.var, value)
        body = self.visit(node.body)
        if value is node.value and body is node.body:
            return node
        return st.LetStmt._make(node.var, value, body, span=node.span)

    def visit_IfThenElse(self, node: st.IfThenElse) -> Any:
        condition = self.visit(node.condition)
        with self.assuming(condition, node.then_case):
            then = self.visit(node.then_case)
        other = node.else_case
        if other is not None:
            with self.assuming(condition, other, holds=False):
                other = self.visit(other)
        if condition is node.condition and then is node.then_case and other is node.else_case:
            return node
        return st.IfThenElse._make(condition, then, other, span=node.span)


VarsOfLets = Mapping[st.Stmt, set[pe.Var]]  # of definitions that were visited before


def all_variables(node: pe.PrimExpr | st.Stmt, visited: VarsOfLets) -> set[pe.Var]:
    """The variables that a statement or an expression uses, and those that are the memory or a
    dimension of its buffers."""
    finder = _AllVariables(visited)
    finder.visit(node)
    return finder.variables


class _AllVariables(Visitor):
    def __init__(self, visited: VarsOfLets) -> None:
        self.variables: set[pe.Var] = set()
        self.buffers: set[Buffer] = set()
        self.visited = visited

    def visit_LetStmt(self, node: st.LetStmt) -> None:
        if node in self.visited:
            self.variables |= self.visited[node]
        else:
            self.visit_default(node)

    def visit_Var(self, node: pe.Var) -> None:
        self.variables.add(node)

    def visit_ConstExpr(self, node: pe.PrimExpr) -> None:
        pass

    def visit_Buffer(self, node: Buffer) -> None:
        if node not in self.buffers:
            self.buffers.add(node)
            self.variables.add(node.data)
            self.visit((node.shape, node.strides, node.elem_offset))


def occurs(var: pe.Var, stmt: st.Stmt) -> bool:
    """Whether a statement uses a variable, or a buffer of which it is the memory or a dimension."""
    return uses_any(stmt, (var,)) or var in all_variables(stmt, {})


def parts_of(condition: pe.PrimExpr, holds: bool) -> list[pe.PrimExpr]:
    """The conditions that must all hold for one to hold, or not to."""
    if isinstance(condition, pe.Not):
        return parts_of(condition.a, not holds)
    if isinstance(condition, pe.And if holds else pe.Or):
        return parts_of(condition.a, holds) + parts_of(condition.b, holds)
    if not condition.dtype.is_bool:  # a number: true unless 0
        zero = const(0, condition.dtype)
        return [(pe.NE if holds else pe.EQ)(condition, zero)]
    return [condition if holds else pe.Not(condition)]


def bind_function(ana: Analyzer, func: PrimFunc) -> None:
    """Record facts about a signature: dimensions of buffers are not negative."""
    for buffer in func.buffer_map.values():
        for extent in buffer.shape:
            if not isinstance(extent, pe.IntImm):
                ana.assume_nonnegative(extent)
