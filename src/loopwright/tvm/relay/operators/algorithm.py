"""Sorting and searching."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ....relax import expr as rx
from ...topi import search as topi_search
from . import layouts
from .common import dims_in
from .core import Input, R, builder, kernel, op
from .transform import dims_of


@op("sort", attrs="ArgsortAttrs")
def sort(data: Input, axis: int = -1, is_ascend: Any = 1) -> Any:
    """The values along an axis in order."""
    return R.sort(data, axis, not is_ascend)


@op("argsort", attrs="ArgsortAttrs")
def argsort(data: Input, axis: int = -1, is_ascend: Any = 1, dtype: str = "int32") -> Any:
    """The indices that put the values along an axis in order."""
    return R.argsort(data, axis, not is_ascend, dtype)


def _count(attrs: dict[str, Any], args: Any) -> int | None:
    return 2 if attrs["ret_type"] == "both" else None


@op("topk", results=_count, attrs="TopkAttrs", layout=layouts.ranking)
def topk(
    data: Input, k: int = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:  # fmt: skip
    """The first k values along an axis in order, the greatest first unless `is_ascend`, and
    their indices. k below 1 means all."""
    return R.topk(data, int(k), axis, ret_type, not is_ascend, dtype)


@op("dyn.topk", results=_count, attrs="TopkAttrs", static=topk)
def dyn_topk(
    data: Input, k: Input, axis: int = -1, ret_type: str = "both", is_ascend: bool = False,
    dtype: str = "int32",
) -> Any:  # fmt: skip
    """`topk` of a number of run time."""
    bb = builder()
    extent = dims_of(data)[axis]
    size = bb.emit(R.shape_to_tensor(rx.ShapeExpr([extent])))
    requested = bb.emit(R.astype(R.reshape(k, [1]), "int64"))
    clipped = R.where(R.less(requested, rx.const(1, "int64")), size, R.minimum(requested, size))
    (count,) = dims_in(bb.emit(clipped), 1)
    order = bb.emit(R.argsort(data, axis, not is_ascend, dtype))
    first = lambda t: R.strided_slice(t, [axis], [0], [count])  # noqa: E731
    indices = bb.emit(first(order))
    wide = R.astype(indices, "int64")
    results = {"values": R.gather_elements(data, wide, axis), "indices": indices}
    if ret_type != "both" and ret_type not in results:
        hint = '"both", "values" or "indices"'
        raise ValueError(explain("unknown ret_type", got=repr(ret_type), instead=hint))
    return rx.Tuple([*results.values()]) if ret_type == "both" else results[ret_type]


@op("searchsorted", attrs="SearchSortedAttrs")
def searchsorted(
    sorted_sequence: Input, values: Input, right: bool = False, dtype: str = "int32"
) -> Any:
    """Where each value belongs in a vector that is in order, or in the one of its row."""
    return kernel(topi_search.searchsorted, sorted_sequence, values, bool(right), dtype)
