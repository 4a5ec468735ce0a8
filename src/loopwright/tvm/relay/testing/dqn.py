"""The deep Q-network. Reference: Mnih et al., "Human-level control through deep reinforcement learning",
2015."""

from __future__ import annotations

from typing import Any

from ..expr import Function, var
from ..op import nn
from . import layers
from .init import workload_of


def get_net(
    batch_size: int, num_actions: int = 18, image_shape: tuple[int, ...] = (4, 84, 84),
    dtype: str = "float32", layout: str = "NCHW",
) -> Function:  # fmt: skip
    """The value of each action, from four frames."""
    body: Any = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    layouts = {"data_layout": layout, "kernel_layout": layers.conv_kernel_layout(layout)}
    for number, (channels, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        window = {"kernel_size": (size, size), "strides": (stride, stride), **layouts}
        conv = layers.conv2d(body, channels=channels, name=f"conv{number}", **window)
        body = nn.relu(nn.bias_add(conv, var(f"conv{number}_bias"), axis=layout.index("C")))
    body = nn.relu(layers.dense_add_bias(nn.batch_flatten(body), units=512, name="dense1"))
    return layers.network(layers.dense_add_bias(body, units=num_actions, name="dense2"))


get_workload = workload_of(get_net)
