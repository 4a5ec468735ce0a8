"""The generator of DCGAN. Reference: Radford et al., "Unsupervised Representation Learning with Deep
Convolutional Generative Adversarial Networks", 2016, figure 1."""

from __future__ import annotations

from typing import Any

from ....base.errors import explain
from .. import op
from ..expr import Function, var
from ..op import nn
from . import layers
from .init import create_workload

KERNELS = {"NCHW": "IOHW", "NHWC": "HWOI"}


def get_net(
    batch_size: int, random_len: int = 100, oshape: tuple[int, ...] = (3, 64, 64), ngf: int = 128,
    code: Any = None, layout: str = "NCHW", dtype: str = "float32",
) -> Function:  # fmt: skip
    """From random numbers to images of 64 x 64, doubled four times from 4 x 4.

    ngf: channels of the last hidden image. code: the random numbers, by default a variable "data".
    """
    if tuple(oshape[-2:]) != (64, 64) or layout not in KERNELS:
        what = "the generator makes images of 64 x 64 in NCHW or NHWC"
        raise ValueError(explain(what, got=f"{oshape} in {layout}"))
    code = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    first = nn.relu(nn.dense(code, var("dense_weight"), units=16 * 8 * ngf))
    shape = [-1, 4, 4]
    shape.insert(layout.index("C"), 8 * ngf)
    body: Any = op.reshape(first, shape)
    window = {"kernel_size": (4, 4), "strides": (2, 2), "padding": (1, 1)}
    layouts = {"data_layout": layout, "kernel_layout": KERNELS[layout]}
    for number, channels in enumerate((4 * ngf, 2 * ngf, ngf, oshape[0]), 2):
        name = f"g{number}_deconv"
        body = layers.conv2d_transpose(body, channels=channels, name=name, **window, **layouts)
        if number < 5:
            axis = layout.index("C")
            named = {"name": f"g{number}_batch_norm", "axis": axis, "scale": False}
            body = nn.relu(layers.batch_norm_infer(body, **named))
    return layers.network(op.tanh(body))


def get_workload(
    batch_size: int, oshape: tuple[int, ...] = (3, 64, 64), ngf: int = 128, random_len: int = 100,
    layout: str = "NCHW", dtype: str = "float32",
) -> Any:  # fmt: skip
    """The network as a module, and parameters."""
    net = get_net(batch_size, random_len, oshape, ngf, layout=layout, dtype=dtype)
    return create_workload(net)
