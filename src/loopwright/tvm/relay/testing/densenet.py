"""DenseNet. Reference: Huang et al., "Densely Connected Convolutional Networks", 2017, table 1."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from .. import op
from ..expr import Expr, Function, var
from ..op import nn
from . import layers
from .init import create_workload

# Layers -> channels of the first convolution, channels that each layer adds, layers of each block.
SIZES = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}


def _norm_relu_conv(data: Expr, name: str, channels: int, size: int) -> Any:
    active = nn.relu(layers.batch_norm_infer(data, name=f"{name}_bn"))
    window = {"kernel_size": (size, size), "padding": (size // 2, size // 2)}
    return layers.conv2d(active, channels=channels, name=f"{name}_conv", **window)


def get_net(
    densenet_size: int, classes: int, data_shape: tuple[int, ...], dtype: str, bn_size: int = 4
) -> Function:
    """The network. bn_size: how much wider than its result a layer's inside is."""
    if densenet_size not in SIZES:
        what = "unknown DenseNet"
        raise ValueError(explain(what, got=densenet_size, instead=f"one of {list(SIZES)}"))
    width, growth, blocks = SIZES[densenet_size]
    data = var("data", shape=data_shape, dtype=dtype)
    body: Any = layers.conv_bn_relu(
        data, "first", channels=width, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3)
    )
    body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for block, count in enumerate(blocks):
        for number in range(count):
            name = f"block{block}_{number}"
            inside = _norm_relu_conv(body, f"{name}_1", bn_size * growth, 1)
            body = op.concatenate([body, _norm_relu_conv(inside, f"{name}_2", growth, 3)], axis=1)
        width += count * growth
        if block < len(blocks) - 1:
            width //= 2
            body = _norm_relu_conv(body, f"transition{block}", width, 1)
            body = nn.avg_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    body = nn.global_avg_pool2d(nn.relu(layers.batch_norm_infer(body, name="last_bn")))
    return layers.network(
        layers.dense_add_bias(nn.batch_flatten(body), units=classes, name="dense")
    )


def get_workload(
    densenet_size: int = 121, classes: int = 1000, batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224), dtype: str = "float32",
) -> Any:  # fmt: skip
    """The network as a module, and parameters."""
    return create_workload(get_net(densenet_size, classes, (batch_size, *image_shape), dtype))
