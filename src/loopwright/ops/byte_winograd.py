"""Convolutions of bytes with windows of 3 x 3 by Winograd's algorithm, exact: in int16, added in int32.

As in `ops.winograd`, with its matrices in whole numbers: G without its rows' divisors, which A^T has
instead, so that the results are multiples of `_unit(tile)` squared. int32 is exact modulo 2**32, where a
division by an odd factor is a product; the factor left is a power of 2, by which results must be smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import Broadcast, PrimExpr
from ..ir.prim_op import cast, const
from ..relax.struct_info import TensorStructInfo
from .common import NO_INLINE, compute
from .core import case, op
from .extents import extents_of, shorter, simplify, text
from .integer import (
    as_bytes,
    check_dtypes,
    check_extent,
)
from .params import Ints, Tensor
from .statements import long
from .winograd import Transforms, along, row_of, transforms

ROWS = 4  # outputs of a block of weights
LANES = 8  # tiles of a block


@cache
def whole(tile: int) -> tuple[Transforms, int]:
    """The matrices in int64, and the unit: A^T times the unit over the divisors of G's rows. Raises ValueError for
    tiles whose matrices are not whole numbers."""
    if tile not in (2, 4):
        raise ValueError(explain("tile must be 2 or 4", got=str(tile)))
    real = transforms(tile)
    divisors = np.array([*np.rint(1 / real.window[:-1, 0]), 1]).astype(np.int64)
    unit = int(np.lcm.reduce(divisors))
    window = np.rint(real.window * divisors[:, None])
    results = real.results * (unit / divisors)
    return Transforms(*(m.astype(np.int64) for m in (results, real.data, window))), unit


def divided(value: PrimExpr | np.ndarray[Any, Any], unit: int) -> Any:
    """value / unit**2, of int32 modulo 2**32."""
    odd = unit * unit
    shift = (odd & -odd).bit_length() - 1
    odd >>= shift
    # Modulo 2**32 an odd number has an inverse: a multiple of it is divided by one product.
    inverse = pow(odd, -1, 1 << 32)
    inverse -= (inverse >> 31) << 32
    if isinstance(value, np.ndarray):
        with np.errstate(over="ignore"):
            return (value.astype(np.int32) * np.int32(inverse)) >> np.int32(shift)
    return (value * vector_of(inverse, value) if odd > 1 else value) >> vector_of(shift, value)


# ---------------------------------------------------------------- weights


def vector_of(value: int, like: PrimExpr) -> Any:
    """A number as a vector of the type of another, or as a number of it."""
    number = const(value, like.dtype.with_lanes(1))
    return Broadcast(number, like.dtype.lanes) if like.dtype.lanes > 1 else number


@op("relax.nn.byte_winograd_weight")
def byte_winograd_weight(weight: Tensor, tile: int):
    """Windows (outputs, inputs, 3, 3) in int8 as `byte_winograd` reads them: int16 (outputs / 4, m * m, inputs / 2
    * 8) with m = tile + 2. Of each element of G g G^T, the numbers of two adjacent inputs for four outputs.
    Zeros fill up outputs and inputs."""
    outputs, inputs, _, _ = extents_of(weight, "weight", None, None, 3, 3)
    matrix, m = whole(tile)[0].window, tile + 2
    blocks, pairs = (outputs + ROWS - 1) // ROWS, (inputs + 1) // 2

    def window(k, c, a, b):
        inside = tir.all(k < outputs, c < inputs)
        return tir.if_then_else(inside, cast("int16", weight(k, c, a, b)), const(0, "int16"))

    filled = compute([blocks * ROWS, pairs * 2, 3, 3], window, "winograd_window")
    half = compute([blocks * ROWS, pairs * 2, m, 3], along(matrix, filled, 2), "winograd_rows")
    tiles = compute([blocks * ROWS, pairs * 2, m, m], along(matrix, half, 3), "winograd_cols")

    def cell(block, at, k):
        return tiles(block * ROWS + k // 2 % ROWS, k // (2 * ROWS) * 2 + k % 2, at // m, at % m)

    shape = [simplify(blocks), long(m * m), simplify(pairs * (2 * ROWS))]
    return compute(shape, cell, "byte_winograd_weight")


@byte_winograd_weight.numpy
def _(weight, tile):
    fill = [(0, -weight.shape[0] % ROWS), (0, weight.shape[1] % 2), (0, 0), (0, 0)]
    matrix = whole(tile)[0].window
    tiles = np.pad(weight, fill).astype(np.int16)
    tiles = np.einsum("ay,kcyx,bx->kcab", matrix, tiles, matrix, optimize=True).astype(np.int16)
    outputs, inputs, m, _ = tiles.shape
    tiles = tiles.reshape(outputs // ROWS, ROWS, inputs // 2, 2, m * m).transpose(0, 4, 2, 1, 3)
    return np.ascontiguousarray(tiles).reshape(outputs // ROWS, m * m, inputs * ROWS)


# ---------------------------------------------------------------- tiles of the image


@op("relax.nn.byte_winograd_tiles", alone=True)
def byte_winograd_tiles(
    data: Tensor, zero: Tensor, before: Ints, tile: int, rows: int, columns: int
):
    """uint8 (batch, channels, h, w) as int16 (batch, m * m, tiles / 8, channels / 2, 16) with m = tile + 2: B^T d B of
    rows * columns tiles of m x m pixels that overlap by 2, with two adjacent channels of 8 tiles in a vector.
    `before`: the padding before h and w. Pixels outside are `zero`, the padding of the channels has any value,
    and that of the tiles is 0."""
    batch, channels, h, w = extents_of(data, "data", None, None, None, None)
    fill = zero() if isinstance(zero, te.Tensor) else zero
    matrix, m, count = whole(tile)[0].data, tile + 2, rows * columns

    def pixel(a, b, n, c, t):
        row, column = t // columns * tile + a - before[0], t % columns * tile + b - before[1]
        inside = tir.all(row >= 0, row < h, column >= 0, column < w)
        value = data(n, tir.min(c, channels - 1), row, column)
        return cast("int16", tir.if_then_else(inside, value, fill))

    pairs = (channels + 1) // 2
    shape = [long(m), long(m), batch, pairs * 2, long(count)]
    pixels = compute(shape, pixel, "winograd_pixels")
    # Inlined, this sum of sums was 1 MB of text, and LLVM took 20 s.
    half = compute(shape, along(matrix, pixels, 0), "winograd_rows", attrs={NO_INLINE: True})
    tiles = compute(shape, along(matrix, half, 1), "winograd_cols")

    def cell(n, at, block, c, k):
        t = block * LANES + k // 2
        value = tiles(at // m, at % m, n, c * 2 + k % 2, tir.min(t, count - 1))
        return tir.if_then_else(t < count, value, const(0, "int16"))

    shape = [batch, long(m * m), long(-(-count // LANES)), simplify(pairs), long(2 * LANES)]
    return compute(shape, cell, "byte_winograd_tiles")


@byte_winograd_tiles.infer
def _(data, zero, before, tile, rows, columns):
    check_dtypes(data=(data, "uint8"), zero=(zero, "uint8"))
    _check_tiles(tile, rows, columns)
    shape = data.get_shape()
    if shape is None:
        return TensorStructInfo(dtype="int16", ndim=5)
    pairs, blocks = simplify((shape[1] + 1) // 2), -(-rows * columns // LANES)
    return TensorStructInfo([shape[0], (tile + 2) ** 2, blocks, pairs, 2 * LANES], "int16")


def _check_tiles(tile: int, rows: int, columns: int) -> None:
    whole(tile)
    if min(rows, columns) < 1:
        raise ValueError(explain("rows and columns must be 1 or more", got=f"{rows}, {columns}"))


@byte_winograd_tiles.numpy
def _(data, zero, before, tile, rows, columns):
    batch, channels, h, w = data.shape
    data = np.concatenate([data, data[:, -1:]], 1) if channels % 2 else data
    used = tile * rows + 2, tile * columns + 2
    size = [max(u, b + d) for u, b, d in zip(used, before, (h, w), strict=True)]
    framed = np.full((*data.shape[:2], *size), zero, np.int16)
    framed[:, :, before[0] : before[0] + h, before[1] : before[1] + w] = data
    framed = framed[:, :, : used[0], : used[1]]
    views = np.lib.stride_tricks.sliding_window_view(framed, (tile + 2, tile + 2), (2, 3))
    views = views[:, :, ::tile, ::tile]
    matrix = whole(tile)[0].data.astype(np.int16)
    tiles = np.einsum("ay,bx,ncpqyx->nabcpq", matrix, matrix, views)
    tiles = tiles.reshape(batch, (tile + 2) ** 2, data.shape[1] // 2, 2, rows * columns)
    tiles = np.pad(tiles, [(0, 0)] * 4 + [(0, -tiles.shape[4] % LANES)])
    tiles = tiles.reshape(*tiles.shape[:4], tiles.shape[4] // LANES, LANES).transpose(
        0, 1, 4, 2, 5, 3
    )
    return np.ascontiguousarray(tiles).reshape(*tiles.shape[:4], 2 * LANES)


@op("relax.nn.byte_winograd", alone=True)
def byte_winograd(data: Tensor, weight: Tensor, tile: int, rows: int, columns: int):
    """The convolution of the results of `byte_winograd_tiles` and `byte_winograd_weight`. int32 (batch, outputs, tile *
    tiles * tile), the tiles filled up to a multiple of 8: of all their first rows, one after another, then
    their second ones, ...; see `byte_image`. The results must be less than 2**29 where tile is 2, than 2**25 where it is 4."""
    m, count = tile + 2, rows * columns
    extents = m * m, -(-count // LANES), None, 2 * LANES
    batch, _, _, pairs, _ = extents_of(data, "data", None, *extents)
    blocks, _, _ = extents_of(weight, "weight", None, m * m, None)
    (matrix, _, _), unit = whole(tile)
    k = te.reduce_axis((const(0, "int64"), pairs), name="k")
    v = te.reduce_axis((const(0, "int64"), const(2, "int64")), name="v")

    def product(a, b, n, o, t):
        number = weight(o // ROWS, a * m + b, (k * ROWS + o % ROWS) * 2 + v)
        value = data(n, a * m + b, t // LANES, k, t % LANES * 2 + v)
        return te.sum(cast("int32", value) * cast("int32", number), axis=[k, v])

    outputs, count = simplify(blocks * ROWS), -(-count // LANES) * LANES
    dims = [batch, outputs, long(count)]
    products = compute([long(m), long(m), *dims], product, "winograd_products")
    half = compute([long(tile), long(m), *dims], along(matrix, products, 0), "winograd_rows")

    def cell(n, o, place):
        i, t, j = place // (count * tile), place // tile % count, place % tile
        return divided(row_of(matrix, j, lambda b: half(i, b, n, o, t)), unit)

    return compute([batch, outputs, long(tile * count * tile)], cell, "byte_winograd")


@byte_winograd.infer
def _info(data, weight, tile, rows, columns):
    check_dtypes(data=(data, "int16"), weight=(weight, "int16"))
    _check_tiles(tile, rows, columns)
    a, b = data.get_shape(), weight.get_shape()
    if a is None or b is None:
        return TensorStructInfo(dtype="int32", ndim=3)
    check_extent("data", 1, a[1], long((tile + 2) ** 2))
    check_extent("data", 2, a[2], long(-(-rows * columns // LANES)))
    check_extent("data", 4, a[4], long(2 * LANES))
    check_extent("weight", 1, b[1], long((tile + 2) ** 2))
    check_extent("weight", 2, b[2], a[3] * (2 * ROWS))
    pixels = tile * -(-rows * columns // LANES) * LANES * tile
    return TensorStructInfo([a[0], simplify(b[0] * ROWS), pixels], "int32")


@byte_winograd.numpy
def _numpy(data, weight, tile, rows, columns):
    m, (batch, _, blocks, pairs, _) = tile + 2, data.shape
    values = data.swapaxes(2, 3).reshape(batch, m, m, pairs, blocks * LANES, 2).astype(np.int64)
    numbers = weight.astype(np.int64).reshape(len(weight), m, m, pairs, ROWS, 2)
    (matrix, _, _), unit = whole(tile)
    products = np.einsum("nabktv,oabkrv->nabort", values, numbers, optimize=True)
    totals = np.einsum("ia,jb,nabort->noritj", matrix, matrix, products, optimize=True)
    shape = batch, len(weight) * ROWS, tile * blocks * LANES * tile
    return divided(totals.reshape(shape), unit)


byte_winograd_bytes = as_bytes(byte_winograd)


@op("relax.nn.byte_image")
def byte_image(
    data: Tensor,
    channels: int,
    height: int,
    columns: int,
    width: int,
    tile: int = 1,
    apart: int = 0,
):
    """The image (batch, channels, height, columns) as `byte_winograd` computes it: in rows of `width` pixels,
    first those that are the first of `tile` ones, then, `apart` pixels after them, the second ones, ..."""
    (batch, *_) = extents_of(data, "data", None, None, None)
    dims = [batch, long(channels), long(height), long(columns)]

    def cell(n, c, i, j):
        return data(n, c, i % tile * apart + i // tile * width + j)

    return compute(dims, cell, "byte_image", tag="injective")


@byte_image.infer
def _(data, channels, height, columns, width, tile, apart):
    shape, dims = data.get_shape(), [channels, height, columns]
    if tile < 1:
        raise ValueError(explain("tile must be 1 or more", got=str(tile)))
    if shape is None:
        return TensorStructInfo(dtype=data.dtype, ndim=4)
    size = (min(height, tile) - 1) * apart + (-(-height // tile) - 1) * width + columns
    _check_axes(shape, {1: channels, 2: size}, min(*dims, width, apart))
    return TensorStructInfo([shape[0], *map(long, dims)], data.dtype)


@byte_image.numpy
def _(data, channels, height, columns, width, tile, apart):
    rows = np.arange(height)
    rows = rows % tile * apart + rows // tile * width
    pixels = rows[:, None] + np.arange(columns)
    return np.ascontiguousarray(data[:, :channels, pixels])


def _check_axes(shape: Sequence[PrimExpr], least: dict[int, int], lowest: int) -> None:
    """Check that the elements read of each axis are within it."""
    if lowest < 0:
        raise ValueError(explain("extents and places must be 0 or more", got=str(lowest)))
    for axis, size in least.items():
        if shorter(shape[axis], size):
            what = f"axis {axis} of data must be of at least {size}"
            raise ValueError(explain(what, got=text(shape[axis])))


def _random(low: int, high: int, shape: Sequence[int], dtype: str) -> np.ndarray:
    return np.random.default_rng(shape).integers(low, high, shape).astype(dtype)


byte_image.samples(
    case((2, 3, 20), channels=2, height=3, columns=4, width=6),
    case((2, 3, 38), channels=3, height=5, columns=4, width=6, tile=3, apart=14),
)
byte_winograd_weight.samples(
    case(_random(-128, 128, (5, 3, 3, 3), "int8"), tile=2),
    case(_random(-128, 128, (8, 4, 3, 3), "int8"), tile=4),
)
byte_winograd_tiles.samples(
    case(
        _random(0, 256, (2, 3, 7, 9), "uint8"), np.uint8(7),
        before=[1, 1], tile=2, rows=4, columns=5,
    ),
    case(
        _random(0, 256, (1, 4, 15, 30), "uint8"), np.uint8(7),
        before=[1, 0], tile=4, rows=4, columns=8,
    ),
)  # fmt: skip
byte_winograd.samples(
    case(
        _random(-1020, 1021, (2, 16, 3, 2, 16), "int16"), _random(-1152, 1153, (2, 16, 16), "int16"),
        tile=2, rows=4, columns=5,
    ),
    case(
        _random(-9000, 9001, (1, 36, 4, 1, 16), "int16"), _random(-900, 901, (1, 36, 8), "int16"),
        tile=4, rows=5, columns=6,
    ),
)  # fmt: skip
byte_winograd_bytes.samples(
    case(
        _random(-1020, 1021, (1, 16, 4, 3, 16), "int16"), _random(-1152, 1153, (1, 16, 24), "int16"),
        np.array([5, -300, 0, 90], np.int32), np.random.default_rng(0).uniform(1e-6, 1e-5, 4).astype(np.float32),
        np.int8(-3), tile=2, rows=3, columns=9, out_dtype="int8",
    ),
)  # fmt: skip
