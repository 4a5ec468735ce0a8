"""Reductions, and operators built from them."""

from __future__ import annotations

import math

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType
from ..ir.literals import int_value, is_one
from ..ir.prim_expr import IntImm, Select
from ..ir.prim_op import cast, const, div, equal, infimum, max_value, multiply, supremum
from ..relax import op as R
from ..relax.block_builder import BlockBuilder
from ..relax.expr import Call, Expr
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo
from .common import (
    EXACT_READS,
    accumulator,
    compute,
    element,
    infer_reduce,
    like,
    normalize_axes,
    normalize_axis,
    of_shape,
    product,
    reduce_over,
    rounded,
    shape_of,
    shape_text,
    widened,
)
from .core import Operator, case, op
from .extents import broadcast_differ, dims_equal, may_be_one
from .family import reduction
from .gradient import no_gradient
from .layout_rules import along, reducing
from .params import Axes, Axis, Shape, Tensor


def _of_extreme(cx, x, y, g):
    """To the elements that are the greatest or the least; equal ones share it evenly."""
    hit = R.where(R.equal(x, y), cx.number(1), cx.number(0))
    axis = cx.call.attrs.axis
    return g * hit / R.sum(hit, axis, True)


sum = reduction(
    "relax.sum",
    te.sum,
    np.sum,
    "The sum over `axis`.",
    grows=True,
    slope=lambda cx, x, y, g: R.broadcast_to(g, cx.shape(x)),
)
max = reduction(
    "relax.max",
    te.max,
    np.max,
    "The greatest value over `axis`.",
    start=lambda dtype: infimum(str(dtype)).value,
    slope=_of_extreme,
)
min = reduction(
    "relax.min",
    te.min,
    np.min,
    "The least value over `axis`.",
    start=lambda dtype: supremum(str(dtype)).value,
    slope=_of_extreme,
)
prod = reduction(
    "relax.prod",
    te.prod,
    np.prod,
    "The product over `axis`.",
    grows=True,
    slope=lambda cx, x, y, g: g * y / x,
)


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


@mean.grad
def _(cx, x, axis=None, keepdims=False):
    share = cx.spread(cx.grad, x, axis, keepdims) / cx.count(x, axis)
    return R.broadcast_to(share, cx.shape(x))


mean.layout(reducing(finite=True))
mean.samples(
    case((2, 3, 4), axis=[1, 2]), case(("n", 8), axis=[-1], keepdims=True), case(("n", 2, "m"))
)


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


def _from_mean(cx, x, g, axis):
    """The gradient of the variance times `g`."""
    return g * (cx.number(2) / cx.count(x, axis)) * (x - R.mean(x, axis, True))


@variance.grad
def _(cx, x, axis=None, keepdims=False):
    return _from_mean(cx, x, cx.spread(cx.grad, x, axis, keepdims), axis)


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


@std.grad
def _(cx, x, axis=None, keepdims=False):
    g = cx.spread(cx.grad / (cx.number(2) * cx.out), x, axis, keepdims)
    return _from_mean(cx, x, g, axis)


std.layout(reducing())
std.samples(case((2, 3, 4), axis=[1]))


def _arg(name, extreme, meaning, doc):
    """argmax and argmin: the least index of an element that is the extreme one; the first of equal
    values wins, and NaN before all numbers. Two reductions of numbers fill vectors, one of pairs
    does not (rows of 1,024 on one thread: 1.8 to 0.12 ns an element)."""

    def body(x: Tensor, axis: Axis | None = None, keepdims: bool = False):
        axes = normalize_axes(None if axis is None else [axis], len(x.shape))
        count = product(x.shape[a] for a in axes)
        small = isinstance(count, IntImm) and 0 < count.value < 1 << 31
        kind = "int32" if small else "int64"  # of which a vector has two for one of int64

        def value(full):
            return cast("int8", x(*full)) if x.dtype.is_bool else x(*full)

        best = reduce_over(
            x, axes, True, lambda full, spans: extreme(value(full), axis=spans), f"{name}_value"
        )

        def index(full, spans):
            flat = const(0, kind)
            for a in axes:
                flat = flat * cast(kind, x.shape[a]) + cast(kind, full[a])
            same = tir.EQ(value(full), best(*(0 if a in axes else i for a, i in enumerate(full))))
            hit = tir.Or(same, tir.isnan(x(*full))) if x.dtype.is_float else same
            return te.min(Select(hit, flat, max_value(kind)), axis=spans)

        exact = {EXACT_READS: True}
        least = reduce_over(x, axes, keepdims, index, f"{name}_index", exact)
        return compute(least.shape, lambda *i: cast("int64", least(*i)), f"{x.op.name}_red")

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

    operator.grad(no_gradient)
    operator.layout(reducing())
    operator.samples(case((2, 3, 4), axis=1), case(("n", 8), axis=-1, keepdims=True))
    return operator


argmax = _arg("argmax", te.max, np.argmax, "Index of the greatest value.")
argmin = _arg("argmin", te.min, np.argmin, "Index of the least value.")


@op("relax.nn.softmax")
def softmax(data: Tensor, axis: Axis = -1):
    """exp(x - max) / sum(exp(x - max)) over `axis`."""
    which = normalize_axis(axis, len(data.shape))
    _, exped, total = exp_and_sum(data, which)
    # A division of each element made rows of 1,024 on Zen 4 a tenth slower.
    factor = compute(total.shape, lambda *i: 1 / total(*i), "T_softmax_factor", axes="i")
    share = lambda *i: cast(data.dtype, exped(*i) * factor(*_without(i, which)))  # noqa: E731
    return compute(data.shape, share, "T_softmax_norm", axes="i")


def _without(values, axis):
    """The indices or extents of the other axes."""
    return [*values[:axis], *values[axis + 1 :]]


def exp_and_sum(data, which, function=tir.exp):
    """Of a softmax along the axis `which`: the maxima, `function` of the distances to them, and its sums."""
    rest = _without(data.shape, which)

    def over(reduce, values, name):
        k = te.reduce_axis((const(0, data.shape[which].dtype), data.shape[which]), name="k")
        cell = lambda *i: reduce(values(*i[:which], k, *i[which:]), axis=k)  # noqa: E731
        return compute(rest, cell, name, axes="i")

    top = over(te.max, data, "T_softmax_maxelem")
    wide = lambda v: cast(accumulator(data.dtype), v)  # noqa: E731
    power = lambda *i: function(wide(data(*i)) - wide(top(*_without(i, which))))  # noqa: E731
    exped = compute(data.shape, power, "T_softmax_exp", axes="i")
    return top, exped, over(te.sum, exped, "T_softmax_expsum")


def _infer_same(x: TensorStructInfo, axis: int = -1) -> TensorStructInfo:
    if x.ndim != -1:
        normalize_axis(axis, x.ndim)
    if not (x.dtype.is_void or x.dtype.is_float):
        raise TypeError(explain("softmax needs floats", got=str(x.dtype)))
    return like(x)


softmax.infer(_infer_same)


@softmax.numpy
def _(data, axis=-1):
    x = widened(data)
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return (e / e.sum(axis=axis, keepdims=True)).astype(data.dtype)


softmax.grad(lambda cx, data, axis=-1: (cx.grad - R.sum(cx.grad * cx.out, axis, True)) * cx.out)
softmax.layout(along("axis"))
softmax.samples(case((2, 8), axis=-1), case(("n", 3, 5), axis=1), case((3, 33, 10), axis=-1))


@op("relax.nn.log_softmax")
def log_softmax(data: Tensor, axis: Axis = -1):
    """x - max - log(sum(exp(x - max))) over `axis`."""
    which = normalize_axis(axis, len(data.shape))
    top, _, total = exp_and_sum(data, which)
    logarithm = compute(total.shape, lambda *i: tir.log(total(*i)), "T_softmax_log", axes="i")
    wide = lambda v: cast(total.dtype, v)  # noqa: E731

    def value(*i):
        rest = _without(i, which)
        return cast(data.dtype, wide(data(*i)) - wide(top(*rest)) - logarithm(*rest))

    return compute(data.shape, value, "compute", axes="i")


log_softmax.infer(_infer_same)


@log_softmax.numpy
def _(data, axis=-1):
    x = widened(data)
    shifted = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    return (shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(data.dtype)


log_softmax.grad(lambda cx, data, axis=-1: cx.grad - R.sum(cx.grad, axis, True) * R.exp(cx.out))
log_softmax.layout(along("axis"))
log_softmax.samples(case((2, 8), axis=-1), case((3, 33, 10), axis=2))

# Rows that are shorter than two vectors are not reduced in vectors, see `sched.rows`. From this number of
# them on, columns of all rows are: 64 rows of 10 take 2.1 us instead of 2.8 (logarithms 2.0 instead of 5.0),
# 4,096 of them 48 instead of 90 (47 instead of 225).
_SHORT, _ROWS = 32, 64


def _across_rows(operator: Operator, bb: BlockBuilder, call: Call) -> Expr:
    """Transpose many short rows, so that vectors have an element of each of several rows."""
    data, axis = call.args[0], call.attrs.axis
    extents = [int_value(d) for d in data.struct_info.get_shape() or ()]
    sizes = [extent for extent in extents if extent is not None]
    last = len(extents) - 1
    if len(sizes) <= last or last < 0 or normalize_axis(axis, len(sizes)) != last:
        return operator._legalize(bb, call)
    *rows, length = sizes
    if not 1 < length < _SHORT or math.prod(rows) < _ROWS:
        return operator._legalize(bb, call)
    flat = bb.emit(R.reshape(data, [math.prod(rows), length]))
    columns = bb.emit(operator.builder(bb.emit(R.permute_dims(flat, [1, 0])), 0))
    return R.reshape(bb.emit(R.permute_dims(columns, [1, 0])), sizes)


@softmax.legalize
def legalize_softmax(bb, call):
    return _across_rows(softmax, bb, call)


@log_softmax.legalize
def legalize_log_softmax(bb, call):
    return _across_rows(log_softmax, bb, call)


def _collapse(data, shape):
    """`data` summed over the axes that `shape` lacks, or that are 1 there. Of an axis that may be 1, the
    number of elements to sum is computed at run time."""
    extra = len(shape_of(data)) - len(shape)
    sizes = dict(enumerate(data.shape[:extra]))
    for a, d in enumerate(shape, extra):
        have = data.shape[a]
        if is_one(d) and not is_one(have):
            sizes[a] = have
        elif not isinstance(d, IntImm) and not dims_equal(d, have) and may_be_one(d):
            sizes[a] = Select(equal(d, 1), have, const(1, have.dtype))
    wide = accumulator(data.dtype)
    spans = {a: te.reduce_axis((const(0, "int64"), d), name=f"k{a}") for a, d in sizes.items()}
    if not spans:
        return compute(shape, lambda *i: element(data, i), "collapse_sum")

    def cell(*i):
        at = [*spans.values()][:extra] + list(i)
        for a, k in spans.items():
            at[a] = k if a < extra or is_one(shape[a - extra]) else i[a - extra] + k
        return te.sum(cast(wide, data(*at)), axis=list(spans.values()))

    return rounded(compute(shape, cell, "collapse_sum", tag="comm_reduce"), data.dtype)


def _check_collapse(data, shape):
    """Raise ValueError where data, which may have unknown extents, cannot be summed to a shape."""
    dims = data.get_shape()
    if shape is None or dims is None:
        return
    if len(shape) > len(dims) or broadcast_differ(shape, dims, both=False):
        what = "data cannot be collapsed to this shape"
        hint = "each of its dims, from the last one on, must be 1 or that of data"
        raise ValueError(
            explain(what, got=f"{shape_text(dims)} to {shape_text(shape)}", instead=hint)
        )


def _numpy_collapse(data, shape):
    extra = data.ndim - len(shape)
    ones = tuple(extra + k for k, d in enumerate(shape) if d == 1)
    summed = widened(data).sum((*range(extra), *ones), keepdims=True)
    return summed.reshape(shape).astype(data.dtype)


@op("relax.collapse_sum_to")
def collapse_sum_to(data: Tensor, shape: Shape):
    """data summed until its shape is `shape`: the reverse of broadcast_to."""
    return _collapse(data, list(shape))


@collapse_sum_to.infer
def _(data: TensorStructInfo, shape: ShapeStructInfo):
    _check_collapse(data, shape.values)
    return of_shape(shape, data.dtype)


@op("relax.collapse_sum_like")
def collapse_sum_like(data: Tensor, collapse_target: Tensor):
    """data summed until its shape is that of `collapse_target`."""
    return _collapse(data, shape_of(collapse_target))


@collapse_sum_like.infer
def _(data: TensorStructInfo, collapse_target: TensorStructInfo):
    _check_collapse(data, collapse_target.get_shape())
    return like(collapse_target, data.dtype)


collapse_sum_to.numpy(lambda data, shape: _numpy_collapse(data, tuple(int(d) for d in shape)))
collapse_sum_to.samples(
    case((2, 3, 4), [3, 1]), case(("n", 4), [1, 4]), case((2, 3), []), case((2, 3), [2, 3])
)
collapse_sum_like.numpy(lambda data, collapse_target: _numpy_collapse(data, collapse_target.shape))
collapse_sum_like.samples(case((2, 3, 4), (1, 4)), case(("n", 4), ("n", 1)))
