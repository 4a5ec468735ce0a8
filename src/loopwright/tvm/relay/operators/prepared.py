"""Convolutions by weights that were prepared for an algorithm: Winograd's, or a product of matrices.

The transformation has an inverse, so the convolution is the usual one of the original weight: its
kernels are chosen for the target. A prepared weight that is a constant is taken back at build time.
References: Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray, "Fast Algorithms for
Convolutional Neural Networks", CVPR 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....base.errors import explain
from ....ir.dtype import DataType
from ....ir.prim_expr import IntImm
from ....ops.blocks import extent
from ....ops.core import FUSABLE
from ....ops.winograd import transforms
from ....relax import expr as rx
from ....tir import layout as layout_of
from . import layouts
from .common import LETTERS, windows
from .conv import conv_by, conv_options, wide
from .core import Input, R, Row, builder, op
from .transform import dims_of

# ---------------------------------------------------------------------- Winograd


def _along(tensor: rx.Var | Input, axes: list[int], matrices: list[Any]) -> Any:
    """A tensor times a matrix along each of these axes."""
    bb, rank = builder(), len(dims_of(tensor))
    kind = str(tensor.struct_info.dtype)
    for axis, matrix in zip(axes, matrices, strict=True):
        order = [n for n in range(rank) if n != axis] + [axis]
        back = [order.index(n) for n in range(rank)]
        last = bb.emit(R.permute_dims(tensor, order))
        product = bb.emit(R.matmul(last, rx.const(matrix.T.astype(kind), kind)))
        tensor = bb.emit(R.permute_dims(product, back))
    return tensor


def _of_depth(size: int) -> bool:
    """Whether the depth of a filter is transformed, too."""
    return 2 < int(size) < 8


def _filters(rank: int, sizes: list[int], tile: int, dtype: str) -> list[Any]:
    """The transform of each spatial axis, None for a depth that stays."""
    if not DataType(dtype).is_float:
        what = "weights prepared for Winograd's algorithm are floating numbers"
        raise ValueError(explain(what, got=dtype, instead="use nn.conv2d"))
    if tile < 1 or any(size < 2 for size in sizes[-2:]):
        what = "Winograd's algorithm takes tiles of at least 1, and windows of at least 2"
        raise ValueError(explain(what, got=f"tile_size {tile}, windows {sizes}"))
    stays = rank == 3 and not _of_depth(sizes[0])
    return [None if stays and n == 0 else transforms(tile, k).window for n, k in enumerate(sizes)]


def _winograd(rank: int) -> Row:
    @op(
        f"nn.contrib_conv{rank}d_winograd_weight_transform",
        attrs="ConvWinogradWeightTransformAttrs",
        kind=FUSABLE,
    )
    def transform(weight: Input, tile_size: int) -> Any:
        """A weight of plain layout for tiles of `tile_size` results: its spatial axes transformed and
        first."""
        sizes = [int(d) for d in dims_of(weight)[2:]]
        filters = _filters(rank, sizes, int(tile_size), str(weight.struct_info.dtype))
        axis_filters = [(n + 2, f) for n, f in enumerate(filters) if f is not None]
        transformed = _along(weight, [n for n, _ in axis_filters], [f for _, f in axis_filters])
        order = [n for n, _ in axis_filters] + [n + 2 for n, f in enumerate(filters) if f is None]
        return R.permute_dims(transformed, [*order, 0, 1])

    @op(
        f"nn.contrib_conv{rank}d_winograd_without_weight_transform",
        attrs=f"Conv{rank}DWinogradAttrs",
        options=conv_options(rank),
        kind=FUSABLE,
        layout=layouts.conv,
    )
    def conv(data: Input, weight: Input, tile_size: int, **options: Any) -> Any:
        """A convolution of data by a weight that `transform` prepared."""
        if options["kernel_size"] is None:
            raise ValueError(explain("the kernel_size of a prepared weight is needed", got="None"))
        sizes = [int(k) for k in options["kernel_size"]]
        filters = _filters(rank, sizes, int(tile_size), str(weight.struct_info.dtype))
        transformed_axes = [n for n, f in enumerate(filters) if f is not None]
        order = transformed_axes + [n for n in range(rank) if n not in transformed_axes]
        inverse = [np.linalg.pinv(filters[n]) for n in transformed_axes]
        untransformed = _along(weight, list(range(len(transformed_axes))), inverse)
        perm = [rank, rank + 1, *(order.index(n) for n in range(rank))]
        plain = builder().emit(R.permute_dims(untransformed, perm))
        return conv_by(rank, data, plain, options, f"OI{LETTERS[rank]}")

    conv.build(lambda **attrs: windows(attrs, rank, "strides", "dilation", "kernel_size"))
    return conv


_winograd(2)
_winograd(3)

# ---------------------------------------------------------------------- products of matrices


@op("nn.contrib_conv2d_gemm_weight_transform", attrs="ConvGemmWeightTransformAttrs", kind=FUSABLE)
def gemm_weight_transform(weights: Input, tile_N: int, tile_K: int) -> Any:
    """A weight HWIO as the matrix of its window and channels (K) by its filters (N), filled up with
    zeros to tiles, a tile after another; one of integers of 8 bits with tiles transposed."""
    *window, filters = dims_of(weights)
    rows = int(np.prod([int(d) for d in window]))
    matrix = builder().emit(R.reshape(weights, [rows, filters]))
    grow = [-rows % (4 * tile_K), -int(filters) % tile_N]
    if any(grow):
        matrix = builder().emit(R.nn.pad(matrix, [0, grow[0], 0, grow[1]]))
    k, n = (rows + grow[0]) // tile_K, (int(filters) + grow[1]) // tile_N
    tiles = builder().emit(R.reshape(matrix, [k, tile_K, n, tile_N]))
    return R.permute_dims(tiles, [2, 0, 3, 1] if _small(weights) else [2, 0, 1, 3])


def _small(weights: Any) -> bool:
    dtype = DataType(weights.struct_info.dtype)
    return dtype.is_integer and dtype.bits == 8


@op("nn.contrib_conv2d_gemm_without_weight_transform", attrs="Conv2DAttrs", options=conv_options(2),
    kind=FUSABLE, layout=layouts.conv)  # fmt: skip
def gemm_conv2d(data: Input, weight: Input, **options: Any) -> Any:
    """A convolution of data by a weight that `contrib_conv2d_gemm_weight_transform` prepared."""
    kernel_size, channels = options["kernel_size"], options["channels"]
    if kernel_size is None or channels is None:
        what = "the kernel_size and the channels of a prepared weight are needed"
        raise ValueError(explain(what, got=f"kernel_size={kernel_size}, channels={channels}"))
    depth = extent(layout_of(options["data_layout"]), dims_of(data), "C")
    if not isinstance(depth, IntImm):
        raise ValueError(explain("the channels of the data are a number", got=str(depth)))
    back = [1, 3, 0, 2] if _small(weight) else [1, 2, 0, 3]
    matrix_order = builder().emit(R.permute_dims(weight, back))
    a, b, c, d = (int(size) for size in dims_of(matrix_order))
    matrix = builder().emit(R.reshape(matrix_order, [a * b, c * d]))
    shape = [
        int(kernel_size[0]),
        int(kernel_size[1]),
        depth.value // options["groups"],
        int(channels),
    ]
    rows = shape[0] * shape[1] * shape[2]
    cut = builder().emit(R.strided_slice(matrix, [0, 1], [0, 0], [rows, shape[3]]))
    plain = builder().emit(R.reshape(cut, shape))
    data, plain = map(builder().emit, wide(data, plain, options["out_dtype"]))
    return conv_by(2, data, plain, options, "HWIO")


gemm_conv2d.build(lambda **attrs: windows(attrs, 2, "strides", "dilation", "kernel_size"))
