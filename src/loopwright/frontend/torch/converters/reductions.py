"""Reductions, scans, selection, and the norms that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ....base.errors import explain
from ...graph.registry import Converter
from ...graph.values import literal
from ..context import Number, Size, Term, op
from ..context import TorchContext as Context
from ..dtypes import dtype_of
from ..model import TorchNode as Node
from .table import aten, each, rows

Dims = int | Sequence[int] | None
Build = Callable[..., Term]
_LONG = 1 << 14  # of float32, elements whose sum is exact to about 1e-4


def _axes(dim: Dims) -> list[int] | None:
    """The axes of a reduction; None for all."""
    return [dim] if isinstance(dim, int) else [*(dim or ())] or None


def _reduction(build: Build) -> Converter:
    """In the type of the result."""
    return lambda cx, node, x, dim=None, keepdim=False: _reduced(
        cx, build, cx.tensor(x, node.dtype), _axes(dim), keepdim
    )


def _reduced(cx: Context, build: Build, x: Term, axes: list[int] | None, keepdim: bool) -> Term:
    """A reduction, that of all elements one axis after another."""
    for axis in reversed(range(x.ndim)) if _is_long(cx, x, axes) else ():
        x, axes = build(x, [axis], keepdim), []
    return build(x, axes, keepdim) if axes != [] else x


def _is_long(cx: Context, x: Term, axes: list[int] | None) -> bool:
    """Whether a single sum of all elements would lose digits."""
    size = literal(cx.product(x.shape))
    return len(axes or x.shape) == x.ndim > 1 and not (isinstance(size, int) and size <= _LONG)


def _of_bytes(dtype: str | None) -> Callable[[Build], Converter]:
    """Of numbers, or of truths where a dtype is given; bool is 0 and 1."""
    return lambda build: (
        lambda cx, node, x, dim=None, keepdim=False: build(
            _comparable(cx, x if dtype is None else cx.tensor(x, dtype)), _axes(dim), keepdim
        )
    )


def _comparable(cx: Context, x: Term) -> Term:
    """A tensor of numbers: bool as bytes."""
    return cx.tensor(x, "uint8") if x.dtype.is_bool else x


each(
    {
        "sum.dim_IntList sum prims.sum.default": op.sum,
        "mean.dim mean": op.mean,
        "prod.dim_int prod": op.prod,
    },
    _reduction,
)
each({"amax max": op.max, "amin min": op.min}, _of_bytes(None))
each({"any any.dim any.dims": op.max, "all all.dim all.dims": op.min}, _of_bytes("bool"))


# How the elements of a segment are reduced, and the result of one without elements.
_SEGMENTS = {
    "sum": (op.sum, op.add, 0.0), "mean": (op.sum, op.add, 0.0), "prod": (op.prod, op.multiply, 1.0),
    "max": (op.max, op.maximum, -math.inf), "min": (op.min, op.minimum, math.inf),
}  # fmt: skip


@aten("segment_reduce")
def segment_reduce(
    cx: Context, node: Node, x: Term, reduce: str, *, lengths: Any, offsets: Term | None, axis: int,
    unsafe: bool, initial: Number | None,
) -> Term:  # fmt: skip
    """Of each segment of an axis, the elements of the others being left out."""
    (build, combine, empty), extent = _SEGMENTS[reduce], x.shape[axis]
    if offsets is not None:
        count = offsets.shape[axis]
        begin, end = cx.part(offsets, axis, 0, count - 1), cx.part(offsets, axis, 1, count)
    else:
        begin, end = lengths.cumsum(axis) - lengths, lengths.cumsum(axis)
        wrong = cx.part(end, axis, end.shape[axis] - 1, end.shape[axis]).not_equal(extent)
        wrong = wrong.astype("int32").sum() + (lengths < 0).astype("int32").sum()
        what = "segment_reduce: lengths must not be negative, and add up to the axis"
        end = end if unsafe else op.linalg.check(end, wrong, what)
    begin, end, line = begin.expand_dims([axis + 1]), end.expand_dims([axis + 1]), cx.line(extent)
    inside = (begin <= line) & (line < end)
    inside = inside.expand_dims([*range(axis + 2, x.ndim + 1)])
    out = build(cx.where(inside, x.expand_dims([axis]), empty), [axis + 1])
    if initial is not None:
        out = combine(out, cx.tensor(initial, node.dtype))
    if reduce == "mean":
        number = inside.astype(node.dtype).sum([axis + 1])
        without = math.nan if initial is None else float(initial)
        out = cx.where(number.equal(0.0), without, out / number)
    return out


@aten("argmax", "argmin")
def arg(cx: Context, node: Node, x: Term, dim: int | None, keepdim: bool) -> Term:
    build = op.argmax if "argmax" in node.op_type else op.argmin
    if dim is None:
        return build(cx.flat(x), 0, False).reshape(cx.shape(node.value))
    return build(x, dim, keepdim)


@aten("max.dim", "min.dim")
def extreme(cx: Context, node: Node, x: Term, dim: int, keepdim: bool) -> list[Term]:
    best, at = (op.max, op.argmax) if "max" in node.op_type else (op.min, op.argmin)
    value = _comparable(cx, x)
    return [best(value, dim, keepdim), at(value, dim, keepdim)]


@aten("var.correction")
def variance(
    cx: Context, node: Node, x: Term, dim: Dims, *, correction: Number | None, keepdim: bool
) -> Term:
    """The variance with a divisor of n - correction."""
    axes = _axes(dim)
    if _is_long(cx, x, axes):
        apart = x - _reduced(cx, op.mean, x, axes, True)
        out = _reduced(cx, op.mean, apart * apart, axes, keepdim)
    else:
        out = x.variance(axes, keepdim)
    correction = 1 if correction is None else correction
    if not correction:
        return out
    count = cx.product([x.shape[a] for a in (range(x.ndim) if axes is None else axes)])
    n = cx.tensor(count, str(x.dtype))
    return out * (n / (n - correction).maximum(0))


# ---------------------------------------------------------------- norms


def affine_of(
    cx: Context, weight: Term | None, bias: Term | None, dims: Sequence[Size], dtype: str
) -> list[Term]:
    """The factors and the terms of a norm, which may be left out."""
    pairs = ((weight, 1), (bias, 0))
    return [cx.filled(dims, k, dtype) if v is None else cx.tensor(v, dtype) for v, k in pairs]


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
) -> list[Term | None]:  # fmt: skip
    axes = [*range(x.ndim - len(shape), x.ndim)]
    affine = affine_of(cx, weight, bias, [x.shape[a] for a in axes], str(x.dtype))
    return [op.nn.layer_norm(x, *affine, axes, eps), *_statistics(cx, node, x, axes, eps)]


@aten("native_group_norm")
def group_norm(
    cx: Context, node: Node, x: Term, weight: Term | None, bias: Term | None, batch: Size, channels: Size,
    area: Size, groups: int, eps: float,
) -> list[Term | None]:  # fmt: skip
    affine = affine_of(cx, weight, bias, [channels], str(x.dtype))
    out = op.nn.group_norm(x, *affine, groups, 1, [*range(2, x.ndim)], eps)
    if not any(node.outputs[1:]):
        return [out, None, None]
    return [out, *_statistics(cx, node, x.reshape([x.shape[0], groups, -1]), [2], eps)]


@aten("rms_norm")
def rms_norm(
    cx: Context, node: Node, x: Term, shape: Sequence[Size], weight: Term | None, eps: float | None
) -> Term:
    axes = [*range(x.ndim - len(shape), x.ndim)]
    gamma = affine_of(cx, weight, None, [x.shape[a] for a in axes], str(x.dtype))[0]
    eps = torch.finfo(node.value.dtype).eps if eps is None else eps
    return op.nn.rms_norm(x, gamma, axes, eps)


# ---------------------------------------------------------------- scans


def _positions(cx: Context, x: Term, axis: int) -> Term:
    """The index along an axis, for each element."""
    line = cx.line(x.shape[axis]).expand_dims([k for k in range(x.ndim) if k != axis])
    return line.broadcast_to(x.shape)


@aten("cummax", "cummin")
def cumulative_extreme(cx: Context, node: Node, x: Term, dim: int) -> list[Term]:
    """By doubling: each step joins an element with the one 1, 2, 4, ... before it. The last of equal ones is
    chosen; NaN stays."""
    parts, extent, step = [_comparable(cx, x), _positions(cx, x, dim)], int(x.shape[dim]), 1
    while step < extent:
        (a, i), (b, j) = ([cx.part(p, dim, k, extent - step + k) for p in parts] for k in (0, step))
        takes = b >= a if "cummax" in node.op_type else b <= a
        if x.dtype.is_float:
            takes = b.isnan() | (takes & ~a.isnan())
        joined = (cx.where(takes, b, a), cx.where(takes, j, i))
        heads = [cx.part(p, dim, 0, step) for p in parts]
        parts = [cx.concat([*pair], dim) for pair in zip(heads, joined, strict=True)]
        step *= 2
    return parts


# ---------------------------------------------------------------- sorting and selection


@aten("sort", "sort.stable")
def sort(
    cx: Context, node: Node, x: Term, dim: int, descending: bool, stable: bool | None = None
) -> list[Term]:
    if cx.splits and not stable and node.outputs[1] and x.dtype.bits <= 16:
        raise ValueError(explain("the positions of equal elements are torch's own"))
    order = _comparable(cx, x).argsort(dim, descending, "int64")
    return [x.gather_elements(order, dim), order]


def _chosen(cx: Context, x: Term, dim: int, keepdim: bool, rank: int | Term) -> list[Term]:
    """The element of a rank among the sorted ones of an axis, and its index. rank: a number, or a tensor with
    that axis of extent 1."""
    order = x.argsort(dim, False, "int64")
    number = isinstance(rank, int)
    at = cx.part(order, dim, rank, rank + 1) if number else order.gather_elements(rank, dim)
    return _kept([x.gather_elements(at, dim), at], dim, keepdim)


def _kept(results: list[Term], dim: int, keepdim: bool) -> list[Term]:
    return results if keepdim else [r.squeeze([dim]) for r in results]


@aten("median.dim", "nanmedian.dim")
def median(cx: Context, node: Node, x: Term, dim: int, keepdim: bool = False) -> list[Term]:
    """The lower one of two in the middle. NaN counts as the largest, and is the median where there is one
    (of `nanmedian` where there is nothing else)."""
    if not x.dtype.is_float:
        return _chosen(cx, x, dim, keepdim, (int(x.shape[dim]) - 1) // 2)
    missing = x.isnan().astype("int64").sum([dim], True)
    first_nan = cx.tensor(x.shape[dim], "int64") - missing
    half = ((first_nan - 1) // 2).maximum(0)
    rank = half if "nanmedian" in node.op_type else cx.where(missing > 0, first_nan, half)
    return _chosen(cx, x, dim, keepdim, rank)


@aten("mode")
def mode(cx: Context, node: Node, x: Term, dim: int, keepdim: bool) -> list[Term]:
    """The most frequent element, the least of several, and where it is last."""
    value = _comparable(cx, x)
    same = value.expand_dims([dim + 1]).equal(value.expand_dims([dim]))
    count = same.astype("int64").sum([dim + 1], False)
    largest = np.inf if value.dtype.is_float else int(np.iinfo(value.dtype.numpy()).max)
    best = cx.where(count.equal(count.max([dim], True)), value, largest).min([dim], True)
    at = cx.where(value.equal(best), _positions(cx, x, dim), -1).max([dim], True)
    return _kept([best, at], dim, keepdim)


@aten("histc")
def histc(cx: Context, node: Node, x: Term, bins: int, min: Number, max: Number) -> Term:
    """How many elements are in each of equal bins; those outside are not counted."""
    line, dtype = cx.flat(x), str(x.dtype)
    low, high = cx.tensor(float(min), dtype), cx.tensor(float(max), dtype)
    if min == max:
        low, high = line.min([0], False), line.max([0], False)
        flat = low.equal(high)
        low, high = cx.where(flat, low - 1.0, low), cx.where(flat, high + 1.0, high)
    at = ((line - low) / (high - low) * float(bins)).floor().astype("int64").minimum(bins - 1)
    at = cx.where((line >= low) & (line <= high), at, bins)
    return cx.collected(bins, 0, at, cx.filled(line.shape, 1, dtype), "add")


# The rest are formulas.
rows({
    "var_mean.correction": lambda cx, node, x, dim, *, correction, keepdim: [
        variance(cx, node, x, dim, correction=correction, keepdim=keepdim),
        _reduced(cx, op.mean, x, _axes(dim), keepdim)],
    "cumsum": lambda cx, node, x, dim: cx.tensor(x, node.dtype).cumsum(dim, node.dtype),
    "cumprod": lambda cx, node, x, dim: cx.tensor(x, node.dtype).cumprod(dim, node.dtype),
    "_softmax softmax.int": lambda cx, node, x, dim: op.nn.softmax(cx.tensor(x, node.dtype), dim),
    "_log_softmax log_softmax.int": lambda cx, node, x, dim: op.nn.log_softmax(cx.tensor(x, node.dtype), dim),
    "logcumsumexp": lambda cx, node, x, dim: x.logcumsumexp(dim),
    "kthvalue": lambda cx, node, x, k, dim, keepdim: _chosen(cx, x, dim, keepdim, k - 1),
    "median nanmedian": lambda cx, node, x: median(cx, node, cx.flat(x), 0)[0],
    "topk": lambda cx, node, x, k, dim, largest: op.topk(x, k, dim, "both", largest, "int64"),
})  # fmt: skip
