"""Layers of networks: an operator, and variables for its weights, named after the layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..expr import Expr, Function, var
from ..op import nn
from ..walk import free_vars


def _named(value: Expr | None, name: str | None, part: str) -> Any:
    return var(f"{name}_{part}") if value is None else value


def conv2d(
    data: Expr, weight: Any = None, name: str | None = None, **options: str | Sequence[int] | float
) -> Any:
    """A convolution; options are the operator's."""
    return nn.conv2d(data, _named(weight, name, "weight"), **options)


def conv3d(
    data: Expr, weight: Any = None, name: str | None = None, **options: int | Sequence[int]
) -> Any:
    """A convolution over three axes."""
    return nn.conv3d(data, _named(weight, name, "weight"), **options)


def conv2d_transpose(
    data: Expr, weight: Any = None, name: str | None = None, **options: str | int | Sequence[int]
) -> Any:
    """A transposed convolution."""
    return nn.conv2d_transpose(data, _named(weight, name, "weight"), **options)


def dense_add_bias(
    data: Expr, weight: Expr | None = None, bias: Expr | None = None, units: int | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """A fully connected layer."""
    product = nn.dense(data, _named(weight, name, "weight"), units=units)
    return nn.bias_add(product, _named(bias, name, "bias"), axis=-1)


def batch_norm_infer(
    data: Expr, gamma: Any = None, beta: Any = None, moving_mean: Any = None,
    moving_var: Any = None, name: str | None = None, **options: float,
) -> Any:  # fmt: skip
    """A batch normalization by known statistics."""
    parts = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    params = {part: _named(value, name, part) for part, value in parts.items()}
    return nn.batch_norm(data, **params, **options)[0]


def conv_bn_relu(data: Expr, name: str, layout: str = "NCHW", **options: Any) -> Any:
    """A convolution, a batch normalization and a rectifier."""
    epsilon = options.pop("epsilon", 1e-5)
    options = {"kernel_layout": conv_kernel_layout(layout), "data_layout": layout, **options}
    conv = conv2d(data, name=f"{name}_conv", **options)
    axis = layout.index("C")
    return nn.relu(batch_norm_infer(conv, epsilon=epsilon, axis=axis, name=f"{name}_bn"))


def conv_kernel_layout(data_layout: str, is_depthwise: bool = False) -> str:
    """The layout of weights for one of data."""
    layouts = {"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI"), "NCDHW": ("OIDHW", "OIDHW")}
    layouts["NDHWC"] = ("DHWIO", "DHWOI")
    return layouts[data_layout][is_depthwise]


def network(result: Expr) -> Function:
    """The function of an expression's free variables."""
    return Function(free_vars(result), result)
