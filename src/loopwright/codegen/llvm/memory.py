"""Loads and stores of flat buffers, as LLVM text: scalar, dense, masked, gathered.

Loads and stores assume the alignment of one element: numpy guarantees no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.literals import is_one
from ...ir.prim_expr import Add, Broadcast, IntImm, PrimExpr, Ramp, Sub
from ...ir.prim_op import add
from ...tir import stmt as st
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from ..context import flat_index
from .function_text import FunctionText
from .types import llvm_type, memory_type, scalar_type, tag, vector_of

ZEROS = "lw.zeros"  # read by a guarded load instead of out-of-bounds memory
ZEROS_BYTES, BEFORE_BYTES = 128, 64  # of the longest load, and of the elements before it
FAKE_USE = "llvm.fake.use"
NEAR = 4  # the longest stride of a vector that dense loads and shuffles give faster than a gather


def is_dense(index: PrimExpr) -> bool:
    """Whether the index is a ramp of stride 1."""
    stride = index.stride if isinstance(index, Ramp) else None
    return is_one(stride) and index.base.dtype.lanes == 1


def first_of(index: PrimExpr) -> PrimExpr:
    """The first index of a dense access."""
    return index.base if isinstance(index, Ramp) else index


def address(ctx: FunctionText, buffer: Buffer, index: PrimExpr) -> str:
    """The address of a scalar index."""
    base = ctx.var(buffer.data)
    if isinstance(index, IntImm) and index.value == 0:
        return base
    at = ctx.to_i64(ctx.index(index), index.dtype)
    kind = element_type(buffer.dtype)
    return ctx.value(f"getelementptr {kind}, ptr {base}, i64 {at}")


def element_type(dtype: DataType) -> str:
    """The type of one buffer element, which may be a vector."""
    memory = memory_type(dtype)
    return memory if dtype.lanes == 1 else f"[{dtype.lanes} x {memory}]"


def addresses(ctx: FunctionText, buffer: Buffer, index: PrimExpr) -> str:
    """The addresses of a vector of indices."""
    lanes = index.dtype.lanes
    at = ctx.index(index)
    if index.dtype.bits < 64:
        wide = "sext" if index.dtype.is_int else "zext"
        at = ctx.value(f"{wide} {llvm_type(index.dtype)} {at} to <{lanes} x i64>")
    base, memory = ctx.var(buffer.data), memory_type(buffer.dtype)
    return ctx.value(f"getelementptr {memory}, ptr {base}, <{lanes} x i64> {at}")


def or_zeros(ctx: FunctionText, cond: str, pointer: str) -> str:
    """The pointer if `cond` holds, else a pointer to zeros: a guarded load without a branch."""
    zeros = f"@{ZEROS} = internal constant [{ZEROS_BYTES + BEFORE_BYTES} x i8] zeroinitializer, align 64"
    ctx.module.helper(ZEROS, lambda: zeros)
    return ctx.value(f"select i1 {cond}, ptr {pointer}, ptr @{ZEROS}")


def or_zeros_near(ctx: FunctionText, cond: str, buffer: Buffer, index: PrimExpr) -> str:
    """The address of an index if `cond` holds, else one of zeros. Indices that differ by a few elements share
    the choice: its address is that of the first of them."""
    offset, size = 0, buffer.dtype.lanes * buffer.dtype.lane_bytes
    while isinstance(index, (Add, Sub)) and isinstance(index.b, IntImm):
        offset += index.b.value if isinstance(index, Add) else -index.b.value
        index = index.a
    ahead = offset % max(BEFORE_BYTES // size, 1)
    if offset != ahead:
        index = add(index, offset - ahead)
    pointer = or_zeros(ctx, cond, address(ctx, buffer, index))
    kind = element_type(buffer.dtype)
    return ctx.value(f"getelementptr {kind}, ptr {pointer}, i64 {ahead}") if ahead else pointer


def load(ctx: FunctionText, node: BufferLoad) -> str:
    """A load; in a masked choice only the active lanes are read."""
    index = flat_index(node.buffer, node.indices)
    mask = None if node.predicate is None else ctx.data(node.predicate)
    mask = with_outer_mask(ctx, mask, node.dtype.lanes)
    return load_value(ctx, node.buffer, index, node.dtype, mask)


def with_outer_mask(ctx: FunctionText, mask: str | None, lanes: int) -> str | None:
    """A load's own mask combined with that of the enclosing choice."""
    if ctx.mask is None:
        return mask
    outer, width = ctx.mask
    if lanes == 1 and width > 1:
        outer = ctx.any_lane(outer, width)
    elif lanes != width:
        return mask
    if mask is None:
        return outer
    return ctx.value(f"and {vector_of('i1', lanes)} {mask}, {outer}")


def load_value(
    ctx: FunctionText, buffer: Buffer, index: PrimExpr, dtype: DataType, mask: str | None
) -> str:
    """Load from a flat index; lanes outside of `mask` are 0."""
    lanes = dtype.lanes
    if isinstance(index, Broadcast) and buffer.dtype.lanes == 1:
        some = None if mask is None else ctx.any_lane(mask, lanes)
        return ctx.spread(load_value(ctx, buffer, index.value, buffer.dtype, some), dtype)
    kind, align = vector_of(memory_type(buffer.dtype), lanes), alignment(buffer)
    if index.dtype.lanes == 1 or is_dense(index):
        pointer = address(ctx, buffer, first_of(index))
        if mask is not None and lanes > 1:
            raw = masked_load(ctx, "load", ("ptr", pointer), buffer, lanes, mask)
        else:
            pointer = pointer if mask is None else or_zeros(ctx, mask, pointer)
            raw = ctx.fresh(f"load {kind}, ptr {pointer}, align {align}")
    elif (
        buffer.dtype.lanes == 1
        and (mask is None or buffer.dtype.bits in ctx.module.masked_bits)
        and (stride := _near_stride(index))
    ):
        if stride < 0:
            raw = _backward(ctx, buffer, index, kind, mask)
        else:
            raw = _every_nth(ctx, buffer, index, stride, kind, mask)
    else:
        check_scalar_elements(buffer)
        pointers = f"<{lanes} x ptr>", addresses(ctx, buffer, index)
        flags = mask or "splat (i1 true)"
        raw = masked_load(ctx, "gather", pointers, buffer, lanes, flags)
    return from_memory(ctx, raw, buffer.dtype, dtype)


def _near_stride(index: PrimExpr) -> int:
    """The stride of a ramp if it is so short that the elements between may be read, too, or -1, else 0."""
    if not isinstance(index, Ramp) or index.base.dtype.lanes != 1 or index.dtype.is_scalable:
        return 0
    stride = index.stride.value if isinstance(index.stride, IntImm) else 0
    return stride if 2 <= stride <= NEAR or stride == -1 else 0


def _backward(
    ctx: FunctionText, buffer: Buffer, index: PrimExpr, kind: str, mask: str | None
) -> str:
    """Adjacent elements from the last one to the first: a dense load, reversed."""
    lanes = index.dtype.lanes
    order = range(lanes)[::-1]
    at = address(ctx, buffer, first_of(index))
    at = ctx.value(f"getelementptr {element_type(buffer.dtype)}, ptr {at}, i64 {1 - lanes}")
    if mask is None:
        raw = ctx.fresh(f"load {kind}, ptr {at}, align {alignment(buffer)}")
    else:
        flags = _shuffled(ctx, f"<{lanes} x i1>", mask, "poison", order)
        raw = masked_load(ctx, "load", ("ptr", at), buffer, lanes, flags)
    return _shuffled(ctx, kind, raw, "poison", order)


def _every_nth(
    ctx: FunctionText, buffer: Buffer, index: PrimExpr, stride: int, kind: str, mask: str | None
) -> str:
    """Every `stride`-th element, picked from `stride` dense loads. Without a mask the last one ends with
    the last element, so that none reads beyond it; with one, only elements of its lanes are read."""
    lanes = index.dtype.lanes
    last, joined = (lanes - 1) * stride, ""
    at = address(ctx, buffer, first_of(index))
    for k in range(stride):
        first = k * lanes if mask else min(k * lanes, last + 1 - lanes)
        where = ctx.value(f"getelementptr {element_type(buffer.dtype)}, ptr {at}, i64 {first}")
        if mask is None:
            part = ctx.fresh(f"load {kind}, ptr {where}, align {alignment(buffer)}")
        else:
            read = [divmod(e, stride) for e in range(first, first + lanes)]
            chosen = [lane if rest == 0 and lane < lanes else lanes for lane, rest in read]
            flags = _shuffled(ctx, f"<{lanes} x i1>", mask, "zeroinitializer", chosen)
            part = masked_load(ctx, "load", ("ptr", where), buffer, lanes, flags)
        own = range(k * lanes, min((k + 1) * lanes, last + 1))
        offsets = [n * stride for n in range(lanes)]
        if not k:
            picked = [p if p in own else 0 for p in offsets]
        else:
            picked = [lanes + p - first if p in own else n for n, p in enumerate(offsets)]
        joined = _shuffled(ctx, kind, joined or part, part if k else "poison", picked)
    return joined


def _shuffled(ctx: FunctionText, kind: str, a: str, b: str, picked: Sequence[int]) -> str:
    mask = ", ".join(f"i32 {p}" for p in picked)
    lanes = f"<{len(picked)} x i32>"
    return ctx.value(f"shufflevector {kind} {a}, {kind} {b}, {lanes} <{mask}>")


def alignment(buffer: Buffer) -> int:
    """The alignment that loads and stores assume, in bytes: of one element, or less where the buffer's is."""
    return min(buffer.dtype.lane_bytes, buffer.data_alignment)


def check_scalar_elements(buffer: Buffer) -> None:
    """Reject gathers from buffers of vectors."""
    if buffer.dtype.lanes > 1:
        what = f"buffer {buffer.name} holds vectors: only consecutive elements can be read together"
        raise LoopwrightError(explain(what, got=str(buffer.dtype), instead="use a scalar type"))


def masked_load(
    ctx: FunctionText, what: str, at: tuple[str, str], buffer: Buffer, lanes: int, mask: str
) -> str:
    """A masked load or gather of memory elements."""
    name, kind = masked_name(what, buffer.dtype, lanes)
    flags, align = (f"<{lanes} x i1>", mask), ("i32", str(alignment(buffer)))
    return ctx.fresh(ctx.calling(kind, name, at, align, flags, (kind, "zeroinitializer")))


def masked_name(what: str, dtype: DataType, lanes: int) -> tuple[str, str]:
    memory = memory_type(dtype)
    suffix = "p0" if what in ("load", "store") else f"v{lanes}p0"
    return f"llvm.masked.{what}.{tag(memory, lanes)}.{suffix}", vector_of(memory, lanes)


def from_memory(ctx: FunctionText, raw: str, stored: DataType, dtype: DataType) -> str:
    """A loaded value converted to its register representation."""
    memory = memory_type(stored)
    if memory == scalar_type(stored):
        return raw
    kind = vector_of(memory, dtype.lanes)
    if stored.is_bool:
        zero = "zeroinitializer" if dtype.lanes > 1 else "0"
        return ctx.value(f"icmp ne {kind} {raw}, {zero}")
    return ctx.value(f"trunc {kind} {raw} to {llvm_type(dtype)}")


def to_memory(ctx: FunctionText, value: str, dtype: DataType) -> str:
    """A value converted to its memory representation."""
    memory = memory_type(dtype)
    if memory == scalar_type(dtype):
        return value
    name = "sext" if dtype.is_int else "zext"
    return ctx.value(f"{name} {llvm_type(dtype)} {value} to {vector_of(memory, dtype.lanes)}")


def store(ctx: FunctionText, node: st.BufferStore) -> None:
    """A store, in the lanes of its mask."""
    ctx.note(node)
    value = ctx.expr(node.value)
    mask = None if node.predicate is None else ctx.expr(node.predicate)
    buffer, dtype = node.buffer, node.value.dtype
    index = flat_index(buffer, node.indices)
    lanes, align = dtype.lanes, alignment(buffer)
    kind = vector_of(memory_type(buffer.dtype), lanes)
    value = to_memory(ctx, value, dtype)
    if index.dtype.lanes == 1 or is_dense(index):
        pointer = address(ctx, buffer, first_of(index))
        plain = f"store {kind} {value}, ptr {pointer}, align {align}"
        if mask is None:
            ctx.emit(plain)
        elif lanes == 1:
            then, done = ctx.label("store"), ctx.label("stored")
            ctx.jump_if(mask, then, done)
            ctx.start_block(then)
            ctx.emit(plain)
            ctx.jump(done)
            ctx.start_block(done)
        else:
            masked_store(ctx, "store", value, ("ptr", pointer), buffer, lanes, mask)
        return
    check_scalar_elements(buffer)
    pointers = f"<{lanes} x ptr>", addresses(ctx, buffer, index)
    flags = mask or "splat (i1 true)"
    masked_store(ctx, "scatter", value, pointers, buffer, lanes, flags)


def masked_store(
    ctx: FunctionText,
    what: str,
    value: str,
    at: tuple[str, str],
    buffer: Buffer,
    lanes: int,
    mask: str,
) -> None:
    """A masked store or scatter of memory elements."""
    name, kind = masked_name(what, buffer.dtype, lanes)
    flags, align = (f"<{lanes} x i1>", mask), ("i32", str(alignment(buffer)))
    if what == "store" and memory_type(buffer.dtype) in ("i8", "i16", "i32"):
        # With AVX-512, LLVM 22 merges a truncation into the store, and one of a single known lane
        # then writes the wide number. A second use of the value prevents it; it emits no code.
        ctx.module.declare(FAKE_USE, f"declare void @{FAKE_USE}(...)")
        ctx.emit(f"call void (...) @{FAKE_USE}({kind} {value})")
    ctx.emit(ctx.calling("void", name, (kind, value), at, align, flags))
