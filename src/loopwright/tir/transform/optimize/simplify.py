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

from typing import Any

from ....arith import Extension
from ....arith.atoms import is_index
from ....ir.literals import is_one, is_true
from ....ir.prim_expr import IntImm, PrimExpr, Var
from ....ir.variables import substitute, uses_any
from ...analysis.effects import has_effect
from ...expr import BufferLoad, reads_memory
from ...function import PrimFunc
from ...stmt import AssertStmt, BufferStore, For, ForKind, IfThenElse, LetStmt, Stmt
from .._base import NO_OP, PrimFuncPass, Simplifying, bind_function, occurs


class _Simplify(Simplifying):
    def __init__(self) -> None:
        super().__init__()
        self.conditions: dict[Var, PrimExpr] = {}  # named by the `let`s around

    def visit_PrimExpr(self, node: Any) -> Any:
        return self.ana.simplify(node)

    def visit_Var(self, node: Any) -> Any:
        return self.ana.simplify(node)

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.ana.simplify(node)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        simplify = self.ana.simplify
        value = simplify(node.value)
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
        with self.loop(node):
            if isinstance(extent, IntImm):
                body = self.visit(node.body)
            else:
                with self.given(extent >= 1, node.body):
                    body = self.visit(node.body)
        single = is_one(extent) and not node.annotations
        if single and node.kind != ForKind.THREAD_BINDING:
            return body  # the variable has become `low`
        return node.replace(body=body)

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.condition(node.condition)
        if isinstance(condition, IntImm):
            case = node.then_case if condition.value else node.else_case
            return NO_OP if case is None else self.visit(case)
        with self.given(condition, node.then_case):
            then = self.visit(node.then_case)
        other = node.else_case
        if other is not None:
            with self.given(condition, other, holds=False):
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

    def condition(self, condition: Any) -> Any:
        """A condition simplified; its value if it can be proved from those of named conditions."""
        simple = self.ana.simplify(condition)
        if not self.conditions or not uses_any(simple, self.conditions):
            return simple
        whole = self.ana.simplify(substitute(simple, self.conditions))
        return whole if isinstance(whole, IntImm) else simple

    def visit_AssertStmt(self, node: AssertStmt) -> Stmt:
        condition = self.condition(node.condition)
        with self.given(condition, node.body):
            body = self.visit(node.body)
        if is_true(condition):
            return body
        return node.replace(condition=condition, body=body)


class Simplify(PrimFuncPass):
    """See the file's docstring."""

    name = "tir.Simplify"

    def run_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        options = ctx.option("tir.Simplify") or {}
        rewriter = _Simplify()
        if options.get("convert_boolean_to_and_of_ors"):
            rewriter.ana.enabled_extensions = Extension.ConvertBooleanToAndOfOrs
        bind_function(rewriter.ana, func)
        return func.replace(body=rewriter.visit(func.body))


__all__ = ["Simplify"]
