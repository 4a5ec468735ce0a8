"""Normalizations, dropout and padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.literals import int_value
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import add, cast, const, multiply
from ..relax import op as R
from ..relax.struct_info import ShapeStructInfo, TensorStructInfo, TupleStructInfo
from .common import (
    accumulator,
    compute,
    like,
    normalize_axes,
    normalize_axis,
    product,
    reduce_over,
    widened,
)
from .core import FUSABLE, case, op
from .extents import differ, dims_gap, shorter, simplify, text
from .layout_rules import along, elementwise, padding
from .params import Axes, Axis, Ints, Shape, Tensor


def moments(
    over: Callable[..., te.Tensor], value: Callable[..., PrimExpr], count: PrimExpr, name: str
) -> tuple[te.Tensor, te.Tensor]:
    """Mean and variance: the mean first, because the difference of two sums, E[x * x] -
    mean * mean, cancels where the mean is large.

    value(full) is an element as a number, `count` how many there are; over(cell, name) sums
    cell(full, kept) over the indices of an element that are not among those of the result."""

    def mean_of(cell, name):
        total = over(cell, name)
        share = lambda *i: total(*i) / cast(total.dtype, count)  # noqa: E731
        return compute(total.shape, share, f"{name}_mean")

    mean = mean_of(lambda full, outer: value(full), name)

    def squared(full, outer):
        distance = value(full) - mean(*outer)
        return multiply(distance, distance)

    return mean, mean_of(squared, f"{name}_spread")


def moments_over(x: te.Tensor, axes: list[int], name: str) -> tuple[te.Tensor, te.Tensor]:
    """Mean and variance over `axes`, in the type of sums."""

    def over(cell, name):
        outer = lambda i: [v for a, v in enumerate(i) if a not in axes]  # noqa: E731
        combine = lambda i, k: te.sum(cell(i, outer(i)), axis=k)  # noqa: E731
        return reduce_over(x, axes, False, combine, name)

    value = lambda i: cast(accumulator(x.dtype), x(*i))  # noqa: E731
    return moments(over, value, product(x.shape[a] for a in axes), name)


def scaled(value: PrimExpr, gain: PrimExpr | None, shift: PrimExpr | None) -> PrimExpr:
    """value * gain + shift, in the type of `value`; None leaves one out."""
    value = value if gain is None else value * cast(value.dtype, gain)
    return value if shift is None else value + cast(value.dtype, shift)


@op("relax.nn.layer_norm", kind=FUSABLE, mixed="follow")
def layer_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    axes: Axes,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
):
    """(x - mean) / sqrt(var + epsilon) * gamma + beta, mean and variance over `axes`."""
    which = normalize_axes(axes, len(data.shape))
    mean, spread = moments_over(data, which, f"{data.op.name}_red_temp")

    def cell(*i):
        at = [v for a, v in enumerate(i) if a not in which]
        own = [i[a] for a in which]
        factor = tir.rsqrt(spread(*at) + const(epsilon, spread.dtype))
        value = (cast(mean.dtype, data(*i)) - mean(*at)) * factor
        value = scaled(value, gamma(*own) if scale else None, beta(*own) if center else None)
        return cast(data.dtype, value)

    return compute(data.shape, cell, "T_layer_norm")


@layer_norm.infer
def _(data, gamma, beta, axes, epsilon=1e-5, center=True, scale=True):
    return like_data(data, check_params(data, axes, gamma=gamma, beta=beta))


def check_params(data: TensorStructInfo, axes: list[int], **params: TensorStructInfo) -> bool:
    """Check the parameters of a normalization, which have the extents of `axes` of the data. Returns
    whether these are proved to be equal. Raises TypeError or ValueError if they do not fit."""
    if not (data.dtype.is_void or data.dtype.is_float):
        raise TypeError(explain("needs a tensor of floats", got=str(data.dtype)))
    which = [normalize_axis(a, data.ndim) for a in axes] if data.ndim != -1 else axes
    if len(set(which)) < len(which):
        raise ValueError(explain("an axis is named twice", got=list(axes)))
    shape, proved = data.get_shape(), True
    for name, info in params.items():
        if info.dtype != data.dtype:
            got = f"{name} of {info.dtype} for data of {data.dtype}"
            hint = "cast one side with astype"
            raise TypeError(explain("operands of different dtypes", got=got, instead=hint))
        if info.ndim not in (-1, len(axes)):
            what = f"{name} must have one axis for each normalized one"
            raise ValueError(explain(what, got=f"rank {info.ndim} for axes {list(axes)}"))
        own = info.get_shape()
        if shape is None or own is None:
            continue
        for a, d in zip(which, own, strict=True):
            gap = dims_gap(shape[a], d)
            proved = proved and gap == 0
            if gap or differ(d, shape[a]):
                what = f"{name} does not fit the normalized axis"
                raise ValueError(explain(what, got=f"{d} for an axis of {shape[a]}"))
    return proved


def like_data(data: TensorStructInfo, proved: bool) -> TensorStructInfo:
    """The struct info of a tensor of the data's shape, which is unknown unless it is proved."""
    return TensorStructInfo(data.shape if proved else None, data.dtype, ndim=data.ndim)


def _norm_axes(x, axes):
    return tuple(a % x.ndim for a in axes)


@layer_norm.numpy
def _(data, gamma, beta, axes, epsilon=1e-5, center=True, scale=True):
    which, x = _norm_axes(data, axes), widened(data)
    out = (x - x.mean(which, keepdims=True)) / np.sqrt(x.var(which, keepdims=True) + epsilon)
    shape = [d if a in which else 1 for a, d in enumerate(data.shape)]
    if scale:
        out = out * gamma.reshape(shape)
    return (out + beta.reshape(shape) if center else out).astype(data.dtype)


@layer_norm.grad
def _(cx, data, gamma, beta, axes, epsilon=1e-5, center=True, scale=True):
    rank = data.struct_info.ndim
    which = normalize_axes(axes, rank)
    others = [a for a in range(rank) if a not in which]
    factor = R.rsqrt(R.variance(data, which, True) + cx.number(epsilon))
    normal = (data - R.mean(data, which, True)) * factor
    g = cx.grad * gamma if scale else cx.grad
    mean = lambda v: R.mean(v, which, True)  # noqa: E731
    of_data = factor * (g - mean(g) - normal * mean(g * normal))
    return [
        of_data,
        R.sum(cx.grad * normal, others) if scale else None,
        R.sum(cx.grad, others) if center else None,
    ]


layer_norm.layout(along("axes", ordered=True))
layer_norm.samples(
    case((2, 3, 8), (8,), (8,), axes=[-1]), case(("n", 8), (8,), (8,), axes=[-1], epsilon=1e-6)
)


@op("relax.nn.rms_norm", kind=FUSABLE, mixed="follow")
def rms_norm(data: Tensor, weight: Tensor, axes: Axes = -1, epsilon: float = 1e-5):
    """x / sqrt(mean(x * x) + epsilon) * weight, the mean over `axes`."""
    which = normalize_axes(axes, len(data.shape))
    wide = accumulator(data.dtype)

    def squares(i, k):
        v = cast(wide, data(*i))
        return te.sum(v * v, axis=k)

    total = reduce_over(data, which, False, squares, f"{data.op.name}_red_temp")
    count = cast(wide, product(data.shape[a] for a in which))

    def cell(*i):
        at = [v for a, v in enumerate(i) if a not in which]
        factor = tir.rsqrt(total(*at) / count + const(epsilon, wide))
        value = cast(wide, data(*i)) * factor
        return cast(data.dtype, value * cast(wide, weight(*[i[a] for a in which])))

    return compute(data.shape, cell, "T_rms_norm")


@rms_norm.infer
def _(data, weight, axes, epsilon=1e-5):
    return like_data(data, check_params(data, axes, weight=weight))


@rms_norm.numpy
def _(data, weight, axes, epsilon=1e-5):
    which, x = _norm_axes(data, axes), widened(data)
    shape = [d if a in which else 1 for a, d in enumerate(data.shape)]
    out = x / np.sqrt((x * x).mean(which, keepdims=True) + epsilon) * weight.reshape(shape)
    return out.astype(data.dtype)


@rms_norm.grad
def _(cx, data, weight, axes=-1, epsilon=1e-5):
    rank = data.struct_info.ndim
    which = normalize_axes(axes, rank)
    others = [a for a in range(rank) if a not in which]
    factor = R.rsqrt(R.mean(data * data, which, True) + cx.number(epsilon))
    g = cx.grad * weight
    of_data = factor * (g - data * factor * factor * R.mean(g * data, which, True))
    return [of_data, R.sum(cx.grad * data * factor, others)]


rms_norm.layout(along("axes", ordered=True))
rms_norm.samples(case((2, 3, 8), (8,), axes=[-1]))


@op("relax.nn.batch_norm", kind=FUSABLE)
def batch_norm(
    data: Tensor, gamma: Tensor, beta: Tensor, moving_mean: Tensor, moving_var: Tensor, axis: Axis,
    epsilon: float = 1e-5, center: bool = True, scale: bool = True, momentum: float = 0.1,
    training: bool = True,
):  # fmt: skip
    """Normalize each channel of `axis`. Returns (normalized, moving mean, moving variance).

    In training, by the batch's mean and variance, with which the moving ones are updated
    with `momentum`. Otherwise by the moving mean and variance, which do not change.
    """
    which = normalize_axis(axis, len(data.shape))
    center_of, spread_of = moving_mean, moving_var
    wide = lambda v: cast(accumulator(data.dtype), v)  # noqa: E731
    if training:
        others = [a for a in range(len(data.shape)) if a != which]
        center_of, spread_of = moments_over(data, others, "batch_moments")

    def cell(*i):
        c = i[which]
        factor = tir.rsqrt(wide(spread_of(c)) + const(epsilon, accumulator(data.dtype)))
        value = (wide(data(*i)) - wide(center_of(c))) * factor
        value = scaled(value, gamma(c) if scale else None, beta(c) if center else None)
        return cast(data.dtype, value)

    def moved(old, new):
        if not training:
            return compute(old.shape, lambda i: old(i), "T_identity")
        keep, take = const(1 - momentum, old.dtype), const(momentum, old.dtype)
        blend = lambda i: old(i) * keep + cast(old.dtype, new(i)) * take  # noqa: E731
        return compute(old.shape, blend, "T_moved")

    normalized = compute(data.shape, cell, "T_batch_norm")
    return [normalized, moved(moving_mean, center_of), moved(moving_var, spread_of)]


@batch_norm.infer
def _(data, gamma, beta, moving_mean, moving_var, axis, **_):
    params = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    proved = check_params(data, [axis], **params)
    return TupleStructInfo([like_data(t, proved) for t in (data, moving_mean, moving_var)])


@batch_norm.numpy
def _(
    data, gamma, beta, moving_mean, moving_var, axis, epsilon=1e-5, center=True, scale=True,
    momentum=0.1, training=True,
):  # fmt: skip
    shape = [1] * data.ndim
    shape[axis] = -1
    lift = lambda t: t.reshape(shape)  # noqa: E731
    mean, spread = moving_mean, moving_var
    if training:
        others = tuple(a for a in range(data.ndim) if a != axis % data.ndim)
        mean, spread = widened(data).mean(others), widened(data).var(others)
        moving_mean = moving_mean * (1 - momentum) + mean * momentum
        moving_var = moving_var * (1 - momentum) + spread * momentum
    variance = lift(widened(spread))
    out = (widened(data) - lift(widened(mean))) / np.sqrt(variance + epsilon)
    if scale:
        out = out * lift(gamma)
    out = out + lift(beta) if center else out
    return out.astype(data.dtype), *(t.astype(data.dtype) for t in (moving_mean, moving_var))


_CHANNELS = ((2, 3, 4, 4), (3,), (3,), (3,), (3,))
batch_norm.layout(along("axis"))
batch_norm.samples(
    case(*_CHANNELS, axis=1, training=False, low=0.5, high=2.0),
    case(*_CHANNELS, axis=1, low=0.5, high=2.0),
)


@op("relax.nn.dropout", mixed="follow")
def dropout(data: Tensor, rate: float = 0.5):
    """The identity, as at inference: (data, a mask of ones)."""
    same = compute(data.shape, lambda *i: data(*i), "T_identity")
    return [same, compute(data.shape, lambda *i: const(1, data.dtype), "T_full")]


@dropout.infer
def _(data, rate=0.5):
    same = like(data)
    return TupleStructInfo([same, same])


dropout.numpy(lambda data, rate=0.5: (data, np.ones_like(data)))
dropout.layout(elementwise())
dropout.samples(case((2, 3)))


@op("relax.nn.pad")
def pad(data: Tensor, pad_width: Ints, pad_mode: str = "constant", pad_value: float = 0.0):
    """Grow the tensor by pad_width = [before, after] for each axis in turn.

    pad_mode: "constant" (pad_value), "reflect" (mirrored without the edge), "replicate" or
    "edge" (the edge repeated), "circular".
    """
    before, after = list(pad_width[0::2]), list(pad_width[1::2])
    return padded(data, before, after, pad_value, pad_mode, "PadInput")


def padded(
    data: te.Tensor,
    before: Sequence[Any],
    after: Sequence[Any],
    value: PrimExpr | float,
    mode: str,
    name: str,
) -> te.Tensor:
    """te.compute of `data` grown by `before` and `after` elements along each axis."""
    widths = zip(data.shape, before, after, strict=True)
    shape = [d + b + a if isinstance(b, int) else simplify(d + b + a) for d, b, a in widths]
    if any((int_value(extent) or 0) < 0 for extent in shape):
        what = "padding takes more than there is"
        widths = (
            f"{text(d)} by {b} and {a}" for d, b, a in zip(data.shape, before, after, strict=True)
        )
        raise ValueError(explain(what, got=", ".join(widths)))

    if mode != "constant":
        for d, *wide in zip(data.shape, before, after, strict=True):
            # A reflection of a reflection takes a division for each element: where the extent is
            # not known, there is one at each end.
            once = mode == "reflect" and int_value(d) is None
            least: list[Any] = [
                simplify(add(w, 1)) if once else 1 for w in wide if int_value(w) != 0
            ]
            least.sort(key=lambda n: -(int_value(n) or 0))  # the first to fail says the most
            if any(shorter(d, n) for n in least):
                what = "an axis must have an element to be padded from"
                what = "an axis must be longer than its reflected part" if once else what
                raise ValueError(explain(what, got=f"{text(d)} by {', '.join(map(text, wide))}"))

    def cell(*i):
        plain, rows, inside, sides = [], [], [], ()
        for v, d, b, a in zip(i, data.shape, before, after, strict=True):
            some, more = int_value(b) != 0, int_value(a) != 0
            within = ([v >= b] if some else []) + ([v < d + b] if more else [])
            index = v - b if within else v
            inside.append(within)
            plain.append(index)
            if mode != "constant":
                sides = _outside(mode, index, d, (b, a)) if within else ()
                if len(sides) == 2:
                    sides = [s for s, used in zip(sides, (some, more), strict=True) if used]
                rows.append(_of_row(tir.Select, within, index, *sides))
        if mode == "constant":
            conditions = [c for within in inside for c in within]
            element, other = data(*plain), const(value, data.dtype)
            return tir.if_then_else(tir.all(*conditions), element, other) if conditions else element
        # The parts of a row are read apart, in vectors instead of element by element (3 columns on each
        # side of 56: repeated 132 to 48 us, cyclic 306 to 42, mirrored 150 to 91).
        columns = [data(*rows[:-1], index) for index in (*plain[-1:], *sides)] or [data()]
        return _of_row(tir.if_then_else, (inside or [[]])[-1], *columns)

    return compute(shape, cell, name, axes="i", tag="injective")


def _of_row(choose, within, middle, *sides) -> Any:
    """The middle within these conditions; outside the one side, or those before and behind it."""
    if len(sides) < 2:
        return choose(tir.all(*within), middle, *sides) if within else middle
    for condition, side in zip(within[::-1], sides[::-1], strict=False):
        middle = choose(condition, middle, side)
    return middle


def _outside(mode: str, index: PrimExpr, extent: PrimExpr, widths: tuple[Any, Any]) -> Any:
    """The indices in an axis for one before it and for one behind it, or the index for both. Mirrored at its
    ends, as numpy does, again and again where a known extent is less than a width."""
    last, wide = extent - 1, [int_value(w) for w in widths]
    if mode in ("replicate", "edge"):
        return const(0, index.dtype), last
    most = int_value(extent if mode == "circular" else last)
    once = most is not None and all(w is not None and w <= most for w in wide)
    if mode == "circular":
        return (index + extent, index - extent) if once else (tir.floormod(index, extent),)
    if mode == "reflect":
        if once or most is None:
            return -index, last * 2 - index
        folded = tir.floormod(index, max(2 * most, 1))
        return (tir.Select(folded > last, last * 2 - folded, folded),)
    hint = "constant, reflect, replicate, edge or circular"
    raise ValueError(explain("unknown pad mode", got=mode, instead=hint))


@pad.numpy
def _(data, pad_width, pad_mode="constant", pad_value=0.0):
    pairs = list(zip(pad_width[0::2], pad_width[1::2], strict=True))
    mode: Any = {"replicate": "edge", "circular": "wrap"}.get(pad_mode, pad_mode)
    extra: dict[str, Any] = {"constant_values": pad_value} if mode == "constant" else {}
    return np.pad(data, pairs, mode, **extra)


@pad.grad
def _(cx, data, pad_width, pad_mode="constant", pad_value=0.0):
    if pad_mode != "constant":
        raise cx.refusal("this mode", pad_mode)
    dims = data.struct_info.get_shape()
    begin = pad_width[0::2]
    end = [b + d for b, d in zip(begin, dims, strict=True)]
    return R.strided_slice(cx.grad, list(range(len(dims))), begin, end)


pad.layout(padding)
pad.samples(
    case((2, 3), pad_width=[1, 2, 0, 1]),
    case(("n", 3), pad_width=[0, 0, 1, 1], pad_value=2.0),
    case((4, 5), pad_width=[1, 1, 2, 2], pad_mode="reflect"),
    case((4, 5), pad_width=[1, 1, 2, 2], pad_mode="edge"),
    case((3, 1), pad_width=[9, 4, 1, 2], pad_mode="reflect"),
    case((3, 40), pad_width=[2, 0, 5, 3], pad_mode="reflect"),
    case((3, 40), pad_width=[0, 2, 0, 3], pad_mode="edge"),
    case(("n", 40), pad_width=[2, 3, 5, 3], pad_mode="circular"),
    case((3, 4), pad_width=[2, 1, 6, 3], pad_mode="circular"),
)


@op("relax.nn.pad_by")
def pad_by(data: Tensor, before: Shape, after: Shape, pad_value: float = 0.0):
    """Grow the tensor by `before` and `after` elements of pad_value along each axis: `pad` by widths
    known only at run time. A negative width cuts."""
    return padded(data, before, after, pad_value, "constant", "PadInput")


@pad_by.infer
def _(data: TensorStructInfo, before: ShapeStructInfo, after: ShapeStructInfo, pad_value=0.0):
    if not data.ndim == before.ndim == after.ndim:
        what = "pad_by takes two widths for each axis"
        raise ValueError(explain(what, got=f"{before} and {after} for rank {data.ndim}"))
    shape, first, last = data.get_shape(), before.values, after.values
    if shape is None or first is None or last is None:
        return TensorStructInfo(dtype=data.dtype, ndim=data.ndim)
    widths = zip(shape, first, last, strict=True)
    return TensorStructInfo([simplify(d + b + a) for d, b, a in widths], data.dtype)


@pad_by.numpy
def _(data, before, after, pad_value=0.0):
    pairs = list(zip(map(int, before), map(int, after), strict=True))
    grown = [(max(b, 0), max(a, 0)) for b, a in pairs]
    whole = np.pad(data, grown, constant_values=pad_value)
    cut = [slice(max(-b, 0), n + min(a, 0)) for (b, a), n in zip(pairs, whole.shape, strict=True)]
    return whole[tuple(cut)]


pad_by.samples(case((2, 3), [1, 0], [2, 1], pad_value=2.0), case(("n", 3), ["n", 0], [1, -1]))
