"""`InstrumentProfileIntrinsics`: puts calls of a profiler around loops and functions.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4, 8), "float32")):
    +     T.start_profile_intrinsic(0)
          for i in range(4):
    +         T.start_profile_intrinsic(2)
              for j, k in T.grid(8, 1):
                  A[i, j] = T.float32(0)
    +         T.end_profile_intrinsic(2)
    +         T.start_profile_intrinsic(4)
              for j, k in T.grid(8, 1):
                  A[i, j] = A[i, j] + T.float32(1)
    +         T.end_profile_intrinsic(4)
    +     T.end_profile_intrinsic(0)

A loop's number is its place in the text; that of the function comes before them (the option
`tir.lwp_disable_func_prof` leaves out its calls). The numbers of a function begin where the last one's
end, or at 0 with `tir.reset_start_id`. Loops with fewer than `tir.lwp_min_height`
(1) levels of loops inside are left alone, and so are the bodies of parallel loops. Of the others,
those that are adjacent to another loop have calls; without `tir.instr_siblings`, all down to the
depth `tir.lwp_max_depth` (0: any). The calls are for a target whose code generator knows the two
intrinsics. The default pipeline runs it with `tir.instrument_lwp`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from ...ir.transform import IRModule, PassContext
from ...tir.op_target import end_profile_intrinsic, start_profile_intrinsic
from ...tir.stmt import Evaluate, For, ForKind, SeqStmt, Stmt, seq
from ...tir.stmt_functor import ExprKeeper
from ...tir.transform.base import PrimFuncPass, StmtRewriter


def _profiled(number: int, stmt: Stmt) -> Stmt:
    calls = start_profile_intrinsic(number), end_profile_intrinsic(number)
    return seq(Evaluate(calls[0]), stmt, Evaluate(calls[1]))


class _Instrument(ExprKeeper, StmtRewriter):
    """is_profiled(depth, height, has siblings): whether a loop has calls."""

    def __init__(self, numbers: Any, is_profiled: Callable[[int, int, bool], bool]) -> None:
        self.numbers, self.is_profiled = numbers, is_profiled
        self.depth = self.height = 0
        self.siblings = self.parallel = False

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        among = sum(isinstance(stmt, For) for stmt in node.seq) > 1
        height, done = 0, []
        for stmt in node.seq:
            self.siblings, self.height = among, 0
            done.append(self.visit(stmt))
            height = max(height, self.height)
        self.height = height
        return seq(*done)

    def visit_For(self, node: For) -> Stmt:
        number, siblings, parallel = next(self.numbers), self.siblings, self.parallel
        self.siblings, self.height = False, 0
        self.parallel |= node.kind == ForKind.PARALLEL
        self.depth += 1
        new = node.replace(body=self.visit(node.body))
        profiled = not parallel and self.is_profiled(self.depth, self.height, siblings)
        self.depth -= 1
        self.height, self.parallel = self.height + 1, parallel
        return _profiled(number, new) if profiled else new


class InstrumentProfileIntrinsics(PrimFuncPass):
    """Puts calls of a profiler around loops and functions."""

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        least = ctx.option("tir.lwp_min_height")
        most, siblings = ctx.option("tir.lwp_max_depth"), ctx.option("tir.instr_siblings")

        def is_profiled(depth: int, height: int, has_siblings: bool) -> bool:
            return height >= least and (has_siblings if siblings else not most or depth <= most)

        numbers, changed = count(), {}
        for gvar, func in mod.functions.items():
            if self.takes(func):
                numbers = count() if ctx.option("tir.reset_start_id") else numbers
                first = next(numbers)
                body = _Instrument(numbers, is_profiled).visit(func.body)
                alone = ctx.option("tir.lwp_disable_func_prof")
                changed[gvar] = func.replace(body=body if alone else _profiled(first, body))
        return mod.with_functions(changed)
