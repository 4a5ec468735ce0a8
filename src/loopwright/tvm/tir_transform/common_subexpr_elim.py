"""`CommonSubexprElimTIR`: computes repeated expressions once.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
          for i in range(8):
    -         A[i * n + 3] = B[i * n + 3]
    -         B[i * n] = T.float32(0)
    +         with T.LetStmt(i * n) as cse_v1:
    +             with T.LetStmt(cse_v1 + 3) as cse_v2:
    +                 A[cse_v2] = B[cse_v2]
    +                 B[cse_v1] = T.float32(0)

Only integer arithmetic without memory accesses, calls and division by a variable is eligible.
Each value is bound as far outside as its variables are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.functor import Visitor
from ...ir.module import IRModule
from ...ir.pass_context import PassContext
from ...tir import stmt as st
from ...tir.buffer import Buffer
from ...tir.function import PrimFunc
from ...tir.stmt_functor import ExprKeeper
from ...tir.transform.base import PrimFuncPass, Simplifying, StmtRewriter, bind_function

_TOTAL = (pe.Add, pe.Sub, pe.Mul, pe.Min, pe.Max)
_DIVISIONS = (pe.Div, pe.Mod, pe.FloorDiv, pe.FloorMod)


class _Candidates(Visitor):
    """Counts the expressions of a statement that could be computed before it."""

    def __init__(self) -> None:
        self.count: dict[Any, int] = {}
        self.first: dict[Any, tuple[pe.PrimExpr, int, frozenset[pe.Var]]] = {}
        self.inside: set[pe.Var] = set()

    def visit_Buffer(self, node: Buffer) -> None:
        pass

    def key(self, node: pe.PrimExpr) -> tuple[Any, int, frozenset[pe.Var]] | None:
        """(key, size, variables) of an expression; None if it is not eligible."""
        kind = type(node)
        if isinstance(node, pe.Var):
            return node, 1, frozenset((node,))
        if kind is pe.IntImm:
            return (node.dtype, node.value), 1, frozenset()
        if not node.dtype.is_integer or node.dtype.lanes != 1:
            return None
        if kind is pe.Cast:
            inner = self.key(node.value)
            if inner is None:
                return None
            entry = (pe.Cast, node.dtype, inner[0]), inner[1] + 1, inner[2]
        elif kind in _TOTAL or (kind in _DIVISIONS and _divides(node.b)):
            a, b = self.key(node.a), self.key(node.b)
            if a is None or b is None:
                return None
            entry = (kind, a[0], b[0]), a[1] + b[1] + 1, a[2] | b[2]
        else:
            return None
        if entry[2]:
            self.count[entry[0]] = self.count.get(entry[0], 0) + 1
            self.first.setdefault(entry[0], (node, entry[1], entry[2]))
        return entry

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> None:
        if self.key(node) is None:
            self.visit_default(node)

    visit_Cast = visit_BinaryOpExpr

    def visit_For(self, node: st.For) -> None:
        self.inside.add(node.loop_var)
        self.visit_default(node)

    def visit_LetStmt(self, node: st.LetStmt | pe.Let) -> None:
        self.inside.add(node.var)
        self.visit_default(node)

    visit_Let = visit_LetStmt

    def visit_Block(self, node: st.Block) -> None:
        """Blocks are opaque: nothing outside is bound for them."""

    def parts(self, value: pe.PrimExpr) -> None:
        """Count the subexpressions of a bound value."""
        for part in (value.value,) if isinstance(value, pe.Cast) else (value.a, value.b):
            self.key(part)

    def best(self) -> tuple[pe.PrimExpr, Any] | None:
        """The largest expression that occurs at least twice and is defined outside, and its key."""
        twice = [
            (size, expr, key)
            for key, (expr, size, names) in self.first.items()
            if self.count[key] > 1 and self.inside.isdisjoint(names)
        ]
        return max(twice, key=lambda entry: entry[0])[1:] if twice else None


def _divides(divisor: pe.PrimExpr) -> bool:
    return isinstance(divisor, pe.IntImm) and divisor.value > 0


class _Replace(StmtRewriter):
    def __init__(self, key: Sequence[Any], var: pe.Var) -> None:
        self.key, self.var = key, var
        self.keys = _Candidates()

    def visit_Block(self, node: st.Block) -> Any:
        return node

    def visit_PrimExpr(self, node: pe.PrimExpr) -> Any:
        entry = self.keys.key(node) if isinstance(node, (pe.BinaryOpExpr, pe.Cast)) else None
        if entry is not None and entry[0] == self.key:
            return self.var
        return self.visit_default(node)


class _Eliminate(ExprKeeper, StmtRewriter):
    def __init__(self, fresh: Callable[[Any], pe.Var]) -> None:
        self.fresh = fresh

    def scope(self, body: st.Stmt) -> st.Stmt:
        """The body of a newly defined variable."""
        bound: list[tuple[pe.Var, pe.PrimExpr]] = []  # a value may use earlier ones
        while True:
            candidates = _Candidates()
            candidates.visit(body)
            for _, value in bound:
                candidates.parts(value)
            best = candidates.best()
            if best is None:
                break
            value, key = best
            var = self.fresh(value.dtype)
            replace = _Replace(key, var)
            body = replace.visit(body)
            bound = [(var, value), *((v, replace.visit(e)) for v, e in bound)]
        stmt = self.visit(body)
        for var, value in reversed(bound):
            stmt = st.LetStmt(var, value, stmt)
        return stmt

    def visit_For(self, node: st.For) -> Any:
        return node.replace(body=self.scope(node.body))

    visit_LetStmt = visit_For

    def visit_BlockRealize(self, node: st.BlockRealize) -> Any:
        block = node.block
        return node.replace(block=block.replace(body=self.scope(block.body)))

    def visit_Allocate(self, node: st.Allocate) -> Any:
        return node.replace(body=self.visit(node.body))

    visit_AttrStmt = visit_DeclBuffer = visit_AssertStmt = visit_Allocate


class _Expand(Simplifying):
    """Multiplies sums out, so that equal values have the same form."""

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> Any:
        if node.dtype.is_int and node.dtype.lanes == 1:
            return self.ana.expand(node)
        return self.visit_default(node)


class CommonSubexprElimTIR(PrimFuncPass):
    """Computes repeated expressions once. `identify_equiv_terms` multiplies out first, so that
    equal values written differently are found; `enable_cse_tir=False` disables the pass."""

    enable_cse_tir: bool = True
    identify_equiv_terms: bool = False

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        if not self.enable_cse_tir or ctx.option("tir.disable_cse_tir"):
            return func
        if self.identify_equiv_terms or ctx.option("tir.enable_equiv_terms_in_cse_tir"):
            expand = _Expand()
            bind_function(expand.ana, func)
            func = func.replace(body=expand.visit(func.body))
        count = 0

        def fresh(dtype: DataType | str) -> pe.Var:
            nonlocal count
            count += 1
            return pe.Var(f"cse_v{count}", dtype)

        return func.replace(body=_Eliminate(fresh).scope(func.body))
