"""Inception v3. Reference: Szegedy et al., "Rethinking the Inception Architecture for Computer Vision",
2016, as its authors published it as a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import op
from ..expr import Expr, Function, var
from ..op import nn
from . import layers
from .init import workload_of


def _conv(
    data: Expr, name: str, channels: int, size: Any, stride: int = 1,
    pad: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """A convolution with what follows it. pad: by default its result is as large as its data."""
    size = (size, size) if isinstance(size, int) else size
    pad = (size[0] // 2, size[1] // 2) if pad is None else pad
    window = {"kernel_size": size, "strides": (stride, stride), "padding": pad}
    return layers.conv_bn_relu(data, name, channels=channels, epsilon=2e-5, **window)


def _chain(data: Expr, name: str, *steps: tuple[Any, ...]) -> Any:
    for number, step in enumerate(steps):
        data = _conv(data, f"{name}_{number}", *step)
    return data


def _shrunk(data: Expr) -> Any:
    return nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))


def _blurred(data: Expr) -> Any:
    return nn.avg_pool2d(
        data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1), count_include_pad=True
    )


VALID = (0, 0)


def _a(data: Expr, name: str, pool: int) -> Any:
    return [
        _chain(data, f"{name}_1x1", (64, 1)),
        _chain(data, f"{name}_5x5", (48, 1), (64, 5)),
        _chain(data, f"{name}_3x3", (64, 1), (96, 3), (96, 3)),
        _chain(_blurred(data), f"{name}_pool", (pool, 1)),
    ]


def _b(data: Expr, name: str) -> Any:
    return [
        _chain(data, f"{name}_3x3", (384, 3, 2, VALID)),
        _chain(data, f"{name}_double", (64, 1), (96, 3), (96, 3, 2, VALID)),
        _shrunk(data),
    ]


def _c(data: Expr, name: str, width: int) -> Any:
    row, column = (1, 7), (7, 1)
    double = [(width, 1), (width, column), (width, row), (width, column), (192, row)]
    return [
        _chain(data, f"{name}_1x1", (192, 1)),
        _chain(data, f"{name}_7x7", (width, 1), (width, row), (192, column)),
        _chain(data, f"{name}_double", *double),
        _chain(_blurred(data), f"{name}_pool", (192, 1)),
    ]


def _d(data: Expr, name: str) -> Any:
    last = (192, 3, 2, VALID)
    return [
        _chain(data, f"{name}_3x3", (192, 1), (320, 3, 2, VALID)),
        _chain(data, f"{name}_7x7", (192, 1), (192, (1, 7)), (192, (7, 1)), last),
        _shrunk(data),
    ]


def _e(data: Expr, name: str) -> Any:
    narrow = _chain(data, f"{name}_3x3", (384, 1))
    double = _chain(data, f"{name}_double", (448, 1), (384, 3))
    split = [
        _conv(side, f"{name}_{label}_{rows}x{columns}", 384, (rows, columns))
        for label, side in (("3x3", narrow), ("double", double))
        for rows, columns in ((1, 3), (3, 1))
    ]
    pooled = _chain(_blurred(data), f"{name}_pool", (192, 1))
    return [_chain(data, f"{name}_1x1", (320, 1)), *split, pooled]


BLOCKS: list[tuple[Any, ...]] = [
    (_a, 32), (_a, 64), (_a, 64), (_b,), (_c, 128), (_c, 160), (_c, 160), (_c, 192), (_d,), (_e,),
    (_e,),
]  # fmt: skip


def get_net(
    batch_size: int = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 299, 299),
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network, for images of 299 x 299."""
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    body: Any = _chain(data, "conv", (32, 3, 2, VALID), (32, 3, 1, VALID), (64, 3))
    body = _chain(_shrunk(body), "conv_2", (80, 1), (192, 3, 1, VALID))
    body = _shrunk(body)
    for number, (block, *args) in enumerate(BLOCKS):
        body = op.concatenate(block(body, f"mixed{number}", *args), axis=1)
    body = nn.batch_flatten(nn.global_avg_pool2d(body))
    return layers.network(nn.softmax(layers.dense_add_bias(body, units=num_classes, name="fc1")))


get_workload = workload_of(get_net)
