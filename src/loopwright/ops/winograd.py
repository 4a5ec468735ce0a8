"""Convolutions by Winograd's algorithm: tiles of m x m results from products instead of windows.

    y = A^T ((G g G^T) * (B^T d B)) A       d: a tile of (m + 2) x (m + 2) pixels, g: a window of 3 x 3

Of C channels, the products are (m + 2)^2 matrix products over C: 4 multiplications for a result if m is 2,
2.25 if m is 4, instead of 9. References: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and
Gray, "Fast Algorithms for Convolutional Neural Networks", 2016.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, reduce
from typing import NamedTuple

import numpy as np

from .. import te, tir
from ..base.errors import explain
from ..ir.prim_expr import PrimExpr
from ..ir.prim_op import add, ceildiv, const, floordiv, floormod, multiply
from .common import compute
from .core import case, op
from .extents import check_columns, check_multiple, extents_of, simplify
from .params import Ints, Tensor

MARK = "winograd_tile"  # of a block: the results of a tile along an axis


class Transforms(NamedTuple):
    """The matrices of F(tile, size), as above: those of results (A^T), data (B^T) and windows (G)."""

    results: np.ndarray
    data: np.ndarray
    window: np.ndarray


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


def row_of(matrix: np.ndarray, at: PrimExpr, term: Callable[[int], PrimExpr]) -> PrimExpr:
    """Row `at` of a matrix of constants by a column, whose elements `term` returns by number."""
    rows = []
    for row in matrix:
        parts = [term(k) if v == 1 else term(k) * v.item() for k, v in enumerate(row) if v]
        rows.append(reduce(add, parts))
    value = rows[-1]
    for k in range(len(rows) - 2, -1, -1):
        value = tir.if_then_else(at == k, rows[k], value)
    return value


def along(matrix: np.ndarray, tensor: te.Tensor, axis: int) -> Callable[..., PrimExpr]:
    """The elements of a matrix times a tensor along an axis."""
    return lambda *at: row_of(matrix, at[axis], lambda k: tensor(*at[:axis], k, *at[axis + 1 :]))


@op("relax.nn.winograd_weight")
def winograd_weight(weight: Tensor, tile: int, block: int):
    """Windows (outputs, inputs, 3, 3) as matrices (m * m, inputs, outputs) with m = tile + 2: G g G^T. Zeros fill
    blocks of inputs and outputs."""
    kernels = extents_of(weight, "weight", None, None, 3, 3)
    outputs, inputs = (simplify(multiply(ceildiv(d, block), block)) for d in kernels[:2])
    matrix, count = transforms(tile).window, tile + 2

    def window(k, c, a, b):
        inside = tir.all(k < weight.shape[0], c < weight.shape[1])
        return tir.if_then_else(inside, weight(k, c, a, b), const(0, weight.dtype))

    filled = compute([outputs, inputs, 3, 3], window, "winograd_window")
    half = compute([outputs, inputs, count, 3], along(matrix, filled, 2), "winograd_rows")
    whole = compute([outputs, inputs, count, count], along(matrix, half, 3), "winograd_cols")

    def cell(at, c, k):
        return whole(k, c, floordiv(at, count), floormod(at, count))

    return compute([count * count, inputs, outputs], cell, "winograd_weight")


@winograd_weight.numpy
def _(weight, tile, block):
    outputs, inputs = weight.shape[:2]
    fill = [(0, -d % block) for d in (outputs, inputs)]
    matrix = transforms(tile).window
    tiles = np.einsum("ay,bx,kcyx->abck", matrix, matrix, weight.astype("float64"), optimize=True)
    tiles = np.pad(tiles, [(0, 0), (0, 0), fill[1], fill[0]])
    return np.ascontiguousarray(
        tiles.reshape((tile + 2) ** 2, *tiles.shape[2:]).astype(weight.dtype)
    )


@op("relax.nn.winograd_tiles", alone=True)
def winograd_tiles(data: Tensor, tile: int, padding: Ints):
    """(n, blocks, rows, cols, block) as (m, m, n, tiles, tiles, channels) with m = tile + 2: B^T d B of the tiles of
    pixels that overlap by 2. padding: pixels of zeros at the top, left, bottom and right."""
    n, blocks, rows, cols, block = data.shape
    matrix, count = transforms(tile).data, tile + 2
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
        return tir.if_then_else(inside, value, const(0, data.dtype))

    pixels = _step(shape, pixel, "winograd_pixels", tile)
    half = _step(shape, along(matrix, pixels, 0), "winograd_rows", tile)
    return _step(shape, along(matrix, half, 1), "winograd_tiles", tile)


@winograd_tiles.numpy
def _(data, tile, padding):
    _, _, rows, cols, _ = data.shape
    top, left, bottom, right = padding
    high, wide = -(-(rows + top + bottom - 2) // tile), -(-(cols + left + right - 2) // tile)
    more = [tile * high + 2 - rows - top, tile * wide + 2 - cols - left]
    filled = np.pad(data, [(0, 0), (0, 0), (top, more[0]), (left, more[1]), (0, 0)])
    views = np.lib.stride_tricks.sliding_window_view(filled, (tile + 2, tile + 2), (2, 3))
    views = views[:, :, ::tile, ::tile]  # n, blocks, high, wide, block, m, m
    matrix = transforms(tile).data.astype(data.dtype)
    tiles = np.einsum("ay,bx,ncpqlyx->abnpqcl", matrix, matrix, views)
    return tiles.reshape(*tiles.shape[:5], tiles.shape[5] * tiles.shape[6])


@op("relax.nn.winograd_join")
def winograd_join(products: Tensor, tile: int, sides: Ints, block: int):
    """(m, m, n, tiles, tiles, channels) with m = tile + 2 as (n, blocks, rows, cols, block): A^T p A of each tile.
    sides: rows and cols."""
    m = tile + 2
    _, count, n, high, wide, channels = extents_of(products, "products", m, m, *[None] * 4)
    check_multiple(channels, block, "the channels")
    check_columns(simplify(multiply(high, tile)), last_row=sides[0] - 1)
    check_columns(simplify(multiply(wide, tile)), last_column=sides[1] - 1)
    matrix = transforms(tile).results
    shape = [tile, count, n, high, wide, channels]
    half = _step(shape, along(matrix, products, 0), "winograd_rows", tile)

    def pixel(*index):
        i, c, y, x, inner = index
        at = (i, floordiv(y, tile), floordiv(x, tile), c * block + inner)
        return row_of(matrix, floormod(x, tile), lambda k: half(floormod(y, tile), k, *at))

    shape = [n, simplify(floordiv(channels, block)), *sides, block]
    return _step(shape, pixel, "winograd_join", tile)


def _step(shape, cell, name, tile):
    axes = [f"i{k}" for k in range(len(shape))]
    return te.compute(shape, cell, name=name, attrs={MARK: tile}, varargs_names=axes)


@winograd_join.numpy
def _(products, tile, sides, block):
    matrix = transforms(tile).results.astype(products.dtype)
    parts = products.reshape(*products.shape[:5], products.shape[5] // block, block)
    pixels = np.einsum("ya,xb,abnpqcl->ncpyqxl", matrix, matrix, parts)
    n, c, high, _, wide, *_ = pixels.shape
    whole = pixels.reshape(n, c, high * tile, wide * tile, block)
    return np.ascontiguousarray(whole[:, :, : sides[0], : sides[1]])


winograd_weight.samples(case((5, 3, 3, 3), tile=2, block=4), case((4, 4, 3, 3), tile=4, block=4))
winograd_tiles.samples(
    case((2, 2, 5, 7, 4), tile=2, padding=[1, 1, 1, 1]),
    case((1, 1, 6, 8, 4), tile=4, padding=[0, 1, 2, 0]),
)
winograd_join.samples(
    case((4, 4, 2, 3, 2, 8), tile=2, sides=[5, 4], block=4),
    case((6, 6, 1, 2, 1, 4), tile=4, sides=[8, 3], block=4),
)
