"""`InjectSoftwarePipeline`: overlaps stages of different iterations of a loop.

Before::

    @T.prim_func
    def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        for i in T.serial(8, annotations={"software_pipeline_stage": [0, 1], "software_pipeline_order": [0, 1]}):
            with T.block():
                T.reads()
                T.writes()
                B = T.alloc_buffer((4,))
                for j in range(4):
                    B[j] = A[i, j]
                for j in range(4):
                    C[i, j] = B[j] + T.float32(1)

After::

    @T.prim_func
    def main(A: T.Buffer((8, 4), "float32"), C: T.Buffer((8, 4), "float32")):
        with T.block("root"):
            T.reads()
            T.writes()
            with T.block(""):
                T.reads(A[0:8, 0:4])
                T.writes(C[0:8, 0:4])
                B = T.alloc_buffer((2, 4))
                with T.block(""):
                    T.reads(A[0, 0:4])
                    T.writes(B[0, 0:4])
                    for j in range(4):
                        B[0, j] = A[0, j]
                with T.block(""):
                    T.reads(A[1:8, 0:4], B[0:2, 0:4])
                    T.writes(B[0:2, 0:4], C[0:7, 0:4])
                    for i in range(7):
                        with T.block(""):
                            T.where(i + 1 < 8)
                            T.reads(A[i + 1, 0:4])
                            T.writes(B[(i + 1) % 2, 0:4])
                            for j in range(4):
                                B[(i + 1) % 2, j] = A[i + 1, j]
                        with T.block(""):
                            T.where(i + 1 - 1 < 8)
                            T.reads(B[(i - 1 + 1) % 2, 0:4])
                            T.writes(C[i - 1 + 1, 0:4])
                            for j in range(4):
                                C[i - 1 + 1, j] = B[(i - 1 + 1) % 2, j] + T.float32(1)
                with T.block(""):
                    T.reads(B[1, 0:4])
                    T.writes(C[7, 0:4])
                    for j in range(4):
                        C[7, j] = B[1, j] + T.float32(1)

Statement n of the body runs in stage `software_pipeline_stage[n]`: in step t of the loop, for
iteration t - stage. Within a step they run by `software_pipeline_order`. The statements of a block
in the body without axes and predicate count, not the block: so do the three parts of a pipeline in
it. Buffers of the body's block that are written in one stage and read in a later one get one copy
per iteration in flight. Stages of `software_pipeline_async_stages` are marked for asynchronous
copies. A pipeline that would run a statement before its inputs is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NoReturn

from ....arith import Analyzer
from ....base.errors import explain
from ....ir.functor import post_order_visit
from ....ir.literals import TRUE, int_value, is_one
from ....ir.prim_expr import Call, Not, PrimExpr, Range, Var
from ....ir.prim_op import add, const, floormod, logical_and, multiply, subtract
from ...analysis.access import get_block_read_write_region
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...function import PrimFunc
from ...op import if_then_else, is_call_to
from ...stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    SeqStmt,
    Stmt,
    seq,
    stmt_list,
)
from ...stmt_functor import renew_defs
from ..base import PrimFuncPass, StmtRewriter, Substitute

if TYPE_CHECKING:
    from ....ir.module import IRModule
    from ....ir.pass_context import PassContext

_STAGE, _ORDER, _ASYNC = (f"software_pipeline_{s}" for s in ("stage", "order", "async_stages"))


@dataclass(frozen=True)
class _Part:
    """A statement of the body as a block, its stage and order, and the regions that it accesses."""

    block: Block
    stage: int
    order: int
    reads: list[BufferRegion]
    writes: list[BufferRegion]


class _Versions(StmtRewriter):
    """Redirects accesses of multi-versioned buffers to the copy of one iteration. whole: regions have
    all copies."""

    def __init__(self, versions: dict[Buffer, Buffer], iteration: PrimExpr, whole: bool) -> None:
        self.versions, self.iteration, self.whole = versions, iteration, whole
        self.by_data = {old.data: old for old in versions}

    def slot(self, new: Buffer) -> PrimExpr:
        return floormod(self.iteration, new.shape[0])

    def moved(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        new = self.versions.get(node.buffer)
        return (
            node
            if new is None
            else node.replace(buffer=new, indices=(self.slot(new), *node.indices))
        )

    visit_BufferLoad = visit_BufferStore = moved

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        node = self.visit_default(node)
        new = self.versions.get(node.buffer)
        if new is None:
            return node
        low = const(0, new.shape[0].dtype) if self.whole else self.slot(new)
        extent = new.shape[0] if self.whole else const(1, low.dtype)
        return node.replace(buffer=new, region=(Range.from_min_extent(low, extent), *node.region))

    def visit_Call(self, node: Call) -> Any:
        node = self.visit_default(node)
        old = self.by_data.get(node.args[1]) if is_call_to(node, "tvm_access_ptr") else None
        if old is None:
            return node
        new, size = self.versions[old], const(1, "int32")
        for extent in old.shape:
            size = multiply(size, extent)
        step = new.strides[0] if new.strides else size
        offset = add(node.args[2], multiply(self.slot(new), step))
        return node.replace(args=(*node.args[:2], offset, *node.args[3:]))


@dataclass
class _Issued:
    """The asynchronous operations of a stage in one step."""

    groups: list[list[int]] = field(default_factory=list)  # statements that are committed together
    group_of: dict[Buffer, int] = field(default_factory=dict)
    seen: set[Buffer] = field(default_factory=set)  # written so far
    head: PrimExpr | None = None  # the iteration that is written
    predicate: PrimExpr | None = None
    consumed: bool = False
    wait: tuple[int, PrimExpr] | None = (
        None  # the statement that waits, and how many stay in flight
    )


@dataclass
class _Row:
    """A statement in a step: it runs for iteration `at` where `predicate` holds."""

    part: _Part
    predicate: PrimExpr
    block: Block
    at: PrimExpr


class _Pipeline:
    """Writes the steps of one loop."""

    def __init__(self, loop: For, buffers: dict[Var, Buffer]) -> None:
        self.loop, self.buffers = loop, buffers
        realize: Any = loop.body
        body, self.own = loop.body, list[Buffer]()
        if isinstance(realize, BlockRealize):
            block = realize.block
            if block.iter_vars or block.init is not None or not is_one(realize.predicate):
                got = "the body of the pipeline is a block with axes"
                _refuse(loop, got, "a sequence of statements")
            body, self.own = block.body, [*block.alloc_buffers]
        self.parts = self.split(body)
        self.ordered = sorted(self.parts, key=lambda p: p.order)
        self.deepest = max(p.stage for p in self.parts)
        self.in_background = {int_value(v) for v in loop.annotations.get(_ASYNC, ())}
        self.written: dict[int, set[Buffer]] = {}  # asynchronously, by stage
        # The last iteration that a stage has written, while that is known.
        self.heads: dict[int, PrimExpr | None] = {}

    def split(self, body: Stmt) -> list[_Part]:
        stmts = []
        for stmt in stmt_list(body):
            block = _plain(stmt)
            if block is None or not isinstance(block.body, SeqStmt) or block.match_buffers:
                stmts.append(stmt)
                continue
            self.own += block.alloc_buffers
            stmts += stmt_list(block.body)
        loop, count = self.loop, len(stmts)
        stages, orders = _numbers(loop, _STAGE, count), _numbers(loop, _ORDER, count)
        if len(set(orders)) != len(orders):
            _refuse(loop, f"{_ORDER} {orders}", "each number once")
        blocks = [self.block(stmt) for stmt in stmts]
        parts = []
        for block, stage, order in zip(blocks, stages, orders, strict=True):
            reads, writes = get_block_read_write_region(
                block, self.buffers
            )  # not only declared ones
            reads, writes = [*block.reads, *reads], [*block.writes, *writes]
            parts.append(_Part(block, stage, order, reads, writes))
        return parts

    def block(self, stmt: Stmt, own: Sequence[Buffer] = ()) -> Block:
        """A statement as a block."""
        block = _plain(stmt)
        if block is not None:
            return block
        block = Block((), (), (), "", stmt, alloc_buffers=tuple(own))
        reads, writes = get_block_read_write_region(block, self.buffers)
        return block.replace(reads=tuple(reads), writes=tuple(writes))

    def rewritten(self) -> Stmt:
        """The prologue, the steady state and the epilogue."""
        counts = self.copies()
        self.versions = {b: _copies(b, n) for b, n in counts.items()}
        self.buffers |= {new.data: new for new in self.versions.values()}
        low, extent, deepest = self.loop.min, self.loop.extent, self.deepest
        full, end, last = add(low, deepest), add(low, extent), add(low, add(extent, deepest))
        # Where there are fewer iterations than stages, the epilogue begins after the prologue.
        longer = deepest < 2 or Analyzer().can_prove(extent >= deepest)
        shorter = int_value(extent) is not None and not longer
        at_least = None if longer or shorter else full
        steps = [
            self.steps(low, full, ForKind.UNROLLED),
            self.steps(full, end, self.loop.kind),
            self.steps(full if shorter else end, last, ForKind.UNROLLED, at_least),
        ]
        block = self.block(SeqStmt(steps), [self.versions.get(b, b) for b in self.own])
        return BlockRealize([], TRUE, block, span=self.loop.span)

    def copies(self) -> dict[Buffer, int]:
        """How many iterations' copies each buffer of the body needs, where more than one."""
        counts: dict[Buffer, int] = {}
        for n, early in enumerate(self.parts):
            for late in self.parts[n + 1 :]:
                writes, rewrites = _buffers(early.writes), _buffers(late.writes)
                shared = writes & (_buffers(late.reads) | rewrites)
                shared |= _buffers(early.reads) & rewrites
                if not shared:
                    continue
                names = ", ".join(sorted(b.name for b in shared))
                if (late.stage, late.order) < (early.stage, early.order):
                    got = f"{names} is used before it is made"
                    _refuse(self.loop, got, "a later stage or order")
                apart = late.stage - early.stage
                foreign = sorted(b.name for b in shared.difference(self.own))
                if apart and foreign:
                    got = f"{', '.join(foreign)} is shared between stages and lives outside of the loop"
                    hint = "allocate it in the block that is the loop's body"
                    _refuse(self.loop, got, hint)
                for buffer in shared:
                    # The next iteration may write before this one reads, elsewhere or afterwards.
                    alone = apart == 1 and (early.order > late.order or _apart(buffer, early, late))
                    counts[buffer] = max(counts.get(buffer, 1), 1 if alone else apart + 1)
        for buffer in _doubled(self.loop.body) & set(self.own):
            counts[buffer] = max(counts.get(buffer, 1), 2)
        return {b: n for b, n in counts.items() if n > 1}

    def steps(
        self, low: PrimExpr, high: PrimExpr, kind: ForKind, at_least: PrimExpr | None = None
    ) -> Stmt:
        """The steps from `low` to `high`, as a loop from the start of the pipeline's loop."""
        # Facts that hold in an iteration hold in these steps only.
        loop, ana = self.loop, Analyzer()
        extent, delta = ana.simplify(subtract(high, low)), subtract(low, loop.min)
        single = is_one(extent)
        step: Any = low if single else loop.loop_var.copy_with_suffix("")
        normal = Analyzer()  # of the loop that is written
        if not single:
            ana.bind(step, Range(low, high))
            normal.bind(step, Range.from_min_extent(loop.min, extent))
        rows: list[_Row] = []
        issued: dict[int, _Issued] = {}
        for part in self.ordered if not ana.can_prove(extent <= 0) else ():
            skewed = subtract(step, part.stage)
            runs = logical_and(
                ana.simplify(loop.min <= skewed), skewed < add(loop.min, loop.extent)
            )
            if at_least is not None:
                runs = logical_and(runs, step >= at_least)
            if ana.can_prove(Not(runs)):
                continue
            at = skewed if single else add(skewed, delta)
            if not single:
                runs = Substitute({step: add(step, delta)}).visit(runs)
            iteration = subtract(loop.loop_var, loop.min)
            block = _Versions(self.versions, iteration, self.deepest != 1).visit(
                renew_defs(part.block)
            )
            row = _Row(part, runs, Substitute({loop.loop_var: at}).visit(block), at)
            for stage in self.sources(row):
                issued.setdefault(stage, _Issued()).consumed = True
            if part.stage in self.in_background:
                self.issue(issued.setdefault(part.stage, _Issued()), len(rows), row, normal)
            rows.append(row)
        body = self.committed(rows, self.waiting(rows, issued, ana, normal), normal)
        for stage, state in issued.items():
            head = self.heads.get(stage, const(-1, step.dtype))
            sure = state.predicate is not None and normal.can_prove(state.predicate)
            self.heads[stage] = add(head, extent) if sure and head is not None else None
        stmt = seq(*body) if body else Evaluate(const(0, "int32"))
        if not single and body:
            own = (_STAGE, _ORDER, _ASYNC)
            notes = {k: v for k, v in loop.annotations.items() if k not in own}
            stmt = For(step, loop.min, extent, kind, stmt, annotations=notes, span=loop.span)
        return BlockRealize([], TRUE, self.block(stmt), span=loop.span)

    # -- stages that run in the background -----------------------------------------------------

    def sources(self, row: _Row) -> list[int]:
        """The stages that write buffers in the background which a statement reads."""
        reads = _buffers(row.block.reads)
        return [s for s, b in self.written.items() if s <= row.part.stage and b & reads]

    def issue(self, state: _Issued, number: int, row: _Row, normal: Analyzer) -> None:
        """Mark a statement, which joins the group before it unless its stage was waited for since."""
        if not state.groups or state.consumed:
            state.groups.append([])
        state.groups[-1].append(number)
        writes = _buffers(row.block.writes)
        self.written.setdefault(row.part.stage, set()).update(writes)
        state.group_of.update(dict.fromkeys(writes, len(state.groups) - 1))
        state.head = row.at
        if state.predicate is None or normal.can_prove(state.predicate):
            state.predicate = row.predicate
        else:
            state.predicate = normal.simplify(logical_and(state.predicate, row.predicate))
        row.block = row.block.replace(body=_attr("async_scope", 1, row.block.body))

    def waiting(
        self, rows: Sequence[_Row], issued: dict[int, _Issued], ana: Analyzer, normal: Analyzer
    ) -> dict[int, _Issued]:
        """Find, for each stage, the first statement that waits, and for how many operations at most in
        flight."""
        for number, row in enumerate(rows):
            if row.part.stage in self.in_background:
                issued[row.part.stage].seen.update(_buffers(row.block.writes))
            sources = self.sources(row)
            if len(sources) > 1:
                got = "a statement reads what several stages write in the background"
                _refuse(self.loop, got, f"one stage in {_ASYNC}")
            for stage in sources:
                state = issued[stage]
                count: PrimExpr = const(0, "int32")
                for head in self.heads_read(row, stage, state):
                    if head is None or not normal.can_prove(head >= 0):
                        count = const(0, "int32")
                        break
                    count = add(count, ana.simplify(subtract(head, row.at)))
                if state.wait is None:
                    state.wait = (number, count)
                elif ana.can_prove(count < state.wait[1]):
                    state.wait = (state.wait[0], count)
        return issued

    def heads_read(self, row: _Row, stage: int, state: _Issued) -> list[PrimExpr | None]:
        """For each group that a statement reads of, the last iteration that has been issued."""
        if not state.groups:
            return [self.heads.get(stage, const(-1, row.at.dtype))]
        heads: dict[int, PrimExpr | None] = {}
        for buffer in (r.buffer for r in row.block.reads):
            group = state.group_of.get(buffer)
            if group is not None and group not in heads and state.head is not None:
                heads[group] = state.head if buffer in state.seen else subtract(state.head, 1)
        return list(heads.values())

    def committed(
        self, rows: list[_Row], issued: dict[int, _Issued], normal: Analyzer
    ) -> list[Stmt]:
        """The statements of a step, with waits, and those of a group in one block."""
        group_of: dict[int, tuple[int, int]] = {}
        for stage, state in sorted(issued.items()):
            group_of |= {n: (stage, k) for k, group in enumerate(state.groups) for n in group}
            if state.wait is None:
                continue
            number, count = state.wait
            if state.predicate is not None and not normal.can_prove(state.predicate):
                count = if_then_else(state.predicate, count, 0)
            block = rows[number].block
            body = _attr("async_wait_inflight_count", count, block.body)
            rows[number].block = block.replace(body=_attr("async_wait_queue_scope", stage, body))
        stmts: list[Stmt] = []
        left = list(enumerate(rows))
        while left:
            number, row = left.pop(0)
            block, key = row.block, group_of.get(number)
            if key is not None:
                bodies = [block.body]
                while left and group_of.get(left[0][0]) == key:
                    bodies.append(left.pop(0)[1].block.body)
                block = self.block(_attr("async_commit_queue_scope", key[0], seq(*bodies)))
            stmts.append(BlockRealize([], row.predicate, block))
        return stmts


def _attr(key: str, value: PrimExpr | int, body: Stmt) -> Stmt:
    return AttrStmt(const(0, "int32"), key, value, body)


def _plain(stmt: Stmt) -> Block | None:
    """The block of a statement that is one, without axes, init and predicate."""
    if not isinstance(stmt, BlockRealize) or not is_one(stmt.predicate):
        return None
    return None if stmt.block.iter_vars or stmt.block.init is not None else stmt.block


def _apart(buffer: Buffer, a: _Part, b: _Part) -> bool:
    """Whether two statements access other elements of a buffer."""
    proven = Analyzer().can_prove
    first, second = ([r for r in (*p.reads, *p.writes) if r.buffer is buffer] for p in (a, b))
    return all(
        any(
            proven(p.min + p.extent <= q.min) or proven(q.min + q.extent <= p.min)
            for p, q in zip(one.region, other.region, strict=True)
        )
        for one, other in product(first, second)
    )


def _buffers(regions: Iterable[BufferRegion]) -> set[Buffer]:
    return {region.buffer for region in regions}


def _doubled(body: Stmt) -> set[Buffer]:
    """The buffers that blocks annotated with `double_buffer_scope` write."""
    buffers: set[Buffer] = set()

    def look(node: Any) -> None:
        if isinstance(node, Block) and "double_buffer_scope" in node.annotations:
            index = int_value(node.annotations["double_buffer_scope"])
            buffers.add(node.writes[index or 0].buffer)

    post_order_visit(body, look)
    return buffers


def _copies(buffer: Buffer, count: int) -> Buffer:
    """`count` buffers, contiguous in one."""
    shape, strides = buffer.shape, buffer.strides
    return buffer.replace(
        shape=(const(count, shape[0].dtype if shape else "int32"), *shape),
        strides=(multiply(strides[0], shape[0]), *strides) if strides else (),
        axis_separators=tuple(axis + 1 for axis in buffer.axis_separators),
    )


def _refuse(loop: For, got: str, hint: str) -> NoReturn:
    name = loop.loop_var.name
    what = f"loop {name} cannot be a software pipeline"
    raise ValueError(explain(what, got=got, instead=hint, span=loop.span))


def _numbers(loop: For, key: str, count: int) -> list[int]:
    listed = [int_value(v) for v in loop.annotations.get(key, ())]
    numbers = [v for v in listed if v is not None and v >= 0]
    if len(numbers) != count or len(listed) != count:
        _refuse(loop, f"{key} {listed} for {count} statements", "a number for each statement")
    return numbers


class _Inject(StmtRewriter):
    def __init__(self, buffers: dict[Var, Buffer]) -> None:
        self.buffers = buffers

    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        return node

    def visit_Block(self, node: Block) -> Any:
        self.buffers |= {b.data: b for b in node.alloc_buffers}
        self.buffers |= {m.buffer.data: m.buffer for m in node.match_buffers}
        return self.visit_default(node)

    def visit_For(self, node: For) -> Stmt:
        node = node.replace(body=self.visit(node.body))
        if _STAGE not in node.annotations:
            return node
        return _Pipeline(node, self.buffers).rewritten()


class InjectSoftwarePipeline(PrimFuncPass):
    """Overlaps stages of different iterations of a loop. Runs before `LowerOpaqueBlock`."""

    def run_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        buffers = {buffer.data: buffer for buffer in func.buffers}
        return func.replace(body=_Inject(buffers).visit(func.body))
