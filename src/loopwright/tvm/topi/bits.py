"""topi's numbers as planes of bits: each word has one bit of neighbours along an axis, the first one
highest."""

from __future__ import annotations

from typing import Any

from ... import te
from ...base.errors import explain
from ...ir.dtype import DataType
from ...ir.prim_expr import PrimExpr
from ...ops import OPERATORS
from ...te.tensor import Tensor
from .utils import get_const_int


def bitpack(
    data: Tensor, bits: int, pack_axis: int, bit_axis: int, pack_type: str,
    name: str = "QuantizeInput",
) -> Tensor:  # fmt: skip
    """The lowest `bits` bits of each element, as planes along the new axis `bit_axis`; `pack_axis` is
    in words of `pack_type`."""
    width = DataType(pack_type).bits
    size = get_const_int(data.shape[pack_axis])
    if size % width:
        what = f"the packed axis is a multiple of {width}"
        raise ValueError(explain(what, got=str(size), instead="pad it"))
    shape = list(data.shape)
    shape[pack_axis] = te.const(size // width, "int64")
    shape.insert(bit_axis, te.const(bits, "int64"))

    def word(*i: PrimExpr) -> Any:
        plane, at = i[bit_axis], [v for n, v in enumerate(i) if n != bit_axis]
        first, total = at[pack_axis] * width, None
        for k in range(width):
            at[pack_axis] = first + k
            bit = (data(*at) >> plane.astype(data.dtype)) & te.const(1, data.dtype)
            moved = bit.astype(pack_type) << te.const(width - 1 - k, pack_type)
            total = moved if total is None else total | moved
        return total

    return te.compute(shape, word, name=name, tag="bitpack")


def bitunpack(data: Tensor, pack_axis: int, bit_axis: int, dtype: str) -> Tensor:
    """The numbers of which `bitpack` made planes of words."""
    width = DataType(data.dtype).bits
    planes = get_const_int(data.shape[bit_axis])
    shape = [d for n, d in enumerate(data.shape) if n != bit_axis]
    shape[pack_axis] = shape[pack_axis] * width

    def number(*i: PrimExpr) -> Any:
        at = list(i)
        at[pack_axis] = i[pack_axis] // width
        shift = (width - 1 - i[pack_axis] % width).astype(data.dtype)
        total = None
        for b in range(planes):
            where = [*at[:bit_axis], b, *at[bit_axis:]]
            bit = (data(*where) >> shift) & te.const(1, data.dtype)
            moved = bit.astype(dtype) << te.const(b, dtype)
            total = moved if total is None else total + moved
        return total

    return te.compute(shape, number, name="bitunpack", tag="injective")


def masked(data: Tensor, bits: int, dtype: str) -> Tensor:
    """The lowest `bits` bits of each element."""
    mask = te.const((1 << bits) - 1, data.dtype)
    low = OPERATORS["relax.bitwise_and"](data, mask)
    return OPERATORS["relax.astype"](low, dtype)
