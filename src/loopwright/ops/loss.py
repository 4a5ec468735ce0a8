"""Losses of classifiers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_op import cast, const, equal, multiply
from ..relax import op as R
from ..relax.struct_info import TensorStructInfo
from .common import accumulator, common_dtype, compute, element, like, rounded, shape_of, widened
from .core import case, op
from .extents import differ, simplify, text
from .params import Tensor


def _total(tensor: Any, name: str) -> Any:
    """The sum of all elements, a 0-d tensor."""
    spans = [
        te.reduce_axis((const(0, "int64"), d), name=f"k{a}") for a, d in enumerate(tensor.shape)
    ]
    if not spans:
        return tensor
    return compute([], lambda: te.sum(tensor(*spans), axis=spans), name)


@op("relax.nn.cross_entropy_with_logits")
def cross_entropy_with_logits(predictions: Tensor, labels: Tensor):
    """-sum(predictions * labels), of a batch (2-d tensors) divided by its size. The predictions are
    logarithms of probabilities."""
    wide = accumulator(predictions.dtype)

    def loss(*i):
        return multiply(cast(wide, element(predictions, i)), cast(wide, element(labels, i)))

    total = _total(compute(shape_of(predictions), loss, "product"), "total")
    if len(shape_of(predictions)) == 2:
        share = lambda: -total() / cast(wide, predictions.shape[0])  # noqa: E731
    else:
        share = lambda: -total()  # noqa: E731
    return rounded(compute([], share, "cross_entropy"), predictions.dtype)


@cross_entropy_with_logits.infer
def _(predictions: TensorStructInfo, labels: TensorStructInfo):
    if -1 not in (predictions.ndim, labels.ndim) and predictions.ndim != labels.ndim:
        what = "predictions and labels must have one rank"
        raise ValueError(explain(what, got=f"{predictions.ndim} and {labels.ndim}"))
    a, b = predictions.get_shape(), labels.get_shape()
    if a is not None and b is not None:
        if any(differ(x, y) for x, y in zip(a, b, strict=True)):
            what = "predictions and labels must have one shape"
            raise ValueError(explain(what, got=f"{predictions} and {labels}"))
    return TensorStructInfo([], common_dtype(predictions, labels))


@cross_entropy_with_logits.numpy
def _(predictions, labels):
    total = -(widened(predictions) * widened(labels)).sum()
    if predictions.ndim == 2:
        total = total / predictions.shape[0]
    return np.asarray(total, predictions.dtype)


@cross_entropy_with_logits.grad
def _(cx, predictions, labels):
    g = cx.grad
    if predictions.struct_info.ndim == 2:
        g = g / cx.count(predictions, [0])
    g = -g
    return [g * labels, g * predictions]


cross_entropy_with_logits.samples(case((3, 4), (3, 4)), case((5,), (5,)), case(("n", 4), ("n", 4)))


def _picked(targets, weights, classes, ignore_index, kind):
    """cell(indices of a target) -> (the class, its weight or 0 where it is ignored)."""

    def cell(*i):
        target = cast("int64", element(targets, list(i)))
        ignored = equal(target, const(ignore_index, "int64"))
        label = tir.if_then_else(ignored, const(0, "int64"), target)
        label = simplify(tir.checked_index(simplify(label), classes))
        weight = const(1, kind) if weights is None else cast(kind, weights(label))
        return label, simplify(tir.if_then_else(ignored, const(0, kind), weight))

    return cell


def _with_class(i, label):
    """The indices into the predictions: (N, C, d1, ...) or (C,)."""
    return [*i[:1], label, *i[1:]]


_REDUCTION = {"reduction": ("none", "sum", "mean")}


@op("relax.nn.nll_loss", choices=_REDUCTION)
def nll_loss(
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
):
    """-predictions[n, targets[n, ...], ...] * weights[targets[n, ...]], and 0 where the target is
    `ignore_index`. `reduction`: "none", "sum", or "mean", by the sum of the weights."""
    wide = accumulator(predictions.dtype)
    classes = predictions.shape[min(len(predictions.shape) - 1, 1)]
    pick = _picked(targets, weights, classes, ignore_index, wide)

    def loss(*i):
        label, weight = pick(*i)
        return -multiply(cast(wide, predictions(*_with_class(i, label))), weight)

    each = compute(shape_of(targets), loss, "nll_loss")
    if reduction == "none":
        return rounded(each, predictions.dtype)
    total = _total(each, "nll_loss_sum")
    if reduction == "mean":
        share = _total(compute(shape_of(targets), lambda *i: pick(*i)[1], "weight"), "weight_sum")
        summed = total
        total = compute([], lambda: summed() / share(), "nll_loss_mean")
    return rounded(total, predictions.dtype)


@nll_loss.infer
def _(predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    dtype = predictions.dtype if weights is None else common_dtype(predictions, weights)
    if not (targets.dtype.is_void or targets.dtype.is_integer):
        raise TypeError(explain("targets must be a tensor of integers", got=str(targets.dtype)))
    _check_ranks(predictions, targets, weights)
    shape = predictions.get_shape()
    if shape is not None:
        _check_extents(shape, targets.get_shape(), None if weights is None else weights.get_shape())
    if reduction != "none":
        return TensorStructInfo([], dtype)
    if shape is None:
        ndim = predictions.ndim
        return TensorStructInfo(dtype=dtype, ndim=ndim if ndim == -1 else ndim - 1)
    return TensorStructInfo([] if len(shape) == 1 else [shape[0], *shape[2:]], dtype)


def _check_ranks(predictions, targets, weights):
    if predictions.ndim == 0:
        what = "predictions must have the rank 1 (classes) or more"
        raise ValueError(explain(what, got=str(predictions)))
    if -1 not in (predictions.ndim, targets.ndim) and targets.ndim != predictions.ndim - 1:
        what = "targets must have the axes of predictions without that of classes"
        raise ValueError(explain(what, got=f"rank {targets.ndim} for rank {predictions.ndim}"))
    if weights is not None and weights.ndim not in (-1, 1):
        what = "weights must be a vector with one number for each class"
        raise ValueError(explain(what, got=str(weights)))


def _check_extents(shape, targets, weights):
    rest = [] if len(shape) == 1 else [shape[0], *shape[2:]]
    pairs = [] if targets is None else list(zip(rest, targets, strict=True))
    if weights is not None:
        pairs.append((shape[min(len(shape) - 1, 1)], weights[0]))
    for a, b in pairs:
        if differ(a, b):
            what = "predictions, targets and weights do not fit"
            raise ValueError(explain(what, got=f"{text(b)} for {text(a)}"))


def _numpy_terms(targets, weights, classes, ignore_index, kind):
    counted = targets != ignore_index
    label = np.where(counted, targets, 0)
    weight = np.ones(classes, kind) if weights is None else weights
    return label, np.where(counted, weight[label], 0)


@nll_loss.numpy
def _(predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    kind = predictions.dtype
    flat = predictions.ndim == 1
    rows = predictions[None] if flat else predictions
    at = np.asarray(targets)[None] if flat else targets
    label, weight = _numpy_terms(at, weights, rows.shape[1], ignore_index, kind)
    each = -np.take_along_axis(widened(rows), label[:, None], 1)[:, 0] * weight
    if reduction == "none":
        return np.asarray(each[0] if flat else each).astype(kind)
    total = each.sum() / (weight.sum() if reduction == "mean" else 1)
    return np.asarray(total, kind)


@nll_loss.grad
def _(cx, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    back = R.grad.nll_loss_backward(
        cx.grad, predictions, targets, weights, reduction=reduction, ignore_index=ignore_index
    )
    return [back, None] if weights is None else [back, None, None]


_TARGETS = np.array([1, 0, 3], np.int64)
_PIXELS = np.array([[0, 2, 1], [-1, 1, 2]], np.int64)
nll_loss.samples(
    case((3, 4), _TARGETS, (4,), low=0.1),
    case((3, 4), _TARGETS, reduction="sum"),
    case((2, 3, 3), _PIXELS, (3,), reduction="mean", ignore_index=-1, low=0.1),
    case((2, 3, 3), _PIXELS, (3,), reduction="none", ignore_index=-1),
    case((4,), np.int64(2), (4,), reduction="none", low=0.1),
)


@op("relax.grad.nll_loss_backward", choices=_REDUCTION)
def nll_loss_backward(
    output_grad: Tensor,
    predictions: Tensor,
    targets: Tensor,
    weights: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
):
    """The gradient of nll_loss for its predictions."""
    if reduction != "none" and shape_of(output_grad):  # inference takes it, as TVM's tests do
        what = f"the gradient of a {reduction} is one number"
        raise ValueError(explain(what, got=f"rank {len(shape_of(output_grad))}"))
    wide = accumulator(predictions.dtype)
    axis = min(len(predictions.shape) - 1, 1)
    pick = _picked(targets, weights, predictions.shape[axis], ignore_index, wide)
    share: Any = None
    if reduction == "mean":
        share = _total(compute(shape_of(targets), lambda *i: pick(*i)[1], "weight"), "weight_sum")

    def cell(*i):
        rest = [*i[:axis], *i[axis + 1 :]]
        label, weight = pick(*rest)
        incoming = cast(wide, element(output_grad, rest if reduction == "none" else []))
        value = -multiply(incoming, weight)
        if share is not None:
            value = value / share()
        here = tir.EQ(label, cast("int64", i[axis]))
        return cast(predictions.dtype, tir.if_then_else(here, value, const(0, wide)))

    return compute(predictions.shape, cell, "nll_loss_backward")


@nll_loss_backward.infer
def _(output_grad, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    shape, other = predictions.get_shape(), targets.get_shape()
    if shape is not None and other is not None:
        _check_ranks(predictions, targets, weights)
        _check_extents(shape, other, None if weights is None else weights.get_shape())
        own = output_grad.get_shape()
        if reduction == "none" and own is not None:
            _check_extents(shape, own, None)
    return like(predictions)


@nll_loss_backward.numpy
def _(output_grad, predictions, targets, weights=None, reduction="mean", ignore_index=-100):
    flat = predictions.ndim == 1
    rows = predictions[None] if flat else predictions
    at = np.asarray(targets)[None] if flat else targets
    label, weight = _numpy_terms(at, weights, rows.shape[1], ignore_index, rows.dtype)
    incoming = output_grad if reduction != "none" or not flat else output_grad[None]
    value = -incoming * weight / (weight.sum() if reduction == "mean" else 1)
    out = np.zeros_like(rows)
    np.put_along_axis(out, label[:, None], value[:, None].astype(rows.dtype), 1)
    return out[0] if flat else out


nll_loss_backward.samples(
    case((), (3, 4), _TARGETS, (4,), low=0.1),
    case((2, 3), (2, 3, 3), _PIXELS, (3,), reduction="none", ignore_index=-1),
    case((), (3, 4), _TARGETS, reduction="sum"),
)
