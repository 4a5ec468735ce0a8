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
                T.reads()
                T.writes()
                B = T.alloc_buffer((2, 4))
                for i in T.unroll(1):
                    for j in range(4):
                        B[i % 2, j] = A[i, j]
                for i in range(1, 8):
                    for j in range(4):
                        B[i % 2, j] = A[i, j]
                    for j in range(4):
                        C[i - 1, j] = B[(i - 1) % 2, j] + T.float32(1)
                for i in T.unroll(8, 9):
                    for j in range(4):
                        C[i - 1, j] = B[(i - 1) % 2, j] + T.float32(1)

Statement n of the body runs in stage `software_pipeline_stage[n]`: in step t of the loop, for
iteration t - stage. Within a step they run by `software_pipeline_order`. Buffers of the body's
block that are written in one stage and read in a later one get one copy per iteration in flight. A
pipeline that would run a statement before its inputs is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from ....base.errors import explain
from ....ir.literals import int_value
from ....ir.prim_expr import PrimExpr, Range
from ....ir.prim_op import add, const, floormod, multiply, subtract
from ...buffer import Buffer, BufferRegion
from ...expr import BufferLoad
from ...stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, seq, stmt_list
from ...stmt_functor import renew_defs
from ..base import RewriterPass, StmtRewriter, StmtVisitor, Substitute

_STAGE, _ORDER = "software_pipeline_stage", "software_pipeline_order"


class _Touched(StmtVisitor):
    def __init__(self) -> None:
        self.reads: set[Buffer] = set()
        self.writes: set[Buffer] = set()

    def visit_BufferLoad(self, node: BufferLoad) -> None:
        self.reads.add(node.buffer)
        self.visit_default(node)

    def visit_BufferStore(self, node: BufferStore) -> None:
        self.writes.add(node.buffer)
        self.visit_default(node)


@dataclass(frozen=True)
class _Part:
    """A statement of the body, its stage and order, and its accesses."""

    stmt: Stmt
    stage: int
    order: int
    reads: frozenset[Buffer]
    writes: frozenset[Buffer]


class _Versions(StmtRewriter):
    """Redirects accesses of multi-versioned buffers to the copy of one iteration."""

    def __init__(self, versions: dict[Buffer, tuple[Buffer, int]], iteration: PrimExpr) -> None:
        self.versions, self.iteration = versions, iteration

    def slot(self, count: int) -> PrimExpr:
        return floormod(self.iteration, count)

    def moved(self, node: BufferLoad | BufferStore) -> Any:
        node = self.visit_default(node)
        entry = self.versions.get(node.buffer)
        if entry is None:
            return node
        return node.replace(buffer=entry[0], indices=(self.slot(entry[1]), *node.indices))

    def visit_BufferLoad(self, node: BufferLoad) -> Any:
        return self.moved(node)

    def visit_BufferStore(self, node: BufferStore) -> Any:
        return self.moved(node)

    def visit_BufferRegion(self, node: BufferRegion) -> Any:
        node = self.visit_default(node)
        entry = self.versions.get(node.buffer)
        if entry is None:
            return node
        at = Range.from_min_extent(self.slot(entry[1]), const(1, self.iteration.dtype))
        return node.replace(buffer=entry[0], region=(at, *node.region))


class _Inject(StmtRewriter):
    def visit_PrimExpr(self, node: PrimExpr) -> Any:
        return node

    def visit_For(self, node: For) -> Stmt:
        node = node.replace(body=self.visit(node.body))
        return self.pipeline(node) if _STAGE in node.annotations else node

    def pipeline(self, loop: For) -> Stmt:
        realize: Any = loop.body
        block = realize.block if isinstance(realize, BlockRealize) else None
        if block is not None and (block.iter_vars or block.init is not None):
            _refuse(
                loop, "the body of the pipeline is a block with axes", "a sequence of statements"
            )
        parts = _parts(loop, block.body if block is not None else loop.body)
        own = set(block.alloc_buffers) if block is not None else set[Buffer]()
        counts = _check(loop, parts, own)
        versions = {b: (_copies(b, n), n) for b, n in counts.items()}
        body = self.steps(loop, parts, versions)
        if block is None:
            return body
        buffers = tuple(versions[b][0] if b in versions else b for b in block.alloc_buffers)
        outer = Block((), (), (), block.name_hint, body, alloc_buffers=buffers)
        outer = outer.replace(annotations=block.annotations, match_buffers=block.match_buffers)
        return realize.replace(block=outer)

    def steps(self, loop: For, parts: list[_Part], versions: Any) -> Stmt:
        """The prologue, the steady state and the epilogue."""
        deepest, size = max(p.stage for p in parts), int_value(loop.extent)
        if size is None:
            _refuse(loop, "the number of iterations is not known", "a loop of constant extent")
        elif size < deepest:
            _refuse(loop, f"{size} iterations for {deepest + 1} stages", "a longer loop")
        steps, end = [], add(loop.min, loop.extent)
        for n in range(deepest):
            early = [p for p in parts if p.stage <= n]
            steps.append(_step(loop, early, versions, add(loop.min, n), 1, ForKind.UNROLLED))
        if size > deepest:
            start, extent = add(loop.min, deepest), subtract(loop.extent, deepest)
            steps.append(_step(loop, parts, versions, start, extent, loop.kind))
        for n in range(deepest):
            late = [p for p in parts if p.stage > n]
            steps.append(_step(loop, late, versions, add(end, n), 1, ForKind.UNROLLED))
        return seq(*steps)


def _copies(buffer: Buffer, count: int) -> Buffer:
    """`count` buffers, contiguous in one."""
    shape, strides = buffer.shape, buffer.strides
    return buffer.replace(
        shape=(const(count, shape[0].dtype if shape else "int32"), *shape),
        strides=(multiply(strides[0], shape[0]), *strides) if strides else (),
        axis_separators=tuple(axis + 1 for axis in buffer.axis_separators),
    )


def _step(
    loop: For,
    parts: list[_Part],
    versions: Any,
    low: PrimExpr,
    extent: PrimExpr | int,
    kind: ForKind,
) -> Stmt:
    """A loop over steps, in which each statement runs for its current iteration."""
    var = loop.loop_var.copy_with_suffix("")
    body = []
    for part in sorted(parts, key=lambda p: p.order):
        at = subtract(var, part.stage)
        stmt = Substitute({loop.loop_var: at}).visit(renew_defs(part.stmt))
        body.append(_Versions(versions, at).visit(stmt))
    notes = {k: v for k, v in loop.annotations.items() if k not in (_STAGE, _ORDER)}
    return For(var, low, extent, kind, seq(*body), annotations=notes, span=loop.span)


def _refuse(loop: For, got: str, hint: str) -> NoReturn:
    name = loop.loop_var.name
    what = f"loop {name} cannot be a software pipeline"
    raise ValueError(explain(what, got=got, instead=hint, span=loop.span))


def _numbers(loop: For, key: str, count: int) -> list[int]:
    listed = [int_value(v) for v in loop.annotations.get(key, range(count))]
    numbers = [v for v in listed if v is not None and v >= 0]
    if len(numbers) != count or len(listed) != count:
        _refuse(loop, f"{key} {listed} for {count} statements", "a number for each statement")
    return numbers


def _parts(loop: For, body: Stmt) -> list[_Part]:
    stmts = stmt_list(body)
    stages, orders = _numbers(loop, _STAGE, len(stmts)), _numbers(loop, _ORDER, len(stmts))
    if len(set(orders)) != len(orders):
        _refuse(loop, f"{_ORDER} {orders}", "each number once")
    parts = []
    for stmt, stage, order in zip(stmts, stages, orders, strict=True):
        touched = _Touched()
        touched.visit(stmt)
        parts.append(_Part(stmt, stage, order, frozenset(touched.reads), frozenset(touched.writes)))
    return parts


def _check(loop: For, parts: list[_Part], own: set[Buffer]) -> dict[Buffer, int]:
    """How many iterations' copies each buffer of the body needs, where more than one."""
    counts: dict[Buffer, int] = {}
    for n, early in enumerate(parts):
        for late in parts[n + 1 :]:
            shared = (early.writes & (late.reads | late.writes)) | (early.reads & late.writes)
            if not shared:
                continue
            names = ", ".join(sorted(b.name for b in shared))
            if (late.stage, late.order) < (early.stage, early.order):
                _refuse(loop, f"{names} is used before it is made", "a later stage or order")
            if late.stage == early.stage:
                continue
            foreign = sorted(b.name for b in shared - own)
            if foreign:
                got = f"{', '.join(foreign)} is shared between stages and lives outside of the loop"
                _refuse(loop, got, "allocate it in the block that is the loop's body")
            for buffer in shared:
                needed = late.stage - early.stage + 1
                counts[buffer] = max(counts.get(buffer, 1), needed)
    return counts


class InjectSoftwarePipeline(RewriterPass):
    """Overlaps stages of different iterations of a loop. Runs before `LowerOpaqueBlock`, on loops
    of constant extent."""

    name = "tir.InjectSoftwarePipeline"
    rewriter = _Inject
