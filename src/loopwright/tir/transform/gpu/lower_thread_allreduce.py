"""`LowerThreadAllreduce`: lowers a reduction over the threads of a block to a tree in shared
memory, which halves the number of active threads in each step.

Before (-) and after (+)::

      @T.prim_func
      def main(A: T.Buffer((4,), "float32"), B: T.Buffer((1,), "float32")):
          tx = T.launch_thread("threadIdx.x", 4)
          r = T.allocate([1], "float32", "local")
          R = T.Buffer((1,), data=r, scope="local")
    -     with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
    -         T.tvm_thread_allreduce(T.uint32(1), A[tx], T.bool(True), R[0], tx)
    +     with T.allocate([4], "float32", "shared") as red:
    +         red_1 = T.Buffer((4,), data=red, scope="shared")
    +         red_1[tx] = A[tx]
    +         T.tvm_storage_sync("shared")
    +         if tx < 2:
    +             red_1[tx] = red_1[tx] + red_1[tx + 2]
    +         T.tvm_storage_sync("shared")
    +         if tx < 1:
    +             red_1[tx] = red_1[tx] + red_1[tx + 1]
    +         T.tvm_storage_sync("shared")
    +         R[0] = red_1[0]
    +         T.tvm_storage_sync("shared")
          B[0] = R[0]

Threads along other axes of the block form groups, each reduced separately. A number of threads that
is not a power of two is first reduced to one. All threads of the block must reach this point.

For a target with warps, values of 32 to 64 bits are reduced by shuffles within a warp, and the results of
several warps by the first of them (`_warp_reduction`); then the result is in shared memory, which takes
the place of the buffer given for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from ....base.errors import explain
from ....ir.literals import int_value, is_true
from ....ir.prim_expr import LT, Call, IntImm, IterVar, PrimExpr, Select, Var
from ....ir.prim_op import add, cast, const, multiply
from ...buffer import Buffer, decl_buffer
from ...expr import BufferLoad, CommReducer
from ...function import PrimFunc
from ...op import is_call_to
from ...stmt import Allocate, AttrStmt, BufferStore, DeclBuffer, Evaluate, IfThenElse, Stmt, seq
from ..base import PrimFuncPass, StmtRewriter
from ._warp_reduction import Threads, WarpReduction, Warps, barrier, combined, int32

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext


class _Lower(StmtRewriter):
    def __init__(self, warps: Warps | None) -> None:
        self.warps = warps
        self.threads: dict[Var, int] = {}  # the enclosing threadIdx axes, outermost first
        self.tags: dict[Var, str] = {}
        self.allocated: set[Var] = set()
        self.shared: dict[
            Var, tuple[Buffer, PrimExpr]
        ] = {}  # memory -> what takes its place, where

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        load = self.visit_default(node)
        source = self.shared.get(load.buffer.data)
        return load if source is None else BufferLoad(source[0], [source[1]], span=node.span)

    def visit_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        declaration = self.visit_default(node)
        source = self.shared.get(node.buffer.data)
        return declaration if source is None else declaration.replace(buffer=source[0])

    def visit_Allocate(self, node: Allocate) -> Stmt:
        self.allocated.add(node.buffer_var)
        allocation = self.visit_default(node)
        self.allocated.discard(node.buffer_var)
        source = self.shared.pop(node.buffer_var, None)
        if source is None:
            return allocation
        buffer, body = source[0], allocation.body
        body = AttrStmt(buffer.data, "volatile_scope", int32(1), body)
        return allocation.replace(
            buffer_var=buffer.data, dtype=buffer.dtype, extents=buffer.shape, body=body
        )

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            if node.node.thread_tag.startswith("threadIdx"):
                return self.launched(node)
        if node.attr_key == "reduce_scope" and isinstance(node.node, CommReducer):
            call: Any = node.body.value if isinstance(node.body, Evaluate) else None
            if is_call_to(call, "tvm_thread_allreduce"):
                return self.reduced(node, self.visit_default(call))
        return node.replace(body=self.visit(node.body))

    def launched(self, node: AttrStmt) -> Stmt:
        var = node.node.var
        if var in self.threads:
            return self.visit_default(node)
        if not isinstance(node.value, IntImm):
            return self.visit_default(node)
        self.threads[var] = node.value.value
        self.tags[var] = node.node.thread_tag
        new = self.visit_default(node)
        del self.threads[var]
        return new

    def reduced(self, node: AttrStmt, call: Call) -> Stmt:
        reducer, span = node.node, node.span
        count = call.args[0].value
        values = call.args[1 : count + 1]
        condition = call.args[count + 1]
        results = call.args[count + 2 : 2 * count + 2]
        along = [v for v in call.args[2 * count + 2 :] if isinstance(v, Var)]
        unknown = [v.name for v in along if v not in self.threads]
        if unknown:
            what = "an allreduce runs along threads of constant extent that are launched around it"
            hint = "launch threadIdx with a number of threads"
            raise ValueError(explain(what, got=unknown[0], instead=hint, span=span))
        if not is_true(condition):
            pairs = zip(values, reducer.identity_element, strict=True)
            values = tuple(Select(condition, v, e) for v, e in pairs)
        threads = self.in_a_row(along)
        if self.warps is not None and self.warps.fit(threads, values):
            body = self.shuffled(self.warps, reducer, threads, values, results)
            return node.replace(body=body)
        at, size = self.flat(along)
        if size == 1:
            return seq(*(_store(r, v) for r, v in zip(results, values, strict=True)))
        group, groups = self.flat([v for v in self.threads if v not in along])
        first = multiply(group, int32(size))
        slot = add(first, at)
        shared = [
            decl_buffer((size * groups,), v.dtype, f"red{k or ''}", scope="shared")
            for k, v in enumerate(values)
        ]
        steps: list[Stmt] = [
            *(BufferStore(b, v, [slot]) for b, v in zip(shared, values, strict=True)),
            barrier(),
        ]
        half = 1 << (size.bit_length() - 1)
        if half < size:
            steps += self.combined(reducer, shared, slot, at, half, size - half)
        while half > 1:
            half //= 2
            steps += self.combined(reducer, shared, slot, at, half, half)
        steps += [_store(r, BufferLoad(b, [first])) for r, b in zip(results, shared, strict=True)]
        body = seq(*steps, barrier())
        for buffer in reversed(shared):
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), body, span=span)
        return body

    def shuffled(
        self,
        warps: Warps,
        reducer: CommReducer,
        threads: Threads,
        values: tuple[PrimExpr, ...],
        results: Sequence[BufferLoad],
    ) -> Stmt:
        """The reduction by shuffles; where warps share the result, its buffers are replaced."""
        work = WarpReduction(warps, reducer, threads)
        if threads.size <= warps.size and all(map(_is_own, results)):
            work.in_warp(values, [r.buffer for r in results])
            return work.around()
        if threads.size <= warps.size:
            buffers = work.local(values, "red_buf")
            work.in_warp(values, buffers)
            work.buffers += buffers
            slot = int32(0)
        else:
            buffers = [
                decl_buffer((threads.groups,), v.dtype, "red_result", scope="shared")
                for v in values
            ]
            slot = threads.group
            work.across_warps(values, buffers)
            if all(r.buffer.data in self.allocated and _is_own(r) for r in results):
                for result, buffer in zip(results, buffers, strict=True):
                    self.shared[result.buffer.data] = (buffer, slot)
                return work.around()
            work.buffers += buffers
        stores = (_store(r, BufferLoad(b, [slot])) for r, b in zip(results, buffers, strict=True))
        work.stmts += [*stores, *([] if threads.size <= warps.size else [barrier()])]
        return work.around()

    def in_a_row(self, along: list[Var]) -> Threads:
        """The threads along some axes, by their numbers: x changes fastest."""
        axes = sorted((v for v, n in self.threads.items() if n > 1), key=lambda v: self.tags[v])
        row = 1
        for var in takewhile(lambda v: v in along, axes):
            row *= self.threads[var]
        inner = self.numbers([v for v in axes if v in along])
        return Threads(*inner, *self.numbers([v for v in axes if v not in along]), row)

    def numbers(self, axes: list[Var]) -> tuple[PrimExpr, int]:
        """(index of a thread among those along some axes, their number)"""
        index, size = int32(0), 1
        for var in axes:
            index = add(index, multiply(cast("int32", var), int32(size)))
            size *= self.threads[var]
        return index, size

    def flat(self, axes: list[Var]) -> tuple[PrimExpr, int]:
        """(index of a thread among those along some axes, their number)"""
        index: PrimExpr = int32(0)
        size = 1
        for var, extent in self.threads.items():
            if var in axes:
                index = add(multiply(index, int32(extent)), cast("int32", var))
                size *= extent
        return index, size

    def combined(
        self,
        reducer: CommReducer,
        shared: list[Buffer],
        slot: PrimExpr,
        at: PrimExpr,
        step: int,
        below: int,
    ) -> list[Stmt]:
        """The first threads combine their values with those `step` further."""
        other = add(slot, int32(step))
        left = [BufferLoad(b, [slot]) for b in shared]
        right = [BufferLoad(b, [other]) for b in shared]
        body = combined(reducer, shared, left, right, slot)
        return [IfThenElse(LT(at, int32(below)), body), barrier()]


def _is_own(result: BufferLoad) -> bool:
    """Whether a result is the only element of a thread's memory."""
    buffer = result.buffer
    return buffer.scope() == "local" and all(int_value(e) == 1 for e in buffer.shape)


def _store(result: BufferLoad, value: PrimExpr) -> Stmt:
    return BufferStore(result.buffer, value, result.indices)


class LowerThreadAllreduce(PrimFuncPass):
    """Lowers a reduction over the threads of a block to a tree in shared memory, which halves the
    number of active threads in each step."""

    def run_function(
        self, func: PrimFunc, mod: IRModule | None, ctx: PassContext | None
    ) -> PrimFunc:
        lower = _Lower(Warps.of(func.attrs.get("target")))
        return func.replace(body=lower.visit(func.body))
