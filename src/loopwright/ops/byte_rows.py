"""Windows of an image of bytes as the rows of a matrix: a convolution of unknown size is one product."""

from __future__ import annotations

import numpy as np

from .. import te, tir
from ..ir.prim_op import add, floordiv, multiply
from .common import compute
from .core import case, op
from .extents import extents_of, simplify
from .integer import random_bytes
from .params import Ints, Tensor
from .statements import long


@op("relax.nn.byte_rows", alone=True)
def byte_rows(
    data: Tensor, zero: Tensor, kernel: Ints, strides: Ints, dilation: Ints, padding: Ints
):
    """uint8 (batch, *sides, channels) as (batch, *positions, *kernel, channels filled up to a multiple of 4):
    the elements that the window of each pixel reads. Pixels outside are `zero`; the padding of the channels
    has any value; `padding`: the padding before each side, then after each."""
    batch, *sides, channels = extents_of(data, "data", *[None] * (len(kernel) + 2))
    fill = zero() if isinstance(zero, te.Tensor) else zero
    count = len(kernel)
    extents = [
        simplify(floordiv(add(side, before + after - (k - 1) * d - 1), long(s)) + 1)
        for side, k, s, d, before, after in zip(
            sides, kernel, strides, dilation, padding[:count], padding[count:], strict=True
        )
    ]
    whole = multiply(floordiv(add(channels, 3), 4), 4)
    shape = [batch, *extents, *map(long, kernel), simplify(whole)]

    def cell(*i):
        n, *i, c = i
        at = [
            p * s + k * d - b
            for p, k, s, d, b in zip(i, i[count:], strides, dilation, padding, strict=False)
        ]
        inside = tir.all(*[p >= 0 for p in at], *[p < d for p, d in zip(at, sides, strict=True)])
        return tir.if_then_else(inside, data(n, *at, tir.min(c, channels - 1)), fill)

    return compute(shape, cell, "byte_rows", axes="i")


@byte_rows.numpy
def _(data, zero, kernel, strides, dilation, padding):
    count, channels = len(kernel), data.shape[-1]
    data = np.concatenate([data, np.repeat(data[..., -1:], -channels % 4, -1)], -1)
    around = [(0, 0), *zip(padding[:count], padding[count:], strict=True), (0, 0)]
    data = np.pad(data, around, constant_values=zero)
    window = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    axes = tuple(range(1, count + 1))
    seen = np.lib.stride_tricks.sliding_window_view(data, window, axes)
    steps = [slice(None, None, s) for s in strides]
    taps = [slice(None, None, d) for d in dilation]
    seen = np.moveaxis(seen, count + 1, -1)
    return np.ascontiguousarray(seen[:, *steps, *taps])


byte_rows.samples(
    case(
        random_bytes(2, 9, 3), np.uint8(7), kernel=[3], strides=[2], dilation=[2], padding=[1, 3]
    ),
    case(
        random_bytes(1, 5, 6, 4), np.uint8(7),
        kernel=[3, 2], strides=[1, 2], dilation=[1, 1], padding=[1, 0, 1, 1],
    ),
)  # fmt: skip
