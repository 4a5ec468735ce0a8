"""Statements on tensors that have no buffers yet: what `schedule_ops` makes of a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...ir.node import define, field
from ...ir.prim_expr import PrimExpr, Range
from ...ir.prim_op import const, convert
from ...tir.buffer import Buffer, DataProducer
from ...tir.stmt import Stmt

if TYPE_CHECKING:
    from ...base.span import Span
    from ...te.tensor import Tensor


class ProducerStore(Stmt):
    """`producer[indices] = value`."""

    producer: DataProducer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]

    def __init__(
        self,
        producer: Tensor,
        value: PrimExpr | float | Tensor,
        indices: Any,
        span: Span | None = None,
    ) -> None:
        kind = producer.dtype
        value = convert(value) if isinstance(value, PrimExpr) else const(value, kind)
        self._set(producer, value, tuple(convert(i) for i in indices), span)


class ProducerRealize(Stmt):
    """`producer` has memory for the elements within `bounds` in `body`.

    `aligns`: (dimension, factor, offset) of strides; `rolls`: the dimension, or -1, in which
    elements are reused from before, each in the slot of one that is not needed any more.
    """

    producer: DataProducer
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = field(default="")
    aligns: tuple[Any, ...] = field(default=())
    rolls: int = field(default=-1)


class BindBuffer(Stmt):
    """`view` is the part `region` of a tensor in `body`."""

    view: Buffer = define()
    tensor: DataProducer
    region: tuple[Range, ...]
    body: Stmt
