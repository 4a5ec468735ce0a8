"""The TensorIR of a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.functor import nodes_of
from ...ir.prim_expr import IterVar, PrimExpr, Range, Var
from ...ir.prim_op import const, subtract
from ...te.prim_func import Builder, with_regions
from ...te.tensor import ComputeOp, Tensor
from ...tir import stmt as st
from ...tir.buffer import Buffer, BufferRegion, decl_buffer
from ...tir.expr import BufferLoad, ProducerLoad

if TYPE_CHECKING:
    from .scan import ScanOp


def scan_blocks(build: Builder, op: ScanOp) -> st.Stmt:
    """The first rows are copied; then a block computes each row by the operations of the
    chain. The previous rows and the current one are match_buffers in it, so that each of
    its blocks can be scheduled like those of any program."""
    results = [build.buffers[op.output(n)] for n in range(op.num_outputs)]
    stmts = [_first_rows(build, op, *pair) for pair in zip(op.init, results, strict=True)]
    start, end = op.init[0].shape[0], op.state_placeholder[0].shape[0]
    rows = Var("t", end.dtype)
    time = IterVar(Range(0, end), Var("v_t", end.dtype), IterVar.Ordered)
    windows = []
    for state, update, result in zip(op.state_placeholder, op.update, results, strict=True):
        inner = [Range.upto(e) for e in result.shape[1:]]
        before = Range.from_min_extent(const(0, time.var.dtype), time.var)
        now = Range.from_min_extent(time.var, const(1, time.var.dtype))
        for tensor, rng, what in ((state, before, "past"), (update, now, "row")):
            lead = [rng.extent] if tensor is state or not inner else []
            view = _window([*lead, *result.shape[1:]], result, what)
            build.buffers[tensor] = view
            windows.append(st.MatchBufferRegion(view, BufferRegion(result, (rng, *inner))))
        build.rows[update] = time.var
    local: list[Buffer] = []
    body = st.seq(*(_row(build, op, step, time.var, local) for step in op.chain))
    used = _used_buffers(body)
    block = st.Block(
        (time,), (), (), build.names.fresh(f"{op.name}_step"), body,
        alloc_buffers=tuple(local),
        match_buffers=tuple(w for w in windows if w.buffer in used),
    )  # fmt: skip
    step = st.BlockRealize((rows,), const(True), with_regions(block, {}))
    return st.seq(
        *stmts, st.For(rows, start, build.tidy(subtract(end, start)), st.ForKind.SERIAL, step)
    )


def _first_rows(build: Builder, op: ScanOp, first: Tensor, result: Buffer) -> st.Stmt:
    axes = [IterVar(Range(0, e), Var(f"i{n}", e.dtype)) for n, e in enumerate(first.shape)]
    read = ProducerLoad(first, [a.var for a in axes])
    copy = ComputeOp(f"{op.name}_init", "", {}, axes, [read])
    build.buffers[copy.output(0)] = result
    return build.nest(copy, axes, {}, {}, copy.name)


def _row(build: Builder, scan: ScanOp, op: ComputeOp, time: Var, local: list[Buffer]) -> st.Stmt:
    """One row of an operation that a scan computes step by step."""
    if _looks_back(scan, op):
        _allocate(build, op, build.allocated)
    else:
        _allocate(build, op, local, time)
    head, *rest = (*op.axis, *op.reduce_axis)
    return build.nest(op, rest, {head.var: time}, dict(op.attrs), op.name)


def _allocate(
    build: Builder, op: ComputeOp, allocated: list[Buffer], row: Var | None = None
) -> None:
    """Give the results of an operation of a scan buffers, with one row per step if `row` is
    given."""
    for n in range(op.num_outputs):
        tensor = op.output(n)
        if tensor not in build.buffers:
            if row is not None:
                build.rows[tensor] = row
            build.buffers[tensor] = build.declare(tensor)
            allocated.append(build.buffers[tensor])


def _window(shape: Sequence[PrimExpr], of: Buffer, what: str) -> Buffer:
    offset = Var("elem_offset", shape[0].dtype)
    name = f"{of.name}_{what}"
    return decl_buffer(shape, of.dtype, name, elem_offset=offset, offset_factor=1, scope=of.scope())


def _used_buffers(body: st.Stmt) -> set[Buffer]:
    return {access.buffer for access in nodes_of(body, BufferLoad, st.BufferStore)}


def _looks_back(scan: ScanOp, op: ComputeOp) -> bool:
    """Whether the chain reads rows of `op` other than the current one."""
    own = {op.output(n) for n in range(op.num_outputs)}
    return any(
        load.producer in own and load.indices[0] is not reader.axis[0].var
        for reader in scan.chain
        for load in nodes_of(reader.body, ProducerLoad)
    )
