"""`LowerCrossThreadReduction`: splits a reduction along threads into one within each thread
and one across threads.

Before::

    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            for ko in range(4):
                for ki in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("B"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(32, ko * 8 + ki)
                        T.reads(A[vi, vk])
                        T.writes(B[vi])
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]

After::

    @T.prim_func
    def main(A: T.Buffer((8, 32), "float32"), B: T.Buffer((8,), "float32")):
        cross_thread_B = T.alloc_buffer((1,), strides=(1,), scope="local")
        in_thread_B = T.alloc_buffer((1,), strides=(1,), scope="local")
        for i in range(8):
            for ki in T.thread_binding(8, thread="threadIdx.x"):
                with T.block("B_in_thread_init"):
                    T.reads()
                    T.writes(in_thread_B[0])
                    in_thread_B[0] = T.float32(0)
                for ko in range(4):
                    with T.block("B_in_thread"):
                        vi = T.axis.spatial(8, i)
                        vk = T.axis.reduce(32, ko * 8 + ki)
                        T.reads(A[vi, vk])
                        T.writes(in_thread_B[0])
                        in_thread_B[0] = in_thread_B[0] + A[vi, vk]
                with T.block("B_cross_thread"):
                    T.reads(in_thread_B[0])
                    T.writes(cross_thread_B[0])
                    with T.attr(T.comm_reducer(lambda x0, y0: x0 + y0, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))):
                        T.tvm_thread_allreduce(T.uint32(1), in_thread_B[0], T.bool(True), cross_thread_B[0], ki)
                with T.block("B_write_back"):
                    vi = T.axis.spatial(8, i)
                    T.where(ki == 0)
                    T.reads(cross_thread_B[0])
                    T.writes(B[vi])
                    B[vi] = cross_thread_B[0]

Where each thread has one element, it is combined as it is.
The first threads along every axis write the result; if it is in "local" memory, all threads do.
`LowerThreadAllreduce` lowers the reduction across threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....arith import Analyzer
from ....base.errors import explain
from ....ir.literals import conjuncts, is_true
from ....ir.prim_expr import EQ, Call, IntImm, IterVar, PrimExpr, Range
from ....ir.prim_op import const, logical_and
from ....ir.variables import uses_any
from ...buffer import Buffer, BufferRegion, decl_buffer
from ...expr import BufferLoad, CommReducer
from ...op import reinterpret
from ...schedule.machinery.errors import ScheduleError
from ...schedule.machinery.reducers import Reducer, find_reducer
from ...stmt import AttrStmt, Block, BlockRealize, BufferStore, Evaluate, For, ForKind, Stmt, seq
from ...stmt_functor import ExprKeeper, substitute
from ..base import RewriterPass, StmtRewriter

_ZERO = const(0, "int32")


class _Lower(ExprKeeper, StmtRewriter):
    def __init__(self) -> None:
        self.ana = Analyzer()
        self.allocated: list[Buffer] = []  # for the block around

    def visit_Block(self, node: Block) -> Block:
        around, self.allocated = self.allocated, []
        node = self.visit_default(node)
        allocated, self.allocated = self.allocated, around
        return node.replace(alloc_buffers=(*node.alloc_buffers, *allocated)) if allocated else node

    def visit_For(self, node: For) -> Stmt:
        loops = [node]
        while isinstance(loops[-1].body, For):
            loops.append(loops[-1].body)
        realize = loops[-1].body
        if isinstance(realize, BlockRealize) and realize.block.init is not None:
            nest = self.nest(loops, realize)
            if nest is not None:
                return nest
        return self.visit_default(node)

    def nest(self, loops: list[For], realize: BlockRealize) -> Stmt | None:
        """The loops around a reduction block, if some of its reduction loops are bound to
        threads."""
        block: Block = realize.block
        pairs = list(zip(block.iter_vars, realize.iter_values, strict=True))
        summed = [v for axis, v in pairs if axis.iter_type == IterVar.CommReduce]
        along = [n for n in loops if any(uses_any(v, {n.loop_var}) for v in summed)]
        threads = [n for n in along if _is_thread(n)]
        tags = [
            n.thread_binding.thread_tag
            for n in along
            if n.thread_binding is not None and n not in threads
        ]
        if tags:
            what = f"block {block.name_hint!r} reduces over {tags[0]}"
            hint = 'bind its loop to "threadIdx.x", whose threads can wait for each other'
            raise ValueError(explain(what, instead=hint, span=block.span))
        if not threads:
            return None
        first = loops.index(along[0])
        inner = loops[first:]
        others = [n for n in inner if n not in along and not _is_thread(n)]
        shared = {n.loop_var for n in along}
        mixed = [a for a, v in pairs if a.iter_type != IterVar.CommReduce and uses_any(v, shared)]
        if others or mixed:
            what = f"block {block.name_hint!r} cannot be reduced across threads"
            got = (
                f"loop {others[0].loop_var.name} inside its reduction's loops"
                if others
                else f"axis {mixed[0].var.name} that depends on a loop of the reduction"
            )
            hint = "put the loops of the reduction innermost, and bind other axes to other loops"
            raise ValueError(explain(what, got=got, instead=hint, span=block.span))
        try:
            reducer = find_reducer(self.ana, realize)
        except ScheduleError as err:
            raise ValueError(str(err)) from None
        body = self.reduction(realize, reducer, along, threads)
        for loop in reversed([n for n in inner if _is_thread(n)]):
            body = loop.replace(body=body)
        for loop in reversed(loops[:first]):
            body = loop.replace(body=body)
        return body

    def reduction(
        self, realize: BlockRealize, reducer: Reducer, along: list[For], threads: list[For]
    ) -> Stmt:
        block: Block = realize.block
        name = block.name_hint
        targets = [s.buffer for s in reducer.stores]
        whole = [_single(f"cross_thread_{b.name}", b) for b in targets]
        whole_own = [_region(b) for b in whole]
        self.allocated += whole
        reads = tuple(r for r in block.reads if r.buffer not in targets)
        if len(threads) == len(along) and is_true(realize.predicate):
            body = _allreduce(reducer, reducer.values, whole, threads)
            across = block.replace(
                name_hint=f"{name}_cross_thread",
                init=None,
                reads=reads,
                writes=whole_own,
                body=body,
            )
            back = self.write_back(realize, reducer, whole, whole_own, along, threads)
            return seq(realize.replace(block=across), back)
        partial = [_single(f"in_thread_{b.name}", b) for b in targets]
        own = [_region(b) for b in partial]
        self.allocated += partial
        init = _opaque(f"{name}_in_thread_init", (), own, reducer.start(partial, [_ZERO]), block)
        update = block.replace(
            name_hint=f"{name}_in_thread",
            init=None,
            reads=reads,
            writes=tuple(own),
            body=reducer.update(partial, [_ZERO], reducer.values),
        )
        within: Stmt = realize.replace(block=update)
        for loop in reversed([n for n in along if n not in threads]):
            within = loop.replace(body=within)
        sums = _allreduce(reducer, [BufferLoad(b, [_ZERO]) for b in partial], whole, threads)
        across = _opaque(f"{name}_cross_thread", own, whole_own, sums, block)
        back = self.write_back(realize, reducer, whole, whole_own, along, threads)
        return seq(init, within, across, back)

    def write_back(
        self,
        realize: BlockRealize,
        reducer: Reducer,
        whole: list[Buffer],
        regions: list[BufferRegion],
        along: list[For],
        threads: list[For],
    ) -> Stmt:
        """The first thread stores the result, under the conditions of the original store."""
        block: Block = realize.block
        pairs = zip(block.iter_vars, realize.iter_values, strict=True)
        spatial = [(a, v) for a, v in pairs if a.iter_type != IterVar.CommReduce]
        fresh = {a.var: a.var.copy_with_suffix("") for a, _ in spatial}
        axes = [IterVar(a.dom, fresh[a.var], a.iter_type, a.thread_tag) for a, _ in spatial]
        stores = [
            BufferStore(s.buffer, BufferLoad(b, [_ZERO]), [substitute(i, fresh) for i in s.indices])
            for s, b in zip(reducer.stores, whole, strict=True)
        ]
        writes = [
            BufferRegion(
                w.buffer,
                tuple(
                    Range.from_min_extent(substitute(r.min, fresh), substitute(r.extent, fresh))
                    for r in w.region
                ),
            )
            for w in block.writes
        ]
        summed = {n.loop_var for n in along}
        tests = [c for c in conjuncts(realize.predicate) if not uses_any(c, summed)]
        if any(b.scope() != "local" for b in (s.buffer for s in reducer.stores)):
            tests += [EQ(n.loop_var, n.min) for n in threads]
        predicate: PrimExpr = const(True)
        for test in tests:
            predicate = logical_and(predicate, test)
        stored = Block(axes, regions, writes, f"{block.name_hint}_write_back", seq(*stores))
        return BlockRealize([v for _, v in spatial], predicate, stored, span=block.span)


def _is_thread(loop: For) -> bool:
    bound = loop.thread_binding
    if loop.kind != ForKind.THREAD_BINDING or bound is None:
        return False
    return bound.thread_tag.startswith("threadIdx")


def _single(name: str, like: Buffer) -> Buffer:
    return decl_buffer((1,), like.dtype, name, strides=(1,), scope="local")


def _region(buffer: Buffer) -> BufferRegion:
    return BufferRegion(buffer, (Range.from_min_extent(_ZERO, const(1, "int32")),))


def _opaque(
    name: str,
    reads: Sequence[BufferRegion],
    writes: Sequence[BufferRegion],
    body: Stmt,
    like: Block,
) -> Stmt:
    block = Block([], reads, writes, name, body, span=like.span)
    return BlockRealize([], const(True), block, span=like.span)


def _allreduce(
    reducer: Reducer, values: list[PrimExpr], whole: list[Buffer], threads: list[For]
) -> Stmt:
    combiner = CommReducer(
        tuple(reducer.itself), tuple(reducer.other), tuple(reducer.results), tuple(reducer.inits)
    )
    args = [
        IntImm("uint32", len(values)),
        *values,
        const(True),
        *(BufferLoad(b, [_ZERO]) for b in whole),
        *(n.loop_var for n in threads),
    ]
    call = Call("handle", "tir.tvm_thread_allreduce", args)
    nothing = reinterpret("handle", IntImm("uint64", 0))
    return AttrStmt(combiner, "reduce_scope", nothing, Evaluate(call))


class LowerCrossThreadReduction(RewriterPass):
    """Splits a reduction along threads into one within each thread and one across threads."""

    rewriter = _Lower
