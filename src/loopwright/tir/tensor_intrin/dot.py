"""Dot products of four numbers, for several rows: the description, and parts of implementations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ...ir.functor import nodes_of
from ...ir.prim_expr import Broadcast, IntImm, IterVar, PrimExpr, Ramp, Range, Shuffle, Var
from ...ir.prim_op import add, cast, const, multiply
from ..buffer import Buffer, BufferRegion, decl_buffer
from ..expr import BufferLoad
from ..function import PrimFunc, TensorIntrin
from ..op import reinterpret
from ..stmt import Block, BlockRealize, BufferStore, Stmt, serial_nest

Update = Callable[[Buffer, Buffer, Buffer], Stmt]


@dataclass(frozen=True)
class Dot:
    """C[i] += sum over k of A[k] * B[i, k]: i < lanes (one: C[0], B[k]), k < depth, and the types of A, B, C; if
    `each`, of A[k, i] * B[i, k].

    `update(A, B, C)` is the statement that does it at once; scopes: of A, B and C.
    """

    lanes: int
    a: str
    b: str
    c: str
    update: Update
    depth: int = 4
    each: bool = False
    scopes: tuple[str, str, str] = ("global", "global", "global")


def dot(spec: Dot) -> TensorIntrin:
    """The intrinsic of a dot product."""
    rows, depth, dtypes = spec.lanes, spec.depth, (spec.a, spec.b, spec.c)
    left_shape = (depth, rows) if spec.each else (depth,)
    shapes = [left_shape, (rows, depth) if rows > 1 else (depth,), (rows,)]
    parts = list(zip("ABC", shapes, dtypes, spec.scopes, strict=True))

    def loops(left: Buffer, right: Buffer, out: Buffer) -> Stmt:
        def store(*axes: PrimExpr) -> BufferStore:
            at, k = [*axes[:-1], const(0)][:1], axes[-1]
            own = [k, *at] if spec.each else [k]
            factors = BufferLoad(left, own), BufferLoad(right, list(axes))
            product = multiply(*(cast(out.dtype, x) for x in factors))
            return BufferStore(out, add(BufferLoad(out, at), product), at)

        return nest("update", {**({"i": rows} if rows > 1 else {}), "k": depth}, store)

    def function(body: Update) -> PrimFunc:
        buffers = [decl_buffer(s, t, n, scope=m, offset_factor=1) for n, s, t, m in parts]
        left, right, out = buffers
        return around(buffers, body(*buffers), reads=(out, left, right))

    return TensorIntrin(function(loops), function(spec.update))


def around(
    buffers: Sequence[Buffer], body: Stmt, reads: Sequence[Buffer], name: str = "root"
) -> PrimFunc:
    """A function of buffers whose body reads all of some, and writes the last."""
    regions = [BufferRegion.full_region(x) for x in reads]
    root = Block([], regions, [BufferRegion.full_region(buffers[-1])], name, body)
    params = [Var(x.name, "handle") for x in buffers]
    buffer_map = dict(zip(params, buffers, strict=True))
    return PrimFunc(params, BlockRealize([], True, root), buffer_map=buffer_map)


def nest(name: str, extents: dict[str, int], store: Callable[..., BufferStore]) -> Stmt:
    """A block in a loop per axis, which stores `store(*axes)`; the axis "k" is reduced."""
    loops = [Var(axis, "int32") for axis in extents]
    kinds = [IterVar.CommReduce if axis == "k" else IterVar.DataPar for axis in extents]
    axes = [
        IterVar(Range(extent), Var(f"v{axis}", "int32"), kind)
        for (axis, extent), kind in zip(extents.items(), kinds, strict=True)
    ]
    done = store(*(axis.var for axis in axes))
    reads, write = (
        [BufferRegion.from_point(x.buffer, x.indices) for x in accesses]
        for accesses in (nodes_of(done.value, BufferLoad), [done])
    )
    realize = BlockRealize(loops, True, Block(axes, reads, write, name, done))
    return serial_nest(loops, extents.values(), realize)


def size(extent: PrimExpr) -> int:
    """The value of a constant extent."""
    assert isinstance(extent, IntImm)
    return extent.value


def lanes(buffer: Buffer, *lead: int) -> BufferLoad:
    """All elements of the last dimension."""
    ramp = Ramp(const(0), const(1), size(buffer.shape[-1]))
    return BufferLoad(buffer, [*map(const, lead), ramp])


def rows_of(b: Buffer, rows: range) -> PrimExpr:
    """Rows of 32 bits as one vector of int32. LLVM merges the loads of adjacent
    rows; in a window of a larger buffer they need not be adjacent."""
    return Shuffle([reinterpret("int32", lanes(b, n)) for n in rows], list(range(len(rows))))


def store(c: Buffer, value: PrimExpr) -> Stmt:
    return BufferStore(c, value, [Ramp(const(0), const(1), size(c.shape[0]))])


def left_of(a: Buffer, rows: range) -> PrimExpr:
    """The elements of A for each row, of 32 bits together, as numbers of int32."""
    if len(a.shape) == 1:
        return Broadcast(reinterpret("int32", lanes(a)), len(rows))
    depth, count = map(size, a.shape)
    # One load, words of four bytes across groups of 128 bits, bytes within: an instruction each.
    whole = Shuffle([lanes(a, k) for k in range(depth)], list(range(depth * count)))
    if (depth, a.dtype.bits, len(rows) % 4) != (4, 8, 0):
        order = [k * count + i for i in rows for k in range(depth)]
        return reinterpret(f"int32x{len(rows)}", Shuffle([whole], order))
    fours = [k * (count // 4) + i // 4 for i in rows[::4] for k in range(4)]
    groups = Shuffle([reinterpret(f"int32x{count}", whole)], fours)
    order = [16 * g + 4 * k + i for g in range(len(rows) // 4) for i in range(4) for k in range(4)]
    own = Shuffle([reinterpret(f"{a.dtype}x{4 * len(rows)}", groups)], order)
    return reinterpret(f"int32x{len(rows)}", own)


def register(name: str, spec: Dot) -> None:
    """Register an intrinsic under a name; it is built on first use."""
    TensorIntrin.register_maker(name, partial(dot, spec))
