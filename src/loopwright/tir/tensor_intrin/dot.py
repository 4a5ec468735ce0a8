"""Dot products of four numbers, for several rows: the description, and parts of implementations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...ir.prim_expr import Broadcast, IntImm, IterVar, PrimExpr, Ramp, Range, Shuffle, Var
from ...ir.prim_op import add, cast, const, multiply
from ..buffer import Buffer, BufferRegion, decl_buffer
from ..expr import BufferLoad
from ..function import PrimFunc, TensorIntrin
from ..op import reinterpret
from ..stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt

Update = Callable[[Buffer, Buffer, Buffer], Stmt]
Spec = tuple[int, str, str, str, Update]


def dot(spec: Spec, depth: int = 4, scopes: tuple[str, ...] = ("global",) * 3) -> TensorIntrin:
    """C[i] += sum over `depth` k of A[k] * B[i, k] for i in the rows (one row: C[0], B[k]).

    `update(A, B, C)` is the statement that does it in one go; scopes: where A, B and C lie.
    """
    loops = partial(_loops, spec[0], depth)
    desc = _function((*spec[:4], loops), depth, scopes)
    return TensorIntrin(desc, _function(spec, depth, scopes))


def _function(spec: Spec, depth: int, scopes: tuple[str, ...]) -> PrimFunc:
    rows, a, b, c, body = spec
    shapes = [(depth,), (rows, depth) if rows > 1 else (depth,), (rows,)]
    parts = zip("ABC", shapes, (a, b, c), scopes, strict=True)
    buffers = [decl_buffer(s, t, n, scope=m, offset_factor=1) for n, s, t, m in parts]
    left, right, out = buffers
    reads = [BufferRegion.full_region(x) for x in (out, left, right)]
    root = Block([], reads, [reads[0]], "root", body(*buffers))
    params = [Var(x.name, "handle") for x in buffers]
    return PrimFunc(
        params, BlockRealize([], True, root), buffer_map=dict(zip(params, buffers, strict=True))
    )


def _loops(rows: int, depth: int, a: Buffer, b: Buffer, c: Buffer) -> Stmt:
    """The description: one block in a loop over the rows and one over the products."""
    i, k = Var("i", "int32"), Var("k", "int32")
    vi = IterVar(Range(rows), Var("vi", "int32"), IterVar.DataPar)
    vk = IterVar(Range(depth), Var("vk", "int32"), IterVar.CommReduce)
    at = [vi.var] if rows > 1 else [const(0)]
    weight = BufferLoad(b, [vi.var, vk.var] if rows > 1 else [vk.var])
    product = multiply(cast(c.dtype, BufferLoad(a, [vk.var])), cast(c.dtype, weight))
    store = BufferStore(c, add(BufferLoad(c, at), product), at)
    axes, loops = ([vi, vk], [(i, rows), (k, depth)]) if rows > 1 else ([vk], [(k, depth)])
    regions = [BufferRegion.from_point(x.buffer, x.indices) for x in (store.value.a, weight)]
    first = BufferRegion.from_point(a, [vk.var])
    block = Block(axes, [regions[0], first, regions[1]], [regions[0]], "update", store)
    nest: Stmt = BlockRealize([v for v, _ in loops], True, block)
    for var, extent in reversed(loops):
        nest = For(var, 0, extent, ForKind.SERIAL, nest)
    return nest


def size(extent: PrimExpr) -> int:
    """The value of a constant extent."""
    assert isinstance(extent, IntImm)
    return extent.value


def lanes(buffer: Buffer, *lead: int) -> BufferLoad:
    """All elements of the last dimension."""
    ramp = Ramp(const(0), const(1), size(buffer.shape[-1]))
    return BufferLoad(buffer, [*map(const, lead), ramp])


def rows_of(b: Buffer, rows: range) -> PrimExpr:
    """Rows of four bytes as one vector of int32. LLVM merges the loads of adjacent
    rows; in a window of a larger buffer they need not be adjacent."""
    return Shuffle([reinterpret("int32", lanes(b, n)) for n in rows], list(range(len(rows))))


def store(c: Buffer, value: PrimExpr) -> Stmt:
    return BufferStore(c, value, [Ramp(const(0), const(1), size(c.shape[0]))])


def four_times(a: Buffer, rows: int) -> PrimExpr:
    """The four elements of A as one number, for each row."""
    return Broadcast(reinterpret("int32", lanes(a)), rows)


def register(name: str, spec: Spec, **options: Any) -> None:
    """Register the intrinsic `dot(spec, **options)` under a name; it is built on first use."""
    TensorIntrin.register_maker(name, partial(dot, spec, **options))
