"""SqueezeNet 1.0 and 1.1. Reference: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer
parameters and <0.5MB model size", 2016."""

from __future__ import annotations

from ....base.errors import explain
from ....ir.module import IRModule
from ....runtime.tensor import Tensor
from .. import op
from ..expr import Expr, Function, var
from ..op import nn
from . import layers
from .init import create_workload

# Channels and window of the first convolution; then the squeeze channels of each fire module (its two
# expand convolutions have four times that number each), with "pool" where a max pooling follows.
VERSIONS: dict[str, tuple[int, int, list[int | str]]] = {
    "1.0": (96, 7, ["pool", 16, 16, 32, "pool", 32, 48, 48, 64, "pool", 64]),
    "1.1": (64, 3, ["pool", 16, 16, "pool", 32, 32, "pool", 48, 48, 64, 64]),
}


def _conv(data: Expr, channels: int, size: int, name: str, pad: int = 0, stride: int = 1) -> Expr:
    window = {"kernel_size": (size, size), "padding": (pad, pad), "strides": (stride, stride)}
    conv = layers.conv2d(data, channels=channels, name=name, **window)
    return nn.relu(nn.bias_add(conv, var(f"{name}_bias")))


def get_net(
    batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str
) -> Function:
    """The network of a version, "1.0" or "1.1": from data (batch_size, *image_shape), channels first, to
    probabilities (batch_size, num_classes). Raises ValueError for another version."""
    if version not in VERSIONS:
        what = "unknown SqueezeNet"
        raise ValueError(explain(what, got=version, instead=f"one of {list(VERSIONS)}"))
    channels, size, steps = VERSIONS[version]
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body = _conv(data, channels, size, "conv1", stride=2)
    for number, step in enumerate(steps):
        if isinstance(step, str):
            body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2))
            continue
        name = f"fire{number}"
        squeezed = _conv(body, step, 1, f"{name}_squeeze")
        wide = [_conv(squeezed, 4 * step, n, f"{name}_expand{n}x{n}", pad=n // 2) for n in (1, 3)]
        body = op.concatenate(wide, axis=1)
    body = _conv(nn.dropout(body, rate=0.5), num_classes, 1, "conv_final")
    return layers.network(nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body))))


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224), dtype: str = "float32",
) -> tuple[IRModule, dict[str, Tensor]]:  # fmt: skip
    """The network of `get_net` as a module, and random values of its parameters by name."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
