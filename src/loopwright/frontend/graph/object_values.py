"""Values that are not tensors of numbers: texts, sequences, optional values, maps.

The form of each is known: the type of its elements. Sequences of known length, and optional values
known to be present or empty, are lists of Values while importing; they become values of the run
only where one is needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.errors import explain
from ...ir.prim_expr import IntImm
from ...relax import expr as rx
from ...relax import op
from ...relax.struct_info import ObjectStructInfo, StructInfo, TensorStructInfo
from .context import Context
from .values import Value, literal

OBJECT = ObjectStructInfo()


@dataclass(frozen=True)
class Texts:
    """A tensor of strings. ndim: its rank, -1 where it is not known."""

    ndim: int


@dataclass(frozen=True)
class Sequence:
    """item: the form of its values, None where it has none yet."""

    item: Any


@dataclass(frozen=True)
class Optional:
    """item: the form of the value that may be there, None where it is not."""

    item: Any


@dataclass(frozen=True)
class Map:
    """Numbers or texts by key."""


class ObjectValue(Value):
    """A value of the model that is not a tensor of numbers.

    form: what it is. items: the values that a sequence or an optional value is known to hold. dims:
    the dimensions of texts, where they are known.
    """

    __slots__ = ("dims", "form", "items")
    is_tensor = False

    def __init__(
        self, cx: Context, form: Any, expr: rx.Expr | None = None, items: Items[Value] | None = None
    ) -> None:
        super().__init__(cx, expr)
        self.form, self.items = form, None if items is None else list(items)
        self.dims: list[Any] | None = None
        self._searched = True  # it has no elements that are integers

    def copy(self) -> Value:
        other = ObjectValue(self._context, self.form, self._expr, self.items)
        other.dims = self.dims
        return other

    @property
    def expr(self) -> Any:
        if self._expr is None:
            cx, items = self._context, [v.expr for v in self.items or ()]
            if isinstance(self.form, Sequence):
                self._expr = called(cx, "sequence", *items)
            else:
                self._expr = items[0] if items else cx.emit(op.null_value())
        return self._expr

    @property
    def constant(self) -> None:
        return None


def called(cx: Context, name: str, *args: Any, info: StructInfo = OBJECT) -> Any:
    """The result of `relax.run.NAME`; numbers and strings of Python are its arguments, too."""
    inputs = [_argument(a) for a in args]
    return cx.emit(op.call_pure_packed(f"relax.run.{name}", *inputs, sinfo_args=info))


def _argument(value: object) -> Any:
    if isinstance(value, Value):
        return value.expr
    if isinstance(value, str):
        return rx.StringImm(value)
    return rx.PrimValue(value) if isinstance(value, (bool, int)) else value


def form_of(value: Value) -> Any:
    """The form of a value: one of this file, or a tensor's struct info without its symbols."""
    if isinstance(value, ObjectValue):
        return value.form
    dims = value.info.get_shape()
    if dims is None:
        return TensorStructInfo(dtype=value.dtype, ndim=value.info.ndim)
    return tensor_form(str(value.dtype), [literal(d) for d in dims])


def tensor_form(dtype: str, dims: list[Any]) -> TensorStructInfo:
    """A tensor of which some dimensions are numbers."""
    if all(isinstance(d, int) for d in dims):
        return TensorStructInfo(dims, dtype)
    return TensorStructInfo(dtype=dtype, ndim=len(dims))


def joined(a: object, b: Any) -> Any:
    """A form that holds for values of both. Raises ValueError where no form does."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, TensorStructInfo) and isinstance(b, TensorStructInfo) and a.dtype == b.dtype:
        x, y = _numbers(a), _numbers(b)
        if x is not None and x == y:
            return a
        return TensorStructInfo(dtype=a.dtype, ndim=a.ndim if a.ndim == b.ndim else -1)
    for maybe, other in ((a, b), (b, a)):
        if isinstance(maybe, Optional):
            return Optional(
                joined(maybe.item, other.item if isinstance(other, Optional) else other)
            )
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return Sequence(joined(a.item, b.item))
    if isinstance(a, Texts) and isinstance(b, Texts):
        return a if a == b else Texts(-1)
    if isinstance(a, Map) and isinstance(b, Map):
        return a
    what = "a value must be of one kind, whichever way it comes"
    raise ValueError(explain(what, got=f"{_shown(a)} and {_shown(b)}"))


def _shown(form: Any) -> str:
    return str(form) if isinstance(form, TensorStructInfo) else type(form).__name__.lower()


def _numbers(info: TensorStructInfo) -> list[int] | None:
    dims = info.get_shape()
    if dims is None or not all(isinstance(d, IntImm) for d in dims):
        return None
    return [d.value for d in dims]


def info_of(form: Sequence | StructInfo) -> Any:
    """The struct info of a variable for values of a form."""
    return form if isinstance(form, TensorStructInfo) else OBJECT


def arrived(cx: Context, form: str | TensorStructInfo, expr: rx.Expr) -> Value:
    """A value computed at run time, of a form."""
    if not isinstance(form, TensorStructInfo):
        return ObjectValue(cx, form, expr)
    if form.ndim < 0 or _numbers(form) is not None:
        return Value(cx, cx.builder.match_cast(expr, form))
    return cx.of_shape(expr, *[None] * form.ndim)


def result_of(
    cx: Context, form: str | TensorStructInfo, name: str, *args: Value | rx.Expr | int
) -> Value:
    """The result of `relax.run.NAME`, of a form."""
    info = OBJECT
    if isinstance(form, TensorStructInfo):
        info = TensorStructInfo(dtype=form.dtype, ndim=form.ndim)
    return arrived(cx, form, called(cx, name, *args, info=info))


# ---------------------------------------------------------------- texts


def constant_texts(cx: Context, array: np.ndarray) -> ObjectValue:
    """A constant tensor of texts."""
    data = json.dumps([list(array.shape), [_plain(t) for t in array.reshape(-1)]])
    texts = ObjectValue(cx, Texts(array.ndim), called(cx, "texts", data))
    texts.dims = list(array.shape)
    return texts


def _plain(text: str) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)


def indices_of(cx: Context, table: ObjectValue | rx.Expr, texts: ObjectValue) -> Value:
    """For each text its index in a table, int64; -1 where it is missing."""
    dims = texts.dims
    if texts.form.ndim < 0:
        raise ValueError(explain("the rank of an input is not known", got="a tensor of strings"))
    info = TensorStructInfo(dtype="int64", ndim=texts.form.ndim)
    indices = called(cx, "places", table, texts, info=info)
    if dims is None:
        value = cx.of_shape(indices, *[None] * info.ndim)
        texts.dims = list(value.shape)
        return value
    return cx.of_shape(indices, *dims)


def texts_at(cx: Context, table: ObjectValue | rx.Expr, where: Value) -> ObjectValue:
    """The texts at indices of a table."""
    texts = ObjectValue(cx, Texts(where.info.ndim), called(cx, "texts_at", table, where))
    dims = where.info.get_shape()
    texts.dims = None if dims is None else list(dims)
    return texts
