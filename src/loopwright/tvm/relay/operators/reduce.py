"""Reductions over axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....ops.core import REDUCTION
from ....relax.expr import Var
from ..expr import Expr, Tuple, TupleWrapper
from . import layouts
from .core import VIEWS, Input, Numbers, R, as_numbers, op, view, with_category
from .tensor import extent_value


def _reduction(name: str, compute: Callable[..., Any], mixed: str = "") -> None:
    def body(
        data: Input, axis: Numbers = None, keepdims: bool = False, exclude: bool = False
    ) -> Any:
        axes = layouts.axes_of(data, axis, exclude)
        return compute(data, axes, keepdims) if axes else data

    body.__doc__ = f"{name} over axes; exclude: over all but those."
    op(name, attrs="ReduceAttrs", kind=REDUCTION, mixed=mixed, layout=layouts.reducing)(body)


def _logical(name: str) -> Any:
    def compute(data: Any, axes: list[int], keepdims: bool) -> Any:
        return R.astype(getattr(R, name)(R.astype(data, "int8"), axes, keepdims), "bool")

    return compute


for _name, _mixed in with_category("sum:never max:follow min:follow prod mean:never").items():
    _reduction(_name, lambda data, axes, keep, _r=_name: getattr(R, _r)(data, axes, keep), _mixed)
_reduction("all", _logical("min"))
_reduction("any", _logical("max"))


def _arg(name: str) -> None:
    def body(
        data: Input, axis: Numbers = None, keepdims: bool = False, exclude: bool = False,
        select_last_index: bool = False,
    ) -> Any:  # fmt: skip
        axes = layouts.axes_of(data, axis, exclude)
        rank = data.struct_info.ndim
        if not axes:
            return R.zeros_like(data, "int32")
        remaining = [a for a in range(rank) if a not in axes]
        order = [*remaining, *axes]
        moved = R.permute_dims(data, order) if order != list(range(rank)) else data
        if len(axes) != 1:  # the number of the element among all that are reduced
            dims = data.struct_info.get_shape()
            moved = R.reshape(moved, [*(dims[a] for a in remaining), -1])
        if select_last_index:
            count = moved_extent(data, axes)
            index = getattr(R, name)(R.flip(moved, -1), -1)
            index = R.subtract(extent_value(count - 1), index)
        else:
            index = getattr(R, name)(moved, -1)
        index = R.astype(index, "int32")
        return R.expand_dims(index, sorted(axes)) if keepdims else index

    body.__doc__ = f"The index of the {name[3:]} over axes."
    op(name, attrs="ArgReduceAttrs", kind=REDUCTION, mixed="follow", layout=layouts.finding)(body)


def moved_extent(data: Var | Input, axes: list[int]) -> Any:
    """The number of elements that are reduced to one."""
    count: Any = 1
    for axis in axes:
        count = data.struct_info.get_shape()[axis] * count
    return count


_arg("argmax")
_arg("argmin")

_OVER = {"axis": None, "keepdims": False, "exclude": False, "unbiased": False}


@op("variance", attrs="VarianceAttrs", view=False, options=_OVER, kind=REDUCTION, mixed="never",
    layout=layouts.reducing)  # fmt: skip
def variance(data: Input, mean: Input, **over: Any) -> Any:
    """The mean of the squared distances to `mean`; unbiased: their sum over the count less one."""
    axes, keepdims = layouts.axes_of(data, over["axis"], over["exclude"]), over["keepdims"]
    squared = R.square(R.subtract(data, mean))
    if not over["unbiased"]:
        return R.mean(squared, axes, keepdims)
    total, count = R.sum(squared, axes, keepdims), moved_extent(data, axes)
    return R.divide(total, R.astype(extent_value(count - 1), str(data.struct_info.dtype)))


@variance.build
def _(axis: int | Sequence[int] | None, **values: Any) -> dict[str, Any]:
    return {"axis": as_numbers(axis), **values}


@view("variance", options={**_OVER, "with_mean": None})
def _variance(data: Expr, **over: Any) -> Any:
    """The variance over axes. with_mean: the mean, where it is known."""
    mean = over.pop("with_mean", None)
    if mean is None:
        mean = VIEWS["mean"](data, over["axis"], True, over["exclude"])
    return variance.builder(data, mean, **over)


@view("std", options=_OVER)
def _std(data: Expr, **over: Any) -> Any:
    """The standard deviation over axes."""
    return VIEWS["sqrt"](_variance(data, **over))


@view("mean_variance", options=_OVER)
def _mean_variance(data: Expr, **over: Any) -> Any:
    """The mean and the variance over axes."""
    mean = VIEWS["mean"](data, over["axis"], True, over["exclude"])
    spread = _variance(data, with_mean=mean, **over)
    if not over["keepdims"]:
        mean = VIEWS["mean"](data, over["axis"], False, over["exclude"])
    return TupleWrapper(Tuple([mean, spread]), 2)


@view("mean_std")
def _mean_std(
    data: Expr, axis: int | None = None, keepdims: bool = False, exclude: bool = False
) -> Any:
    """The mean and the standard deviation over axes."""
    over = {"axis": axis, "keepdims": keepdims, "exclude": exclude, "unbiased": False}
    mean, variance = _mean_variance(data, **over)
    return TupleWrapper(Tuple([mean, VIEWS["sqrt"](variance)]), 2)


@view("logsumexp")
def _logsumexp(data: Expr, axis: int | None = None, keepdims: bool = False) -> Any:
    """log(sum(exp(data))) over axes, computed from the greatest element."""
    top = VIEWS["max"](data, axis, True)
    total = VIEWS["sum"](VIEWS["exp"](VIEWS["subtract"](data, top)), axis, True)
    result = VIEWS["add"](VIEWS["log"](total), top)
    return result if keepdims else VIEWS["squeeze"](result, axis)
