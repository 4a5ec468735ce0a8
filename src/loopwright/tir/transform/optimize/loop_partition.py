"""`LoopPartition`: runs interior tiles without boundary checks.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((100,), "float32")):
          for io in range(13):
    -         for ii in T.vectorized(8):
    -             if io * 8 + ii < 100:
    +         if io <= 11:
    +             for ii in T.vectorized(8):
                      A[io * 8 + ii] = T.float32(0)
    +         else:
    +             for ii in T.vectorized(8):
    +                 if ii + 96 < 100:
    +                     A[ii + 96] = T.float32(0)

Loops with conditions in `T.likely`, or with the annotation `pragma_loop_partition_hint`, are split
where the conditions change, see `_loop_ranges.py`.

The loops of a tile are the vectorized and unrolled ones. The check of the whole tile is placed
outside all loops that it does not depend on. Checks are the conditions of `if` statements and of
`T.if_then_else` (the padding of a convolution); a tile that contains padding keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....arith import Analyzer
from ....arith.interval import Evaluator
from ....arith.normal import comparison, normal
from ....ir.functor import any_node
from ....ir.literals import conjuncts
from ....ir.prim_expr import GE, GT, LE, LT, And, Call, CmpExpr, IntImm, Min, PrimExpr, Var
from ....ir.prim_op import const, convert
from ....ir.variables import vars_in
from ...buffer import Buffer
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import Allocate, For, ForKind, IfThenElse, LetStmt, Stmt
from ...stmt_functor import ExprKeeper
from ..base import (
    NO_OP,
    PrimFuncPass,
    Simplifying,
    StmtRewriter,
    StmtVisitor,
    Substitute,
    bind_function,
)
from ..lower.convert_for_loops_to_serial import TILE_KIND
from ._loop_ranges import split_ranges, variables_of

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


def _of_tile(loop: For) -> bool:
    return loop.kind in (ForKind.VECTORIZED, ForKind.UNROLLED) or TILE_KIND in loop.annotations


class _Checks(StmtVisitor):
    """Conditions on tile loops inside one statement, generalized to the whole tile.

    `tiles`: conditions -> that of the whole tile. A condition that depends on any other definition
    inside the statement is left out.
    """

    def __init__(self, ana: Analyzer) -> None:
        self.ana = ana
        self.loops: dict[Var, Any] = {}
        self.inner: set[Var] = set()
        self.tiles: dict[Any, PrimExpr] = {}
        self.seen: set[int] = set()

    def visit_Call(self, node: Call) -> None:
        if self.loops and is_call_to(node, "if_then_else"):
            self.check(node.args[0])
        self.visit_default(node)

    def visit_For(self, node: For) -> None:
        if _of_tile(node):
            self.loops[node.loop_var] = node.range
        else:
            self.inner.add(node.loop_var)
        with self.ana.loop_scope(node.loop_var, node.range):
            self.visit(node.body)
        self.loops.pop(node.loop_var, None)

    def visit_LetStmt(self, node: LetStmt) -> None:
        self.inner.add(node.var)
        self.visit(node.body)

    def visit_IfThenElse(self, node: IfThenElse) -> None:
        if self.loops and node.else_case is None:
            self.check(node.condition)
        self.visit(node.then_case)
        if node.else_case is not None:
            self.visit(node.else_case)

    def check(self, condition: PrimExpr) -> None:
        """Collect the parts of a condition that can be decided for the whole tile."""
        for part in conjuncts(condition):
            if id(part) in self.seen:
                continue
            self.seen.add(id(part))
            whole = self.whole(part)
            if whole is not None:
                self.tiles[part] = whole

    def whole(self, condition: PrimExpr) -> PrimExpr | None:
        """`condition` for all values of the tile's loops, or None if that cannot be expressed."""
        condition = _unwrapped(condition)
        if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_int:
            return None
        used = variables_of(condition)
        if used is None or not used & self.loops.keys() or used & self.inner:
            return None
        a, b = self.ana.poly(condition.a), self.ana.poly(condition.b)
        _, p = normal(self.ana, type(condition), a, b)
        low = Evaluator(self.ana, self.loops).ends(p)[0]
        if low is None:
            return None
        try:
            return self.ana.simplify(comparison(self.ana, GE, low, condition.a.dtype))
        except ValueError:  # a bound that the dtype cannot hold
            return None


def _unwrapped(condition: PrimExpr) -> PrimExpr:
    if isinstance(condition, Call) and getattr(condition.op, "name", "") == "tir.likely":
        return condition.args[0]
    return condition


class _Unchecked(StmtRewriter):
    """The statement under the assumption that some conditions hold."""

    def __init__(self, decided: set[int]) -> None:
        self.decided = decided

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        then = self.visit(node.then_case)
        other = self.visit(node.else_case)
        condition = self.left(node.condition)
        if condition is None:
            return then
        return node.replace(condition=condition, then_case=then, else_case=other)

    def visit_Call(self, node: Call) -> Any:
        new = self.visit_default(node)
        if not is_call_to(node, "if_then_else"):
            return new
        condition = self.left(node.args[0])
        if condition is None:
            return new.args[1]
        if condition is node.args[0]:
            return new
        return new.replace(args=(condition, *new.args[1:]))

    def left(self, condition: PrimExpr) -> PrimExpr | None:
        """The part of a condition that is not known to hold; None if all is."""
        parts = conjuncts(condition)
        left = [c for c in parts if id(c) not in self.decided]
        if len(left) == len(parts):
            return condition
        rest: PrimExpr | None = None
        for part in left:
            rest = part if rest is None else And(rest, part)
        return rest


class _Whole(Simplifying):
    """A tile that is known to be whole: what only its end needs is left out, indices that stop at an operand's last
    row and branches for few rows."""

    def visit_Min(self, node: Min) -> PrimExpr:
        new = self.visit_default(node)
        simple = self.ana.simplify(new)
        return new if isinstance(simple, Min) else simple

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.ana.simplify(node.condition)
        if isinstance(condition, IntImm) and (condition.value or node.else_case is not None):
            return self.visit(node.then_case if condition.value else node.else_case)
        return self.visit_default(node)


class _Copy(Substitute):
    """A copy with new variables and buffers."""

    def visit_For(self, node: For) -> Stmt:
        fresh = Var(node.loop_var.name, node.loop_var.dtype)
        self.table[node.loop_var] = fresh
        return self.visit_default(node.replace(loop_var=fresh))

    def visit_Allocate(self, node: Allocate) -> Stmt:
        data = node.buffer_var
        fresh = Var(data.name, data.dtype, type_annotation=data.type_annotation)
        self.table[data] = fresh
        return self.visit_default(node.replace(buffer_var=fresh))

    def visit_Buffer(self, node: Buffer) -> Buffer:
        """The views of memory that is allocated within."""
        data = self.table.get(node.data)
        if node not in self.buffers and data is not None:
            self.buffers[node] = node.replace(data=data)
        return self.buffers.get(node, node)

    def visit_LetStmt(self, node: LetStmt) -> Stmt:
        fresh = Var(node.var.name, node.var.dtype)
        value = self.visit(node.value)
        self.table[node.var] = fresh
        return LetStmt(fresh, value, self.visit(node.body), span=node.span)


def _constant_loops(func: PrimFunc) -> bool:
    """Whether no loop has a symbolic number of iterations."""
    return not any_node(
        func.body, lambda n: isinstance(n, For) and not isinstance(n.extent, IntImm)
    )


class _Partition(ExprKeeper, Simplifying):
    def visit_For(self, node: For) -> Stmt:
        if _of_tile(node):  # nothing is around it
            loop = self.hoisted(node)
            return node if loop is None else loop
        with self.loop(node):
            body = self.hoisted(node.body)
            return node.replace(body=self.visit(node.body) if body is None else body)

    def hoisted(self, body: Stmt) -> Stmt | None:
        """`body` as a choice between the tile without checks and the one with them; None if that
        gains nothing or the check belongs further inside."""
        checks = _Checks(self.ana)
        checks.visit(body)
        if not checks.tiles:
            return None
        whole: PrimExpr | None = None
        seen: set[Any] = set()
        for condition in checks.tiles.values():
            key = self.ana.key(condition)
            if key not in seen:
                seen.add(key)
                whole = condition if whole is None else And(whole, condition)
        assert whole is not None
        whole = self.ana.simplify(convert(whole))
        # The visit handles checks that depend on loops further inside.
        fast = self.visit(_Unchecked({id(c) for c in checks.tiles}).visit(body))
        if not isinstance(whole, (CmpExpr, And)):  # the literal True or False
            return fast if bool(whole) else None
        if any_node(fast, lambda n: isinstance(n, Min)):
            with self.assuming(whole, fast):
                fast = _Whole(self.ana).visit(fast)
        return IfThenElse(whole, fast, _Copy(self.left_values(whole)).visit(body), span=body.span)

    def left_values(self, whole: PrimExpr) -> dict[Any, Any]:
        """The variables that have a single value where a tile is not whole, such as the loop over
        tiles of which only the last one has checks: there they are decided when compiling."""
        left: dict[Any, Any] = {}
        with self.assuming(whole, NO_OP, holds=False):
            for var in vars_in(whole):
                bound = self.ana.const_int_bound(var)
                if bound.min_value == bound.max_value:
                    left[var] = const(bound.min_value, var.dtype)
        return left


class LoopPartition(PrimFuncPass):
    """Runs interior tiles without boundary checks."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        options = ctx.option("tir.LoopPartition") or {}
        if options.get("partition_const_loop", True) or not _constant_loops(func):
            worker = _Partition()
            bind_function(worker.ana, func)
            func = func.replace(body=worker.visit(func.body))
        return split_ranges(func, options)
