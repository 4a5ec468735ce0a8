"""Reductions across the threads of warps, by shuffles: for `LowerThreadAllreduce`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ....ir.prim_expr import EQ, LT, Call, IntImm, PrimExpr, StringImm, Var
from ....ir.prim_op import add, const, floordiv, floormod, multiply
from ....ir.target import Target
from ...buffer import Buffer, decl_buffer
from ...expr import BufferLoad, CommReducer
from ...stmt import Allocate, BufferStore, DeclBuffer, Evaluate, IfThenElse, LetStmt, Stmt, seq
from ..base import Substitute

_WARPS = ("cuda", "rocm", "metal")  # kinds of targets


def int32(value: int) -> PrimExpr:
    """A literal."""
    return const(value, "int32")


def barrier() -> Stmt:
    """All threads of the block meet."""
    return Evaluate(Call("int32", "tir.tvm_storage_sync", [StringImm("shared")]))


def combined(
    reducer: CommReducer,
    to: Sequence[Buffer],
    lhs: Sequence[PrimExpr],
    rhs: Sequence[PrimExpr],
    index: PrimExpr,
) -> Stmt:
    """Stores the results of a reducer for two sets of values."""
    table: dict[Any, Any] = dict(zip((*reducer.lhs, *reducer.rhs), (*lhs, *rhs), strict=True))
    results = [Substitute(table).visit(r) for r in reducer.result]
    if len(results) == 1:
        return BufferStore(to[0], results[0], [index])
    # All are taken before the first is stored.
    names = [Var(f"v{k}", r.dtype) for k, r in enumerate(results)]
    body = seq(*(BufferStore(b, v, [index]) for b, v in zip(to, names, strict=True)))
    for name, result in reversed(list(zip(names, results, strict=True))):
        body = LetStmt(name, result, body)
    return body


@dataclass(frozen=True)
class Threads:
    """The threads that reduce, and the groups of them: the number of the current one, and how many
    there are. next: how many of the reducing ones have numbers in a row."""

    index: PrimExpr
    size: int
    group: PrimExpr
    groups: int
    next: int


@dataclass(frozen=True)
class Warps:
    """The capabilities of a target's warps."""

    size: int
    masked: bool
    only_whole: bool
    most_threads: int

    @staticmethod
    def of(target: Target | None) -> Warps | None:
        """None for a target without warps."""
        if target is None or target.kind.name not in _WARPS:
            return None
        most = target.attrs.get("max_num_threads", target.max_num_threads)
        kind = target.kind.name
        return Warps(int(target.thread_warp_size), kind != "metal", kind == "rocm", int(most or -1))

    def fit(self, threads: Threads, values: Sequence[PrimExpr]) -> bool:
        """Whether threads can reduce values by shuffles."""
        for dtype in (v.dtype for v in values):
            bits = dtype.bits * dtype.lanes
            whole = dtype.lanes == 1 and 32 <= dtype.bits <= 64
            if not (whole or (dtype.base == "float16" and dtype.lanes == 2)):
                return False
            if self.only_whole and bits != 32:
                return False
        size = threads.size
        if threads.next != size or size == 1:
            return False
        if self.only_whole:
            return size == self.size
        several = size % self.size == 0 and 0 < self.most_threads <= self.size**2
        return self.size % size == 0 or several or (threads.groups == 1 and size <= self.size)


class WarpReduction:
    """The statements of a reduction, and the buffers that they need, outermost last."""

    def __init__(self, warps: Warps, reducer: CommReducer, threads: Threads) -> None:
        self.warps, self.reducer, self.threads = warps, reducer, threads
        self.stmts: list[Stmt] = []
        self.buffers: list[Buffer] = []

    def around(self) -> Stmt:
        """The statements with their memory."""
        body = seq(*self.stmts)
        for buffer in self.buffers:
            body = DeclBuffer(buffer, body)
            body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True), body)
        return body

    def in_warp(self, values: Sequence[PrimExpr], results: Sequence[Buffer]) -> None:
        """Reduces in each warp or part of it, and broadcasts the result to all threads."""
        threads = self.threads
        mask = self.shuffled(values, results, threads.size, None)
        first = multiply(int32(threads.size), threads.group)
        for buffer in results:
            value = BufferLoad(buffer, [int32(0)])
            self.stmts.append(BufferStore(buffer, self.shuffle("", mask, value, first), [int32(0)]))

    def across_warps(self, values: Sequence[PrimExpr], shared: Sequence[Buffer]) -> None:
        """Reduces in each warp, then the warps' results in the first one, to shared memory."""
        threads, width = self.threads, self.warps.size
        count = threads.size // width
        start = multiply(threads.group, int32(count))
        staging = [
            decl_buffer((count * threads.groups,), v.dtype, "red_buf_staging", scope="shared")
            for v in values
        ]
        self.buffers += staging
        own = self.local(values, "red_buf")
        self.shuffled(values, own, width, None)
        self.buffers += own
        slot = add(start, floordiv(threads.index, int32(width)))
        stores = [_store(b, o, slot) for b, o in zip(staging, own, strict=True)]
        first = EQ(floormod(threads.index, int32(width)), int32(0))
        self.stmts += [IfThenElse(first, seq(*stores)), barrier()]
        loads = [BufferLoad(b, [add(start, threads.index)]) for b in staging]
        total = self.local(values, "red_buf")
        self.shuffled(loads, total, count, LT(threads.index, int32(count)))
        self.buffers += total
        stores = [_store(b, t, threads.group) for b, t in zip(shared, total, strict=True)]
        self.stmts += [IfThenElse(EQ(threads.index, int32(0)), seq(*stores)), barrier()]

    def local(self, values: Sequence[PrimExpr], name: str) -> list[Buffer]:
        return [
            decl_buffer((1,), v.dtype, f"{name}{n}", scope="local") for n, v in enumerate(values)
        ]

    def shuffled(
        self,
        values: Sequence[PrimExpr],
        results: Sequence[Buffer],
        size: int,
        condition: PrimExpr | None,
    ) -> PrimExpr:
        """The first lane of each `size` gets the result of all; the mask of the active lanes."""
        zero = int32(0)
        stores = [BufferStore(b, v, [zero]) for b, v in zip(results, values, strict=True)]
        self.stmts += stores if condition is None else [IfThenElse(condition, seq(*stores))]
        others = self.local(values, "t")
        self.buffers += others
        mask: PrimExpr = zero
        if self.warps.masked:
            buffer = decl_buffer((1,), "uint32", "mask", scope="local")
            active = Call("uint32", "tir.tvm_warp_activemask", [])
            self.stmts.append(BufferStore(buffer, active, [zero]))
            self.buffers.append(buffer)
            mask = BufferLoad(buffer, [zero])
        own = [BufferLoad(b, [zero]) for b in results]
        other = [BufferLoad(b, [zero]) for b in others]
        offset = 1 << ((size - 1).bit_length() - 1)
        while offset:
            for buffer, value in zip(others, own, strict=True):
                moved = self.shuffle("_down", mask, value, int32(offset))
                self.stmts.append(BufferStore(buffer, moved, [zero]))
            stores = [combined(self.reducer, results, own, other, zero)]
            if offset * 2 > size:  # lanes beyond the last have no values
                inside = LT(add(self.threads.index, int32(offset)), int32(size))
                stores = [IfThenElse(inside, seq(*stores))]
            self.stmts += stores
            offset //= 2
        return mask

    def shuffle(self, kind: str, mask: PrimExpr, value: PrimExpr, lane: PrimExpr) -> PrimExpr:
        width = IntImm("int32", self.warps.size)
        name = f"tir.tvm_warp_shuffle{kind}"
        return Call(value.dtype, name, [mask, value, lane, width, width])


def _store(to: Buffer, of: Buffer, index: PrimExpr) -> Stmt:
    return BufferStore(to, BufferLoad(of, [int32(0)]), [index])
