"""`prim_func`: buffers for the tensors of scheduled statements. A tensor that is not an argument is
allocated where it is realized, as much of it as is computed there; an argument has its own shape,
in the layout that `transform_layout` sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...arith import Analyzer
from ...base.errors import CallTypeError, CallValueError, explain
from ...ir.functor import Rewriter
from ...ir.node import Node
from ...ir.prim_expr import PrimExpr, Range, Var
from ...ir.prim_op import add, ceildiv, const, floormod, multiply, subtract
from ...te.tensor import Operation, PlaceholderOp, Tensor
from ...tir import stmt as st
from ...tir.buffer import Buffer, BufferRegion, DataProducer, decl_buffer
from ...tir.expr import BufferLoad, ProducerLoad
from ...tir.function import PrimFunc
from ...tir.index_map import IndexMap
from ...tir.stmt_functor import renew_defs
from .bounds import thread_rank
from .producer import BindBuffer, ProducerRealize, ProducerStore
from .relations import is_const
from .scan import ScanOp
from .stage import Stage, Stages

_DEFAULT_SCOPES = ("global", "shared", "local")


class TensorMemory(NamedTuple):
    """Where the elements of a tensor are: from `starts` on in a buffer, in another order by
    `layout`; those of dimension `rolls` follow each other in a circle."""

    buffer: Buffer
    starts: tuple[PrimExpr, ...]
    layout: IndexMap | None
    rolls: int = -1


class Memory(Rewriter):
    """Rewrites statements on tensors to statements on buffers."""

    def __init__(self, s: Stages) -> None:
        self.stages = {stage.op: stage for stage in s.stages}
        self.same: dict[Tensor, Tensor] = {}
        for stage in s.stages:
            if isinstance(stage.op, ScanOp):
                self.join(stage.op, s)
        self.buffers: dict[Tensor, TensorMemory] = {}
        self.ana = Analyzer()
        self.rank = -1  # of the threads around
        self.blocks = 0

    def join(self, op: ScanOp, s: Stages) -> None:
        """A scan's state, its update, and rows that only it reads, are its result."""
        readers: dict[Operation, set[Operation]] = {}
        for stage in s.stages:
            for tensor in stage.op.input_tensors:
                readers.setdefault(tensor.op, set()).add(stage.op)
        for n in range(op.num_outputs):
            out = op.output(n)
            self.same[op.state_placeholder[n]] = self.same[op.update[n]] = out
            if readers.get(op.init[n].op) == {op}:
                self.same.setdefault(op.init[n], out)

    def memory_of(self, tensor: Any) -> TensorMemory:
        tensor = self.same.get(tensor, tensor)
        located = self.buffers.get(tensor)
        if located is None:
            what = f"the placeholder {tensor.op.name} is read but is not an argument"
            hint = "list every input among the arguments"
            raise CallValueError(explain(what, got="a tensor without memory", instead=hint))
        return located

    def argument(self, tensor: Tensor, buffer: Buffer | None, stage: Stage | None) -> Buffer:
        """The buffer of an argument."""
        layout = None if stage is None else stage.layout
        if buffer is None:
            shape, separators = tensor.shape, []
            if layout is not None and stage is not None:
                shape, separators = layout.map_shape(list(shape)), stage.separators
            shape = tuple(self.ana.simplify(e) for e in shape)
            buffer = decl_buffer(shape, tensor.dtype, _name(tensor), axis_separators=separators)
        self.buffers[tensor] = TensorMemory(buffer, (), layout)
        return buffer

    def element(
        self, tensor: DataProducer, indices: Sequence[PrimExpr]
    ) -> tuple[Buffer, list[PrimExpr]]:
        buffer, starts, layout, rolls = self.memory_of(tensor)
        at = [self.visit(i) for i in indices]
        if layout is not None:
            at = layout.map_indices(at, self.ana)
        if starts:
            pairs = zip(at, starts, strict=True)
            at = [
                i if is_const(low, 0) else self.ana.simplify(subtract(i, low)) for i, low in pairs
            ]
        if rolls >= 0:
            at[rolls] = self.ana.simplify(floormod(at[rolls], buffer.shape[rolls]))
        return buffer, at

    # -- nodes -----------------------------------------------------------------------------------

    def visit_Buffer(self, node: Node) -> Any:
        return node

    visit_Var = visit_ConstExpr = visit_IterVar = visit_Op = visit_Buffer

    def visit_ProducerLoad(self, node: ProducerLoad) -> Any:
        return BufferLoad(*self.element(node.producer, node.indices), span=node.span)

    def visit_ProducerStore(self, node: ProducerStore) -> st.Stmt:
        value = self.visit(node.value)
        buffer, at = self.element(node.producer, node.indices)
        return st.BufferStore(buffer, value, at, span=node.span)

    def visit_AttrStmt(self, node: st.AttrStmt) -> st.Stmt:
        before = self.rank
        if node.attr_key == "thread_extent":
            self.rank = max(before, thread_rank(node.node.thread_tag))
        body, of = self.visit(node.body), node.node
        self.rank = before
        if isinstance(of, Tensor):
            of = self.memory_of(of).buffer
        return st.AttrStmt(of, node.attr_key, self.visit(node.value), body, span=node.span)

    def visit_BindBuffer(self, node: BindBuffer) -> st.Stmt:
        """Several views of one statement are matched in one block."""
        matches: list[st.MatchBufferRegion] = []
        body: st.Stmt = node
        while isinstance(body, BindBuffer):
            matches.append(st.MatchBufferRegion(body.view, self.part(body)))
            body = body.body
        regions = [m.source for m in matches]
        block = st.Block((), regions, regions, "bound", self.visit(body), match_buffers=matches)
        return renew_defs(self.realized(block))  # the same views may be bound again elsewhere

    def visit_SeqStmt(self, node: st.SeqStmt) -> st.Stmt:
        return st.seq(*(self.visit(part) for part in node.seq))

    def realized(self, block: st.Block) -> st.Stmt:
        self.blocks += 1
        return st.BlockRealize((), const(True, "bool"), block)

    def part(self, node: BindBuffer) -> BufferRegion:
        buffer, starts, layout, rolls = self.memory_of(node.tensor)
        if rolls >= 0:
            what = f"{buffer.name} rolls: no intrinsic or extern can read its parts"
            raise CallValueError(explain(what, instead="no rolling_buffer"))
        region = [
            Range.from_min_extent(self.visit(r.min), self.visit(r.extent)) for r in node.region
        ]
        if layout is not None:
            region = list(layout.map_ranges(region))
        if starts:
            region = [
                Range.from_min_extent(self.ana.simplify(subtract(r.min, low)), r.extent)
                for r, low in zip(region, starts, strict=True)
            ]
        return BufferRegion(buffer, tuple(region))

    def visit_ProducerRealize(self, node: ProducerRealize) -> st.Stmt:
        tensor: Any = node.producer
        if tensor in self.buffers:  # an argument
            return self.visit(node.body)
        stage = self.stages.get(tensor.op)
        layout = None if stage is None else stage.layout
        bounds = [
            Range.from_min_extent(self.visit(r.min), self.visit(r.extent)) for r in node.bounds
        ]
        if layout is not None:
            bounds = list(layout.map_ranges(bounds))
        shape = tuple(self.ana.simplify(r.extent) for r in bounds)
        scope = node.storage_scope or _DEFAULT_SCOPES[self.rank + 1]
        separators = stage.separators if stage is not None and layout is not None else []
        buffer = decl_buffer(
            shape, tensor.dtype, _name(tensor), scope=scope,
            strides=_aligned(shape, node.aligns, self.ana), axis_separators=separators,
        )  # fmt: skip
        starts = tuple(r.min for r in bounds)
        self.buffers[tensor] = TensorMemory(buffer, starts, layout, node.rolls)
        body = self.visit(node.body)
        block = st.Block((), (), (), tensor.op.name, body, alloc_buffers=[buffer])
        return self.realized(block)


def _name(tensor: Tensor) -> str:
    return tensor.name.replace(".", "_")


def _aligned(
    shape: Sequence[PrimExpr], aligns: Sequence[Any], ana: Analyzer
) -> list[PrimExpr] | None:
    """The strides where some have to be k * factor + offset."""
    if not aligns:
        return None
    by_dim = {int(dim): (factor, offset) for dim, factor, offset in aligns}
    strides: list[PrimExpr] = []
    step: PrimExpr = const(1, shape[-1].dtype)
    for dim in reversed(range(len(shape))):
        if dim in by_dim:
            factor, offset = (const(int(e), step.dtype) for e in by_dim[dim])
            rest = subtract(step, offset)
            step = ana.simplify(add(multiply(ceildiv(rest, factor), factor), offset))
        strides.insert(0, step)
        step = ana.simplify(multiply(step, shape[dim]))
    return strides


def prim_func(
    s: Stages, args: Sequence[Any], body: st.Stmt, binds: dict[Tensor, Buffer]
) -> PrimFunc:
    """The function of scheduled statements: its parameters are tensors, buffers and variables."""
    memory = Memory(s)
    params: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for arg in args:
        if isinstance(arg, Var):
            params.append(arg)
            continue
        if isinstance(arg, Tensor):
            stage = s.stage_map.get(arg.op)
            if stage is None and not isinstance(arg.op, PlaceholderOp):
                s[arg]
            current = arg if stage is None else stage.op.output(arg.value_index)
            buffer = memory.argument(current, binds.get(arg), stage)
        elif isinstance(arg, Buffer):
            buffer = arg
        else:
            what = "the arguments of a schedule are tensors, buffers and variables"
            raise CallTypeError(explain(what, got=type(arg).__name__))
        param = Var(f"var_{buffer.name}", "handle")
        params.append(param)
        buffers[param] = buffer
    for tensor, buffer in binds.items():  # a buffer among the arguments
        stage = s.stage_map.get(tensor.op)
        if stage is not None:
            memory.argument(stage.op.output(tensor.value_index), buffer, stage)
    attrs = {"global_symbol": "main", "tir.noalias": True}
    body = memory.visit(body)
    if memory.blocks:
        body = memory.realized(st.Block((), (), (), "root", body))
    return PrimFunc(params, body, None, buffers, attrs)
