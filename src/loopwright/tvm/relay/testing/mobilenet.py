"""MobileNet. Reference: Howard et al., "MobileNets: Efficient Convolutional Neural Networks for Mobile
Vision Applications", 2017, table 1."""

from __future__ import annotations

from typing import Any

from ..expr import Expr, Function, var
from ..op import nn
from . import layers
from .init import create_workload

# Channels of each depthwise separable block, and whether it halves the image.
BLOCKS = [(64, 0), (128, 1), (128, 0), (256, 1), (256, 0), (512, 1)]
DEEP = [*BLOCKS, *[(512, 0)] * 5, (1024, 1), (1024, 0)]
SHALLOW = [*BLOCKS, (1024, 1), (1024, 1)]


def separable(data: Expr, name: str, before: int, after: int, halved: bool, layout: str) -> Any:
    """A convolution of each channel, and one of channels only."""
    window = {"kernel_size": (3, 3), "padding": (1, 1), "strides": (2, 2) if halved else (1, 1)}
    kernel = layers.conv_kernel_layout(layout, is_depthwise=True)
    body = layers.conv_bn_relu(
        data, f"{name}_depthwise", layout, channels=before, groups=before, kernel_layout=kernel,
        **window,
    )  # fmt: skip
    return layers.conv_bn_relu(body, name, layout, channels=after, kernel_size=(1, 1))


def mobile_net(
    num_classes: int = 1000, data_shape: tuple[int, ...] = (1, 3, 224, 224), dtype: str = "float32",
    alpha: float = 1.0, is_shallow: bool = False, layout: str = "NCHW",
) -> Function:  # fmt: skip
    """The network. alpha: a factor of all channels."""
    width = int(32 * alpha)
    body: Any = layers.conv_bn_relu(
        var("data", shape=data_shape, dtype=dtype), "conv_block_1", layout,
        channels=width, kernel_size=(3, 3), strides=(2, 2), padding=(1, 1),
    )  # fmt: skip
    for number, (channels, halved) in enumerate(SHALLOW if is_shallow else DEEP, 1):
        name, after = f"separable_conv_block_{number}", int(channels * alpha)
        body = separable(body, name, width, after, bool(halved), layout)
        width = after
    body = nn.batch_flatten(nn.global_avg_pool2d(body, layout=layout))
    return layers.network(nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc")))


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32", layout: str = "NCHW",
) -> Any:  # fmt: skip
    """The network as a module, and parameters."""
    shape = (batch_size, *image_shape)
    return create_workload(mobile_net(num_classes, shape, dtype, layout=layout))
