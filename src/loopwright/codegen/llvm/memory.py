"""Loads and stores of flat buffers, as LLVM text: scalar, dense, masked, gathered.

Loads and stores state the alignment of one element: numpy aligns no better.
"""

from __future__ import annotations

from typing import Any

from ...base.errors import LoopwrightError, explain
from ...ir.dtype import DataType
from ...ir.prim_expr import Broadcast, IntImm, PrimExpr, Ramp
from ...tir.buffer import Buffer
from ...tir.expr import BufferLoad
from .convert import ConversionEmitter
from .types import is_packed, llvm_type, memory_type, scalar_type, tag, vector_of

ZEROS = "lw.zeros"  # what a guarded load reads where it must not read
ZEROS_BYTES = 128
_ZERO = IntImm("int32", 0)


def is_dense(index: PrimExpr) -> bool:
    """Whether the index is a ramp of neighbours."""
    stride = index.stride if isinstance(index, Ramp) else None
    return isinstance(stride, IntImm) and stride.value == 1 and index.base.dtype.lanes == 1


def flat_index(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
    """The one index of an access."""
    if is_packed(buffer.dtype):
        what = f"buffer {buffer.name} of {buffer.dtype} is not yet made of bytes"
        raise LoopwrightError(explain(what, instead="run Int4StorageLegalize first"))
    if len(indices) > 1:
        what = f"buffer {buffer.name} is not flat"
        raise LoopwrightError(explain(what, instead="run FlattenBuffer first"))
    return indices[0] if indices else _ZERO


class MemoryEmitter(ConversionEmitter):
    """Emits loads and stores."""

    # -- addresses -----------------------------------------------------------------------------

    def address(self, buffer: Buffer, index: PrimExpr) -> str:
        """The address of a scalar index."""
        base = self.var(buffer.data)
        if isinstance(index, IntImm) and index.value == 0:
            return base
        at = self.to_i64(self.index(index), index.dtype)
        kind = self.element_type(buffer.dtype)
        return self.value(f"getelementptr {kind}, ptr {base}, i64 {at}")

    @staticmethod
    def element_type(dtype: DataType) -> str:
        """The type of one element of a buffer, whose elements may be vectors."""
        memory = memory_type(dtype)
        return memory if dtype.lanes == 1 else f"[{dtype.lanes} x {memory}]"

    def addresses(self, buffer: Buffer, index: PrimExpr) -> str:
        """The addresses of a vector of indices."""
        lanes = index.dtype.lanes
        at = self.index(index)
        if index.dtype.bits < 64:
            wide = "sext" if index.dtype.is_int else "zext"
            at = self.value(f"{wide} {llvm_type(index.dtype)} {at} to <{lanes} x i64>")
        base, memory = self.var(buffer.data), memory_type(buffer.dtype)
        return self.value(f"getelementptr {memory}, ptr {base}, <{lanes} x i64> {at}")

    def or_zeros(self, cond: str, pointer: str) -> str:
        """The pointer where `cond` holds, else one to zeros: a guarded load without a branch."""
        self.module.need_zeros()
        return self.value(f"select i1 {cond}, ptr {pointer}, ptr @{ZEROS}")

    # -- loads ---------------------------------------------------------------------------------

    def load(self, node: BufferLoad) -> str:
        """A load; in the masked part of a vector choice only the wanted lanes are read."""
        index = flat_index(node.buffer, node.indices)
        mask = None if node.predicate is None else self.value_of(node.predicate)
        if self.mask is not None:
            mask = self.with_outer_mask(mask, node.dtype.lanes)
        return self.load_value(node.buffer, index, node.dtype, mask)

    def value_of(self, node: PrimExpr) -> str:
        """The value of a condition or datum inside an index."""
        before, self.indexing = self.indexing, False
        value = self.expr(node)
        self.indexing = before
        return value

    def with_outer_mask(self, mask: str | None, lanes: int) -> str | None:
        """A load's own mask and that of the choice it is in."""
        outer, width = self.mask  # type: ignore[misc]
        if lanes == 1 and width > 1:
            outer = self.any_lane(outer, width)
        elif lanes != width:
            return mask
        if mask is None:
            return outer
        return self.value(f"and {vector_of('i1', lanes)} {mask}, {outer}")

    def load_value(self, buffer: Buffer, index: PrimExpr, dtype: DataType, mask: str | None) -> str:
        """Load from a flat index; where `mask` does not hold the result is 0."""
        lanes = dtype.lanes
        if isinstance(index, Broadcast) and buffer.dtype.lanes == 1:
            some = None if mask is None else self.any_lane(mask, lanes)
            return self.spread(self.load_value(buffer, index.value, buffer.dtype, some), dtype)
        kind, align = vector_of(memory_type(buffer.dtype), lanes), buffer.dtype.itemsize
        if index.dtype.lanes == 1 or is_dense(index):
            pointer = self.address(buffer, index.base if isinstance(index, Ramp) else index)
            if mask is not None and lanes > 1:
                raw = self.masked_load("load", f"ptr {pointer}", buffer.dtype, lanes, mask)
            else:
                pointer = pointer if mask is None else self.or_zeros(mask, pointer)
                raw = self.fresh(f"load {kind}, ptr {pointer}, align {align}")
        else:
            self.check_scalar_elements(buffer)
            pointers = f"<{lanes} x ptr> {self.addresses(buffer, index)}"
            flags = mask or "splat (i1 true)"
            raw = self.masked_load("gather", pointers, buffer.dtype, lanes, flags)
        return self.from_memory(raw, buffer.dtype, dtype)

    @staticmethod
    def check_scalar_elements(buffer: Buffer) -> None:
        """Refuse gathers of vectors."""
        if buffer.dtype.lanes > 1:
            what = f"buffer {buffer.name} holds vectors: only neighbours can be read together"
            raise LoopwrightError(explain(what, got=str(buffer.dtype), instead="use a scalar type"))

    def masked_load(self, what: str, at: str, dtype: DataType, lanes: int, mask: str) -> str:
        """A masked load or gather of memory elements."""
        name, kind = self.masked_name(what, dtype, lanes)
        flags = f"<{lanes} x i1>"
        pointer = at.rsplit(" ", 1)[0]
        self.module.declare(name, f"declare {kind} @{name}({pointer}, i32 immarg, {flags}, {kind})")
        args = f"{at}, i32 {dtype.itemsize}, {flags} {mask}, {kind} zeroinitializer"
        return self.fresh(f"call {kind} @{name}({args})")

    @staticmethod
    def masked_name(what: str, dtype: DataType, lanes: int) -> tuple[str, str]:
        memory = memory_type(dtype)
        suffix = "p0" if what in ("load", "store") else f"v{lanes}p0"
        return f"llvm.masked.{what}.{tag(memory, lanes)}.{suffix}", vector_of(memory, lanes)

    def from_memory(self, raw: str, stored: DataType, dtype: DataType) -> str:
        """A loaded value as it is held in registers."""
        memory = memory_type(stored)
        if memory == scalar_type(stored):
            return raw
        kind = vector_of(memory, dtype.lanes)
        if stored.is_bool:
            zero = "zeroinitializer" if dtype.lanes > 1 else "0"
            return self.value(f"icmp ne {kind} {raw}, {zero}")
        return self.value(f"trunc {kind} {raw} to {llvm_type(dtype)}")

    # -- stores --------------------------------------------------------------------------------

    def to_memory(self, value: str, dtype: DataType) -> str:
        """A value as it is stored."""
        memory = memory_type(dtype)
        if memory == scalar_type(dtype):
            return value
        name = "sext" if dtype.is_int else "zext"
        return self.value(f"{name} {llvm_type(dtype)} {value} to {vector_of(memory, dtype.lanes)}")

    def store_value(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...], value: str, dtype: DataType, mask: Any
    ) -> None:
        """Store to a flat index, in the lanes of `mask`."""
        index = flat_index(buffer, indices)
        lanes, align = dtype.lanes, buffer.dtype.itemsize
        kind = vector_of(memory_type(buffer.dtype), lanes)
        value = self.to_memory(value, dtype)
        if index.dtype.lanes == 1 or is_dense(index):
            pointer = self.address(buffer, index.base if isinstance(index, Ramp) else index)
            if mask is None:
                self.emit(f"store {kind} {value}, ptr {pointer}, align {align}")
            elif lanes == 1:
                then, done = self.label("store"), self.label("stored")
                self.jump_if(mask, then, done)
                self.place(then)
                self.emit(f"store {kind} {value}, ptr {pointer}, align {align}")
                self.jump(done)
                self.place(done)
            else:
                self.masked_store("store", kind, value, f"ptr {pointer}", buffer.dtype, mask)
            return
        self.check_scalar_elements(buffer)
        pointers = f"<{lanes} x ptr> {self.addresses(buffer, index)}"
        flags = mask or "splat (i1 true)"
        self.masked_store("scatter", kind, value, pointers, buffer.dtype, flags)

    def masked_store(
        self, what: str, kind: str, value: str, at: str, dtype: DataType, mask: str
    ) -> None:
        """A masked store or scatter of memory elements."""
        lanes = int(kind[1 : kind.index(" ")])
        name, _ = self.masked_name(what, dtype, lanes)
        flags, pointer = f"<{lanes} x i1>", at.rsplit(" ", 1)[0]
        self.module.declare(name, f"declare void @{name}({kind}, {pointer}, i32 immarg, {flags})")
        self.emit(f"call void @{name}({kind} {value}, {at}, i32 {dtype.itemsize}, {flags} {mask})")
