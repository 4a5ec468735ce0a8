"""A small network with a bit of everything: two blocks of a convolution and a dense layer."""

from __future__ import annotations

from typing import Any

from .. import op
from ..expr import Function, var
from ..op import nn
from . import layers
from .init import workload_of


def get_net(
    input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """The network. wtype: the dtype of weights."""
    channels, columns = input_shape[1], input_shape[3]
    body: Any = var("data", shape=input_shape, dtype=dtype)
    for number in (1, 2):
        wide = var(f"dense{number}_weight", shape=(columns, columns), dtype=wtype or dtype)
        window = (channels, channels, 3, 3)
        kernel = var(f"conv{number}_weight", shape=window, dtype=wtype or dtype)
        rows = nn.relu(nn.dense(op.reshape(body, [-1, columns]), wide))
        conv = nn.conv2d(body, kernel, padding=1, kernel_size=3)
        body = op.reshape_like(rows, body) + nn.softmax(conv)
        if number == 1:
            bias = var("bias", shape=(channels,), dtype=wtype or dtype)
            body = layers.batch_norm_infer(nn.bias_add(body, bias), name="batch_norm")
    return layers.network(body)


get_workload = workload_of(get_net)
