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
"""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....ir.literals import is_true
from ....ir.prim_expr import LT, Call, IntImm, IterVar, PrimExpr, Select, StringImm, Var
from ....ir.prim_op import add, cast, const, multiply
from ...buffer import Buffer, decl_buffer
from ...expr import BufferLoad, CommReducer
from ...op import is_call_to
from ...stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, seq
from .._base import RewriterPass, StmtRewriter, Substitute


class _Lower(StmtRewriter):
    def __init__(self) -> None:
        self.threads: dict[Var, int] = {}  # the enclosing threadIdx axes, outermost first

    def visit_PrimExpr(self, node: Any) -> Any:
        return node

    def visit_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent" and isinstance(node.node, IterVar):
            if node.node.thread_tag.startswith("threadIdx"):
                return self.launched(node)
        if node.attr_key == "reduce_scope" and isinstance(node.node, CommReducer):
            call: Any = node.body.value if isinstance(node.body, Evaluate) else None
            if is_call_to(call, "tvm_thread_allreduce"):
                return self.reduced(node.node, call, node.span)
        return self.visit_default(node)

    def launched(self, node: AttrStmt) -> Stmt:
        var = node.node.var
        if var in self.threads:
            return self.visit_default(node)
        if not isinstance(node.value, IntImm):
            return self.visit_default(node)
        self.threads[var] = node.value.value
        new = self.visit_default(node)
        del self.threads[var]
        return new

    def reduced(self, reducer: CommReducer, call: Call, span: Any) -> Stmt:
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
        at, size = self.flat(along)
        if size == 1:
            return seq(*(_store(r, v) for r, v in zip(results, values, strict=True)))
        group, groups = self.flat([v for v in self.threads if v not in along])
        first = multiply(group, const(size, "int32"))
        place = add(first, at)
        shared = [
            decl_buffer((size * groups,), v.dtype, f"red{k or ''}", scope="shared")
            for k, v in enumerate(values)
        ]
        steps: list[Stmt] = [
            *(BufferStore(b, v, [place]) for b, v in zip(shared, values, strict=True)),
            _sync(),
        ]
        half = 1 << (size.bit_length() - 1)
        if half < size:
            steps += self.combined(reducer, shared, place, at, half, size - half)
        while half > 1:
            half //= 2
            steps += self.combined(reducer, shared, place, at, half, half)
        steps += [_store(r, BufferLoad(b, [first])) for r, b in zip(results, shared, strict=True)]
        body = seq(*steps, _sync())
        for buffer in reversed(shared):
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), body, span=span)
        return body

    def flat(self, axes: list[Var]) -> tuple[PrimExpr, int]:
        """(index of a thread among those along some axes, their number)"""
        index: PrimExpr = const(0, "int32")
        size = 1
        for var, extent in self.threads.items():
            if var in axes:
                index = add(multiply(index, const(extent, "int32")), cast("int32", var))
                size *= extent
        return index, size

    def combined(
        self, reducer: CommReducer, shared: list[Buffer], place: Any, at: Any, step: int, below: int
    ) -> list[Stmt]:
        """The first threads combine their values with those `step` further."""
        other = add(place, const(step, "int32"))
        mine = {v: BufferLoad(b, [place]) for v, b in zip(reducer.lhs, shared, strict=True)}
        theirs = {v: BufferLoad(b, [other]) for v, b in zip(reducer.rhs, shared, strict=True)}
        results = [Substitute({**mine, **theirs}).visit(r) for r in reducer.result]
        body: Stmt
        if len(results) == 1:
            body = BufferStore(shared[0], results[0], [place])
        else:  # all are taken before the first is stored
            names = [Var(f"v{k}", r.dtype) for k, r in enumerate(results)]
            body = seq(*(BufferStore(b, v, [place]) for b, v in zip(shared, names, strict=True)))
            for name, result in reversed(list(zip(names, results, strict=True))):
                body = LetStmt(name, result, body)
        return [IfThenElse(LT(at, const(below, "int32")), body), _sync()]


def _store(result: Any, value: PrimExpr) -> Stmt:
    return BufferStore(result.buffer, value, result.indices)


def _sync() -> Stmt:
    return Evaluate(Call("int32", "tir.tvm_storage_sync", [StringImm("shared")]))


class LowerThreadAllreduce(RewriterPass):
    """See the file's docstring."""

    name = "tir.LowerThreadAllreduce"
    rewriter = _Lower


__all__ = ["LowerThreadAllreduce"]
