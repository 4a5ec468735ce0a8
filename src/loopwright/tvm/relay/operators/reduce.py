"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....base.errors import explain
from ....ir.dtype import DataType
from ....relax.expr import Var
from ..expr import Expr, Tuple, TupleWrapper
from ..types import TensorType
from .core import VIEWS, Input, R, op, view
from .tensor import extent_value


def axes_of(data: Any, axis: Any, exclude: bool = False) -> list[int]:
    """The axes that are reduced, counted from the front and in order. None or none: all of them;
    exclude: all but those. Raises ValueError."""
    rank = data.struct_info.ndim if hasattr(data, "struct_info") else len(data.shape)
    axis_list = [axis] if isinstance(axis, int) else list(axis or ())
    axes = [int(a) + rank if int(a) < 0 else int(a) for a in axis_list]
    if any(not 0 <= a < rank for a in axes) or len(set(axes)) != len(axes):
        what = "the axes of a reduction are different ones of its operand"
        raise ValueError(explain(what, got=f"{axis_list} of {rank} axes"))
    if exclude:
        if not axes and axis is None:
            raise ValueError(explain("exclude needs axes to leave out", got="none"))
        return [a for a in range(rank) if a not in axes]
    return sorted(axes) or list(range(rank))


def reduced(
    types: list[Any], attrs: dict[str, Any], dtype: DataType | str | None = None
) -> TensorType:
    """The type of a reduction."""
    data = types[0]
    if not isinstance(data, TensorType):
        raise TypeError(explain("a reduction takes a tensor", got=str(data)))
    axes = axes_of(data, attrs["axis"], attrs["exclude"])
    dims = [
        1 if i in axes else d
        for i, d in enumerate(data.shape)
        if attrs["keepdims"] or i not in axes
    ]
    return TensorType(dims, dtype or data.dtype)


def _reduction(name: str, compute: Callable[..., Any], dtype: str = "") -> None:
    def body(data: Input, axis: Any = None, keepdims: bool = False, exclude: bool = False) -> Any:
        axes = axes_of(data, axis, exclude)
        return compute(data, axes, keepdims) if axes else data

    body.__doc__ = f"{name} over axes; exclude: over all but those."
    row = op(name, attrs="ReduceAttrs")(body)

    @row.build
    def _(data: Expr, axis: Any, keepdims: bool, exclude: bool) -> dict[str, Any]:
        axis = [axis] if isinstance(axis, int) else axis
        return {"data": data, "axis": axis, "keepdims": keepdims, "exclude": exclude}

    @row.infer
    def _(types: list[Any], attrs: dict[str, Any]) -> Any:
        return reduced(types, attrs, dtype)


def _logical(name: str) -> Any:
    def compute(data: Any, axes: list[int], keepdims: bool) -> Any:
        return R.astype(getattr(R, name)(R.astype(data, "int8"), axes, keepdims), "bool")

    return compute


for _name in ("sum", "max", "min", "prod", "mean"):
    _reduction(_name, lambda data, axes, keep, _r=_name: getattr(R, _r)(data, axes, keep))
_reduction("all", _logical("min"), "bool")
_reduction("any", _logical("max"), "bool")


def _arg(name: str, relax_name: str) -> None:
    def body(
        data: Input,
        axis: Any = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> Any:
        axes = axes_of(data, axis, exclude)
        rank = data.struct_info.ndim
        if not axes:
            return R.zeros_like(data, "int32")
        remaining = [a for a in range(rank) if a not in axes]
        moved = (
            R.permute_dims(data, [*remaining, *axes])
            if [*remaining, *axes] != list(range(rank))
            else data
        )
        if len(axes) != 1:  # the number of the element among all that are reduced
            dims = data.struct_info.get_shape()
            moved = R.reshape(moved, [*(dims[a] for a in remaining), -1])
        if select_last_index:
            count = moved_extent(data, axes)
            index = getattr(R, relax_name)(R.flip(moved, -1), -1)
            index = R.subtract(extent_value(count - 1), index)
        else:
            index = getattr(R, relax_name)(moved, -1)
        index = R.astype(index, "int32")
        return R.expand_dims(index, sorted(axes)) if keepdims else index

    body.__doc__ = f"The index of the {relax_name[3:]} over axes."
    row = op(name, attrs="ArgReduceAttrs")(body)

    @row.build
    def _(axis: int | Sequence[int], **options: Expr | bool) -> dict[str, Any]:
        return {"axis": [axis] if isinstance(axis, int) else axis, **options}

    @row.infer
    def _(types: list[Any], attrs: dict[str, Any]) -> Any:
        return reduced(types, attrs, "int32")


def moved_extent(data: Var | Input, axes: list[int]) -> Any:
    """The number of elements that are reduced to one."""
    count: Any = 1
    for axis in axes:
        count = data.struct_info.get_shape()[axis] * count
    return count


_arg("argmax", "argmax")
_arg("argmin", "argmin")


@op("variance", attrs="VarianceAttrs", view=False)
def variance(
    data: Input,
    mean: Input,
    axis: Any = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Any:
    """The mean of the squared distances to `mean`; unbiased: their sum over the count less one."""
    axes = axes_of(data, axis, exclude)
    squared = R.square(R.subtract(data, mean))
    count = moved_extent(data, axes)
    if not unbiased:
        return R.mean(squared, axes, keepdims)
    total = R.sum(squared, axes, keepdims)
    return R.divide(total, R.astype(extent_value(count - 1), str(data.struct_info.dtype)))


variance.infer(lambda types, attrs: reduced(types, attrs))


def _pair(a: Expr, b: Expr) -> TupleWrapper:
    return TupleWrapper(Tuple([a, b]), 2)


def _listed(axis: int | Sequence[int] | None) -> Any:
    return [axis] if isinstance(axis, int) else axis


@view("variance")
def _variance(
    data: Expr,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Any:
    """The variance over axes. with_mean: the mean, where it is known."""
    axis = _listed(axis)
    mean = VIEWS["mean"](data, axis, True, exclude) if with_mean is None else with_mean
    return variance.builder(data, mean, axis, keepdims, exclude, unbiased)


@view("std")
def _std(
    data: Any,
    axis: int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Any:
    """The standard deviation over axes."""
    return VIEWS["sqrt"](_variance(data, axis, keepdims, exclude, unbiased))


@view("mean_variance")
def _mean_variance(
    data: Any,
    axis: int | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> Any:
    """The mean and the variance over axes."""
    axis = _listed(axis)
    mean = VIEWS["mean"](data, axis, True, exclude)
    spread = _variance(data, axis, keepdims, exclude, unbiased, mean)
    mean = mean if keepdims else VIEWS["mean"](data, axis, False, exclude)
    return _pair(mean, spread)


@view("mean_std")
def _mean_std(
    data: Any, axis: int | None = None, keepdims: bool = False, exclude: bool = False
) -> Any:
    """The mean and the standard deviation over axes."""
    both = _mean_variance(data, axis, keepdims, exclude)
    return _pair(both[0], VIEWS["sqrt"](both[1]))


@view("logsumexp")
def _logsumexp(data: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """log(sum(exp(data))) over axes, computed from the greatest element."""
    axis = _listed(axis)
    top = VIEWS["max"](data, axis, True)
    total = VIEWS["sum"](VIEWS["exp"](VIEWS["subtract"](data, top)), axis, True)
    result = VIEWS["add"](VIEWS["log"](total), top)
    return result if keepdims else VIEWS["squeeze"](result, axis)
