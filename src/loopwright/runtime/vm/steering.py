"""Sizes and axes known only at run time: functions that compile programs call to turn tensors of
integers into shapes, checked.

An operator whose axes are data becomes the same operator with fixed axes on a view whose extents
these functions compute; so it has a native kernel all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite, prod
from typing import Any, Literal

import numpy as np

from ...base.errors import explain
from ..tensor import ShapeTuple
from .builtins import builtin, number_of, tensor_to_shape, view_of
from .values import VMValueError, arrive


def axes_of(value: Any, ndim: int) -> list[int]:
    """The axes that a tensor lists, none of them twice; negative ones count from the end. Raises
    ValueError."""
    axes = [int(a) for a in tensor_to_shape(value)]
    which = [a + ndim if a < 0 else a for a in axes]
    if any(not 0 <= a < ndim for a in which) or len(set(which)) < len(which):
        raise VMValueError(explain(f"axes of a tensor of rank {ndim}", got=axes))
    return which


def index_from(value: Any) -> int:
    """The only number of a tensor of integers. Raises ValueError."""
    number_of(value)
    return tensor_to_shape(value)[0]


def _reduced(shape: Sequence[int], axes: Any, noop: bool) -> list[int]:
    which = axes_of(axes, len(shape))
    return which if which or noop else list(range(len(shape)))


@builtin("relax.run.opened_sizes")
def opened_sizes(shape: ShapeTuple, axes: Any, noop: bool) -> ShapeTuple:
    """Two extents for each axis, of which the second is 1, or the first for one of `axes`: a view
    that is reduced along every other axis. No axes: all of them, unless `noop`."""
    which = _reduced(shape, axes, noop)
    return ShapeTuple(n for a, d in enumerate(shape) for n in ((1, d) if a in which else (d, 1)))


@builtin("relax.run.kept_sizes")
def kept_sizes(shape: ShapeTuple, axes: Any, noop: bool) -> ShapeTuple:
    """The extents that a reduction keeps."""
    which = _reduced(shape, axes, noop)
    return ShapeTuple(d for a, d in enumerate(shape) if a not in which)


@builtin("relax.run.squeezed_sizes")
def squeezed_sizes(shape: ShapeTuple, axes: Any) -> ShapeTuple:
    """The shape without some axes, which must have extent 1."""
    which = axes_of(axes, len(shape))
    if any(shape[a] != 1 for a in which):
        what = "an axis that is squeezed must have extent 1"
        raise VMValueError(explain(what, got=f"axes {which} of shape {tuple(shape)}"))
    return ShapeTuple(d for a, d in enumerate(shape) if a not in which)


@builtin("relax.run.lasting_sizes")
def lasting_sizes(shape: ShapeTuple, lasting: ShapeTuple) -> ShapeTuple:
    """The extents of a shape without its ones. kept: those that are not known to be 1; none may be."""
    if 1 in lasting:
        what = "Squeeze without axes met an extent of 1 that was not known when it was compiled"
        raise VMValueError(explain(what, got=tuple(shape), instead="give the axes, or the shape"))
    return lasting


@builtin("relax.run.unsqueezed_sizes")
def unsqueezed_sizes(shape: ShapeTuple, axes: Any) -> ShapeTuple:
    """The shape with axes of extent 1 inserted; they are counted in the result."""
    ndim = len(shape) + int(view_of(axes).size)
    which = axes_of(axes, ndim)
    rest = iter(shape)
    return ShapeTuple(1 if a in which else next(rest) for a in range(ndim))


@builtin("relax.run.sizes_around")
def sizes_around(shape: ShapeTuple, axis: Any) -> ShapeTuple:
    """The elements before an axis, along it, and behind it."""
    number_of(axis)
    (a,) = axes_of(axis, len(shape))
    return ShapeTuple((prod(shape[:a]), shape[a], prod(shape[a + 1 :])))


@builtin("relax.run.sizes_with")
def sizes_with(shape: ShapeTuple, axis: Any, extent: int, last: int) -> ShapeTuple:
    """The shape with another extent of one axis, and another last one."""
    number_of(axis)
    (a,) = axes_of(axis, len(shape))
    if a == len(shape) - 1:
        raise VMValueError(explain("the axis is not the last one", got=f"{a} of {tuple(shape)}"))
    return ShapeTuple((*shape[:a], extent, *shape[a + 1 : -1], last))


@builtin("relax.run.within")
def within(value: Any, extent: int) -> ShapeTuple:
    """A number from 0 to an extent."""
    number = index_from(value)
    if not 0 <= number <= extent:
        raise VMValueError(explain(f"a number from 0 to {extent}", got=number))
    return ShapeTuple((number,))


@builtin("relax.run.broadcast_sizes")
def broadcast_sizes(shape: ShapeTuple, target: Any) -> ShapeTuple:
    """The shape that a tensor and a target broadcast to."""
    extents = tuple(tensor_to_shape(target))
    try:
        return ShapeTuple(np.broadcast_shapes(tuple(shape), extents))
    except ValueError:
        what = f"a tensor of shape {tuple(shape)} cannot be expanded"
        raise VMValueError(explain(what, got=extents)) from None


@builtin("relax.run.range_count")
def range_count(start: Any, limit: Any, delta: Any) -> ShapeTuple:
    """The count of numbers from `start` to below `limit`, each `delta` more than the last."""
    first, last, step = map(number_of, (start, limit, delta))
    if step == 0 or not all(map(isfinite, (first, last, step))):
        what = "a range of numbers has finite bounds and a step that is not 0"
        raise VMValueError(explain(what, got=f"from {first} to {last} by {step}"))
    whole = isinstance(step, int)
    count = -((first - last) // step) if whole else ceil((last - first) / step)
    if count >= 1 << 63:
        what = "a range of numbers has more than an int64 can count"
        raise VMValueError(explain(what, got=f"from {first} to {last} by {step}"))
    return ShapeTuple((max(count, 0),))


@builtin("relax.run.pads")
def pads(widths: Any, axes: Any, ndim: int) -> ShapeTuple:
    """The widths of a padding of some axes, for all: those before, then those behind."""
    which, amounts = axes_of(axes, ndim), list(tensor_to_shape(widths))
    if len(amounts) != 2 * len(which):
        what = "a padding has two widths for each axis"
        raise VMValueError(explain(what, got=f"{amounts} for axes {which}"))
    whole = [0] * (2 * ndim)
    for k, a in enumerate(which):
        whole[a], whole[ndim + a] = amounts[k], amounts[len(which) + k]
    return ShapeTuple(whole)


@builtin("relax.run.pad")
def pad(x: Any, widths: object, mode: Literal["edge", "reflect", "wrap"]) -> Any:
    """A tensor padded from itself, by numpy's modes "edge", "reflect" and "wrap". A negative width
    cuts, before that."""
    array, ndim = view_of(x), len(x.shape)
    amounts = list(tensor_to_shape(widths)) if not isinstance(widths, ShapeTuple) else list(widths)
    if len(amounts) != 2 * ndim:
        what = "a padding has two widths for each axis"
        raise VMValueError(explain(what, got=f"{amounts} for rank {ndim}"))
    pairs = list(zip(amounts[:ndim], amounts[ndim:], strict=True))
    cut = [
        slice(max(-b, 0), max(n + min(a, 0), 0)) for (b, a), n in zip(pairs, x.shape, strict=True)
    ]
    grown = [(max(b, 0), max(a, 0)) for b, a in pairs]
    try:
        return arrive(np.pad(array[tuple(cut)], grown, mode=mode))
    except ValueError as error:
        what = f"a tensor of shape {tuple(x.shape)} cannot be padded: {error}"
        raise VMValueError(explain(what, got=amounts)) from None


@builtin("relax.run.slice")
def slice_of(x: Any, starts: Any, ends: Any, axes: object, steps: object = None) -> Any:
    """x[start:end:step] on each of `axes`, on the first ones if that is their number; a bound behind an end
    is that end."""
    array = view_of(x)
    first, last = list(tensor_to_shape(starts)), list(tensor_to_shape(ends))
    which = range(axes)[: len(first)] if isinstance(axes, int) else axes_of(axes, array.ndim)
    by = [1] * len(which) if steps is None else list(tensor_to_shape(steps))
    if not len(which) == len(by) == len(first) == len(last):
        got = f"{len(first)}, {len(last)}, {len(which)} and {len(by)}"
        raise VMValueError(explain("starts, ends, axes and steps must have one length", got=got))
    at = [slice(None)] * array.ndim
    for a, b, e, s in zip(which, first, last, by, strict=True):
        if s == 0:
            raise VMValueError("a step may not be 0")
        at[a] = _bounded(array.shape[a], b, e, s)
    return arrive(np.asarray(array[tuple(at)], order="C"))


def _bounded(extent: int, first: int, last: int, step: int) -> slice:
    """The slice with bounds clamped to the axis, as ONNX does: backwards it starts within."""
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    begin = min(max(first + extent if first < 0 else first, max(low, 0)), high)
    end = min(max(last + extent if last < 0 else last, low), high)
    return slice(begin, None if end < 0 else end, step) if extent else slice(0, 0)


# --- resizing ---------------------------------------------------------------------


@builtin("relax.run.resized_sizes")
def resized_sizes(
    shape: ShapeTuple, spec: Any, by_scales: bool, policy: str, *roi: Any
) -> ShapeTuple:
    """The extents of axes that are resized by scales, or to sizes, by ONNX's rules. policy:
    "stretch", or the rule for the common ratio of all axes; roi: the parts of the axes that are read, first
    their starts, then their ends."""
    return ShapeTuple(_resized(shape, spec, by_scales, policy, *roi)[0])


@builtin("relax.run.resize_places")
def resize_places(shape: ShapeTuple, spec: Any, by_scales: bool, policy: str, *roi: Any) -> Any:
    """For each axis that is resized its factor, and the part that is read, (first, last)."""
    parts = view_of(roi[0]).reshape(2, -1) if roi else [[0.0] * len(shape), [1.0] * len(shape)]
    factors = _resized(shape, spec, by_scales, policy, *roi)[1]
    return arrive(np.ascontiguousarray(np.array([factors, *parts], np.float64).T))


def _resized(
    shape: Sequence[int], spec: Any, by_scales: bool, policy: str, roi: object = None
) -> tuple[list[int], list[float]]:
    """(extents, factors)"""
    numbers: Any = view_of(spec).reshape(-1).tolist()
    if len(numbers) != len(shape) or any(not 0 < n < 1 << 31 for n in numbers):
        what = f"a Resize of {len(shape)} axes takes one positive number per axis"
        raise VMValueError(explain(what, got=numbers))
    if by_scales:
        parts = np.ones(len(shape)) if roi is None else np.diff(view_of(roi).reshape(2, -1), axis=0)
        read = np.array(shape, np.float32) * np.float32(parts.reshape(-1))
        return [int(n) for n in np.floor(read * np.float32(numbers))], numbers
    ratios = [n / d if d else 1.0 for n, d in zip(numbers, shape, strict=True)]
    if policy != "stretch":
        one = (min if policy == "not_larger" else max)(ratios)
        return [int(d * one + 0.5) for d in shape], [one] * len(shape)
    return [int(n) for n in numbers], ratios
