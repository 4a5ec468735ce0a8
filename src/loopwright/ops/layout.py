"""Blocked layouts: channels in blocks of the vector length, the last one padded with zeros."""

from __future__ import annotations

from functools import reduce

import numpy as np

from .. import tir
from ..base.errors import explain
from ..ir.literals import is_one, is_zero
from ..ir.prim_op import add, ceildiv, const, floordiv, floormod, multiply
from ..relax.struct_info import TensorStructInfo
from ..tir import layout as layout_of
from .blocks import from_plain, shape_in
from .common import compute
from .core import case, op
from .extents import check_columns, simplify
from .params import Tensor


@op("relax.nn.pack_channels")
def pack_channels(x: Tensor, block: int):
    """(n, c, ...) as (n, ceil(c / block), ..., block); channels past the last are 0. An extent
    of 1 stays 1 outside and is repeated inside, so that it still broadcasts."""
    channels = x.shape[1]
    shape = _packed(x.shape, block)

    def cell(*i):
        if is_one(channels):
            return x(i[0], const(0, "int64"), *i[2:-1])
        at = add(multiply(i[1], block), i[-1])
        value = x(i[0], at, *i[2:-1])
        if _divides(block, channels):
            return value
        return tir.if_then_else(at < channels, value, const(0, x.dtype))

    return compute(shape, cell, "pack_channels", axes="i", tag="injective")


def _divides(block, extent):
    rest = simplify(floormod(extent, block))
    return is_zero(rest)


def _packed(shape, block):
    outer = shape[1] if is_one(shape[1]) else simplify(ceildiv(shape[1], block))
    return [shape[0], outer, *shape[2:], const(block, "int64")]


@pack_channels.infer
def _(x: TensorStructInfo, block):
    if x.ndim in (0, 1):
        raise ValueError(explain("needs an axis of channels", got=f"rank {x.ndim}"))
    shape = x.get_shape()
    if shape is None:
        return TensorStructInfo(dtype=x.dtype, ndim=x.ndim if x.ndim < 0 else x.ndim + 1)
    return TensorStructInfo(_packed(shape, block), x.dtype)


@pack_channels.numpy
def _(x, block):
    if x.shape[1] == 1:
        return np.ascontiguousarray(np.repeat(x[..., None], block, -1))
    letters = "NC" + "DHWXYZ"[: x.ndim - 2]
    return from_plain(x, f"{letters}{block}c", letters)


pack_channels.samples(
    case((2, 5, 3, 4), block=4), case(("n", 8, 3), block=8), case((1, 1, 2, 2), block=4)
)


@op("relax.nn.unpack_channels")
def unpack_channels(x: Tensor, channels: int):
    """The inverse of pack_channels: (n, blocks, ..., block) as (n, channels, ...)."""
    block = x.shape[-1]
    check_columns(simplify(multiply(x.shape[1], block)), last_channel=channels - 1)
    shape = [x.shape[0], const(channels, "int64"), *x.shape[2:-1]]

    def cell(*i):
        return x(i[0], floordiv(i[1], block), *i[2:], floormod(i[1], block))

    return compute(shape, cell, "unpack_channels", axes="i", tag="injective")


@unpack_channels.numpy
def _(x, channels):
    order = [0, 1, x.ndim - 1, *range(2, x.ndim - 1)]
    moved = x.transpose(order)
    shape = (x.shape[0], x.shape[1] * x.shape[-1], *x.shape[2:-1])
    return np.ascontiguousarray(moved.reshape(shape)[:, :channels])


unpack_channels.samples(case((2, 2, 3, 4, 4), channels=5), case(("n", 1, 3, 8), channels=8))


@op("relax.nn.pack_weight")
def pack_weight(weight: Tensor, layout: str):
    """A convolution's weight OIHW (or IOHW) in a blocked kernel layout, blocks filled with 0."""
    plan = layout_of(layout)
    plain = "".join(n for n in plan if n.isupper())
    extents = dict(zip(plain, weight.shape, strict=True))

    def cell(*i):
        at, inside = [], []
        for letter in plain:
            parts = zip(plan, plan.steps(), i, strict=True)
            own = [multiply(v, step) for part, step, v in parts if part.upper() == letter]
            at.append(reduce(add, own))
            if len(own) > 1:
                inside.append(at[-1] < extents[letter])
        value = weight(*at)
        if not inside:
            return value
        return tir.if_then_else(tir.all(*inside), value, const(0, weight.dtype))

    return compute(shape_in(plan, extents), cell, "pack_weight", axes="i", tag="injective")


@pack_weight.numpy
def _(weight, layout):
    return from_plain(weight, layout, "".join(n for n in layout_of(layout) if n.isupper()))


pack_weight.samples(
    case((6, 5, 3, 3), layout="OIHW4i4o"), case((6, 1, 3, 3), layout="OIHW8o"),
    case((6, 9, 3, 1), layout="OIHW2i8o4i"),
)  # fmt: skip
