"""Sorting and searching."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....relax import expr as rx
from ...topi import search as topi_search
from ..expr import Expr, TupleWrapper
from ..types import Any as AnyDim
from ..types import TensorType, TupleType, Type
from .common import axis_of, dims_in, numbers, shape_of
from .core import Input, R, builder, kernel, op, view


@op("sort", attrs="ArgsortAttrs")
def sort(data: Input, axis: int = -1, is_ascend: Any = 1) -> Any:
    """The values along an axis in order."""
    return R.sort(data, axis, not is_ascend)


@op("argsort", attrs="ArgsortAttrs")
def argsort(data: Input, axis: int = -1, is_ascend: Any = 1, dtype: str = "int32") -> Any:
    """The indices that put the values along an axis in order."""
    return R.argsort(data, axis, not is_ascend, dtype)


@sort.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    axis_of(types[0], attrs["axis"])
    return types[0]


@argsort.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    axis_of(types[0], attrs["axis"])
    return TensorType(types[0].shape, attrs["dtype"])


def _results(values: rx.Expr | Type, indices: Input | TensorType, ret_type: str, both: Any) -> Any:
    results = {"values": values, "indices": indices}
    if ret_type != "both" and ret_type not in results:
        hint = '"both", "values" or "indices"'
        raise ValueError(explain("unknown ret_type", got=repr(ret_type), instead=hint))
    return both([values, indices]) if ret_type == "both" else results[ret_type]


@op("topk", attrs="TopkAttrs", view=False)
def topk(
    data: Input,
    k: Any = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:
    """The first k values along an axis in order, the greatest first unless `is_ascend`, and
    their indices. k below 1 means all."""
    return R.topk(data, int(k), axis, ret_type, not is_ascend, dtype)


@op("dyn.topk", attrs="TopkAttrs", view=False)
def dyn_topk(
    data: Input,
    k: Input,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:
    """`topk` of a number of run time."""
    bb = builder()
    extent = shape_of(data)[axis]
    size = bb.emit(R.shape_to_tensor(rx.ShapeExpr([extent])))
    requested = bb.emit(R.astype(R.reshape(k, [1]), "int64"))
    clipped = R.where(R.less(requested, rx.const(1, "int64")), size, R.minimum(requested, size))
    (count,) = dims_in(bb.emit(clipped), 1)
    order = bb.emit(R.argsort(data, axis, not is_ascend, dtype))
    first = lambda t: R.strided_slice(t, [axis], [0], [count])  # noqa: E731
    indices = bb.emit(first(order))
    wide = R.astype(indices, "int64")
    values = R.gather_elements(data, wide, axis)
    return _results(values, indices, ret_type, rx.Tuple)


@dyn_topk.infer
def _(types: list[Any], attrs: dict[str, Any]) -> Any:
    data = types[0]
    which = axis_of(data, attrs["axis"])
    dims = [AnyDim() if n == which else d for n, d in enumerate(data.shape)]
    values, indices = (TensorType(dims, t) for t in (data.dtype, attrs["dtype"]))
    return _results(values, indices, attrs["ret_type"], TupleType)


@view("topk")
def _topk(
    data: Expr,
    k: Expr | int = 1,
    axis: int = -1,
    ret_type: str = "both",
    is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:
    """The first k values along an axis in order, and their indices; k may be an expression."""
    k = numbers(k)
    row = dyn_topk if isinstance(k, Expr) else topk
    result = row.builder(data, k, axis, ret_type, is_ascend, dtype)
    return TupleWrapper(result, 2) if ret_type == "both" else result


@op("searchsorted", attrs="SearchSortedAttrs")
def searchsorted(
    sorted_sequence: Input, values: Input, right: bool = False, dtype: str = "int32"
) -> Any:
    """Where each value belongs in a vector that is in order, or in the one of its row."""
    return kernel(topi_search.searchsorted, sorted_sequence, values, bool(right), dtype)


searchsorted.infer(lambda types, attrs: TensorType(types[1].shape, attrs["dtype"]))
