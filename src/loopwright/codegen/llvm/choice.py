"""Conditional expressions as LLVM text: the operand that is not chosen has no effect.

A load guarded against an out-of-bounds access reads from zeros instead of branching; a lane-wise
choice masks the loads of its operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...ir import prim_expr as pe
from ...ir.dtype import DataType
from ...ir.prim_expr import Broadcast, Call, FloatImm, IntImm, PrimExpr, Var
from ...tir.expr import BufferLoad, reads_memory
from ...tir.op import is_call_to
from ..context import flat_index
from .function_text import FunctionText
from .memory import (
    ZEROS_BYTES,
    alignment,
    first_of,
    from_memory,
    is_dense,
    masked_load,
    or_zeros,
    or_zeros_near,
    with_outer_mask,
)
from .types import flag_type, llvm_type, mangle, memory_type, vector_of

if TYPE_CHECKING:
    from ...base.span import Span

# Integer operations that are safe to speculate.


_ARITHMETIC = {f"tir.{n}" for n in ("shift_right", "shift_left", "bitwise_and", "bitwise_xor")}


def checked_index(ctx: FunctionText, node: Call) -> str:
    """An index from data, non-negative; the function fails where it is out of range. Only where a
    lane is not in 0..extent-1 is more computed than that."""
    dtype, lanes = node.dtype, node.dtype.lanes
    index, extent = map(ctx.expr, node.args)
    mask = with_outer_mask(ctx, None, lanes)
    inside = f"; {index} within {extent} where {mask}"
    if inside in ctx.computed:
        return ctx.computed[inside]

    def outside(position: str) -> tuple[str, str]:
        flags = ctx.fresh(f"icmp uge {llvm_type(dtype)} {position}, {extent}")
        if mask is not None:
            flags = ctx.fresh(f"and {flag_type(dtype)} {flags}, {mask}")
        return flags, flags if lanes == 1 else ctx.any_lane(flags, lanes)

    span = node.span or ctx.noted or ctx.func.span
    more, done = ctx.label("from_end"), ctx.label("index")
    _, other = outside(index)
    start = ctx.block
    ctx.jump_if(other, more, done)
    ctx.start_block(more)
    mark = len(ctx.trail)
    below = ctx.op("icmp slt", dtype, index, "zeroinitializer" if lanes > 1 else "0")
    position = ctx.choose(below, ctx.op("add", dtype, index, extent), index, dtype)
    flags, failed = outside(position)
    ctx.leave_if(failed, lambda: _raise_index(ctx, dtype, (flags, index, extent), span))
    ctx.forget(mark)
    end = ctx.block
    ctx.jump(done)
    ctx.start_block(done)
    kind = llvm_type(dtype)
    position = ctx.fresh(f"phi {kind} [ {index}, %{start} ], [ {position}, %{end} ]")
    ctx.computed[inside] = position
    ctx.trail.append(inside)
    return position


def _raise_index(
    ctx: FunctionText, dtype: DataType, values: tuple[str, str, str], span: Span | None
) -> None:
    """Raise an IndexError about a lane that is out of range."""
    outside, index, extent = values
    if dtype.lanes > 1:  # as an unsigned number, an index out of range exceeds 0
        kind = llvm_type(dtype)
        name = f"llvm.vector.reduce.umax.{mangle(dtype)}"
        shown = ctx.fresh(
            f"select {flag_type(dtype)} {outside}, {kind} {index}, {kind} zeroinitializer"
        )
        index = ctx.fresh(ctx.calling("i64", name, (kind, shown)))
        shown = ctx.fresh(
            f"select {flag_type(dtype)} {outside}, {kind} {extent}, {kind} zeroinitializer"
        )
        extent = ctx.fresh(ctx.calling("i64", name, (kind, shown)))
    site = str(ctx.symbol if span is None else span).splitlines()[0]
    where = ("ptr", f"@{ctx.module.string(site)}")
    ctx.emit(ctx.calling("void", "lw_raise_index", where, ("i64", index), ("i64", extent)))


def logical(ctx: FunctionText, node: pe.And | pe.Or) -> str:
    """Both operands, unless the left one guards a load in the right one."""
    if node.dtype.lanes == 1 and reads_memory(node.b) and guards(node.a):
        return short_circuit(ctx, node)
    name = "and" if isinstance(node, pe.And) else "or"
    return ctx.op(name, node.dtype, ctx.expr(node.a), ctx.expr(node.b))


def select(ctx: FunctionText, node: pe.Select) -> str:
    """Both operands, unless the condition guards a load in one."""
    sides = (node.true_value, node.false_value)
    if any(map(reads_memory, sides)) and guards(node.condition):
        return choice(ctx, node.condition, *sides, node.dtype)
    cond = ctx.expr(node.condition)
    yes, no = map(ctx.expr, sides)
    return ctx.choose(cond, yes, no, node.dtype, node.condition.dtype.lanes)


def if_then_else(ctx: FunctionText, node: Call) -> str:
    """Only the chosen operand."""
    return choice(ctx, *node.args, node.dtype)


def short_circuit(ctx: FunctionText, node: pe.And | pe.Or) -> str:
    """The right operand, evaluated only if the left one does not decide."""
    both = isinstance(node, pe.And)
    more, done = ctx.label("more"), ctx.label("decided")
    left = ctx.expr(node.a)
    start = ctx.block
    ctx.jump_if(left, *((more, done) if both else (done, more)))
    ctx.start_block(more)
    mark = len(ctx.trail)
    right = ctx.expr(node.b)
    ctx.forget(mark)
    end = ctx.block
    ctx.jump(done)
    ctx.start_block(done)
    shortcut = "false" if both else "true"
    return ctx.fresh(f"phi i1 [ {shortcut}, %{start} ], [ {right}, %{end} ]")


def choice(ctx: FunctionText, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType) -> str:
    """`yes` if `cond` holds, else `no`; the other operand has no effect."""
    if isinstance(cond, Broadcast) and _is_gather(yes):  # one branch, not one for each lane
        return branching_choice(ctx, cond.value, yes, no, dtype)
    if cond.dtype.lanes > 1:
        return masked_choice(ctx, cond, yes, no, dtype)
    conditions, inner = _guards(cond, yes, no)
    load = inner.value if isinstance(inner, Broadcast) else inner
    if isinstance(load, BufferLoad) and _is_zero(no) and can_redirect(load):
        flag, *others = map(ctx.expr, conditions)
        for other in others:
            flag = ctx.op("and", cond.dtype, flag, other)
        return guarded_load(ctx, flag, load, inner)
    return branching_choice(ctx, cond, yes, no, dtype)


def branching_choice(
    ctx: FunctionText, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType
) -> str:
    labels = ctx.label("yes"), ctx.label("no"), ctx.label("chosen")
    ctx.jump_if(ctx.expr(cond), labels[0], labels[1])
    arms: list[tuple[str, str]] = []
    for label, value in ((labels[0], yes), (labels[1], no)):
        ctx.start_block(label)
        ctx.scoped(lambda v=value: arms.append((ctx.expr(v), ctx.block)))
        ctx.jump(labels[2])
    ctx.start_block(labels[2])
    sources = ", ".join(f"[ {v}, %{b} ]" for v, b in arms)
    return ctx.fresh(f"phi {llvm_type(dtype)} {sources}")


def masked_choice(
    ctx: FunctionText, cond: PrimExpr, yes: PrimExpr, no: PrimExpr, dtype: DataType
) -> str:
    """A lane-wise choice: each operand is evaluated with its loads masked."""
    flag = ctx.expr(cond)
    lanes, kind = cond.dtype.lanes, flag_type(cond.dtype)
    inverse = ctx.value(f"xor {kind} {flag}, splat (i1 true)")
    outer, arms = ctx.mask, []
    for mask, value in ((flag, yes), (inverse, no)):
        if outer is not None and outer[1] == lanes:
            mask = ctx.value(f"and {kind} {mask}, {outer[0]}")
        ctx.mask = (mask, lanes)
        arms.append(ctx.expr(value))
    ctx.mask = outer
    return ctx.choose(flag, arms[0], arms[1], dtype)


def _is_gather(value: PrimExpr) -> bool:
    """Whether a value is a vector of elements that are not adjacent."""
    return isinstance(value, BufferLoad) and not is_dense(flat_index(value.buffer, value.indices))


def can_redirect(load: BufferLoad) -> bool:
    """Whether a load may read zeros instead: its address can be computed speculatively."""
    index = flat_index(load.buffer, load.indices)
    dense = load.dtype.lanes == 1 or (is_dense(index) and load.buffer.dtype.lanes == 1)
    small = load.dtype.lane_bytes * load.dtype.lanes <= ZEROS_BYTES
    return load.predicate is None and dense and small and _is_plain(index)


def guarded_load(ctx: FunctionText, cond: str, load: BufferLoad, value: PrimExpr) -> str:
    """`if_then_else(cond, A[i], 0)`: load through a pointer chosen between A and zeros."""
    index = first_of(flat_index(load.buffer, load.indices))
    pointer = or_zeros_near(ctx, cond, load.buffer, index)
    lanes = load.dtype.lanes
    mask = with_outer_mask(ctx, None, lanes)
    if mask is not None and lanes > 1:
        raw = masked_load(ctx, "load", ("ptr", pointer), load.buffer, lanes, mask)
        return from_memory(ctx, raw, load.buffer.dtype, load.dtype)
    if mask is not None:
        pointer = or_zeros(ctx, mask, pointer)
    kind = vector_of(memory_type(load.buffer.dtype), lanes)
    raw = ctx.fresh(f"load {kind}, ptr {pointer}, align {alignment(load.buffer)}")
    loaded = from_memory(ctx, raw, load.buffer.dtype, load.dtype)
    return ctx.spread(loaded, value.dtype) if isinstance(value, Broadcast) else loaded


def _is_plain(expr: PrimExpr) -> bool:
    """Whether an expression neither loads nor calls, so that it can be evaluated speculatively."""
    called = isinstance(expr, Call) and getattr(expr.op, "name", "") not in _ARITHMETIC
    return not (called or isinstance(expr, BufferLoad)) and all(map(_is_plain, _parts(expr)))


def _guards(cond: PrimExpr, yes: PrimExpr, no: PrimExpr) -> tuple[list[PrimExpr], PrimExpr]:
    """The conditions of nested choices that yield 0 if they fail, and the guarded value."""
    conditions = [cond]
    while _is_zero(no) and is_call_to(yes, "if_then_else"):
        cond, inner, no = yes.args
        if cond.dtype.lanes > 1 or not _is_zero(no) or not _is_plain(cond):
            break
        conditions.append(cond)
        yes = inner
    return conditions, yes


def _is_zero(expr: PrimExpr) -> bool:
    if isinstance(expr, Broadcast):
        expr = expr.value
    return isinstance(expr, (IntImm, FloatImm)) and expr.value == 0 and str(expr.value)[0] != "-"


def guards(cond: PrimExpr) -> bool:
    """Whether a condition depends on variables, like one that guards a load, and not only on
    data."""
    if isinstance(cond, (Var, pe.SizeVar)):
        return cond.dtype.is_integer
    if isinstance(cond, BufferLoad):
        return False
    return any(map(guards, _parts(cond)))


def _parts(expr: PrimExpr) -> Iterable[PrimExpr]:
    if isinstance(expr, pe.BinaryOpExpr):
        return (expr.a, expr.b)
    if isinstance(expr, (IntImm, FloatImm, Var)):
        return ()
    return [c for c in expr.children() if isinstance(c, PrimExpr)]
