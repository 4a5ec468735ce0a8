"""A perceptron of three layers, for digits."""

from __future__ import annotations

from typing import Any

from ..expr import Function, var
from ..op import nn
from . import layers
from .init import workload_of


def get_net(
    batch_size: int,
    num_classes: int = 10,
    image_shape: tuple[int, ...] = (1, 28, 28),
    dtype: str = "float32",
) -> Function:
    """The network, of 128 and 64 hidden units."""
    body: Any = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for number, units in enumerate((128, 64), 1):
        body = nn.relu(layers.dense_add_bias(body, units=units, name=f"fc{number}"))
    return layers.network(nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc3")))


get_workload = workload_of(get_net)
