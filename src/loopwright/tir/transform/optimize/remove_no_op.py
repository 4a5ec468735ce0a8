"""`RemoveNoOp`: removes statements without effect, and loops and branches that contain only these.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32"), n: T.int32):
    -     for i in range(n):
    -         T.evaluate(0)
          for i in range(4):
    -         if i < n:
    -             T.evaluate(n + 1)
              A[i] = T.float32(0)

A bound value that is not used, a loop that never runs and a store of the value that memory already
holds have no effect either. With the option `tir.RemoveNoOp` {"use_dataflow_analysis": True},
neither has a store that the next statement overwrites, or of what earlier ones have stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ....arith import Analyzer, estimate_region_lower_bound, eval_ranges
from ....ir.functor import any_node, rewrite
from ....ir.literals import conjunction
from ....ir.prim_expr import Call, IntImm, Not, PrimExpr, Range, Var
from ....ir.prim_op import const
from ....ir.structural import structural_equal
from ....ir.variables import substitute
from ... import stmt as st
from ...analysis.effects import has_effect
from ...expr import BufferLoad
from ...function import PrimFunc
from ...stmt_functor import ExprKeeper, keep_buffers
from ..base import NO_OP, PrimFuncPass, all_variables, bind_function, is_no_op
from ._known_values import Assumed, Before, Following, Turn

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.node import Node
    from ....ir.pass_context import PassContext


def _effect(value: PrimExpr) -> st.Stmt:
    """The statement that remains of an unused value."""
    return st.Evaluate(value) if has_effect(value) else NO_OP


@dataclass(frozen=True)
class _Nest:
    """Loops and conditions around one store without effects but its own."""

    store: st.BufferStore
    loops: dict[Var, Range]
    conditions: list[PrimExpr]
    stmt: st.Stmt

    @property
    def points(self) -> list[Range]:
        """The place that is stored to."""
        return [Range.from_min_extent(i, const(1, i.dtype)) for i in self.store.indices]

    @property
    def without_value(self) -> st.Stmt:
        """The statement, storing 0."""
        zero = const(0, self.store.value.dtype)
        return rewrite(
            self.stmt, {st.BufferStore: lambda n: n.replace(value=zero)}, pre=keep_buffers
        )


def loop_nest(stmt: st.Stmt) -> _Nest | None:
    loops: dict[Var, Range] = {}
    conditions: list[PrimExpr] = []
    at = stmt
    while isinstance(at, (st.For, st.IfThenElse)):
        if isinstance(at, st.For):
            if has_effect(at.min) or has_effect(at.extent):
                return None
            loops[at.loop_var], at = at.range, at.body
        else:
            if at.else_case is not None or has_effect(at.condition):
                return None
            conditions.append(at.condition)
            at = at.then_case
    if not isinstance(at, st.BufferStore) or at.predicate is not None:
        return None
    if (loops and has_effect(at.value)) or any(
        has_effect(i) or i.dtype.lanes > 1 for i in at.indices
    ):
        return None
    return _Nest(at, loops, conditions, stmt)


def looks_at(stmt: st.Stmt, pointer: Var) -> bool:
    """Whether a statement loads from memory, or hands it to a call."""

    def looks(node: Node) -> bool:
        if isinstance(node, BufferLoad):
            return node.buffer.data is pointer
        return isinstance(node, Call) and any(arg is pointer for arg in node.args)

    return any_node(stmt, looks)


class NoOpRemover(ExprKeeper, Following):
    """Drops the statements without effect. overwritten: also stores that the next one overwrites."""

    def __init__(self, overwritten: bool = False) -> None:
        super().__init__()
        self.overwritten = overwritten
        self.used: dict[st.Stmt, set[Var]] = {}  # the variables of rows of definitions

    def visit_Evaluate(self, node: st.Evaluate) -> st.Stmt:
        return node if has_effect(node.value) else NO_OP

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        left: list[st.Stmt] = []
        for stmt in node.seq:
            with self.inside(Before(tuple(left))):
                new = self.visit(stmt)
            if not is_no_op(new):
                left.append(new)
        for n, stmt in enumerate(left if self.overwritten else ()):
            if self.is_overwritten(stmt, left[n + 1 :]):
                left[n] = _effect(stmt.value) if isinstance(stmt, st.BufferStore) else NO_OP
        left = [s for s in left if not is_no_op(s)]
        if len(left) == len(node.seq) and all(a is b for a, b in zip(left, node.seq, strict=True)):
            return node
        return st.seq(*left) if left else NO_OP

    def _body(self, node: st.Stmt, *values: PrimExpr) -> st.Stmt:
        body = self.visit(node.body)
        if is_no_op(body) and not any(map(has_effect, values)):
            return NO_OP
        return node if body is node.body else node.replace(body=body)

    visit_Allocate = visit_DeclBuffer = _body

    def visit_For(self, node: st.For) -> st.Stmt:
        if self.ana.const_int_bound(node.extent).max_value <= 0 and not has_effect(node.extent):
            return NO_OP
        with self.loop(node), self.inside(Turn(node, node.loop_var)):
            return self._body(node, node.min, node.extent)

    def visit_LetStmt(self, node: st.LetStmt) -> st.Stmt:
        """A row of definitions, from the last on: what follows is looked through once."""
        lets: list[st.LetStmt] = []
        at: Any = node
        while isinstance(at, st.LetStmt):
            if not any_node(at.value, lambda n: isinstance(n, (BufferLoad, Call))):
                self.ana.bind(at.var, at.value)
            lets.append(at)
            at = at.body
        body = self.visit(at)
        used = all_variables(body, self.used)
        for let in reversed(lets):
            if let.var in used:
                body = let if body is let.body else let.replace(body=body)
            else:
                effect = _effect(let.value)
                if is_no_op(effect):
                    continue
                body = effect if is_no_op(body) else st.seq(effect, body)
            used |= all_variables(let.value, {})
        if isinstance(body, st.LetStmt):
            self.used[body] = used
        return body

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        new = super().visit_AttrStmt(node)
        return NO_OP if is_no_op(new.body) else new

    def visit_BufferStore(self, node: st.BufferStore) -> st.Stmt:
        if self.stores_itself(node):
            return NO_OP
        redundant = self.overwritten and self.memory.holds_already(node, self.path)
        return NO_OP if redundant else node

    def is_overwritten(self, one: st.Stmt, after: list[st.Stmt]) -> bool:
        """Whether all that a loop nest stores is overwritten by a later statement, before a look."""
        first = loop_nest(one)
        if first is None:
            return False
        pointer = first.store.buffer.data
        for stmt in after:
            second = loop_nest(stmt)
            if second is not None and second.store.buffer is first.store.buffer:
                value = second.without_value
                return not looks_at(stmt, pointer) and (
                    structural_equal(first.without_value, value) or self.covers(second, first)
                )
            if any_node(stmt, lambda n: n is pointer or isinstance(n, (Call, st.AttrStmt))):
                return False
        return False

    def covers(self, outer: _Nest, inner: _Nest) -> bool:
        """Whether a loop nest stores everywhere where another one may."""
        if self.follows(outer, inner):
            return True
        if outer.conditions or not all(isinstance(r.extent, IntImm) for r in outer.loops.values()):
            return False
        dense = estimate_region_lower_bound(outer.points, outer.loops)
        if dense is None:
            return False
        boxes = zip(eval_ranges(inner.points, inner.loops), dense, strict=True)
        return all(
            self.ana.can_prove(b.min_value <= a.min_value)
            and self.ana.can_prove(a.max_value <= b.max_value)
            for a, b in boxes
        )

    def follows(self, outer: _Nest, inner: _Nest) -> bool:
        """Whether two nests store at the same indices, the first wherever the other does."""
        if len(outer.loops) != len(inner.loops):
            return False
        same = dict(zip(outer.loops, inner.loops, strict=True))
        inner_ranges, outer_ranges = list(inner.loops.values()), list(outer.loops.values())
        if not all(map(structural_equal, substitute(outer_ranges, same), inner_ranges)):
            return False
        indices = [substitute(i, same) for i in outer.store.indices]
        if not all(map(structural_equal, indices, inner.store.indices)):
            return False
        if any_node(inner.conditions + outer.conditions, lambda n: isinstance(n, BufferLoad)):
            return False
        ana = Analyzer(inner.loops)
        with ana.constraint_scope(conjunction(inner.conditions)):
            return all(ana.can_prove(substitute(c, same)) for c in outer.conditions)

    def visit_IfThenElse(self, node: st.IfThenElse) -> st.Stmt:
        holds, unknown = Assumed(node.condition), Assumed(Not(node.condition))
        with self.assuming(node.condition, node.then_case), self.inside(holds):
            then = self.visit(node.then_case)
        other = node.else_case
        if other is not None:
            with self.assuming(node.condition, other, holds=False), self.inside(unknown):
                other = self.visit(other)
        if other is not None and is_no_op(other):
            other = None
        if is_no_op(then) and other is not None:
            return st.IfThenElse(Not(node.condition), other, span=node.span)
        if is_no_op(then) and other is None and not has_effect(node.condition):
            return NO_OP
        return node.replace(then_case=then, else_case=other)


class RemoveNoOp(PrimFuncPass):
    """Removes statements without effect, and loops and branches that contain only these."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.RemoveNoOp") or {}
        remover = NoOpRemover(bool(options.get("use_dataflow_analysis")))
        bind_function(remover.ana, func)
        return func.replace(body=remover.visit(func.body))
