"""Expressions that read memory, and reductions; the other scalar nodes are in `ir/prim_expr.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base.errors import CallValueError, explain
from ..ir.node import Node, define, field
from ..ir.prim_expr import ConstExpr, IterVar, PrimExpr, ScalarLike, Var, vector_type
from ..ir.prim_op import const, convert, convert_all, lanes_of
from .buffer import Buffer, DataProducer

if TYPE_CHECKING:
    from ..base.span import Span


class BufferLoad(PrimExpr):
    """`buffer[indices]`; if the last index is a vector, a vector load."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = field(default=None)

    def __init__(
        self,
        buffer: Buffer,
        indices: Any,
        predicate: PrimExpr | None = None,
        span: Span | None = None,
    ) -> None:
        points = convert_all(indices)
        check_indices(buffer, points)
        check_predicate(points, predicate, "load")
        self._set(buffer, points, predicate, span)

    def _derive(self) -> None:
        self.dtype = access_dtype(self.buffer, self.indices)


def reads_memory(expr: PrimExpr) -> bool:
    """Whether an expression has loads."""
    if isinstance(expr, (Var, ConstExpr)):
        return False
    return isinstance(expr, BufferLoad) or any(map(reads_memory, expr.children()))


def check_rank(buffer: Buffer, indices: tuple[Any, ...]) -> None:
    """Raise ValueError if the number of indices is not the number of dimensions."""
    if len(indices) != len(buffer.shape):
        what = f"buffer {buffer.name} has {len(buffer.shape)} dimensions"
        raise ValueError(explain(what, got=f"{len(indices)} indices", instead="index every axis"))


def check_indices(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> None:
    """Raise ValueError for a wrong number of indices, one that is not an integer, or a vector index
    before the last."""
    check_rank(buffer, indices)
    for axis, index in enumerate(indices):
        dtype = getattr(index, "dtype", None)
        if dtype is None or not dtype.is_integer:
            what = f"the indices of buffer {buffer.name} are integers"
            raise ValueError(explain(what, got=f"index {axis}: {index} of {dtype}"))
    for axis, index in enumerate(indices[:-1]):
        if index.dtype.lanes != 1:
            what = f"only the last index of buffer {buffer.name} may be a vector"
            hint = "a layout whose last axis runs along the vector"
            raise ValueError(explain(what, got=f"index {axis}: {index}", instead=hint))


def check_predicate(indices: tuple[PrimExpr, ...], predicate: PrimExpr | None, what: str) -> None:
    """Raise ValueError unless a mask has one truth value for each lane that is accessed.
    what: "load" or "store"."""
    if predicate is None:
        return
    mask, index = predicate.dtype, indices[-1].dtype
    if not (mask.is_bool or (mask.is_integer and mask.bits == 1)):
        text = f"Predicate mask elements must be boolean values, but got {mask.element}."
        raise CallValueError(explain(text, instead="compare with 0"))
    if mask.is_scalable != index.is_scalable:
        text = "Predicate mask dtype and load indices must both be scalable."
        raise CallValueError(explain(text.replace("load", what), got=f"{mask} and {index}"))
    if mask.lanes != index.lanes:
        text = f"Got a predicate mask with {mask.lanes} lanes, but trying to {what} a vector with"
        hint = "The number of lanes must match."
        raise CallValueError(explain(f"{text} {index.lanes} lanes. {hint}"))


def access_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> Any:
    """Type of an element access: the buffer's type times the lanes of the last index."""
    lanes = lanes_of(indices[-1].dtype) if indices else 1
    return buffer.dtype if lanes == 1 else vector_type(buffer.dtype, lanes)


class ProducerLoad(PrimExpr):
    """`tensor[indices]` inside a te.compute, before buffers exist."""

    producer: DataProducer
    indices: tuple[PrimExpr, ...] = field(converter=convert_all)

    def _derive(self) -> None:
        producer: Any = self.producer  # a te.Tensor, defined in a higher layer
        self.dtype = producer.dtype


class CommReducer(Node):
    """A commutative reduction: (lhs, rhs) -> result, with its identity elements."""

    lhs: tuple[Var, ...] = define()
    rhs: tuple[Var, ...] = define()
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]


class Reduce(PrimExpr):
    """Value `value_index` of a reduction of `source` over the points of the axes where `condition`
    holds."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: tuple[IterVar, ...] = define()
    condition: PrimExpr
    value_index: int = field(default=0)
    init: tuple[PrimExpr, ...] = field(default=())

    def __init__(
        self, combiner: CommReducer, source: Sequence[Any], axis: Sequence[IterVar],
        condition: ScalarLike | None, value_index: int = 0, init: Sequence[PrimExpr] = (),
        span: Span | None = None,
    ) -> None:  # fmt: skip
        test = const(True, "bool") if condition is None else convert(condition)
        if not (isinstance(source, tuple) and all(isinstance(s, PrimExpr) for s in source)):
            source = tuple(map(convert, source))
        self._set(combiner, source, tuple(axis), test, value_index, tuple(init or ()), span)

    def _derive(self) -> None:
        self.dtype = self.source[self.value_index].dtype

    def structural_compare(self, other: Reduce, comparer: Any, path: str, defining: bool) -> None:
        """Compare the axes first: the source uses them."""
        for name in _REDUCE_ORDER:
            a, b = getattr(self, name), getattr(other, name)
            comparer.compare(a, b, f"{path}.{name}", defining or name == "axis")

    def structural_hash(self, hasher: Any, defining: bool) -> int:
        """In the order of `structural_compare`."""
        parts = [hasher.hash(getattr(self, n), defining or n == "axis") for n in _REDUCE_ORDER]
        return hash(("tir.Reduce", *parts))


_REDUCE_ORDER = ("axis", "combiner", "source", "condition", "value_index", "init")


__all__ = [
    "BufferLoad",
    "CommReducer",
    "ProducerLoad",
    "Reduce",
    "access_dtype",
    "check_indices",
    "check_rank",
]
