"""Values of the graph being imported, with the known integers among them.

A model computes shapes with tensor operators: Shape, Gather, Concat, Reshape. Such a value stores
its elements as numbers and expressions of symbolic dimensions, and becomes a tensor only where
one is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.errors import explain
from ...ir.dtype import DataType, numpy_dtype
from ...ir.prim_expr import IntImm, PrimExpr
from ...ops.common import shape_text
from ...relax.expr import Constant, DataflowVar
from ...relax.struct_info import TensorStructInfo

if TYPE_CHECKING:
    from .context import Context

# Larger integer tensors are data, not shapes: their elements are not tracked while importing.
MOST_ELEMENTS = 4096


class UnknownRankError(ValueError):
    """An operator needs a rank that is not known."""


class Value:
    """A tensor of the model: an expression, known elements, or both. Converters get their inputs as these.

    >>> from loopwright.frontend.onnx import Context, Value
    >>> x = Value(Context(relax.BlockBuilder()), relax.const(np.ones((2, 3), "float32")))
    >>> x.dtype, x.ndim
    ('float32', 2)
    """

    __slots__ = ("_context", "_elements", "_expr", "_kind", "_searched")

    is_tensor = True  # of numbers; not strings, sequences and other objects

    def __init__(
        self,
        context: Context,
        expr: Any = None,
        elements: np.ndarray | None = None,
        dtype: str | None = None,
    ) -> None:
        self._context = context
        self._expr = expr
        self._elements: Any = elements
        self._kind: Any = dtype
        self._searched = elements is not None

    def copy(self) -> Value:
        """Another value of the same tensor; its cached forms change independently."""
        other = Value(self._context, self._expr, self._elements, self._kind)
        other._searched = self._searched
        return other

    def leave_block(self) -> None:
        """Make the tensor an output of the dataflow block that is open, if it is bound there."""
        if isinstance(self._expr, DataflowVar):
            self._expr = self._context.builder.emit_output(self._expr)

    @property
    def output(self) -> Any:
        """`expr`, which can be used after the open dataflow block."""
        self._expr = self.expr
        self.leave_block()
        return self._expr

    @property
    def expr(self) -> Any:
        """The Relax expression; a value with only elements becomes a constant or a computed tensor here."""
        if self._expr is None:
            self._expr = self._context.tensor_of(self._elements, self._kind)
        return self._expr

    @property
    def elements(self) -> np.ndarray | None:
        """The elements as an object array of ints, bools and expressions, where all are known."""
        if not self._searched:
            self._searched = True
            if self.dtype.is_integer and self._is_small():
                constant = self._context.constant_of(self._expr)
                self._elements = None if constant is None else constant.astype(object)
        return self._elements

    @property
    def integers(self) -> np.ndarray:
        """`elements` of a value whose elements are all known, as converters check before."""
        elements = self.elements
        assert elements is not None
        return elements

    def _is_small(self) -> bool:
        dims = self.info.get_shape()
        if dims is None or not all(isinstance(d, IntImm) for d in dims):
            return False
        return int(np.prod([d.value for d in dims], dtype=object)) <= MOST_ELEMENTS

    @property
    def constant(self) -> np.ndarray | None:
        """The elements as a numpy array, where they are known numbers."""
        if self._expr is None:
            if any(isinstance(e, PrimExpr) for e in self._elements.flat):
                return None
            return self._elements.astype(self.dtype.numpy())
        return self._context.constant_of(self._expr)

    @property
    def info(self) -> TensorStructInfo:
        """The struct info. Raises TypeError for a value that is not a tensor."""
        info = self.expr.struct_info
        if not isinstance(info, TensorStructInfo):
            raise TypeError(explain("an input is not a tensor", got=str(info)))
        return info

    @property
    def dtype(self) -> DataType:
        """The element type. Raises TypeError for a value that is not a tensor."""
        return DataType(self._kind) if self._expr is None else self.info.dtype

    @property
    def ndim(self) -> int:
        """The rank. Raises ValueError where it is not known."""
        ndim = self._elements.ndim if self._expr is None else self.info.ndim
        if ndim == -1:
            hint = "give the model's input shapes: shape_dict={name: shape}"
            raise UnknownRankError(explain("the rank of an input is not known", instead=hint))
        return ndim

    @property
    def shape(self) -> Dimensions:
        """The dimensions; new symbolic variables where only the rank is known. Raises ValueError where it
        is not."""
        if self._expr is None:
            return Dimensions(IntImm("int64", d) for d in self._elements.shape)
        dims: Any = self.info.get_shape()
        if dims is None:
            self._expr = self._context.of_shape(self._expr, *[None] * self.ndim).expr
            dims = self.info.get_shape()
        return Dimensions(dims)

    @property
    def is_constant(self) -> bool:
        """Whether the expression is a literal constant."""
        return isinstance(self._expr, Constant)


class Dimensions(tuple[PrimExpr, ...]):
    """The dimensions of an input; an index beyond its rank raises ValueError: the model is invalid."""

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            least = index + 1 if index >= 0 else -index
            what = f"an input needs {least} dimensions or more"
            raise ValueError(explain(what, got=f"the shape {shape_text(self)}")) from None


def in_type(value: Any, dtype: DataType | str) -> np.ndarray:
    """A number as a 0-d array of a type. Raises ValueError if it is out of an integer type's range."""
    kind = numpy_dtype(dtype)
    if kind.kind in "iu" and not np.iinfo(kind).min <= value <= np.iinfo(kind).max:
        what = "a number does not fit the type that is computed in"
        raise ValueError(explain(what, got=f"{value} as {dtype}", instead="inputs of floats"))
    return np.asarray(value, kind)


def literal(value: Any) -> Any:
    """An IntImm or a numpy scalar as a Python number; any other value unchanged."""
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype.is_bool else value.value
    if isinstance(value, np.generic):
        return value.item()
    return value


def object_array(
    values: Sequence[PrimExpr | int], shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """A numpy array of Python numbers and expressions; one axis if no shape is passed."""
    flat = list(values)
    array = np.empty(len(flat), object)
    for k, v in enumerate(flat):
        array[k] = literal(v)
    return array if shape is None else array.reshape(shape)


def wrapped(elements: np.ndarray, dtype: DataType) -> np.ndarray:
    """Known integers wrapped around to their type, since Python's integers do not overflow."""
    if not dtype.is_int or all(type(e) is not int or -(2**31) <= e < 2**31 for e in elements.flat):
        return elements
    half = 1 << (dtype.bits - 1)
    wrap = [(e + half) % (2 * half) - half if type(e) is int else e for e in elements.flat]
    return object_array(wrap, elements.shape)
