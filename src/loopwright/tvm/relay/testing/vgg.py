"""VGG. Reference: Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
Recognition", 2015, table 1."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from ..expr import Function, var
from ..op import nn
from . import layers
from .init import create_workload

# Layers -> convolutions of each stage.
SIZES = {11: (1, 1, 2, 2, 2), 13: (2,) * 5, 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


def get_net(
    batch_size: int, image_shape: tuple[int, ...], num_classes: int, dtype: str,
    num_layers: int = 11, batch_norm: bool = False,
) -> Function:  # fmt: skip
    """The network of a number of layers."""
    if num_layers not in SIZES:
        what = "unknown VGG network"
        raise ValueError(explain(what, got=num_layers, instead=f"one of {list(SIZES)}"))
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    stages = zip(SIZES[num_layers], (64, 128, 256, 512, 512), strict=True)
    for stage, (count, channels) in enumerate(stages, 1):
        for number in range(1, count + 1):
            name = f"conv{stage}_{number}"
            window = {"kernel_size": (3, 3), "padding": (1, 1)}
            body = layers.conv2d(body, channels=channels, name=name, **window)
            body = nn.bias_add(body, var(f"{name}_bias"))
            if batch_norm:
                body = layers.batch_norm_infer(body, name=f"bn{stage}_{number}")
            body = nn.relu(body)
        body = nn.max_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    body = nn.batch_flatten(body)
    for name in ("fc6", "fc7"):
        body = nn.dropout(nn.relu(layers.dense_add_bias(body, units=4096, name=name)), rate=0.5)
    return layers.network(nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc8")))


def get_workload(
    batch_size: int, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32", num_layers: int = 11, batch_norm: bool = False,
) -> Any:  # fmt: skip
    """The network as a module, and parameters."""
    net = get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm)
    return create_workload(net)
