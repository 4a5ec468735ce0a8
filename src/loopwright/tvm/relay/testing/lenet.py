"""LeNet. Reference: LeCun et al., "Gradient-based learning applied to document recognition", 1998."""

from __future__ import annotations

from typing import Any

from .. import op
from ..expr import Function, var
from ..op import nn
from . import layers
from .init import workload_of


def get_net(
    batch_size: int = 1,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """The network: two convolutions with pooling, three fully connected layers."""
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for number, (channels, pad) in enumerate(((6, 2), (16, 0)), 1):
        body = layers.conv2d(
            body, channels=channels, kernel_size=(5, 5), padding=(pad, pad), name=f"conv{number}"
        )
        body = op.tanh(nn.bias_add(body, var(f"conv{number}_bias")))
        body = nn.avg_pool2d(body, pool_size=(2, 2), strides=(2, 2))
    body = nn.batch_flatten(body)
    for number, units in enumerate((120, 84), 1):
        body = op.tanh(layers.dense_add_bias(body, units=units, name=f"fc{number}"))
    return layers.network(nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc3")))


get_workload = workload_of(get_net)
