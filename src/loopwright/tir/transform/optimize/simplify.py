"""`Simplify`: simplifies index arithmetic and conditions, and removes unreachable code.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((32,), "float32")):
          for i, j in T.grid(4, 8):
    -         if i * 8 + j < 32:
    -             A[(i * 8 + j) // 8 * 8 + j % 8] = T.float32(0)
    +         A[i * 8 + j] = T.float32(0)
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ....arith import Extension
from ....arith.atoms import is_index
from ....ir.literals import conjunction, is_one, is_true
from ....ir.prim_expr import ConstExpr, IntImm, Not, Or, PrimExpr, Var
from ....ir.variables import substitute, uses_any
from ...analysis.effects import has_effect
from ...expr import reads_memory
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import (
    AssertStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from ..base import NO_OP, PrimFuncPass, bind_function, is_no_op, occurs, parts_of
from ._known_values import Assumed, Before, Following, Turn, disjuncts

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Simplify(Following):
    """prove, compute: whether what memory holds is looked up to prove conditions, and for values."""

    def __init__(self, prove: bool = False, compute: bool = False) -> None:
        super().__init__()
        self.prove = prove
        self.compute = compute
        self.conditions: dict[Var, PrimExpr] = {}  # named by the `let`s around

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        simple = self.ana.simplify(node)
        if self.compute and reads_memory(simple):
            value = self.memory.resolved(simple, self.path)
            return value if isinstance(value, ConstExpr) else simple
        return simple

    visit_Var = visit_BufferLoad = visit_PrimExpr

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        if not (self.prove or self.compute):
            return super().visit_SeqStmt(node)
        done: list[Stmt] = []
        with ExitStack() as scopes:
            for stmt in node.seq:
                with self.inside(Before(tuple(done))):
                    done.append(self.visit(stmt))
                if isinstance(stmt, Evaluate) and is_call_to(stmt.value, "assume"):
                    parts = parts_of(stmt.value.args[0], True)
                    facts = conjunction(p for p in parts if not reads_memory(p))
                    scopes.enter_context(self.ana.constraint_scope(facts))
        left = [stmt for stmt in done if not is_no_op(stmt)]
        return seq(*left) if left else NO_OP

    def visit_BufferStore(self, node: BufferStore) -> Any:
        simplify = self.ana.simplify
        value = self.visit(node.value)
        indices = [simplify(i) for i in node.indices]
        predicate = None if node.predicate is None else simplify(node.predicate)
        same = value is node.value and predicate is node.predicate
        if not same or any(a is not b for a, b in zip(indices, node.indices, strict=True)):
            node = BufferStore._make(node.buffer, value, tuple(indices), predicate, span=node.span)
        return NO_OP if self.stores_itself(node) else node

    def visit_For(self, node: For) -> Stmt:
        low, extent = self.ana.simplify(node.min), self.ana.simplify(node.extent)
        if isinstance(extent, IntImm) and extent.value <= 0:
            return NO_OP
        node = node.replace(min=low, extent=extent)
        with self.loop(node), self.inside(Turn(node, node.loop_var)):
            if isinstance(extent, IntImm):
                body = self.visit(node.body)
            else:
                with self.assuming(extent >= 1, node.body):
                    body = self.visit(node.body)
        single = is_one(extent) and not node.annotations
        if single and node.kind != ForKind.THREAD_BINDING and not occurs(node.loop_var, body):
            return body  # the variable has become `low`, but in shapes of buffers
        return node.replace(body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.condition(node.condition)
        if isinstance(condition, IntImm):
            case = node.then_case if condition.value else node.else_case
            return NO_OP if case is None else self.visit(case)
        with self.assuming(condition, node.then_case), self.inside(Assumed(condition)):
            then = self.visit(node.then_case)
        other = node.else_case
        if other is not None:
            no = Assumed(Not(condition))
            with self.assuming(condition, other, holds=False), self.inside(no):
                other = self.visit(other)
        return node.replace(condition=condition, then_case=then, else_case=other)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.ana.simplify(node.value)
        inlined = isinstance(value, (IntImm, Var)) and is_index(node.var.dtype)
        if inlined:
            self.ana.bind(node.var, value)
        else:
            self.ana.bind_value_bounds(node.var, value)
            if value.dtype.is_bool and not reads_memory(value) and not has_effect(value):
                self.conditions[node.var] = value
        body = self.visit(node.body)
        if inlined or (body is not node.body and not has_effect(value)):
            if not occurs(node.var, body):
                return body
        return node.replace(value=value, body=body)

    def condition(self, condition: PrimExpr) -> Any:
        """A condition simplified; its value if it can be proved from those of named conditions."""
        simple = self.ana.simplify(condition)
        whole = simple
        if self.conditions and uses_any(simple, self.conditions):
            whole = self.ana.simplify(substitute(simple, self.conditions))
        if self.prove and not isinstance(whole, IntImm) and reads_memory(whole):
            whole = self.proved(whole)
        return whole if isinstance(whole, IntImm) else simple

    def proved(self, condition: PrimExpr) -> Any:
        """The truth of a condition on memory, as far as it can be proved: in each of the cases that
        an `or` around it leaves, if need be."""
        whole = self.memory.resolved(condition, self.path)
        if isinstance(whole, IntImm):
            return whole
        for frame in reversed(self.path):
            fact = frame.condition if isinstance(frame, Assumed) else None
            if isinstance(fact, Or) and not reads_memory(fact):
                truths: list[Any] = []
                for case in disjuncts(fact):
                    with self.ana.constraint_scope(case):
                        truths.append(self.memory.resolved(condition, self.path))
                if all(isinstance(t, IntImm) and t.value == truths[0].value for t in truths):
                    return truths[0]
        return condition

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.condition(node.condition)
        with self.assuming(condition, node.body):
            body = self.visit(node.body)
        if is_true(condition):
            return body
        return node.replace(condition=condition, body=body)


class Simplify(PrimFuncPass):
    """Simplifies index arithmetic and conditions, and removes unreachable code."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.Simplify") or {}
        names = (
            "propagate_knowns_to_prove_conditional",
            "propagate_knowns_to_simplify_expressions",
        )
        rewriter = _Simplify(*(bool(options.get(name)) for name in names))
        if options.get("convert_boolean_to_and_of_ors"):
            rewriter.ana.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
        bind_function(rewriter.ana, func)
        return func.replace(body=rewriter.visit(func.body))
