"""Normalizations, softmax and dropout."""

from __future__ import annotations

from typing import Any

from ....ops.core import FUSABLE
from ....relax import expr as rx
from ...topi import nn as topi_nn
from ..expr import Expr
from . import layouts
from .common import vectors
from .core import Input, Numbers, R, builder, kernel, op, same, view
from .tensor import scalar
from .transform import dims_of

same("nn.softmax", attrs="SoftmaxAttrs", kind=FUSABLE, mixed="never")
same("nn.log_softmax", attrs="SoftmaxAttrs", kind=FUSABLE)
same("nn.fast_softmax", "nn.softmax", attrs="SoftmaxAttrs")


@op("nn.batch_norm", results=3, attrs="BatchNormAttrs", mixed="follow",
    layout=layouts.along("axis", inputs=("C",) * 4, outputs=("", "C", "C")))  # fmt: skip
def batch_norm(
    data: Input, gamma: Input, beta: Input, moving_mean: Input, moving_var: Input, axis: int = 1,
    epsilon: float = 1e-5, center: bool = True, scale: bool = True,
) -> Any:  # fmt: skip
    """Each channel normalized by the moving mean and variance; and these, unchanged."""
    tensors = (data, gamma, beta, moving_mean, moving_var)
    return R.nn.batch_norm(*tensors, axis, epsilon, center, scale, training=False)


_NORM = {"epsilon": 1e-5, "center": True, "scale": True}
_SCALED = layouts.along("axis", inputs=("C",) * 2)  # with gamma and beta


@op("nn.layer_norm", attrs="LayerNormAttrs", options=_NORM, mixed="never", layout=_SCALED)
def layer_norm(data: Input, gamma: Input, beta: Input, axis: int = -1, **options: Any) -> Any:
    """Normalized by mean and variance along an axis."""
    return R.nn.layer_norm(data, gamma, beta, [axis], **options)


def _others(data: Any, axis: int) -> list[int]:
    rank = data.struct_info.ndim
    return [n for n in range(1, rank) if n != axis % rank]


@op("nn.instance_norm", attrs="InstanceNormAttrs", options=_NORM, layout=_SCALED)
def instance_norm(data: Input, gamma: Input, beta: Input, axis: int = 1, **options: Any) -> Any:
    """Each channel of each image normalized by its mean and variance."""
    return R.nn.instance_norm(data, gamma, beta, axis, _others(data, axis), **options)


@op("nn.group_norm", attrs="GroupNormAttrs", options=_NORM)
def group_norm(
    data: Input, gamma: Input, beta: Input, num_groups: int, axis: int = 1, **options: Any
) -> Any:
    """Groups of channels of each image normalized by their mean and variance."""
    return R.nn.group_norm(data, gamma, beta, num_groups, axis, _others(data, axis), **options)


batch_norm.arguments(vectors("axis", 1, 2, 3, 4, count=5))
for _row in (layer_norm, instance_norm, group_norm):
    _row.arguments(vectors("axis", 1, 2, count=3))


@op("nn.l2_normalize", attrs="L2NormalizeAttrs", kind=FUSABLE, mixed="never",
    layout=layouts.along("axis"))  # fmt: skip
def l2_normalize(data: Input, eps: float, axis: Numbers = None) -> Any:
    """data / sqrt(max(sum of squares, eps)), summed along the axes."""
    total = builder().emit(
        R.sum(R.multiply(data, data), None if axis is None else list(axis), True)
    )
    return R.divide(data, R.sqrt(R.maximum(total, scalar(eps, data))))


@op("nn.lrn", attrs="LRNAttrs", kind=FUSABLE)
def lrn(
    data: Input, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 1e-5,
    beta: float = 0.75,
) -> Any:  # fmt: skip
    """data / (bias + alpha / size * sum of squares of `size` neighbours along the axis) ** beta."""
    return kernel(topi_nn.lrn, data, size, axis, alpha, beta, bias)


@op("nn.dropout", results=2, attrs="DropoutAttrs", view=False, mixed="follow", layout=layouts.twice)
def dropout(data: Input, rate: float = 0.5) -> Any:
    """The data, as at inference, and a mask of ones."""
    ones = R.ones(dims_of(data), str(data.struct_info.dtype))
    return rx.Tuple([data, builder().emit(ones)])


view("nn.dropout_raw")(dropout.builder)


@view("nn.dropout")
def _dropout(data: Expr, rate: float = 0.5) -> Any:
    """The data, as at inference."""
    return dropout.builder(data, rate)[0]
