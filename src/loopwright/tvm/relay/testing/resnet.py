"""Residual networks, with the normalization before each convolution. Reference: He et al., "Identity
Mappings in Deep Residual Networks", 2016."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....base.errors import explain
from ..expr import Expr, Function, var
from ..op import nn
from . import layers
from .init import create_workload

# Layers -> how many units each of four stages has.
UNITS = {
    18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3),
    200: (3, 24, 36, 3), 269: (3, 30, 48, 8),
}  # fmt: skip


class _Layers:
    """Layers in one layout of data."""

    def __init__(self, layout: str) -> None:
        kernel = layers.conv_kernel_layout(layout)
        self.layouts = {"data_layout": layout, "kernel_layout": kernel}
        self.axis = layout.index("C")

    def conv(self, data: Expr, channels: int, size: int, stride: int, name: str) -> Any:
        """A convolution whose window is centred."""
        pad = size // 2
        shape = {"kernel_size": (size, size), "strides": (stride, stride), "padding": (pad, pad)}
        return layers.conv2d(data, channels=channels, name=name, **shape, **self.layouts)

    def norm(self, data: Expr, name: str, **options: bool) -> Any:
        """A batch normalization."""
        return layers.batch_norm_infer(data, epsilon=2e-5, axis=self.axis, name=name, **options)

    def unit(
        self, data: Expr, channels: int, stride: int, same: bool, name: str, bottle_neck: bool
    ) -> Any:
        """A residual unit. same: data has its result's shape already."""
        first = nn.relu(self.norm(data, f"{name}_bn1"))
        if bottle_neck:
            steps = [(channels // 4, 1, stride), (channels // 4, 3, 1), (channels, 1, 1)]
        else:
            steps = [(channels, 3, stride), (channels, 3, 1)]
        body = first
        for number, (width, size, by) in enumerate(steps, 1):
            if number > 1:
                body = nn.relu(self.norm(body, f"{name}_bn{number}"))
            body = self.conv(body, width, size, by, f"{name}_conv{number}")
        return body + (data if same else self.conv(first, channels, 1, stride, f"{name}_sc"))


def resnet(
    units: Sequence[int], num_stages: int, filter_list: Sequence[int], num_classes: int,
    data_shape: tuple[int, ...], bottle_neck: bool = True, layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:  # fmt: skip
    """The network. units: how many units each stage has; filter_list: channels before the first
    stage, then of each."""
    make = _Layers(layout)
    body: Any = make.norm(var("data", shape=data_shape, dtype=dtype), "bn_data", scale=False)
    if data_shape[layout.index("H")] <= 32:
        body = make.conv(body, filter_list[0], 3, 1, "conv0")
    else:
        body = nn.relu(make.norm(make.conv(body, filter_list[0], 7, 2, "conv0"), "bn0"))
        body = nn.max_pool2d(body, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage, count in enumerate(units[:num_stages]):
        for number in range(count):
            stride = 2 if stage and not number else 1
            name = f"stage{stage + 1}_unit{number + 1}"
            body = make.unit(body, filter_list[stage + 1], stride, number > 0, name, bottle_neck)
    body = nn.global_avg_pool2d(nn.relu(make.norm(body, "bn1")), layout=layout)
    logits = layers.dense_add_bias(nn.batch_flatten(body), units=num_classes, name="fc1")
    return layers.network(nn.softmax(logits))


def get_net(
    batch_size: int, num_classes: int, num_layers: int = 50,
    image_shape: tuple[int, ...] = (3, 224, 224), layout: str = "NCHW", dtype: str = "float32",
    **_: Any,
) -> Function:  # fmt: skip
    """The network of a number of layers, for photographs or, up to 28 pixels, for small images."""
    small = image_shape[layout.index("H") - 1] <= 28
    if small:
        deep = num_layers >= 164
        count, left = divmod(num_layers - 2, 9 if deep else 6)
        units, filters = (count,) * 3, (16, 64, 128, 256) if deep else (16, 16, 32, 64)
        is_valid = left == 0
    else:
        deep = num_layers >= 50
        wide = (64, 256, 512, 1024, 2048)
        units, filters = UNITS.get(num_layers, ()), wide if deep else (64, 64, 128, 256, 512)
        is_valid = bool(units)
    if not is_valid:
        what = "unknown residual network"
        raise ValueError(explain(what, got=f"{num_layers} layers", instead=f"{list(UNITS)}"))
    shape = (batch_size, *image_shape)
    return resnet(units, len(units), filters, num_classes, shape, deep, layout, dtype)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, num_layers: int = 18, *args: Any, **options: Any
) -> Any:
    """The network as a module, and parameters; arguments as of `get_net`."""
    return create_workload(get_net(batch_size, num_classes, num_layers, *args, **options))
