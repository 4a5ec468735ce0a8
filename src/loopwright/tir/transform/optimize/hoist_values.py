"""`HoistValues`: computes slow numbers in front of the loops that do not change them.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((8, 64), "float32"), S: T.Buffer((8,), "float32"), B: T.Buffer((8, 64), "float32")):
          T.func_attr({"tir.noalias": True})
          for i in range(8):
    +         value: T.float32 = T.float32(1) / T.sqrt(S[i])
              for j in range(64):
    -             B[i, j] = A[i, j] * (T.float32(1) / T.sqrt(S[i]))
    +             B[i, j] = A[i, j] * value

LLVM would, but the few passes that kernels are compiled with do not move code out of loops. Numbers
under a condition stay: they may read beyond a buffer's end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ....ir import prim_expr as pe
from ....ir.functor import any_node
from ....ir.structural import structural_equal
from ....ir.variables import uses_any
from ... import stmt as st
from ...analysis.effects import can_change, has_effect
from ...function import PrimFunc
from ...op import is_call_to
from ..base import PrimFuncPass, StmtRewriter

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

# Ten cycles and more of a unit that does nothing else meanwhile, or a function.
_SLOW = {f"tir.{name}" for name in ("sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "erf", "pow")}
_REPEATED = (st.ForKind.SERIAL, st.ForKind.UNROLLED)


def _is_slow(node: Any) -> bool:
    if type(node) is pe.Div:
        return node.dtype.is_float and node.dtype.lanes == 1
    return type(node) is pe.Call and node.dtype.lanes == 1 and node.op.name in _SLOW


def _in_any_case(node: pe.PrimExpr) -> Sequence[Any]:
    """The parts of an expression that are computed whatever the others are."""
    if is_call_to(node, "if_then_else"):
        return node.args[:1]
    if isinstance(node, (pe.And, pe.Or)):
        return (node.a,)
    return (node.condition,) if isinstance(node, pe.Select) else list(node.children())


def _computed(body: st.Stmt, inside: tuple[Any, ...]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The expressions that each iteration computes, with the variables of the loop that are known
    there."""
    if isinstance(body, st.SeqStmt):
        for part in body.seq:
            yield from _computed(part, inside)
    elif isinstance(body, st.BufferStore):
        yield from ((e, inside) for e in (body.value, *body.indices))
    elif isinstance(body, st.For):
        if isinstance(body.extent, pe.IntImm) and body.extent.value > 0:
            yield from _computed(body.body, (*inside, body.loop_var))
    elif isinstance(body, st.LetStmt):
        yield body.value, inside
        yield from _computed(body.body, (*inside, body.var))
    elif isinstance(body, (st.Allocate, st.DeclBuffer)):
        var = body.buffer_var if isinstance(body, st.Allocate) else body.buffer.data
        yield from _computed(body.body, (*inside, var))
    elif isinstance(body, st.AttrStmt):
        yield from _computed(body.body, inside)


class _Hoist(StmtRewriter):
    def __init__(self) -> None:
        self.vars: dict[int, pe.Var] = {}  # of the expressions that moved, by id

    def visit(self, node: Any) -> Any:
        var = self.vars.get(id(node))
        return super().visit(node) if var is None else var

    def visit_For(self, node: st.For) -> st.Stmt:
        moved: list[tuple[pe.Var, Any]] = []
        if node.kind in _REPEATED and isinstance(node.extent, pe.IntImm) and node.extent.value > 1:
            for value, inside in _computed(node.body, (node.loop_var,)):
                self._move(value, node.body, inside, moved)
        loop = self.visit_default(node)
        self.vars = {
            key: var for key, var in self.vars.items() if all(var is not m for m, _ in moved)
        }
        for var, value in reversed(moved):
            loop = st.LetStmt(var, self.visit(value), loop)
        return loop

    def _move(self, node: Any, body: st.Stmt, inside: Any, moved: list[tuple[pe.Var, Any]]) -> None:
        """Move the largest parts of an expression that a loop does not change."""
        if id(node) in self.vars or not any_node(node, _is_slow):
            return
        single = node.dtype.is_float and node.dtype.lanes == 1
        if single and not (uses_any(node, inside) or can_change(body, node) or has_effect(node)):
            same = (var for var, value in moved if structural_equal(value, node))
            var = next(same, None)
            if var is None:
                var = pe.Var("value", node.dtype)
                moved.append((var, node))
            self.vars[id(node)] = var
            return
        if isinstance(node, pe.Let):
            inside = (*inside, node.var)
        for part in _in_any_case(node):
            if isinstance(part, pe.PrimExpr):
                self._move(part, body, inside, moved)


class HoistValues(PrimFuncPass):
    """Computes slow numbers in front of the loops that do not change them."""

    def run_function(
        self, func: PrimFunc, mod: IRModule | None, ctx: PassContext | None
    ) -> PrimFunc:
        if not func.attrs.get("tir.noalias") or not any_node(func.body, _is_slow):
            return func
        return func.replace(body=_Hoist().visit(func.body))
