"""`HoistDivisions`: computes divisions shared by indices once per iteration of their loop.

In fused loops, every index consists of quotients and remainders of one variable. They are
bound at the top of the loop whose variable they use, before inner loops are unrolled.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
          for i in T.parallel(16):
    +         index: T.int32 = i % 4
    +         index_1: T.int32 = i // 4
              for j in T.unroll(4):
    -             B[i // 4 * 16 + i % 4 * 4 + j] = A[i % 4 * 16 + j * 4 + i // 4]
    +             B[index_1 * 16 + index * 4 + j] = A[index * 16 + j * 4 + index_1]

A division whose divisor might be 0 is not moved, because it may be under a condition; a factor of
the extent of an enclosing loop is not 0 inside that loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ....ir import prim_expr as pe
from ....ir.prim_expr import IntImm, Var
from ...analysis import undefined_vars
from ...function import PrimFunc
from ...stmt import BlockRealize, For, ForKind, LetStmt, Stmt
from ..base import PrimFuncPass, StmtRewriter, StmtVisitor

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

_DIVISIONS = frozenset((pe.FloorDiv, pe.FloorMod, pe.Div, pe.Mod))
_ARITHMETIC = _DIVISIONS | {pe.Add, pe.Sub, pe.Mul, pe.Min, pe.Max}
_TILE = (ForKind.VECTORIZED, ForKind.UNROLLED)


class _Scope:
    """The body of a function or of a loop that is not unrolled."""

    def __init__(self, depth: int, nonzero: set[Any]) -> None:
        self.depth = depth
        self.nonzero = nonzero  # keys of expressions that are not 0 here
        self.bound: list[tuple[Var, Any]] = []


class _Info(NamedTuple):
    """An integer expression without loads and calls: its key, the innermost scope of its
    variables, and whether it contains a division by a divisor that cannot be 0 there."""

    key: Any
    scope: _Scope
    divides: bool
    safe: bool


class _Count(StmtVisitor):
    """Counts the divisions that could be computed at the top of their scope."""

    def __init__(self, free: list[Var]) -> None:
        self.scope = self.outermost = _Scope(0, set())
        self.scopes: dict[int, _Scope] = {}  # of loops, by id
        # The scopes of the variables that an expression may be moved with.
        self.homes: dict[Var, _Scope | None] = dict.fromkeys(free, self.outermost)
        self.infos: dict[int, _Info | None] = {}
        self.counts: dict[Any, int] = {}
        self.order: list[tuple[Any, Any]] = []  # keys with their expressions, inner ones first
        self.times = 1
        self.twice_bound = False

    # ------------------------------------------------------------------ expressions

    def info(self, node: pe.PrimExpr) -> _Info | None:
        """Facts about an expression; None unless it is plain integer arithmetic."""
        if id(node) not in self.infos:
            self.infos[id(node)] = self._info(node)
        return self.infos[id(node)]

    def _info(self, node: pe.PrimExpr) -> _Info | None:
        kind = type(node)
        if kind is IntImm:
            return _Info((node.dtype, node.value), self.outermost, False, True)
        if isinstance(node, Var):
            home = self.homes.get(node)
            return None if home is None else _Info(id(node), home, False, True)
        if kind not in _ARITHMETIC or not node.dtype.is_int or node.dtype.lanes != 1:
            return None
        a, b = self.info(node.a), self.info(node.b)
        if a is None or b is None:
            return None
        scope = a.scope if a.scope.depth >= b.scope.depth else b.scope
        safe = a.safe and b.safe
        if kind in _DIVISIONS:
            safe = safe and all(self._nonzero(f, scope) for f in _factors(node.b))
        divides = a.divides or b.divides or kind in _DIVISIONS
        return _Info((kind, a.key, b.key), scope, divides, safe)

    def _nonzero(self, factor: pe.PrimExpr, scope: _Scope) -> bool:
        if isinstance(factor, IntImm):
            return factor.value != 0
        info = self.info(factor)
        return info is not None and info.key in scope.nonzero

    def visit_BinaryOpExpr(self, node: pe.BinaryOpExpr) -> None:
        info = self.info(node)
        if info is not None and not info.divides:
            return
        if info is None or not info.safe or type(node) not in _DIVISIONS:
            self.visit(node.a)
            self.visit(node.b)
            return
        before = self.counts.get(info.key, 0)
        self.counts[info.key] = before + self.times
        if before:
            return  # its parts are computed once, too
        self.visit(node.a)
        self.visit(node.b)
        self.order.append((info.key, node))

    # ------------------------------------------------------------------ statements

    def _bind(self, var: Var, home: _Scope | None) -> None:
        self.twice_bound = self.twice_bound or self.homes.get(var, home) is not home
        self.homes[var] = home

    def visit_For(self, node: For) -> None:
        self.visit(node.min)
        self.visit(node.extent)
        if node.kind in _TILE:
            self._bind(node.loop_var, None)
            outer = self.times
            self.times *= node.extent.value if isinstance(node.extent, IntImm) else 2
            self.visit(node.body)
            self.times = outer
            return
        factors = (self.info(f) for f in _factors(node.extent))
        nonzero = self.scope.nonzero | {f.key for f in factors if f is not None}
        outer_scope, self.scope = self.scope, _Scope(self.scope.depth + 1, nonzero)
        self.scopes[id(node)] = self.scope
        self._bind(node.loop_var, self.scope)
        self.visit(node.body)
        self.scope = outer_scope

    def visit_Let(self, node: pe.Let | LetStmt) -> None:
        self._bind(node.var, None)
        self.visit(node.value)
        self.visit(node.body)

    visit_LetStmt = visit_Let


def _factors(expr: pe.PrimExpr) -> list[Any]:
    """The factors of a product."""
    if type(expr) is pe.Mul:
        return _factors(expr.a) + _factors(expr.b)
    return [expr]


class _Bind(StmtRewriter):
    """Replaces divisions by variables, bound at the top of scopes."""

    def __init__(self, count: _Count) -> None:
        self.count = count
        self.vars: dict[Any, Var] = {}
        for key, node in count.order:
            if count.counts[key] > 1:
                value = self.visit_default(node)
                var = self.vars[key] = Var("index", node.dtype)
                info = count.infos[id(node)]
                assert info is not None
                info.scope.bound.append((var, value))

    def visit_BinaryOpExpr(self, node: pe.PrimExpr) -> Any:
        info = self.count.infos.get(id(node))
        if info is not None:
            if not info.divides:
                return node
            if info.key in self.vars:
                return self.vars[info.key]
        return self.visit_default(node)

    def visit_For(self, node: For) -> Stmt:
        scope = self.count.scopes.get(id(node))
        loop = self.visit_default(node)
        return loop if scope is None else loop.replace(body=_under(scope, loop.body))


def _under(scope: _Scope, body: Stmt) -> Stmt:
    for var, value in reversed(scope.bound):
        body = LetStmt(var, value, body)
    return body


class HoistDivisions(PrimFuncPass):
    """Computes divisions shared by indices once per iteration of their loop."""

    def run_function(
        self, func: PrimFunc, mod: IRModule | None, ctx: PassContext | None
    ) -> PrimFunc:
        count = _Count(undefined_vars(func.body))
        # A root block stays outermost.
        realize = func.body if isinstance(func.body, BlockRealize) else None
        root = None if realize is None or realize.block.iter_vars else realize.block
        body = func.body if root is None else root.body
        count.visit(body)
        if count.twice_bound or all(n < 2 for n in count.counts.values()):
            return func
        body = _under(count.outermost, _Bind(count).visit(body))
        if realize is not None and root is not None:
            body = realize.replace(block=root.replace(body=body))
        return func.replace(body=body)
