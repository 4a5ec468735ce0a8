"""Buffers: multi-dimensional views of memory, the operands of loads and stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..arith.analyzer import Analyzer
from ..base.errors import explain
from ..base.late import Slot
from ..ir.dtype import DataType
from ..ir.literals import is_zero
from ..ir.node import Node, define, field, ignore
from ..ir.prim_expr import IntImm, PointerType, PrimExpr, Range, ScalarLike, Var
from ..ir.prim_op import add, const, convert, multiply

if TYPE_CHECKING:
    from ..base.span import Span


class Access(NamedTuple):
    """The nodes that access a buffer; those of expressions and statements are in higher files."""

    load: Callable[..., PrimExpr]
    store: Callable[..., Any]
    item: Callable[..., Any]
    pointer: Callable[..., PrimExpr]


ACCESS: Slot[Access] = Slot("tir.buffer_access")


ALIGNMENT = 64  # of all memory passed to kernels, in bytes, if no other is requested
MOST_ALIGNMENT = 4096  # that memory can have: a page


class Buffer(Node):
    """Memory seen as an array: `data` points to it, `shape` and `strides` count elements.

    Empty strides mean row-major and compact. `elem_offset` is the offset of element 0, in
    elements. A buffer has identity (like a variable); structural equality matches the
    buffers of two functions at their definitions.
    """

    data: Var = define()
    dtype: DataType
    shape: tuple[PrimExpr, ...]
    strides: tuple[PrimExpr, ...] = field(default=())
    elem_offset: PrimExpr | None = field(default=None)
    name: str = ignore(default="buffer")
    data_alignment: int = field(default=ALIGNMENT)
    offset_factor: int = field(default=1)
    buffer_type: str = field(default="default")
    axis_separators: tuple[int, ...] = field(default=())

    READ: ClassVar[int] = 1  # masks of `access_ptr`
    WRITE: ClassVar[int] = 2

    bound_by_identity: ClassVar[bool] = True
    compare_when_free: ClassVar[bool] = True

    def scope(self) -> str:
        """The memory scope: "global", "local", "shared", ..."""
        return self.data.type_annotation[1] if self.data.type_annotation else "global"

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def with_data(self, data: Var) -> Buffer:
        """The same view with other memory."""
        return self.replace(data=data)

    def axis_groups(self) -> list[slice]:
        """The runs of axes between the axis separators: one for each dimension of the memory."""
        ends = [0, *self.axis_separators, len(self.shape)]
        return [slice(first, last) for first, last in pairwise(ends)]

    def offset_of(self, indices: Sequence[ScalarLike]) -> list[PrimExpr]:
        """Element offset of `indices` from the start of `data`, simplified: one for each dimension
        of the memory: a single one without axis separators."""
        return [Analyzer().simplify(offset) for offset in self.offsets(indices)]

    def offsets(self, indices: Sequence[ScalarLike]) -> list[PrimExpr]:
        """`offset_of` as the sum of products that it is."""
        converted = [convert(i) for i in indices]
        if not self.axis_separators:
            return [self.flat_offset(converted)]
        if self.elem_offset is not None:
            what = f"buffer {self.name} has axis separators, and then no elem_offset"
            raise ValueError(explain(what, got=str(self.elem_offset)))
        return [self._offset(converted, axes) for axes in self.axis_groups()]

    def flat_offset(self, indices: list[PrimExpr]) -> PrimExpr:
        """Element offset of `indices` from the start of `data`, whose memory has one dimension."""
        total = self._offset(indices, slice(None))
        return total if self.elem_offset is None else add(total, self.elem_offset)

    def _offset(self, indices: list[PrimExpr], axes: slice) -> PrimExpr:
        total: PrimExpr = const(0, self.shape[0].dtype if self.shape else "int32")
        if self.strides:
            for index, stride in zip(indices[axes], self.strides[axes], strict=True):
                total = add(total, multiply(index, stride))
        else:
            for index, extent in zip(indices[axes], self.shape[axes], strict=True):
                total = add(multiply(total, extent), index)
        return total

    def get_flattened_buffer(self) -> Buffer:
        """The same memory as a buffer of one dimension, or of one more than there are axis separators."""
        groups = self.axis_groups()
        if len(groups) == len(self.shape) and not self.strides:
            return self
        sizes = tuple(self._size(axes) for axes in groups)
        return self.replace(shape=sizes, strides=(), axis_separators=tuple(range(1, len(groups))))

    def _size(self, axes: slice) -> PrimExpr:
        shape = self.shape[axes]
        if self.strides and shape:
            return multiply(self.strides[axes.start], shape[0])
        size, literal = const(1, self.shape[0].dtype if self.shape else "int32"), 1
        for extent in shape:  # literals last: n * m * 32
            if isinstance(extent, IntImm):
                literal *= extent.value
            else:
                size = multiply(size, extent)
        return multiply(size, const(literal, size.dtype))

    def vload(
        self,
        begin: int | Sequence[ScalarLike],
        dtype: str | None = None,
        predicate: PrimExpr | None = None,
    ) -> PrimExpr:
        """Load from the index `begin`; a vector `dtype` loads consecutive elements."""
        return ACCESS.get().load(self, begin, dtype, predicate)

    def vstore(
        self, begin: Sequence[ScalarLike], value: ScalarLike, predicate: PrimExpr | None = None
    ) -> Any:
        """Store `value` at the index `begin`; a vector value stores consecutive elements."""
        return ACCESS.get().store(self, begin, value, predicate)

    def access_ptr(
        self,
        access_mask: int | str = "rw",
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: ScalarLike = 0,
        extent: ScalarLike | None = None,
    ) -> PrimExpr:
        """A pointer into the buffer for external calls; mask "r" is 1, "w" is 2."""
        return ACCESS.get().pointer(self, access_mask, ptr_type, content_lanes, offset, extent)

    def __getitem__(self, indices: Any) -> Any:
        """`B[i, j]` is a load; with slices, a `BufferRegion` (or a vector load for a step)."""
        return ACCESS.get().item(self, indices)

    if TYPE_CHECKING:  # stores are parsed, never run by Python

        def __setitem__(self, indices: Any, value: Any) -> None: ...


class DataProducer(Node):
    """The operand of a `ProducerLoad`: a te.Tensor."""


def normalize_shape(shape: int | Sequence[ScalarLike]) -> tuple[PrimExpr, ...]:
    """A shape from an int, an expression or a sequence of them."""
    if isinstance(shape, (int, PrimExpr)):
        shape = (shape,)
    return tuple(map(_extent, shape))


def _extent(value: ScalarLike) -> PrimExpr:
    extent = convert(value)
    if not isinstance(extent, PrimExpr) or not extent.dtype.is_integer:
        what = "an extent of a buffer is an integer or an expression of one"
        raise TypeError(explain(what, got=repr(value)))
    return extent


def pointed(dtype: DataType, scope: str) -> PointerType:
    """The annotation of a pointer to elements: a bool is a byte in memory."""
    return PointerType("int8" if dtype.is_bool else str(dtype), scope)


def decl_buffer(
    shape: Any, dtype: str | None = None, name: str = "buffer", data: Var | None = None,
    strides: Sequence[ScalarLike] | None = None, elem_offset: ScalarLike | None = None,
    scope: str = "", data_alignment: int = -1, offset_factor: int = 0, buffer_type: str = "",
    axis_separators: Sequence[Any] | None = None, span: Span | None = None,
) -> Buffer:  # fmt: skip
    """A buffer symbol. dtype defaults to float32; strides may mix ints and expressions.

    Raises ValueError if the number of strides is not the number of dimensions, the alignment (of
    the data pointer, in bytes) is not a power of two, or a separator of axes is outside of the
    shape; TypeError if `data` is not a variable.
    """
    dims = normalize_shape(shape)
    made_dtype = DataType("float32" if dtype is None else dtype)
    made_strides = tuple(convert(s) for s in strides or ())
    if made_strides and len(made_strides) != len(dims):
        what = f"buffer {name} needs one stride for each dimension"
        raise ValueError(explain(what, got=f"{len(made_strides)} for {len(dims)} dims"))
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", dims[0].dtype if dims else "int32")
    separators = tuple(int(x) for x in axis_separators or ())
    if list(separators) != sorted(separators) or any(not 0 <= s <= len(dims) for s in separators):
        what = f"axis separators of buffer {name} are increasing numbers of dimensions"
        raise ValueError(explain(what, got=separators, instead=f"from 0 to {len(dims)}"))
    if data is None:
        data = Var(name, "handle", type_annotation=pointed(made_dtype, scope or "global"))
    elif not isinstance(data, Var):
        what = f"data of buffer {name} is a pointer's variable"
        raise TypeError(explain(what, got=repr(data), instead="a parameter that is T.handle"))
    if isinstance(elem_offset, int) and elem_offset == 0:
        elem_offset = None
    elif elem_offset is not None:
        elem_offset = convert(elem_offset)
        if is_zero(elem_offset):
            elem_offset = None
    if data_alignment & (data_alignment - 1) and data_alignment > 0:
        what = f"the alignment of buffer {name} is a power of two"
        near = 1 << data_alignment.bit_length()
        raise ValueError(explain(what, got=data_alignment, instead=f"align={near}", span=span))
    return Buffer._make(
        data,
        made_dtype,
        dims,
        made_strides,
        elem_offset,
        name,
        ALIGNMENT if data_alignment <= 0 else data_alignment,
        offset_factor or 1,
        "default" if buffer_type in ("", "default") else buffer_type,
        separators,
        span=span,
    )


class BufferRegion(Node):
    """A box of a buffer: one range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]

    @staticmethod
    def full_region(buffer: Buffer) -> BufferRegion:
        """All of a buffer."""
        ranges = [Range.upto(e) for e in buffer.shape]
        return BufferRegion(buffer, tuple(ranges))

    @staticmethod
    def from_point(buffer: Buffer, indices: Sequence[PrimExpr]) -> BufferRegion:
        """One element of a buffer."""
        points = [convert(i) for i in indices]
        return BufferRegion(
            buffer, tuple(Range.from_min_extent(i, const(1, i.dtype)) for i in points)
        )
