"""Reductions, and operators built from them."""

from __future__ import annotations

import numpy as np

from .. import te, tir
from ..ir.dtype import DataType
from ..ir.prim_op import cast, const, div, infimum, max_value, multiply, supremum
from ..relax.struct_info import TensorStructInfo
from .common import (
    accumulator,
    compute,
    infer_reduce,
    normalize_axes,
    normalize_axis,
    product,
    reduce_over,
    rounded,
    widened,
)
from .core import case, op
from .family import reduction
from .flow import along, reducing
from .params import Axes, Axis, Tensor

sum = reduction("relax.sum", te.sum, np.sum, "The sum over `axis`.", grows=True)
max = reduction("relax.max", te.max, np.max, "The greatest value over `axis`.")
min = reduction("relax.min", te.min, np.min, "The least value over `axis`.")
prod = reduction("relax.prod", te.prod, np.prod, "The product over `axis`.", grows=True)


def _mean(x, axes, keepdims, cell=None):
    """The mean of `cell(indices)` (None: of x) over `axes`, in the type of sums. Of no integers it
    is 0."""
    wide, count = _wide(x.dtype), product(x.shape[axis] for axis in axes)
    if not wide.is_float:
        count = tir.max(count, const(1, count.dtype))
    cell = cell or (lambda i: cast(wide, x(*i)))
    name = f"{x.op.name}_red"
    if axes:
        total = reduce_over(x, axes, keepdims, lambda i, k: te.sum(cell(i), axis=k), name)
    else:
        total = compute(x.shape, lambda *i: cell(i), name)
    count = cast(wide, count)
    return compute(total.shape, lambda *i: div(total(*i), count), "T_divide", tag="broadcast")


def _wide(dtype):
    """The type of the sum that a mean is made of: integers must not overflow in it."""
    dtype = accumulator(dtype)
    return dtype if dtype.is_float else DataType("uint64" if dtype.is_uint else "int64")


@op("relax.mean")
def mean(x: Tensor, axis: Axes | None = None, keepdims: bool = False):
    """The mean over `axis` (None: all)."""
    return rounded(_mean(x, normalize_axes(axis, len(x.shape)), keepdims), x.dtype)


mean.infer(infer_reduce)


@mean.numpy
def _(x, axis=None, keepdims=False):
    if x.dtype.kind not in "iu":
        return np.mean(widened(x), axis=_tuple(axis), keepdims=keepdims).astype(x.dtype)
    total = np.sum(x, axis=_tuple(axis), keepdims=keepdims, dtype=f"{x.dtype.kind}8")
    count = np.maximum(x.size // np.maximum(total.size, 1), 1).astype(total.dtype)
    rest = np.fmod(total, count)
    return ((total - rest) // count).astype(x.dtype)


def _tuple(axis):
    return None if axis is None else tuple(axis)


mean.layout(reducing(finite=True))
mean.samples(case((2, 3, 4), axis=[1, 2]), case(("n", 8), axis=[-1], keepdims=True))


def _variance(x, axis, keepdims):
    axes = normalize_axes(axis, len(x.shape))
    center = _mean(x, axes, True)

    def squared(i):
        at = [const(0, v.dtype) if a in axes else v for a, v in enumerate(i)]
        distance = cast(center.dtype, x(*i)) - center(*at)
        return multiply(distance, distance)

    return _mean(x, axes, keepdims, squared)


@op("relax.variance")
def variance(x: Tensor, axis: Axes | None = None, keepdims: bool = False):
    """The mean squared distance from the mean over `axis` (divided by the count)."""
    return rounded(_variance(x, axis, keepdims), x.dtype)


variance.infer(infer_reduce)


@variance.numpy
def _(x, axis=None, keepdims=False):
    return np.var(widened(x), axis=_tuple(axis), keepdims=keepdims).astype(x.dtype)


variance.layout(reducing())
variance.samples(case((2, 3, 4), axis=[1]), case(("n", 8), axis=[-1], keepdims=True))


@op("relax.std")
def std(x: Tensor, axis: Axes | None = None, keepdims: bool = False):
    """The square root of the variance over `axis`."""
    spread = _variance(x, axis, keepdims)
    root = compute(spread.shape, lambda *i: tir.sqrt(spread(*i)), "compute", axes="i")
    return rounded(root, x.dtype)


std.infer(infer_reduce)


@std.numpy
def _(x, axis=None, keepdims=False):
    return np.std(widened(x), axis=_tuple(axis), keepdims=keepdims).astype(x.dtype)


std.layout(reducing())
std.samples(case((2, 3, 4), axis=[1]))


def _arg(name, better, start, meaning, doc):
    """argmax and argmin: a reduction of (index, value) pairs; the first of equal values wins, and
    NaN before all numbers."""

    def body(x: Tensor, axis: Axis | None = None, keepdims: bool = False):
        axes = normalize_axes(None if axis is None else [axis], len(x.shape))

        def combine(lhs, rhs):
            (i, a), (k, b) = lhs, rhs
            same, wins = tir.EQ(a, b), better(a, b)
            if x.dtype.is_float:
                nan_a, nan_b = tir.NE(a, a), tir.NE(b, b)
                same = tir.Or(same, tir.And(nan_a, nan_b))
                wins = tir.Or(wins, tir.And(nan_a, tir.Not(nan_b)))
            keep = tir.Or(wins, tir.And(same, i < k))
            return tir.Select(keep, lhs[0], rhs[0]), tir.Select(keep, lhs[1], rhs[1])

        # The identity loses against every element, equal ones too: its index is the greatest.
        begin = lambda i, v: (max_value(i), start(v))  # noqa: E731
        reducer = te.comm_reducer(combine, begin, name=name)

        def cell(full, spans):
            flat = const(0, "int64")
            for a in axes:
                flat = flat * x.shape[a] + full[a]
            return reducer((cast("int64", flat), x(*full)), axis=spans)

        pair = reduce_over(x, axes, keepdims, cell, f"{x.op.name}_red_temp")
        return compute(pair[0].shape, lambda *i: pair[0](*i), f"{x.op.name}_red")

    body.__name__, body.__doc__ = name, doc
    operator = op(f"relax.{name}")(body)

    @operator.infer
    def _(x: TensorStructInfo, axis=None, keepdims=False) -> TensorStructInfo:
        return infer_reduce(x, None if axis is None else [axis], keepdims, "int64")

    @operator.numpy
    def _(x, axis=None, keepdims=False):
        if not x.size:  # of nothing, the index that loses against every other
            none = np.sum(x, axis=axis, keepdims=keepdims, dtype=np.int64)
            return np.full(none.shape, np.iinfo(np.int64).max)
        return np.asarray(meaning(x, axis=axis, keepdims=keepdims), np.int64)

    operator.layout(reducing())
    operator.samples(case((2, 3, 4), axis=1), case(("n", 8), axis=-1, keepdims=True))
    return operator


argmax = _arg("argmax", lambda a, b: a > b, infimum, np.argmax, "Index of the greatest value.")
argmin = _arg("argmin", lambda a, b: a < b, supremum, np.argmin, "Index of the least value.")


@op("relax.nn.softmax")
def softmax(data: Tensor, axis: Axis = -1):
    """exp(x - max) / sum(exp(x - max)) over `axis`."""
    which = normalize_axis(axis, len(data.shape))
    exped, total = _exp_and_sum(data, which)
    drop = lambda i: i[:which] + i[which + 1 :]  # noqa: E731
    share = lambda *i: cast(data.dtype, exped(*i) / total(*drop(i)))  # noqa: E731
    return compute(data.shape, share, "T_softmax_norm", axes="i")


def _exp_and_sum(data, which):
    rest = [d for a, d in enumerate(data.shape) if a != which]
    drop = lambda i: i[:which] + i[which + 1 :]  # noqa: E731

    def over(reduce, values, name):
        k = te.reduce_axis((const(0, data.shape[which].dtype), data.shape[which]), name="k")
        cell = lambda *i: reduce(values(*i[:which], k, *i[which:]), axis=k)  # noqa: E731
        return compute(rest, cell, name, axes="i")

    top = over(te.max, data, "T_softmax_maxelem")
    wide = lambda v: cast(accumulator(data.dtype), v)  # noqa: E731
    power = lambda *i: tir.exp(wide(data(*i)) - wide(top(*drop(i))))  # noqa: E731
    exped = compute(data.shape, power, "T_softmax_exp", axes="i")
    return exped, over(te.sum, exped, "T_softmax_expsum")


def _infer_same(x: TensorStructInfo, axis: int = -1) -> TensorStructInfo:
    if x.ndim != -1:
        normalize_axis(axis, x.ndim)
    if not (x.dtype.is_void or x.dtype.is_float):
        raise TypeError(f"softmax needs floats, got {x.dtype}")
    return TensorStructInfo(x.shape, x.dtype, ndim=x.ndim)


softmax.infer(_infer_same)


@softmax.numpy
def _(data, axis=-1):
    x = widened(data)
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return (e / e.sum(axis=axis, keepdims=True)).astype(data.dtype)


softmax.layout(along("axis"))
softmax.samples(case((2, 8), axis=-1), case(("n", 3, 5), axis=1))


@op("relax.nn.log_softmax")
def log_softmax(data: Tensor, axis: Axis = -1):
    """x - max - log(sum(exp(x - max))) over `axis`."""
    which = normalize_axis(axis, len(data.shape))
    _, total = _exp_and_sum(data, which)
    top = max(data, [which], False)
    drop = lambda i: i[:which] + i[which + 1 :]  # noqa: E731
    wide = lambda v: cast(total.dtype, v)  # noqa: E731

    def value(*i):
        rest = drop(i)
        return cast(data.dtype, wide(data(*i)) - wide(top(*rest)) - tir.log(total(*rest)))

    return compute(data.shape, value, "compute", axes="i")


log_softmax.infer(_infer_same)


@log_softmax.numpy
def _(data, axis=-1):
    x = widened(data)
    shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(data.dtype)


log_softmax.layout(along("axis"))
log_softmax.samples(case((2, 8), axis=-1))
