"""Convolutions by Winograd's algorithm: tiles of m x m results from products instead of windows.

    y = A^T ((G g G^T) * (B^T d B)) A       d: a tile of (m + 2) x (m + 2) pixels, g: a window of 3 x 3

Of C channels, the products are (m + 2)^2 matrix products over C: 4 multiplications for a result if m is 2,
2.25 if m is 4, instead of 9. Of bytes it is exact: with the matrices in whole numbers tiles and windows fit int16,
products are added in int32, modulo 2**32, and results are multiples of `unit` squared. The odd factor of that is
divided out modulo 2**32; by the factor left, a power of 2, results must be smaller than int32. References: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and
Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import Any, NamedTuple

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.dtype import DataType, numpy_dtype
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import add, cast, ceildiv, const, floordiv, floormod, multiply, subtract
from .common import compute
from .core import case, op
from .extents import check_columns, check_multiple, extents_of, simplify
from .integer import random_bytes
from .params import Ints, Tensor

MARK = "winograd_tile"  # of a block: the results of a tile along an axis


class Transforms(NamedTuple):
    """The matrices of F(tile, size), as above: those of results (A^T), data (B^T) and windows (G). They give the
    results times unit**2."""

    results: np.ndarray
    data: np.ndarray
    window: np.ndarray
    unit: int = 1


@cache
def transforms(tile: int, size: int = 3) -> Transforms:
    """F(tile, size) at tile + size - 2 points and at infinity; the rows of G are divided by a point's
    distances to the others. Raises ValueError for a tile or a window of nothing."""
    if tile < 1 or size < 1:
        what = "a tile and a window are of 1 or more"
        raise ValueError(explain(what, got=f"tile {tile}, window {size}"))
    points = [0.0]
    step = 1.0
    while len(points) < tile + size - 2:
        points += [step, -step] if step == 1 else [step, -step, 1 / step, -1 / step]
        step *= 2
    points = points[: tile + size - 2]
    others = [[b for m, b in enumerate(points) if m != n] for n in range(len(points))]
    poly = lambda roots: [*np.atleast_1d(np.poly(roots))[::-1]]  # noqa: E731  (of none it is a scalar)
    data = [[*poly(rest), 0.0] for rest in others] + [poly(points)]
    scale = [np.prod([a - b for b in rest]) for a, rest in zip(points, others, strict=True)]
    window = [[a**k / s for k in range(size)] for a, s in zip(points, scale, strict=True)]
    results = [[a**k for a in points] + [float(k == tile - 1)] for k in range(tile)]
    last = [0.0] * (size - 1) + [1.0]
    return Transforms(np.array(results), np.array(data), np.array([*window, last]))


@cache
def whole(tile: int) -> Transforms:
    """The matrices of F(tile, 3) in whole numbers: G without its rows' divisors, which A^T has instead, except odd
    factors, so that A^T has powers of 2. Raises ValueError for tiles whose tiles and windows do not fit int16."""
    if tile not in (2, 4):
        raise ValueError(explain("a tile of bytes is of 2 or 4", got=str(tile)))
    real = transforms(tile)
    divisors = np.array([*np.rint(1 / real.window[:-1, 0]), 1]).astype(np.int64)
    unit = np.lcm.reduce(divisors)
    factors = unit // divisors
    powers = np.sign(factors) * (factors & -factors)
    window = np.rint(real.window * (divisors * (factors // powers))[:, None]).astype(np.int64)
    results, data = (m.astype(np.int64) for m in (real.results * powers, real.data))
    return Transforms(results, data, window, int(unit))


def matrices(tile: int, dtype: DataType | str) -> Transforms:
    """The matrices for data, windows or products of a dtype."""
    return whole(tile) if DataType(dtype).is_integer else transforms(tile)


def divided(value: Any, unit: int) -> Any:
    """value / unit**2 of int32 modulo 2**32: an expression, or a numpy array."""
    square = unit * unit
    shift = (square & -square).bit_length() - 1
    # Modulo 2**32 an odd number has an inverse: a multiple of it is divided by one product.
    inverse = pow(square >> shift, -1, 1 << 32)
    inverse -= inverse >> 31 << 32
    if isinstance(value, np.ndarray):
        return (value * inverse).astype(np.int32) >> np.int32(shift)
    return (value * const(inverse, "int32") if inverse != 1 else value) >> const(shift, "int32")


def _sum(row: np.ndarray, term: Callable[[int], PrimExpr]) -> PrimExpr:
    """A sum of terms times constants. Of whole numbers, those with constants of the same size are added first: sums
    that rows for points a and -a have in common. Of float32 that order is less exact (2.1e-5 instead of 1.4e-5)."""
    if row.dtype.kind == "f":
        return reduce(
            add, [term(k) if v == 1 else term(k) * v.item() for k, v in enumerate(row) if v]
        )
    groups: dict[Any, list[int]] = {}
    for k in np.flatnonzero(row):
        groups.setdefault(abs(row[k]), []).append(int(k))
    parts = []
    for size, at in groups.items():
        sign = row[at[0]] > 0
        value = term(at[0])
        for k in at[1:]:
            value = add(value, term(k)) if (row[k] > 0) == sign else subtract(value, term(k))
        parts.append((sign, value if size == 1 else value * size.item()))
    parts.sort(key=lambda part: not part[0])
    (sign, total), *rest = parts
    total = total if sign else -total
    for sign, value in rest:
        total = add(total, value) if sign else subtract(total, value)
    return total


def row_of(matrix: np.ndarray, at: PrimExpr, term: Callable[[int], PrimExpr]) -> PrimExpr:
    """Row `at` of a matrix of constants by a column, whose elements `term` returns by number."""
    rows = [_sum(row, term) for row in matrix]
    value = rows[-1]
    for k in range(len(rows) - 2, -1, -1):
        value = tir.if_then_else(at == k, rows[k], value)
    return value


def along(matrix: np.ndarray, tensor: te.Tensor, axis: int) -> Callable[..., PrimExpr]:
    """The elements of a matrix times a tensor along an axis."""
    return lambda *at: row_of(matrix, at[axis], lambda k: tensor(*at[:axis], k, *at[axis + 1 :]))


@op("relax.nn.winograd_weight")
def winograd_weight(weight: Tensor, tile: int, block: int):
    """Windows (outputs, inputs, 3, 3) as matrices (m * m, inputs, outputs) with m = tile + 2: G g G^T, of int8 in int16.
    Zeros fill blocks of inputs and outputs."""
    kernels = extents_of(weight, "weight", None, None, 3, 3)
    outputs, inputs = (simplify(multiply(ceildiv(d, block), block)) for d in kernels[:2])
    matrix, count = matrices(tile, weight.dtype).window, tile + 2
    kind = _kind(weight.dtype)

    def window(k, c, a, b):
        inside = tir.all(k < weight.shape[0], c < weight.shape[1])
        return tir.if_then_else(inside, cast(kind, weight(k, c, a, b)), const(0, kind))

    filled = compute([outputs, inputs, 3, 3], window, "winograd_window")
    half = compute([outputs, inputs, count, 3], along(matrix, filled, 2), "winograd_rows")
    whole = compute([outputs, inputs, count, count], along(matrix, half, 3), "winograd_cols")

    def cell(at, c, k):
        return whole(k, c, floordiv(at, count), floormod(at, count))

    return compute([count * count, inputs, outputs], cell, "winograd_weight")


def _kind(dtype: DataType | str) -> DataType:
    """The dtype of tiles and windows."""
    return DataType("int16") if DataType(dtype).is_integer else DataType(dtype)


@winograd_weight.numpy
def _(weight, tile, block):
    outputs, inputs = weight.shape[:2]
    fill = [(0, -d % block) for d in (outputs, inputs)]
    matrix = matrices(tile, str(weight.dtype)).window
    tiles = np.einsum(
        "ay,bx,kcyx->abck", matrix, matrix, weight.astype(matrix.dtype), optimize=True
    )
    tiles = np.pad(tiles, [(0, 0), (0, 0), fill[1], fill[0]])
    tiles = tiles.reshape((tile + 2) ** 2, *tiles.shape[2:])
    return np.ascontiguousarray(tiles.astype(numpy_dtype(_kind(str(weight.dtype)))))


@op("relax.nn.winograd_tiles", alone=True)
def winograd_tiles(data: Tensor, zero: Tensor, tile: int, padding: Ints):
    """(n, blocks, rows, cols, block) as (m, m, n, tiles, tiles, channels) with m = tile + 2: B^T d B of the tiles of
    pixels that overlap by 2, of bytes in int16. padding: pixels of `zero` at the top, left, bottom and right."""
    n, blocks, rows, cols, block = data.shape
    matrix, count, kind = matrices(tile, data.dtype).data, tile + 2, _kind(data.dtype)
    fill = zero() if isinstance(zero, te.Tensor) else zero
    top, left, bottom, right = padding
    high, wide = (
        simplify(ceildiv(add(x, more - 2), tile))
        for x, more in ((rows, top + bottom), (cols, left + right))
    )
    shape = [count, count, n, high, wide, simplify(multiply(blocks, block))]

    def pixel(*at):
        a, b, i, p, q, c = at
        y, x = p * tile + a - top, q * tile + b - left
        value = data(i, floordiv(c, block), y, x, floormod(c, block))
        inside = tir.all(y >= 0, y < rows, x >= 0, x < cols)
        return cast(kind, tir.if_then_else(inside, value, fill))

    pixels = _step(shape, pixel, "winograd_pixels", tile)
    half = _step(shape, along(matrix, pixels, 0), "winograd_rows", tile)
    return _step(shape, along(matrix, half, 1), "winograd_tiles", tile)


@winograd_tiles.numpy
def _(data, zero, tile, padding):
    _, _, rows, cols, _ = data.shape
    top, left, bottom, right = padding
    high, wide = -(-(rows + top + bottom - 2) // tile), -(-(cols + left + right - 2) // tile)
    more = [tile * high + 2 - rows - top, tile * wide + 2 - cols - left]
    sides = [(0, 0), (0, 0), (top, more[0]), (left, more[1]), (0, 0)]
    filled = np.pad(data, sides, constant_values=zero)
    views = np.lib.stride_tricks.sliding_window_view(filled, (tile + 2, tile + 2), (2, 3))
    views = views[:, :, ::tile, ::tile]  # n, blocks, high, wide, block, m, m
    kind = numpy_dtype(_kind(str(data.dtype)))
    matrix = matrices(tile, str(data.dtype)).data.astype(kind)
    tiles = np.einsum("ay,bx,ncpqlyx->abnpqcl", matrix, matrix, views)
    return tiles.reshape(*tiles.shape[:5], tiles.shape[5] * tiles.shape[6])


@op("relax.nn.winograd_join")
def winograd_join(products: Tensor, tile: int, sides: Ints, block: int):
    """(m, m, n, tiles, tiles, channels) with m = tile + 2 as (n, blocks, rows, cols, block): A^T p A of each tile.
    sides: rows and cols. Products in int32 are of bytes."""
    if products.dtype.is_integer and products.dtype != "int32":
        hint = "int32, which is divided modulo 2**32, or floats"
        raise TypeError(explain("products of this type", got=products.dtype, instead=hint))
    m = tile + 2
    _, count, n, high, wide, channels = extents_of(products, "products", m, m, *[None] * 4)
    check_multiple(channels, block, "the channels")
    check_columns(simplify(multiply(high, tile)), last_row=sides[0] - 1)
    check_columns(simplify(multiply(wide, tile)), last_column=sides[1] - 1)
    matrix, _, _, unit = matrices(tile, products.dtype)
    shape = [tile, count, n, high, wide, channels]
    half = _step(shape, along(matrix, products, 0), "winograd_rows", tile)

    def pixel(*index):
        i, c, y, x, inner = index
        at = (i, floordiv(y, tile), floordiv(x, tile), c * block + inner)
        value = row_of(matrix, floormod(x, tile), lambda k: half(floormod(y, tile), k, *at))
        return value if unit == 1 else divided(value, unit)

    shape = [n, simplify(floordiv(channels, block)), *sides, block]
    return _step(shape, pixel, "winograd_join", tile)


def _step(shape, cell, name, tile):
    axes = [f"i{k}" for k in range(len(shape))]
    return te.compute(shape, cell, name=name, attrs={MARK: tile}, varargs_names=axes)


@winograd_join.numpy
def _(products, tile, sides, block):
    matrix, _, _, unit = matrices(tile, str(products.dtype))
    matrix = matrix.astype(products.dtype)
    parts = products.reshape(*products.shape[:5], products.shape[5] // block, block)
    pixels = np.einsum("ya,xb,abnpqcl->ncpyqxl", matrix, matrix, parts)
    pixels = pixels if unit == 1 else divided(pixels, unit)
    n, c, high, _, wide, *_ = pixels.shape
    whole = pixels.reshape(n, c, high * tile, wide * tile, block)
    return np.ascontiguousarray(whole[:, :, : sides[0], : sides[1]])


winograd_weight.samples(
    case((5, 3, 3, 3), tile=2, block=4),
    case((4, 4, 3, 3), tile=4, block=4),
    *(case(random_bytes(5, 3, 3, 3, dtype="int8"), tile=tile, block=4) for tile in (2, 4)),
)
winograd_tiles.samples(
    case((2, 2, 5, 7, 4), np.float32(0), tile=2, padding=[1, 1, 1, 1]),
    case((1, 1, 6, 8, 4), np.float32(0), tile=4, padding=[0, 1, 2, 0]),
    case(random_bytes(2, 2, 5, 7, 4), np.uint8(7), tile=2, padding=[1, 1, 1, 1]),
    case(random_bytes(1, 1, 6, 8, 4, dtype="int8"), np.int8(-3), tile=4, padding=[0, 1, 2, 0]),
)
winograd_join.samples(
    case((4, 4, 2, 3, 2, 8), tile=2, sides=[5, 4], block=4),
    case((6, 6, 1, 2, 1, 4), tile=4, sides=[8, 3], block=4),
    case(np.arange(768).reshape(4, 4, 2, 3, 2, 4).astype("int32"), tile=2, sides=[5, 4], block=4),
    case(
        np.arange(288).reshape(6, 6, 1, 2, 1, 4).astype("int32") * 9999999,
        tile=4,
        sides=[8, 3],
        block=4,
    ),
)
