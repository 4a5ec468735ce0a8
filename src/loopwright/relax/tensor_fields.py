"""The properties of a tensor at run time, as attributes of the expression: `x.shape[0]`, `x.dtype.bits`.

Each is a call of an operator `relax.inspect.*`, or the value itself where it is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ..base.errors import explain
from ..ir.node import Node
from .struct_info import TensorStructInfo


class DTypeFields:
    """`x.dtype`: an object with its parts as attributes."""

    def __init__(self, get: Callable[[str], Any]) -> None:
        self._get = get

    @property
    def type_code(self) -> Any:
        """DLPack's number of the kind of type."""
        return self._get("tensor_dtype_code")

    @property
    def bits(self) -> Any:
        """Bits of one lane."""
        return self._get("tensor_dtype_bits")

    @property
    def lanes(self) -> Any:
        """Lanes of an element."""
        return self._get("tensor_dtype_lanes")


class AxisFields:
    """`x.shape`, `x.strides`: indexed by an axis, a number or a scalar expression."""

    def __init__(self, get: Callable[..., Any], name: str) -> None:
        self._get, self._name = get, name

    def __getitem__(self, axis: Node | int) -> Any:
        return self._get(self._name, axis)


class TensorFields:
    """The attributes. They raise AttributeError for a value known not to be a tensor."""

    __slots__ = ()
    _build: ClassVar[dict[str, Any]]

    @property
    def _field(self) -> Callable[..., Any]:
        """The function that computes a field by its name."""
        info = getattr(self, "struct_info", None)
        if info is not None and not isinstance(info, TensorStructInfo):
            what = "only a tensor has a data type, dimensions and offsets"
            raise AttributeError(explain(what, got=str(info)))
        return lambda name, *args: self._build[f"inspect.{name}"](self, *args)

    @property
    def dtype(self) -> DTypeFields:
        """Its `type_code`, `bits` and `lanes`."""
        return DTypeFields(self._field)

    @property
    def ndim(self) -> Any:
        """The number of dimensions."""
        return self._field("tensor_ndim")

    @property
    def shape(self) -> AxisFields:
        """The dimensions: `x.shape[0]`."""
        return AxisFields(self._field, "tensor_shape_i")

    @property
    def strides(self) -> AxisFields:
        """Steps from element to element, in elements: `x.strides[0]`."""
        return AxisFields(self._field, "tensor_stride_i")

    @property
    def byte_offset(self) -> Any:
        """Where the first element is, from the tensor's data pointer on."""
        return self._field("tensor_byte_offset")

    @property
    def elem_offset(self) -> Any:
        """`byte_offset` in elements."""
        return self._field("tensor_elem_offset")
