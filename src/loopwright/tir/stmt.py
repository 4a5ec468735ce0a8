"""Statements of the loop language; installs `Buffer`'s access methods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from ..arith.analyzer import Analyzer
from ..base.errors import explain
from ..base.late import own_names
from ..ir.dtype import DataType
from ..ir.node import Node, as_dict, as_tuple, define, field, ignore
from ..ir.prim_expr import (
    Add,
    Call,
    IntImm,
    IterVar,
    Lanes,
    PrimExpr,
    Ramp,
    Range,
    ScalarLike,
    StringImm,
    Var,
)
from ..ir.prim_op import (
    cast,
    const,
    convert,
    convert_all,
    lanes_of,
    match_types,
    scalable_lanes,
    subtract,
    vscale_factor,
)
from ..ir.serialize import register_codec
from ..ir.structural import structural_equal
from ..runtime.tensor import PackedTensor, Tensor, tensor
from . import buffer as _buffer
from .buffer import Buffer, BufferRegion
from .expr import BufferLoad, access_dtype, check_indices, check_predicate, check_rank

if TYPE_CHECKING:
    from ..base.span import Span


class Stmt(Node):
    """Base class of statements."""


class LetStmt(Stmt):
    """`var = value` for `body`."""

    var: Var = define()
    value: PrimExpr = field(converter=convert)
    body: Stmt


class AttrStmt(Stmt):
    """An annotation `attr_key = value` of `node` within `body`."""

    node: Any
    attr_key: str
    value: PrimExpr = field(converter=convert)
    body: Stmt


class AssertStmt(Stmt):
    """Fails with `message` if `condition` does not hold; `body` runs after.

    The message is a text, or `T.tvm_tuple(text, value)`, where "{value}" in the text is the
    integer.
    """

    condition: PrimExpr = field(converter=convert)
    message: PrimExpr = field(converter=convert)
    body: Stmt

    @property
    def text_and_value(self) -> tuple[str, PrimExpr | None]:
        """The message, and the value of "{value}" in it."""
        parts = getattr(self.message, "args", (self.message,))
        text = parts[0].value if isinstance(parts[0], StringImm) else str(parts[0])
        return text, parts[1] if len(parts) > 1 else None


class BufferStore(Stmt):
    """`buffer[indices] = value`; if the last index is a vector, a vector store."""

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = field(default=None)

    def __init__(
        self,
        buffer: Buffer,
        value: Any,
        indices: Any,
        predicate: PrimExpr | None = None,
        span: Span | None = None,
    ) -> None:
        points = convert_all(indices)
        buffer = buffer if isinstance(buffer, Buffer) else convert(buffer)
        check_indices(buffer, points)
        check_predicate(points, predicate, "store")
        stored = access_dtype(buffer, points)
        value = convert(value) if isinstance(value, PrimExpr) else const(value, stored)
        if value.dtype != stored:
            what = f"buffer {buffer.name} holds {buffer.dtype}, and {stored} is stored"
            same = value.dtype.element == stored.element
            hint = "equal lanes (T.Broadcast repeats a scalar)" if same else "cast the value"
            raise TypeError(explain(what, got=f"a value of {value.dtype}", instead=hint, span=span))
        self._set(buffer, value, points, predicate, span)


class BufferRealize(Stmt):
    """`buffer` is realized within `bounds` in `body` if `condition` holds."""

    buffer: Buffer
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


class ForKind(IntEnum):
    """How the iterations of a loop are executed."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class For(Stmt):
    """`for loop_var in [min, min + extent)`."""

    loop_var: Var = define()
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = field(default=None)
    annotations: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self, loop_var: Var, min: ScalarLike, extent: ScalarLike, kind: int | ForKind, body: Stmt,
        thread_binding: IterVar | None = None, annotations: dict[str, Any] | None = None,
        span: Span | None = None,
    ) -> None:  # fmt: skip
        low = const(min, loop_var.dtype) if isinstance(min, int) else min
        size = const(extent, loop_var.dtype) if isinstance(extent, int) else extent
        self._set(
            loop_var, low, size, ForKind(kind), body, thread_binding, dict(annotations or {}), span
        )

    @property
    def range(self) -> Range:
        """The values of the loop variable."""
        return Range.from_min_extent(self.min, self.extent)


class While(Stmt):
    """Repeat `body` while `condition` holds."""

    condition: PrimExpr = field(converter=convert)
    body: Stmt


class Allocate(Stmt):
    """`buffer_var` points to `extents` elements of `dtype` within `body`."""

    ALIGNED: ClassVar[str] = "alignment"  # the annotation that requests more alignment

    buffer_var: Var = define()
    dtype: DataType = field(converter=DataType)
    extents: tuple[PrimExpr, ...] = field(converter=convert_all)
    condition: PrimExpr = field(converter=convert)
    body: Stmt
    annotations: dict[str, Any] = field(default_factory=dict, converter=as_dict)

    @property
    def alignment(self) -> int:
        """Of the memory, in bytes."""
        annotation = self.annotations.get(self.ALIGNED, 0)
        return max(int(getattr(annotation, "value", annotation)), _buffer.ALIGNMENT)


# Constant data is compared and serialized as an array.
register_codec(Tensor, "tensor", Tensor.numpy, tensor)
register_codec(
    PackedTensor,
    "packed",
    lambda t: [t.bytes(), t.dtype, list(t.shape)],
    lambda parts: PackedTensor(parts[0].copy(), parts[1], tuple(parts[2])),
)


class AllocateConst(Stmt):
    """`buffer_var` points to constant data within `body`; `data` is a `runtime.Tensor`."""

    buffer_var: Var = define()
    dtype: DataType
    extents: tuple[PrimExpr, ...]
    data: Tensor
    body: Stmt
    annotations: dict[str, Any] = field(default_factory=dict)

    def __init__(
        self, buffer_var: Var, dtype: str, extents: Sequence[ScalarLike], data_or_idx: Any,
        body: Stmt, annotations: dict[str, Any] | None = None, span: Span | None = None,
    ) -> None:  # fmt: skip
        sizes, notes = convert_all(extents), dict(annotations or {})
        data = data_or_idx if isinstance(data_or_idx, Tensor) else tensor(data_or_idx, dtype=dtype)
        self._set(buffer_var, DataType(dtype), sizes, data, body, notes, span)


class DeclBuffer(Stmt):
    """`buffer` is a name for existing memory within `body`."""

    buffer: Buffer = define()
    body: Stmt


class SeqStmt(Stmt):
    """Statements one after the other."""

    seq: tuple[Stmt, ...] = field(converter=as_tuple)

    def __getitem__(self, i: int) -> Stmt:
        return self.seq[i]

    def __len__(self) -> int:
        return len(self.seq)


def serial_nest(variables: Sequence[Var], extents: Iterable[ScalarLike], body: Stmt) -> Stmt:
    """Serial loops from 0 around a statement, that of the first variable outermost."""
    for var, extent in reversed(list(zip(variables, extents, strict=True))):
        body = For(var, 0, extent, ForKind.SERIAL, body)
    return body


def seq(*stmts: Any) -> Stmt:
    """One statement from several; nested sequences are flattened, None is dropped."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, (list, tuple)):
            stmt = seq(*stmt)
        if isinstance(stmt, SeqStmt):
            flat.extend(stmt.seq)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def stmt_seq(*args: Stmt) -> Stmt:
    """One statement from several statements, or expressions to evaluate."""
    return seq(*(a if isinstance(a, Stmt) else Evaluate(a) for a in args))


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, with nested ones flattened."""
    if isinstance(stmt, SeqStmt):
        return [part for item in stmt.seq for part in stmt_list(item)]
    return [stmt]


class IfThenElse(Stmt):
    """`then_case` if `condition` holds, else `else_case`."""

    condition: PrimExpr = field(converter=convert)
    then_case: Stmt
    else_case: Stmt | None = field(default=None)


class Evaluate(Stmt):
    """Evaluate an expression for its side effect."""

    value: PrimExpr = field(converter=convert)


class MatchBufferRegion(Node):
    """`buffer` is an alias of the box `source` of another buffer, within a block."""

    buffer: Buffer = define()
    source: BufferRegion


def _block_name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(explain("the name of a block is a string", got=type(name).__name__))
    return name


class Block(Stmt):
    """A unit of computation: its axes, the regions it reads and writes, and its body.

    `init` runs at the first iteration of the reduction axes.
    """

    iter_vars: tuple[IterVar, ...] = define(converter=as_tuple)
    reads: tuple[BufferRegion, ...] = field(converter=as_tuple)
    writes: tuple[BufferRegion, ...] = field(converter=as_tuple)
    name_hint: str = ignore(converter=_block_name)
    body: Stmt
    init: Stmt | None = field(default=None)
    alloc_buffers: tuple[Buffer, ...] = define(default_factory=tuple, converter=as_tuple)
    match_buffers: tuple[MatchBufferRegion, ...] = field(default_factory=tuple, converter=as_tuple)
    annotations: dict[str, Any] = field(default_factory=dict, converter=as_dict)

    def structural_compare(self, other: Block, comparer: Any, path: str, defining: bool) -> None:
        """Definitions first: axes, allocations and matches come before their uses."""
        for name in _BLOCK_ORDER:
            defines = defining or name in ("iter_vars", "alloc_buffers")
            a, b = getattr(self, name), getattr(other, name)
            comparer.compare(a, b, f"{path}.{name}", defines)

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """In the order of `structural_compare`."""
        parts = []
        for name in _BLOCK_ORDER:
            defines = defining or name in ("iter_vars", "alloc_buffers")
            parts.append(hasher.hash(getattr(self, name), defines))
        return hash(("tir.Block", *parts))


_BLOCK_ORDER = ("iter_vars", "alloc_buffers", "match_buffers", "annotations")
_BLOCK_ORDER += ("reads", "writes", "init", "body")


class BlockRealize(Stmt):
    """Runs a block with its axes bound to `iter_values`, if `predicate` holds."""

    iter_values: tuple[PrimExpr, ...] = field(converter=convert_all)
    predicate: PrimExpr = field(converter=convert)
    block: Block


def _vector_index(begin: int | Sequence[ScalarLike], lanes: Lanes) -> list[PrimExpr]:
    if isinstance(begin, (int, PrimExpr)):
        begin = [begin]
    indices = [convert(i) for i in begin]
    if lanes != 1 and indices[-1].dtype.lanes == 1:
        indices[-1] = Ramp(indices[-1], const(1, indices[-1].dtype), lanes)
    return indices


def _load(
    buffer: Buffer, begin: int | Sequence[ScalarLike], dtype: str | None, predicate: PrimExpr | None
) -> PrimExpr:
    lanes = lanes_of(DataType(dtype)) if dtype is not None else 1
    return BufferLoad(buffer, _vector_index(begin, lanes), predicate)


def _store(
    buffer: Buffer, begin: Sequence[ScalarLike], value: ScalarLike, predicate: PrimExpr | None
) -> Stmt:
    if isinstance(value, BufferRegion):
        value = region_load(value)
    value = convert(value) if isinstance(value, PrimExpr) else const(value, buffer.dtype)
    return BufferStore(buffer, value, _vector_index(begin, lanes_of(value.dtype)), predicate)


def region_load(region: BufferRegion) -> PrimExpr:
    """The vector load of a region of constant size."""
    indices: list[PrimExpr] = []
    for axis in region.region:
        lanes, one = _slice_lanes(axis.extent), const(1, axis.min.dtype)
        indices.append(axis.min if lanes == 1 else Ramp(axis.min, one, lanes))
    return BufferLoad(region.buffer, indices)


def _slice_lanes(length: PrimExpr, step: int = 1) -> Lanes:
    """The lanes of a slice of a length. Raises ValueError where it is neither constant nor a
    multiple of the machine's vectors."""
    if isinstance(length, IntImm):
        return -(-length.value // step)
    factor = vscale_factor(length)
    if factor is None or factor % step:
        what = "a slice used as a vector has a constant length"
        raise ValueError(explain(what, got=str(length), instead="use T.Ramp, or a loop"))
    return scalable_lanes(factor // step)


def _item(buffer: Buffer, indices: object) -> Any:
    points = list(indices) if isinstance(indices, (tuple, list)) else [indices]
    if not any(isinstance(i, slice) for i in points):
        return BufferLoad(buffer, points)
    if any(isinstance(i, slice) and i.step is not None for i in points):
        return BufferLoad(buffer, [slice_to_index(i, n) for i, n in _pairs(points, buffer)])
    return BufferRegion(buffer, tuple(_slice_to_range(i, n) for i, n in _pairs(points, buffer)))


def _pairs(points: list[Any], buffer: Buffer) -> Any:
    check_rank(buffer, tuple(points))
    return zip(points, buffer.shape, strict=True)


def _slice_to_range(item: slice | PrimExpr | int, extent: PrimExpr) -> Range:
    if not isinstance(item, slice):
        low = convert(item)
        return Range.from_min_extent(low, const(1, low.dtype))
    start = const(0, extent.dtype) if item.start is None else item.start
    start, stop = match_types(start, extent if item.stop is None else item.stop)
    if isinstance(stop, Add) and structural_equal(stop.a, start):
        size = stop.b  # A[i * 4 : i * 4 + 4]: the printed form of regions
    else:
        size = subtract(stop, start)
        if not isinstance(size, IntImm):
            size = Analyzer().simplify(size)
    return Range.from_min_extent(start, size)


def slice_to_index(item: slice | PrimExpr, extent: PrimExpr) -> PrimExpr:
    """An index from one entry of a subscript; a slice of constant length is a vector."""
    if not isinstance(item, slice):
        return convert(item)
    start, stop = match_types(
        0 if item.start is None else item.start, extent if item.stop is None else item.stop
    )
    step = 1 if item.step is None else item.step
    length = Analyzer().simplify(subtract(stop, start))
    lanes = _slice_lanes(length, int(step))
    return start if lanes == 1 else Ramp(start, cast(start.dtype, convert(step)), lanes)


_MASKS = {"r": 1, "w": 2}


def _access_ptr(
    buffer: Buffer,
    mask: int | str,
    ptr_type: str,
    lanes: int,
    offset: ScalarLike,
    extent: ScalarLike | None,
) -> PrimExpr:
    if isinstance(mask, str):
        unknown = set(mask) - set(_MASKS)
        if unknown:
            raise ValueError(explain("unknown access mask", got=mask, instead='use "r", "w", "rw"'))
        mask = sum(_MASKS[c] for c in set(mask))
    start = offset if buffer.elem_offset is None else buffer.elem_offset + offset
    if extent is None:
        flat = buffer.replace(axis_separators=()) if buffer.axis_separators else buffer
        extent = subtract(flat.get_flattened_buffer().shape[0], offset)
    element = DataType(buffer.dtype).with_lanes(lanes)
    tag = Call(element, "tir.type_annotation", [])
    args = [tag, buffer.data, convert(start), convert(extent), const(mask, "int32")]
    return Call(ptr_type, "tir.tvm_access_ptr", args)


ACCESS = _buffer.Access(_load, _store, _item, _access_ptr)


__all__ = own_names(globals(), type)
