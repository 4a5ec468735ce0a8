"""Reductions, scans, selection, and the norms that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ....base.errors import explain
from ....relax import op
from ....relax.expr import Expr, ShapeExpr
from ...graph.operators.shapes import axis_of
from ...graph.registry import Converter
from ...graph.values import literal
from ..context import Number, Size, Term
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from .table import aten, each

Dims = int | Sequence[int] | None
Build = Callable[..., Expr]
_LONG = 1 << 14  # of float32, elements whose sum is exact to about 1e-4


def _axes(x: Term, dim: Dims) -> list[int] | None:
    """The axes of a reduction; None for all."""
    if not x.ndim:
        return None
    dims = [dim] if isinstance(dim, int) else list(dim or ())
    return [axis_of(d, x.ndim) for d in dims] or None


def _reduction(build: Build) -> Converter:
    """In the type of the result."""

    def convert(
        cx: Context, node: Node, x: Term, dim: Dims = None, keepdim: bool = False, dtype: object = None,
        **_: object,
    ) -> Expr | Term:  # fmt: skip
        value = cx.tensor(x, node.dtype)
        return _reduced(cx, build, value, _axes(x, dim), keepdim) if x.ndim else value

    return convert


def _reduced(cx: Context, build: Build, x: Term, axes: list[int] | None, keepdim: bool) -> Term:
    """A reduction, that of all elements one axis after another."""
    for axis in reversed(range(x.ndim)) if _is_long(cx, x, axes) else ():
        x, axes = cx.value(build(x.expr, [axis], keepdim)), []
    return cx.value(build(x.expr, axes, keepdim)) if axes != [] else x


def _is_long(cx: Context, x: Term, axes: list[int] | None) -> bool:
    """Whether a single sum of all elements would lose digits."""
    size = literal(cx.product(x.shape))
    return len(axes or x.shape) == x.ndim > 1 and not (isinstance(size, int) and size <= _LONG)


def _by_bytes(build: Build) -> Converter:
    """Of bool as of 0 and 1."""

    def convert(
        cx: Context, node: Node, x: Term, dim: Dims = None, keepdim: bool = False
    ) -> Expr | Term:
        value = _comparable(cx, x)
        return (
            cx.tensor(cx.value(build(value.expr, _axes(x, dim), keepdim)), str(x.dtype))
            if x.ndim
            else x
        )

    return convert


def _comparable(cx: Context, x: Term) -> Term:
    """A tensor of numbers: bool as bytes."""
    return cx.tensor(x, "uint8") if x.dtype.is_bool else x


def _truth(build: Build) -> Converter:
    def convert(cx: Context, node: Node, x: Term, dim: Dims = None, keepdim: bool = False) -> Term:
        truth = cx.tensor(x, "bool").astype("uint8")
        return (cx.value(build(truth.expr, _axes(x, dim), keepdim)) if x.ndim else truth).astype(
            node.dtype
        )

    return convert


each(
    {
        "sum.dim_IntList sum prims.sum.default": op.sum,
        "mean.dim mean": op.mean,
        "prod.dim_int prod": op.prod,
    },
    _reduction,
)
each({"amax max": op.max, "amin min": op.min}, _by_bytes)
each({"any any.dim any.dims": op.max, "all all.dim all.dims": op.min}, _truth)


# How the elements of a segment are reduced, and the result of one without elements.
_SEGMENTS = {
    "sum": (op.sum, op.add, 0.0), "mean": (op.sum, op.add, 0.0), "prod": (op.prod, op.multiply, 1.0),
    "max": (op.max, op.maximum, -math.inf), "min": (op.min, op.minimum, math.inf),
}  # fmt: skip


@aten("segment_reduce")
def segment_reduce(
    cx: Context, node: Node, x: Term, reduce: str, *, lengths: Any = None,
    indices: None = None, offsets: Term | None = None, axis: int = 0, unsafe: bool = False,
    initial: Number | None = None,
) -> Term:  # fmt: skip
    """Of each segment of an axis, the elements of the others being left out."""
    axis, (build, combine, empty) = axis_of(axis, x.ndim), _SEGMENTS[reduce]
    extent = x.shape[axis]
    if offsets is not None:
        count = offsets.shape[axis]
        begin, end = cx.part(offsets, axis, 0, count - 1), cx.part(offsets, axis, 1, count)
    else:
        begin, end = lengths.cumsum(axis) - lengths, lengths.cumsum(axis)
        wrong = cx.part(end, axis, end.shape[axis] - 1, end.shape[axis]).not_equal(extent)
        wrong = wrong.astype("int32").sum() + (lengths < 0).astype("int32").sum()
        what = "segment_reduce: lengths must not be negative, and add up to the axis"
        end = end if unsafe else cx.value(op.linalg.check(end.expr, wrong.expr, what))
    begin, end, line = begin.expand_dims([axis + 1]), end.expand_dims([axis + 1]), cx.line(extent)
    inside = (begin <= line) & (line < end)
    inside = inside.expand_dims([*range(axis + 2, x.ndim + 1)])
    out = cx.value(build(cx.where(inside, x.expand_dims([axis]), empty).expr, [axis + 1]))
    if initial is not None:
        out = cx.value(combine(out.expr, cx.tensor(initial, node.dtype).expr))
    if reduce == "mean":
        number = inside.astype(node.dtype).sum([axis + 1])
        without = math.nan if initial is None else float(initial)
        out = cx.where(number.equal(0.0), without, out / number)
    return out


def _zero(cx: Context) -> Term:
    """The index of the only element of a tensor without axes."""
    return cx.tensor(0, "int64")


@aten("argmax", "argmin")
def arg(cx: Context, node: Node, x: Term, dim: int | None = None, keepdim: bool = False) -> Term:
    build = op.argmax if "argmax" in node.op_type else op.argmin
    if not x.ndim:
        return _zero(cx)
    if dim is None:
        return cx.value(build(cx.flat(x).expr, 0, False)).reshape(cx.shape(node.value))
    return cx.value(build(x.expr, axis_of(dim, x.ndim), keepdim))


@aten("max.dim", "min.dim")
def extreme(cx: Context, node: Node, x: Term, dim: int, keepdim: bool = False) -> list[Term]:
    if not x.ndim:
        return [x, _zero(cx)]
    best, at = (op.max, op.argmax) if "max" in node.op_type else (op.min, op.argmin)
    value, axis = _comparable(cx, x).expr, axis_of(dim, x.ndim)
    return [
        cx.tensor(cx.value(best(value, axis, keepdim)), str(x.dtype)),
        cx.value(at(value, axis, keepdim)),
    ]


def _variance(cx: Context, x: Term, dim: Dims, correction: Number | None, keepdim: bool) -> Term:
    """The variance with a divisor of n - correction."""
    axes = _axes(x, dim)
    if _is_long(cx, x, axes):
        apart = x - _reduced(cx, op.mean, x, axes, True)
        out = _reduced(cx, op.mean, apart * apart, axes, keepdim)
    else:
        out = x.variance(axes, keepdim) if x.ndim else x - x
    correction = 1 if correction is None else correction
    if not correction:
        return out
    count = cx.product([x.shape[a] for a in (range(x.ndim) if axes is None else axes)])
    n = cx.tensor(count, str(x.dtype))
    return out * (n / (n - correction).maximum(0))


@aten("var.correction")
def variance(
    cx: Context, node: Node, x: Term, dim: Dims = None, *, correction: Number | None = None,
    keepdim: bool = False,
) -> Term:  # fmt: skip
    return _variance(cx, x, dim, correction, keepdim)


@aten("var_mean.correction")
def var_mean(
    cx: Context, node: Node, x: Term, dim: Dims = None, *, correction: Number | None = None,
    keepdim: bool = False,
) -> list[Term]:  # fmt: skip
    mean = _reduced(cx, op.mean, x, _axes(x, dim), keepdim) if x.ndim else x
    return [_variance(cx, x, dim, correction, keepdim), mean]


@aten("_softmax", "softmax.int", "_log_softmax", "log_softmax.int", "_safe_softmax")
def softmax(cx: Context, node: Node, x: Term, dim: int, *_: object) -> Term:
    value = cx.tensor(x, node.dtype)
    if not x.ndim:
        value, dim = value.reshape(ShapeExpr([1])), 0
    axis = axis_of(dim, value.ndim)
    out = cx.value(
        (op.nn.log_softmax if "log" in node.op_type else op.nn.softmax)(value.expr, axis)
    )
    if "_safe" in node.op_type:  # rows of -inf are 0
        out = cx.where(value.max([axis], True).equal(-np.inf), 0.0, out)
    return out if x.ndim else out.reshape(ShapeExpr([]))


@aten("cumsum", "cumprod")
def cumulative(cx: Context, node: Node, x: Term, dim: int, **_: object) -> Term:
    value = cx.tensor(x, node.dtype)
    if not x.ndim:
        return value
    axis = axis_of(dim, x.ndim)
    return (
        value.cumsum(axis, node.dtype) if "sum" in node.op_type else value.cumprod(axis, node.dtype)
    )


@aten("logsumexp")
def logsumexp(cx: Context, node: Node, x: Term, dim: Dims, keepdim: bool = False) -> Term:
    value, axes = cx.tensor(x, node.dtype), _axes(x, dim)
    if not x.ndim:
        return value
    most = value.max(axes, True)
    shift = cx.where(most.isfinite(), most, 0.0)
    total = (value - shift).exp().sum(axes, True).log() + shift
    return total if keepdim else total.reshape(cx.shape(node.value))


# ---------------------------------------------------------------- norms


def _affine(
    cx: Context, weight: Term | None, bias: Term | None, dims: Sequence[Size], dtype: str
) -> list[Expr]:
    """The factors and the terms of a norm, which may be left out."""
    return [
        (cx.filled(dims, k, dtype) if v is None else cx.tensor(v, dtype)).expr
        for v, k in ((weight, 1), (bias, 0))
    ]


def _statistics(cx: Context, node: Node, x: Term, axes: list[int], eps: float) -> list[Term | None]:
    """The mean and the reciprocal deviation, as torch shapes them, where they are used."""
    if not any(node.outputs[1:]):
        return [None, None]
    value = cx.tensor(x, dtype_of(node.value[1].dtype))
    rstd = (value.variance(axes, True) + eps).rsqrt()
    pairs = zip((value.mean(axes, True), rstd), node.value[1:], strict=True)
    return [s.reshape(cx.shape(fake)) for s, fake in pairs]


@aten("native_layer_norm")
def layer_norm(
    cx: Context, node: Node, x: Term, shape: Sequence[Size], weight: Term | None, bias: Term | None,
    eps: float,
) -> list[Term | Expr | None]:  # fmt: skip
    axes = [*range(x.ndim - len(shape), x.ndim)]
    affine = _affine(cx, weight, bias, [x.shape[a] for a in axes], str(x.dtype))
    return [op.nn.layer_norm(x.expr, *affine, axes, eps), *_statistics(cx, node, x, axes, eps)]


@aten("native_group_norm")
def group_norm(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, batch: Size, channels: Size,
    area: Size, groups: int, eps: float,
) -> list[Term | Expr | None]:  # fmt: skip
    affine = _affine(cx, weight, bias, [channels], str(x.dtype))
    out = op.nn.group_norm(x.expr, *affine, groups, 1, [*range(2, x.ndim)], eps)
    if not any(node.outputs[1:]):
        return [out, None, None]
    return [out, *_statistics(cx, node, x.reshape(ShapeExpr([x.shape[0], groups, -1])), [2], eps)]


@aten("rms_norm")
def rms_norm(
    cx: Context, node: Node, x: Term, shape: Sequence[Size], weight: Term | None = None,
    eps: float | None = None,
) -> Expr:  # fmt: skip
    axes = [*range(x.ndim - len(shape), x.ndim)]
    gamma = _affine(cx, weight, None, [x.shape[a] for a in axes], str(x.dtype))[0]
    return op.nn.rms_norm(
        x.expr, gamma, axes, torch.finfo(node.value.dtype).eps if eps is None else eps
    )


# ---------------------------------------------------------------- scans


def _scan(cx: Context, parts: list[Term], axis: int, join: Callable[..., list[Term]]) -> list[Term]:
    """An inclusive scan by doubling: each step joins an element with the one 1, 2, 4, ... before it."""
    extent, step = int(parts[0].shape[axis]), 1
    while step < extent:
        before = [cx.part(p, axis, 0, extent - step) for p in parts]
        here = [cx.part(p, axis, step, extent) for p in parts]
        heads = [cx.part(p, axis, 0, step) for p in parts]
        parts = [cx.concat([h, j], axis) for h, j in zip(heads, join(before, here), strict=True)]
        step *= 2
    return parts


def _positions(cx: Context, x: Term, axis: int) -> Term:
    """The index along an axis, for each element."""
    shape = [d if k == axis else 1 for k, d in enumerate(x.shape)]
    return cx.line(x.shape[axis]).reshape(ShapeExpr(shape)).broadcast_to(ShapeExpr(x.shape))


@aten("cummax", "cummin")
def cumulative_extreme(cx: Context, node: Node, x: Term, dim: int) -> list[Term]:
    """The last of equal ones is chosen; NaN stays."""
    if not x.ndim:
        return [x, _zero(cx)]
    axis = axis_of(dim, x.ndim)

    def join(a: list[Term], b: list[Term]) -> list[Term]:
        takes = b[0] >= a[0] if "cummax" in node.op_type else b[0] <= a[0]
        if x.dtype.is_float:
            takes = b[0].isnan() | (takes & ~a[0].isnan())
        return [cx.where(takes, q, p) for p, q in zip(a, b, strict=True)]

    best, at = _scan(cx, [_comparable(cx, x), _positions(cx, x, axis)], axis, join)
    return [cx.tensor(best, str(x.dtype)), at]


@aten("logcumsumexp")
def logcumsumexp(cx: Context, node: Node, x: Term, dim: int) -> Term:
    return x.logcumsumexp(axis_of(dim, x.ndim)) if x.ndim else x


# ---------------------------------------------------------------- sorting and selection


@aten("sort", "sort.stable")
def sort(
    cx: Context, node: Node, x: Term, dim: int = -1, descending: bool = False, stable: object = None
) -> list[Term]:
    if not x.ndim:
        return [x, _zero(cx)]
    if cx.splits and not stable and node.outputs[1] and x.dtype.bits <= 16:
        raise ValueError(explain("the positions of equal elements are torch's own"))
    axis = axis_of(dim, x.ndim)
    order = _comparable(cx, x).argsort(axis, descending, "int64")
    return [x.gather_elements(order.expr, axis), order]


@aten("topk")
def topk(
    cx: Context, node: Node, x: Term, k: int, dim: int = -1, largest: bool = True, *_: object
) -> list[Term]:
    if not x.ndim:
        return [x, _zero(cx)]
    both = cx.emit(op.topk(x.expr, k, axis_of(dim, x.ndim), "both", largest, "int64"))
    return [cx.value(both[0]), cx.value(both[1])]


def _chosen(cx: Context, x: Term, dim: int, keepdim: bool, rank: int | Term) -> list[Term]:
    """The element of a rank among the sorted ones of an axis, and its index. rank: a number, or a tensor with
    that axis of extent 1."""
    axis = axis_of(dim, x.ndim)
    order = x.argsort(axis, False, "int64")
    at = (
        cx.part(order, axis, rank, rank + 1)
        if isinstance(rank, int)
        else order.gather_elements(rank.expr, axis)
    )
    value = x.gather_elements(at.expr, axis)
    return [value, at] if keepdim else [value.squeeze([axis]), at.squeeze([axis])]


@aten("kthvalue")
def kthvalue(
    cx: Context, node: Node, x: Term, k: int, dim: int = -1, keepdim: bool = False
) -> list[Term]:
    return _chosen(cx, x, dim, keepdim, k - 1) if x.ndim else [x, _zero(cx)]


@aten("median.dim", "nanmedian.dim")
def median(cx: Context, node: Node, x: Term, dim: int, keepdim: bool = False) -> list[Term]:
    """The lower one of two in the middle. NaN counts as the largest, and is the median where there is one
    (of `nanmedian` where there is nothing else)."""
    if not x.ndim:
        return [x, _zero(cx)]
    axis = axis_of(dim, x.ndim)
    if not x.dtype.is_float:
        return _chosen(cx, x, dim, keepdim, (int(x.shape[axis]) - 1) // 2)
    missing = x.isnan().astype("int64").sum([axis], True)
    first_nan = cx.tensor(x.shape[axis], "int64") - missing
    half = ((first_nan - 1) // 2).maximum(0)
    rank = half if "nanmedian" in node.op_type else cx.where(missing > 0, first_nan, half)
    return _chosen(cx, x, dim, keepdim, rank)


@aten("median", "nanmedian")
def median_of_all(cx: Context, node: Node, x: Term) -> Term:
    return median(cx, node, cx.flat(x), 0)[0]


@aten("mode")
def mode(cx: Context, node: Node, x: Term, dim: int = -1, keepdim: bool = False) -> list[Term]:
    """The most frequent element, the least of several, and where it is last."""
    if not x.ndim:
        return [x, _zero(cx)]
    axis, value = axis_of(dim, x.ndim), _comparable(cx, x)
    same = value.expand_dims([axis + 1]).equal(value.expand_dims([axis]))
    count = same.astype("int64").sum([axis + 1], False)
    largest = np.inf if value.dtype.is_float else int(np.iinfo(value.dtype.numpy()).max)
    best = cx.where(count.equal(count.max([axis], True)), value, largest).min([axis], True)
    at = cx.where(value.equal(best), _positions(cx, x, axis), -1).max([axis], True)
    results = [cx.tensor(best, str(x.dtype)), at]
    return results if keepdim else [r.squeeze([axis]) for r in results]


@aten("histc")
def histc(
    cx: Context, node: Node, x: Term, bins: int = 100, min: Number = 0, max: Number = 0
) -> Term:
    """How many elements are in each of equal bins; those outside are not counted."""
    line, dtype = cx.flat(x), str(x.dtype)
    low, high = cx.tensor(float(min), dtype), cx.tensor(float(max), dtype)
    if min == max:
        low, high = line.min([0], False), line.max([0], False)
        flat = low.equal(high)
        low, high = cx.where(flat, low - 1.0, low), cx.where(flat, high + 1.0, high)
    at = ((line - low) / (high - low) * float(bins)).floor().astype("int64").minimum(bins - 1)
    at = cx.where((line >= low) & (line <= high), at, bins)  # one more bin, which is dropped
    ones = cx.filled(line.shape, 1, dtype)
    counts = cx.filled([bins + 1], 0, dtype).scatter_elements(at.expr, ones.expr, 0, "add")
    return cx.part(counts, 0, 0, bins)
