"""Struct info: the static knowledge about a graph value (its shape, dtype, device)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..base.errors import explain
from ..base.late import Slot
from ..base.span import Span
from ..ir.dtype import DataType
from ..ir.module import VDevice
from ..ir.node import Node, as_tuple, define, field
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import cast, convert
from ..ir.structural import ByStructure

# Expressions and relations are in higher files.
MAKE_SHAPE: Slot[Callable[[Any], Node]] = Slot("relax.make_shape")
IS_BASE_OF: Slot[Callable[[Any, Any], bool]] = Slot("relax.is_base_of")


class StructInfo(ByStructure, Node):
    """Base class of struct infos. Compared by `structural_equal`."""

    __slots__ = ()

    def is_base_of(self, derived: StructInfo) -> bool:
        """Whether every value described by `derived` is described by this one."""
        return IS_BASE_OF.get()(self, derived)


class ObjectStructInfo(StructInfo):
    """Any value."""

    __slots__ = ()

    def __init__(self, span: Span | None = None) -> None:
        self._set(span)


class PrimStructInfo(StructInfo):
    """A scalar of a dtype; `value` is its expression, if known."""

    dtype: DataType
    value: PrimExpr | None = field(default=None)

    def __init__(self, dtype: object = None, value: Any = None, span: Span | None = None) -> None:
        if isinstance(dtype, PrimExpr):
            dtype, value = None, dtype
        if value is not None:
            value = convert(value)
            dtype = value.dtype if dtype is None else dtype
        if dtype is None:
            raise TypeError(explain("R.Prim needs a dtype or a value", instead='R.Prim("int64")'))
        if not isinstance(dtype, (str, DataType, type, np.dtype)):
            raise TypeError(explain("the dtype of R.Prim is a name", got=repr(dtype)))
        self._set(DataType(dtype), value, span)


class ShapeStructInfo(StructInfo):
    """A shape; its dimensions if known, its rank (`ndim`, -1 unknown)."""

    values: tuple[PrimExpr, ...] | None
    ndim: int

    def __init__(
        self,
        values: Sequence[PrimExpr | int] | None = None,
        ndim: int = -1,
        span: Span | None = None,
    ) -> None:
        dims = None if values is None else shape_dims(values)
        if dims is not None and ndim not in (-1, len(dims)):
            what = "R.Shape: ndim is not the number of the values"
            raise ValueError(explain(what, got=f"ndim {ndim} for {len(dims)} values"))
        self._set(dims, ndim if dims is None else len(dims), span)

    def is_unknown_ndim(self) -> bool:
        """Whether not even the rank is known."""
        return self.ndim == -1


class TensorStructInfo(StructInfo):
    """A tensor. shape: a ShapeExpr, a Var for the shape, or None.

    `dtype` "void" means unknown; `ndim` -1 means unknown rank.
    """

    shape: Any
    dtype: DataType
    vdevice: VDevice | None
    ndim: int

    def __init__(
        self,
        shape: Any = None,
        dtype: DataType | str = "float32",
        vdevice: VDevice | None = None,
        ndim: int = -1,
        span: Span | None = None,
    ) -> None:
        if shape is not None and not isinstance(shape, Node):
            shape = MAKE_SHAPE.get()(shape)
        rank = getattr(getattr(shape, "struct_info", None), "ndim", -1)
        if shape is not None and ndim not in (-1, rank):
            what = "R.Tensor: ndim is not the rank of the shape"
            raise ValueError(explain(what, got=f"ndim {ndim} for a shape of rank {rank}"))
        self._set(shape, DataType(dtype or "void"), vdevice, rank if shape is not None else ndim)
        self.span = span

    def get_shape(self) -> tuple[PrimExpr, ...] | None:
        """The dimensions, or None if unknown."""
        info = getattr(self.shape, "struct_info", None)
        return info.values if isinstance(info, ShapeStructInfo) else None

    def is_unknown_dtype(self) -> bool:
        """Whether the dtype is unknown."""
        return self.dtype.is_void

    def is_unknown_ndim(self) -> bool:
        """Whether not even the rank is known."""
        return self.ndim == -1


class TupleStructInfo(StructInfo):
    """A tuple of values."""

    fields: tuple[StructInfo, ...] = field(converter=as_tuple)


def _optional_tuple(items: Iterable[StructInfo] | None) -> tuple[StructInfo, ...] | None:
    return None if items is None else tuple(items)


class FuncStructInfo(StructInfo):
    """A function. `params` None means any arguments; `derive_func(call, builder)`, a function or
    the name of a registered one, computes the result's struct info if `ret` cannot express it."""

    params: tuple[StructInfo, ...] | None = define(converter=_optional_tuple)
    ret: StructInfo
    purity: bool = field(default=True, converter=bool)
    derive_func: Any = field(default=None)

    @staticmethod
    def opaque_func(
        *,
        ret: StructInfo | None = None,
        derive_func: str | Callable[..., Any] | None = None,
        purity: bool = False,
        span: Span | None = None,
    ) -> FuncStructInfo:
        """A function whose parameters are unknown."""
        result = ObjectStructInfo() if ret is None else ret
        return FuncStructInfo(None, result, purity, derive_func, span)


def shape_dims(values: Any) -> tuple[PrimExpr, ...]:
    """The dimensions of a shape."""
    return tuple(map(shape_dim, values))


def shape_dim(value: PrimExpr | int) -> PrimExpr:
    """A dimension as an int64 expression (literals become int64)."""
    original, value = value, convert(value)
    if not isinstance(value, PrimExpr) or not value.dtype.is_integer:
        raise TypeError(explain("a dimension is an integer or an expression", got=repr(original)))
    return value if value.dtype == "int64" else cast("int64", value)
