"""`ReduceBranchingThroughOvercompute`: drops conditions where computing more does no harm.

Before (-) and after (+)::

      @T.prim_func
      def main(B: T.Buffer((1,), "int32")):
          for i in range(16):
    -         if i > 0:
    -             B[0] = B[0] + i * i
    +         B[0] = B[0] + i * i

It changes nothing where the additional code has no effect (`RemoveNoOp` would remove it), and
where two branches differ only by code without effects. With the option
`tir.ReduceBranchingThroughOvercompute` {"use_dataflow_analysis": True}, known contents of memory
count, and so does a loop nest whose additional stores are overwritten by a later statement before
they are read. The additional code has to stay inside of its buffers, call nothing and not divide.
"""

from __future__ import annotations

from typing import Any

from ...ir.functor import rewrite
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...ir.prim_expr import And, Call, Div, FloorDiv, FloorMod, IntImm, Mod, Not
from ...ir.structural import structural_equal
from ...tir.analysis.effects import has_effect
from ...tir.expr import BufferLoad
from ...tir.function import PrimFunc
from ...tir.op import is_call_to
from ...tir.stmt import BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt, Stmt
from ...tir.stmt_functor import keep_buffers
from ...tir.transform.base import NO_OP, PrimFuncPass, Simplifying, bind_function, is_no_op
from ...tir.transform.optimize.remove_no_op import NoOpRemover, looks_at, loop_nest

_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class _Check(Simplifying):
    """Whether a statement only computes and stores, inside of its buffers."""

    safe = True

    def access(self, node: BufferLoad | BufferStore) -> Any:
        for index, extent in zip(node.indices, node.buffer.shape, strict=True):
            inside = index.dtype.lanes == 1 and self.ana.can_prove(And(index >= 0, index < extent))
            self.safe = self.safe and inside
        return self.visit_default(node)

    visit_BufferLoad = visit_BufferStore = access

    def visit(self, node: Any) -> Any:
        if isinstance(node, _DIVISIONS):
            self.safe = self.safe and isinstance(node.b, IntImm)
        elif isinstance(node, Call) or (isinstance(node, Stmt) and not isinstance(node, _PLAIN)):
            self.safe = False
        return super().visit(node)


_PLAIN = (BufferStore, Evaluate, For, IfThenElse, LetStmt, SeqStmt)


class _Search(NoOpRemover):
    """Finds the first branch that can be removed: `removable`, with its replacement."""

    def __init__(self, overwritten: bool) -> None:
        super().__init__(overwritten)
        self.removable: tuple[Stmt, Stmt] | None = None
        self.dead: set[Stmt] = set()  # branches whose other elements are overwritten later

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        for n, stmt in enumerate(node.seq if self.overwritten else ()):
            nest = loop_nest(stmt)
            if nest is None or len(nest.conditions) != 1:
                continue
            if looks_at(stmt, nest.store.buffer.data):
                continue
            branch: Any = stmt
            while isinstance(branch, For):
                branch = branch.body
            rest = rewritten(stmt, branch, branch.replace(condition=Not(branch.condition)))
            if self.is_overwritten(rest, list(node.seq[n + 1 :])):
                self.dead.add(branch)
        return super().visit_SeqStmt(node)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """Assumptions are facts about memory later."""
        return node if is_call_to(node.value, "assume") else super().visit_Evaluate(node)

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """A store of the same value, as the condition or memory shows, is removed."""
        new = super().visit_BufferStore(node)
        if is_no_op(new):
            return new
        both: Any = (node.value, BufferLoad(node.buffer, node.indices))
        if self.overwritten:
            both = (self.memory.resolved(value, self.path) for value in both)
        same = node.predicate is None and self.ana.can_prove_equal(*both)
        return NO_OP if same else new

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        then, other = node.then_case, node.else_case
        if self.removable is None and (other is not None or not has_effect(node.condition)):
            if other is not None:
                harmless = structural_equal(NoOpRemover().visit(then), NoOpRemover().visit(other))
                harmless = harmless and not has_effect(node.condition)
            else:
                with self.assuming(node.condition, then, holds=False):
                    check = _Check(self.ana)
                    check.visit(then)
                extra = IfThenElse(Not(node.condition), then)
                harmless = check.safe and (
                    node in self.dead or is_no_op(super().visit_IfThenElse(extra))
                )
            if harmless:
                self.removable = node, then
        return super().visit_IfThenElse(node)


def rewritten(tree: Stmt, old: Stmt, new: Stmt) -> Stmt:
    """`tree` with a statement replaced."""
    return rewrite(tree, {type(old): lambda n: new if n is old else None}, pre=keep_buffers)


class ReduceBranchingThroughOvercompute(PrimFuncPass):
    """Drops conditions where computing more does no harm."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.ReduceBranchingThroughOvercompute") or {}
        while True:
            search = _Search(bool(options.get("use_dataflow_analysis")))
            bind_function(search.ana, func)
            search.visit(func.body)
            if search.removable is None:
                return func
            func = func.replace(body=rewritten(func.body, *search.removable))
